/* test_attention_half.c: attention on bf16 and fp16 tensors, on every ISA and every unit of this CPU: the bits of the
 * plain loops of attention_reference.h for many shapes, strides with gaps, any division of the work, with and without
 * dropout; rounding at the ends of the range; one query alone; numbers that are none; threads; and how near fp32 it is.
 */
#include "attention_sequence.h"
#include "device/cpu/kernels.h"
#include "device/cuda/launch.h"
#include "device/ops.h"
#include "sample.h"

static ls_dtype act;
static ls_unit unit;

/* hgmma is slow on a CPU, and the way is the same for both types: each takes every other case. */
static bool is_other_types(size_t number) { return ls_unit_is_tensor_core(unit) && number % 2 == (act == LS_F16); }

static void check_shape(const ls_attention_kernels *k, sequence s, size_t n, double p) {
    if (p > 0) set_dropout(&s, p);
    check_same_bits(k, &s, ls_unit_is_tensor_core(unit) && n > 2 ? 2 : n);
    release(&s);
}

static sequence make_half(size_t T, size_t heads, size_t kv_heads, size_t d, size_t gap, float size) {
    return make_of(act, unit, T, heads, kv_heads, d, gap, size);
}

static void check_shapes(const ls_attention_kernels *k) {
    static const size_t lengths[] = {1, 2, 3, 4, 5, 15, 16, 17, 31, 63, 100}, sizes[] = {32, 13, 64, 1, 40, 3, 33};
    static const size_t heads[][2] = {{1, 1}, {4, 2}, {6, 3}};
    for (size_t t = (size_t)sample_first(3); t < 11; t += (size_t)sample_every(3))
        for (size_t h = 0; h < 3; h++) {
            size_t T = lengths[t], d = sizes[(2 * t + 3 * h) % 7];
            if ((T > 32 && (h > 1 || ls_unit_is_tensor_core(unit))) || is_other_types(t + h)) continue;
            sequence s = make_half(T, heads[h][0], heads[h][1], d, (t + h) % 3, 1);
            check_shape(k, s, 2 + t % 5, (t + h) % 3 == 0 ? 0.3 : 0);
        }
    for (size_t d = 2; d < 20; d += 5) check_shape(k, make_half(1 + 7 * d % 40, 2, 1, d, d % 2, 2), 4, 0);
}

/* Several blocks of keys and of queries, with sizes that fill no tile and no granule. */
static void check_blocks(const ls_attention_kernels *k) {
    static const struct {
        size_t T, heads, d, gap, n;
        double p;
    } shapes[] = {{310, 2, 7, 0, 3, 0}, {390, 1, 3, 1, 6, 0.2}, {97, 1, 96, 2, 7, 0}, {130, 1, 65, 2, 5, 0.2}};
    /* One type has three blocks of keys, the other wide heads. */
    static const size_t few[] = {140, 259, 40, 130};
    bool slow = ls_unit_is_tensor_core(unit);
    for (size_t i = 0; i < 4; i++)
        if (!slow || i / 2 == (act == LS_F16))
            check_shape(k,
                        make_half(slow ? few[i] : shapes[i].T, slow ? 1 : shapes[i].heads, 1,
                                  slow && i > 1 ? 33 : shapes[i].d, shapes[i].gap, 1),
                        shapes[i].n, shapes[i].p);
}

/* GPUs and BFMMLA refuse windows. */
static void check_windows(const ls_attention_kernels *k) {
    static const size_t windows[] = {1, 3, 16, 50, 131};
    if (!k || unit == LS_UNIT_BFMMLA) return;
    for (size_t w = 0; w < 5; w++) {
        if (is_other_types(w)) continue;
        sequence s = make_half(ls_unit_is_tensor_core(unit) ? 150 : 310, 2, 1, 7, w % 3, 1);
        set_window(&s, windows[w]);
        check_shape(k, s, 3, w % 2 ? 0.2 : 0);
    }
}

/* One key takes all, or all are equal; and numbers so small and so large that rounding ends at zero, at subnormals or
 * at infinity. */
