/* norm_loops.h: layer norm and RMS norm over a vector of 16 lanes, which are the lanes of sum16.
 *
 * Included by one file per ISA after its vector type, with LSK_NAME(stem) set. */
#include <math.h>

#include "kernels/norm.h"
#include "kernels/loops/part_loops.h"

/* As many rows go into the parameter gradients in one pass over the columns, to load and store these once for all. */
enum { ROWS_AT_ONCE = 4 };

LSK_INLINE v16 add_part(v16 sum, const float *x, size_t n) { return v16_add(sum, load_part(x, n)); }

LSK_INLINE v16 add_square_part(v16 sum, const float *x, v16 mean, size_t n) {
    v16 d = keep_part(v16_sub(load_part(x, n), mean), n);
    return v16_fma(d, d, sum);
}

static float row_mean(const float *x, size_t C) {
    v16 sum = v16_set1(0.0f);
    size_t i = 0;
    for (; i + LANES <= C; i += LANES) sum = add_part(sum, x + i, LANES);
    if (i < C) sum = add_part(sum, x + i, C - i);
    return v16_sum(sum) / (float)C;
}

/* For RMS norm the mean is +0: x − (+0) is x, also for −0. */
static float row_rstd(const float *x, float mean, float eps, size_t C) {
    v16 sum = v16_set1(0.0f), center = v16_set1(mean);
    size_t i = 0;
    for (; i + LANES <= C; i += LANES) sum = add_square_part(sum, x + i, center, LANES);
    if (i < C) sum = add_square_part(sum, x + i, center, C - i);
    float variance = v16_sum(sum) / (float)C;
    return 1.0f / sqrtf(variance + eps);
}

LSK_INLINE void layer_part(float *y, const float *x, const float *w, const float *b, v16 mean, v16 rstd, size_t n) {
    v16 h = v16_mul(v16_sub(load_part(x, n), mean), rstd);
    store_part(y, v16_fma(h, load_part(w, n), load_part(b, n)), n);
}

static void LSK_NAME(lsk_layer_forward)(float *y, size_t y_stride, float *mean, float *rstd, const float *x,
                                        size_t x_stride, const float *w, const float *b, float eps, size_t rows,
                                        size_t C) {
    for (size_t r = 0; r < rows; r++, x += x_stride, y += y_stride) {
        float row_m = row_mean(x, C), row_r = row_rstd(x, row_m, eps, C);
        v16 m = v16_set1(row_m), s = v16_set1(row_r);
        size_t i = 0;
        for (; i + LANES <= C; i += LANES) layer_part(y + i, x + i, w + i, b + i, m, s, LANES);
        if (i < C) layer_part(y + i, x + i, w + i, b + i, m, s, C - i);
        mean[r] = row_m;
        rstd[r] = row_r;
    }
}

LSK_INLINE void rms_part(float *y, const float *x, const float *w, v16 rstd, size_t n) {
    store_part(y, v16_mul(v16_mul(load_part(x, n), rstd), load_part(w, n)), n);
}

static void LSK_NAME(lsk_rms_forward)(float *y, size_t y_stride, float *rstd, const float *x, size_t x_stride,
                                      const float *w, float eps, size_t rows, size_t C) {
    for (size_t r = 0; r < rows; r++, x += x_stride, y += y_stride) {
        float row_r = row_rstd(x, 0.0f, eps, C);
        v16 s = v16_set1(row_r);
        size_t i = 0;
        for (; i + LANES <= C; i += LANES) rms_part(y + i, x + i, w + i, s, LANES);
        if (i < C) rms_part(y + i, x + i, w + i, s, C - i);
        rstd[r] = row_r;
    }
}

/* The sums of a row's backward pass: of g and of g·h. */
typedef struct row_sums {
    v16 g, gh;
} row_sums;

LSK_INLINE row_sums sums_part(row_sums sums, const float *dy, const float *x, const float *w, v16 mean, v16 rstd,
                              size_t n) {
    v16 g = v16_mul(load_part(dy, n), load_part(w, n));
    v16 h = keep_part(v16_mul(v16_sub(load_part(x, n), mean), rstd), n);
    return (row_sums){v16_add(sums.g, g), v16_fma(g, h, sums.gh)};
}

LSK_INLINE row_sums backward_sums(const float *dy, const float *x, const float *w, v16 mean, v16 rstd, size_t C) {
    row_sums sums = {v16_set1(0.0f), v16_set1(0.0f)};
    size_t i = 0;
    for (; i + LANES <= C; i += LANES) sums = sums_part(sums, dy + i, x + i, w + i, mean, rstd, LANES);
    if (i < C) sums = sums_part(sums, dy + i, x + i, w + i, mean, rstd, C - i);
    return sums;
}

LSK_INLINE void layer_dx_part(float *dx, const float *dy, const float *x, const float *w, v16 mean, v16 rstd, v16 s,
                              v16 t, size_t n) {
    v16 g = v16_mul(load_part(dy, n), load_part(w, n));
    v16 h = v16_mul(v16_sub(load_part(x, n), mean), rstd);
    store_part(dx, v16_mul(rstd, v16_fnma(h, t, v16_sub(g, s))), n);
}

static void LSK_NAME(lsk_layer_backward)(float *dx, size_t dx_stride, const float *dy, size_t dy_stride, const float *x,
                                         size_t x_stride, const float *w, const float *mean, const float *rstd,
                                         size_t rows, size_t C) {
    for (size_t r = 0; r < rows; r++, dx += dx_stride, dy += dy_stride, x += x_stride) {
        v16 m = v16_set1(mean[r]), k = v16_set1(rstd[r]);
        row_sums sums = backward_sums(dy, x, w, m, k, C);
        v16 s = v16_set1(v16_sum(sums.g) / (float)C), t = v16_set1(v16_sum(sums.gh) / (float)C);
        size_t i = 0;
        for (; i + LANES <= C; i += LANES) layer_dx_part(dx + i, dy + i, x + i, w + i, m, k, s, t, LANES);
        if (i < C) layer_dx_part(dx + i, dy + i, x + i, w + i, m, k, s, t, C - i);
    }
}

