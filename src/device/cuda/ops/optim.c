/* optim.c: optimizer steps and squared norms over flat arrays. */
#include "device/cuda/args/optim.h"

#include <string.h>

#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"
#include "numerics/state_sum.h"

enum { WIDTH = 4, BLOCKS_MAX = 1 << 30 };

_Static_assert((int)LS_SQUARE_BLOCK == LS_CUDA_SQUARE_BLOCK, "blocks of squared norms are those of the contract");

static ls_cuda_update_piece piece_of(const ls_update_piece *c) {
    const ls_update_step *step = c->step;
    ls_cuda_update_piece piece = {.w = c->w,
                                  .moment = {c->moment[0], c->moment[1]},
                                  .copy = c->copy,
                                  .g = c->g,
                                  .n = c->n,
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
    piece.aligned = ls_cuda_fits(c->w, LS_F32, 0, WIDTH) && ls_cuda_fits(c->moment[0], LS_F32, 0, WIDTH) &&
                    ls_cuda_fits(c->moment[1], LS_F32, 0, WIDTH) && ls_cuda_fits(c->g, LS_F32, 0, WIDTH) &&
                    (!c->copy || ls_cuda_fits(c->copy, c->copy_dtype, 0, WIDTH));
    return piece;
}

/* Some pieces with one rule: the pieces go to the device in one copy, with the numbers of the step. */
static ls_status update_pieces(ls_device *device, const ls_update_piece *pieces, int count) {
    ls_cuda_update_piece list[LS_CUDA_UPDATE_PIECES];
    ls_cuda_update args = {.count = (unsigned)count};
    const void *many = NULL;
    for (int i = 0; i < count; i++) {
        list[i] = piece_of(&pieces[i]);
        args.first[i + 1] = args.first[i] + (unsigned)ls_cuda_divide_up(pieces[i].n, LS_CUDA_UPDATE_ELEMS);
    }
    if (args.first[count] == 0) return LS_OK;
    if (count > LS_CUDA_UPDATE_FEW)
        LS_TRY(ls_cuda_list(device, list, (size_t)count * sizeof *list, &many));
    else
        memcpy(args.few, list, (size_t)count * sizeof *list);
    args.many = many;
    return ls_cuda_launch(device, pieces->step->rule == LS_OPTIMIZER_ADAMW ? LS_CUDA_adamw : LS_CUDA_sgd,
                          (ls_cuda_grid){args.first[count], 1, 1}, LS_CUDA_PACK_THREADS, 0, &args);
}

/* ---- state sums -------------------------------------------------------------------------------------------------- */

_Static_assert((int)LS_STATE_BLOCK == LS_CUDA_STATE_BLOCK, "blocks of state sums are those of the formula");

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

ls_status ls_cuda_op_state_sums(ls_device *device, const ls_state_sums_call *c) {
    ls_cuda_state args = {.count = 0};
    for (int i = 0; i < c->count; i++) LS_TRY(put_state(device, &args, &c->pieces[i]));
    return add_state(device, &args);
}

static ls_status sum_updated(ls_device *device, const ls_update_call *c) {
    ls_cuda_state args = {.count = 0};
    ls_state_piece pieces[LS_UPDATE_STATE_MAX];
    for (int i = 0; i < c->count; i++) {
        int count = ls_update_state_pieces(&c->pieces[i], 0, c->pieces[i].n, pieces);
        for (int k = 0; k < count; k++) LS_TRY(put_state(device, &args, &pieces[k]));
    }
    return add_state(device, &args);
}

/* ---- updates ----------------------------------------------------------------------------------------------------- */

ls_status ls_cuda_op_update(ls_device *device, const ls_update_call *c) {
    LS_TRY(ls_check_update(c));
    for (int first = 0, end; first < c->count; first = end) {
        size_t blocks = 0;
        for (end = first; end < c->count && end - first < LS_CUDA_UPDATE_PIECES; end++) {
            const ls_update_piece *piece = &c->pieces[end];
            blocks += ls_cuda_divide_up(piece->n, LS_CUDA_UPDATE_ELEMS);
            if (end > first && (piece->step->rule != c->pieces[first].step->rule || blocks > BLOCKS_MAX)) break;
        }
        LS_TRY(update_pieces(device, c->pieces + first, end - first));
    }
    return sum_updated(device, c);
}

_Static_assert((int)LS_EXACT_WORDS == LS_CUDA_EXACT_WORDS, "kernels add to the words of an exact sum");

static ls_status add_squares(ls_device *device, ls_cuda_squares *args) {
    size_t turns = args->first[args->count];
    ls_status status = LS_OK;
    if (turns > 0)
        status = ls_cuda_launch(device, LS_CUDA_square_sums, (ls_cuda_grid){ls_cuda_blocks(device, turns), 1, 1},
                                16 * LS_CUDA_SQUARE_BLOCKS, 0, args);
    args->count = 0;
    return status;
}

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
