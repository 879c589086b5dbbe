/* contract.h: the layers, written from docs/reference/arithmetic.md in plain loops over single values.
 *
 * Shares nothing with the kernels. Row r of an array starts at r·stride. */
#ifndef LS_TESTS_CONTRACT_H
#define LS_TESTS_CONTRACT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "contract_f32.h"

/* ---- sums and maximum -------------------------------------------------------------------------------------------- */

static inline float contract_fold(float *lane) {
    for (int step = 8; step >= 1; step /= 2)
        for (int j = 0; j < step; j++) lane[j] = lane[j] + lane[j + step];
    return lane[0];
}

static inline float contract_sum16(const float *x, size_t n) {
    float lane[16] = {0};
    for (size_t i = 0; i < n; i++) lane[i % 16] = lane[i % 16] + x[i];
    return contract_fold(lane);
}

static inline float contract_sum16_products(const float *x, const float *y, size_t n) {
    float lane[16] = {0};
    for (size_t i = 0; i < n; i++) lane[i % 16] = fmaf(x[i], y[i], lane[i % 16]);
    return contract_fold(lane);
}

static inline float contract_tree(const float *x, size_t n) {
    if (n == 1) return x[0];
    size_t p = 1;
    while (p * 2 < n) p *= 2;
    float left = contract_tree(x, p), right = contract_tree(x + p, n - p);
    return left + right;
}

