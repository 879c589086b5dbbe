/* loss_hgmma.c: softmax cross-entropy of 16-bit logits in the summation order of GPUs with tensor cores, in portable C;
 * docs/reference/arithmetic.md, "Softmax cross-entropy", has the formulas. */
#include "device/cpu/kernels.h"
#include "device/cpu/portable/exp2.h"
#include "numerics/float16.h"

enum { PACK = 8, LANES = 512, FOLD = 32 }; /* FOLD: lanes that are folded first */

static const float log2_e = 0x1.715476p+0f;

/* Widens a 16-bit logit. */
static float wide(uint16_t x, ls_dtype type) { return type == LS_BF16 ? ls_bf16_to_f32(x) : ls_f16_to_f32(x); }
/* Rounds to a 16-bit type, to nearest even. */
static uint16_t rounded(float x, ls_dtype type) { return type == LS_BF16 ? ls_bf16_from_f32(x) : ls_f16_from_f32(x); }

/* Returns e^(z − m) with the GPU's exp2; shift is −m·log2 e. */
static float weight(uint16_t z, ls_dtype type, float shift) { return unit_exp2(fmaf(wide(z, type), log2_e, shift)); }

/* Returns the maximum of n logits: −inf for n = 0, NaN if one is NaN, +0 for a zero. */
static float slice_max(const uint16_t *z, ls_dtype type, size_t n) {
    float m = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        float x = wide(z[i], type);
        if (x > m || isnan(x)) m = x; /* a NaN stays the maximum, as comparisons with it are false */
    }
    return m + 0.0f;
}

/* Reduces x to x[0] by halves, x[i] += x[i + n / 2], and returns it; n is a power of two. */
static float folded(float *x, size_t n) {
    for (size_t half = n / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
}

/* Returns the sum of up to eight weights, added in pairs; those that are missing are +0. */
static float pack_sum(const uint16_t *z, ls_dtype type, size_t n, float shift) {
    float p[PACK] = {0};
    for (size_t i = 0; i < n; i++) p[i] = weight(z[i], type, shift);
    return ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]));
}

/* Returns the sum of e^(z − m) over a slice of n logits, with exp2 as GPUs compute it. */
static float slice_sum(const uint16_t *z, ls_dtype type, size_t n, float m) {
    float lane[LANES] = {0}, sums[LANES / FOLD], shift = -(m * log2_e);
    prepare_exp2();
    for (size_t i = 0; i < n; i += PACK)
        lane[i / PACK % LANES] += pack_sum(z + i, type, n - i < PACK ? n - i : PACK, shift);
    for (size_t w = 0; w < LANES / FOLD; w++) sums[w] = folded(lane + w * FOLD, FOLD);
    return folded(sums, LANES / FOLD);
}

/* Computes dz of n logits: (p − [i = target])·g, rounded to `type`; target ≥ n: it is in another slice. */
static void slice_grad(uint16_t *dz, const uint16_t *z, ls_dtype type, size_t n, float m, float l, size_t target,
                       float g) {
    float shift = -(m * log2_e), inverse = 1.0f / l, factor = inverse * g;
    prepare_exp2();
    for (size_t i = 0; i < n; i++) {
        float p = weight(z[i], type, shift);
        dz[i] = rounded(i == target ? (p * inverse - 1.0f) * g : p * factor, type);
    }
}

void ls_loss_kernels_fill_hgmma(ls_loss_hgmma_kernels *table) {
    table->slice_max = slice_max;
    table->slice_sum = slice_sum;
    table->slice_grad = slice_grad;
}
