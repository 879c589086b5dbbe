/* token_sums.c: adds up groups as a tree, and computes the gradients of norm weights and biases: chains over the tokens
 * of a group, below that tree.
 *
 * A thread takes one token slice and a piece of the columns, and goes through all sequences: so slices, not columns,
 * are what is mainly divided, and a thread reads long stretches of whole rows. Its partial sums lie in its scratch:
 *
 *     | sum | chain | block | right operands of the tree, one for each level |      each of sums × piece numbers */
#include "device/cpu/ops/token_sums.h"

#include <assert.h>
#include <string.h>

#include "device/cpu/ops/staging.h"
#include "numerics/tree.h"

enum { LINE_FLOATS = 16, PIECE_MAX = 2048, PIECE_MIN = 64 };
/* Of a 16-bit tensor, what is widened at a time: as many rows as the kernels take together, in the first cache. */
enum { TILE_ROWS = 8, TILE_COLUMNS = 768 };

size_t ls_cpu_sum_levels(int count) {
    size_t levels = 0;
    for (; (1 << levels) < count; levels++) continue;
    return levels;
}

void ls_cpu_sum_groups(const ls_cpu_leaves *leaves, int first, int count, float *out, float *scratch) {
    if (count == 1) {
        leaves->leaf(leaves->ctx, first, out);
        return;
    }
    int left = ls_tree_left(count);
    ls_cpu_sum_groups(leaves, first, left, out, scratch);
    ls_cpu_sum_groups(leaves, first + left, count - left, scratch, scratch + leaves->elems);
    leaves->kernels->add.add_f32(out, out, scratch, leaves->elems);
}

/* All gradients of a call; a task is one token slice and one piece of the columns. */
typedef struct chain_job {
    const ls_cpu_chains *chains;
    const ls_kernels *kernels;
    size_t piece, pieces; /* columns of one, their number */
    float *scratch;
    size_t scratch_elems; /* of each thread */
} chain_job;

/* What a task adds up: tokens begin … end−1 of every sequence, n columns; `chain` and `block` are its scratch. */
typedef struct chain_task {
    const chain_job *job;
    size_t token_begin, token_end, column, n;
    float *chain, *block;
} chain_task;

/* Sets n floats to −0, the identity of addition: −0 + x = x even for x = −0, which +0 would turn into +0. */
static void fill_negative_zero(float *to, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = -0.0f;
}

/* Continues the chains in `to` over rows row … row+rows−1. */
static void chain_rows(const chain_task *t, float *to, size_t row, size_t rows) {
    const ls_cpu_chains *c = t->job->chains;
    const ls_kernels *kernels = t->job->kernels;
    float *const sums[2] = {to, to + t->n};
    if (c->act == LS_F32) {
        const float *dy = (const float *)c->dy + row * c->dy_stride + t->column;
        c->chain(kernels, c->args, sums, &(ls_cpu_tile){dy, c->dy_stride, row, rows, t->column, t->n});
        return;
    }
    _Alignas(64) float buffer[TILE_ROWS * TILE_COLUMNS];
    for (size_t i = 0; i < t->n; i += TILE_COLUMNS) {
        size_t columns = t->n - i < TILE_COLUMNS ? t->n - i : TILE_COLUMNS;
        float *const part[2] = {sums[0] + i, sums[1] + i};
        for (size_t r = 0; r < rows; r += TILE_ROWS) {
            ls_cpu_tile tile = {buffer, columns, row + r, rows - r, t->column + i, columns};
            if (tile.rows > TILE_ROWS) tile.rows = TILE_ROWS;
            for (size_t k = 0; k < tile.rows; k++)
                ls_cpu_widen(kernels, buffer + k * columns, c->dy, c->act, (tile.row + k) * c->dy_stride + tile.column,
                             columns);
            c->chain(kernels, c->args, part, &tile);
        }
    }
}

/* Computes the chain of a sequence's slice, or the sum of the chains of its blocks. */
static void chain_sequence(const chain_task *t, float *to, size_t sequence, size_t elems) {
    const ls_token_groups *g = t->job->chains->groups;
    size_t row = sequence * g->T + t->token_begin, end = sequence * g->T + t->token_end;
    for (size_t step = g->block ? g->block : end - row, first = row, rows; row < end; row += rows) {
        float *sums = row == first ? to : t->block;
        rows = end - row < step ? end - row : step;
        memset(sums, 0, elems * sizeof *sums);
        chain_rows(t, sums, row, rows);
        if (row != first) t->job->kernels->add.add_f32(to, to, sums, elems);
    }
}

