/* pooling_loops.h: pooling over a vector of 16 lanes, which are channels.
 *
 * Included by kernels_loops.h. Backward goes from each pixel to the windows that cover it, so that no two threads write
 * to one place.
 *
 * Channels that fill no vector go four at a time (few_…), the last four over some of those before them: a part of a
 * vector would cost more. */
#include <math.h>
#include <string.h>

#include "device/cpu/loops/part_loops.h"

/* Along one side: the taps begin … end−1 of a window that are inside the image, or the windows begin … end−1 that cover
 * a pixel. */
typedef struct span {
    size_t begin, end;
} span;

/* Returns the taps of window number `window` that are inside an image side of `size` pixels. */
LSK_INLINE span taps_of(size_t window, size_t size, size_t kernel, size_t stride, size_t pad) {
    size_t first = window * stride, last = size + pad - first;
    return (span){first < pad ? pad - first : 0, last < kernel ? last : kernel};
}

/* Returns which of `count` windows cover the pixel. */
LSK_INLINE span windows_of(size_t pixel, size_t count, size_t kernel, size_t stride, size_t pad) {
    size_t at = pixel + pad, end = at / stride + 1;
    return (span){at < kernel ? 0 : (at - kernel) / stride + 1, end < count ? end : count};
}

/* Advances the windows of a pixel to those of the next one, without a division. */
LSK_INLINE void slide(span *windows, size_t pixel, size_t count, size_t kernel, size_t stride, size_t pad) {
    size_t at = pixel + pad;
    while (windows->end < count && windows->end * stride <= at) windows->end++;
    while (windows->begin < windows->end && windows->begin * stride + kernel <= at) windows->begin++;
}

/* A row of windows (forward) or of pixels (backward): its image, its y, and the taps or windows in y. `rows` and
 * `columns` count the windows of an image. */
typedef struct pooling_row {
    size_t image, y, rows, columns;
    span there;
} pooling_row;

/* Returns row number `row` of windows, counted over all images. */
LSK_INLINE pooling_row row_of_windows(const ls_pooling_call *c, size_t row) {
    const ls_window *w = &c->window;
    size_t rows = ls_window_rows(w, c->height), y = row % rows;
    return (pooling_row){row / rows, y, rows, ls_window_columns(w, c->width),
                         taps_of(y, c->height, w->kernel_y, w->stride_y, w->pad_y)};
}

/* Returns row number `row` of pixels, counted over all images. */
LSK_INLINE pooling_row row_of_pixels(const ls_pooling_call *c, size_t row) {
    const ls_window *w = &c->window;
    size_t y = row % c->height, rows = ls_window_rows(w, c->height);
    return (pooling_row){row / c->height, y, rows, ls_window_columns(w, c->width),
                         windows_of(y, rows, w->kernel_y, w->stride_y, w->pad_y)};
}

/* Returns the offset of window (oy, ox) in the output, in elements. */
LSK_INLINE size_t window_at(const ls_pooling_call *c, const pooling_row *r, size_t oy, size_t ox) {
    return ((r->image * r->rows + oy) * r->columns + ox) * c->channels;
}

/* Returns the pixel under tap (ky, kx) of window (r->y, x); it must be inside the image. */
LSK_INLINE const float *pixel_of(const ls_pooling_call *c, const pooling_row *r, size_t x, size_t ky, size_t kx) {
    const ls_window *w = &c->window;
    size_t py = r->y * w->stride_y + ky - w->pad_y, px = x * w->stride_x + kx - w->pad_x;
    return c->x + ((r->image * c->height + py) * c->width + px) * c->channels;
}

/* ---- maximum ----------------------------------------------------------------------------------------------------- */

/* Maps bit patterns of floats to integers in the order of the numbers (−0 below +0, the one NaN above all), and
 * back. */
LSK_INLINE v16i order_of(v16i bits) { return v16i_xor(bits, v16i_and(v16i_sar(bits, 31), v16i_set1(0x7FFFFFFF))); }

/* Returns such integers of x, with every NaN as the one NaN. */
LSK_INLINE v16i order_of_number(v16 x) {
    return order_of(v16i_select(v16_isnan(x), v16i_set1(0x7FC00000), v16_bits(x)));
}

