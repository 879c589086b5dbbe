/* optim_loops.h: optimizer steps over a vector of 16 lanes.
 *
 * Included by kernels_loops.h. */
#include "device/cpu/loops/part_loops.h"

/* Stores the first n lanes, rounded to bf16. */
LSK_INLINE void store_bf16_part(uint16_t *to, v16 x, size_t n) {
    if (n == LANES)
        v16_store_bf16(to, x);
    else
        v16_store_bf16_n(to, x, n);
}

/* Returns +0 for |x| < 2^−126, else x; NaN stays. */
LSK_INLINE v16 flush(v16 x) { return v16_select(v16_lt(v16_abs(x), v16_set1(0x1p-126f)), v16_set1(0.0f), x); }

/* Sixteen weights, their gradients as backward left them (scaled), and their moments, if the rule has any. */
typedef struct update_lanes {
    v16 w, g, first, second;
} update_lanes;

/* Applies AdamW: updates both moments, then the weights with decoupled weight decay. */
LSK_INLINE void adamw(update_lanes *x, const ls_update_step *s) {
    v16 g = v16_mul(v16_set1(s->factor), x->g);
    v16 m = v16_fma(v16_set1(s->beta1), x->first, v16_mul(v16_set1(s->beta1_rest), g));
    v16 v = v16_fma(v16_set1(s->beta2), x->second, v16_mul(v16_set1(s->beta2_rest), v16_mul(g, g)));
    m = flush(m);
    v = flush(v);
    v16 e = v16_fma(v16_sqrt(v), v16_set1(s->root), v16_set1(s->epsilon));
    v16 kept = v16_mul(x->w, v16_set1(s->decay));
    x->w = v16_fnma(v16_set1(s->rate), v16_div(m, e), kept);
    x->first = m;
    x->second = v;
}

/* Applies SGD, with momentum if moments > 0; weight decay is added to the gradient. */
LSK_INLINE void sgd(update_lanes *x, const ls_update_step *s, int moments) {
    v16 g = v16_fma(v16_set1(s->weight_decay), x->w, v16_mul(v16_set1(s->factor), x->g));
    if (moments > 0) {
        v16 b = v16_fma(v16_set1(s->momentum), x->first, g);
        x->first = b;
        g = s->nesterov ? v16_fma(v16_set1(s->momentum), b, g) : b;
    }
    x->w = v16_fnma(v16_set1(s->rate), g, x->w);
}

/* Applies the rule; `rule` and `moments` are constants, so that the branch is compiled away. */
LSK_INLINE void apply_rule(ls_optimizer_kind rule, update_lanes *x, const ls_update_step *s, int moments) {
    if (rule == LS_OPTIMIZER_ADAMW)
        adamw(x, s);
    else
        sgd(x, s, moments);
}

/* Updates one part of up to 16 elements; `rule` and `moments` are constants. */
LSK_INLINE void update_part(ls_optimizer_kind rule, int moments, const ls_update_piece *c, const ls_update_step *s,
                            uint16_t *bf16, size_t at, size_t n) {
    update_lanes x = {.w = load_part(c->w + at, n), .g = load_part(c->g + at, n)};
    if (moments > 0) x.first = load_part(c->moment[0] + at, n);
    if (moments > 1) x.second = load_part(c->moment[1] + at, n);
    apply_rule(rule, &x, s, moments);
    if (moments > 0) store_part(c->moment[0] + at, x.first, n);
    if (moments > 1) store_part(c->moment[1] + at, x.second, n);
    store_part(c->w + at, x.w, n);
    if (bf16) store_bf16_part(bf16 + at, x.w, n);
}

/* Updates elements begin … end−1, and writes their bf16 copy if the call has one. */
LSK_INLINE void update_range(ls_optimizer_kind rule, int moments, const ls_update_piece *call, size_t begin,
                             size_t end) {
    /* Copies that nothing written can change stay in registers. */
    const ls_update_piece c = *call;
    const ls_update_step s = *call->step;
    uint16_t *bf16 = c.copy_dtype == LS_BF16 ? c.copy : NULL;
    size_t i = begin;
    for (; i + LANES <= end; i += LANES) update_part(rule, moments, &c, &s, bf16, i, LANES);
    if (i < end) update_part(rule, moments, &c, &s, bf16, i, end - i);
}

/* Updates elements begin … end−1 by the rule of the call: ls_optim_kernels.update. */
static void LSK_NAME(lsk_update)(const ls_update_piece *call, size_t begin, size_t end) {
    switch (call->step->rule) {
    case LS_OPTIMIZER_ADAMW: update_range(LS_OPTIMIZER_ADAMW, 2, call, begin, end); break;
    case LS_OPTIMIZER_SGD:
        if (call->moment[0])
            update_range(LS_OPTIMIZER_SGD, 1, call, begin, end);
        else
            update_range(LS_OPTIMIZER_SGD, 0, call, begin, end);
        break;
    }
}

/* Returns Σ x² in double, in 16 lanes that are then folded. */
static double block_squares(const float *x, size_t n) {
    v16d sum = v16d_set1(0.0);
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

/* Computes Σ x² of each block of LS_SQUARE_BLOCK elements: ls_optim_kernels.square_sums. */
static void LSK_NAME(lsk_square_sums)(double *out, const float *x, size_t n) {
    for (size_t i = 0; i < n; i += LS_SQUARE_BLOCK)
        *out++ = block_squares(x + i, n - i < LS_SQUARE_BLOCK ? n - i : LS_SQUARE_BLOCK);
}

/* Computes n ≤ 16 elements of y = x·factor. */
LSK_INLINE void scale_part(float *y, const float *x, v16 factor, size_t n) {
    store_part(y, v16_mul(load_part(x, n), factor), n);
}

/* Computes y = x·factor. */
static void LSK_NAME(lsk_scale)(float *y, const float *x, float factor, size_t n) {
    v16 f = v16_set1(factor);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) scale_part(y + i, x + i, f, LANES);
    if (i < n) scale_part(y + i, x + i, f, n - i);
}

/* Returns Σ (bits of x[i])·by[i] modulo 2^64, a part of a state sum; the compiler vectorizes it. */
static uint64_t LSK_NAME(lsk_state_block)(const float *x, const uint32_t *by, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, x + i, sizeof word);
        sum += (uint64_t)word * by[i];
    }
    return sum;
}

static const ls_optim_kernels optim_kernels = {
    .update = LSK_NAME(lsk_update),
    .square_sums = LSK_NAME(lsk_square_sums),
    .scale = LSK_NAME(lsk_scale),
    .state_block = LSK_NAME(lsk_state_block),
};
