/* act_loops.h: activations, residual and bias over a vector of 16 lanes.
 *
 * Included by kernels_loops.h. All loads of a vector come before its
 * stores, so outputs may be inputs. */
#include "device/cpu/loops/part_loops.h"
#include "device/cpu/simd/math.h"

#define GELU_C0 0x1.988454p-1f
#define GELU_C1 0x1.2444f2p-5f
#define GELU_C3 0x1.b6676cp-4f

LSK_INLINE v16 gelu_tanh(v16 x, v16 q) {
    return v16_tanh(v16_mul(x, v16_fma(v16_set1(GELU_C1), q, v16_set1(GELU_C0))));
}

LSK_INLINE v16 gelu(v16 x) {
    v16 t = gelu_tanh(x, v16_mul(x, x)), h = v16_mul(v16_set1(0.5f), x);
    return v16_fma(h, t, h);
}

LSK_INLINE v16 gelu_slope(v16 x) {
    v16 half = v16_set1(0.5f), q = v16_mul(x, x), t = gelu_tanh(x, q), h = v16_mul(half, x);
    v16 inner = v16_mul(h, v16_fnma(t, t, v16_set1(1.0f)));
    return v16_fma(inner, v16_fma(v16_set1(GELU_C3), q, v16_set1(GELU_C0)), v16_fma(half, t, half));
}

LSK_INLINE v16 silu_slope(v16 x, v16 s) {
    v16 one = v16_set1(1.0f);
    return v16_mul(s, v16_fma(x, v16_sub(one, s), one));
}

LSK_INLINE void gelu_part(float *y, const float *x, size_t n) { store_part(y, gelu(load_part(x, n)), n); }

static void LSK_NAME(lsk_gelu_forward)(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i += LANES) gelu_part(y + i, x + i, part_of(n - i));
}

LSK_INLINE void gelu_dx_part(float *dx, const float *dy, const float *x, size_t n) {
    store_part(dx, v16_mul(load_part(dy, n), gelu_slope(load_part(x, n))), n);
}

static void LSK_NAME(lsk_gelu_backward)(float *dx, const float *dy, const float *x, size_t n) {
    for (size_t i = 0; i < n; i += LANES) gelu_dx_part(dx + i, dy + i, x + i, part_of(n - i));
}

LSK_INLINE void silu_part(float *y, const float *x_at, size_t n) {
    v16 x = load_part(x_at, n);
    store_part(y, v16_mul(x, v16_sigmoid(x)), n);
}

static void LSK_NAME(lsk_silu_forward)(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i += LANES) silu_part(y + i, x + i, part_of(n - i));
}

LSK_INLINE void silu_dx_part(float *dx, const float *dy, const float *x_at, size_t n) {
    v16 x = load_part(x_at, n);
    store_part(dx, v16_mul(load_part(dy, n), silu_slope(x, v16_sigmoid(x))), n);
}

static void LSK_NAME(lsk_silu_backward)(float *dx, const float *dy, const float *x, size_t n) {
    for (size_t i = 0; i < n; i += LANES) silu_dx_part(dx + i, dy + i, x + i, part_of(n - i));
}

/* NaN is not ≤ 0, so it stays. */
LSK_INLINE v16 keep_positive(v16 x, v16 by) {
    v16 zero = v16_set1(0.0f);
    return v16_select(v16_le(by, zero), zero, x);
}

LSK_INLINE void relu_part(float *y, const float *x_at, size_t n) {
    v16 x = load_part(x_at, n);
    store_part(y, keep_positive(x, x), n);
}

static void LSK_NAME(lsk_relu_forward)(float *y, const float *x, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) relu_part(y + i, x + i, LANES);
    if (i < n) relu_part(y + i, x + i, n - i);
}

LSK_INLINE void relu_dx_part(float *dx, const float *dy, const float *y, size_t n) {
    store_part(dx, keep_positive(load_part(dy, n), load_part(y, n)), n);
}

static void LSK_NAME(lsk_relu_backward)(float *dx, const float *dy, const float *y, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) relu_dx_part(dx + i, dy + i, y + i, LANES);
    if (i < n) relu_dx_part(dx + i, dy + i, y + i, n - i);
}

static void LSK_NAME(lsk_sigmoid_forward)(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        size_t lanes = part_of(n - i);
        store_part(y + i, v16_sigmoid(load_part(x + i, lanes)), lanes);
    }
}

LSK_INLINE void sigmoid_dx_part(float *dx, const float *dy, const float *y_at, size_t n) {
    v16 y = load_part(y_at, n);
    store_part(dx, v16_mul(load_part(dy, n), v16_mul(y, v16_sub(v16_set1(1.0f), y))), n);
}

static void LSK_NAME(lsk_sigmoid_backward)(float *dx, const float *dy, const float *y, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) sigmoid_dx_part(dx + i, dy + i, y + i, LANES);
    if (i < n) sigmoid_dx_part(dx + i, dy + i, y + i, n - i);
}

LSK_INLINE void gated_part(float *y, const float *gate, const float *up, size_t n) {
    v16 x = load_part(gate, n);
    store_part(y, v16_mul(v16_mul(x, v16_sigmoid(x)), load_part(up, n)), n);
}

