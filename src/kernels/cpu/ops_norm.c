/* ops_norm.c: layer norm and RMS norm. Values and their gradients split by rows; gradients of parameters are sums over
 * tokens. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/token_sums.h"

static ls_status run_rows(ls_device *device, const ls_norm_call *call, ls_cpu_fn fn) {
    ls_cpu_run(ls_cpu_enter(device), call->rows, ls_cpu_row_grain(call->C), fn, call);
    return LS_OK;
}

typedef void (*chain_fn)(const ls_kernels *kernels, const void *args, float *to, size_t row, size_t rows, size_t column,
                         size_t n);

static ls_status run_params(ls_device *device, const ls_norm_call *call, const ls_token_groups *groups, chain_fn chain,
                            int sums) {
    LS_TRY(ls_cpu_check_group_rows(groups, call->rows));
    return ls_cpu_run_chains(ls_cpu_enter(device), &(ls_cpu_chains){.groups = groups,
                                                                    .columns = call->C,
                                                                    .sums = sums,
                                                                    .out = {call->dw, call->db},
                                                                    .chain = chain,
                                                                    .args = call});
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

static void layer_chain(const ls_kernels *kernels, const void *args, float *to, size_t row, size_t rows, size_t column,
                        size_t n) {
    const ls_norm_call *c = args;
    kernels->norm.layer_params(to, to + n, c->dy + row * c->dy_stride + column, c->dy_stride,
                               c->x + row * c->x_stride + column, c->x_stride, c->mean + row, c->rstd + row, rows, 0,
                               n);
}

static ls_status layer_norm_params(ls_device *device, const ls_norm_call *call, const ls_token_groups *groups) {
    return run_params(device, call, groups, layer_chain, 2);
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

static void rms_chain(const ls_kernels *kernels, const void *args, float *to, size_t row, size_t rows, size_t column,
                      size_t n) {
    const ls_norm_call *c = args;
    kernels->norm.rms_params(to, c->dy + row * c->dy_stride + column, c->dy_stride, c->x + row * c->x_stride + column,
                             c->x_stride, c->rstd + row, rows, 0, n);
}

static ls_status rms_norm_params(ls_device *device, const ls_norm_call *call, const ls_token_groups *groups) {
    return run_params(device, call, groups, rms_chain, 1);
}

void ls_cpu_ops_fill_norm(ls_ops *ops) {
    ops->layer_norm_forward = layer_norm_forward;
    ops->layer_norm_backward = layer_norm_backward;
    ops->layer_norm_params = layer_norm_params;
    ops->rms_norm_forward = rms_norm_forward;
    ops->rms_norm_backward = rms_norm_backward;
    ops->rms_norm_params = rms_norm_params;
}
