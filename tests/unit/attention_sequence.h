/* attention_sequence.h: what tests of attention share: a sequence with all its tensors, the kernels over it in any
 * division of the work, comparisons with the references, and the ISAs of this CPU. Kernels NULL: a GPU, where
 * LS_TEST_CUDA is set, or a CPU that plays one; its operations take whole sequences. */
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
#include "device/cpu/kernels.h"
#include "device/cuda/cuda.h"
#include "device/ops.h"
#include "sample.h"

/* One sequence with memory of its own. Fused q, k, v and dq, dk, dv; `gap` spare elements behind every head. `a` is
 * what kernels take, `ref` what the reference takes: fp32 tensors with the same numbers. With fp32 the inputs are
 * shared. */
typedef struct sequence {
    ls_attention a, ref;
    float *in, *in_dout; /* of `ref` */
    float *stats, *out;  /* m, l and dots; o and the gradients: of `ref` */
    float *a_stats, *scratch;
    void *a_in, *a_dout, *a_out;
    size_t in_elems, dout_elems, stat_elems, out_elems;
} sequence;

static ls_rng_key key_of(uint32_t purpose) { return ls_rng_key_make(7, purpose, 0); }

static float uniform(uint32_t purpose, size_t i) { return 2 * ls_rng_uniform_f32(key_of(purpose), i) - 1; }

static size_t fused_stride(const ls_attention *a, size_t gap) {
    return (a->heads + 2 * a->kv_heads) * (a->head_size + gap) + gap;
}

static float *filled(size_t elems, float value) {
    float *x = malloc(elems * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < elems; i++) x[i] = value;
    return x;
}

/* Numbers of `from`, which fit, as `act`. */
static void encode(void *to, const float *from, size_t elems, ls_dtype act) {
    ls_convert_kernels convert;
    ls_convert_kernels_fill_portable(&convert);
    if (act == LS_F32)
        memcpy(to, from, elems * sizeof *from);
    else
        (act == LS_BF16 ? convert.f32_to_bf16 : convert.f32_to_f16)(to, from, elems);
}

static void *encoded(const float *from, size_t elems, ls_dtype act) {
    void *to = malloc(elems * ls_dtype_bytes(act));
    assert_non_null(to);
    encode(to, from, elems, act);
    return to;
}

static inline float decode(uint16_t half, ls_dtype act) {
    ls_convert_kernels convert;
    float x;
    ls_convert_kernels_fill_portable(&convert);
    (act == LS_BF16 ? convert.bf16_to_f32 : convert.f16_to_f32)(&x, &half, 1);
    return x;
}

static void randomize(ls_attention_in x, float *base, size_t rows, size_t heads, size_t d, float size,
                      uint32_t purpose) {
    for (size_t r = 0; r < rows; r++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < d; i++)
                base[r * x.row_stride + h * x.head_stride + i] = size * uniform(purpose, (r * heads + h) * d + i);
}

/* After a change of `in` or `in_dout`: the kernels' inputs follow. */
static void settle(sequence *s) {
    if (s->a.act == LS_F32) return;
    for (size_t i = 0; i < s->in_elems; i++) s->in[i] = reference_round(s->in[i], s->a.act);
    for (size_t i = 0; i < s->dout_elems; i++) s->in_dout[i] = reference_round(s->in_dout[i], s->a.act);
    encode(s->a_in, s->in, s->in_elems, s->a.act);
    encode(s->a_dout, s->in_dout, s->dout_elems, s->a.act);
}

static const void *in_from(const void *base, size_t elems, ls_dtype act) {
    return (const char *)base + elems * ls_dtype_bytes(act);
}

static void *out_from(void *base, size_t elems, ls_dtype act) { return (char *)base + elems * ls_dtype_bytes(act); }

