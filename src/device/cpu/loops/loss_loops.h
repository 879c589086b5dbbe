/* loss_loops.h: softmax cross-entropy over a vector of 16 lanes, which are the lanes of sum16.
 *
 * Included by kernels_loops.h. Lanes past the end of a slice hold a logit of −inf, which raises no maximum and whose
 * exponential is +0. (With m = −inf or NaN it is NaN, but then the whole row is NaN.) */
#include <math.h>

#include "device/cpu/loops/part_loops.h"
#include "device/cpu/simd/math.h"

#define LOWEST (-INFINITY)

/* Loads n ≤ 16 logits; the other lanes are −inf. */
LSK_INLINE v16 load_logits(const float *z, size_t n) { return n == LANES ? v16_load(z) : v16_load_n(z, n, LOWEST); }

/* Returns the maximum of n logits; −inf for n = 0, and NaN if one is NaN. */
static float LSK_NAME(lsk_loss_slice_max)(const float *z, size_t n) {
    v16 m = v16_set1(LOWEST);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) m = v16_max(m, load_logits(z + i, LANES));
    if (i < n) m = v16_max(m, load_logits(z + i, n - i));
    return v16_hmax(m);
}

/* Returns the sum16 of exp(z − m) over n logits. */
static float LSK_NAME(lsk_loss_slice_sum)(const float *z, size_t n, float m) {
    v16 sum = v16_set1(0.0f), most = v16_set1(m);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) sum = v16_add(sum, v16_exp(v16_sub(load_logits(z + i, LANES), most)));
    if (i < n) sum = v16_add(sum, v16_exp(v16_sub(load_logits(z + i, n - i), most)));
    return v16_sum(sum);
}

/* Returns exp(z − m) / l. */
LSK_INLINE v16 probability(v16 z, v16 m, v16 l) { return v16_div(v16_exp(v16_sub(z, m)), l); }

/* Computes n ≤ 16 elements of dz without the target's −1. */
LSK_INLINE void grad_part(float *dz, const float *z, v16 m, v16 l, v16 g, size_t n) {
    store_part(dz, v16_mul(probability(load_logits(z, n), m, l), g), n);
}

/* Computes dz = (p − [j = target])·g; target ≥ n: it is in another slice. Subtracts 1 only at the target: p − 0 is p,
 * as no exponential is −0. */
static void LSK_NAME(lsk_loss_slice_grad)(float *dz, const float *z, size_t n, float m, float l, size_t target,
                                          float g) {
    v16 most = v16_set1(m), sum = v16_set1(l), start = v16_set1(g);
    float at_target = 0.0f;
    if (target < n) {
        v16 p = probability(v16_set1(z[target]), most, sum);
        at_target = v16_first(v16_mul(v16_sub(p, v16_set1(1.0f)), start));
    }
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) grad_part(dz + i, z + i, most, sum, start, LANES);
    if (i < n) grad_part(dz + i, z + i, most, sum, start, n - i);
    if (target < n) dz[target] = at_target;
}

/* Returns the loss of a row, log(l) − (z_target − m). */
static float LSK_NAME(lsk_loss_value)(float z_target, float m, float l) {
    return v16_first(v16_log(v16_set1(l))) - (z_target - m);
}

/* Returns the sum of a row by the tree over slices. The stack holds finished subtrees, after i slices one for each bit
 * of i, the largest at the bottom. */
static float row_sum(const float *z, const size_t *bounds, size_t slices, float m) {
    enum { DEPTH = 14 };
    float stack[DEPTH];
    size_t depth = 0;
    for (size_t i = 0; i < slices; i++) {
        float sum = LSK_NAME(lsk_loss_slice_sum)(z + bounds[i], bounds[i + 1] - bounds[i], m);
        for (size_t done = i + 1; done % 2 == 0; done /= 2) sum = stack[--depth] + sum;
        stack[depth++] = sum;
    }
    float sum = stack[--depth];
    while (depth > 0) sum = stack[--depth] + sum;
    return sum;
}

/* Computes m, l, the loss and, unless dz is NULL, the gradient of a whole row; `target` counts from z[0]. */
static ls_loss_row LSK_NAME(lsk_loss_row)(float *dz, const float *z, const size_t *bounds, size_t slices, size_t target,
                                          float g) {
    size_t begin = bounds[0], n = bounds[slices] - begin;
    ls_loss_row row;
    row.m = LSK_NAME(lsk_loss_slice_max)(z + begin, n);
    row.l = row_sum(z, bounds, slices, row.m);
    row.loss = LSK_NAME(lsk_loss_value)(z[target], row.m, row.l);
    if (dz) LSK_NAME(lsk_loss_slice_grad)(dz + begin, z + begin, n, row.m, row.l, target - begin, g);
    return row;
}

static const ls_loss_kernels loss_kernels = {
    .slice_max = LSK_NAME(lsk_loss_slice_max),
    .slice_sum = LSK_NAME(lsk_loss_slice_sum),
    .slice_grad = LSK_NAME(lsk_loss_slice_grad),
    .value = LSK_NAME(lsk_loss_value),
    .row = LSK_NAME(lsk_loss_row),
};
