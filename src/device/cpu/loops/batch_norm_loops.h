/* batch_norm_loops.h: batch norm over a vector of 16 lanes, which are channels.
 *
 * Included by kernels_loops.h. Some rows go through a loop together:
 * what is there for each channel is then loaded, and sums stored, once for all of them. All loads of a vector come
 * before its stores, so outputs may be inputs. */
#include "device/cpu/loops/part_loops.h"

enum { SUM_ROWS = 8, MAP_ROWS = 4 };

/* ReLU's gradient, by its result; y NULL: there was none. */
LSK_INLINE v16 relu_grad(const float *dy, const float *y, size_t at, size_t n) {
    v16 g = load_part(dy + at, n), zero = v16_set1(0.0f);
    return y ? v16_select(v16_le(load_part(y + at, n), zero), zero, g) : g;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

LSK_INLINE void squares_part(float *to, const float *x, const float *mean_at, size_t rows, size_t C, size_t n) {
    v16 sum = load_part(to, n), mean = load_part(mean_at, n);
    for (size_t r = 0; r < rows; r++) {
        v16 d = v16_sub(load_part(x + r * C, n), mean);
        sum = v16_fma(d, d, sum);
    }
    store_part(to, sum, n);
}

static void LSK_NAME(lsk_batch_norm_squares)(float *sum, const float *x, const float *mean, size_t rows, size_t C,
                                             size_t begin, size_t end) {
    for (size_t r = 0, some; r < rows; r += some, x += some * C) {
        some = rows - r < SUM_ROWS ? rows - r : SUM_ROWS;
        size_t c = begin;
        for (; c + LANES <= end; c += LANES) squares_part(sum + c, x + c, mean + c, some, C, LANES);
        if (c < end) squares_part(sum + c, x + c, mean + c, some, C, end - c);
    }
}

typedef struct grad_in {
    const float *dy, *y, *x, *mean, *rstd;
    size_t C;
} grad_in;

LSK_INLINE void grad_sums_part(float *sum_at, float *dot_at, const grad_in *in, size_t rows, size_t c, size_t n) {
    v16 sum = load_part(sum_at + c, n), dot = load_part(dot_at + c, n);
    v16 mean = load_part(in->mean + c, n), rstd = load_part(in->rstd + c, n);
    for (size_t r = 0; r < rows; r++) {
        size_t at = r * in->C + c;
        v16 g = relu_grad(in->dy, in->y, at, n), h = v16_mul(v16_sub(load_part(in->x + at, n), mean), rstd);
        sum = v16_add(sum, g);
        dot = v16_fma(g, h, dot);
    }
    store_part(sum_at + c, sum, n);
    store_part(dot_at + c, dot, n);
}

static void LSK_NAME(lsk_batch_norm_grad_sums)(float *sum, float *dot, const float *dy, const float *y, const float *x,
                                               const float *mean, const float *rstd, size_t rows, size_t C,
                                               size_t begin, size_t end) {
    for (size_t r = 0, some; r < rows; r += some) {
        grad_in in = {dy + r * C, y ? y + r * C : NULL, x + r * C, mean, rstd, C};
        some = rows - r < SUM_ROWS ? rows - r : SUM_ROWS;
        size_t c = begin;
        for (; c + LANES <= end; c += LANES) grad_sums_part(sum, dot, &in, some, c, LANES);
        if (c < end) grad_sums_part(sum, dot, &in, some, c, end - c);
    }
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

typedef struct apply_in {
    const float *x, *residual, *mean, *rstd, *w, *b;
    bool relu;
    size_t C;
} apply_in;

LSK_INLINE void apply_part(float *y, const apply_in *in, size_t rows, size_t c, size_t n) {
    v16 mean = load_part(in->mean + c, n), rstd = load_part(in->rstd + c, n), zero = v16_set1(0.0f);
    v16 w = load_part(in->w + c, n), b = load_part(in->b + c, n);
    for (size_t r = 0; r < rows; r++) {
        size_t at = r * in->C + c;
        v16 out = v16_fma(v16_mul(v16_sub(load_part(in->x + at, n), mean), rstd), w, b);
        if (in->residual) out = v16_add(out, load_part(in->residual + at, n));
        if (in->relu) out = v16_select(v16_le(out, zero), zero, out);
        store_part(y + at, out, n);
    }
}

static void LSK_NAME(lsk_batch_norm_apply)(float *y, const float *x, const float *residual, const float *mean,
                                           const float *rstd, const float *w, const float *b, bool relu, size_t rows,
                                           size_t C) {
    for (size_t r = 0, some; r < rows; r += some) {
        apply_in in = {x + r * C, residual ? residual + r * C : NULL, mean, rstd, w, b, relu, C};
        some = rows - r < MAP_ROWS ? rows - r : MAP_ROWS;
        size_t c = 0;
        for (; c + LANES <= C; c += LANES) apply_part(y + r * C, &in, some, c, LANES);
        if (c < C) apply_part(y + r * C, &in, some, c, C - c);
    }
}

LSK_INLINE void input_grad_part(float *dx, float *dresidual, const grad_in *in, const float *w, const float *s_at,
                                const float *t_at, size_t rows, size_t c, size_t n) {
    v16 mean = load_part(in->mean + c, n), rstd = load_part(in->rstd + c, n),
        factor = v16_mul(load_part(w + c, n), rstd);
    v16 s = load_part(s_at + c, n), t = load_part(t_at + c, n);
    for (size_t r = 0; r < rows; r++) {
        size_t at = r * in->C + c;
        v16 g = relu_grad(in->dy, in->y, at, n), h = v16_mul(v16_sub(load_part(in->x + at, n), mean), rstd);
        if (dresidual) store_part(dresidual + at, g, n);
        store_part(dx + at, v16_mul(factor, v16_fnma(h, t, v16_sub(g, s))), n);
    }
}

static void LSK_NAME(lsk_batch_norm_input_grad)(float *dx, float *dresidual, const float *dy, const float *y,
                                                const float *x, const float *mean, const float *rstd, const float *w,
                                                const float *s, const float *t, size_t rows, size_t C) {
    for (size_t r = 0, some; r < rows; r += some) {
        grad_in in = {dy + r * C, y ? y + r * C : NULL, x + r * C, mean, rstd, C};
        float *to = dresidual ? dresidual + r * C : NULL;
        some = rows - r < MAP_ROWS ? rows - r : MAP_ROWS;
        size_t c = 0;
        for (; c + LANES <= C; c += LANES) input_grad_part(dx + r * C, to, &in, w, s, t, some, c, LANES);
        if (c < C) input_grad_part(dx + r * C, to, &in, w, s, t, some, c, C - c);
    }
}

static const ls_batch_norm_kernels batch_norm_kernels = {
    .squares = LSK_NAME(lsk_batch_norm_squares),
    .apply = LSK_NAME(lsk_batch_norm_apply),
    .grad_sums = LSK_NAME(lsk_batch_norm_grad_sums),
    .input_grad = LSK_NAME(lsk_batch_norm_input_grad),
};
