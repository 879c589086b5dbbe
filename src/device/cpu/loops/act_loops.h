/* act_loops.h: activations, residual and bias over a vector of 16 lanes.
 *
 * Included by kernels_loops.h, after math_loops.h. All loads of a vector come before its stores, so outputs may be
 * inputs. */
#include "device/cpu/loops/math_loops.h"
#include "device/cpu/loops/part_loops.h"

/* c = √(2/π), c·0.044715 and 3·c·0.044715. */
#define GELU_C0 0x1.988454p-1f
#define GELU_C1 0x1.2444f2p-5f
#define GELU_C3 0x1.b6676cp-4f

/* Returns the tanh in GELU of x; q = x·x. */
LSK_INLINE v16 gelu_tanh(v16 x, v16 q) {
    return v16_tanh(v16_mul(x, v16_fma(v16_set1(GELU_C1), q, v16_set1(GELU_C0))));
}

/* Returns GELU in its tanh form. */
LSK_INLINE v16 gelu(v16 x) {
    v16 t = gelu_tanh(x, v16_mul(x, x)), h = v16_mul(v16_set1(0.5f), x);
    return v16_fma(h, t, h);
}

/* Returns the derivative of gelu() at x. */
LSK_INLINE v16 gelu_slope(v16 x) {
    v16 half = v16_set1(0.5f), q = v16_mul(x, x), t = gelu_tanh(x, q), h = v16_mul(half, x);
    v16 inner = v16_mul(h, v16_fnma(t, t, v16_set1(1.0f)));
    return v16_fma(inner, v16_fma(v16_set1(GELU_C3), q, v16_set1(GELU_C0)), v16_fma(half, t, half));
}

/* Returns x·sigmoid(x). */
LSK_INLINE v16 silu(v16 x) { return v16_mul(x, v16_sigmoid(x)); }

/* Returns the derivative of silu() at x; s = sigmoid(x). */
LSK_INLINE v16 silu_slope(v16 x, v16 s) {
    v16 one = v16_set1(1.0f);
    return v16_mul(s, v16_fma(x, v16_sub(one, s), one));
}

/* Returns x, but +0 in lanes with by ≤ 0 (a NaN in `by` keeps x). */
LSK_INLINE v16 keep_positive(v16 x, v16 by) {
    v16 zero = v16_set1(0.0f);
    return v16_select(v16_le(by, zero), zero, x);
}

/* Returns x, but +0 for x ≤ 0; NaN stays. */
LSK_INLINE v16 relu(v16 x) { return keep_positive(x, x); }

/* Returns the gradient of x from dy and x. */
LSK_INLINE v16 gelu_dx(v16 dy, v16 x) { return v16_mul(dy, gelu_slope(x)); }
/* Returns the gradient of x from dy and x. */
LSK_INLINE v16 silu_dx(v16 dy, v16 x) { return v16_mul(dy, silu_slope(x, v16_sigmoid(x))); }
/* Returns the gradient of x from dy and the output y of forward, not x. */
LSK_INLINE v16 relu_dx(v16 dy, v16 y) { return keep_positive(dy, y); }
/* Returns the gradient of x from dy and the output y of forward, not x. */
LSK_INLINE v16 sigmoid_dx(v16 dy, v16 y) { return v16_mul(dy, v16_mul(y, v16_sub(v16_set1(1.0f), y))); }

LSK_LOOP1(lsk_gelu_forward, gelu)
LSK_LOOP1(lsk_silu_forward, silu)
LSK_LOOP1(lsk_relu_forward, relu)
LSK_LOOP2(lsk_gelu_backward, gelu_dx)
LSK_LOOP2(lsk_silu_backward, silu_dx)
LSK_LOOP2(lsk_relu_backward, relu_dx)
LSK_LOOP2(lsk_sigmoid_backward, sigmoid_dx)
LSK_LOOP2(lsk_residual, v16_add)

/* Computes n ≤ 16 elements of fn(gate)·up. */
LSK_INLINE void gated_part(float *y, const float *gate, const float *up, size_t n, const ls_gate_fn fn) {
    v16 x = load_part(gate, n), g = fn == LS_GATE_GELU ? gelu(x) : silu(x);
    store_part(y, v16_mul(g, load_part(up, n)), n);
}

/* Computes all rows; `fn` is a constant, so that the loop has no branch. */
LSK_INLINE void gated_forward_rows(const ls_gated_call *c, const ls_gate_fn fn) {
    for (size_t r = 0; r < c->rows; r++) {
        float *y = (float *)c->y + r * c->y_stride;
        const float *gate = (const float *)c->gate + r * c->in_stride, *up = (const float *)c->up + r * c->in_stride;
        for (size_t i = 0; i < c->columns; i += LANES) gated_part(y + i, gate + i, up + i, part_of(c->columns - i), fn);
    }
}

/* Computes y = fn(gate)·up: ls_act_kernels.gated_forward. */
static void LSK_NAME(lsk_gated_forward)(const ls_gated_call *c) {
    if (c->fn == LS_GATE_GELU)
        gated_forward_rows(c, LS_GATE_GELU);
    else
        gated_forward_rows(c, LS_GATE_SILU);
}

