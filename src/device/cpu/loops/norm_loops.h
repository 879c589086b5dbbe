/* norm_loops.h: layer norm and RMS norm over a vector of 16 lanes, which are the lanes of sum16. Which of the two it is
 * (`rms`) is a constant in each loop.
 *
 * Included by kernels_loops.h, with FORWARD_ROWS, BACKWARD_ROWS and PARAM_ROWS set: the number of rows that go through
 * a loop together. Their sums are independent, so their additions overlap, and values of a column (weight, bias) are
 * loaded once for all of them; but more rows need more registers and more streams of memory. The hardware prefetcher
 * does not follow short rows, or several rows together, so the rows behind them are prefetched in the last loop over
 * these. Long rows go one by one. */
#include <math.h>
#include <string.h>

#include "device/cpu/loops/part_loops.h"

enum { ROWS_MAX = 4, SHORT_ROW = 1024 };

/* Loops over the rows, unrolled, so that sums in an array stay in registers. */
#define EACH_ROW(r, rows) _Pragma("GCC unroll 4") for (size_t r = 0; r < (rows); r++)

/* The rows in work; their number is a constant at each place of use. Rows to be prefetched are `ahead` rows further (0:
 * none). mean and rstd are copies, which no store of a result can change. */
typedef struct norm_rows {
    const float *x, *dy;
    size_t x_stride, dy_stride, C, ahead;
    float mean[ROWS_MAX], rstd[ROWS_MAX];
} norm_rows;

/* Prefetches the same place `ahead` rows further, if `wanted`. */
LSK_INLINE void fetch(const float *from, const norm_rows *in, size_t stride, int wanted) {
    if (wanted) __builtin_prefetch(from + in->ahead * stride);
}

/* Returns whether `most` rows are computed together from row r on: there are as many, and they are short. */
LSK_INLINE int go_together(const ls_norm_call *c, size_t r, size_t most) {
    return c->rows - r >= most && c->C <= SHORT_ROW;
}

/* Returns n rows of a call from row r on. */
LSK_INLINE norm_rows rows_at(const ls_norm_call *c, size_t r, size_t n) {
    return (norm_rows){
        .x = c->x + r * c->x_stride, .x_stride = c->x_stride, .C = c->C, .ahead = c->rows - r >= 2 * n ? n : 0};
}

/* Returns n rows for backward, with the mean and rstd that forward stored. */
LSK_INLINE norm_rows known_rows_at(const ls_norm_call *c, size_t r, size_t n, int rms) {
    norm_rows in = rows_at(c, r, n);
    in.dy = (const float *)c->dy + r * c->dy_stride;
    in.dy_stride = c->dy_stride;
    if (!rms) memcpy(in.mean, c->mean + r, n * sizeof *in.mean);
    memcpy(in.rstd, c->rstd + r, n * sizeof *in.rstd);
    return in;
}

/* Adds n ≤ 16 columns of each row to its sums. */
LSK_INLINE void add_parts(v16 *sums, const norm_rows *in, size_t rows, size_t c, size_t n) {
    EACH_ROW(r, rows) sums[r] = v16_add(sums[r], load_part(in->x + r * in->x_stride + c, n));
}

/* Computes the mean of each row. */
LSK_INLINE void find_means(norm_rows *in, size_t rows) {
    v16 sums[ROWS_MAX];
    size_t c = 0;
    EACH_ROW(r, rows) sums[r] = v16_set1(0.0f);
    for (; c + LANES <= in->C; c += LANES) add_parts(sums, in, rows, c, LANES);
    if (c < in->C) add_parts(sums, in, rows, c, in->C - c);
    EACH_ROW(r, rows) in->mean[r] = v16_sum(sums[r]) / (float)in->C;
}

/* Adds the squares of n ≤ 16 columns, about the mean unless `rms`, to each row's sums. */
LSK_INLINE void add_square_parts(v16 *sums, const norm_rows *in, size_t rows, size_t c, size_t n, int rms) {
    EACH_ROW(r, rows) {
        v16 d = load_part(in->x + r * in->x_stride + c, n);
        if (!rms) d = keep_part(v16_sub(d, v16_set1(in->mean[r])), n);
        sums[r] = v16_fma(d, d, sums[r]);
    }
}

/* Computes 1 / √(mean square + eps) of each row. */
LSK_INLINE void find_rstds(norm_rows *in, float eps, size_t rows, int rms) {
    v16 sums[ROWS_MAX];
    size_t c = 0;
    EACH_ROW(r, rows) sums[r] = v16_set1(0.0f);
    for (; c + LANES <= in->C; c += LANES) add_square_parts(sums, in, rows, c, LANES, rms);
    if (c < in->C) add_square_parts(sums, in, rows, c, in->C - c, rms);
    EACH_ROW(r, rows) in->rstd[r] = 1.0f / sqrtf(v16_sum(sums[r]) / (float)in->C + eps);
}

