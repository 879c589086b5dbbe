/* weights.c: copies tensors of a partition from and to the host, and hashes them. The canonical order of a tensor's
 * elements is that of the whole tensor; a worker holds pieces of it. Each element is reported, for hashes and
 * checkpoints, by one worker. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "device/calls.h"
#include "numerics/float16.h"
#include "parallel/partition/state.h"

enum { PIECE_ELEMS = 1 << 20 };

/* ---- where elements are ------------------------------------------------------------------------------------------ */

/* A tensor of a parameter as this worker has it: elements `range` of the local rows, the first of them at `memory`. */
typedef struct held {
    const ls_param *param;
    ls_param_range range;
    float *memory;
    uint16_t *memory16; /* instead, if there are only rounded ones */
} held;

/* Returns the parameter that this worker holds: on the last stage the copy of a tied table. */
static const ls_param *local_of(const ls_partition *partition, const ls_param *param) {
    return partition->tied.copy && param == ls_model_tokens(partition->model) ? partition->tied.copy : param;
}

/* Returns what this worker has of a tensor: all local rows of weights that it has whole in fp32, or in 16 bits because
 * it does not update them; else its own elements; an empty range if nothing. */
static held held_of(const ls_partition *partition, const ls_param *model_param, ls_partition_tensor which) {
    const ls_param *param = local_of(partition, model_param);
    held h = {.param = param, .range = param->own};
    if (!param->held) return (held){.param = param};
    switch (which) {
    case LS_TENSOR_WEIGHT: h.memory = param->own_w; break;
    case LS_TENSOR_MOMENT0: h.memory = param->moment[0]; break;
    case LS_TENSOR_MOMENT1: h.memory = param->moment[1]; break;
    case LS_TENSOR_GRAD: h.memory = param->own_grad; break;
    case LS_TENSOR_REPORTED: return (held){.param = param, .range = param->once};
    }
    bool matrix = param->kind == LS_PARAM_MATRIX || param->kind == LS_PARAM_TOKENS;
    bool is_16 = matrix && ls_policy_is_16(&partition->setup.policy),
         whole = !matrix || partition->setup.layout.zero < 3;
    ls_param_range all = {0, ls_param_local_elems(param)};
    if (which == LS_TENSOR_WEIGHT && is_16 && !param->own_w) { /* this worker does not update it */
        h.memory16 = whole ? param->w16 : param->own_w16;
        if (whole) h.range = all;
    } else if (which == LS_TENSOR_WEIGHT && whole && param->w) {
        h.range = all;
        h.memory = param->w;
    }
    if (!h.memory && !h.memory16) h.range = (ls_param_range){0, 0};
    return h;
}

/* The part of run i within a range: its first element in canonical order and in the local rows, and its length. */
typedef struct local_piece {
    size_t canonical, local, elems;
} local_piece;

/* Gets the part of run i that lies in `range`; elems 0: none. Returns false after the last run. */
static bool piece_get(const ls_param *param, int slices, ls_param_range range, int i, local_piece *out) {
    ls_param_run run;
    if (!ls_param_run_get(param, slices, i, &run)) return false;
    size_t columns = param->columns, first = param->first_row * columns, run_begin = run.memory_row * columns;
    size_t from = first + range.begin > run_begin ? first + range.begin : run_begin;
    size_t to = run_begin + run.rows * columns;
    if (first + range.end < to) to = first + range.end;
    *out = (local_piece){0};
    if (to <= from) return true;
    out->canonical = run.canonical_row * columns + (from - run_begin);
    out->local = from - first;
    out->elems = to - from;
    return true;
}

bool ls_partition_piece_get(const ls_partition *partition, const ls_param *param, ls_partition_tensor which, int i,
                            ls_partition_piece *out) {
    local_piece p;
    held h = held_of(partition, param, which);
    if (ls_param_range_elems(h.range) == 0 || !piece_get(h.param, partition->model->S, h.range, i, &p)) return false;
    *out = (ls_partition_piece){p.canonical, p.elems};
    return true;
}

/* Gets piece i of a part of a tensor, and its address in fp32 memory; false: there is none. */
static bool locate(const ls_partition *partition, const held *h, ls_param_range range, int i, ls_partition_piece *out,
                   const float **memory) {
    local_piece p;
    if (!h->memory || ls_param_range_elems(range) == 0 || !piece_get(h->param, partition->model->S, range, i, &p))
        return false;
    *out = (ls_partition_piece){p.canonical, p.elems};
    *memory = h->memory + (p.local - h->range.begin);
    return true;
}

