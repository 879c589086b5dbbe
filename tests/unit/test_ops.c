/* test_ops.c: the CPU device, and its operations on flat arrays and products, with the bits of one direct call of the
 * portable kernel, whatever the threads and the ISA. All memory around the results is compared too. */
#include <math.h>

#include "base/fpenv.h"
#include "device/cpu/cpu.h"
#include "ops.h"

/* Lets a failed allocation return in checked builds too. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

/* ---- flat arrays ------------------------------------------------------------------------------------------------- */

static void check_act(size_t n) {
    const ls_act_kernels *k = &portable.act;
    twin x = make(n), dy = make(n), y[10];
    for (int i = 0; i < 10; i++) y[i] = make(n);
    ok(ops->act_forward(device, &(ls_act_call){LS_ACT_GELU, y[0].dev, NULL, x.dev, LS_F32, n}));
    k->forward[LS_ACT_GELU](y[0].ref, x.ref, n);
    ok(ops->act_backward(device, &(ls_act_call){LS_ACT_GELU, y[1].dev, dy.dev, x.dev, LS_F32, n}));
    k->backward[LS_ACT_GELU](y[1].ref, dy.ref, x.ref, n);
    ok(ops->act_forward(device, &(ls_act_call){LS_ACT_SILU, y[2].dev, NULL, x.dev, LS_F32, n}));
    k->forward[LS_ACT_SILU](y[2].ref, x.ref, n);
    ok(ops->act_backward(device, &(ls_act_call){LS_ACT_SILU, y[3].dev, dy.dev, x.dev, LS_F32, n}));
    k->backward[LS_ACT_SILU](y[3].ref, dy.ref, x.ref, n);
    ok(ops->add(device, &(ls_add_call){y[4].dev, x.dev, dy.dev, LS_F32, n}));
    for (size_t i = 0; i < n; i++) y[4].ref[i] = x.ref[i] + dy.ref[i];
    ok(ops->set(device, &(ls_set_call){y[5].dev, -0.0f, n}));
    for (size_t i = 0; i < n; i++) y[5].ref[i] = -0.0f;
    ok(ops->act_forward(device, &(ls_act_call){LS_ACT_RELU, y[6].dev, NULL, x.dev, LS_F32, n}));
    k->forward[LS_ACT_RELU](y[6].ref, x.ref, n);
    ok(ops->act_backward(device, &(ls_act_call){LS_ACT_RELU, y[7].dev, dy.dev, x.dev, LS_F32, n}));
    k->backward[LS_ACT_RELU](y[7].ref, dy.ref, x.ref, n);
    ok(ops->act_forward(device, &(ls_act_call){LS_ACT_SIGMOID, y[8].dev, NULL, x.dev, LS_F32, n}));
    k->forward[LS_ACT_SIGMOID](y[8].ref, x.ref, n);
    ok(ops->act_backward(device, &(ls_act_call){LS_ACT_SIGMOID, y[9].dev, dy.dev, x.dev, LS_F32, n}));
    k->backward[LS_ACT_SIGMOID](y[9].ref, dy.ref, x.ref, n);
    check("act", n, 0);
}