/* Computes n ≤ 16 elements of dgate and dup. */
LSK_INLINE void gated_dx_part(float *dgate, float *dup, const float *dy_at, const float *gate, const float *up,
                              size_t n, const ls_gate_fn fn) {
    v16 x = load_part(gate, n), dy = load_part(dy_at, n), value, slope;
    if (fn == LS_GATE_GELU) {
        value = gelu(x);
        slope = gelu_slope(x);
    } else {
        v16 s = v16_sigmoid(x);
        value = v16_mul(x, s);
        slope = silu_slope(x, s);
    }
    v16 through_gate = v16_mul(v16_mul(dy, load_part(up, n)), slope);
    store_part(dgate, through_gate, n);
    store_part(dup, v16_mul(dy, value), n);
}

/* Computes the gradients of all rows; `fn` is a constant. */
LSK_INLINE void gated_backward_rows(const ls_gated_call *c, const ls_gate_fn fn) {
    for (size_t r = 0; r < c->rows; r++) {
        size_t in = r * c->in_stride, din = r * c->din_stride;
        const float *gate = (const float *)c->gate + in, *up = (const float *)c->up + in;
        const float *dy = (const float *)c->dy + r * c->dy_stride;
        float *dgate = (float *)c->dgate + din, *dup = (float *)c->dup + din;
        for (size_t i = 0; i < c->columns; i += LANES)
            gated_dx_part(dgate + i, dup + i, dy + i, gate + i, up + i, part_of(c->columns - i), fn);
    }
}

/* Computes dgate and dup: ls_act_kernels.gated_backward. */
static void LSK_NAME(lsk_gated_backward)(const ls_gated_call *c) {
    if (c->fn == LS_GATE_GELU)
        gated_backward_rows(c, LS_GATE_GELU);
    else
        gated_backward_rows(c, LS_GATE_SILU);
}

/* Computes n ≤ 16 elements of pre = c + bias and y = gelu(pre). */
LSK_INLINE void bias_gelu_part(float *y, float *pre, const float *c, const float *bias, size_t n) {
    v16 x = v16_add(load_part(c, n), load_part(bias, n));
    store_part(pre, x, n);
    store_part(y, gelu(x), n);
}

/* Computes pre and y of all rows: ls_act_kernels.bias_gelu_forward. */
static void LSK_NAME(lsk_bias_gelu_forward)(const ls_bias_gelu_call *call) {
    for (size_t r = 0; r < call->rows; r++) {
        float *y = call->y + r * call->y_stride, *pre = call->pre + r * call->pre_stride;
        const float *c = call->c + r * call->c_stride;
        for (size_t i = 0; i < call->columns; i += LANES)
            bias_gelu_part(y + i, pre + i, c + i, call->bias + i, part_of(call->columns - i));
    }
}

/* Rows that are added in one pass over the columns, so that db is loaded and stored once for all of them. */
enum { BIAS_ROWS = 8 };

/* Adds n ≤ 16 columns of `rows` rows to db, the rows ascending. */
LSK_INLINE void bias_grad_part(float *restrict db, const float *dy, size_t dy_stride, size_t rows, size_t n) {
    v16 sum = load_part(db, n);
    for (size_t r = 0; r < rows; r++) sum = v16_add(sum, load_part(dy + r * dy_stride, n));
    store_part(db, sum, n);
}

/* Adds columns begin … end−1 of `rows` rows to db; `rows` is a constant. */
LSK_INLINE void bias_grad_rows(float *restrict db, const float *dy, size_t dy_stride, size_t rows, size_t begin,
                               size_t end) {
    size_t c = begin;
    for (; c + LANES <= end; c += LANES) bias_grad_part(db + c, dy + c, dy_stride, rows, LANES);
    if (c < end) bias_grad_part(db + c, dy + c, dy_stride, rows, end - c);
}

/* Adds all rows to db in columns column_begin … column_end−1, in ascending order: ls_act_kernels.bias_grad. */
static void LSK_NAME(lsk_bias_grad)(float *db, const float *dy, size_t dy_stride, size_t rows, size_t column_begin,
                                    size_t column_end) {
    size_t r = 0;
    for (; r + BIAS_ROWS <= rows; r += BIAS_ROWS)
        bias_grad_rows(db, dy + r * dy_stride, dy_stride, BIAS_ROWS, column_begin, column_end);
    for (; r < rows; r++) bias_grad_rows(db, dy + r * dy_stride, dy_stride, 1, column_begin, column_end);
}

static const ls_act_kernels act_kernels = {
    .forward = {[LS_ACT_GELU] = LSK_NAME(lsk_gelu_forward),
                [LS_ACT_SILU] = LSK_NAME(lsk_silu_forward),
                [LS_ACT_RELU] = LSK_NAME(lsk_relu_forward),
                [LS_ACT_SIGMOID] = LSK_NAME(lsk_sigmoid)},
    .backward = {[LS_ACT_GELU] = LSK_NAME(lsk_gelu_backward),
                 [LS_ACT_SILU] = LSK_NAME(lsk_silu_backward),
                 [LS_ACT_RELU] = LSK_NAME(lsk_relu_backward),
                 [LS_ACT_SIGMOID] = LSK_NAME(lsk_sigmoid_backward)},
    .gated_forward = LSK_NAME(lsk_gated_forward),
    .gated_backward = LSK_NAME(lsk_gated_backward),
    .bias_gelu_forward = LSK_NAME(lsk_bias_gelu_forward),
    .residual = LSK_NAME(lsk_residual),
    .bias_grad = LSK_NAME(lsk_bias_grad),
};