/* Stores the first n lanes. */
LSK_INLINE void store_taps(uint32_t *to, v16i taps, size_t n) {
    uint32_t part[LANES];
    if (n == LANES) {
        v16i_store(to, taps);
        return;
    }
    v16i_store(part, taps);
    memcpy(to, part, n * sizeof *to);
}

typedef float few __attribute__((vector_size(16)));
typedef int32_t few_int __attribute__((vector_size(16)));

/* Loads four floats from any address. */
LSK_INLINE few few_load(const float *from) {
    few v;
    memcpy(&v, from, sizeof v);
    return v;
}
LSK_INLINE void few_store(void *to, few_int v) { memcpy(to, &v, sizeof v); }

/* Returns `yes` in the lanes of the mask, `no` in the others. */
LSK_INLINE few_int few_select(few_int mask, few_int yes, few_int no) { return (mask & yes) | (~mask & no); }
/* Maps bit patterns as order_of() does. */
LSK_INLINE few_int few_order(few_int bits) { return bits ^ ((bits >> 31) & 0x7FFFFFFF); }

/* Computes max_window() for channels i … i+3. */
LSK_INLINE void few_max(const ls_pooling_call *c, const pooling_row *r, size_t x, span across, size_t at, size_t i) {
    few_int best = {INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN}, tap = {0, 0, 0, 0};
    for (size_t ky = r->there.begin; ky < r->there.end; ky++)
        for (size_t kx = across.begin; kx < across.end; kx++) {
            few number = few_load(pixel_of(c, r, x, ky, kx) + i);
            int32_t here = (int32_t)(ky * c->window.kernel_x + kx);
            few_int nan = {0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000}, taps = {here, here, here, here};
            few_int value = few_order(few_select(number != number, nan, (few_int)number)), better = value > best;
            best = few_select(better, value, best);
            tap = few_select(better, taps, tap);
        }
    few_store(c->y + at + i, few_order(best));
    few_store(c->taps + at + i, tap);
}

/* Computes the maximum and its tap for all channels of window (r->y, x); writes y and taps at element `at`. Of equal
 * maxima the first tap counts; a NaN is the largest. */
static void LSK_NAME(max_window)(const ls_pooling_call *c, const pooling_row *r, size_t x, span across, size_t at) {
    size_t kernel_x = c->window.kernel_x;
    for (size_t i = 0; i < c->channels; i += LANES) {
        size_t n = part_of(c->channels - i);
        if (n < LANES && c->channels >= 4) {
            for (; i + 4 <= c->channels; i += 4) few_max(c, r, x, across, at, i);
            if (i < c->channels) few_max(c, r, x, across, at, c->channels - 4);
            return;
        }
        v16i best = v16i_set1(INT32_MIN), tap = v16i_set1(0); /* below every number */
        for (size_t ky = r->there.begin; ky < r->there.end; ky++)
            for (size_t kx = across.begin; kx < across.end; kx++) {
                v16i value = order_of_number(load_part(pixel_of(c, r, x, ky, kx) + i, n));
                v16m better = v16i_gt(value, best);
                best = v16i_select(better, value, best);
                tap = v16i_select(better, v16i_set1((int32_t)(ky * kernel_x + kx)), tap);
            }
        store_part(c->y + at + i, v16_from_bits(order_of(best)), n);
        store_taps(c->taps + at + i, tap, n);
    }
}

/* Computes y and taps of rows begin … end−1: ls_pooling_kernels.max_forward. */
static void LSK_NAME(lsk_pooling_max_forward)(const ls_pooling_call *c, size_t begin, size_t end) {
    const ls_window *w = &c->window;
    for (size_t row = begin; row < end; row++) {
        pooling_row r = row_of_windows(c, row);
        for (size_t x = 0; x < r.columns; x++) LSK_NAME(max_window)
        (c, &r, x, taps_of(x, c->width, w->kernel_x, w->stride_x, w->pad_x), (row * r.columns + x) * c->channels);
    }
}

/* Returns dx of 16 channels of a pixel from channel i on: the sum of dy of the windows whose maximum it is. `tap0` is
 * the tap of window (0, 0) that would lie over the pixel. */
