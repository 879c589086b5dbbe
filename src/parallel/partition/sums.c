/* sums.c: sums (losses, squares of gradients), flags and hashes of a partition. Each element is reported, that is
 * counted, by one worker. Sums are exact, in integers, so that they do not depend on their order. Two arrays of device
 * memory hold them until the host reads all that it needs at once:
 *
 *     sums     losses │ squares │ measured squares │ counts of replicas │ right answers │ contributions ‖ by group:
 *              losses │ squares
 *     hashes   a list of hashes, or of places of bad values, for one check at a time
 *
 * A step without groups reads the first part of the sums, once. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/calls.h"
#include "parallel/partition/state.h"

enum {
    LOSS_WORDS = sizeof(ls_loss_sum) / sizeof(int64_t),
    LOSS = 0,
    SQUARES = LOSS + LOSS_WORDS,
    MEASURED = SQUARES + LS_EXACT_WORDS,
    REPLICAS = MEASURED + LS_EXACT_WORDS,
    RIGHT = REPLICAS + LS_COUNTS,
    CONTRIBUTION = RIGHT + 1,
    GROUPS = CONTRIBUTION + LS_CONTRIBUTION_RUNS * LS_EXACT_WORDS
};

_Static_assert(sizeof(ls_loss_sum) == LOSS_WORDS * sizeof(int64_t), "sums of losses lie among other int64");

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Returns whether squares by group are summed on the device. */
static bool takes_arena(const ls_partition *partition) {
    return partition->setup.leaves || ls_policy_wants_leaves(&partition->setup.policy);
}

/* Returns the number of sums of squares by group on the device. */
static size_t leaf_parts(const ls_partition *partition) {
    return takes_arena(partition) ? 2 * (size_t)partition->setup.G : 0;
}

/* Returns the words of squares by group in host memory; 0: they are on the device, or there are none. */
static size_t host_part_words(const ls_partition *partition) {
    bool has = partition->setup.watches && !takes_arena(partition);
    return has ? 2 * (size_t)partition->setup.G * LS_EXACT_WORDS : 0;
}

/* Returns the words of all sums. */
static size_t sum_words(const ls_partition *partition) {
    if (!partition->setup.train) return GROUPS;
    return GROUPS + (size_t)partition->setup.G * LOSS_WORDS + leaf_parts(partition) * LS_EXACT_WORDS;
}

/* Returns the words of the state sums that lie before them. */
static size_t state_words(const ls_partition *partition) {
    return ls_partition_state_room(partition) * (sizeof(ls_hash128) / sizeof(int64_t));
}

void ls_partition_alloc_sums(ls_partition *partition) {
    size_t state = state_words(partition), parts = host_part_words(partition);
    int64_t *words = ls_partition_take(partition, state + sum_words(partition), sizeof *words);
    partition->sums.host_words = words ? words + state : NULL;
    if (parts > 0) partition->sums.host_parts = ls_partition_take(partition, parts, sizeof(int64_t));
    partition->sums.host_hashes = ls_partition_take(partition, partition->sums.hash_room, sizeof(ls_hash128));
    if (state == 0 || !words) return;
    partition->state.host_made = (ls_hash128 *)(void *)words;
    partition->state.host_found =
        ls_partition_take(partition, ls_partition_state_room(partition), sizeof *partition->state.host_found);
}

/* Puts the sums of the state before those of a step, so that one read brings both. */
void ls_partition_lay_sums(ls_partition *partition, ls_arena *arena) {
    size_t state = state_words(partition);
    int64_t *words = ls_arena_take_array(arena, "scratch", state + sum_words(partition), sizeof *words);
    partition->sums.words = words ? words + state : NULL;
    if (state > 0) partition->state.made = (ls_hash128 *)(void *)words;
    partition->sums.hashes =
        ls_arena_take_array(arena, "scratch", partition->sums.hash_room, sizeof *partition->sums.hashes);
}

