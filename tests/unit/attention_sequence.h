/* attention_sequence.h: what tests of attention share: a sequence with all its tensors, the kernels over it in any
 * division of the work, comparisons with the references, and the ISAs of this CPU. */
#ifndef LS_TESTS_ATTENTION_SEQUENCE_H
#define LS_TESTS_ATTENTION_SEQUENCE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attention_reference.h"
#include "base/cpu.h"
#include "base/rng.h"
#include "kernels/dropout.h"

/* One sequence with memory of its own. Fused q, k, v and dq, dk, dv; `gap` spare floats behind every head. */
typedef struct sequence {
    ls_attention a;
    float *in, *in_dout, *out, *scratch;
    size_t in_elems, dout_elems, out_elems, scratch_elems;
} sequence;

static ls_rng_key key_of(uint32_t purpose) { return ls_rng_key_make(7, purpose, 0); }

static float uniform(uint32_t purpose, size_t i) { return 2 * ls_rng_uniform_f32(key_of(purpose), i) - 1; }

/* Carves q, k, v (or their gradients) out of one fused buffer of rows. */
static size_t fused_stride(const ls_attention *a, size_t gap) {
    return (a->heads + 2 * a->kv_heads) * (a->head_size + gap) + gap;
}

static float *filled(size_t elems, float value) {
    float *x = malloc(elems * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < elems; i++) x[i] = value;
    return x;
}

static void randomize(ls_attention_in x, float *base, size_t rows, size_t heads, size_t d, float size,
                      uint32_t purpose) {
    for (size_t r = 0; r < rows; r++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < d; i++)
                base[r * x.row_stride + h * x.head_stride + i] = size * uniform(purpose, (r * heads + h) * d + i);
}

/* Gaps of inputs hold NaN, which a wrong read would spread; gaps of outputs hold 7, which a wrong write would change.
 * The last gap is left off, so that a checked build sees reads past the end. */
static sequence make(size_t T, size_t heads, size_t kv_heads, size_t d, size_t gap, float size) {
    sequence s = {.a = {.T = T, .heads = heads, .kv_heads = kv_heads, .head_size = d, .scale = 1 / sqrtf((float)d)}};
    ls_attention *a = &s.a;
    size_t head = d + gap, fused = fused_stride(a, gap), plain = heads * head + gap;
    s.in_elems = (T - 1) * fused + (heads + 2 * kv_heads) * head - gap;
    s.dout_elems = (T - 1) * plain + heads * head - gap;
    s.in = filled(s.in_elems, NAN);
    s.in_dout = filled(s.dout_elems, NAN);
    a->q = (ls_attention_in){s.in, fused, head};
    a->k = (ls_attention_in){s.in + heads * head, fused, head};
    a->v = (ls_attention_in){s.in + (heads + kv_heads) * head, fused, head};
    a->dout = (ls_attention_in){s.in_dout, plain, head};
    randomize(a->q, s.in, T, heads, d, size, 1);
    randomize(a->k, s.in + heads * head, T, kv_heads, d, size, 2);
    randomize(a->v, s.in + (heads + kv_heads) * head, T, kv_heads, d, 1, 3);
    randomize(a->dout, s.in_dout, T, heads, d, 1, 4);
    a->stat_stride = T + gap;
    size_t stats = heads * a->stat_stride, gradients = T * fused, o = T * plain;
    s.out_elems = 3 * stats + gradients + o;
    s.out = filled(s.out_elems, 7);
    a->m = s.out;
    a->l = a->m + stats;
    a->dots = a->l + stats;
    a->o = (ls_attention_out){a->dots + stats, plain, head};
    float *dqkv = a->o.at + o;
    a->dq = (ls_attention_out){dqkv, fused, head};
    a->dk = (ls_attention_out){dqkv + heads * head, fused, head};
    a->dv = (ls_attention_out){dqkv + (heads + kv_heads) * head, fused, head};
    s.scratch_elems = ls_attention_scratch_elems(T, d);
    s.scratch = filled(s.scratch_elems, NAN);
    return s;
}