/* A view of the tensors: those of `ref`, or of `a`. */
static void place(ls_attention *a, ls_dtype act, const void *in, const void *dout, float *stats, void *out,
                  size_t gap) {
    size_t head = a->head_size + gap, fused = fused_stride(a, gap), plain = a->heads * head + gap;
    size_t keys = a->heads * head, values = (a->heads + a->kv_heads) * head, n = a->heads * (a->T + gap);
    void *dqkv = out_from(out, a->T * plain, act);
    a->q = (ls_attention_in){in, fused, head};
    a->k = (ls_attention_in){in_from(in, keys, act), fused, head};
    a->v = (ls_attention_in){in_from(in, values, act), fused, head};
    a->dout = (ls_attention_in){dout, plain, head};
    a->stat_stride = a->T + gap;
    a->m = stats;
    a->l = stats + n;
    a->dots = stats + 2 * n;
    a->o = (ls_attention_out){out, plain, head};
    a->dq = (ls_attention_out){dqkv, fused, head};
    a->dk = (ls_attention_out){out_from(dqkv, keys, act), fused, head};
    a->dv = (ls_attention_out){out_from(dqkv, values, act), fused, head};
}

/* Gaps of inputs hold NaN, which a wrong read would spread; gaps of outputs hold 7, which a wrong write would change.
 * The last gap is left off, so that a checked build sees reads past the end. */
static sequence make_of(ls_dtype act, ls_unit unit, size_t T, size_t heads, size_t kv_heads, size_t d, size_t gap,
                        float size) {
    ls_attention a = {.T = T, .heads = heads, .kv_heads = kv_heads, .head_size = d, .act = act, .unit = unit};
    a.scale = 1 / sqrtf((float)d);
    sequence s = {.a = a, .ref = a};
    size_t head = d + gap, fused = fused_stride(&a, gap), plain = heads * head + gap;
    s.in_elems = (T - 1) * fused + (heads + 2 * kv_heads) * head - gap;
    s.dout_elems = (T - 1) * plain + heads * head - gap;
    s.stat_elems = 3 * heads * (T + gap);
    s.out_elems = T * (fused + plain);
    s.in = filled(s.in_elems, NAN);
    s.in_dout = filled(s.dout_elems, NAN);
    s.stats = filled(s.stat_elems, 7);
    s.out = filled(s.out_elems, 7);
    place(&s.ref, LS_F32, s.in, s.in_dout, s.stats, s.out, gap);
    randomize(s.ref.q, s.in, T, heads, d, size, 1);
    randomize(s.ref.k, s.in + heads * head, T, kv_heads, d, size, 2);
    randomize(s.ref.v, s.in + (heads + kv_heads) * head, T, kv_heads, d, 1, 3);
    randomize(s.ref.dout, s.in_dout, T, heads, d, 1, 4);
    s.a_in = act == LS_F32 ? s.in : encoded(s.in, s.in_elems, act);
    s.a_dout = act == LS_F32 ? s.in_dout : encoded(s.in_dout, s.dout_elems, act);
    s.a_stats = filled(s.stat_elems, 7);
    s.a_out = encoded(s.out, s.out_elems, act);
    place(&s.a, act, s.a_in, s.a_dout, s.a_stats, s.a_out, gap);
    settle(&s);
    s.scratch = filled(ls_attention_scratch_elems(&s.a), NAN);
    return s;
}

static sequence make(size_t T, size_t heads, size_t kv_heads, size_t d, size_t gap, float size) {
    return make_of(LS_F32, LS_UNIT_CHAIN, T, heads, kv_heads, d, gap, size);
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
    s->ref.drop = s->a.drop;
}

/* From here on a query sees so many keys at most. */
static inline void set_window(sequence *s, size_t window) { s->a.mask.window = s->ref.mask.window = window; }

static void release(sequence *s) {
    if (s->a.act != LS_F32) {
        free(s->a_in);
        free(s->a_dout);
    }
    free(s->in);
    free(s->in_dout);
    free(s->stats);
    free(s->out);
    free(s->a_stats);
    free(s->a_out);
    free(s->scratch);
}

/* ---- on a GPU ---------------------------------------------------------------------------------------------------- */

static ls_device *gpu(void) {
    static ls_device *opened;
    if (!opened && ls_device_open_cuda(0, &opened) != LS_OK) fail_msg("%s", ls_status_message());
    return opened;
}