LSK_INLINE v16 max_grad(const ls_pooling_call *c, const pooling_row *r, size_t tap0, span across, size_t i) {
    const ls_window *w = &c->window;
    v16 sum = v16_set1(0.0f);
    for (size_t oy = r->there.begin; oy < r->there.end; oy++)
        for (size_t ox = across.begin; ox < across.end; ox++) {
            size_t at = window_at(c, r, oy, ox) + i, tap = tap0 - oy * w->stride_y * w->kernel_x - ox * w->stride_x;
            v16m mine = v16i_eq(v16i_load(c->taps + at), v16i_set1((int32_t)tap));
            sum = v16_select(mine, v16_add(sum, v16_load(c->dy + at)), sum);
        }
    return sum;
}

/* Computes max_grad of a pixel for `n` channels, at most four. */
LSK_INLINE void few_max_grad(float *dx, const ls_pooling_call *c, const pooling_row *r, size_t tap0, span across,
                             size_t i, size_t n) {
    const ls_window *w = &c->window;
    few sum = {0, 0, 0, 0};
    for (size_t oy = r->there.begin; oy < r->there.end; oy++)
        for (size_t ox = across.begin; ox < across.end; ox++) {
            size_t at = window_at(c, r, oy, ox) + i;
            int32_t tap = (int32_t)(tap0 - oy * w->stride_y * w->kernel_x - ox * w->stride_x);
            few_int taps = {tap, tap, tap, tap}, found = {0, 0, 0, 0};
            few d = {0, 0, 0, 0};
            memcpy(&found, c->taps + at, n * sizeof(float));
            memcpy(&d, c->dy + at, n * sizeof(float));
            sum = (few)few_select(found == taps, (few_int)(sum + d), (few_int)sum);
        }
    memcpy(dx + i, &sum, n * sizeof(float));
}

/* Computes dx of one pixel, all channels. */
LSK_INLINE void max_grads(float *dx, const ls_pooling_call *c, const pooling_row *r, size_t tap0, span across) {
    size_t i = 0, C = c->channels;
    for (; i + LANES <= C; i += LANES) v16_store(dx + i, max_grad(c, r, tap0, across, i));
    if (i == C) return;
    if (C < 4) {
        for (; i < C; i++) few_max_grad(dx, c, r, tap0, across, i, 1);
        return;
    }
    for (; i + 4 <= C; i += 4) few_max_grad(dx, c, r, tap0, across, i, 4);
    if (i < C) few_max_grad(dx, c, r, tap0, across, C - 4, 4);
}

/* Returns whether windows neither overlap nor leave gaps: each pixel has at most one, and slide() is not needed. */
LSK_INLINE bool windows_meet(const ls_window *w) {
    return w->stride_y == w->kernel_y && w->stride_x == w->kernel_x && w->pad_y == 0 && w->pad_x == 0;
}

/* Computes dx of one row of pixels. */
static void LSK_NAME(max_grad_row)(const ls_pooling_call *c, size_t row) {
    const ls_window *w = &c->window;
    pooling_row r = row_of_pixels(c, row);
    size_t x = 0, tap0 = (r.y + w->pad_y) * w->kernel_x + w->pad_x;
    float *dx = c->dx + row * c->width * c->channels;
    if (windows_meet(w)) {
        size_t windows = r.there.begin < r.there.end ? r.columns : 0;
        for (size_t ox = 0; ox < windows; ox++)
            for (size_t kx = 0; kx < w->kernel_x; kx++, x++)
                max_grads(dx + x * c->channels, c, &r, tap0 + x, (span){ox, ox + 1});
        memset(dx + x * c->channels, 0, (c->width - x) * c->channels * sizeof *dx);
        return;
    }
    for (span across = {0, 0}; x < c->width; x++) {
        slide(&across, x, r.columns, w->kernel_x, w->stride_x, w->pad_x);
        max_grads(dx + x * c->channels, c, &r, tap0 + x, across);
    }
}

/* Computes dx of rows begin … end−1: ls_pooling_kernels.max_backward. */
static void LSK_NAME(lsk_pooling_max_backward)(const ls_pooling_call *c, size_t begin, size_t end) {
    for (size_t row = begin; row < end; row++) LSK_NAME(max_grad_row)(c, row);
}

/* ---- mean -------------------------------------------------------------------------------------------------------- */

/* Returns 1 / the number of pixels that count in the mean. */
LSK_INLINE float share_of(const ls_pooling_call *c, span down, span across) {
    const ls_window *w = &c->window;
    size_t all = w->kernel_y * w->kernel_x, there = (down.end - down.begin) * (across.end - across.begin);
    return 1.0f / (float)(c->count_pad ? all : there);
}

