/* test_layers_optim.c: optimizer steps, squared norms and conversions of every ISA against the contract, to the bit. */
#include "layers.h"

#include "device/cpu/kernels.h"

/* ---- optimizers -------------------------------------------------------------------------------------------------- */

enum { MOST = 768 };

/* bf16 has one element more than is written. */
typedef struct optim_case {
    grid w, m, v, g;
    uint16_t bf16[MOST + 1];
} optim_case;

static optim_case case_make(size_t n, kind of) {
    optim_case c = {.w = grid_make(1, n, 0, 1, of),
                    .m = grid_make(1, n, 0, 2, of),
                    .v = grid_make(1, n, 0, 3, of),
                    .g = grid_make(1, n, 0, 4, of)};
    for (size_t i = 0; i <= MOST; i++) c.bf16[i] = 0x1234;
    for (size_t i = 0; i < c.v.elems; i++) c.v.memory[i] = fabsf(c.v.memory[i]);
    /* Some moments near the limit below which they are stored as zero. */
    for (size_t i = 0; i < n; i += 5) {
        c.m.at[i] = (i % 2 ? -0x1p-126f : 0x1p-126f) * (1.0f + (float)(i % 3) * 0.1f);
        c.v.at[i] = 0x1.02p-126f;
        if (i % 10 == 0) c.g.at[i] = 0.0f;
    }
    return c;
}

static void case_free(optim_case *c) {
    grid_free(&c->w);
    grid_free(&c->m);
    grid_free(&c->v);
    grid_free(&c->g);
}

static void check_case(const optim_case *got, const optim_case *expected, const char *what) {
    check_grid(&got->w, &expected->w, what);
    check_grid(&got->m, &expected->m, what);
    check_grid(&got->v, &expected->v, what);
    check_grid(&got->g, &expected->g, what);
    assert_memory_equal(got->bf16, expected->bf16, sizeof got->bf16);
}

static void check_adamw(const ls_optim_kernels *k, size_t n, kind of, size_t n_parts, int with_bf16) {
    const contract_adamw s = {0.37f, 0.9f, 0.1f, 0.999f, 0.001f, 3e-3f, 1.4f, 1e-8f, 0.9997f};
    const ls_update_step step = {.rule = LS_OPTIMIZER_ADAMW,
                                 .factor = s.f,
                                 .beta1 = s.beta1,
                                 .beta1_rest = s.rest1,
                                 .beta2 = s.beta2,
                                 .beta2_rest = s.rest2,
                                 .rate = s.a,
                                 .root = s.r,
                                 .epsilon = s.eps,
                                 .decay = s.decay};
    optim_case got = case_make(n, of), expected = case_make(n, of);
    for (size_t i = 0; i < n; i++) {
        contract_adamw_one(&expected.w.at[i], &expected.m.at[i], &expected.v.at[i], expected.g.at[i], &s);
        if (with_bf16) expected.bf16[i] = contract_bf16(expected.w.at[i]);
    }
    size_t cuts[MOST_PARTS + 1];
    make_cuts(cuts, n_parts, n, n_parts);
    for (size_t p = 0; p < n_parts; p++) {
        size_t at = cuts[p];
        k->update(&(ls_update_piece){.w = got.w.at + at,
                                     .moment = {got.m.at + at, got.v.at + at},
                                     .copy = with_bf16 ? got.bf16 + at : NULL,
                                     .copy_dtype = LS_BF16,
                                     .g = got.g.at + at,
                                     .step = &step,
                                     .n = cuts[p + 1] - at},
                  0, cuts[p + 1] - at);
    }
    check_case(&got, &expected, "adamw");
    case_free(&got);
    case_free(&expected);
}

static void check_sgd(const ls_optim_kernels *k, size_t n, kind of, size_t n_parts, int mode) {
    int momentum = mode > 0, nesterov = mode == 2, with_bf16 = mode != 1;
    const ls_update_step step = {.rule = LS_OPTIMIZER_SGD,
                                 .factor = 0.37f,
                                 .rate = 0.05f,
                                 .momentum = 0.9f,
                                 .weight_decay = 1e-4f,
                                 .nesterov = nesterov};
    optim_case got = case_make(n, of), expected = case_make(n, of);
    for (size_t i = 0; i < n; i++) {
        contract_sgd_one(&expected.w.at[i], momentum ? &expected.m.at[i] : NULL, expected.g.at[i], 0.37f, 0.05f, 0.9f,
                         1e-4f, nesterov);
        if (with_bf16) expected.bf16[i] = contract_bf16(expected.w.at[i]);
    }
    size_t cuts[MOST_PARTS + 1];
    make_cuts(cuts, n_parts, n, n_parts);
    for (size_t p = 0; p < n_parts; p++) {
        size_t at = cuts[p];
        k->update(&(ls_update_piece){.w = got.w.at + at,
                                     .moment = {momentum ? got.m.at + at : NULL},
                                     .copy = with_bf16 ? got.bf16 + at : NULL,
                                     .copy_dtype = LS_BF16,
                                     .g = got.g.at + at,
                                     .step = &step,
                                     .n = cuts[p + 1] - at},
                  0, cuts[p + 1] - at);
    }
    check_case(&got, &expected, "sgd");
    case_free(&got);
    case_free(&expected);
}

