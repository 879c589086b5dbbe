/* ops_act.c: activations and bias. All but bias_grad are elementwise and split by elements or rows; bias_grad is a sum
 * over tokens. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/token_sums.h"

/* ---- flat arrays ------------------------------------------------------------------------------------------------- */

typedef void (*unary_kernel)(float *y, const float *x, size_t n);
typedef void (*binary_kernel)(float *y, const float *a, const float *b, size_t n);

typedef struct unary_args {
    unary_kernel kernel;
    float *y;
    const float *x;
} unary_args;

typedef struct binary_args {
    binary_kernel kernel;
    float *y;
    const float *a, *b;
} binary_args;

static void unary_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    (void)kernels;
    const unary_args *u = args;
    u->kernel(u->y + begin, u->x + begin, end - begin);
}

static void binary_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    (void)kernels;
    const binary_args *b = args;
    b->kernel(b->y + begin, b->a + begin, b->b + begin, end - begin);
}

static ls_status gelu_forward(ls_device *device, float *y, const float *x, size_t n) {
    ls_cpu_device *cpu = ls_cpu_enter(device);
    ls_cpu_run(cpu, n, LS_CPU_GRAIN, unary_range, &(unary_args){cpu->kernels->act.gelu_forward, y, x});
    return LS_OK;
}

static ls_status gelu_backward(ls_device *device, float *dx, const float *dy, const float *x, size_t n) {
    ls_cpu_device *cpu = ls_cpu_enter(device);
    ls_cpu_run(cpu, n, LS_CPU_GRAIN, binary_range, &(binary_args){cpu->kernels->act.gelu_backward, dx, dy, x});
    return LS_OK;
}

static ls_status silu_forward(ls_device *device, float *y, const float *x, size_t n) {
    ls_cpu_device *cpu = ls_cpu_enter(device);
    ls_cpu_run(cpu, n, LS_CPU_GRAIN, unary_range, &(unary_args){cpu->kernels->act.silu_forward, y, x});
    return LS_OK;
}

static ls_status silu_backward(ls_device *device, float *dx, const float *dy, const float *x, size_t n) {
    ls_cpu_device *cpu = ls_cpu_enter(device);
    ls_cpu_run(cpu, n, LS_CPU_GRAIN, binary_range, &(binary_args){cpu->kernels->act.silu_backward, dx, dy, x});
    return LS_OK;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void gated_forward_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_gated_call *c = args;
    kernels->act.gated_forward(c->y + begin * c->y_stride, c->y_stride, c->gate + begin * c->in_stride,
                               c->up + begin * c->in_stride, c->in_stride, end - begin, c->columns);
}

static ls_status gated_forward(ls_device *device, const ls_gated_call *call) {
    ls_cpu_run(ls_cpu_enter(device), call->rows, ls_cpu_row_grain(call->columns), gated_forward_rows, call);
    return LS_OK;
}

static void gated_backward_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_gated_call *c = args;
    kernels->act.gated_backward(c->dgate + begin * c->din_stride, c->dup + begin * c->din_stride, c->din_stride,
                                c->dy + begin * c->dy_stride, c->dy_stride, c->gate + begin * c->in_stride,
                                c->up + begin * c->in_stride, c->in_stride, end - begin, c->columns);
}

static ls_status gated_backward(ls_device *device, const ls_gated_call *call) {
    ls_cpu_run(ls_cpu_enter(device), call->rows, ls_cpu_row_grain(call->columns), gated_backward_rows, call);
    return LS_OK;
}

static void bias_gelu_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_bias_gelu_call *c = args;
    kernels->act.bias_gelu_forward(c->y + begin * c->y_stride, c->y_stride, c->pre + begin * c->pre_stride,
                                   c->pre_stride, c->c + begin * c->c_stride, c->c_stride, c->bias, end - begin,
                                   c->columns);
}

static ls_status bias_gelu_forward(ls_device *device, const ls_bias_gelu_call *call) {
    ls_cpu_run(ls_cpu_enter(device), call->rows, ls_cpu_row_grain(call->columns), bias_gelu_rows, call);
    return LS_OK;
}

typedef struct bias_add_args {
    float *y;
    size_t y_stride;
    const float *bias;
    size_t columns;
} bias_add_args;

static void bias_add_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const bias_add_args *b = args;
    for (size_t r = begin; r < end; r++) {
        float *y = b->y + r * b->y_stride;
        kernels->add.add_f32(y, y, b->bias, b->columns);
    }
}

static ls_status bias_add(ls_device *device, float *y, size_t y_stride, const float *bias, size_t rows,
                          size_t columns) {
    bias_add_args args = {y, y_stride, bias, columns};
    ls_cpu_run(ls_cpu_enter(device), rows, ls_cpu_row_grain(columns), bias_add_rows, &args);
    return LS_OK;
}

/* ---- sums over tokens -------------------------------------------------------------------------------------------- */

typedef struct bias_grad_args {
    const float *dy;
    size_t dy_stride;
} bias_grad_args;

static void bias_chain(const ls_kernels *kernels, const void *args, float *to, size_t row, size_t rows, size_t column,
                       size_t n) {
    const bias_grad_args *b = args;
    kernels->act.bias_grad(to, b->dy + row * b->dy_stride + column, b->dy_stride, rows, 0, n);
}

static ls_status bias_grad(ls_device *device, float *db, const float *dy, size_t dy_stride, size_t columns,
                           const ls_token_groups *groups) {
    LS_TRY(ls_cpu_check_groups(groups));
    return ls_cpu_run_chains(ls_cpu_enter(device), &(ls_cpu_chains){.groups = groups,
                                                                    .columns = columns,
                                                                    .sums = 1,
                                                                    .out = {db},
                                                                    .chain = bias_chain,
                                                                    .args = &(bias_grad_args){dy, dy_stride}});
}

void ls_cpu_ops_fill_act(ls_ops *ops) {
    ops->gelu_forward = gelu_forward;
    ops->gelu_backward = gelu_backward;
    ops->silu_forward = silu_forward;
    ops->silu_backward = silu_backward;
    ops->gated_forward = gated_forward;
    ops->gated_backward = gated_backward;
    ops->bias_gelu_forward = bias_gelu_forward;
    ops->bias_add = bias_add;
    ops->bias_grad = bias_grad;
}