static void check_extremes(const ls_attention_kernels *k) {
    if (!is_other_types(0)) check_shape(k, make_half(70, 2, 1, 64, 3, 12), 3, 0);
    if (!is_other_types(1)) check_shape(k, make_half(70, 2, 1, 64, 3, 0), 3, 0.3);
    static const float sizes[2][2] = {{0x1p-125f, 0x1p120f}, {0x1p-14f, 0x1p13f}};
    for (size_t i = 0; i < 2; i++) {
        sequence s = make_half(37, 1, 1, 12, 1, 1);
        float *values = s.in + 2 * s.ref.k.head_stride, size = sizes[act == LS_F16][i];
        for (size_t t = 0; t < 37; t++)
            for (size_t j = 0; j < 12; j++) values[t * s.ref.v.row_stride + j] *= size;
        for (size_t j = 0; j < s.dout_elems; j++) s.in_dout[j] *= i == 0 ? 0.125f : 1;
        settle(&s);
        check_shape(k, s, 3, 0);
    }
}

static void check_generation(const ls_attention_kernels *k) {
    check_last_rows(k, act, unit, 1, 16);
    if (!is_other_types(0)) check_last_rows(k, act, unit, 64, 33);
    if (!is_other_types(1)) check_last_rows(k, act, unit, 131, 20);
}

/* So many keys that they are not all packed at once: the first, the last and some queries between. The way is the same
 * for all types. */
static void check_long(const ls_attention_kernels *k) {
    if (act != LS_F16 || !k || ls_unit_is_tensor_core(unit)) return; /* which packs nothing */
    enum { D = 512, T = LS_ATTENTION_KEPT / D + 9, MIDDLE = 1000 };
    sequence s = make_half(T, 1, 1, D, 0, 1);
    float p[T];
    static const size_t ranges[3][2] = {{0, 3}, {MIDDLE, MIDDLE + 2}, {T - 2, T}};
    for (int i = 0; i < 3; i++) {
        k->forward(&s.a, 0, 1, ranges[i][0], ranges[i][1], s.scratch);
        for (size_t t = ranges[i][0]; t < ranges[i][1]; t++) {
            reference_forward_query(&s.ref, 0, t, p);
            void *expected = encoded(out_row(s.ref.o, t, 0), D, act);
            assert_memory_equal(got_row(&s.a, s.a.o, t, 0), expected, D * sizeof(uint16_t));
            assert_true(s.a.m[t] == s.ref.m[t] && s.a.l[t] == s.ref.l[t]);
            free(expected);
        }
    }
    release(&s);
}

/* The same numbers in fp32: o within the steps of the type, gradients with an error that is small beside them. */
static void check_near(const ls_attention_kernels *k) {
    enum { D = 32 };
    const size_t T = ls_unit_is_tensor_core(unit) ? 50 : 150;
    if (is_other_types(0)) return;
    sequence s = make_half(T, 2, 1, D, 0, 3), wide = make(T, 2, 1, D, 0, 3);
    memcpy(wide.in, s.in, s.in_elems * sizeof *s.in);
    memcpy(wide.in_dout, s.in_dout, s.dout_elems * sizeof *s.in_dout);
    reference_forward(&wide.ref);
    reference_backward(&wide.ref);
    run(k, &s, 1, true, 1);
    double ulp = act == LS_BF16 ? 0x1p-8 : 0x1p-11, error = 0, size = 0;
    for (size_t i = 0; i < s.out_elems; i++) {
        uint16_t half;
        memcpy(&half, (char *)s.a_out + i * sizeof half, sizeof half);
        double x = (double)decode(half, act), y = (double)wide.out[i];
        error += (x - y) * (x - y);
        size += y * y;
    }
    assert_true(sqrt(error / size) < 2 * ulp && error > 0);
    release(&s);
    release(&wide);
}

/* A key that is no number reaches the queries that see it, and none of the others. */
static void check_mask(const ls_attention_kernels *k) {
    enum { T = 50, D = 12 };
    for (size_t bad = 1; bad < T; bad += ls_unit_is_tensor_core(unit) ? 20 : 6) {
        sequence clean = make_half(T, 1, 1, D, 0, 1), dirty = make_half(T, 1, 1, D, 0, 1);
        for (size_t i = 0; i < D; i++) dirty.in[bad * dirty.ref.q.row_stride + D + i] = i % 2 ? INFINITY : NAN;
        settle(&dirty);
        run(k, &clean, 1 + bad % 3, bad % 2, 1);
        run(k, &dirty, 1 + bad % 3, bad % 2, 1);
        for (size_t t = 0; t < bad; t++) assert_rows_equal(&dirty.a, dirty.a.o, t, 0, &clean.a, clean.a.o, t, 0);
        for (size_t t = bad; t < T; t++) {
            uint16_t first;
            memcpy(&first, got_row(&dirty.a, dirty.a.o, t, 0), sizeof first);
            assert_true(isnan(decode(first, act)) && isnan(dirty.a.m[t]));
            memcpy(&first, got_row(&dirty.a, dirty.a.dq, t, 0), sizeof first);
            assert_true(isnan(decode(first, act)));
        }
        release(&clean);
        release(&dirty);
    }
}

