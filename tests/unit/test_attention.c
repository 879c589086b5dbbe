/* test_attention.c: attention of every ISA against the plain loops of attention_reference.h: the same bits for many
 * shapes, strides with gaps, and any division of the work; accuracy and gradients against double.
 *
 * With the argument "bench", and the name of an ISA if only one shall run, it prints GFLOP/s of one thread instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "attention_reference.h"
#include "base/cpu.h"
#include "base/rng.h"

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

static void check_shapes(const ls_attention_kernels *k) {
    static const size_t lengths[] = {1, 2, 15, 16, 17, 31, 33, 64, 100, 129}, sizes[] = {32, 48, 64, 80, 128, 256, 33};
    static const size_t ranges[] = {2, 3, 7};
    static const size_t heads[][2] = {{1, 1}, {4, 2}, {6, 3}, {8, 1}};
    for (size_t t = 0; t < 10; t++)
        for (size_t h = 0; h < 4; h++) {
            /* Sizes go round so that each meets long and short sequences. */
            size_t d = sizes[(2 * t + 6 * h + 5) % 7], T = lengths[t];
            if (T > 64 && h > 1) continue;
            sequence s = make(T, heads[h][0], heads[h][1], d, (t + h) % 3 * 5, 1);
            check_same_bits(k, &s, ranges[(t + h) % 3]);
            release(&s);
        }
    /* Several blocks of keys, with sizes that fill no tile. */
    static const size_t longer[][4] = {{310, 2, 1, 13}, {385, 1, 1, 24}, {97, 2, 2, 96}};
    for (size_t i = 0; i < 3; i++) {
        sequence s = make(longer[i][0], longer[i][1], longer[i][2], longer[i][3], i, 1);
        check_same_bits(k, &s, 3);
        release(&s);
    }
    for (size_t d = 1; d < 20; d++) {
        sequence s = make(1 + 7 * d % 40, 2, 1, d, d % 2, 2);
        check_same_bits(k, &s, 3);
        release(&s);
    }
}

/* Scores near ±80: most weights are 0, some queries have one key that takes all. And scores that are all equal. */
static void check_extremes(const ls_attention_kernels *k) {
    sequence s = make(70, 2, 1, 64, 3, 1);
    const ls_attention *a = &s.a;
    float *q = s.in, *keys = s.in + 2 * a->q.head_stride;
    for (size_t t = 0; t < a->T; t++)
        for (size_t i = 0; i < 64; i++) {
            q[t * a->q.row_stride + i] = 1;
            keys[t * a->k.row_stride + i] = t % 3 == 1 ? 10.0f : t % 3 == 2 ? -10.0f : 0.01f * (float)i;
        }
    check_same_bits(k, &s, 3);
    assert_true(a->m[1] == 80 && a->m[69] == 80);
    for (size_t t = 0; t < a->T; t++)
        for (size_t i = 0; i < 64; i++) q[t * a->q.row_stride + i] = 0;
    check_same_bits(k, &s, 3);
    for (size_t t = 0; t < a->T; t++) assert_true(a->m[t] == 0 && a->l[t] == (float)(t + 1));
    release(&s);
}

/* What a query does not see must not reach it: not even infinities and NaN. */
static void check_mask(const ls_attention_kernels *k) {
    enum { T = 50, D = 40 };
    for (size_t bad = 1; bad < T; bad += 5) {
        sequence clean = make(T, 1, 1, D, 0, 1), dirty = make(T, 1, 1, D, 0, 1);
        for (size_t i = 0; i < D; i++) {
            dirty.in[bad * dirty.a.q.row_stride + D + i] = i % 2 ? NAN : INFINITY;
            dirty.in[bad * dirty.a.q.row_stride + 2 * D + i] = i % 2 ? INFINITY : NAN;
        }
        run(k, &clean, 1, bad % 2, 1);
        run(k, &dirty, 1, bad % 2, 1);
        assert_memory_equal(dirty.a.o.at, clean.a.o.at, bad * D * sizeof(float));
        for (size_t t = 0; t < bad; t++)
            assert_memory_equal(out_row(dirty.a.dq, t, 0), out_row(clean.a.dq, t, 0), D * sizeof(float));
        for (size_t t = bad; t < T; t++) assert_true(isnan(out_row(dirty.a.o, t, 0)[0]));
        /* dv of later keys comes from queries that see the bad one; m of these is NaN. */
        assert_true(isnan(dirty.a.m[bad]) && isnan(out_row(dirty.a.dv, bad, 0)[0]));
        release(&clean);
        release(&dirty);
    }
}

