/* optim.c: launches optimizer steps, state sums (checksums of weights and optimizer state) and squared norms
 * (kernels/optim.cu). Many small tensors, pieces, are collected into few launches. */
#include "device/cuda/args/optim.h"

#include <string.h>

#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"
#include "numerics/state_sum.h"

enum { WIDTH = 4, BLOCKS_MAX = 1 << 30 };

_Static_assert((int)LS_CHECK_BLOCK == LS_CUDA_CHECK_BLOCK && (int)LS_STATE_TENSORS == LS_CUDA_CHECK_STATES &&
                   (int)LS_DAMAGE_BLOCK_BITS == LS_CUDA_CHECK_STATE_BIT &&
                   (int)LS_UPDATE_RECORD == LS_CUDA_UPDATE_RECORD,
               "kernels take the blocks and words of ls_update_check");
_Static_assert(LS_CUDA_UPDATE_ELEMS % LS_CUDA_CHECK_BLOCK == 0, "a block of threads takes whole blocks");
_Static_assert((int)LS_CUDA_CHECK_BLOCK == 2 * (int)LS_CUDA_STATE_BLOCK, "a tile is a block of a copy's state sum");
_Static_assert((int)LS_SQUARE_BLOCK == LS_CUDA_SQUARE_BLOCK, "blocks of squared norms are those of the contract");

_Static_assert((int)LS_STATE_BLOCK == LS_CUDA_STATE_BLOCK, "blocks of state sums are those of the formula");

/* Launches the computation of the state sums of the collected pieces, and empties the collection. Nothing without
 * pieces. */
static ls_status add_state(ls_device *device, ls_cuda_state *args) {
    size_t turns = args->begin[args->count];
    ls_status status = LS_OK;
    if (turns > 0)
        status = ls_cuda_launch(
            device, LS_CUDA_state_sums,
            (ls_cuda_grid){ls_cuda_blocks(device, ls_cuda_divide_up(turns, LS_CUDA_STATE_THREADS / 32)), 1, 1},
            LS_CUDA_STATE_THREADS, 0, args);
    args->count = 0;
    return status;
}

LS_ASSERT_ARGS(ls_state_piece, 5);
/* Collects a piece for a launch of state sums; launches what was collected first if there is no room. */
static ls_status put_state(ls_device *device, ls_cuda_state *args, const ls_state_piece *piece) {
    if (piece->n == 0) return LS_OK;
    size_t blocks = (piece->first + piece->n - 1) / LS_CUDA_STATE_BLOCK - piece->first / LS_CUDA_STATE_BLOCK + 1;
    if (args->count == LS_CUDA_STATE_PIECES || (args->count && blocks > UINT32_MAX / 2 - args->begin[args->count]))
        LS_TRY(add_state(device, args));
    args->piece[args->count] = (ls_cuda_state_piece){.out = (unsigned long long *)(void *)piece->out,
                                                     .x = piece->x,
                                                     .tensor = piece->tensor,
                                                     .first = piece->first,
                                                     .n = piece->n};
    args->begin[args->count + 1] = args->begin[args->count] + (unsigned)blocks;
    args->count++;
    return LS_OK;
}

/* Adds the state sums of all pieces to the 128-bit numbers at their `out`. */
ls_status ls_cuda_op_state_sums(ls_device *device, const ls_state_sums_call *c) {
    ls_cuda_state args = {.count = 0};
    for (int i = 0; i < c->count; i++) LS_TRY(put_state(device, &args, &c->pieces[i]));
    return add_state(device, &args);
}

/* Pieces that one launch updates, all by one rule. */
typedef struct update_list {
    ls_optimizer_kind rule;
    ls_cuda_update args;
    ls_cuda_update_piece pieces[LS_CUDA_UPDATE_PIECES];
} update_list;

