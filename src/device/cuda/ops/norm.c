/* norm.c: norms of rows: half a warp has a row. */
#include "device/cuda/args/norm.h"

#include "device/cuda/ops/ops.h"

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

static ls_status norm(ls_device *device, ls_cuda_kernel kernel, const ls_norm_call *call) {
    LS_TRY(ls_check_float("a norm", call->act));
    ls_cuda_norm args = args_of(call);
    ls_cuda_grid grid = {ls_cuda_divide_up(call->rows, LS_CUDA_NORM_ROWS), 1, 1};
    return ls_cuda_launch(device, kernel, grid, LS_CUDA_NORM_THREADS, 0, &args);
}

ls_status ls_cuda_op_norm_forward(ls_device *device, const ls_norm_call *call) {
    return norm(device, LS_CUDA_norm_forward, call);
}
ls_status ls_cuda_op_norm_backward(ls_device *device, const ls_norm_call *call) {
    const size_t chunk = (size_t)16 * LS_CUDA_NORM_CHUNK;
    bool is_long = call->C > LS_CUDA_NORM_SHORT * chunk && call->C <= LS_CUDA_NORM_LONG * chunk;
    return norm(device, is_long ? LS_CUDA_norm_backward_long : LS_CUDA_norm_backward, call);
}