static void check_optim(size_t n) {
    const ls_optim_kernels *k = &portable.optim;
    const ls_update_step adamw = {.rule = LS_OPTIMIZER_ADAMW,
                                  .factor = 0.5f,
                                  .beta1 = 0.9f,
                                  .beta1_rest = 0.1f,
                                  .beta2 = 0.99f,
                                  .beta2_rest = 0.01f,
                                  .rate = 1e-3f,
                                  .root = 1.1f,
                                  .epsilon = 1e-8f,
                                  .decay = 0.999f};
    const ls_update_step sgd = {
        .rule = LS_OPTIMIZER_SGD, .factor = 0.5f, .rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f, .nesterov = 1};
    twin g = make(n), w = make(n), m = make(n), v = make(n), bf16 = make((n + 1) / 2), w2 = make(n), b = make(n);
    twin w3 = make(n), y = make(n);
    k->scale(v.ref, g.ref, 0.0f, n);
    ok(ops->scale(device, &(ls_scale_call){v.dev, g.dev, 0.0f, n}));
    ok(ops->update(device, &(ls_update_call){&(ls_update_piece){.w = w.dev,
                                                                .moment = {m.dev, v.dev},
                                                                .copy = bf16.dev,
                                                                .copy_dtype = LS_BF16,
                                                                .g = g.dev,
                                                                .step = &adamw,
                                                                .n = n},
                                             1}));
    k->update(&(ls_update_piece){.w = w.ref,
                                 .moment = {m.ref, v.ref},
                                 .copy = halves_of(bf16.ref),
                                 .copy_dtype = LS_BF16,
                                 .g = g.ref,
                                 .step = &adamw,
                                 .n = n},
              0, n);
    ok(ops->update(
        device,
        &(ls_update_call){
            &(ls_update_piece){
                .w = w2.dev, .moment = {b.dev}, .copy = NULL, .copy_dtype = LS_F32, .g = g.dev, .step = &sgd, .n = n},
            1}));
    k->update(
        &(ls_update_piece){
            .w = w2.ref, .moment = {b.ref}, .copy = NULL, .copy_dtype = LS_BF16, .g = g.ref, .step = &sgd, .n = n},
        0, n);
    ok(ops->update(device, &(ls_update_call){&(ls_update_piece){.w = w3.dev,
                                                                .moment = {NULL},
                                                                .copy = bf16.dev,
                                                                .copy_dtype = LS_BF16,
                                                                .g = g.dev,
                                                                .step = &sgd,
                                                                .n = n},
                                             1}));
    k->update(&(ls_update_piece){.w = w3.ref,
                                 .moment = {NULL},
                                 .copy = halves_of(bf16.ref),
                                 .copy_dtype = LS_BF16,
                                 .g = g.ref,
                                 .step = &sgd,
                                 .n = n},
              0, n);
    ok(ops->scale(device, &(ls_scale_call){y.dev, g.dev, 0.3f, n}));
    k->scale(y.ref, g.ref, 0.3f, n);
    check("optim", n, 0);
}

static void check_convert(size_t n) {
    const ls_convert_kernels *k = &portable.convert;
    twin x = make(n), half[2] = {make((n + 1) / 2), make((n + 1) / 2)}, back[2] = {make(n), make(n)};
    const ls_dtype types[2] = {LS_BF16, LS_F16};
    for (int i = 0; i < 2; i++) {
        ok(ops->convert(device, &(ls_convert_call){half[i].dev, types[i], x.dev, LS_F32, n}));
        ok(ops->convert(device, &(ls_convert_call){back[i].dev, LS_F32, half[i].dev, types[i], n}));
    }
    k->f32_to_bf16(halves_of(half[0].ref), x.ref, n);
    k->bf16_to_f32(back[0].ref, halves_of(half[0].ref), n);
    k->f32_to_f16(halves_of(half[1].ref), x.ref, n);
    k->f16_to_f32(back[1].ref, halves_of(half[1].ref), n);
    check("convert", n, 0);
}

/* Addresses, strides and rows that are multiples of 16 bytes, of 4, and of nothing. */
static void check_copy_rows(size_t rows, size_t bytes, size_t more, size_t shift) {
    size_t from_stride = bytes + more, to_stride = bytes + 2 * more;
    twin from = make((rows * from_stride + shift) / sizeof(float) + 1);
    twin to = make((rows * to_stride + shift) / sizeof(float) + 1);
    ok(ops->copy_rows(device, &(ls_copy_rows_call){(char *)to.dev + shift, to_stride, (const char *)from.dev + shift,
                                                   from_stride, rows, bytes}));
    for (size_t r = 0; r < rows; r++)
        memcpy((char *)to.ref + shift + r * to_stride, (const char *)from.ref + shift + r * from_stride, bytes);
    check("copied rows", rows, bytes);
}

static void all_copies(void) {
    static const size_t rows[] = {0, 1, 3, 40}, bytes[] = {0, 2, 4, 16, 48, 1000, 16384, 30002};
    for (size_t r = 0; r < 4; r++)
        for (size_t b = 0; b < 8; b++) {
            check_copy_rows(rows[r], bytes[b], 0, 0);
            check_copy_rows(rows[r], bytes[b], 16, 0);
            check_copy_rows(rows[r], bytes[b], 4, 4);
            check_copy_rows(rows[r], bytes[b], 6, 2);
        }
}

static void test_copies(void **state) {
    (void)state;
    on_every_device(all_copies);
}

static float tree(const float *x, int n) {
    int left = 1;
    if (n == 1) return x[0];
    while (2 * left < n) left *= 2;
    return tree(x, left) + tree(x + left, n - left);
}

