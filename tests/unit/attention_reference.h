/* attention_reference.h: attention in plain loops, written from docs/reference/arithmetic.md, and once more in
 * double.
 *
 * The first half must give the kernels' bits; it shares nothing with them. Its tensors are fp32 whatever the type is:
 * of a 16-bit one they hold numbers of that type. The double half tells how good the numbers are. */
#ifndef LS_TESTS_ATTENTION_REFERENCE_H
#define LS_TESTS_ATTENTION_REFERENCE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention_units.h"
#include "exp2_reference.h"
#include "base/rng.h"
#include "contract_f32.h"
#include "device/cpu/kernels.h"

static const float *in_row(ls_attention_in x, size_t row, size_t head) {
    return (const float *)x.at + row * x.row_stride + head * x.head_stride;
}

static float *out_row(ls_attention_out x, size_t row, size_t head) {
    return (float *)x.at + row * x.row_stride + head * x.head_stride;
}

static float reference_fold(float lanes[16]) {
    for (int half = 8; half >= 1; half /= 2)
        for (int j = 0; j < half; j++) lanes[j] = lanes[j] + lanes[j + half];
    return lanes[0];
}

/* The first key that query q sees. */
static size_t reference_first(const ls_attention *a, size_t q) {
    size_t window = a->mask.window;
    return window > 0 && q + 1 > window ? q + 1 - window : 0;
}

static float reference_dot(const ls_attention *a, const float *x, const float *y) {
    reference_sum sum = reference_begin(a);
    for (size_t i = 0; i < a->head_size; i++) reference_add(&sum, x[i], y[i]);
    reference_pad(&sum);
    return sum.value;
}

static float reference_score(const ls_attention *a, size_t head, size_t q, size_t k) {
    size_t kv = head / (a->heads / a->kv_heads);
    return a->scale * reference_dot(a, in_row(a->q, q - a->first_query, head), in_row(a->k, k, kv));
}

/* What dropout multiplies the weight of a pair with. */
static float reference_factor(const ls_attention *a, size_t head, size_t q, size_t k) {
    const ls_attention_drop *drop = &a->drop;
    if (drop->scale == 0) return 1;
    uint32_t number = ls_rng_u32(drop->key, ((drop->head0 + head) * a->T + q) * a->T + k);
    return number < drop->threshold ? 0.0f : drop->scale;
}

/* ---- hgmma: exp2 of the special function unit, and a maximum that grows by blocks of 128 keys -------------------- */

static float reference_scale2(const ls_attention *a) { return (float)((double)a->scale * 1.4426950408889634); }

static void reference_forward_query_hgmma(const ls_attention *a, size_t head, size_t q, float *p) {
    size_t kv = head / (a->heads / a->kv_heads), row = q - a->first_query, d = a->head_size;
    float m = -INFINITY, l[4] = {0}, c = reference_scale2(a), *o = calloc(d, sizeof *o);
    size_t first = reference_first(a, q);
    for (size_t begin = first / 128 * 128; begin <= q; begin += 128) {
        size_t end = begin + 128 <= q + 1 ? begin + 128 : q + 1, from = begin > first ? begin : first;
        float before = m;
        for (size_t k = begin; k < from; k++) p[k] = 0;
        for (size_t k = from; k < end; k++) {
            p[k] = reference_dot(a, in_row(a->q, row, head), in_row(a->k, k, kv));
            if (p[k] > m || isnan(p[k])) m = p[k];
        }
        float alpha = reference_exp2((before - m) * c), shift = -m * c;
        for (int t = 0; t < 4; t++) l[t] = l[t] * alpha;
        for (size_t k = from; k < end; k++) p[k] = reference_exp2(fmaf(p[k], c, shift));
        for (size_t k = begin; k < end; k += 2) {
            float pair = p[k] + (k + 1 < end ? p[k + 1] : 0.0f);
            l[k % 8 / 2] = l[k % 8 / 2] + pair;
        }
        for (size_t k = from; k < end; k++) p[k] = reference_round(p[k] * reference_factor(a, head, q, k), a->act);
        for (size_t i = 0; i < d; i++) {
            reference_sum sum = reference_begin(a);
            sum.value = o[i] * alpha;
            reference_skip(&sum, from);
            for (size_t k = from; k < end; k++) reference_add(&sum, p[k], in_row(a->v, k, kv)[i]);
            reference_pad(&sum);
            o[i] = sum.value;
        }
    }
    float all = (l[0] + l[1]) + (l[2] + l[3]), inverse = 1 / all;
    for (size_t i = 0; i < d; i++) out_row(a->o, row, head)[i] = reference_round((o[i] + 0.0f) * inverse, a->act);
    a->m[head * a->stat_stride + row] = m;
    a->l[head * a->stat_stride + row] = all;
    free(o);
}