static inline float contract_max(float a, float b) {
    if (isnan(a) || isnan(b)) return NAN;
    if (a > b) return a;
    if (b > a) return b;
    return signbit(a) ? b : a;
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

enum { CONTRACT_COLUMNS = 1024 };

static inline void contract_layer_forward(float *y, float *mean, float *rstd, const float *x, const float *w,
                                          const float *b, float eps, size_t C) {
    float d[CONTRACT_COLUMNS], n = (float)C;
    *mean = contract_sum16(x, C) / n;
    for (size_t i = 0; i < C; i++) d[i] = x[i] - *mean;
    float var = contract_sum16_products(d, d, C) / n;
    *rstd = 1.0f / sqrtf(var + eps);
    for (size_t i = 0; i < C; i++) {
        float h = d[i] * *rstd;
        y[i] = fmaf(h, w[i], b[i]);
    }
}

static inline void contract_rms_forward(float *y, float *rstd, const float *x, const float *w, float eps, size_t C) {
    float mean_square = contract_sum16_products(x, x, C) / (float)C;
    *rstd = 1.0f / sqrtf(mean_square + eps);
    for (size_t i = 0; i < C; i++) {
        float h = x[i] * *rstd;
        y[i] = h * w[i];
    }
}

/* h of one element; RMS norm has no mean. */
static inline float contract_hat(float x, const float *mean, float rstd) {
    if (!mean) return x * rstd;
    float d = x - *mean;
    return d * rstd;
}

/* mean NULL: RMS norm. */
static inline void contract_norm_backward(float *dx, const float *dy, const float *x, const float *w, const float *mean,
                                          float rstd, size_t C) {
    float h[CONTRACT_COLUMNS], g[CONTRACT_COLUMNS], n = (float)C;
    for (size_t i = 0; i < C; i++) {
        h[i] = contract_hat(x[i], mean, rstd);
        g[i] = dy[i] * w[i];
    }
    float s = contract_sum16(g, C) / n, t = contract_sum16_products(g, h, C) / n;
    for (size_t i = 0; i < C; i++) {
        float start = mean ? g[i] - s : g[i];
        dx[i] = rstd * fmaf(-h[i], t, start);
    }
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

static inline float contract_gelu(float x) {
    const float c0 = 0x1.988454p-1f, c1 = 0x1.2444f2p-5f;
    float q = x * x;
    float u = x * fmaf(c1, q, c0);
    float t = contract_tanh(u);
    float h = 0.5f * x;
    return fmaf(h, t, h);
}

static inline float contract_gelu_dx(float dy, float x) {
    const float c0 = 0x1.988454p-1f, c1 = 0x1.2444f2p-5f, c3 = 0x1.b6676cp-4f;
    float q = x * x;
    float u = x * fmaf(c1, q, c0);
    float t = contract_tanh(u);
    float h = 0.5f * x;
    float a = h * fmaf(-t, t, 1.0f);
    return dy * fmaf(a, fmaf(c3, q, c0), fmaf(0.5f, t, 0.5f));
}

static inline float contract_silu(float x) { return x * contract_sigmoid(x); }

static inline float contract_silu_slope(float x) {
    float s = contract_sigmoid(x);
    float rest = 1.0f - s;
    return s * fmaf(x, rest, 1.0f);
}

static inline float contract_gated_dgate(float dy, float gate, float up) {
    float a = dy * up;
    return a * contract_silu_slope(gate);
}

static inline float contract_gated_gelu_dgate(float dy, float gate, float up) {
    float a = dy * up;
    return contract_gelu_dx(a, gate);
}

/* ---- rotary embedding -------------------------------------------------------------------------------------------- */

/* One head; sign is +1 forward and −1 backward. */
static inline void contract_rope(float *y, const float *x, const float *cos_row, const float *sin_row, float sign,
                                 size_t d) {
    for (size_t i = 0; i < d / 2; i++) {
        float a = x[i], b = x[i + d / 2], c = cos_row[i], s = sign * sin_row[i];
        float bs = b * s, as = a * s;
        y[i] = fmaf(a, c, -bs);
        y[i + d / 2] = fmaf(b, c, as);
    }
}

/* ---- softmax cross-entropy --------------------------------------------------------------------------------------- */

enum { CONTRACT_SLICES = 64 };

static inline float contract_slice_sum(const float *z, size_t n, float m) {
    float lane[16] = {0};
    for (size_t j = 0; j < n; j++) lane[j % 16] = lane[j % 16] + contract_exp(z[j] - m);
    return contract_fold(lane);
}

static inline float contract_row_max(const float *z, size_t n) {
    float m = -INFINITY;
    for (size_t j = 0; j < n; j++) m = contract_max(m, z[j]);
    return m;
}

static inline float contract_row_sum(const float *z, const size_t *bounds, size_t slices, float m) {
    float sums[CONTRACT_SLICES];
    for (size_t i = 0; i < slices; i++) sums[i] = contract_slice_sum(z + bounds[i], bounds[i + 1] - bounds[i], m);
    return contract_tree(sums, slices);
}

static inline float contract_loss(float z_target, float m, float l) {
    float below = z_target - m;
    return contract_log(l) - below;
}

static inline float contract_dz(float z, float m, float l, int is_target, float g) {
    float p = contract_exp(z - m) / l;
    return (p - (is_target ? 1.0f : 0.0f)) * g;
}

/* ---- optimizers -------------------------------------------------------------------------------------------------- */

typedef struct contract_adamw {
    float f, beta1, rest1, beta2, rest2, a, r, eps, decay;
} contract_adamw;

static inline void contract_adamw_one(float *w, float *m, float *v, float g, const contract_adamw *s) {
    float scaled = s->f * g;
    float m_part = s->rest1 * scaled, square = scaled * scaled;
    float v_part = s->rest2 * square;
    *m = fmaf(s->beta1, *m, m_part);
    *v = fmaf(s->beta2, *v, v_part);
    if (fabsf(*m) < 0x1p-126f) *m = 0.0f;
    if (fabsf(*v) < 0x1p-126f) *v = 0.0f;
    float e = fmaf(sqrtf(*v), s->r, s->eps);
    float ratio = *m / e, kept = *w * s->decay;
    *w = fmaf(-s->a, ratio, kept);
}

/* b NULL: no momentum. */
static inline void contract_sgd_one(float *w, float *b, float g, float f, float lr, float mu, float wd, int nesterov) {
    float scaled = f * g;
    float step = fmaf(wd, *w, scaled);
    if (b) {
        *b = fmaf(mu, *b, step);
        step = nesterov ? fmaf(mu, *b, step) : *b;
    }
    *w = fmaf(-lr, step, *w);
}

static inline double contract_squares(const float *x, size_t n) {
    double lane[16] = {0};
    for (size_t i = 0; i < n; i++) lane[i % 16] = fma((double)x[i], (double)x[i], lane[i % 16]);
    for (int step = 8; step >= 1; step /= 2)
        for (int j = 0; j < step; j++) lane[j] = lane[j] + lane[j + step];
    return lane[0];
}

/* ---- number formats ---------------------------------------------------------------------------------------------- */

static inline uint16_t contract_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x)) return 0x7FC0;
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

/* The value of a finite half, by its definition. */
static inline double contract_f16_value(uint16_t half) {
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return half >> 15 ? -size : size;
}

#endif