bool ls_partition_reported_get(const ls_partition *partition, const ls_param *param, ls_partition_tensor which, int i,
                               ls_partition_piece *out, const float **memory) {
    held h = held_of(partition, param, which);
    return locate(partition, &h, h.param->once, i, out, memory);
}

bool ls_partition_own_get(const ls_partition *partition, const ls_param *param, ls_partition_tensor which, int i,
                          ls_partition_piece *out, const float **memory) {
    held h = held_of(partition, param, which);
    return h.param->own_w && locate(partition, &h, h.param->own, i, out, memory);
}

/* Appends a piece, unless it is empty. */
static ls_status add_piece(ls_partition_pieces *pieces, ls_partition_piece piece) {
    if (piece.count == 0) return LS_OK;
    ls_partition_piece *list = ls_list_grow(pieces->piece, pieces->count, &pieces->capacity, sizeof *list);
    if (!list) return ls_fail(LS_ERR_RESOURCE, "out of memory for a list of pieces of a parameter");
    pieces->piece = list;
    list[pieces->count++] = piece;
    return LS_OK;
}

/* Orders pieces by their first element, for qsort(). */
static int compare_first(const void *a, const void *b) {
    size_t x = ((const ls_partition_piece *)a)->first, y = ((const ls_partition_piece *)b)->first;
    return x == y ? 0 : x < y ? -1 : 1;
}

/* Sorts the pieces and merges those that touch. */
static void join_pieces(ls_partition_pieces *pieces) {
    size_t kept = 0;
    if (pieces->count == 0) return;
    qsort(pieces->piece, pieces->count, sizeof *pieces->piece, compare_first);
    for (size_t i = 1; i < pieces->count; i++) {
        ls_partition_piece *last = &pieces->piece[kept];
        if (last->first + last->count == pieces->piece[i].first)
            last->count += pieces->piece[i].count;
        else
            pieces->piece[++kept] = pieces->piece[i];
    }
    pieces->count = kept + 1;
}

ls_status ls_partition_pieces_list(const ls_partition *partition, const ls_param *param, ls_partition_tensor which,
                                   ls_partition_pieces *pieces) {
    ls_partition_piece piece;
    pieces->count = 0;
    for (int i = 0; ls_partition_piece_get(partition, param, which, i, &piece); i++) LS_TRY(add_piece(pieces, piece));
    join_pieces(pieces);
    return LS_OK;
}

void ls_partition_pieces_fini(ls_partition_pieces *pieces) {
    free(pieces->piece);
    *pieces = (ls_partition_pieces){.count = 0};
}

/* ---- host -------------------------------------------------------------------------------------------------------- */

/* Narrows a piece to canonical elements first … first + count − 1. */
static void clip_piece(local_piece *p, size_t first, size_t count) {
    size_t from = p->canonical > first ? p->canonical : first, to = p->canonical + p->elems;
    if (first + count < to) to = first + count;
    p->local += from - p->canonical;
    p->canonical = from;
    p->elems = to > from ? to - from : 0;
}

void ls_partition_alloc_staging(ls_partition *partition) {
    ls_host_staging *staging = &partition->staging;
    size_t rows = partition->micro * partition->setup.T, V = partition->model->shape.V;
    staging->elems = rows > PIECE_ELEMS ? rows : PIECE_ELEMS;
    if (V > staging->elems) staging->elems = V;
    staging->f32 = ls_partition_take(partition, staging->elems, sizeof *staging->f32);
    if (ls_policy_is_16(&partition->setup.policy))
        staging->rounded = ls_partition_take(partition, LS_PARTITION_HOST16, sizeof *staging->rounded);
}

/* Copies elements between the host and 16-bit memory of the device, through a buffer. */
static ls_status move_rounded(ls_partition *partition, uint16_t *memory, float *host, size_t elems, bool in) {
    uint16_t *rounded = partition->staging.rounded;
    bool bf16 = partition->setup.policy.act == LS_BF16;
    for (size_t at = 0, n; at < elems; at += n) {
        n = elems - at < LS_PARTITION_HOST16 ? elems - at : LS_PARTITION_HOST16;
        for (size_t i = 0; in && i < n; i++)
            rounded[i] = bf16 ? ls_bf16_from_f32(host[at + i]) : ls_f16_from_f32(host[at + i]);
        if (in) LS_TRY(ls_device_copy_in(partition->device, memory + at, rounded, n * sizeof *rounded));
        if (in) continue;
        LS_TRY(ls_device_copy_out(partition->device, rounded, memory + at, n * sizeof *rounded));
        for (size_t i = 0; i < n; i++) host[at + i] = bf16 ? ls_bf16_to_f32(rounded[i]) : ls_f16_to_f32(rounded[i]);
    }
    return LS_OK;
}

