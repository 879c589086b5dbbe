/* numerics.c: an update that also measures gradients, weights and the updates that rounding loses.
 *
 * Own elements are processed in pieces, on a CPU of the size of the L1 cache: the old weights are copied aside,
 * updated, and compared while all is in cache. Blocks of 1024 elements are those of every sum of squares (rule 8), and
 * each element counts on one worker, so the numbers are the same on every layout. */
#include <stdlib.h>
#include <string.h>

#include "device/calls.h"
#include "parallel/partition/numerics.h"
#include "parallel/partition/state.h"

/* Words that are counted for a block of the model: on the device first; then the host adds its two, and all workers are
 * summed. */
enum {
    GRADS = 0,
    ACTS = GRADS + LS_COUNTS,
    LOST = ACTS + LS_COUNTS,
    ACT_ELEMS, /* these two are the host's */
    ELEMS,
    GRAD_SQUARES,
    WEIGHT_SQUARES = GRAD_SQUARES + LS_EXACT_WORDS,
    UPDATE_SQUARES = WEIGHT_SQUARES + LS_EXACT_WORDS,
    WORDS = UPDATE_SQUARES + LS_EXACT_WORDS
};

/* Returns the elements of a piece. */
static size_t aside_elems(const ls_partition *partition) {
    return partition->setup.apart ? LS_NUMERICS_PIECE_APART : LS_NUMERICS_PIECE;
}

/* Returns the number of words for all blocks of the model. */
static size_t count_words(const ls_partition *partition) { return (size_t)partition->model->nblocks * WORDS; }

void ls_partition_lay_numerics(ls_partition *partition, ls_arena *arena) {
    if (!partition->setup.numerics) return;
    partition->numerics.aside = ls_partition_take_f32(arena, "scratch", aside_elems(partition), 1);
    partition->numerics.counts = ls_arena_take_array(arena, "scratch", count_words(partition), sizeof(int64_t));
}

int64_t *ls_partition_act_counts(const ls_partition *partition, int block) {
    return partition->numerics.counts + (size_t)block * WORDS + ACTS;
}

/* A stretch of own elements, counted in the local rows. */
typedef struct piece {
    const ls_param *param;
    size_t begin, end;
    bool counts; /* this worker reports it */
} piece;

/* Updates one piece, and measures it if this worker reports it and it is no running statistic. */
static ls_status run_piece(ls_partition *partition, const ls_optimizer_update *update, const piece *p, int block,
                           int64_t *elems) {
    int64_t *out = partition->numerics.counts + (size_t)block * WORDS;
    const ls_param *param = p->param;
    const ls_policy *policy = &partition->setup.policy;
    size_t first = p->begin - param->own.begin, n = p->end - p->begin;
    const float *g = param->own_grad + first, *w = param->own_w + first;
    const float *by = param->moment[0] ? param->moment[0] + first : g;
    if (!p->counts || param->running) return ls_optimizer_run(update, partition->device, policy, param, first, n);
    LS_TRY(partition->nn.ops->count(partition->device, &(ls_count_call){out + GRADS, g, 1, policy->act, n}));
    LS_TRY(ls_partition_add_squares(partition, g, n, out + GRAD_SQUARES));
    LS_TRY(ls_device_copy(partition->device, partition->numerics.aside, w, n * sizeof(float)));
    LS_TRY(ls_optimizer_run(update, partition->device, policy, param, first, n));
    LS_TRY(ls_partition_add_squares(partition, w, n, out + WEIGHT_SQUARES));
    LS_TRY(partition->nn.ops->difference(partition->device,
                                         &(ls_difference_call){partition->numerics.aside, w, by, out + LOST, n}));
    *elems += (int64_t)n;
    return ls_partition_add_squares(partition, partition->numerics.aside, n, out + UPDATE_SQUARES);
}

/* Updates a slice in pieces, which also end at the boundaries of the elements that this worker reports. */
static ls_status run_slice(ls_partition *partition, const ls_optimizer_update *update, const ls_param *param,
                           size_t begin, size_t end, int block, int64_t *elems) {
    while (begin < end) {
        piece p = {.param = param, .begin = begin, .end = begin + aside_elems(partition)};
        if (p.end > end) p.end = end;
        if (begin < param->once.begin && p.end > param->once.begin) p.end = param->once.begin;
        if (begin < param->once.end && p.end > param->once.end) p.end = param->once.end;
        p.counts = begin >= param->once.begin && p.end <= param->once.end;
        LS_TRY(run_piece(partition, update, &p, block, elems));
        begin = p.end;
    }
    return LS_OK;
}