static void LSK_NAME(lsk_gated_forward)(float *y, size_t y_stride, const float *gate, const float *up, size_t in_stride,
                                        size_t rows, size_t columns) {
    for (size_t r = 0; r < rows; r++, y += y_stride, gate += in_stride, up += in_stride)
        for (size_t i = 0; i < columns; i += LANES) gated_part(y + i, gate + i, up + i, part_of(columns - i));
}

LSK_INLINE void gated_dx_part(float *dgate, float *dup, const float *dy_at, const float *gate, const float *up,
                              size_t n) {
    v16 x = load_part(gate, n), dy = load_part(dy_at, n), s = v16_sigmoid(x);
    v16 through_gate = v16_mul(v16_mul(dy, load_part(up, n)), silu_slope(x, s));
    v16 through_up = v16_mul(dy, v16_mul(x, s));
    store_part(dgate, through_gate, n);
    store_part(dup, through_up, n);
}

static void LSK_NAME(lsk_gated_backward)(float *dgate, float *dup, size_t din_stride, const float *dy, size_t dy_stride,
                                         const float *gate, const float *up, size_t in_stride, size_t rows,
                                         size_t columns) {
    for (size_t r = 0; r < rows; r++, dgate += din_stride, dup += din_stride, dy += dy_stride) {
        size_t at = r * in_stride;
        for (size_t i = 0; i < columns; i += LANES)
            gated_dx_part(dgate + i, dup + i, dy + i, gate + at + i, up + at + i, part_of(columns - i));
    }
}

LSK_INLINE void bias_gelu_part(float *y, float *pre, const float *c, const float *bias, size_t n) {
    v16 x = v16_add(load_part(c, n), load_part(bias, n));
    store_part(pre, x, n);
    store_part(y, gelu(x), n);
}

static void LSK_NAME(lsk_bias_gelu_forward)(float *y, size_t y_stride, float *pre, size_t pre_stride, const float *c,
                                            size_t c_stride, const float *bias, size_t rows, size_t columns) {
    for (size_t r = 0; r < rows; r++, y += y_stride, pre += pre_stride, c += c_stride)
        for (size_t i = 0; i < columns; i += LANES)
            bias_gelu_part(y + i, pre + i, c + i, bias + i, part_of(columns - i));
}

LSK_INLINE void residual_part(float *y, const float *a, const float *b, size_t n) {
    store_part(y, v16_add(load_part(a, n), load_part(b, n)), n);
}

static void LSK_NAME(lsk_residual)(float *y, const float *a, const float *b, size_t n) {
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) residual_part(y + i, a + i, b + i, LANES);
    if (i < n) residual_part(y + i, a + i, b + i, n - i);
}

/* As many rows go in in one pass over the columns, to load and store db once for all of them. */
enum { BIAS_ROWS = 8 };

LSK_INLINE void bias_grad_part(float *restrict db, const float *dy, size_t dy_stride, size_t rows, size_t n) {
    v16 sum = load_part(db, n);
    for (size_t r = 0; r < rows; r++) sum = v16_add(sum, load_part(dy + r * dy_stride, n));
    store_part(db, sum, n);
}

LSK_INLINE void bias_grad_rows(float *restrict db, const float *dy, size_t dy_stride, size_t rows, size_t begin,
                               size_t end) {
    size_t c = begin;
    for (; c + LANES <= end; c += LANES) bias_grad_part(db + c, dy + c, dy_stride, rows, LANES);
    if (c < end) bias_grad_part(db + c, dy + c, dy_stride, rows, end - c);
}

static void LSK_NAME(lsk_bias_grad)(float *db, const float *dy, size_t dy_stride, size_t rows, size_t column_begin,
                                    size_t column_end) {
    size_t r = 0;
    for (; r + BIAS_ROWS <= rows; r += BIAS_ROWS)
        bias_grad_rows(db, dy + r * dy_stride, dy_stride, BIAS_ROWS, column_begin, column_end);
    for (; r < rows; r++) bias_grad_rows(db, dy + r * dy_stride, dy_stride, 1, column_begin, column_end);
}

static const ls_act_kernels act_kernels = {
    .gelu_forward = LSK_NAME(lsk_gelu_forward),
    .gelu_backward = LSK_NAME(lsk_gelu_backward),
    .silu_forward = LSK_NAME(lsk_silu_forward),
    .silu_backward = LSK_NAME(lsk_silu_backward),
    .relu_forward = LSK_NAME(lsk_relu_forward),
    .relu_backward = LSK_NAME(lsk_relu_backward),
    .sigmoid_forward = LSK_NAME(lsk_sigmoid_forward),
    .sigmoid_backward = LSK_NAME(lsk_sigmoid_backward),
    .gated_forward = LSK_NAME(lsk_gated_forward),
    .gated_backward = LSK_NAME(lsk_gated_backward),
    .bias_gelu_forward = LSK_NAME(lsk_bias_gelu_forward),
    .residual = LSK_NAME(lsk_residual),
    .bias_grad = LSK_NAME(lsk_bias_grad),
};