/* Returns the sum of losses of a group, on the device; −1: of the whole batch. */
static ls_loss_sum *loss_at(const ls_partition *partition, int group) {
    int64_t *at = group < 0 ? partition->sums.words + LOSS : partition->sums.words + GROUPS + group * LOSS_WORDS;
    return (ls_loss_sum *)(void *)at;
}

/* Returns the words of squares by group: part 0 … 2·G − 1 of `sums`, or of host memory where they are there. */
static int64_t *parts_at(const ls_partition *partition, int64_t *sums, int part) {
    int64_t *parts =
        partition->sums.host_parts ? partition->sums.host_parts : sums + GROUPS + partition->setup.G * LOSS_WORDS;
    return parts + (size_t)part * LS_EXACT_WORDS;
}

/* Returns whether losses are summed group by group in this step. */
static bool by_group(const ls_partition *partition) {
    return partition->setup.train && (partition->nn.grads.absent || partition->sums.group_losses);
}

/* Returns the words of the sums that this step uses. */
static size_t used_words(const ls_partition *partition) { return by_group(partition) ? sum_words(partition) : GROUPS; }

/* Sets words begin … end − 1 to 0. */
static ls_status clear(ls_partition *partition, size_t begin, size_t end) {
    return ls_device_fill(partition->device, partition->sums.words + begin, 0, (end - begin) * sizeof(int64_t));
}

ls_status ls_partition_clear_sums(ls_partition *partition) {
    if (partition->sums.host_parts && by_group(partition))
        memset(partition->sums.host_parts, 0, host_part_words(partition) * sizeof(int64_t));
    return clear(partition, 0, used_words(partition));
}

/* Copies the sums to the host, together with the state sums of the update if these have not been read yet. */
static ls_status read_words(ls_partition *partition, size_t words) {
    if (partition->state.host_made && !partition->state.is_read) {
        partition->state.is_read = true;
        return ls_device_copy_out(partition->device, partition->state.host_made, partition->state.made,
                                  ls_partition_state_room(partition) * sizeof(ls_hash128) + words * sizeof(int64_t));
    }
    return ls_device_copy_out(partition->device, partition->sums.host_words, partition->sums.words,
                              words * sizeof(int64_t));
}