LSK_INLINE void rms_dx_part(float *dx, const float *dy, const float *x, const float *w, v16 rstd, v16 t, size_t n) {
    v16 g = v16_mul(load_part(dy, n), load_part(w, n));
    v16 h = v16_mul(load_part(x, n), rstd);
    store_part(dx, v16_mul(rstd, v16_fnma(h, t, g)), n);
}

static void LSK_NAME(lsk_rms_backward)(float *dx, size_t dx_stride, const float *dy, size_t dy_stride, const float *x,
                                       size_t x_stride, const float *w, const float *rstd, size_t rows, size_t C) {
    for (size_t r = 0; r < rows; r++, dx += dx_stride, dy += dy_stride, x += x_stride) {
        v16 k = v16_set1(rstd[r]);
        row_sums sums = backward_sums(dy, x, w, v16_set1(0.0f), k, C);
        v16 t = v16_set1(v16_sum(sums.gh) / (float)C);
        size_t i = 0;
        for (; i + LANES <= C; i += LANES) rms_dx_part(dx + i, dy + i, x + i, w + i, k, t, LANES);
        if (i < C) rms_dx_part(dx + i, dy + i, x + i, w + i, k, t, C - i);
    }
}

/* What the parameter gradients read, from the first of the rows at hand. */
typedef struct param_rows {
    const float *dy, *x, *mean, *rstd;
    size_t dy_stride, x_stride;
} param_rows;

LSK_INLINE void layer_params_part(float *restrict dw, float *restrict db, const param_rows *from, size_t rows, size_t c,
                                  size_t n) {
    v16 w = load_part(dw + c, n), b = load_part(db + c, n);
    for (size_t r = 0; r < rows; r++) {
        v16 g = load_part(from->dy + r * from->dy_stride + c, n);
        v16 d = v16_sub(load_part(from->x + r * from->x_stride + c, n), v16_set1(from->mean[r]));
        w = v16_fma(g, v16_mul(d, v16_set1(from->rstd[r])), w);
        b = v16_add(b, g);
    }
    store_part(dw + c, w, n);
    store_part(db + c, b, n);
}

LSK_INLINE void layer_params_rows(float *restrict dw, float *restrict db, const param_rows *from, size_t rows,
                                  size_t begin, size_t end) {
    size_t c = begin;
    for (; c + LANES <= end; c += LANES) layer_params_part(dw, db, from, rows, c, LANES);
    if (c < end) layer_params_part(dw, db, from, rows, c, end - c);
}

static void LSK_NAME(lsk_layer_params)(float *dw, float *db, const float *dy, size_t dy_stride, const float *x,
                                       size_t x_stride, const float *mean, const float *rstd, size_t rows,
                                       size_t column_begin, size_t column_end) {
    for (size_t r = 0; r < rows;) {
        const param_rows from = {dy + r * dy_stride, x + r * x_stride, mean + r, rstd + r, dy_stride, x_stride};
        if (rows - r >= ROWS_AT_ONCE) {
            layer_params_rows(dw, db, &from, ROWS_AT_ONCE, column_begin, column_end);
            r += ROWS_AT_ONCE;
        } else {
            layer_params_rows(dw, db, &from, 1, column_begin, column_end);
            r++;
        }
    }
}

LSK_INLINE void rms_params_part(float *restrict dw, const param_rows *from, size_t rows, size_t c, size_t n) {
    v16 w = load_part(dw + c, n);
    for (size_t r = 0; r < rows; r++) {
        v16 h = v16_mul(load_part(from->x + r * from->x_stride + c, n), v16_set1(from->rstd[r]));
        w = v16_fma(load_part(from->dy + r * from->dy_stride + c, n), h, w);
    }
    store_part(dw + c, w, n);
}

LSK_INLINE void rms_params_rows(float *restrict dw, const param_rows *from, size_t rows, size_t begin, size_t end) {
    size_t c = begin;
    for (; c + LANES <= end; c += LANES) rms_params_part(dw, from, rows, c, LANES);
    if (c < end) rms_params_part(dw, from, rows, c, end - c);
}

static void LSK_NAME(lsk_rms_params)(float *dw, const float *dy, size_t dy_stride, const float *x, size_t x_stride,
                                     const float *rstd, size_t rows, size_t column_begin, size_t column_end) {
    for (size_t r = 0; r < rows;) {
        const param_rows from = {dy + r * dy_stride, x + r * x_stride, NULL, rstd + r, dy_stride, x_stride};
        if (rows - r >= ROWS_AT_ONCE) {
            rms_params_rows(dw, &from, ROWS_AT_ONCE, column_begin, column_end);
            r += ROWS_AT_ONCE;
        } else {
            rms_params_rows(dw, &from, 1, column_begin, column_end);
            r++;
        }
    }
}

static void LSK_NAME(fill)(ls_norm_kernels *t) {
    *t = (ls_norm_kernels){
        .layer_forward = LSK_NAME(lsk_layer_forward),
        .layer_backward = LSK_NAME(lsk_layer_backward),
        .layer_params = LSK_NAME(lsk_layer_params),
        .rms_forward = LSK_NAME(lsk_rms_forward),
        .rms_backward = LSK_NAME(lsk_rms_backward),
        .rms_params = LSK_NAME(lsk_rms_params),
    };
}
