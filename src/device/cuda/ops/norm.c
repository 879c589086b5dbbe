/* norm.c: norms of rows: a block has as many of them as leave room for other blocks. */
#include "device/cuda/args/norm.h"

#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"

/* A third of a multiprocessor's shared memory; numbers that shared memory has in its banks. */
enum { WIDTH = 4, SHARED_OF_BLOCK = 72 << 10, BANKS = 32, SHARED_OF_KERNEL = 1024 };

static ls_cuda_norm args_of(const ls_norm_call *call) {
    return (ls_cuda_norm){
        .rows = call->rows,
        .C = call->C,
        .rms = call->rms,
        .act = (int)call->act,
        .add = call->add,
        .eps = call->eps,
        .x = call->x,
        .x_stride = call->x_stride,
        .w = call->w,
        .b = call->b,
        .y = call->y,
        .y_stride = call->y_stride,
        .mean = call->mean,
        .rstd = call->rstd,
        .dy = call->dy,
        .dy_stride = call->dy_stride,
        .dx = call->dx,
        .dx_stride = call->dx_stride,
    };
}

static bool are_aligned(const ls_norm_call *c, bool backward) {
    bool makes_y = !backward || c->remake;
    bool both = c->C % WIDTH == 0 && ls_cuda_fits(c->x, LS_F32, c->x_stride, WIDTH) &&
                ls_cuda_fits(c->w, LS_F32, 0, WIDTH) && (c->rms || ls_cuda_fits(c->b, LS_F32, 0, WIDTH)) &&
                (!makes_y || ls_cuda_fits(c->y, c->act, c->y_stride, WIDTH));
    if (backward)
        return both && ls_cuda_fits(c->dy, c->act, c->dy_stride, WIDTH) &&
               ls_cuda_fits(c->dx, LS_F32, c->dx_stride, WIDTH) && ls_cuda_fits(c->dx_copy, c->act, 0, WIDTH);
    return both && ls_cuda_fits(c->branch, c->act, 0, WIDTH) && ls_cuda_fits(c->sum, LS_F32, 0, WIDTH);
}

/* Threads that find equally many packs of a row, and half a warp for each row. */
static unsigned threads_of(size_t packs, int together) {
    size_t turns = ls_cuda_divide_up(packs, LS_CUDA_NORM_THREADS);
    size_t threads = ls_cuda_divide_up(ls_cuda_divide_up(packs, turns ? turns : 1), 32) * 32;
    size_t least = ls_cuda_divide_up((size_t)(together ? together : 1) * 16, 32) * 32;
    return (unsigned)(threads > least ? threads : least);
}

static ls_status norm(ls_device *device, ls_cuda_kernel kernel, const ls_norm_call *call, bool backward) {
    LS_TRY(ls_check_float("a norm", call->act));
    if (call->rows == 0 || call->C == 0) return LS_OK;
    ls_cuda_norm args = args_of(call);
    if (backward)
        args.dx_copy = call->dx_copy, args.y = call->remake ? call->y : NULL;
    else
        args.branch = call->branch, args.sum = call->sum;
    args.aligned = are_aligned(call, backward);
    /* Two rows beside each other are read at once: by different banks. */
    size_t pitch = ls_cuda_divide_up(call->C, BANKS) * BANKS + BANKS / 2,
           row = pitch * sizeof(float) * (backward ? 2 : 1);
    size_t most = ls_cuda_shared_max(device) - SHARED_OF_KERNEL;
    args.together = LS_CUDA_NORM_ROWS;
    while (args.together > 1 && ((size_t)args.together * row > SHARED_OF_BLOCK ||
                                 ls_cuda_divide_up(call->rows, (size_t)args.together) < ls_cuda_processors(device)))
        args.together /= 2;
    if (row > most) args.together = 0;
    args.pitch = args.together ? (int)pitch : 0;
    size_t blocks = ls_cuda_divide_up(call->rows, args.together ? (size_t)args.together : 1);
    return ls_cuda_launch(device, kernel, (ls_cuda_grid){blocks, 1, 1},
                          threads_of(args.aligned ? call->C / WIDTH : call->C, args.together),
                          (size_t)args.together * row, &args);
}

ls_status ls_cuda_op_norm_forward(ls_device *device, const ls_norm_call *call) {
    return norm(device, call->rms ? LS_CUDA_rms_norm_forward : LS_CUDA_layer_norm_forward, call, false);
}
ls_status ls_cuda_op_norm_backward(ls_device *device, const ls_norm_call *call) {
    return norm(device, call->rms ? LS_CUDA_rms_norm_backward : LS_CUDA_layer_norm_backward, call, true);
}