static void check_sums(size_t n, int leaves) {
    twin x[24], half[24], out[3] = {make(n), make(n), make(n)};
    const void *parts[24], *half_parts[24];
    const float *inputs[24];
    for (int i = 0; i < leaves; i++) {
        x[i] = make(n);
        half[i] = make((n + 1) / 2);
        ok(ops->convert(device, &(ls_convert_call){half[i].dev, LS_BF16, x[i].dev, LS_F32, n}));
        portable.convert.f32_to_bf16(halves_of(half[i].ref), x[i].ref, n);
        parts[i] = inputs[i] = x[i].dev;
        half_parts[i] = half[i].dev;
    }
    ok(ops->tree_sum(device, &(ls_tree_sum_call){out[0].dev, parts, LS_F32, leaves, n}));
    ok(ops->tree_sum(device, &(ls_tree_sum_call){out[1].dev, half_parts, LS_BF16, leaves, n}));
    ok(ops->max(device, &(ls_max_call){out[2].dev, inputs, leaves, n}));
    for (size_t e = 0; e < n; e++) {
        float values[24], widened[24], most = -INFINITY;
        for (int i = 0; i < leaves; i++) {
            values[i] = x[i].ref[e];
            portable.convert.bf16_to_f32(&widened[i], halves_of(half[i].ref) + e, 1);
            if (values[i] > most) most = values[i];
        }
        out[0].ref[e] = tree(values, leaves);
        out[1].ref[e] = tree(widened, leaves);
        out[2].ref[e] = most;
    }
    /* In place. */
    ok(ops->tree_sum(device, &(ls_tree_sum_call){x[leaves / 2].dev, parts, LS_F32, leaves, n}));
    memcpy(x[leaves / 2].ref, out[0].ref, n * sizeof(float));
    check("sums", n, (size_t)leaves);
}

