/* rope_loops.h: rotary embedding over a vector of 16 lanes, which are 16 pairs (i, i + d/2) of a head.
 *
 * Included by kernels_loops.h. Both halves of a pair are loaded before either is stored, so y may be x. */
#include "device/cpu/loops/part_loops.h"

/* Vectors of pairs that are rotated together: a head of 64 is then read in one run. */
enum { AT_ONCE = 2 };

/* Rotates n ≤ 16 pairs: `sin` is for the second half, `minus` = −sin for the first, as −(b·sin) is b·(−sin). Backward
 * passes them exchanged. */
LSK_INLINE void rotate_part(float *y, const float *x, size_t half, v16 cos, v16 sin, v16 minus, size_t n) {
    v16 a = load_part(x, n), b = load_part(x + half, n);
    v16 first = v16_fma(a, cos, v16_mul(b, minus));
    v16 second = v16_fma(b, cos, v16_mul(a, sin));
    store_part(y, first, n);
    store_part(y + half, second, n);
}

/* Rotates all heads for `count` vectors of pairs from i on, the last with n lanes; cos and sin stay in registers. */
LSK_INLINE void rotate_heads(const ls_rope_call *c, float *y, const float *x, const float *cos_row,
                             const float *sin_row, size_t i, size_t count, size_t n, int back) {
    size_t half = c->d / 2;
    v16 cos[AT_ONCE], sin[AT_ONCE], minus[AT_ONCE];
    for (size_t k = 0; k < count; k++) {
        cos[k] = load_part(cos_row + i + k * LANES, n);
        sin[k] = load_part(sin_row + i + k * LANES, n);
        minus[k] = v16_neg(sin[k]);
    }
    for (size_t h = 0; h < c->heads; h++)
        for (size_t k = 0; k < count; k++) {
            size_t at = i + k * LANES;
            rotate_part(y + h * c->y_head_stride + at, x + h * c->x_head_stride + at, half, cos[k],
                        back ? minus[k] : sin[k], back ? sin[k] : minus[k], n);
        }
}

/* Rotates all rows and heads, forward or back. */
LSK_INLINE void rotate(const ls_rope_call *c, int back) {
    size_t half = c->d / 2, position = c->position0 % c->period;
    for (size_t r = 0; r < c->rows; r++) {
        float *y = (float *)c->y + r * c->y_row_stride;
        const float *x = (const float *)c->x + r * c->x_row_stride;
        const float *cos_row = c->cos + position * half, *sin_row = c->sin + position * half;
        size_t i = 0;
        for (; i + AT_ONCE * LANES <= half; i += AT_ONCE * LANES)
            rotate_heads(c, y, x, cos_row, sin_row, i, AT_ONCE, LANES, back);
        for (; i < half; i += LANES) rotate_heads(c, y, x, cos_row, sin_row, i, 1, part_of(half - i), back);
        if (++position == c->period) position = 0;
    }
}

/* Rotates by the angle of each row's position: ls_rope_kernels.forward. */
static void LSK_NAME(lsk_rope_forward)(const ls_rope_call *call) { rotate(call, 0); }

/* Rotates back: ls_rope_kernels.backward. */
static void LSK_NAME(lsk_rope_backward)(const ls_rope_call *call) { rotate(call, 1); }

static const ls_rope_kernels rope_kernels = {.forward = LSK_NAME(lsk_rope_forward),
                                             .backward = LSK_NAME(lsk_rope_backward)};
