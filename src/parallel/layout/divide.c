/* divide.c: which blocks of the model go to which chunk (a run of blocks that a pipeline stage computes), and how many
 * gradient groups (fixed parts of the batch) to each replica. The one place where a model is divided: the planner
 * predicts with it and a run is made with it.
 *
 * By cost: the slowest chunk sets the pace of all, so its cost is what is made small: the least bound under which runs
 * of blocks fit into the chunks, exactly. Many divisions keep that bound; of these the one with the least sum of
 * squared costs is taken, so that the other chunks are even too, and of equal ones the one with more blocks in earlier
 * chunks, since the embedding costs nothing and the head much. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/make.h"

/* ---- by cost ----------------------------------------------------------------------------------------------------- */

/* Returns whether n blocks, in order, fit into `chunks` chunks of cost `bound` at most. `sum` has the costs of the
 * blocks before each block: a run [i, j) costs sum[j] − sum[i]. */
static bool fits(const double *sum, int n, int chunks, double bound) {
    int used = 1, begin = 0;
    for (int i = 0; i < n; i++) {
        if (sum[i + 1] - sum[begin] <= bound) continue;
        if (sum[i + 1] - sum[i] > bound || ++used > chunks) return false;
        begin = i;
    }
    return true;
}

/* Returns the least bound under which the blocks fit, by halving until there is no number between. */
static double least_bound(const double *sum, int n, int chunks) {
    double low = 0, high = sum[n];
    if (fits(sum, n, chunks, low)) return low;
    for (;;) {
        double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high) return high;
        if (fits(sum, n, chunks, middle))
            high = middle;
        else
            low = middle;
    }
}

enum { UNITS = 1 << 20 };

/* Returns the square of a run's cost, in units of 1 / 2^20 of all: whole numbers, whose squares are added without
 * rounding. */
static uint64_t square(const uint64_t *units, int i, int j) {
    uint64_t cost = units[j] - units[i];
    return cost * cost;
}

/* Fills two tables, by number of chunks c and first block i. best[c][i]: least sum of squares of blocks i … n−1 in c
 * chunks, each within the bound (UINT64_MAX: impossible); size[c][i]: blocks of the first of these chunks. */
static void fill_tables(const double *sum, const uint64_t *units, int n, int chunks, double bound, uint64_t *best,
                        int *size) {
    size_t width = (size_t)n + 1;
    for (size_t i = 0; i < (size_t)(chunks + 1) * width; i++) best[i] = UINT64_MAX;
    best[n] = 0;
    for (int c = 1; c <= chunks; c++) {
        for (int i = n - c; i >= 0; i--) {
            size_t at = (size_t)c * width + (size_t)i;
            for (int j = i + 1; j <= n - c + 1 && sum[j] - sum[i] <= bound; j++) {
                uint64_t rest = best[at - width + (size_t)(j - i)];
                if (rest == UINT64_MAX || rest + square(units, i, j) > best[at]) continue;
                best[at] = rest + square(units, i, j);
                size[at] = j - i;
            }
        }
    }
}

/* Divides blocks so that the costliest chunk costs least (see above); writes chunks + 1 bounds to `first`. */
static ls_status by_cost(const double *cost, int n, int chunks, int *first) {
    size_t width = (size_t)n + 1, cells = (size_t)(chunks + 1) * width;
    ls_region tables = {0};
    double *sum = ls_region_take(&tables, width, sizeof *sum);
    uint64_t *units = ls_region_take(&tables, width, sizeof *units);
    uint64_t *best = ls_region_take(&tables, cells, sizeof *best);
    int *size = ls_region_take(&tables, cells, sizeof *size);
    if (tables.is_short) {
        ls_region_free(&tables);
        return ls_fail(LS_ERR_RESOURCE, "out of memory to divide %d blocks into stages", n);
    }
    for (int i = 0; i < n; i++) sum[i + 1] = sum[i] + cost[i];
    double unit = sum[n] > 0 ? UNITS / sum[n] : 0;
    for (int i = 0; i < n; i++) units[i + 1] = units[i] + (uint64_t)(cost[i] * unit + 0.5);
    fill_tables(sum, units, n, chunks, least_bound(sum, n, chunks), best, size);
    first[0] = 0;
    for (int c = 0; c < chunks; c++) first[c + 1] = first[c] + size[(size_t)(chunks - c) * width + (size_t)first[c]];
    ls_region_free(&tables);
    return LS_OK;
}