/* Pieces of many sizes, more of them than go into one launch, with gaps between some. */
static void check_rows(int pieces, int leaves) {
    ls_tree_rows_piece list[200];
    size_t at[201] = {0}, n[200];
    for (int i = 0; i < pieces; i++) {
        n[i] = (size_t)(i % 7 == 3 ? 0 : i % 50 == 2 ? 300 + i : 1 + i % 40);
        at[i + 1] = at[i] + n[i] * (size_t)leaves + (size_t)(i % 3);
    }
    twin x = make(at[pieces]);
    for (int i = 0; i < pieces; i++) list[i] = (ls_tree_rows_piece){x.dev + at[i], n[i]};
    ok(ops->tree_rows(device, &(ls_tree_rows_call){list, pieces, leaves}));
    for (int i = 0; i < pieces; i++)
        for (size_t e = 0; e < n[i]; e++) {
            float values[24];
            for (int k = 0; k < leaves; k++) values[k] = x.ref[at[i] + (size_t)k * n[i] + e];
            x.ref[at[i] + e] = tree(values, leaves);
        }
    check("sums of rows", (size_t)pieces, (size_t)leaves);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static void check_gemm(size_t m, size_t k) {
    const size_t n = 101, bounds[5] = {0, k / 4, k / 2, k * 3 / 4, k};
    twin a = make(m * k), b = make(n * k), c = make(m * (n + 2)), bias = make(n), sibling = make(m * n);
    ls_gemm g = {.form = LS_GEMM_NT,
                 .m = m,
                 .n = n,
                 .k = k,
                 .a = a.dev,
                 .b = b.dev,
                 .lda = k,
                 .ldb = k,
                 .c = c.dev,
                 .ldc = n + 2,
                 .slices = 4,
                 .bounds = bounds,
                 .bias = bias.dev,
                 .siblings = 1,
                 .sibling = {sibling.dev},
                 .ldsibling = n};
    ok(ops->gemm(device, &g));
    g.a = a.ref, g.b = b.ref, g.c = c.ref, g.bias = bias.ref, g.sibling[0] = sibling.ref;
    size_t bytes = ls_gemm_scratch_bytes(&portable.gemm, &g);
    void *scratch = aligned_alloc(64, bytes / 64 * 64 + 64);
    assert_non_null(scratch);
    ls_gemm_run(&portable.gemm, &g, NULL, scratch);
    free(scratch);
    check("gemm", m, k);
}

/* The tensors of a call: numbers of a part follow those of the parts before it, in every row. */
typedef struct attention_tensors {
    float *q, *kv, *o, *m, *l, *dots, *dout, *dq, *dkv;
} attention_tensors;

enum { ATTENTION_B = 3, ATTENTION_D = 6, ATTENTION_PARTS = 3 };

/* The tensors of one part of sequence 0; `heads` and `kv_heads` lie before it. Rows of kv: [k | v] of each part. */
static ls_attention part_of(attention_tensors t, size_t T, size_t heads, size_t kv_heads, ls_attention shape) {
    enum { D = ATTENTION_D };
    size_t C = 8 * D, KV = 2 * 4 * D, q = heads * D, k = 2 * kv_heads * D, v = k + shape.kv_heads * D;
    ls_attention a = shape;
    a.stat_stride = T + 1;
    size_t stats = heads * a.stat_stride;
    a.q = (ls_attention_in){t.q + q, C, D};
    a.k = (ls_attention_in){t.kv + k, KV, D};
    a.v = (ls_attention_in){t.kv + v, KV, D};
    a.o = (ls_attention_out){t.o + q, C, D};
    a.m = t.m + stats;
    a.l = t.l + stats;
    if (t.dots == NULL) return a; /* the rest is absent */
    a.dots = t.dots + stats;
    a.dout = (ls_attention_in){t.dout + q, C, D};
    a.dq = (ls_attention_out){t.dq + q, C, D};
    a.dk = (ls_attention_out){t.dkv + k, KV, D};
    a.dv = (ls_attention_out){t.dkv + v, KV, D};
    return a;
}

static ls_attention_in in_rows(ls_attention_in x, size_t rows) {
    return (ls_attention_in){(const float *)x.at + rows * x.row_stride, x.row_stride, x.head_stride};
}

static ls_attention_out out_rows(ls_attention_out x, size_t rows) {
    return (ls_attention_out){(float *)x.at + rows * x.row_stride, x.row_stride, x.head_stride};
}

/* One part in all sequences, by direct calls of the portable kernel. */
static void reference_part(ls_attention a, const ls_attention_call *c, bool backward) {
    const ls_attention_kernels *k = &portable.attention;
    float *scratch = malloc(ls_attention_scratch_elems(&a) * sizeof *scratch);
    assert_non_null(scratch);
    for (size_t b = 0; b < c->B; b++) {
        k->forward(&a, 0, a.heads, a.first_query, a.T, scratch);
        if (backward) {
            k->backward_dots(&a, 0, a.heads, 0, a.T);
            k->backward_queries(&a, 0, a.heads, 0, a.T, scratch);
            for (size_t h = 0; h < a.kv_heads; h++) k->backward_keys(&a, h, 0, a.T, scratch);
            a.dout = in_rows(a.dout, c->query_rows), a.dq = out_rows(a.dq, c->query_rows);
            a.dk = out_rows(a.dk, c->key_rows), a.dv = out_rows(a.dv, c->key_rows);
            a.dots += c->stat_elems;
        }
        a.q = in_rows(a.q, c->query_rows), a.o = out_rows(a.o, c->query_rows);
        a.k = in_rows(a.k, c->key_rows), a.v = in_rows(a.v, c->key_rows);
        a.m += c->stat_elems, a.l += c->stat_elems;
    }
    free(scratch);
}

/* Queries apart from keys, as with a cache of keys, which has room for more rows than there are. Eight heads in
 * `nparts` parts of different sizes; the last parts of a call with fewer are left alone. */
static void check_attention(size_t T, size_t first_query, int nparts) {
    static const size_t kv_heads[ATTENTION_PARTS] = {1, 2, 1};
    enum { B = ATTENTION_B, D = ATTENTION_D, C = 8 * D, KV = 2 * 4 * D };
    size_t rows = T - first_query, room = T + 2, stats = 8 * (T + 1), heads = 0;
    twin q = make(B * rows * C), kv = make(B * room * KV), o = make(B * rows * C), m = make(B * stats);
    twin l = make(B * stats), dots = make(B * stats), dout = make(B * rows * C), dq = make(B * rows * C);
    twin dkv = make(B * room * KV);
    attention_tensors dev = {q.dev, kv.dev, o.dev, m.dev, l.dev, NULL, NULL, NULL, NULL};
    attention_tensors ref = {q.ref, kv.ref, o.ref, m.ref, l.ref, dots.ref, dout.ref, dq.ref, dkv.ref};
    ls_attention parts[ATTENTION_PARTS], full[ATTENTION_PARTS];
    ls_attention_call c = {.parts = parts, .nparts = nparts, .B = B};
    c.query_rows = rows, c.key_rows = room, c.stat_elems = stats;
    for (int p = 0; p < nparts; p++) {
        ls_attention shape = {.T = T, .heads = 2 * kv_heads[p], .kv_heads = kv_heads[p], .head_size = D, .scale = 0.4f};
        shape.first_query = first_query;
        parts[p] = part_of(dev, T, heads, heads / 2, shape);
        attention_tensors all = dev;
        all.dots = dots.dev, all.dout = dout.dev, all.dq = dq.dev, all.dkv = dkv.dev;
        full[p] = part_of(all, T, heads, heads / 2, shape);
        reference_part(part_of(ref, T, heads, heads / 2, shape), &c, first_query == 0);
        heads += shape.heads;
    }
    ok(ops->attention_forward(device, &c));
    c.parts = full;
    if (first_query == 0) ok(ops->attention_backward(device, &c));
    check("attention", T, first_query);
}

/* ---- every device ------------------------------------------------------------------------------------------------ */

static void all_flat(void) {
    static const size_t sizes[] = {1, 17, 1031, 16384, 34019};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_act(sizes[i]);
        check_optim(sizes[i]);
        check_convert(sizes[i]);
    }
}

