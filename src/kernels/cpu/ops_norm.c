/* ops_norm.c: layer norm and RMS norm. Values and their gradients split by rows; parameter gradients chain down the
 * rows and split by columns. */
#include "kernels/cpu/cpu.h"

static ls_status run_rows(ls_device *device, const ls_norm_call *call, ls_cpu_fn fn) {
    ls_cpu_run(ls_cpu_enter(device), call->rows, ls_cpu_row_grain(call->C), fn, call);
    return LS_OK;
}

static ls_status run_columns(ls_device *device, const ls_norm_call *call, ls_cpu_fn fn) {
    ls_cpu_device *cpu = ls_cpu_enter(device);
    ls_cpu_run(cpu, call->C, ls_cpu_column_grain(cpu, call->rows, call->C), fn, call);
    return LS_OK;
}

/* ---- layer norm -------------------------------------------------------------------------------------------------- */

static void layer_forward_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_norm_call *c = args;
    kernels->norm.layer_forward(c->y + begin * c->y_stride, c->y_stride, c->mean + begin, c->rstd + begin,
                                c->x + begin * c->x_stride, c->x_stride, c->w, c->b, c->eps, end - begin, c->C);
}

static ls_status layer_norm_forward(ls_device *device, const ls_norm_call *call) {
    return run_rows(device, call, layer_forward_rows);
}

static void layer_backward_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_norm_call *c = args;
    kernels->norm.layer_backward(c->dx + begin * c->dx_stride, c->dx_stride, c->dy + begin * c->dy_stride, c->dy_stride,
                                 c->x + begin * c->x_stride, c->x_stride, c->w, c->mean + begin, c->rstd + begin,
                                 end - begin, c->C);
}

static ls_status layer_norm_backward(ls_device *device, const ls_norm_call *call) {
    return run_rows(device, call, layer_backward_rows);
}

static void layer_params_columns(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_norm_call *c = args;
    kernels->norm.layer_params(c->dw, c->db, c->dy, c->dy_stride, c->x, c->x_stride, c->mean, c->rstd, c->rows, begin,
                               end);
}

static ls_status layer_norm_params(ls_device *device, const ls_norm_call *call) {
    return run_columns(device, call, layer_params_columns);
}

/* ---- RMS norm ---------------------------------------------------------------------------------------------------- */

static void rms_forward_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_norm_call *c = args;
    kernels->norm.rms_forward(c->y + begin * c->y_stride, c->y_stride, c->rstd + begin, c->x + begin * c->x_stride,
                              c->x_stride, c->w, c->eps, end - begin, c->C);
}

static ls_status rms_norm_forward(ls_device *device, const ls_norm_call *call) {
    return run_rows(device, call, rms_forward_rows);
}

static void rms_backward_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_norm_call *c = args;
    kernels->norm.rms_backward(c->dx + begin * c->dx_stride, c->dx_stride, c->dy + begin * c->dy_stride, c->dy_stride,
                               c->x + begin * c->x_stride, c->x_stride, c->w, c->rstd + begin, end - begin, c->C);
}

static ls_status rms_norm_backward(ls_device *device, const ls_norm_call *call) {
    return run_rows(device, call, rms_backward_rows);
}

static void rms_params_columns(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_norm_call *c = args;
    kernels->norm.rms_params(c->dw, c->dy, c->dy_stride, c->x, c->x_stride, c->rstd, c->rows, begin, end);
}

static ls_status rms_norm_params(ls_device *device, const ls_norm_call *call) {
    return run_columns(device, call, rms_params_columns);
}

void ls_cpu_ops_fill_norm(ls_ops *ops) {
    ops->layer_norm_forward = layer_norm_forward;
    ops->layer_norm_backward = layer_norm_backward;
    ops->layer_norm_params = layer_norm_params;
    ops->rms_norm_forward = rms_norm_forward;
    ops->rms_norm_backward = rms_norm_backward;
    ops->rms_norm_params = rms_norm_params;
}
