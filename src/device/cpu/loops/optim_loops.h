/* optim_loops.h: optimizer steps over a vector of 16 lanes.
 *
 * Included by kernels_loops.h. */
#include "device/cpu/loops/part_loops.h"

LSK_INLINE void store_bf16_part(uint16_t *to, v16 x, size_t n) {
    if (n == LANES)
        v16_store_bf16(to, x);
    else
        v16_store_bf16_n(to, x, n);
}

/* NaN is not below anything and stays. */
LSK_INLINE v16 flush(v16 x) { return v16_select(v16_lt(v16_abs(x), v16_set1(0x1p-126f)), v16_set1(0.0f), x); }

LSK_INLINE void adamw_part(float *restrict w_at, float *restrict m_at, float *restrict v_at, uint16_t *restrict bf16,
                           const float *restrict g_at, const ls_adamw_step *s, size_t n) {
    v16 g = v16_mul(v16_set1(s->factor), load_part(g_at, n));
    v16 m = v16_fma(v16_set1(s->beta1), load_part(m_at, n), v16_mul(v16_set1(s->beta1_rest), g));
    v16 v = v16_fma(v16_set1(s->beta2), load_part(v_at, n), v16_mul(v16_set1(s->beta2_rest), v16_mul(g, g)));
    m = flush(m);
    v = flush(v);
    v16 e = v16_fma(v16_sqrt(v), v16_set1(s->root), v16_set1(s->epsilon));
    v16 kept = v16_mul(load_part(w_at, n), v16_set1(s->decay));
    v16 w = v16_fnma(v16_set1(s->rate), v16_div(m, e), kept);
    store_part(m_at, m, n);
    store_part(v_at, v, n);
    store_part(w_at, w, n);
    if (bf16) store_bf16_part(bf16, w, n);
}

static void LSK_NAME(lsk_adamw)(float *w, float *m, float *v, uint16_t *bf16, const float *g, const ls_adamw_step *step,
                                size_t n) {
    /* A copy that nothing written can change stays in registers. */
    const ls_adamw_step s = *step;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) adamw_part(w + i, m + i, v + i, bf16 ? bf16 + i : NULL, g + i, &s, LANES);
    if (i < n) adamw_part(w + i, m + i, v + i, bf16 ? bf16 + i : NULL, g + i, &s, n - i);
}

LSK_INLINE void sgd_part(float *restrict w_at, float *restrict b_at, uint16_t *restrict bf16,
                         const float *restrict g_at, const ls_sgd_step *s, size_t n) {
    v16 w = load_part(w_at, n);
    v16 g = v16_fma(v16_set1(s->weight_decay), w, v16_mul(v16_set1(s->factor), load_part(g_at, n)));
    if (b_at) {
        v16 b = v16_fma(v16_set1(s->momentum), load_part(b_at, n), g);
        store_part(b_at, b, n);
        g = s->nesterov ? v16_fma(v16_set1(s->momentum), b, g) : b;
    }
    w = v16_fnma(v16_set1(s->rate), g, w);
    store_part(w_at, w, n);
    if (bf16) store_bf16_part(bf16, w, n);
}

static void LSK_NAME(lsk_sgd)(float *w, float *b, uint16_t *bf16, const float *g, const ls_sgd_step *step, size_t n) {
    const ls_sgd_step s = *step;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) sgd_part(w + i, b ? b + i : NULL, bf16 ? bf16 + i : NULL, g + i, &s, LANES);
    if (i < n) sgd_part(w + i, b ? b + i : NULL, bf16 ? bf16 + i : NULL, g + i, &s, n - i);
}

static double block_squares(const float *x, size_t n) {
    v16d sum = v16d_zero();
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        v16d wide = v16d_widen(v16_load(x + i));
        sum = v16d_fma(wide, wide, sum);
    }
    if (i < n) {
        v16d wide = v16d_widen(v16_load_n(x + i, n - i, 0.0f));
        sum = v16d_fma(wide, wide, sum);
    }
    return v16d_sum(sum);
}

static void LSK_NAME(lsk_square_sums)(double *out, const float *x, size_t n) {
    for (size_t i = 0; i < n; i += LS_SQUARE_BLOCK)
        *out++ = block_squares(x + i, n - i < LS_SQUARE_BLOCK ? n - i : LS_SQUARE_BLOCK);
}

LSK_INLINE void scale_part(float *y, const float *x, v16 factor, size_t n) {
    store_part(y, v16_mul(load_part(x, n), factor), n);
}

static void LSK_NAME(lsk_scale)(float *y, const float *x, float factor, size_t n) {
    v16 f = v16_set1(factor);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) scale_part(y + i, x + i, f, LANES);
    if (i < n) scale_part(y + i, x + i, f, n - i);
}

static const ls_optim_kernels optim_kernels = {
    .adamw = LSK_NAME(lsk_adamw),
    .sgd = LSK_NAME(lsk_sgd),
    .square_sums = LSK_NAME(lsk_square_sums),
    .scale = LSK_NAME(lsk_scale),
};