/* The tensors of heads head … and of sequence b of two. */
static ls_attention part_of(ls_attention a, size_t b, size_t kv, size_t kv_heads) {
    size_t group = a.heads / a.kv_heads, head = kv * group, T = a.T, row = b * T;
    a.q.at = in_from(a.q.at, row * a.q.row_stride + head * a.q.head_stride, act);
    a.k.at = in_from(a.k.at, row * a.k.row_stride + kv * a.k.head_stride, act);
    a.v.at = in_from(a.v.at, row * a.v.row_stride + kv * a.v.head_stride, act);
    a.dout.at = in_from(a.dout.at, row * a.dout.row_stride + head * a.dout.head_stride, act);
    a.o.at = out_from(a.o.at, row * a.o.row_stride + head * a.o.head_stride, act);
    a.dq.at = out_from(a.dq.at, row * a.dq.row_stride + head * a.dq.head_stride, act);
    a.dk.at = out_from(a.dk.at, row * a.dk.row_stride + kv * a.dk.head_stride, act);
    a.dv.at = out_from(a.dv.at, row * a.dv.row_stride + kv * a.dv.head_stride, act);
    a.m += head * a.stat_stride + row;
    a.l += head * a.stat_stride + row;
    a.dots += head * a.stat_stride + row;
    a.drop.head0 += b * a.drop.heads + head;
    a.heads = kv_heads * group;
    a.kv_heads = kv_heads;
    return a;
}

static void run_on_threads(int threads, const ls_kernels *table, const ls_attention_call *call) {
    ls_device *cpu;
    assert_int_equal(ls_device_open_cpu(threads, NULL, table, &cpu), LS_OK);
    assert_int_equal(cpu->ops->attention_forward(cpu, call), LS_OK);
    assert_int_equal(cpu->ops->attention_backward(cpu, call), LS_OK);
    ls_device_destroy(cpu);
}

/* The device's operations over two sequences in two parts, on some threads, against the kernel over each of them. */
static void check_batch(const ls_attention_kernels *k, size_t T, size_t d, size_t gap, double drop) {
    enum { B = 2, KV = 3 };
    bool on_gpu = !k;
    ls_kernels table;
    ls_kernels_fill(&table, ls_cpu_isa_mask());
    if (on_gpu) k = ls_unit_is_tensor_core(unit) ? &table.attention_hgmma : &table.attention;
    *(unit == LS_UNIT_CHAIN          ? &table.attention
      : ls_unit_is_tensor_core(unit) ? &table.attention_hgmma
                                     : &table.attention_bfmmla) = *k;
    for (int threads = ls_unit_is_tensor_core(unit) ? 3 : 1; threads <= (ls_unit_is_tensor_core(unit) ? 3 : 5);
         threads += 2) {
        sequence direct = make_half(B * T, 2 * KV, KV, d, gap, 1), device = make_half(B * T, 2 * KV, KV, d, gap, 1);
        if (drop > 0) set_dropout(&direct, drop);
        direct.a.T = device.a.T = T;
        device.a.drop = direct.a.drop;
        for (size_t b = 0; b < B; b++) {
            ls_attention one = part_of(direct.a, b, 0, KV);
            k->forward(&one, 0, one.heads, 0, T, direct.scratch);
            k->backward_dots(&one, 0, one.heads, 0, T);
            for (size_t kv = 0; kv < KV; kv++) k->backward(&one, kv, direct.scratch);
        }
        const ls_attention parts[2] = {part_of(device.a, 0, 0, 1), part_of(device.a, 0, 1, KV - 1)};
        ls_attention_call call = {.parts = parts, .nparts = 2, .B = B, .query_rows = T, .key_rows = T, .stat_elems = T};
        if (on_gpu)
            run_call_on_gpu(&device, &call, true);
        else
            run_on_threads(threads, &table, &call);
        assert_memory_equal(device.a_stats, direct.a_stats, direct.stat_elems * sizeof *direct.a_stats);
        assert_memory_equal(device.a_out, direct.a_out, direct.out_elems * ls_dtype_bytes(act));
        release(&direct);
        release(&device);
        if (on_gpu) break;
    }
}