/* Computes the sum of one group: its sequences, each by itself from +0, added in order, to what `out` holds if the call
 * accumulates. A group without sequences is −0, or leaves `out` as it is if the call accumulates. A callback of
 * ls_cpu_sum_groups(). */
static void chain_leaf(const void *ctx, int group, float *out) {
    const chain_task *t = ctx;
    const ls_cpu_chains *c = t->job->chains;
    const ls_token_groups *g = c->groups;
    size_t elems = t->n * (size_t)c->sums, begin = g->bounds[group], end = g->bounds[group + 1];
    bool going_on = g->accumulate;
    if (begin == end && !going_on) fill_negative_zero(out, elems);
    for (size_t sequence = begin; sequence < end; sequence++) {
        float *to = going_on ? t->chain : out;
        chain_sequence(t, to, sequence, elems);
        if (going_on) t->job->kernels->add.add_f32(out, out, to, elems);
        going_on = true;
    }
}

/* Returns the token with which slice i of a sequence begins. */
static size_t token_of(const ls_token_groups *g, size_t i) {
    return g->tokens ? g->tokens[i] : i * g->T / (size_t)g->slices;
}

/* Task: computes one token slice of the gradients in one piece of the columns. */
static void chain_run(void *ctx, size_t task, int thread) {
    const chain_job *job = ctx;
    const ls_cpu_chains *c = job->chains;
    const ls_token_groups *g = c->groups;
    size_t slice = task / job->pieces, column = task % job->pieces * job->piece;
    size_t left = c->columns - column, n = left < job->piece ? left : job->piece, at = slice * c->columns + column;
    float *sum = job->scratch + (size_t)thread * job->scratch_elems, *chain = sum + n * (size_t)c->sums;
    float *block = chain + n * (size_t)c->sums;
    chain_task t = {job, token_of(g, slice), token_of(g, slice + 1), column, n, chain, block};
    if (t.token_begin == t.token_end) {
        for (int i = 0; i < c->sums && !g->accumulate; i++) fill_negative_zero(c->out[i] + at, n);
        return;
    }
    for (int i = 0; i < c->sums && g->accumulate; i++) memcpy(sum + (size_t)i * n, c->out[i] + at, n * sizeof *sum);
    ls_cpu_leaves leaves = {job->kernels, chain_leaf, &t, n * (size_t)c->sums};
    ls_cpu_sum_groups(&leaves, 0, g->groups, sum, block + leaves.elems);
    for (int i = 0; i < c->sums; i++) memcpy(c->out[i] + at, sum + (size_t)i * n, n * sizeof *sum);
}

/* Returns the columns of a task: whole rows if there are slices enough for the threads, else pieces as wide as
 * possible, because narrow ones are not streamed; in both cases PIECE_MIN to PIECE_MAX, in whole cache lines. */
static size_t piece_of(size_t columns, size_t slices, size_t threads) {
    size_t pieces = (threads + slices - 1) / slices;
    size_t piece = (columns + pieces - 1) / pieces;
    if (threads == 1 || piece > PIECE_MAX) piece = PIECE_MAX;
    if (piece < PIECE_MIN) piece = PIECE_MIN;
    return (piece + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
}

ls_status ls_cpu_run_chains(ls_cpu_device *cpu, const ls_cpu_chains *chains) {
    assert(chains->sums >= 1 && chains->sums <= 2);
    const ls_token_groups *g = chains->groups;
    size_t threads = (size_t)ls_pool_threads(cpu->pool), slices = (size_t)g->slices;
    chain_job job = {.chains = chains, .kernels = cpu->kernels};
    job.piece = piece_of(chains->columns, slices, threads);
    job.pieces = (chains->columns + job.piece - 1) / job.piece;
    job.scratch_elems = job.piece * (size_t)chains->sums * (3 + ls_cpu_sum_levels(g->groups));
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, job.scratch_elems * threads * sizeof(float), &scratch));
    job.scratch = scratch;
    ls_pool_run(cpu->pool, slices * job.pieces, chain_run, &job);
    return LS_OK;
}