/* Memory of the host and its copy on the GPU, which begins `shift` bytes behind a boundary. */
typedef struct gpu_copy {
    void *host, *base;
    char *at;
    size_t bytes;
} gpu_copy;

static gpu_copy copy_to_gpu(void *host, size_t bytes, size_t shift) {
    gpu_copy c = {.host = host, .bytes = bytes};
    assert_int_equal(ls_device_alloc(gpu(), bytes + shift, &c.base), LS_OK);
    c.at = (char *)c.base + shift;
    assert_int_equal(ls_device_copy_in(gpu(), c.at, host, bytes), LS_OK);
    return c;
}

static void *gpu_at(const gpu_copy *c, const void *host) {
    return c->at + ((const char *)host - (const char *)c->host);
}

static void close_copy(gpu_copy *c) {
    assert_int_equal(ls_device_copy_out(gpu(), c->host, c->at, c->bytes), LS_OK);
    ls_device_free(gpu(), c->base);
}

/* The call, whose pointers are into the memory of s, on the GPU. */
static void run_call_on_gpu(sequence *s, const ls_attention_call *call, bool backward) {
    enum { PARTS = 4 };
    size_t bytes = ls_dtype_bytes(s->a.act), shift = s->a.T % 2 ? bytes : 0;
    gpu_copy in = copy_to_gpu(s->a_in, s->in_elems * bytes, shift),
             dout = copy_to_gpu(s->a_dout, s->dout_elems * bytes, shift);
    gpu_copy out = copy_to_gpu(s->a_out, s->out_elems * bytes, shift),
             stats = copy_to_gpu(s->a_stats, s->stat_elems * 4, 0);
    ls_attention parts[PARTS];
    ls_attention_call there = *call;
    assert_true(call->nparts <= PARTS);
    there.parts = parts;
    for (int p = 0; p < call->nparts; p++) {
        ls_attention *a = &parts[p];
        *a = call->parts[p];
        a->q.at = gpu_at(&in, a->q.at), a->k.at = gpu_at(&in, a->k.at), a->v.at = gpu_at(&in, a->v.at);
        a->dout.at = gpu_at(&dout, a->dout.at);
        a->o.at = gpu_at(&out, a->o.at), a->dq.at = gpu_at(&out, a->dq.at);
        a->dk.at = gpu_at(&out, a->dk.at), a->dv.at = gpu_at(&out, a->dv.at);
        a->m = gpu_at(&stats, a->m), a->l = gpu_at(&stats, a->l), a->dots = gpu_at(&stats, a->dots);
    }
    if (gpu()->ops->attention_forward(gpu(), &there) != LS_OK) fail_msg("%s", ls_status_message());
    if (backward && gpu()->ops->attention_backward(gpu(), &there) != LS_OK) fail_msg("%s", ls_status_message());
    close_copy(&in);
    close_copy(&dout);
    close_copy(&out);
    close_copy(&stats);
}

static void run_on_gpu(sequence *s, bool backward) {
    ls_attention_call call = {.parts = &s->a, .nparts = 1, .B = 1};
    run_call_on_gpu(s, &call, backward);
}

/* Forward alone, of queries from `first` on. */
static inline void run_forward(const ls_attention_kernels *k, sequence *s, size_t first) {
    if (k)
        k->forward(&s->a, 0, s->a.heads, first, s->a.T, s->scratch);
    else
        run_on_gpu(s, false);
}

/* A row of what the kernels have written. */
static const void *got_row(const ls_attention *a, ls_attention_out x, size_t row, size_t head) {
    return (const char *)x.at + (row * x.row_stride + head * x.head_stride) * ls_dtype_bytes(a->act);
}

