/* blocks.c: which blocks go to which chunk of the pipeline.
 *
 * The slowest chunk sets the pace of all, so its cost is what is made small: the least bound under which runs of blocks
 * fit into the chunks, exactly. Many divisions keep that bound; of these the one with the least sum of squared costs is
 * taken, so that the other chunks are even too, and of equal ones the one with more blocks in earlier chunks, since the
 * embedding costs nothing and the head much. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/parts.h"

/* ---- by cost ----------------------------------------------------------------------------------------------------- */

/* `sum` has the costs of the blocks before each block: a run [i, j) costs sum[j] − sum[i]. */
static bool fits(const double *sum, int n, int chunks, double bound) {
    int used = 1, begin = 0;
    for (int i = 0; i < n; i++) {
        if (sum[i + 1] - sum[begin] <= bound) continue;
        if (sum[i + 1] - sum[i] > bound || ++used > chunks) return false;
        begin = i;
    }
    return true;
}

/* The least number under which it fits: halving until there is no number between. */
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

/* A run's cost in units of 1 / 2^20 of all: whole numbers, whose squares are added without rounding. */
static uint64_t square(const uint64_t *units, int i, int j) {
    uint64_t cost = units[j] - units[i];
    return cost * cost;
}

/* best[c][i]: least sum of squares of blocks i … n−1 in c chunks, each within the bound; size[c][i]: blocks of the
 * first of them. */
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

ls_status ls_layout_divide_by_cost(const double *cost, int n, int chunks, int *first) {
    size_t width = (size_t)n + 1, cells = (size_t)(chunks + 1) * width;
    double *sum = calloc(width, sizeof *sum);
    uint64_t *units = calloc(width, sizeof *units), *best = calloc(cells, sizeof *best);
    int *size = calloc(cells, sizeof *size);
    ls_status status = LS_OK;
    if (!sum || !units || !best || !size) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory to divide %d blocks into stages", n);
        goto out;
    }
    for (int i = 0; i < n; i++) sum[i + 1] = sum[i] + cost[i];
    double unit = sum[n] > 0 ? UNITS / sum[n] : 0;
    for (int i = 0; i < n; i++) units[i + 1] = units[i] + (uint64_t)(cost[i] * unit + 0.5);
    fill_tables(sum, units, n, chunks, least_bound(sum, n, chunks), best, size);
    first[0] = 0;
    for (int c = 0; c < chunks; c++) first[c + 1] = first[c] + size[(size_t)(chunks - c) * width + (size_t)first[c]];
out:
    free(sum);
    free(units);
    free(best);
    free(size);
    return status;
}

/* Backward costs each block the same multiple of its forward, and every sequence costs the same: neither matters. */
static ls_status by_cost(const ls_layout_task *task, ls_layout *layout) {
    const ls_model *model = task->model;
    double *cost = calloc((size_t)model->nblocks, sizeof *cost);
    if (!cost) return ls_fail(LS_ERR_RESOURCE, "out of memory to divide %d blocks into stages", model->nblocks);
    for (int b = 0; b < model->nblocks; b++) {
        ls_block_cost one = ls_model_block_cost(model, &task->policy, b, 1, task->T);
        cost[b] = one.product_flops + one.attention_flops;
    }
    ls_status status = ls_layout_divide_by_cost(cost, model->nblocks, ls_layout_chunks(layout), layout->chunk_first);
    free(cost);
    return status;
}

/* ---- by count and by hand ---------------------------------------------------------------------------------------- */

static void by_count(int n, ls_layout *layout) {
    int chunks = ls_layout_chunks(layout);
    for (int c = 0; c <= chunks; c++) layout->chunk_first[c] = n / chunks * c + (c < n % chunks ? c : n % chunks);
}

static ls_status by_hand(const char *stages, const ls_layout_task *task, ls_layout *layout) {
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
    LS_TRY(by_cost(task, layout));
    for (int c = 0; c < chunks; c++) blocks[c] = layout->chunk_first[c + 1] - layout->chunk_first[c];
    ls_layout_list_text(blocks, chunks, better, sizeof better);
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
    if (!stages || strcmp(stages, "cost") == 0) return by_cost(task, layout);
    if (strcmp(stages, "count") != 0) return by_hand(stages, task, layout);
    by_count(task->model->nblocks, layout);
    return LS_OK;
}
