/* act.c: activations and bias. All but bias_grad are elementwise and split by elements or rows; bias_grad is a sum
 * over tokens. */
#include <string.h>

#include "device/cpu/ops/staging.h"
#include "device/cpu/ops/token_sums.h"

/* ---- flat arrays ------------------------------------------------------------------------------------------------- */

static const char *const names[LS_ACT_FNS] = {
    [LS_ACT_GELU] = "GELU", [LS_ACT_SILU] = "SiLU", [LS_ACT_RELU] = "ReLU", [LS_ACT_SIGMOID] = "sigmoid"};

/* y of x forward; backward y is dx, from dy and x. */
typedef struct act_args {
    ls_act_fn fn;
    void *y;
    const void *dy, *x;
    ls_dtype act;
} act_args;

static void forward_piece(const ls_act_kernels *k, ls_act_fn fn, float *y, const float *x, size_t n) {
    switch (fn) {
    case LS_ACT_GELU: k->gelu_forward(y, x, n); break;
    case LS_ACT_SILU: k->silu_forward(y, x, n); break;
    case LS_ACT_RELU: k->relu_forward(y, x, n); break;
    default: k->sigmoid_forward(y, x, n);
    }
}

static void backward_piece(const ls_act_kernels *k, ls_act_fn fn, float *dx, const float *dy, const float *x,
                           size_t n) {
    switch (fn) {
    case LS_ACT_GELU: k->gelu_backward(dx, dy, x, n); break;
    case LS_ACT_SILU: k->silu_backward(dx, dy, x, n); break;
    case LS_ACT_RELU: k->relu_backward(dx, dy, x, n); break;
    default: k->sigmoid_backward(dx, dy, x, n);
    }
}

static void act_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const act_args *a = args;
    ls_cpu_buffer buffer, second;
    for (size_t i = begin, n; i < end; i += n) {
        n = ls_cpu_piece(a->act, end - i);
        const float *x = ls_cpu_widen(kernels, second.at, a->x, a->act, i, n);
        float *y = ls_cpu_target(buffer.at, a->y, a->act, i);
        if (a->dy)
            backward_piece(&kernels->act, a->fn, y, ls_cpu_widen(kernels, buffer.at, a->dy, a->act, i, n), x, n);
        else
            forward_piece(&kernels->act, a->fn, y, x, n);
        ls_cpu_narrow(kernels, a->y, a->act, i, y, n);
    }
}

static ls_status act_backward(ls_device *device, ls_act_fn fn, void *dx, const void *dy, const void *x, ls_dtype act,
                              size_t n) {
    LS_TRY(ls_cpu_check_dtype(names[fn], act));
    ls_cpu_run(ls_cpu_enter(device), n, LS_CPU_GRAIN, act_range, &(act_args){fn, dx, dy, x, act});
    return LS_OK;
}

static ls_status act_forward(ls_device *device, ls_act_fn fn, void *y, const void *x, ls_dtype act, size_t n) {
    return act_backward(device, fn, y, NULL, x, act, n);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Of a 16-bit call: n elements of row r from `column` on. */
static void gated_forward_piece(const ls_kernels *kernels, const ls_gated_call *c, size_t r, size_t column, size_t n) {
    ls_cpu_buffer gate, up;
    size_t in = r * c->in_stride + column;
    ls_cpu_widen(kernels, gate.at, c->gate, c->act, in, n);
    ls_cpu_widen(kernels, up.at, c->up, c->act, in, n);
    kernels->act.gated_forward(gate.at, n, gate.at, up.at, n, 1, n);
    ls_cpu_narrow(kernels, c->y, c->act, r * c->y_stride + column, gate.at, n);
}

static void gated_forward_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_gated_call *c = args;
    if (c->act == LS_F32) {
        kernels->act.gated_forward((float *)c->y + begin * c->y_stride, c->y_stride,
                                   (const float *)c->gate + begin * c->in_stride,
                                   (const float *)c->up + begin * c->in_stride, c->in_stride, end - begin, c->columns);
        return;
    }
    for (size_t r = begin; r < end; r++)
        for (size_t i = 0; i < c->columns; i += LS_CPU_STAGING)
            gated_forward_piece(kernels, c, r, i, ls_cpu_piece(c->act, c->columns - i));
}

static ls_status gated_forward(ls_device *device, const ls_gated_call *call) {
    LS_TRY(ls_cpu_check_dtype("a gate", call->act));
    ls_cpu_run(ls_cpu_enter(device), call->rows, ls_cpu_row_grain(call->columns), gated_forward_rows, call);
    return LS_OK;
}