static void check_scale(const ls_optim_kernels *k, size_t n, kind of) {
    grid x = grid_make(1, n, 0, 1, of), y = grid_make(1, n, 0, 2, PLAIN), expected = grid_copy(&y);
    for (size_t i = 0; i < n; i++) expected.at[i] = x.at[i] * 0.3f;
    k->scale(y.at, x.at, 0.3f, n);
    check_grid(&y, &expected, "scale");
    k->scale(x.at, x.at, 0.3f, n);
    check_same(x.at, expected.at, n, "scale in place");
    grid_free(&x);
    grid_free(&y);
    grid_free(&expected);
}

/* Blocks of 1024; also cut at the ends of blocks, as threads and shards do. */
static void check_squares(const ls_optim_kernels *k, size_t n, kind of) {
    enum { MOST_BLOCKS = 8 };
    grid x = grid_make(1, n, 0, 1, of);
    double got[MOST_BLOCKS + 1], cut[MOST_BLOCKS + 1], expected[MOST_BLOCKS + 1];
    size_t blocks = (n + 1023) / 1024;
    for (size_t b = 0; b <= MOST_BLOCKS; b++) got[b] = cut[b] = expected[b] = -7;
    for (size_t b = 0; b < blocks; b++)
        expected[b] = contract_squares(x.at + b * 1024, b + 1 < blocks ? 1024 : n - b * 1024);
    k->square_sums(got, x.at, n);
    for (size_t b = 0; b < blocks; b++) k->square_sums(cut + b, x.at + b * 1024, b + 1 < blocks ? 1024 : n - b * 1024);
    for (size_t b = 0; b <= MOST_BLOCKS; b++) {
        if (isnan(expected[b])) {
            assert_true(isnan(got[b]) && isnan(cut[b]));
            continue;
        }
        assert_memory_equal(&got[b], &expected[b], sizeof *got);
        assert_memory_equal(&cut[b], &expected[b], sizeof *got);
    }
    grid_free(&x);
}

static void check_optim(const ls_optim_kernels *k) {
    for (size_t i = 0; i < N_SIZES; i++)
        for (int of = PLAIN; of <= WILD; of++) {
            for (size_t p = 0; p < N_PARTS; p++) {
                check_adamw(k, sizes[i], (kind)of, parts[p], p % 2);
                for (int mode = 0; mode < 3; mode++) check_sgd(k, sizes[i], (kind)of, parts[p], mode);
            }
            check_scale(k, sizes[i], (kind)of);
            check_squares(k, sizes[i], (kind)of);
        }
    static const size_t lengths[] = {1023, 1024, 1025, 2048, 5000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int of = PLAIN; of <= WILD; of++) check_squares(k, lengths[i], (kind)of);
}

static void test_optim(void **state) {
    (void)state;
    CHECK_EVERY_ISA(optim, check_optim);
}

/* What the contract says in numbers: a moment below 2^−126 becomes +0, 2^−126 itself stays, and so does NaN. */
static void check_small_moments(const ls_optim_kernels *k) {
    const ls_update_step step = {.rule = LS_OPTIMIZER_ADAMW,
                                 .factor = 1,
                                 .beta1 = 0.5f,
                                 .beta1_rest = 0.5f,
                                 .beta2 = 0.5f,
                                 .beta2_rest = 0.5f,
                                 .rate = 1e-3f,
                                 .root = 1,
                                 .epsilon = 1e-8f,
                                 .decay = 1};
    float w[3] = {1, 1, 1}, m[3] = {-0x1p-126f, -0x1p-125f, NAN}, v[3] = {0x1p-126f, 0x1p-125f, 1};
    const float g[3] = {0, 0, 0};
    k->update(
        &(ls_update_piece){
            .w = w, .moment = {m, v}, .copy = NULL, .copy_dtype = LS_BF16, .g = g, .step = &step, .n = 3},
        0, 3);
    assert_int_equal(bits_of(m[0]), 0);
    assert_int_equal(bits_of(v[0]), 0);
    assert_true(w[0] == 1.0f);
    assert_true(m[1] == -0x1p-126f && v[1] == 0x1p-126f);
    assert_true(isnan(m[2]) && isnan(w[2]));
}

static void test_small_moments(void **state) {
    (void)state;
    CHECK_EVERY_ISA(optim, check_small_moments);
}

/* ---- conversions ------------------------------------------------------------------------------------------------- */

enum { ALL_HALVES = 65536 };