/* Computes n ≤ 16 columns of y of each row. Loads b for each row, because an addend in a register would be copied
 * first. */
LSK_INLINE void forward_parts(float *y, size_t y_stride, const norm_rows *in, const float *w_at, const float *b,
                              size_t rows, size_t c, size_t n, int rms, int ahead) {
    v16 w = load_part(w_at + c, n);
    EACH_ROW(r, rows) {
        const float *x_at = in->x + r * in->x_stride + c;
        v16 x = load_part(x_at, n), k = v16_set1(in->rstd[r]);
        fetch(x_at, in, in->x_stride, ahead);
        v16 result = rms ? v16_mul(v16_mul(x, k), w)
                         : v16_fma(v16_mul(v16_sub(x, v16_set1(in->mean[r])), k), w, load_part(b + c, n));
        store_part(y + r * y_stride + c, result, n);
    }
}

/* Computes y, mean and rstd of `rows` rows from row `row` on. */
LSK_INLINE void norm_forward_rows(const ls_norm_call *call, size_t row, norm_rows *in, size_t rows, int rms,
                                  int ahead) {
    float *y = (float *)call->y + row * call->y_stride;
    const float *w = call->w, *b = call->b;
    size_t y_stride = call->y_stride, c = 0;
    if (!rms) find_means(in, rows);
    find_rstds(in, call->eps, rows, rms);
    for (; c + LANES <= in->C; c += LANES) forward_parts(y, y_stride, in, w, b, rows, c, LANES, rms, ahead);
    if (c < in->C) forward_parts(y, y_stride, in, w, b, rows, c, in->C - c, rms, ahead);
    if (!rms) memcpy(call->mean + row, in->mean, rows * sizeof *in->mean);
    memcpy(call->rstd + row, in->rstd, rows * sizeof *in->rstd);
}

/* Computes forward of all rows, several together if they are short. */
LSK_INLINE void norm_forward(const ls_norm_call *c, int rms) {
    for (size_t r = 0, n; r < c->rows; r += n) {
        int together = go_together(c, r, FORWARD_ROWS);
        n = together ? FORWARD_ROWS : 1;
        norm_rows in = rows_at(c, r, n);
        if (together)
            norm_forward_rows(c, r, &in, FORWARD_ROWS, rms, 1);
        else
            norm_forward_rows(c, r, &in, 1, rms, 0);
    }
}

/* Computes y, rstd and mean: ls_norm_kernels.forward. */
static void LSK_NAME(lsk_norm_forward)(const ls_norm_call *call) {
    if (call->rms)
        norm_forward(call, 1);
    else
        norm_forward(call, 0);
}

/* Returns the normalized x, without weight and bias, of n ≤ 16 columns of row r. */
LSK_INLINE v16 hat_part(const norm_rows *in, size_t r, size_t c, size_t n, int rms) {
    v16 x = load_part(in->x + r * in->x_stride + c, n);
    return v16_mul(rms ? x : v16_sub(x, v16_set1(in->mean[r])), v16_set1(in->rstd[r]));
}

/* Adds n ≤ 16 columns to the sums of g = dy·w, which RMS norm does not need, and of g·h, h the normalized x. */
LSK_INLINE void backward_sums_parts(v16 *g_sums, v16 *gh_sums, const norm_rows *in, const float *w_at, size_t rows,
                                    size_t c, size_t n, int rms) {
    v16 w = load_part(w_at + c, n);
    EACH_ROW(r, rows) {
        v16 g = v16_mul(load_part(in->dy + r * in->dy_stride + c, n), w);
        gh_sums[r] = v16_fma(g, keep_part(hat_part(in, r, c, n, rms), n), gh_sums[r]);
        if (!rms) g_sums[r] = v16_add(g_sums[r], g);
    }
}

/* Computes n ≤ 16 columns of dx of each row; s and t are the rows' means of g and of g·h. */
LSK_INLINE void dx_parts(float *dx, size_t dx_stride, const norm_rows *in, const float *w_at, const float *s,
                         const float *t, size_t rows, size_t c, size_t n, int rms, int ahead) {
    v16 w = load_part(w_at + c, n);
    EACH_ROW(r, rows) {
        const float *dy = in->dy + r * in->dy_stride + c;
        v16 g = v16_mul(load_part(dy, n), w), h = hat_part(in, r, c, n, rms);
        fetch(dy, in, in->dy_stride, ahead);
        fetch(in->x + r * in->x_stride + c, in, in->x_stride, ahead);
        v16 start = rms ? g : v16_sub(g, v16_set1(s[r]));
        store_part(dx + r * dx_stride + c, v16_mul(v16_set1(in->rstd[r]), v16_fnma(h, v16_set1(t[r]), start)), n);
    }
}