static float reference_weight_hgmma(const ls_attention *a, size_t head, size_t q, size_t k) {
    size_t kv = head / (a->heads / a->kv_heads), stat = head * a->stat_stride + q;
    float s = reference_dot(a, in_row(a->q, q, head), in_row(a->k, k, kv)), c = reference_scale2(a);
    float all = fmaf(a->m[stat], c, contract_log(a->l[stat]) * 1.44269502f);
    return reference_exp2(fmaf(s, c, -all));
}

static void reference_forward_query(const ls_attention *a, size_t head, size_t q, float *p) {
    if (reference_is_hgmma(a)) {
        reference_forward_query_hgmma(a, head, q, p);
        return;
    }
    size_t kv = head / (a->heads / a->kv_heads), row = q - a->first_query;
    size_t first = reference_first(a, q);
    float m = reference_score(a, head, q, first), lanes[16] = {0};
    for (size_t k = first; k <= q; k++) {
        p[k] = reference_score(a, head, q, k);
        if (p[k] > m) m = p[k];
    }
    for (size_t k = first; k <= q; k++) {
        p[k] = contract_exp(p[k] - m);
        lanes[k % 16] = lanes[k % 16] + p[k];
    }
    float l = reference_fold(lanes);
    for (size_t k = first; k <= q; k++) p[k] = reference_round(p[k] * reference_factor(a, head, q, k), a->act);
    for (size_t i = 0; i < a->head_size; i++) {
        reference_sum sum = reference_begin(a);
        for (size_t k = first; k <= q; k++) reference_add(&sum, p[k], in_row(a->v, k, kv)[i]);
        out_row(a->o, row, head)[i] = reference_round(reference_end(&sum) / l, a->act);
    }
    a->m[head * a->stat_stride + row] = m;
    a->l[head * a->stat_stride + row] = l;
}

static void reference_forward(const ls_attention *a) {
    float *p = calloc(a->T, sizeof *p);
    for (size_t head = 0; head < a->heads; head++)
        for (size_t q = a->first_query; q < a->T; q++) reference_forward_query(a, head, q, p);
    free(p);
}

/* P, times its factor, and dS of one query and head with key k, as products read them. */
static void reference_weights(const ls_attention *a, size_t head, size_t q, size_t k, float *p, float *ds) {
    size_t kv = head / (a->heads / a->kv_heads), stat = head * a->stat_stride + q;
    float weight = reference_is_hgmma(a) ? reference_weight_hgmma(a, head, q, k)
                                         : contract_exp(reference_score(a, head, q, k) - a->m[stat]) / a->l[stat];
    float dp = reference_dot(a, in_row(a->dout, q, head), in_row(a->v, k, kv));
    float factor = reference_factor(a, head, q, k);
    *ds = reference_round(weight * (factor * dp - a->dots[stat]), a->act);
    *p = reference_round(weight * factor, a->act);
}

/* dq of one query and head, whose dS with the keys it sees are given. */
static void reference_backward_query(const ls_attention *a, size_t head, size_t q, const float *ds) {
    size_t kv = head / (a->heads / a->kv_heads);
    for (size_t i = 0; i < a->head_size; i++) {
        reference_sum sum = reference_begin(a);
        reference_skip(&sum, reference_first(a, q));
        for (size_t k = reference_first(a, q); k <= q; k++) reference_add(&sum, ds[k], in_row(a->k, k, kv)[i]);
        out_row(a->dq, q, head)[i] = reference_round(a->scale * reference_end(&sum), a->act);
    }
}