static void check_to_f32(const ls_convert_kernels *k) {
    static uint16_t in[ALL_HALVES];
    static float bf16[ALL_HALVES + 1], f16[ALL_HALVES + 1], loose[2][ALL_HALVES + 1];
    for (uint32_t i = 0; i < ALL_HALVES; i++) in[i] = (uint16_t)i;
    bf16[ALL_HALVES] = f16[ALL_HALVES] = 3.0f;
    /* An odd cut: vectors and ends at other places. */
    k->bf16_to_f32(bf16, in, 1237);
    k->bf16_to_f32(bf16 + 1237, in + 1237, ALL_HALVES - 1237);
    k->f16_to_f32(f16, in, 1237);
    k->f16_to_f32(f16 + 1237, in + 1237, ALL_HALVES - 1237);
    k->widen_bf16(loose[0], in, 1237);
    k->widen_bf16(loose[0] + 1237, in + 1237, ALL_HALVES - 1237);
    k->widen_f16(loose[1], in, 1237);
    k->widen_f16(loose[1] + 1237, in + 1237, ALL_HALVES - 1237);
    for (uint32_t i = 0; i < ALL_HALVES; i++) {
        assert_true(bits_of(loose[0][i]) == bits_of(bf16[i]) || (isnan(bf16[i]) && isnan(loose[0][i])));
        assert_true(bits_of(loose[1][i]) == bits_of(f16[i]) || (isnan(f16[i]) && isnan(loose[1][i])));
        assert_int_equal(bits_of(bf16[i]), (i & 0x7FFF) > 0x7F80 ? 0x7FC00000u : i << 16);
        if ((i & 0x7FFF) > 0x7C00) {
            assert_int_equal(bits_of(f16[i]), 0x7FC00000u);
        } else if ((i & 0x7FFF) == 0x7C00) {
            assert_int_equal(bits_of(f16[i]), i >> 15 ? 0xFF800000u : 0x7F800000u);
        } else {
            assert_true((double)f16[i] == contract_f16_value(in[i]));
            assert_int_equal(bits_of(f16[i]) >> 31, i >> 15);
        }
    }
    assert_true(bf16[ALL_HALVES] == 3.0f && f16[ALL_HALVES] == 3.0f);
}

/* Every half, and around the middle between it and the next one. 65504 is the largest, and its next would be 65536. */
static void check_to_f16(const ls_convert_kernels *k) {
    for (uint32_t sign = 0; sign < 2; sign++)
        for (uint32_t h = 0; h < 0x7C00; h++) {
            double here = contract_f16_value((uint16_t)h),
                   next = h == 0x7BFF ? 65536 : contract_f16_value((uint16_t)(h + 1));
            float middle = (float)((here + next) / 2);
            float in[4] = {(float)here, nextafterf(middle, 0.0f), middle, nextafterf(middle, INFINITY)};
            uint16_t out[5] = {0, 0, 0, 0, 0x1234};
            if (sign)
                for (int i = 0; i < 4; i++) in[i] = -in[i];
            k->f32_to_f16(out, in, 4);
            uint32_t s = sign << 15;
            assert_int_equal(out[0], s | h);
            assert_int_equal(out[1], s | h);
            assert_int_equal(out[2], s | (h + (h & 1)));
            assert_int_equal(out[3], s | (h + 1));
            assert_int_equal(out[4], 0x1234);
        }
    const float in[20] = {NAN, -NAN, INFINITY, -INFINITY, 1e38f, -1e38f, 0x1p-149f, -0x1p-149f, 0.0f, -0.0f};
    const uint16_t expected[20] = {0x7E00, 0x7E00, 0x7C00, 0xFC00, 0x7C00, 0xFC00, 0, 0x8000, 0, 0x8000};
    uint16_t out[20];
    k->f32_to_f16(out, in, 20);
    assert_memory_equal(out, expected, sizeof out);
}

static void check_to_bf16(const ls_convert_kernels *k) {
    enum { N = 4099 };
    static float in[N];
    static uint16_t out[N + 1];
    for (uint32_t turn = 0; turn < 40; turn++) {
        for (uint32_t i = 0; i < N; i++) {
            /* All exponents and signs; the low half often at, or next to, the middle. */
            uint32_t bits = (turn * N + i) * 2654435761u;
            if (i % 3 == 0) bits = (bits & 0xFFFF0000u) | (0x8000u + turn % 3 - 1);
            memcpy(&in[i], &bits, sizeof bits);
        }
        size_t n = N - turn;
        out[n] = 0x1234;
        k->f32_to_bf16(out, in, n);
        for (size_t i = 0; i < n; i++) assert_int_equal(out[i], contract_bf16(in[i]));
        assert_int_equal(out[n], 0x1234);
    }
}

static void check_convert(const ls_convert_kernels *k) {
    check_to_f32(k);
    check_to_f16(k);
    check_to_bf16(k);
}

static void test_convert(void **state) {
    (void)state;
    CHECK_EVERY_ISA(convert, check_convert);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optim),
        cmocka_unit_test(test_small_moments),
        cmocka_unit_test(test_convert),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