static bool has_tma(void) {
    static const size_t counts[4] = {64, 1, 64, 1}, strides[3] = {128, 128, 128};
    ls_cuda_tensor_map map;
    void *memory;
    assert_int_equal(ls_device_alloc(gpu(), 64 * 128, &memory), LS_OK);
    bool is_here = ls_cuda_heads_map(gpu(), memory, counts, strides, 64, &map);
    ls_device_free(gpu(), memory);
    return is_here;
}

static void check_threads(const ls_attention_kernels *k) {
    if (!is_other_types(1)) check_batch(k, 131, 20, 1, 0.1);
    if (k || !ls_unit_is_tensor_core(unit)) return;
    check_batch(k, 132, 64, 0, 0); /* tiles of the TMA */
    if (has_tma()) check_batch(k, 132, 64, 0, 0.2), check_batch(k, 132, 72, 0, 0.2);
}

/* A GPU against the kernels of this CPU: shapes and strides that its TMA takes, larger than a tile and with an
 * end inside one; and more tiles than a GPU takes at once. */
static void check_tiles(const ls_attention_kernels *k) {
    static const struct {
        size_t T, heads, kv_heads, d, gap, first;
        double drop;
    } cases[] = {{130, 4, 2, 64, 0, 0, 0},
                 {72, 1, 1, 128, 8, 0, 0},
                 {200, 2, 1, 128, 0, 0, 0},
                 {390, 3, 1, 64, 8, 0, 0},
                 {258, 2, 2, 96, 0, 0, 0},
                 {150, 1, 1, 40, 8, 0, 0},
                 {300, 2, 1, 64, 0, 100, 0},
                 {300, 2, 1, 128, 0, 30, 0},
                 {1030, 1, 1, 64, 0, 0, 0},
                 {520, 1, 1, 128, 0, 0, 0},
                 {200, 140, 140, 16, 0, 0, 0},
                 {400, 40, 40, 8, 0, 0, 0},
                 {66, 140, 140, 72, 0, 0, 0},
                 {900, 34, 17, 16, 0, 0, 0},
                 /* with dropout; pairs of queries and keys that are no multiple of four come after each other */
                 {130, 4, 2, 64, 0, 0, 0.3},
                 {390, 3, 1, 64, 8, 0, 0.1},
                 {390, 3, 1, 64, 8, 0, 0.1},
                 {200, 2, 1, 128, 0, 0, 0.3},
                 {258, 4, 2, 96, 0, 0, 0.2},
                 {258, 4, 2, 96, 0, 0, 0.2},
                 {520, 1, 1, 128, 0, 0, 0.1},
                 {1030, 1, 1, 64, 0, 0, 0.1},
                 {66, 140, 140, 72, 0, 0, 0.1},
                 {200, 140, 140, 16, 0, 0, 0.1},
                 {900, 34, 17, 16, 0, 0, 0.4}};
    enum { ON_FIBERS = 2, MANY = 10 }; /* of the cases, where there is no such engine; the first with many tiles */
    ls_kernels table;
    if (k || !ls_unit_is_tensor_core(unit)) return;
    size_t count = has_tma() ? sizeof cases / sizeof *cases : ON_FIBERS;
    ls_kernels_fill(&table, ls_cpu_isa_mask());
    k = &table.attention_hgmma;
    for (size_t i = 0; i < count; i++) {
        size_t T = cases[i].T, first = cases[i].first, d = cases[i].d;
        if (i >= MANY && is_other_types(i)) continue;
        sequence here = make_half(T, cases[i].heads, cases[i].kv_heads, d, cases[i].gap, 2);
        sequence there = make_half(T, cases[i].heads, cases[i].kv_heads, d, cases[i].gap, 2);
        sequence *both[2] = {&here, &there};
        for (int j = 0; j < 2; j++) {
            if (cases[i].drop > 0) set_dropout(both[j], cases[i].drop);
            both[j]->a.first_query = first;
            both[j]->a.q.at = in_from(both[j]->a.q.at, first * both[j]->a.q.row_stride, act);
        }
        k->forward(&here.a, 0, here.a.heads, first, T, here.scratch);
        if (first == 0) {
            k->backward_dots(&here.a, 0, here.a.heads, 0, T);
            for (size_t kv = 0; kv < here.a.kv_heads; kv++) k->backward(&here.a, kv, here.scratch);
        }
        run_on_gpu(&there, first == 0);
        print_message("%zu positions from %zu on, heads of %zu, %g dropped\n", T, first, d, cases[i].drop);
        assert_memory_equal(there.a_stats, here.a_stats, here.stat_elems * sizeof *here.a_stats);
        assert_memory_equal(there.a_out, here.a_out, here.out_elems * ls_dtype_bytes(act));
        release(&here);
        release(&there);
    }
}