static void all_sums(void) {
    check_sums(1, 1);
    check_sums(17, 24);
    check_sums(16411, 7);
    check_sums(33013, 2);
    check_rows(1, 1);
    check_rows(200, 2);
    check_rows(9, 24);
}

static void all_products(void) {
    check_gemm(1, 1);
    check_gemm(67, 211);
    check_gemm(7, 0);
    check_attention(1, 0, 3);
    check_attention(131, 0, 1);
    check_attention(131, 130, 2);
    check_attention(211, 67, 3);
    check_attention(211, 0, 3);
}

static void test_flat(void **state) {
    (void)state;
    on_every_device(all_flat);
}

static void test_sums(void **state) {
    (void)state;
    on_every_device(all_sums);
}

static void test_products(void **state) {
    (void)state;
    on_every_device(all_products);
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

static void check_memory(void) {
    static const size_t sizes[] = {0, 1, 63, 64, 4099, 1000003};
    unsigned char *host = malloc(1000003), *back = malloc(1000003);
    assert_true(host && back);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = sizes[i];
        void *a, *b;
        ok(ls_device_alloc(device, bytes, &a));
        ok(ls_device_alloc(device, bytes, &b));
        assert_true(a && b && (uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0);
        ok(ls_device_copy_out(device, back, b, bytes));
        for (size_t j = 0; j < bytes; j++) assert_int_equal(back[j], 0);
        for (size_t j = 0; j < bytes; j++) host[j] = (unsigned char)ls_rng_u32(ls_rng_key_make(9, 0, 0), j);
        ok(ls_device_copy_in(device, a, host, bytes));
        ok(ls_device_copy(device, b, a, bytes));
        ok(ls_device_fill(device, a, 0xA5, bytes));
        ok(ls_device_copy_out(device, back, b, bytes));
        if (bytes) assert_memory_equal(back, host, bytes);
        ok(ls_device_copy_out(device, back, a, bytes));
        for (size_t j = 0; j < bytes; j++) assert_int_equal(back[j], 0xA5);
        ls_device_free(device, a);
        ls_device_free(device, b);
    }
    ls_device_free(device, NULL);
    free(host);
    free(back);
}

static void test_memory(void **state) {
    (void)state;
    on_every_device(check_memory);
    ls_device_destroy(NULL);
}

static void test_events(void **state) {
    (void)state;
    ls_event first, second;
    ok(ls_device_open_cpu(2, NULL, NULL, &device));
    assert_string_equal(device->name, "cpu");
    assert_int_equal(ls_device_wait(device, (ls_event){.number = 1}), LS_ERR_INPUT);
    ok(ls_device_record(device, &first));
    ok(ls_device_record(device, &second));
    ok(ls_device_wait(device, second));
    ok(ls_device_wait(device, first));
    ok(ls_device_wait(device, first));
    assert_int_equal(ls_device_wait(device, (ls_event){.number = 0}), LS_ERR_INPUT);
    assert_int_equal(ls_device_wait(device, (ls_event){.number = second.number + 1}), LS_ERR_INPUT);
    ok(ls_device_finish(device));
    ls_device_destroy(device);
}

static void test_errors(void **state) {
    (void)state;
    void *memory = &memory;
    float x = 1;
    const void *parts[1] = {&x};
    const float *inputs[1] = {&x};
    assert_int_equal(ls_device_open_cpu(0, NULL, NULL, &device), LS_ERR_INPUT);
    assert_null(device);
    ok(ls_device_open_cpu(1, NULL, NULL, &device));
    ops = device->ops;
    assert_int_equal(ls_device_alloc(device, SIZE_MAX, &memory), LS_ERR_RESOURCE);
    assert_null(memory);
    assert_int_equal(ls_device_alloc(device, SIZE_MAX / 2, &memory), LS_ERR_RESOURCE);
    assert_null(memory);
    assert_int_equal(ops->convert(device, &(ls_convert_call){&x, LS_F32, &x, LS_F32, 1}), LS_ERR_INPUT);
    assert_int_equal(ops->convert(device, &(ls_convert_call){&x, LS_BF16, &x, LS_F16, 1}), LS_ERR_INPUT);
    assert_int_equal(ops->tree_sum(device, &(ls_tree_sum_call){&x, parts, LS_F32, 0, 1}), LS_ERR_INPUT);
    assert_int_equal(ops->tree_sum(device, &(ls_tree_sum_call){&x, parts, LS_F32, LS_GROUPS_MAX + 1, 1}), LS_ERR_INPUT);
    assert_int_equal(ops->tree_sum(device, &(ls_tree_sum_call){&x, parts, LS_I64, 1, 1}), LS_ERR_INPUT);
    assert_int_equal(ops->tree_rows(device, &(ls_tree_rows_call){NULL, 0, 0}), LS_ERR_INPUT);
    assert_int_equal(ops->max(device, &(ls_max_call){&x, inputs, 0, 1}), LS_ERR_INPUT);
    /* Scratch that no machine has: refused before anything is read. */
    ls_attention part = {.T = SIZE_MAX / 2048, .heads = 1, .kv_heads = 1, .head_size = 1, .scale = 1};
    ls_attention_call huge = {.parts = &part, .nparts = 1, .B = 1};
    assert_int_equal(ops->attention_forward(device, &huge), LS_ERR_RESOURCE);
    part.T = (size_t)1 << 39;
    assert_int_equal(ops->attention_forward(device, &huge), LS_ERR_RESOURCE);
    ok(ops->tree_sum(device, &(ls_tree_sum_call){&x, parts, LS_F32, 1, 1})); /* and the device goes on */
    assert_true(x == 1);
    ls_device_destroy(device);
}

/* Once the largest operation has run, none allocates. */
static void test_scratch(void **state) {
    (void)state;
    ls_kernels_fill(&portable, 1u << LS_ISA_PORTABLE);
    ls_kernels_fill(&table, ls_cpu_isa_mask());
    ok(ls_device_open_cpu(thread_count = 3, NULL, &table, &device));
    ops = device->ops;
    const ls_cpu_device *cpu = (const ls_cpu_device *)(const void *)device;
    assert_null(cpu->scratch);
    all_products();
    all_sums();
    const void *scratch = cpu->scratch;
    size_t bytes = cpu->scratch_bytes;
    assert_true(scratch && bytes > 0);
    all_products();
    all_sums();
    assert_true(cpu->scratch == scratch && cpu->scratch_bytes == bytes);
    ls_device_destroy(device);
}

/* No table with holes, and the environment of the arithmetic whatever a library left behind. */
static void test_table(void **state) {
    (void)state;
    ok(ls_device_open_cpu(1, NULL, NULL, &device));
    void (*entry)(void);
    for (size_t at = 0; at < sizeof(ls_ops); at += sizeof entry) {
        memcpy(&entry, (const char *)device->ops + at, sizeof entry);
        assert_true(entry != NULL);
    }
    float tiny = 0x1p-149f, sum = 0;
#if defined(__aarch64__)
    uint64_t flush = 1u << 24;
    __asm__ volatile("msr fpcr, %0" : : "r"(flush) : "memory");
#else
    __builtin_ia32_ldmxcsr(0x9FC0);
#endif
    ls_status status = device->ops->add(device, &(ls_add_call){&sum, &tiny, &tiny, LS_F32, 1});
    bool is_set = ls_fpenv_is_set();
    ls_fpenv_set();
    ok(status);
    assert_true(is_set);
    assert_true(sum == 0x1p-148f);
    ls_device_destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),   cmocka_unit_test(test_events),  cmocka_unit_test(test_errors),
        cmocka_unit_test(test_table),    cmocka_unit_test(test_flat),    cmocka_unit_test(test_sums),
        cmocka_unit_test(test_products), cmocka_unit_test(test_scratch), cmocka_unit_test(test_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