/* From here on weights are dropped with probability p. The numbers of the pairs begin where the 32 lower bits of the
 * generator's counter soon wrap. */
static void set_dropout(sequence *s, double p) {
    uint64_t pairs = s->a.T * s->a.T;
    s->a.drop = (ls_attention_drop){.key = ls_rng_key_make(0x0123456789ABCDEF, 0xC0FFEE, 0x123456789AB),
                                    .threshold = ls_dropout_threshold(p),
                                    .scale = ls_dropout_scale(p),
                                    .head0 = (UINT64_C(1) << 34) / pairs,
                                    .heads = s->a.heads};
}

static void release(sequence *s) {
    free(s->in);
    free(s->in_dout);
    free(s->out);
    free(s->scratch);
}

/* Bounds of `n` ranges of 0 … total−1, cut at random places. */
static void cuts(size_t *bounds, size_t n, size_t total, uint32_t purpose) {
    bounds[0] = 0;
    for (size_t i = 1; i < n; i++) {
        bounds[i] = ls_rng_below(key_of(purpose), i, total + 1);
        for (size_t j = i; j > 1 && bounds[j - 1] > bounds[j]; j--) {
            size_t other = bounds[j];
            bounds[j] = bounds[j - 1];
            bounds[j - 1] = other;
        }
    }
    bounds[n] = total;
}

enum { MOST_RANGES = 7 };

/* Forward and backward with positions cut into n ranges and heads into two; the last range goes first. `whole`: dq, dk
 * and dv of a kv head in one go. */
static void run(const ls_attention_kernels *k, sequence *s, size_t n, bool whole, uint32_t purpose) {
    const ls_attention *a = &s->a;
    size_t at[MOST_RANGES + 1], heads[3];
    cuts(at, n, a->T, purpose);
    cuts(heads, 2, a->heads, purpose + 1);
    for (size_t r = n; r-- > 0;)
        for (size_t h = 0; h < 2; h++) k->forward(a, heads[h], heads[h + 1], at[r], at[r + 1], s->scratch);
    for (size_t r = n; r-- > 0;)
        for (size_t h = 0; h < 2; h++) k->backward_dots(a, heads[h], heads[h + 1], at[r], at[r + 1]);
    for (size_t kv = 0; whole && kv < a->kv_heads; kv++) k->backward(a, kv, s->scratch);
    if (whole) return;
    cuts(at, n, a->T, purpose + 2);
    for (size_t r = n; r-- > 0;)
        for (size_t h = 0; h < 2; h++) k->backward_queries(a, heads[h], heads[h + 1], at[r], at[r + 1], s->scratch);
    for (size_t r = n; r-- > 0;)
        for (size_t kv = 0; kv < a->kv_heads; kv++) k->backward_keys(a, kv, at[r], at[r + 1], s->scratch);
}

/* Runs `k` undivided and in `n` ranges, and compares all of the outputs, gaps too, with the reference. */
static void check_same_bits(const ls_attention_kernels *k, sequence *s, size_t n) {
    float *expected = filled(s->out_elems, 7), *out = s->out;
    reference_forward(&s->a);
    reference_backward(&s->a);
    memcpy(expected, out, s->out_elems * sizeof *out);
    for (size_t ranges = 1; ranges <= n; ranges += n > 1 ? n - 1 : 1) {
        for (int whole = 0; whole < 2; whole++) {
            for (size_t i = 0; i < s->out_elems; i++)
                if (expected[i] != 7) out[i] = -5;
            run(k, s, ranges, whole, (uint32_t)(100 + 10 * ranges));
            assert_memory_equal(out, expected, s->out_elems * sizeof *out);
        }
    }
    free(expected);
}

/* ---- against double ---------------------------------------------------------------------------------------------- */