/* What the device refuses. */
static void test_refused(void **state) {
    (void)state;
    ls_kernels table;
    ls_device *cpu;
    ls_kernels_fill(&table, ls_cpu_isa_mask());
    table.attention_bfmmla = (ls_attention_kernels){.forward = NULL};
    act = LS_BF16, unit = LS_UNIT_BFMMLA;
    sequence s = make_half(3, 1, 1, 4, 0, 1);
    ls_attention_call call = {.parts = &s.a, .nparts = 1, .B = 1};
    assert_int_equal(ls_device_open_cpu(1, NULL, &table, &cpu), LS_OK);
    assert_int_equal(cpu->ops->attention_forward(cpu, &call), LS_ERR_INPUT);
    assert_int_equal(cpu->ops->attention_backward(cpu, &call), LS_ERR_INPUT);
    s.a.unit = LS_UNIT_AMX; /* chains, on every machine */
    assert_int_equal(cpu->ops->attention_forward(cpu, &call), LS_OK);
    s.a.act = LS_I64;
    assert_int_equal(cpu->ops->attention_forward(cpu, &call), LS_ERR_INPUT);
    ls_device_destroy(cpu);
    release(&s);
    if (!getenv("LS_TEST_CUDA")) return;
    s = make_half(3, 1, 1, 4, 0, 1);
    assert_int_equal(gpu()->ops->attention_forward(gpu(), &call), LS_ERR_INPUT);
    s.a.unit = LS_UNIT_CHAIN, s.a.head_size = 257;
    assert_int_equal(gpu()->ops->attention_forward(gpu(), &call), LS_ERR_INPUT);
    s.a.act = LS_I64;
    assert_int_equal(gpu()->ops->attention_backward(gpu(), &call), LS_ERR_INPUT);
    s.a.act = LS_BF16;
    release(&s);
}

static void for_every_type(void (*check)(const ls_attention_kernels *k)) {
    static const ls_dtype types[] = {LS_BF16, LS_F16};
    for (int i = 0; i < 2; i++) {
        act = types[i], unit = LS_UNIT_CHAIN;
        for_every_isa(check);
    }
    ls_kernels table;
    ls_kernels_fill(&table, ls_cpu_isa_mask());
    for (int i = 0; i < 2; i++) {
        act = types[i], unit = LS_UNIT_HGMMA;
        check(&table.attention_hgmma);
        if (!getenv("LS_TEST_CUDA")) continue;
        for (int u = 0; u < LS_UNITS; u++)
            if (ls_unit_is_tensor_core((ls_unit)u) && ls_cuda_check_unit(gpu(), (ls_unit)u) == LS_OK) unit = (ls_unit)u;
        print_message("attention: cuda with %s\n", ls_unit_name(unit));
        check(NULL);
    }
    act = LS_BF16, unit = LS_UNIT_AMPERE;
    check(&table.attention_hgmma);
    if (!ls_cpu_detect()->bf16) {
        print_message("attention: no bfmmla here\n");
        return;
    }
#ifdef __aarch64__
    ls_attention_kernels k;
    ls_attention_kernels_fill_bfmmla(&k);
    print_message("attention: bfmmla\n");
    act = LS_BF16, unit = LS_UNIT_BFMMLA;
    check(&k);
#endif
}

#define TEST_TYPES(what)                                                                                               \
    static void test_##what(void **state) {                                                                            \
        (void)state;                                                                                                   \
        for_every_type(check_##what);                                                                                  \
    }

TEST_TYPES(shapes)
TEST_TYPES(blocks)
TEST_TYPES(extremes)
TEST_TYPES(generation)
TEST_TYPES(long)
TEST_TYPES(near)
TEST_TYPES(mask)
TEST_TYPES(windows)
TEST_TYPES(threads)
TEST_TYPES(tiles)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiles),    cmocka_unit_test(test_shapes),     cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_extremes), cmocka_unit_test(test_generation), cmocka_unit_test(test_long),
        cmocka_unit_test(test_near),     cmocka_unit_test(test_mask),       cmocka_unit_test(test_windows),
        cmocka_unit_test(test_threads),  cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