/* Computes the mean of all channels of window (r->y, x). */
static void LSK_NAME(mean_window)(const ls_pooling_call *c, const pooling_row *r, size_t x, span across, float *y) {
    v16 share = v16_set1(share_of(c, r->there, across));
    for (size_t i = 0; i < c->channels; i += LANES) {
        size_t n = part_of(c->channels - i);
        v16 sum = v16_set1(0.0f);
        for (size_t ky = r->there.begin; ky < r->there.end; ky++)
            for (size_t kx = across.begin; kx < across.end; kx++)
                sum = v16_add(sum, load_part(pixel_of(c, r, x, ky, kx) + i, n));
        store_part(y + i, v16_mul(sum, share), n);
    }
}

/* Computes y of rows begin … end−1: ls_pooling_kernels.mean_forward. */
static void LSK_NAME(lsk_pooling_mean_forward)(const ls_pooling_call *c, size_t begin, size_t end) {
    const ls_window *w = &c->window;
    for (size_t row = begin; row < end; row++) {
        pooling_row r = row_of_windows(c, row);
        for (size_t x = 0; x < r.columns; x++) LSK_NAME(mean_window)
        (c, &r, x, taps_of(x, c->width, w->kernel_x, w->stride_x, w->pad_x),
         c->y + (row * r.columns + x) * c->channels);
    }
}

/* Returns share_of() of window (oy, ox). */
LSK_INLINE float share_of_window(const ls_pooling_call *c, size_t oy, size_t ox) {
    const ls_window *w = &c->window;
    return share_of(c, taps_of(oy, c->height, w->kernel_y, w->stride_y, w->pad_y),
                    taps_of(ox, c->width, w->kernel_x, w->stride_x, w->pad_x));
}

/* Returns dx of 16 channels of a pixel from channel i on. */
LSK_INLINE v16 mean_grad(const ls_pooling_call *c, const pooling_row *r, span across, size_t i) {
    v16 sum = v16_set1(0.0f);
    for (size_t oy = r->there.begin; oy < r->there.end; oy++)
        for (size_t ox = across.begin; ox < across.end; ox++) {
            v16 share = v16_set1(share_of_window(c, oy, ox));
            sum = v16_fma(v16_load(c->dy + window_at(c, r, oy, ox) + i), share, sum);
        }
    return sum;
}

/* Computes dx of the channels from i on, one by one. */
LSK_INLINE void mean_grad_few(float *dx, const ls_pooling_call *c, const pooling_row *r, span across, size_t i) {
    for (size_t k = i; k < c->channels; k++) dx[k] = 0.0f;
    for (size_t oy = r->there.begin; oy < r->there.end; oy++)
        for (size_t ox = across.begin; ox < across.end; ox++) {
            const float *dy = c->dy + window_at(c, r, oy, ox);
            float share = share_of_window(c, oy, ox);
            for (size_t k = i; k < c->channels; k++) dx[k] = fmaf(dy[k], share, dx[k]);
        }
}

/* Computes dx of rows begin … end−1: ls_pooling_kernels.mean_backward. */
static void LSK_NAME(lsk_pooling_mean_backward)(const ls_pooling_call *c, size_t begin, size_t end) {
    const ls_window *w = &c->window;
    for (size_t row = begin; row < end; row++) {
        pooling_row r = row_of_pixels(c, row);
        span across = {0, 0};
        for (size_t x = 0; x < c->width; x++) {
            float *dx = c->dx + (row * c->width + x) * c->channels;
            size_t i = 0;
            slide(&across, x, r.columns, w->kernel_x, w->stride_x, w->pad_x);
            for (; i + LANES <= c->channels; i += LANES) v16_store(dx + i, mean_grad(c, &r, across, i));
            if (i < c->channels) mean_grad_few(dx, c, &r, across, i);
        }
    }
}

static const ls_pooling_kernels pooling_kernels = {
    .max_forward = LSK_NAME(lsk_pooling_max_forward),
    .max_backward = LSK_NAME(lsk_pooling_max_backward),
    .mean_forward = LSK_NAME(lsk_pooling_mean_forward),
    .mean_backward = LSK_NAME(lsk_pooling_mean_backward),
};