/* Adds an exact sum that lies in words to another. */
static void merge_words(ls_exact_sum *into, const int64_t *words) {
    ls_exact_sum sum = {.unsettled = 0};
    memcpy(sum.words, words, sizeof sum.words);
    ls_exact_sum_merge(into, &sum);
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */

/* Returns the group of a sequence of the batch. */
static int group_of(const ls_partition *partition, size_t sequence) {
    const ls_partition_setup *setup = &partition->setup;
    int g = 0;
    while (g < setup->G - 1 && sequence >= ls_slice_begin(setup->B, setup->G, g + 1)) g++;
    return g;
}

/* Counts losses once: workers of a TP group compute the same ones, and only the first reports them. */
ls_status ls_partition_add_losses(ls_partition *partition, int64_t first, size_t context) {
    const ls_partition_setup *setup = &partition->setup;
    const ls_nn *nn = &partition->nn;
    bool apart = first >= 0 && by_group(partition);
    if (setup->place.tp > 0 || partition->pass.audits) return LS_OK;
    for (size_t b = 0, n; b < nn->rows.B; b += n) {
        int g = apart ? group_of(partition, (size_t)first + b) : -1;
        size_t left = apart ? ls_slice_begin(setup->B, setup->G, g + 1) - ((size_t)first + b) : nn->rows.B;
        n = nn->rows.B - b < left ? nn->rows.B - b : left;
        if (apart && nn->grads.absent && nn->grads.absent[g]) continue;
        LS_TRY(nn->ops->add_losses(
            nn->device,
            &(ls_add_losses_call){loss_at(partition, g), nn->scratch.loss + b * nn->rows.T, n, nn->rows.T, context}));
    }
    return LS_OK;
}

void ls_partition_watch_groups(ls_partition *partition, ls_loss_sum *losses, ls_exact_sum *squares) {
    assert(!squares || (losses && partition->nn.grads.leaves));
    partition->sums.group_losses = losses;
    partition->sums.group_squares = squares;
}

/* Adds the losses that read_words() brought. */
static void take_losses(ls_partition *partition, ls_loss_sum *loss) {
    ls_loss_sum sum;
    memcpy(&sum, partition->sums.host_words + LOSS, sizeof sum);
    ls_loss_sum_merge(loss, &sum);
    for (int g = 0; by_group(partition) && g < partition->setup.G; g++) {
        memcpy(&sum, partition->sums.host_words + GROUPS + (size_t)g * LOSS_WORDS, sizeof sum);
        ls_loss_sum_merge(loss, &sum);
        if (partition->sums.group_losses) ls_loss_sum_merge(&partition->sums.group_losses[g], &sum);
    }
}

ls_status ls_partition_losses(ls_partition *partition, ls_loss_sum *loss) {
    LS_TRY(read_words(partition, used_words(partition)));
    take_losses(partition, loss);
    return LS_OK;
}

ls_status ls_partition_count_right(ls_partition *partition) {
    const ls_nn *nn = &partition->nn;
    size_t V = partition->model->shape.V;
    return nn->ops->count_right(nn->device, &(ls_count_right_call){partition->sums.words + RIGHT, nn->scratch.logits, V,
                                                                   ls_nn_rows(nn), V, nn->input.targets});
}

ls_status ls_partition_take_evaluation(ls_partition *partition, ls_loss_sum *loss, int64_t *right) {
    ls_loss_sum sum;
    LS_TRY(read_words(partition, GROUPS));
    memcpy(&sum, partition->sums.host_words + LOSS, sizeof sum);
    ls_loss_sum_merge(loss, &sum);
    if (right) *right += partition->sums.host_words[RIGHT];
    return LS_OK;
}

/* ---- squares: blocks of 1024 elements, slice by slice ------------------------------------------------------------ */

ls_partition_run ls_partition_run_of(const ls_partition *partition, const ls_param *param, int i) {
    size_t columns = param->columns, first = param->first_row * columns;
    size_t begin = ls_param_slice_row(param, partition->model->S, i) * columns;
    size_t end = ls_param_slice_row(param, partition->model->S, i + 1) * columns;
    size_t from = first + param->once.begin, to = first + param->once.end;
    if (!param->held || to <= begin || from >= end) return (ls_partition_run){0};
    if (from < begin) from = begin;
    if (to > end) to = end;
    return (ls_partition_run){from - first, to - first, (from - begin) / LS_SQUARE_BLOCK};
}

ls_status ls_partition_add_squares(ls_partition *partition, const float *x, size_t elems, int64_t *words) {
    return partition->nn.ops->square_sums(partition->device,
                                          &(ls_square_sums_call){words, &(ls_square_piece){x, elems}, 1});
}

/* Pieces whose squares one launch adds. */
typedef struct squares {
    int64_t *words;
    int count;
    ls_square_piece pieces[64];
} squares;

/* Adds the squares of all listed pieces in one launch, and empties the list. */
static ls_status add_together(ls_partition *partition, squares *s) {
    ls_square_sums_call call = {s->words, s->pieces, s->count};
    s->count = 0;
    return call.count ? partition->nn.ops->square_sums(partition->device, &call) : LS_OK;
}

/* Lists a piece; adds up the list first if it is full. */
static ls_status put_squares(ls_partition *partition, squares *s, const float *x, size_t elems) {
    if (s->count == (int)(sizeof s->pieces / sizeof *s->pieces)) LS_TRY(add_together(partition, s));
    s->pieces[s->count++] = (ls_square_piece){x, elems};
    return LS_OK;
}

/* Lists the elements of a gradient that this worker reports. */
static ls_status square_param(ls_partition *partition, const ls_param *param, squares *s) {
    int slices = ls_param_slices(param, partition->model->S);
    for (int i = 0; i < slices; i++) {
        ls_partition_run run = ls_partition_run_of(partition, param, i);
        if (run.end <= run.begin) continue;
        LS_TRY(put_squares(partition, s, param->own_grad + (run.begin - param->own.begin), run.end - run.begin));
    }
    return LS_OK;
}

/* Returns whether ls_partition_leaf_squares() measures the same elements as the whole gradient has. It does not for
 * vectors, whose token slices are not joined yet, and a tied table, whose two uses are apart. */
static bool is_measured(const ls_partition *partition, const ls_param *param) {
    return param->kind != LS_PARAM_VECTOR && !ls_partition_is_tied(partition, param);
}

ls_status ls_partition_leaf_squares(ls_partition *partition, const ls_param *param, const float *leaf, int part) {
    int S = partition->model->S, slices = ls_param_slices(param, S);
    size_t first = param->first_row, end = first + param->local_rows;
    squares s = {.words = parts_at(partition, partition->sums.words, part)};
    if (param->kind == LS_PARAM_VECTOR || (!param->split && partition->setup.place.tp > 0)) return LS_OK;
    for (int i = 0; i < slices; i++) {
        size_t row = ls_param_slice_row(param, S, i), rows = ls_param_slice_row(param, S, i + 1) - row;
        if (row < first || row + rows > end) continue;
        LS_TRY(put_squares(partition, &s, leaf + (row - first) * param->columns, rows * param->columns));
    }
    return add_together(partition, &s);
}

/* ---- contributions ----------------------------------------------------------------------------------------------- */

/* Short pieces cost more than their elements do. */
enum { SHARE_PIECES = 8, SHARE_PIECE_LEAST = 256 };

/* Returns the elements of each of SHARE_PIECES pieces; 0: all elements, in one piece. */
static size_t piece_elems(const ls_partition *partition, size_t elems) {
    size_t length = (size_t)ceil((double)elems * partition->sums.contribution_share / SHARE_PIECES);
    if (length < SHARE_PIECE_LEAST) length = SHARE_PIECE_LEAST;
    return length * SHARE_PIECES < elems ? length : 0;
}

/* Returns whether a bucket counts as a contribution. A table does only if the worker has no matrices and there are
 * replicas to compare with, because rows of rare tokens make its gradient vary from step to step. Vectors never do:
 * their token slices are not joined yet, and some rows belong to other workers. */
static bool is_contribution(const ls_partition *partition, const ls_bucket *bucket, bool has_matrices) {
    bool is_table = bucket->kind == LS_BUCKET_TABLE || bucket->kind == LS_BUCKET_LOOKUP;
    return bucket->kind == LS_BUCKET_MATRICES || (is_table && !has_matrices && partition->comms.dp);
}

void ls_partition_watch_contribution(ls_partition *partition, double share) {
    double all[LS_CONTRIBUTION_RUNS] = {0}, summed[LS_CONTRIBUTION_RUNS] = {0};
    bool has_matrices = false;
    int count = 0, at = 0;
    partition->sums.contribution_share = share;
    for (int i = 0; i < partition->nbuckets; i++) has_matrices |= partition->buckets[i].kind == LS_BUCKET_MATRICES;
    for (int i = 0; i < partition->nbuckets; i++)
        count += is_contribution(partition, &partition->buckets[i], has_matrices);
    for (int i = 0; i < partition->nbuckets; i++) {
        ls_bucket *bucket = &partition->buckets[i];
        bucket->contribution = -1;
        if (!is_contribution(partition, bucket, has_matrices)) continue;
        int run = count > LS_CONTRIBUTION_RUNS ? at * LS_CONTRIBUTION_RUNS / count : at;
        bucket->contribution = run;
        at++;
        for (int p = 0; p < bucket->nparams; p++) {
            size_t elems = ls_param_local_elems(bucket->param[p]), piece = piece_elems(partition, elems);
            all[run] += (double)elems;
            summed[run] += piece > 0 ? (double)(piece * SHARE_PIECES) : (double)elems;
        }
    }
    for (int r = 0; r < LS_CONTRIBUTION_RUNS; r++)
        partition->sums.contribution_scale[r] = r < count ? all[r] / summed[r] : 0;
}

ls_status ls_partition_add_contribution(ls_partition *partition, const ls_bucket *bucket, const float *slot) {
    if (bucket->contribution < 0) return LS_OK;
    squares s = {.words = partition->sums.words + CONTRIBUTION + bucket->contribution * LS_EXACT_WORDS};
    for (int i = 0; i < bucket->nparams; i++) {
        const float *x = slot + bucket->offset[i];
        size_t elems = ls_param_local_elems(bucket->param[i]), piece = piece_elems(partition, elems);
        for (size_t k = 0; k < SHARE_PIECES && piece > 0; k++)
            LS_TRY(put_squares(partition, &s, x + k * (elems / SHARE_PIECES), piece));
        if (piece == 0) LS_TRY(put_squares(partition, &s, x, elems));
    }
    return add_together(partition, &s);
}

double ls_partition_contribution(const ls_partition *partition) {
    double sorted[LS_CONTRIBUTION_RUNS];
    int count = 0;
    for (int r = 0; r < LS_CONTRIBUTION_RUNS; r++) {
        ls_exact_sum sum = {.unsettled = 0};
        merge_words(&sum, partition->sums.host_words + CONTRIBUTION + r * LS_EXACT_WORDS);
        if (ls_exact_sum_non_finite(&sum)) return (double)NAN;
        double value = ls_exact_sum_value(&sum) * partition->sums.contribution_scale[r];
        if (!(value > 0)) continue;
        int at = count++;
        for (; at > 0 && sorted[at - 1] > value; at--) sorted[at] = sorted[at - 1];
        sorted[at] = value;
    }
    return count > 0 ? sqrt(sorted[(count - 1) / 2]) * sqrt(sorted[count / 2]) : 0;
}

/* ---- squares of own elements ------------------------------------------------------------------------------------- */

/* Counts values that are not finite in a gradient that every worker of the TP group has, but only one of them adds to
 * the norm: otherwise damage on another one would be missed. */
static ls_status look_at_replica(ls_partition *partition, const ls_param *param) {
    size_t own = ls_param_range_elems(param->own);
    if (!partition->comms.tp || param->split || own == 0 || ls_param_range_elems(param->once) > 0) return LS_OK;
    return partition->nn.ops->count(
        partition->device, &(ls_count_call){partition->sums.words + REPLICAS, param->own_grad, 1, LS_F32, own});
}

/* Adds the squares that were read to *sum and *measured; makes the sum NaN if a replica's gradient is not finite. */
static void take_squares(ls_partition *partition, ls_exact_sum *sum, ls_exact_sum *measured) {
    const int64_t *words = partition->sums.host_words;
    merge_words(sum, words + SQUARES);
    if (measured) merge_words(measured, words + MEASURED);
    if (measured) ls_exact_sum_merge(sum, measured);
    if (words[REPLICAS + LS_COUNT_BAD]) ls_exact_sum_add(sum, (double)NAN);
    for (int i = 0; partition->sums.group_squares && i < 2 * partition->setup.G; i++)
        merge_words(&partition->sums.group_squares[i], parts_at(partition, partition->sums.host_words, i));
}

ls_status ls_partition_square_norm(ls_partition *partition, ls_loss_sum *loss, ls_exact_sum *sum,
                                   ls_exact_sum *measured) {
    squares whole = {.words = partition->sums.words + SQUARES}, apart = {.words = partition->sums.words + MEASURED};
    LS_TRY(clear(partition, SQUARES, RIGHT));
    for (int i = 0; i < partition->model->nparams; i++) {
        const ls_param *param = ls_model_param(partition->model, i);
        if (param->running) continue; /* running statistics have no gradient */
        LS_TRY(square_param(partition, param, measured && is_measured(partition, param) ? &apart : &whole));
        LS_TRY(look_at_replica(partition, param));
    }
    LS_TRY(add_together(partition, &whole));
    LS_TRY(add_together(partition, &apart));
    LS_TRY(read_words(partition, used_words(partition)));
    take_squares(partition, sum, measured);
    if (loss) take_losses(partition, loss);
    return LS_OK;
}

/* ---- numbers that are not finite --------------------------------------------------------------------------------- */

ls_status ls_partition_find_bad(ls_partition *partition, const void *x, ls_dtype dtype, size_t elems, uint64_t *index) {
    uint64_t *at = (uint64_t *)(void *)partition->sums.hashes;
    LS_TRY(partition->nn.ops->find_bad(partition->device, &(ls_find_bad_call){x, dtype, elems, at}));
    return ls_device_copy_out(partition->device, index, at, sizeof *index);
}

/* Sets bad[i] to whether parameter i has a value that is not finite in its gradient or, without `grads`, in its own
 * weights and moments. */
static ls_status find_bad_params(ls_partition *partition, bool grads, int64_t *bad) {
    enum { EACH = 3 };
    int params = ls_model_params(partition->model);
    uint64_t *at = (uint64_t *)(void *)partition->sums.hashes, *host = (uint64_t *)(void *)partition->sums.host_hashes;
    size_t bytes = (size_t)params * EACH * sizeof *at;
    LS_TRY(ls_device_fill(partition->device, at, 0xFF, bytes));
    for (int i = 0; i < params; i++) {
        const ls_param *p = ls_model_param(partition->model, i);
        const float *const tensors[EACH] = {grads ? p->own_grad : p->own_w, grads ? NULL : p->moment[0],
                                            grads ? NULL : p->moment[1]};
        size_t own = ls_param_range_elems(p->own);
        for (int k = 0; own > 0 && k < EACH; k++)
            if (tensors[k])
                LS_TRY(partition->nn.ops->find_bad(partition->device,
                                                   &(ls_find_bad_call){tensors[k], LS_F32, own, at + i * EACH + k}));
    }
    LS_TRY(ls_device_copy_out(partition->device, host, at, bytes));
    for (int i = 0; i < params * EACH; i++) bad[i / EACH] |= host[i] != LS_ALL_FINITE;
    return LS_OK;
}

/* Sets *first to the first parameter with a bad value on any worker; −1: none. Collective. */
static ls_status sum_bad_params(ls_partition *partition, bool grads, int *first) {
    int count = ls_model_params(partition->model);
    int64_t *bad = calloc((size_t)count, sizeof *bad);
    if (!bad) return ls_fail(LS_ERR_RESOURCE, "out of memory for a list of %d parameters", count);
    ls_status status = find_bad_params(partition, grads, bad);
    if (status == LS_OK) status = ls_partition_sum(partition, bad, (size_t)count);
    *first = -1;
    for (int i = count - 1; i >= 0; i--)
        if (bad[i]) *first = i;
    free(bad);
    return status;
}

ls_status ls_partition_bad_param(ls_partition *partition, int *param) { return sum_bad_params(partition, true, param); }
ls_status ls_partition_bad_state(ls_partition *partition, int *param) {
    return sum_bad_params(partition, false, param);
}

/* ---- hashes ------------------------------------------------------------------------------------------------------ */

/* Counts the blocks that are hashed at a time, and a check, which has up to two hashes of each parameter and of the
 * copy of a tied table. */
size_t ls_partition_hash_room(const ls_partition *partition) {
    enum { BLOCKS = 4096 };
    size_t checks = 2 * ((size_t)partition->model->nparams + 1), buckets = (size_t)partition->nbuckets;
    size_t most = checks > buckets ? checks : buckets, groups = partition->micro;
    if (most < groups) most = groups;
    return most < BLOCKS ? BLOCKS : most;
}

ls_status ls_partition_begin_hashes(ls_partition *partition, size_t count) {
    return ls_device_fill(partition->device, partition->sums.hashes, 0, count * sizeof *partition->sums.hashes);
}

ls_status ls_partition_make_hash(ls_partition *partition, size_t i, const void *x, size_t bytes) {
    if (!x || bytes == 0) return LS_OK;
    return partition->nn.ops->hash(partition->nn.device, &(ls_hash_call){partition->sums.hashes + i, x, bytes});
}

ls_status ls_partition_read_hashes(ls_partition *partition, ls_hash128 *out, size_t count) {
    return ls_device_copy_out(partition->device, out, partition->sums.hashes, count * sizeof *out);
}