/* dk (x: q) or dv (x: dout) of one key, from weights[head][query][key]. */
static void reference_backward_key(const ls_attention *a, size_t kv, size_t k, const float *weights, ls_attention_in x,
                                   ls_attention_out to, float scale) {
    size_t T = a->T, group = a->heads / a->kv_heads;
    for (size_t i = 0; i < a->head_size; i++) {
        reference_sum sum = reference_begin(a);
        for (size_t head = kv * group; head < (kv + 1) * group; head++) {
            reference_skip(&sum, k);
            for (size_t q = k; q < T && reference_first(a, q) <= k; q++)
                reference_add(&sum, weights[(head * T + q) * T + k], in_row(x, q, head)[i]);
            reference_pad(&sum);
        }
        out_row(to, k, kv)[i] = reference_round(scale * reference_end(&sum), a->act);
    }
}

static void reference_backward(const ls_attention *a) {
    size_t T = a->T, d = a->head_size;
    float *p = calloc(a->heads * T * T, sizeof *p), *ds = calloc(a->heads * T * T, sizeof *ds);
    for (size_t head = 0; head < a->heads; head++)
        for (size_t q = 0; q < T; q++) {
            float lanes[16] = {0}, *row = ds + (head * T + q) * T;
            for (size_t i = 0; i < d; i++)
                lanes[i % 16] = fmaf(in_row(a->dout, q, head)[i], out_row(a->o, q, head)[i], lanes[i % 16]);
            a->dots[head * a->stat_stride + q] = reference_fold(lanes);
            for (size_t k = reference_first(a, q); k <= q; k++)
                reference_weights(a, head, q, k, &p[(head * T + q) * T + k], &row[k]);
            reference_backward_query(a, head, q, row);
        }
    for (size_t kv = 0; kv < a->kv_heads; kv++)
        for (size_t k = 0; k < T; k++) {
            reference_backward_key(a, kv, k, ds, a->q, a->dk, a->scale);
            reference_backward_key(a, kv, k, p, a->dout, a->dv, 1);
        }
    free(p);
    free(ds);
}

/* o of one query and head in double; q, k and v are dense [row][head][d] of doubles. */
static inline void double_forward_query(const ls_attention *a, const double *q, const double *k, const double *v,
                                        size_t head, size_t t, double *o) {
    size_t d = a->head_size, kv = head / (a->heads / a->kv_heads);
    double m = -HUGE_VAL, l = 0, *s = calloc(t + 1, sizeof *s);
    for (size_t j = reference_first(a, t); j <= t; j++) {
        for (size_t i = 0; i < d; i++) s[j] += q[(t * a->heads + head) * d + i] * k[(j * a->kv_heads + kv) * d + i];
        s[j] *= (double)a->scale;
        if (s[j] > m) m = s[j];
    }
    for (size_t i = 0; i < d; i++) o[i] = 0;
    for (size_t j = reference_first(a, t); j <= t; j++) {
        double p = exp(s[j] - m), kept = p * (double)reference_factor(a, head, t, j);
        l += p;
        for (size_t i = 0; i < d; i++) o[i] += kept * v[(j * a->kv_heads + kv) * d + i];
    }
    for (size_t i = 0; i < d; i++) o[i] /= l;
    free(s);
}

/* Σ o·dout in double: the function whose gradients backward makes. */
static inline double double_loss(const ls_attention *a, const double *q, const double *k, const double *v) {
    double loss = 0, *o = calloc(a->head_size, sizeof *o);
    for (size_t head = 0; head < a->heads; head++)
        for (size_t t = 0; t < a->T; t++) {
            double_forward_query(a, q, k, v, head, t, o);
            for (size_t i = 0; i < a->head_size; i++) loss += o[i] * (double)in_row(a->dout, t, head)[i];
        }
    free(o);
    return loss;
}

#endif