/* With a cache: the last rows alone give the bits that they have in the whole sequence. */
static void check_last_rows(const ls_attention_kernels *k, size_t T, size_t d) {
    enum { H = 4 };
    sequence whole = make(T, H, 2, d, 1, 1);
    k->forward(&whole.a, 0, H, 0, T, whole.scratch);
    for (size_t first = T > 5 ? T - 5 : 0; first < T; first++) {
        sequence late = make(T, H, 2, d, 1, 1);
        late.a.first_query = first;
        late.a.q.at += first * late.a.q.row_stride;
        k->forward(&late.a, 0, H, first, T, late.scratch);
        for (size_t head = 0; head < H; head++)
            for (size_t t = first; t < T; t++) {
                assert_memory_equal(out_row(late.a.o, t - first, head), out_row(whole.a.o, t, head), d * sizeof(float));
                size_t row = head * late.a.stat_stride;
                assert_true(late.a.l[row + t - first] == whole.a.l[row + t]);
                assert_true(late.a.m[row + t - first] == whole.a.m[row + t]);
            }
        release(&late);
    }
    release(&whole);
}

static void check_generation(const ls_attention_kernels *k) {
    check_last_rows(k, 1, 16);
    check_last_rows(k, 64, 33);
    check_last_rows(k, 75, 48);
    check_last_rows(k, 130, 13);
}

/* So many keys that they are not all packed at once: the first, the last and some queries between. */
static void check_long(const ls_attention_kernels *k) {
    enum { D = 256, T = LS_ATTENTION_KEPT / D + 9, MIDDLE = 4000 };
    sequence s = make(T, 1, 1, D, 0, 1);
    float *o = s.a.o.at, p[T];
    static const size_t ranges[3][2] = {{0, 3}, {MIDDLE, MIDDLE + 2}, {T - 2, T}};
    for (int i = 0; i < 3; i++) {
        k->forward(&s.a, 0, 1, ranges[i][0], ranges[i][1], s.scratch);
        for (size_t t = ranges[i][0]; t < ranges[i][1]; t++) {
            float got[D], m = s.a.m[t], l = s.a.l[t];
            memcpy(got, o + t * D, sizeof got);
            reference_forward_query(&s.a, 0, t, p);
            assert_memory_equal(got, o + t * D, sizeof got);
            assert_true(m == s.a.m[t] && l == s.a.l[t]);
        }
    }
    release(&s);
}

static double *widened(ls_attention_in x, size_t rows, size_t heads, size_t d) {
    double *out = malloc(rows * heads * d * sizeof *out);
    assert_non_null(out);
    for (size_t r = 0; r < rows; r++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < d; i++) out[(r * heads + h) * d + i] = (double)in_row(x, r, h)[i];
    return out;
}

static void check_accuracy(const ls_attention_kernels *k) {
    enum { T = 200, D = 64 };
    sequence s = make(T, 2, 1, D, 0, 3);
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

static void check_gradients(const ls_attention_kernels *k) {
    enum { T = 19, D = 6, H = 4, KV = 2 };
    sequence s = make(T, H, KV, D, 2, 2);
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
TEST(shapes)
TEST(extremes)
TEST(mask)
TEST(generation)
TEST(long)
TEST(accuracy)
TEST(gradients)

/* Time of this thread on a core, so that a busy machine spoils less. */
static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Best of five; flops are those of the products of seen pairs, each counted once: 2 forward, 5 backward. */
static void bench(const isa *one) {
    enum { T = 1024, D = 64, H = 12 };
    ls_attention_kernels k;
    one->fill(&k);
    sequence s = make(T, H, H, D, 0, 1);
    double forward_s = HUGE_VAL, backward_s = HUGE_VAL, pair_flops = 2.0 * D * H * (T * (T + 1.0) / 2);
    for (int round = 0; round < 5; round++) {
        double t0 = cpu_seconds();
        k.forward(&s.a, 0, H, 0, T, s.scratch);
        double t1 = cpu_seconds();
        k.backward_dots(&s.a, 0, H, 0, T);
        for (size_t kv = 0; kv < H; kv++) k.backward(&s.a, kv, s.scratch);
        double t2 = cpu_seconds();
        if (t1 - t0 < forward_s) forward_s = t1 - t0;
        if (t2 - t1 < backward_s) backward_s = t2 - t1;
    }
    printf("%s: T=%d d=%d H=%d forward %.1f GFLOP/s, backward %.1f GFLOP/s, both %.1f GFLOP/s\n", one->name, T, D, H,
           2e-9 * pair_flops / forward_s, 5e-9 * pair_flops / backward_s, 7e-9 * pair_flops / (forward_s + backward_s));
    release(&s);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "bench") == 0) {
        isa list[3];
        size_t n = list_isas(list);
        for (size_t i = 0; i < n; i++)
            if (argc == 2 || strcmp(argv[2], list[i].name) == 0) bench(&list[i]);
        return 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes),   cmocka_unit_test(test_extremes),
                                       cmocka_unit_test(test_mask),     cmocka_unit_test(test_generation),
                                       cmocka_unit_test(test_long),     cmocka_unit_test(test_accuracy),
                                       cmocka_unit_test(test_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