/* Launches the update of the collected pieces, and empties the list. A long list goes to the device in one copy. */
static ls_status run_updates(ls_device *device, update_list *list) {
    ls_cuda_update *args = &list->args;
    const size_t bytes = args->count * sizeof *list->pieces;
    if (args->count == 0) return LS_OK;
    if (args->count > LS_CUDA_UPDATE_FEW) {
        const void *many;
        LS_TRY(ls_cuda_list(device, list->pieces, bytes, &many));
        args->many = many;
    } else {
        args->many = NULL;
        memcpy(args->few, list->pieces, bytes);
    }
    ls_status status = ls_cuda_launch(device, list->rule == LS_OPTIMIZER_ADAMW ? LS_CUDA_adamw : LS_CUDA_sgd,
                                      (ls_cuda_grid){args->first[args->count], 1, 1}, LS_CUDA_PACK_THREADS, 0, args);
    args->count = 0;
    return status;
}

/* Returns the update rule of a piece. The modes that only check or record sums use the kernel of AdamW if there is
 * a second moment, else that of SGD. */
static ls_optimizer_kind rule_of(const ls_update_piece *c) {
    if (c->mode == LS_UPDATE_STEP) return c->step->rule;
    return c->moment[1] ? LS_OPTIMIZER_ADAMW : LS_OPTIMIZER_SGD;
}

LS_ASSERT_ARGS(ls_update_piece, 13);
LS_ASSERT_ARGS(ls_update_sums, 8);
LS_ASSERT_ARGS(ls_update_check, 2);
/* Returns the kernel's piece for elements begin … end − 1 of a piece, its run number 0 … 2: the elements that all go to
 * the state sums `sums` (NULL: to none). It begins at a block of compared sums; elements in front are skipped by
 * `from`. A block that two runs share has compared sums for each, so a run's begin `run` places later. */
static ls_cuda_update_piece piece_of(const ls_update_piece *c, ls_hash128 *sums, int run, size_t begin, size_t end) {
    const ls_update_step *step = c->step;
    const size_t block = (c->first + begin) / LS_CHECK_BLOCK;
    const size_t skipped = c->check.sums ? (c->first + begin) % LS_CHECK_BLOCK : 0, at = begin - skipped;
    const ls_damage damage = {.name = (uint32_t)c->name, .block = block};
    ls_cuda_update_piece piece = {.w = c->w + at,
                                  .g = c->g ? c->g + at : NULL,
                                  .from = skipped,
                                  .n = end - at,
                                  .sums = (unsigned long long *)(void *)sums,
                                  .tensor = c->sums.tensor,
                                  .first = sums || c->check.sums ? c->sums.first + at : 0,
                                  .damage = (unsigned long long *)(void *)c->check.damage,
                                  .damage_first = ~ls_damage_word(damage),
                                  .mode = (int)c->mode,
                                  .factor = step->factor,
                                  .rate = step->rate,
                                  .beta1 = step->beta1,
                                  .beta1_rest = step->beta1_rest,
                                  .beta2 = step->beta2,
                                  .beta2_rest = step->beta2_rest,
                                  .root = step->root,
                                  .epsilon = step->epsilon,
                                  .decay = step->decay,
                                  .momentum = step->momentum,
                                  .weight_decay = step->weight_decay,
                                  .copy_dtype = (int)c->copy_dtype,
                                  .nesterov = step->nesterov};
    for (int i = 0; i < LS_MOMENTS_MAX; i++)
        if (c->moment[i]) piece.moment[i] = c->moment[i] + at;
    if (c->copy) piece.copy = (uint16_t *)c->copy + at;
    if (c->copy && c->sums.copy && c->mode == LS_UPDATE_STEP) {
        piece.copy_sums = (unsigned long long *)(void *)c->sums.copy;
        piece.copy_tensor = c->sums.copy_tensor;
        piece.copy_first = c->first + at;
    }
    if (c->check.sums)
        piece.check = (unsigned long long *)(void *)c->check.sums + (block + (size_t)run) * LS_CUDA_CHECK_STATES;
    piece.aligned = piece.first % WIDTH == 0 && ls_cuda_fits(piece.w, LS_F32, 0, WIDTH) &&
                    ls_cuda_fits(piece.moment[0], LS_F32, 0, WIDTH) &&
                    ls_cuda_fits(piece.moment[1], LS_F32, 0, WIDTH) && ls_cuda_fits(piece.g, LS_F32, 0, WIDTH) &&
                    (!piece.copy || ls_cuda_fits(piece.copy, c->copy_dtype, 0, WIDTH));
    return piece;
}

