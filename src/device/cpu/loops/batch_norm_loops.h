/* batch_norm_loops.h: the kernels of batch norm. A vector holds 16 channels of one row; a row is a pixel of an image.
 *
 * Included by kernels_loops.h once for each instruction set. A loop handles several rows at a time, so that it loads
 * the values of a channel (mean, rstd, weight, bias), and stores its sums, once for all of these rows. All loads of a
 * vector come before its stores, so an output may be an input. */
#include "device/cpu/loops/part_loops.h"

enum { SUM_ROWS = 8, MAP_ROWS = 4 };

/* Calls part(call, row, rows, channel, lanes) for channels begin … end−1 of all rows, at most `most` rows at a time. */
#define EACH_PART(part, call, most, begin, end)                                                                        \
    for (size_t r = 0, some; r < (call)->pixels; r += some) {                                                          \
        some = (call)->pixels - r < (most) ? (call)->pixels - r : (most);                                              \
        size_t c = begin;                                                                                              \
        for (; c + LANES <= (end); c += LANES) part(call, r, some, c, LANES);                                          \
        if (c < (end)) part(call, r, some, c, (end)-c);                                                                \
    }

/* Returns dy, with 0 where ReLU, if the call has one, made the output y 0. */
LSK_INLINE v16 relu_grad(const ls_batch_norm_call *b, size_t at, size_t n) {
    v16 g = load_part(b->dy + at, n), zero = v16_set1(0.0f);
    return b->relu ? v16_select(v16_le(load_part(b->y + at, n), zero), zero, g) : g;
}

/* Continues sums[channel] with (x − mean)² of these rows, for n channels from c on. */
LSK_INLINE void squares_part(const ls_batch_norm_call *b, size_t row, size_t rows, size_t c, size_t n) {
    v16 sum = load_part(b->sums + c, n), mean = load_part(b->mean + c, n);
    for (size_t r = row; r < row + rows; r++) {
        v16 d = v16_sub(load_part(b->x + r * b->channels + c, n), mean);
        sum = v16_fma(d, d, sum);
    }
    store_part(b->sums + c, sum, n);
}

/* Continues sums with one image, channels begin … end−1: ls_batch_norm_kernels.squares. */
static void LSK_NAME(lsk_batch_norm_squares)(const ls_batch_norm_call *call, size_t begin,
                                             size_t end){EACH_PART(squares_part, call, SUM_ROWS, begin, end)}

/* Adds Σ g to sum[channel] and Σ g·x̂ to dot[channel], with g behind ReLU's gradient and x̂ = (x − mean)·rstd. */
LSK_INLINE void grad_sums_part(const ls_batch_norm_call *b, size_t row, size_t rows, size_t c, size_t n) {
    v16 sum = load_part(b->sum + c, n), dot = load_part(b->dot + c, n);
    v16 mean = load_part(b->mean + c, n), rstd = load_part(b->rstd + c, n);
    for (size_t r = row; r < row + rows; r++) {
        size_t at = r * b->channels + c;
        v16 g = relu_grad(b, at, n), h = v16_mul(v16_sub(load_part(b->x + at, n), mean), rstd);
        sum = v16_add(sum, g);
        dot = v16_fma(g, h, dot);
    }
    store_part(b->sum + c, sum, n);
    store_part(b->dot + c, dot, n);
}

/* Continues sum and dot with one image, channels begin … end−1: ls_batch_norm_kernels.grad_sums. */
static void LSK_NAME(lsk_batch_norm_grad_sums)(const ls_batch_norm_call *call, size_t begin,
                                               size_t end){EACH_PART(grad_sums_part, call, SUM_ROWS, begin, end)}

/* Computes y = x̂·w + b, plus the residual, then ReLU, if the call has them, in `rows` rows from `row` on and n ≤ 16
 * channels from `c` on. */
LSK_INLINE void apply_part(const ls_batch_norm_call *in, size_t row, size_t rows, size_t c, size_t n) {
    v16 mean = load_part(in->mean + c, n), rstd = load_part(in->rstd + c, n), zero = v16_set1(0.0f);
    v16 w = load_part(in->w + c, n), b = load_part(in->b + c, n);
    for (size_t r = row; r < row + rows; r++) {
        size_t at = r * in->channels + c;
        v16 out = v16_fma(v16_mul(v16_sub(load_part(in->x + at, n), mean), rstd), w, b);
        if (in->residual) out = v16_add(out, load_part(in->residual + at, n));
        if (in->relu) out = v16_select(v16_le(out, zero), zero, out);
        store_part(in->y + at, out, n);
    }
}

/* Normalizes one image: ls_batch_norm_kernels.apply. */
static void LSK_NAME(lsk_batch_norm_apply)(const ls_batch_norm_call *call){
    EACH_PART(apply_part, call, MAP_ROWS, 0, call->channels)}

/* Backward: dx = w·rstd·(g − sum − x̂·dot), and dresidual = g unless it is NULL. The caller has turned the sums of
 * grad_sums into means. */
LSK_INLINE void input_grad_part(const ls_batch_norm_call *b, size_t row, size_t rows, size_t c, size_t n) {
    v16 mean = load_part(b->mean + c, n), rstd = load_part(b->rstd + c, n),
        factor = v16_mul(load_part(b->w + c, n), rstd);
    v16 s = load_part(b->sum + c, n), t = load_part(b->dot + c, n);
    for (size_t r = row; r < row + rows; r++) {
        size_t at = r * b->channels + c;
        v16 g = relu_grad(b, at, n), h = v16_mul(v16_sub(load_part(b->x + at, n), mean), rstd);
        if (b->dresidual) store_part(b->dresidual + at, g, n);
        store_part(b->dx + at, v16_mul(factor, v16_fnma(h, t, v16_sub(g, s))), n);
    }
}

/* Computes dx and dresidual of one image: ls_batch_norm_kernels.input_grad. */
static void LSK_NAME(lsk_batch_norm_input_grad)(const ls_batch_norm_call *call) {
    EACH_PART(input_grad_part, call, MAP_ROWS, 0, call->channels)
}

static const ls_batch_norm_kernels batch_norm_kernels = {
    .squares = LSK_NAME(lsk_batch_norm_squares),
    .apply = LSK_NAME(lsk_batch_norm_apply),
    .grad_sums = LSK_NAME(lsk_batch_norm_grad_sums),
    .input_grad = LSK_NAME(lsk_batch_norm_input_grad),
};
