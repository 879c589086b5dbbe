/* optim.c: optimizer steps and squared norms over flat arrays. */
#include "device/cuda/args/optim.h"

#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"

enum { WIDTH = 4 };

_Static_assert((int)LS_SQUARE_BLOCK == LS_CUDA_SQUARE_BLOCK, "blocks of squared norms are those of the contract");

static ls_status adamw(ls_device *device, const ls_update_call *c) {
    const ls_update_step *step = c->step;
    ls_cuda_adamw args = {.flat = {.n = c->n},
                          .copy_dtype = (int)c->copy_dtype,
                          .factor = step->factor,
                          .beta1 = step->beta1,
                          .beta1_rest = step->beta1_rest,
                          .beta2 = step->beta2,
                          .beta2_rest = step->beta2_rest,
                          .rate = step->rate,
                          .root = step->root,
                          .epsilon = step->epsilon,
                          .decay = step->decay,
                          .w = c->w,
                          .m = c->moment[0],
                          .v = c->moment[1],
                          .copy = c->copy,
                          .g = c->g};
    args.flat.aligned = ls_cuda_fits(c->w, LS_F32, 0, WIDTH) && ls_cuda_fits(c->moment[0], LS_F32, 0, WIDTH) &&
                        ls_cuda_fits(c->moment[1], LS_F32, 0, WIDTH) && ls_cuda_fits(c->g, LS_F32, 0, WIDTH) &&
                        ls_cuda_fits(c->copy, c->copy_dtype, 0, WIDTH);
    return ls_cuda_launch(device, LS_CUDA_adamw, ls_cuda_flat_grid(&args.flat, WIDTH, LS_CUDA_OPTIM_PACKS),
                          LS_CUDA_PACK_THREADS, 0, &args);
}

static ls_status sgd(ls_device *device, const ls_update_call *c) {
    const ls_update_step *step = c->step;
    ls_cuda_sgd args = {.flat = {.n = c->n},
                        .copy_dtype = (int)c->copy_dtype,
                        .nesterov = step->nesterov,
                        .factor = step->factor,
                        .rate = step->rate,
                        .momentum = step->momentum,
                        .weight_decay = step->weight_decay,
                        .w = c->w,
                        .b = c->moment[0],
                        .copy = c->copy,
                        .g = c->g};
    args.flat.aligned = ls_cuda_fits(c->w, LS_F32, 0, WIDTH) && ls_cuda_fits(c->moment[0], LS_F32, 0, WIDTH) &&
                        ls_cuda_fits(c->g, LS_F32, 0, WIDTH) && ls_cuda_fits(c->copy, c->copy_dtype, 0, WIDTH);
    return ls_cuda_launch(device, LS_CUDA_sgd, ls_cuda_flat_grid(&args.flat, WIDTH, LS_CUDA_OPTIM_PACKS),
                          LS_CUDA_PACK_THREADS, 0, &args);
}

ls_status ls_cuda_op_update(ls_device *device, const ls_update_call *c) {
    if (c->copy) LS_TRY(ls_check_half("a copy of weights", c->copy_dtype));
    return c->step->rule == LS_OPTIMIZER_ADAMW ? adamw(device, c) : sgd(device, c);
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