static double *widened(ls_attention_in x, size_t rows, size_t heads, size_t d) {
    double *out = malloc(rows * heads * d * sizeof *out);
    assert_non_null(out);
    for (size_t r = 0; r < rows; r++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < d; i++) out[(r * heads + h) * d + i] = (double)in_row(x, r, h)[i];
    return out;
}

static void check_accuracy(const ls_attention_kernels *k, double p) {
    enum { T = 200, D = 64 };
    sequence s = make(T, 2, 1, D, 0, 3);
    if (p > 0) set_dropout(&s, p);
    double *q = widened(s.a.q, T, 2, D), *keys = widened(s.a.k, T, 1, D), *v = widened(s.a.v, T, 1, D), o[D];
    run(k, &s, 1, false, 1);
    for (size_t head = 0; head < 2; head++)
        for (size_t t = 0; t < T; t++) {
            double_forward_query(&s.a, q, keys, v, head, t, o);
            for (size_t i = 0; i < D; i++) assert_true(fabs((double)out_row(s.a.o, t, head)[i] - o[i]) < 5e-6);
        }
    free(q);
    free(keys);
    free(v);
    release(&s);
}

/* Every element of `gradient` against the central difference of the double loss in that element. */
static void check_difference(const sequence *s, double *q, double *k, double *v, double *moved,
                             ls_attention_out gradient, size_t heads) {
    const double step = 1e-5;
    for (size_t t = 0; t < s->a.T; t++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < s->a.head_size; i++) {
                double *x = &moved[(t * heads + h) * s->a.head_size + i], kept = *x;
                *x = kept + step;
                double up = double_loss(&s->a, q, k, v);
                *x = kept - step;
                double down = double_loss(&s->a, q, k, v);
                *x = kept;
                assert_true(fabs((up - down) / (2 * step) - (double)out_row(gradient, t, h)[i]) < 2e-6);
            }
}

static void check_gradients(const ls_attention_kernels *k, double p) {
    enum { T = 19, D = 6, H = 4, KV = 2 };
    sequence s = make(T, H, KV, D, 2, 2);
    if (p > 0) set_dropout(&s, p);
    double *q = widened(s.a.q, T, H, D), *keys = widened(s.a.k, T, KV, D), *v = widened(s.a.v, T, KV, D);
    run(k, &s, 1, false, 1);
    check_difference(&s, q, keys, v, q, s.a.dq, H);
    check_difference(&s, q, keys, v, keys, s.a.dk, KV);
    check_difference(&s, q, keys, v, v, s.a.dv, KV);
    free(q);
    free(keys);
    free(v);
    release(&s);
}

/* ---- ISAs ------------------------------------------------------------------------------------------------------- */

typedef struct isa {
    const char *name;
    void (*fill)(ls_attention_kernels *t);
} isa;

/* The ISAs of this CPU; returns their number. */
static size_t list_isas(isa list[3]) {
    size_t n = 0;
    list[n++] = (isa){"portable", ls_attention_kernels_fill_portable};
#ifdef __aarch64__
    list[n++] = (isa){"neon", ls_attention_kernels_fill_neon};
#endif
#ifdef __x86_64__
    const ls_cpu *cpu = ls_cpu_detect();
    if (cpu->avx2 && cpu->fma) list[n++] = (isa){"avx2", ls_attention_kernels_fill_avx2};
    if (cpu->avx512f && cpu->avx512bw && cpu->avx512dq && cpu->avx512vl)
        list[n++] = (isa){"avx512", ls_attention_kernels_fill_avx512};
#endif
    return n;
}

static void for_every_isa(void (*check)(const ls_attention_kernels *k)) {
    isa list[3];
    size_t n = list_isas(list);
    for (size_t i = 0; i < n; i++) {
        ls_attention_kernels k;
        list[i].fill(&k);
        print_message("attention: %s\n", list[i].name);
        check(&k);
    }
}

#define TEST(what)                                                                                                     \
    static void test_##what(void **state) {                                                                            \
        (void)state;                                                                                                   \
        for_every_isa(check_##what);                                                                                   \
    }

#endif