/* Copies elements of a tensor, beginning with element `at` of what this worker holds; `in`: to the device. */
static ls_status move(ls_partition *partition, const held *h, size_t at, float *host, size_t elems, bool in) {
    if (h->memory16) return move_rounded(partition, h->memory16 + at, host, elems, in);
    if (in) return ls_device_copy_in(partition->device, h->memory + at, host, elems * sizeof(float));
    return ls_device_copy_out(partition->device, host, h->memory + at, elems * sizeof(float));
}

/* Copies canonical elements first … first + count − 1, as far as this worker holds them. */
static ls_status move_pieces(ls_partition *partition, const held *h, size_t first, size_t count, float *host, bool in) {
    local_piece p;
    for (int i = 0; piece_get(h->param, partition->model->S, h->range, i, &p); i++) {
        if (p.elems > 0) clip_piece(&p, first, count);
        if (p.elems > 0)
            LS_TRY(move(partition, h, p.local - h->range.begin, host + (p.canonical - first), p.elems, in));
    }
    return LS_OK;
}

ls_status ls_partition_write(ls_partition *partition, const ls_param *param, ls_partition_tensor which, size_t first,
                             size_t count, const float *host) {
    held h = held_of(partition, param, which);
    /* Copying in only reads, so the const may be cast away. */
    return move_pieces(partition, &h, first, count, (float *)(uintptr_t)host, true);
}

ls_status ls_partition_read(ls_partition *partition, const ls_param *param, ls_partition_tensor which, size_t first,
                            size_t count, float *host) {
    held h = held_of(partition, param, which);
    return move_pieces(partition, &h, first, count, host, false);
}

/* Writes the initial values of a piece of a weight. */
static ls_status init_piece(ls_partition *partition, const ls_param *param, uint64_t seed, ls_partition_piece piece) {
    for (size_t done = 0; done < piece.count; done += partition->staging.elems) {
        size_t left = piece.count - done, count = left < partition->staging.elems ? left : partition->staging.elems;
        ls_init_param(param, seed, piece.first + done, count, partition->staging.f32);
        LS_TRY(
            ls_partition_write(partition, param, LS_TENSOR_WEIGHT, piece.first + done, count, partition->staging.f32));
    }
    return LS_OK;
}

ls_status ls_partition_init_weights(ls_partition *partition, uint64_t seed) {
    for (int i = 0; i < partition->model->nparams; i++) {
        const ls_param *param = ls_model_param(partition->model, i);
        ls_partition_piece piece;
        for (int k = 0; ls_partition_piece_get(partition, param, LS_TENSOR_WEIGHT, k, &piece); k++)
            LS_TRY(init_piece(partition, param, seed, piece));
    }
    return ls_partition_settle(partition);
}

/* Rounds own elements to their 16-bit copies, and without master weights the fp32 elements as well. */
static ls_status round_own(ls_partition *partition, const ls_param *param) {
    const ls_policy *policy = &partition->setup.policy;
    size_t own = ls_param_range_elems(param->own);
    if (!param->held || !param->own_w16 || !param->own_w || own == 0) return LS_OK;
    if (policy->no_master)
        LS_TRY(partition->nn.ops->round(partition->device,
                                        &(ls_round_call){param->own_w, param->own_w, policy->act, own}));
    return partition->nn.ops->convert(partition->device,
                                      &(ls_convert_call){param->own_w16, policy->act, param->own_w, LS_F32, own});
}

ls_status ls_partition_settle(ls_partition *partition) {
    if (!ls_policy_is_16(&partition->setup.policy)) return LS_OK;
    for (int i = 0; i < ls_model_params(partition->model); i++)
        LS_TRY(round_own(partition, ls_model_param(partition->model, i)));
    return partition->setup.train ? ls_partition_publish(partition) : LS_OK;
}

/* ---- hashes of blocks of 1024 elements, slice by slice ----------------------------------------------------------- */

/* Returns the number of blocks of 1024 elements of slice i. */
static size_t slice_blocks(const ls_partition *partition, const ls_param *param, int i) {
    size_t rows =
        ls_param_slice_row(param, partition->model->S, i + 1) - ls_param_slice_row(param, partition->model->S, i);
    return (rows * param->columns + LS_SQUARE_BLOCK - 1) / LS_SQUARE_BLOCK;
}