/* Collects a run of a piece (piece_of) for a launch; launches what was collected first if there is no room or the
 * rule differs. Nothing if begin ≥ end. */
static ls_status put_update(ls_device *device, update_list *list, const ls_update_piece *c, ls_hash128 *sums, int run,
                            size_t begin, size_t end) {
    ls_cuda_update *args = &list->args;
    if (begin >= end) return LS_OK;
    const ls_optimizer_kind rule = rule_of(c);
    const ls_cuda_update_piece own = piece_of(c, sums, run, begin, end);
    size_t blocks = ls_cuda_divide_up(own.n, LS_CUDA_UPDATE_ELEMS);
    if (args->count == LS_CUDA_UPDATE_PIECES || list->rule != rule ||
        (args->count && blocks > BLOCKS_MAX - args->first[args->count]))
        LS_TRY(run_updates(device, list));
    list->rule = rule;
    list->pieces[args->count] = own;
    args->first[args->count + 1] = args->first[args->count] + (unsigned)blocks;
    args->count++;
    return LS_OK;
}

/* Launches the optimizer step, check or record of all pieces, each in up to three runs: before, in and after the
 * elements whose state sums go to `once`. */
ls_status ls_cuda_op_update(ls_device *device, const ls_update_call *c) {
    update_list list = {.args = {.count = 0}};
    LS_TRY(ls_check_update(c));
    for (int i = 0; i < c->count; i++) {
        const ls_update_piece *piece = &c->pieces[i];
        const ls_update_sums *s = &piece->sums;
        size_t n = piece->n, first = s->begin < n ? s->begin : n, last = s->end < n ? s->end : n;
        if (!s->once && !s->rest && !piece->check.sums) first = last = 0;
        LS_TRY(put_update(device, &list, piece, s->rest, 0, 0, first));
        LS_TRY(put_update(device, &list, piece, s->once, 1, first, last));
        LS_TRY(put_update(device, &list, piece, s->rest, 2, last > first ? last : first, n));
    }
    return run_updates(device, &list);
}

_Static_assert((int)LS_EXACT_WORDS == LS_CUDA_EXACT_WORDS, "kernels add to the words of an exact sum");

/* Launches the computation of the squared norms of the collected pieces, and empties the collection. */
static ls_status add_squares(ls_device *device, ls_cuda_squares *args) {
    size_t turns = args->first[args->count];
    ls_status status = LS_OK;
    if (turns > 0)
        status = ls_cuda_launch(device, LS_CUDA_square_sums, (ls_cuda_grid){ls_cuda_blocks(device, turns), 1, 1},
                                16 * LS_CUDA_SQUARE_BLOCKS, 0, args);
    args->count = 0;
    return status;
}

/* Adds Σ x² of each block of each piece to the exact sum at c->words. */
ls_status ls_cuda_op_square_sums(ls_device *device, const ls_square_sums_call *c) {
    ls_cuda_squares args = {.words = (unsigned long long *)c->words};
    for (int i = 0; i < c->count; i++) {
        const ls_square_piece *piece = &c->pieces[i];
        size_t turns = ls_cuda_divide_up(piece->n, (size_t)LS_CUDA_SQUARE_BLOCK * LS_CUDA_SQUARE_BLOCKS);
        if (args.count == LS_CUDA_SQUARE_PIECES || (args.count && turns > UINT32_MAX / 2 - args.first[args.count]))
            LS_TRY(add_squares(device, &args));
        args.x[args.count] = piece->x;
        args.n[args.count] = piece->n;
        args.first[args.count + 1] = args.first[args.count] + (unsigned)turns;
        args.count++;
    }
    return add_squares(device, &args);
}