static void assert_rows_equal(const ls_attention *a, ls_attention_out x, size_t row, size_t head, const ls_attention *b,
                              ls_attention_out y, size_t y_row, size_t y_head) {
    assert_memory_equal(got_row(a, x, row, head), got_row(b, y, y_row, y_head), a->head_size * ls_dtype_bytes(a->act));
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
    if (!k) {
        run_on_gpu(s, true);
        return;
    }
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
    reference_forward(&s->ref);
    reference_backward(&s->ref);
    void *expected = encoded(s->out, s->out_elems, s->a.act);
    for (size_t ranges = 1; ranges <= n; ranges += n > 1 ? n - 1 : 1) {
        for (int whole = 0; whole < 2; whole++) {
            float *blank = filled(s->out_elems, 7);
            for (size_t i = 0; i < s->out_elems; i++)
                if (s->out[i] != 7) blank[i] = -5;
            encode(s->a_out, blank, s->out_elems, s->a.act);
            for (size_t i = 0; i < s->stat_elems; i++)
                if (s->stats[i] != 7) s->a_stats[i] = -5;
            run(k, s, ranges, whole, (uint32_t)(100 + 10 * ranges));
            assert_memory_equal(s->a_stats, s->stats, s->stat_elems * sizeof *s->stats);
            assert_memory_equal(s->a_out, expected, s->out_elems * ls_dtype_bytes(s->a.act));
            free(blank);
            if (!k) break; /* nothing is divided */
        }
        if (!k) break;
    }
    free(expected);
}

/* With a cache: the last rows alone give the bits that they have in the whole sequence. */
static inline void check_last_rows(const ls_attention_kernels *k, ls_dtype act, ls_unit unit, size_t T, size_t d) {
    enum { H = 4 };
    sequence whole = make_of(act, unit, T, H, 2, d, 1, 1);
    run_forward(k, &whole, 0);
    for (size_t first = T / 3; first < T; first = first + 5 < T ? T - 5 : first + 1) {
        sequence late = make_of(act, unit, T, H, 2, d, 1, 1);
        late.a.first_query = first;
        late.a.q.at = in_from(late.a.q.at, first * late.a.q.row_stride, act);
        run_forward(k, &late, first);
        for (size_t head = 0; head < H; head++)
            for (size_t t = first; t < T; t++) {
                assert_rows_equal(&late.a, late.a.o, t - first, head, &whole.a, whole.a.o, t, head);
                size_t row = head * late.a.stat_stride;
                assert_true(late.a.l[row + t - first] == whole.a.l[row + t]);
                assert_true(late.a.m[row + t - first] == whole.a.m[row + t]);
            }
        release(&late);
    }
    release(&whole);
}

/* ---- against double ---------------------------------------------------------------------------------------------- */

static inline double *widened(ls_attention_in x, size_t rows, size_t heads, size_t d) {
    double *out = malloc(rows * heads * d * sizeof *out);
    assert_non_null(out);
    for (size_t r = 0; r < rows; r++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < d; i++) out[(r * heads + h) * d + i] = (double)in_row(x, r, h)[i];
    return out;
}

static inline void check_accuracy(const ls_attention_kernels *k, double p) {
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
static inline void check_difference(const sequence *s, double *q, double *k, double *v, double *moved,
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

static inline void check_gradients(const ls_attention_kernels *k, double p) {
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

/* ---- ISAs -------------------------------------------------------------------------------------------------------- */

typedef struct isa {
    const char *name;
    ls_attention_kernels kernels;
} isa;

/* The ISAs of this CPU; returns their number. */
static size_t list_isas(isa list[LS_ISA_COUNT]) {
    size_t n = 0;
    for (int id = 0; id < LS_ISA_COUNT; id++)
        if (ls_cpu_use((ls_isa)id)) {
            ls_kernels kernels;
            ls_kernels_fill(&kernels, 1u << id);
            list[n++] = (isa){kernels.isa, kernels.attention};
        }
    return n;
}

static void for_every_isa(void (*check)(const ls_attention_kernels *k)) {
    isa list[LS_ISA_COUNT];
    size_t n = list_isas(list);
    for (size_t i = 0; i < n && sample_has_cpu(); i++) {
        print_message("attention: %s\n", list[i].name);
        check(&list[i].kernels);
    }
    if (!getenv("LS_TEST_CUDA")) return;
    print_message("attention: cuda\n");
    check(NULL);
}

#define TEST(what)                                                                                                     \
    static void test_##what(void **state) {                                                                            \
        (void)state;                                                                                                   \
        for_every_isa(check_##what);                                                                                   \
    }

#endif