/* Updates the own elements of a parameter, slice by slice. */
static ls_status run_param(ls_partition *partition, const ls_optimizer_update *update, const ls_param *param, int block,
                           int64_t *elems) {
    int S = partition->model->S, slices = ls_param_slices(param, S);
    size_t first = param->first_row * param->columns;
    for (int i = 0; i < slices; i++) {
        size_t begin = ls_param_slice_row(param, S, i) * param->columns;
        size_t end = ls_param_slice_row(param, S, i + 1) * param->columns;
        if (begin < first + param->own.begin) begin = first + param->own.begin;
        if (end > first + param->own.end) end = first + param->own.end;
        if (begin < end) LS_TRY(run_slice(partition, update, param, begin - first, end - first, block, elems));
    }
    return LS_OK;
}

ls_status ls_partition_count_acts(ls_partition *partition, ls_block_numerics *blocks) {
    partition->numerics.blocks = blocks;
    if (!blocks) return LS_OK;
    return ls_device_fill(partition->device, partition->numerics.counts, 0,
                          count_words(partition) * sizeof *partition->numerics.counts);
}

/* Pieces do not end with blocks of the state check, so the sums of blocks are compared before all pieces are updated,
 * and computed afterwards. */
ls_status ls_partition_update_counted(ls_partition *partition, const ls_optimizer_update *update,
                                      ls_block_numerics *blocks) {
    const ls_model *model = partition->model;
    const ls_policy *policy = &partition->setup.policy;
    ls_optimizer_update unsummed = *update;
    LS_TRY(ls_optimizer_check(update, partition->device, policy, model));
    unsummed.sums = NULL;
    ls_partition_omit_copy_sums(partition, &unsummed);
    unsummed.keeps_blocks = false;
    unsummed.damage = NULL;
    for (int b = 0; b < model->nblocks; b++)
        for (int i = 0; i < model->blocks[b].nparams; i++) {
            const ls_param *param = &model->blocks[b].param[i];
            if (ls_param_range_elems(param->own) > 0)
                LS_TRY(run_param(partition, &unsummed, param, b, &blocks[b].elems));
        }
    return update->sums ? ls_optimizer_sum(update, partition->device, policy, model) : LS_OK;
}

/* Normalizes an exact sum, in place, before it is sent. */
static void settle(int64_t *words) {
    ls_exact_sum sum = {.unsettled = 0};
    memcpy(sum.words, words, sizeof sum.words);
    ls_exact_sum_settle(&sum);
    memcpy(words, sum.words, sizeof sum.words);
}

/* Writes a block's counts that the host made into its words, and normalizes its sums, so that words of workers can be
 * added. */
static void give(const ls_block_numerics *n, int64_t *words) {
    words[ACT_ELEMS] = n->acts_elems;
    words[ELEMS] = n->elems;
    for (int at = GRAD_SQUARES; at < WORDS; at += LS_EXACT_WORDS) settle(words + at);
}

/* Reads the statistics of a block from its words. */
static void take(const int64_t *words, ls_block_numerics *n) {
    *n = (ls_block_numerics){.acts_elems = words[ACT_ELEMS], .elems = words[ELEMS], .lost = words[LOST]};
    memcpy(n->grads, words + GRADS, sizeof n->grads);
    memcpy(n->acts, words + ACTS, sizeof n->acts);
    memcpy(n->grad_squares.words, words + GRAD_SQUARES, sizeof n->grad_squares.words);
    memcpy(n->weight_squares.words, words + WEIGHT_SQUARES, sizeof n->weight_squares.words);
    memcpy(n->update_squares.words, words + UPDATE_SQUARES, sizeof n->update_squares.words);
}

ls_status ls_partition_sum_numerics(ls_partition *partition, ls_block_numerics *blocks) {
    size_t nblocks = (size_t)partition->model->nblocks, count = nblocks * WORDS;
    int64_t *words = calloc(count, sizeof *words);
    if (!words) return ls_fail(LS_ERR_RESOURCE, "out of memory for the numerics of %zu blocks", nblocks);
    ls_status status = ls_device_copy_out(partition->device, words, partition->numerics.counts, count * sizeof *words);
    for (size_t b = 0; b < nblocks; b++) give(&blocks[b], words + b * WORDS);
    if (status == LS_OK) status = ls_partition_sum(partition, words, count);
    for (size_t b = 0; b < nblocks; b++) take(words + b * WORDS, &blocks[b]);
    free(words);
    return status;
}