/* Hashes the blocks of elements begin … end − 1 of the local rows. 16-bit elements are hashed by value, as fp32. */
static ls_status hash_range(ls_partition *partition, const held *h, size_t begin, size_t end, ls_hash128 *out) {
    size_t room = partition->sums.hash_room;
    for (size_t at = begin; at < end; at += room * LS_SQUARE_BLOCK) {
        size_t n = end - at < room * LS_SQUARE_BLOCK ? end - at : room * LS_SQUARE_BLOCK, place = at - h->range.begin;
        size_t blocks = (n + LS_SQUARE_BLOCK - 1) / LS_SQUARE_BLOCK;
        ls_hash_blocks_call call = {partition->sums.hashes, h->memory + place, LS_F32, n};
        if (h->memory16) call.x = h->memory16 + place;
        if (h->memory16) call.dtype = partition->setup.policy.act;
        LS_TRY(partition->nn.ops->hash_blocks(partition->device, &call));
        LS_TRY(ls_partition_read_hashes(partition, out, blocks));
        out += blocks;
    }
    return LS_OK;
}

/* Fills in the hashes that this worker reports, and advances *count by all blocks of the parameter. */
static ls_status hash_param(ls_partition *partition, const ls_param *param, ls_partition_tensor which,
                            ls_hash128 *hashes, size_t *count) {
    int slices = ls_param_slices(param, partition->model->S);
    held h = held_of(partition, param, which);
    for (int i = 0; i < slices; i++) {
        ls_partition_run run = ls_partition_run_of(partition, param, i);
        if (run.end > run.begin)
            LS_TRY(hash_range(partition, &h, run.begin, run.end, hashes + *count + run.first_block));
        *count += slice_blocks(partition, param, i);
    }
    return LS_OK;
}

/* Returns the number of blocks of all slices of a parameter. */
static size_t param_blocks(const ls_partition *partition, const ls_param *param) {
    size_t blocks = 0;
    for (int i = 0; i < ls_param_slices(param, partition->model->S); i++) blocks += slice_blocks(partition, param, i);
    return blocks;
}

/* Computes the hash of these parameters' tensors, and writes it as text. Collective. */
static ls_status hash_params(ls_partition *partition, const ls_param *const *params, int count,
                             ls_partition_tensor which, char text[33]) {
    ls_status status = LS_OK;
    size_t most = 0, blocks = 0;
    for (int i = 0; i < count; i++) most += param_blocks(partition, params[i]);
    ls_hash128 *hashes = calloc(most, sizeof *hashes);
    if (!hashes) return ls_fail(LS_ERR_RESOURCE, "out of memory for the hashes of %zu blocks of weights", most);
    for (int i = 0; i < count; i++) LS_TRY_OUT(hash_param(partition, params[i], which, hashes, &blocks));
    /* One worker reports each block; the others have zeros there. */
    LS_TRY_OUT(ls_partition_sum(partition, (int64_t *)hashes, 2 * most));
    ls_hash_text(ls_hash_combine(hashes, most), text);
out:
    free(hashes);
    return status;
}

ls_status ls_partition_hash(ls_partition *partition, char text[33]) {
    const ls_model *model = partition->model;
    return hash_params(partition, (const ls_param *const *)model->params, model->nparams, LS_TENSOR_WEIGHT, text);
}

ls_status ls_partition_hash_tensor(ls_partition *partition, const ls_param *param, ls_partition_tensor which,
                                   char text[33]) {
    return hash_params(partition, &param, 1, which, text);
}

ls_status ls_partition_sum(ls_partition *partition, int64_t *numbers, size_t count) {
    enum { AT_ONCE = 1 << 20 };
    for (size_t at = 0; partition->comms.all && at < count; at += AT_ONCE) {
        const void *part = numbers + at;
        size_t n = count - at < AT_ONCE ? count - at : AT_ONCE;
        LS_TRY(ls_comm_all_reduce(partition->comms.all, NULL, LS_I64, &part, numbers + at, n));
    }
    return LS_OK;
}

ls_status ls_partition_tell_all(ls_partition *partition, const void *own, size_t bytes, void **all) {
    size_t workers = (size_t)ls_layout_workers(&partition->setup.layout);
    int rank = partition->setup.world ? ls_world_rank(partition->setup.world) : 0;
    char *told = *all = calloc(workers, bytes);
    if (!told) return ls_fail(LS_ERR_RESOURCE, "out of memory for what %zu workers tell", workers);
    memcpy(told + (size_t)rank * bytes, own, bytes);
    ls_status status = ls_partition_sum(partition, *all, workers * bytes / sizeof(int64_t));
    if (status == LS_OK) return LS_OK;
    free(told);
    *all = NULL;
    return status;
}