/* ---- by count ---------------------------------------------------------------------------------------------------- */

/* Divides n blocks into numbers that differ by one at most, the larger ones first. */
static void by_count(int n, int chunks, int *first) {
    for (int c = 0; c <= chunks; c++) first[c] = n / chunks * c + (c < n % chunks ? c : n % chunks);
}

/* Divides layers as LS_DIVIDE_LAYERS says; `cost` has three entries: first block, a layer, last block. The first and
 * the last block go with the first and the last chunk, beside their layers. */
static void by_layers(const double *cost, int n, int chunks, int *first) {
    int layers = n - 2;
    for (int c = 0; c <= chunks; c++) first[c] = layers / chunks; /* of chunk c, until their sums are taken below */
    for (int left = layers % chunks; left > 0; left--) {
        int best = -1;
        double least = 0;
        for (int c = chunks - 1; c >= 0; c--) {
            double load = first[c] * cost[1] + (c == 0 ? cost[0] : 0) + (c == chunks - 1 ? cost[2] : 0);
            if (best < 0 || load < least) {
                best = c;
                least = load;
            }
        }
        first[best]++;
    }
    first[0]++;
    for (int c = 1; c < chunks; c++) first[c] += first[c - 1];
    for (int c = chunks; c > 0; c--) first[c] = first[c - 1];
    first[0] = 0;
    first[chunks] = n;
}

ls_status ls_layout_divide(ls_divide rule, const double *cost, int n, int chunks, int *first) {
    switch (rule) {
    case LS_DIVIDE_COUNT: by_count(n, chunks, first); return LS_OK;
    case LS_DIVIDE_LAYERS: by_layers(cost, n, chunks, first); return LS_OK;
    default: return by_cost(cost, n, chunks, first);
    }
}

/* ---- the blocks of a layout -------------------------------------------------------------------------------------- */

/* Divides the model's blocks by a rule, with the FLOPs of forward as cost. Backward costs each block the same multiple
 * of its forward, and every sequence costs the same: neither matters. */
static ls_status divide(ls_divide rule, const ls_layout_task *task, ls_layout *layout) {
    const ls_model *model = task->model;
    double *cost = calloc((size_t)model->nblocks, sizeof *cost);
    if (!cost) return ls_fail(LS_ERR_RESOURCE, "out of memory to divide %d blocks into stages", model->nblocks);
    for (int b = 0; b < model->nblocks; b++) {
        ls_block_cost one = ls_model_block_cost(model, &task->policy, b, 1, task->T);
        cost[b] = one.product_flops + one.attention_flops;
    }
    ls_status status = ls_layout_divide(rule, cost, model->nblocks, ls_layout_chunks(layout), layout->chunk_first);
    free(cost);
    return status;
}

/* Sets the chunks from a list such as "5,4,4"; an error proposes a division by cost. */
static ls_status blocks_by_hand(const char *stages, const ls_layout_task *task, ls_layout *layout) {
    const ls_model *model = task->model;
    int blocks[LS_CHUNKS_MAX], count, chunks = ls_layout_chunks(layout);
    int64_t sum = 0;
    char better[LS_LAYOUT_SHOWN];
    LS_TRY(ls_layout_list_parse("--stages", stages, "cost, count, or the number of blocks of each chunk, e.g. 5,4,4",
                                LS_CHUNKS_MAX, blocks, &count));
    for (int c = 0; c < count; c++) sum += blocks[c];
    if (count == chunks && sum == model->nblocks) {
        layout->chunk_first[0] = 0;
        for (int c = 0; c < chunks; c++) layout->chunk_first[c + 1] = layout->chunk_first[c] + blocks[c];
        return LS_OK;
    }
    if (count == 1 && layout->pp == 1)
        return ls_fail(
            LS_ERR_INPUT,
            "--stages %d: with one stage it can only be %d, the number of blocks; use --pp to set the number of stages",
            blocks[0], model->nblocks);
    LS_TRY(divide(LS_DIVIDE_COST, task, layout));
    ls_layout_blocks_text(layout->chunk_first, chunks, better, sizeof better);
    if (count != chunks)
        return ls_fail(
            LS_ERR_INPUT,
            "--stages %.*s lists %d chunks, but --pp %d with %d virtual stage%s has %d; use e.g. --stages %s",
            LS_LAYOUT_SHOWN, stages, count, layout->pp, layout->virtual_stages, layout->virtual_stages == 1 ? "" : "s",
            chunks, better);
    return ls_fail(
        LS_ERR_INPUT,
        "--stages %.*s sums to %lld, but %s has %d blocks (embedding, %zu layers, head); use e.g. --stages %s",
        LS_LAYOUT_SHOWN, stages, (long long)sum, model->shape.name, model->nblocks, model->shape.L, better);
}