/* Computes dx of `rows` rows. */
LSK_INLINE void norm_backward_rows(float *dx, size_t dx_stride, const norm_rows *in, const float *w, size_t rows,
                                   int rms, int ahead) {
    v16 g_sums[ROWS_MAX], gh_sums[ROWS_MAX];
    float s[ROWS_MAX] = {0}, t[ROWS_MAX] = {0};
    size_t c = 0, C = in->C;
    EACH_ROW(r, rows) g_sums[r] = gh_sums[r] = v16_set1(0.0f);
    for (; c + LANES <= C; c += LANES) backward_sums_parts(g_sums, gh_sums, in, w, rows, c, LANES, rms);
    if (c < C) backward_sums_parts(g_sums, gh_sums, in, w, rows, c, C - c, rms);
    EACH_ROW(r, rows) {
        s[r] = v16_sum(g_sums[r]) / (float)C;
        t[r] = v16_sum(gh_sums[r]) / (float)C;
    }
    for (c = 0; c + LANES <= C; c += LANES) dx_parts(dx, dx_stride, in, w, s, t, rows, c, LANES, rms, ahead);
    if (c < C) dx_parts(dx, dx_stride, in, w, s, t, rows, c, C - c, rms, ahead);
}

/* Computes dx of all rows, several together if they are short. */
LSK_INLINE void norm_backward(const ls_norm_call *c, int rms) {
    for (size_t r = 0, n; r < c->rows; r += n) {
        int together = go_together(c, r, BACKWARD_ROWS);
        n = together ? BACKWARD_ROWS : 1;
        norm_rows in = known_rows_at(c, r, n, rms);
        if (together)
            norm_backward_rows(c->dx + r * c->dx_stride, c->dx_stride, &in, c->w, BACKWARD_ROWS, rms, 1);
        else
            norm_backward_rows(c->dx + r * c->dx_stride, c->dx_stride, &in, c->w, 1, rms, 0);
    }
}

/* Computes dx: ls_norm_kernels.backward. */
static void LSK_NAME(lsk_norm_backward)(const ls_norm_call *call) {
    if (call->rms)
        norm_backward(call, 1);
    else
        norm_backward(call, 0);
}

/* Continues dw and, unless `rms`, db with these rows, in n ≤ 16 columns. */
LSK_INLINE void params_part(float *dw, float *db, const norm_rows *in, size_t rows, size_t c, size_t n, int rms) {
    v16 w = load_part(dw + c, n), b = rms ? v16_set1(0.0f) : load_part(db + c, n);
    EACH_ROW(r, rows) {
        v16 g = load_part(in->dy + r * in->dy_stride + c, n);
        w = v16_fma(g, hat_part(in, r, c, n, rms), w);
        if (!rms) b = v16_add(b, g);
    }
    store_part(dw + c, w, n);
    if (!rms) store_part(db + c, b, n);
}

/* Continues dw and db with these rows, in all columns. */
LSK_INLINE void params_rows(const ls_norm_call *call, const norm_rows *in, size_t rows, int rms) {
    float *dw = call->dw, *db = call->db;
    size_t c = 0;
    for (; c + LANES <= in->C; c += LANES) params_part(dw, db, in, rows, c, LANES, rms);
    if (c < in->C) params_part(dw, db, in, rows, c, in->C - c, rms);
}

/* Continues dw and db with all rows, ascending. */
LSK_INLINE void norm_params(const ls_norm_call *c, int rms) {
    for (size_t r = 0, n; r < c->rows; r += n) {
        n = c->rows - r >= PARAM_ROWS ? PARAM_ROWS : 1;
        norm_rows in = known_rows_at(c, r, n, rms);
        if (n == PARAM_ROWS)
            params_rows(c, &in, PARAM_ROWS, rms);
        else
            params_rows(c, &in, 1, rms);
    }
}

/* Continues dw and db over the rows: ls_norm_kernels.params. */
static void LSK_NAME(lsk_norm_params)(const ls_norm_call *call) {
    if (call->rms)
        norm_params(call, 1);
    else
        norm_params(call, 0);
}

static const ls_norm_kernels norm_kernels = {
    .forward = LSK_NAME(lsk_norm_forward),
    .backward = LSK_NAME(lsk_norm_backward),
    .params = LSK_NAME(lsk_norm_params),
};