static void gated_backward_piece(const ls_kernels *kernels, const ls_gated_call *c, size_t r, size_t column, size_t n) {
    ls_cpu_buffer gate, up, dy;
    size_t in = r * c->in_stride + column, din = r * c->din_stride + column;
    ls_cpu_widen(kernels, gate.at, c->gate, c->act, in, n);
    ls_cpu_widen(kernels, up.at, c->up, c->act, in, n);
    ls_cpu_widen(kernels, dy.at, c->dy, c->act, r * c->dy_stride + column, n);
    kernels->act.gated_backward(gate.at, up.at, n, dy.at, n, gate.at, up.at, n, 1, n);
    ls_cpu_narrow(kernels, c->dgate, c->act, din, gate.at, n);
    ls_cpu_narrow(kernels, c->dup, c->act, din, up.at, n);
}

static void gated_backward_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_gated_call *c = args;
    if (c->act == LS_F32) {
        size_t in = begin * c->in_stride, din = begin * c->din_stride;
        kernels->act.gated_backward((float *)c->dgate + din, (float *)c->dup + din, c->din_stride,
                                    (const float *)c->dy + begin * c->dy_stride, c->dy_stride,
                                    (const float *)c->gate + in, (const float *)c->up + in, c->in_stride, end - begin,
                                    c->columns);
        return;
    }
    for (size_t r = begin; r < end; r++)
        for (size_t i = 0; i < c->columns; i += LS_CPU_STAGING)
            gated_backward_piece(kernels, c, r, i, ls_cpu_piece(c->act, c->columns - i));
}

static ls_status gated_backward(ls_device *device, const ls_gated_call *call) {
    LS_TRY(ls_cpu_check_dtype("a gate", call->act));
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
    void *y;
    ls_dtype act;
    size_t y_stride;
    const float *c;
    size_t c_stride;
    const float *bias;
    size_t columns;
} bias_add_args;

static void bias_add_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const bias_add_args *b = args;
    ls_cpu_buffer buffer;
    for (size_t r = begin; r < end; r++)
        for (size_t i = 0, n; i < b->columns; i += n) {
            n = ls_cpu_piece(b->act, b->columns - i);
            const float *c = b->c + r * b->c_stride + i, *sum = c;
            float *y = ls_cpu_target(buffer.at, b->y, b->act, r * b->y_stride + i);
            if (b->bias) {
                kernels->add.add_f32(y, c, b->bias + i, n);
                sum = y;
            } else if (b->act == LS_F32 && y != c) {
                memcpy(y, c, n * sizeof *y);
            }
            ls_cpu_narrow(kernels, b->y, b->act, r * b->y_stride + i, sum, n);
        }
}

static ls_status bias_add(ls_device *device, void *y, ls_dtype act, size_t y_stride, const float *c, size_t c_stride,
                          const float *bias, size_t rows, size_t columns) {
    LS_TRY(ls_cpu_check_dtype("a sum with a bias", act));
    bias_add_args args = {y, act, y_stride, c, c_stride, bias, columns};
    ls_cpu_run(ls_cpu_enter(device), rows, ls_cpu_row_grain(columns), bias_add_rows, &args);
    return LS_OK;
}

/* ---- sums over tokens -------------------------------------------------------------------------------------------- */

static void bias_chain(const ls_kernels *kernels, const void *args, float *const to[2], const ls_cpu_tile *tile) {
    (void)args;
    kernels->act.bias_grad(to[0], tile->dy, tile->dy_stride, tile->rows, 0, tile->columns);
}

static ls_status bias_grad(ls_device *device, float *db, const void *dy, ls_dtype act, size_t dy_stride, size_t columns,
                           const ls_token_groups *groups) {
    LS_TRY(ls_cpu_check_dtype("the gradient of a bias", act));
    LS_TRY(ls_cpu_check_groups(groups));
    return ls_cpu_run_chains(ls_cpu_enter(device), &(ls_cpu_chains){.groups = groups,
                                                                    .columns = columns,
                                                                    .dy = dy,
                                                                    .act = act,
                                                                    .dy_stride = dy_stride,
                                                                    .sums = 1,
                                                                    .out = {db},
                                                                    .chain = bias_chain});
}

void ls_cpu_ops_fill_act(ls_ops *ops) {
    ops->act_forward = act_forward;
    ops->act_backward = act_backward;
    ops->gated_forward = gated_forward;
    ops->gated_backward = gated_backward;
    ops->bias_gelu_forward = bias_gelu_forward;
    ops->bias_add = bias_add;
    ops->bias_grad = bias_grad;
}