ls_status ls_layout_divide_blocks(const char *stages, const ls_layout_task *task, ls_layout *layout) {
    if (!stages || strcmp(stages, "cost") == 0) return divide(LS_DIVIDE_COST, task, layout);
    if (strcmp(stages, "count") == 0) return divide(LS_DIVIDE_COUNT, task, layout);
    return blocks_by_hand(stages, task, layout);
}

/* ---- gradient groups --------------------------------------------------------------------------------------------- */

/* Gives one group after the other to the replica that would be done with it first: no other division ends earlier. */
void ls_layout_share_by_speed(const double *speeds, int rows, int n, int *share) {
    for (int d = 0; d < rows; d++) share[d] = 1;
    for (int given = rows; given < n; given++) {
        int next = 0;
        for (int d = 1; d < rows; d++)
            if ((share[d] + 1) / speeds[d] < (share[next] + 1) / speeds[next]) next = d;
        share[next]++;
    }
}

/* Sets the shares from measured speeds; LS_ERR_INPUT if one is not a positive number. */
static ls_status groups_by_speed(const double *speeds, const ls_layout_task *task, ls_layout *layout) {
    for (int d = 0; d < layout->dp; d++)
        if (!(speeds[d] > 0) || !isfinite(speeds[d]))
            return ls_fail(
                LS_ERR_INPUT,
                "--shares auto: the measured speed of data-parallel replica %d is %g; set the shares by hand", d,
                speeds[d]);
    ls_layout_share_by_speed(speeds, layout->dp, task->G, layout->share);
    return LS_OK;
}

/* Sets the shares from a list such as "3,2,2". */
static ls_status groups_by_hand(const char *shares, const ls_layout_task *task, ls_layout *layout) {
    int count;
    LS_TRY(ls_layout_list_parse(
        "--shares", shares,
        "auto, or the number of gradient groups of each data-parallel replica, at least 1 each, e.g. 3,2,2",
        LS_WORKERS_MAX, layout->share, &count));
    if (count == layout->dp) return ls_layout_check_shares(layout, task);
    char use[32] = "";
    if (count <= task->G) snprintf(use, sizeof use, "use --dp %d, or ", count);
    return ls_fail(LS_ERR_INPUT, "--shares %.*s lists %d share%s, but --dp is %d: %suse %d share%s", LS_LAYOUT_SHOWN,
                   shares, count, count == 1 ? "" : "s", layout->dp, use, layout->dp, layout->dp == 1 ? "" : "s");
}

ls_status ls_layout_divide_groups(const char *shares, const double *speeds, const ls_layout_task *task,
                                  ls_layout *layout) {
    bool is_auto = shares && strcmp(shares, "auto") == 0;
    if (shares && !is_auto) return groups_by_hand(shares, task, layout);
    if (is_auto && speeds) return groups_by_speed(speeds, task, layout);
    for (int d = 0; d < layout->dp; d++)
        layout->share[d] =
            (int)(ls_slice_begin((size_t)task->G, layout->dp, d + 1) - ls_slice_begin((size_t)task->G, layout->dp, d));
    return LS_OK;
}
