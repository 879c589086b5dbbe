/* simd_checks.h: what every simd header must do, lane by lane, against plain scalar arithmetic.
 *
 * Included by one test program per ISA, after its simd header: the headers share their names, so one program cannot
 * hold two. References are made from the meaning of an operation, not from the code in portable.h: rounding to 16 bits,
 * for instance, is done with exact doubles. */
#ifndef LS_TESTS_SIMD_CHECKS_H
#define LS_TESTS_SIMD_CHECKS_H

static uint64_t simd_seed;

static uint32_t simd_random(void) {
    simd_seed = simd_seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(simd_seed >> 32);
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static const uint32_t simd_special[] = {
    0x00000000,
    0x80000000,
    0x00000001,
    0x80000001,
    0x007FFFFF,
    0x00800000,
    0x3F800000,
    0xBF800000,
    0x7F7FFFFF,
    0xFF7FFFFF,
    0x7F800000,
    0xFF800000,
    0x7FC00000,
    0xFFC00000,
    0x7F800001,
    0x7FFFFFFF,
    0x3F7FFFFF,
    0x4B000000,
    /* around the borders of f16 and ties of both 16-bit formats */
    0x477FE000,
    0x477FEFFF,
    0x477FF000,
    0x477FF001,
    0x38800000,
    0x387FFFFF,
    0x387FE000,
    0x33000000,
    0x33000001,
    0x32FFFFFF,
    0x33800000,
    0x33C00000,
    0x3F801000,
    0x3F803000,
    0x3F808000,
    0x3F818000,
    0x7F7F8000,
    0x7F7F7FFF,
};
enum { SIMD_SPECIALS = sizeof simd_special / sizeof *simd_special, SIMD_ROUNDS = 3000 };

/* Some special values, some of moderate size, some of any bits. */
static void fill_lanes(float x[16]) {
    for (int i = 0; i < 16; i++) {
        uint32_t kind = simd_random() % 4, bits = simd_random();
        if (kind == 0) bits = simd_special[bits % SIMD_SPECIALS];
        if (kind == 1) bits = (bits & 0x80FFFFFFu) | 0x3F000000u;
        x[i] = float_of(bits);
    }
}

/* The payload of a computed NaN is free. */
static void assert_number(float got, float expected, const char *what) {
    if (got != got && expected != expected) return;
    if (bits_of(got) == bits_of(expected)) return;
    fail_msg("%s: %08x, expected %08x", what, bits_of(got), bits_of(expected));
}
static void assert_bits(uint32_t got, uint32_t expected, const char *what) {
    if (got != expected) fail_msg("%s: %08x, expected %08x", what, got, expected);
}

#define CHECK_FLOATS(call, expected)                                                                                   \
    do {                                                                                                               \
        v16_store(out, call);                                                                                          \
        for (int i = 0; i < 16; i++) assert_number(out[i], expected, #call);                                           \
    } while (0)
#define CHECK_MASK(call, expected)                                                                                     \
    do {                                                                                                               \
        v16_store(out, v16_select(call, v16_set1(1.0f), v16_set1(2.0f)));                                              \
        for (int i = 0; i < 16; i++) assert_number(out[i], (expected) ? 1.0f : 2.0f, #call);                           \
    } while (0)
#define CHECK_INTS(call, expected)                                                                                     \
    do {                                                                                                               \
        v16_store(out, v16_from_bits(call));                                                                           \
        for (int i = 0; i < 16; i++) assert_bits(bits_of(out[i]), (uint32_t)(expected), #call);                        \
    } while (0)

static void check_arithmetic(void **state) {
    (void)state;
    float a[16], b[16], c[16], out[16];
    for (int round = 0; round < SIMD_ROUNDS; round++) {
        fill_lanes(a), fill_lanes(b), fill_lanes(c);
        v16 x = v16_load(a), y = v16_load(b), z = v16_load(c);
        CHECK_FLOATS(v16_set1(a[3]), a[3]);
        CHECK_FLOATS(v16_add(x, y), a[i] + b[i]);
        CHECK_FLOATS(v16_sub(x, y), a[i] - b[i]);
        CHECK_FLOATS(v16_mul(x, y), a[i] * b[i]);
        CHECK_FLOATS(v16_div(x, y), a[i] / b[i]);
        CHECK_FLOATS(v16_fma(x, y, z), fmaf(a[i], b[i], c[i]));
        CHECK_FLOATS(v16_fnma(x, y, z), fmaf(-a[i], b[i], c[i]));
        CHECK_FLOATS(v16_sqrt(x), sqrtf(a[i]));
        CHECK_INTS(v16_bits(v16_neg(x)), bits_of(a[i]) ^ 0x80000000u);
        CHECK_INTS(v16_bits(v16_abs(x)), bits_of(a[i]) & 0x7FFFFFFFu);
        assert_number(v16_first(x), a[0], "first");
    }
}

static void check_masks(void **state) {
    (void)state;
    float a[16], b[16], out[16];
    for (int round = 0; round < SIMD_ROUNDS; round++) {
        fill_lanes(a), fill_lanes(b);
        if (round % 3 == 0) b[round % 16] = a[round % 16];
        v16 x = v16_load(a), y = v16_load(b);
        CHECK_MASK(v16_lt(x, y), a[i] < b[i]);
        CHECK_MASK(v16_le(x, y), a[i] <= b[i]);
        CHECK_MASK(v16_gt(x, y), a[i] > b[i]);
        CHECK_MASK(v16_eq(x, y), a[i] == b[i]);
        CHECK_MASK(v16_isnan(x), (bits_of(a[i]) & 0x7FFFFFFFu) > 0x7F800000u);
        CHECK_MASK(v16m_and(v16_lt(x, y), v16_gt(x, v16_set1(0.0f))), a[i] < b[i] && a[i] > 0.0f);
        CHECK_MASK(v16m_or(v16_lt(x, y), v16_gt(x, v16_set1(0.0f))), a[i] < b[i] || a[i] > 0.0f);
        CHECK_MASK(v16m_not(v16_le(x, y)), !(a[i] <= b[i]));
        CHECK_INTS(v16_bits(v16_select(v16_lt(x, y), x, y)), bits_of(a[i] < b[i] ? a[i] : b[i]));
        int any = 0;
        for (int i = 0; i < 16; i++) any |= a[i] == b[i];
        assert_int_equal(v16m_any(v16_eq(x, y)) != 0, any);
    }
}

/* Order of the bits as integers: NaN above all, and -0 below +0. */
static int64_t rank_of(float value) {
    uint32_t bits = bits_of(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return INT64_MAX;
    return bits >> 31 ? -(int64_t)(bits & 0x7FFFFFFFu) - 1 : (int64_t)bits;
}
static uint32_t larger(float a, float b) {
    float best = rank_of(a) >= rank_of(b) ? a : b;
    return best != best ? 0x7FC00000u : bits_of(best);
}

static void check_across(void **state) {
    (void)state;
    float a[16], b[16], out[16];
    for (int round = 0; round < SIMD_ROUNDS; round++) {
        fill_lanes(a), fill_lanes(b);
        for (int i = 0; i < 16 && round % 2; i++)
            if (a[i] != a[i]) a[i] = -0.0f;
        v16 x = v16_load(a), y = v16_load(b);
        CHECK_INTS(v16_bits(v16_max(x, y)), larger(a[i], b[i]));
        CHECK_INTS(v16_bits(v16_max(y, x)), larger(a[i], b[i]));
        float best = a[0];
        for (int i = 1; i < 16; i++) best = float_of(larger(best, a[i]));
        assert_bits(bits_of(v16_hmax(x)), larger(best, best), "hmax");
        float f[16];
        double d[16];
        for (int i = 0; i < 16; i++) d[i] = (double)(f[i] = a[i]) * (double)b[i] + 0.25;
        double wide[16];
        v16d fused = v16d_fma(v16d_widen(x), v16d_widen(y), v16d_set1(0.25));
        memcpy(wide, &fused, sizeof wide);
        for (int i = 0; i < 16; i++) /* the product of two floats is exact in double */
            assert_true(wide[i] == d[i] || (wide[i] != wide[i] && d[i] != d[i]));
        double sum = v16d_sum(v16d_fma(v16d_widen(x), v16d_widen(y), v16d_set1(0.25)));
        for (int step = 8; step > 0; step /= 2)
            for (int i = 0; i < step; i++) f[i] += f[i + step], d[i] += d[i + step];
        assert_number(v16_sum(x), f[0], "sum");
        assert_true(sum == d[0] || (sum != sum && d[0] != d[0]));
    }
}

static void check_doubles(void **state) {
    (void)state;
    float a[16], b[16], out[16];
    double wide[16];
    for (int round = 0; round < SIMD_ROUNDS; round++) {
        fill_lanes(a), fill_lanes(b);
        v16d x = v16d_widen(v16_load(a)), y = v16d_widen(v16_load(b));
        CHECK_FLOATS(v16d_narrow(v16d_mul(x, y)), (float)((double)a[i] * (double)b[i]));
        CHECK_FLOATS(v16d_narrow(v16d_sub(x, y)), (float)((double)a[i] - (double)b[i]));
        CHECK_FLOATS(v16d_narrow(v16d_add(x, v16d_set1(0.0))), a[i] + 0.0f);
        v16d quotient = v16d_div(x, y);
        memcpy(wide, &quotient, sizeof wide);
        for (int i = 0; i < 16; i++) {
            double expected = (double)a[i] / (double)b[i];
            assert_true(wide[i] == expected || (wide[i] != wide[i] && expected != expected));
        }
    }
}

static void check_integers(void **state) {
    (void)state;
    float a[16], b[16], out[16];
    for (int round = 0; round < SIMD_ROUNDS; round++) {
        uint32_t p[16], q[16];
        for (int i = 0; i < 16; i++) {
            p[i] = simd_random() >> simd_random() % 32;
            q[i] = simd_random() % 3 ? simd_random() : p[i];
            a[i] = float_of(p[i]), b[i] = float_of(q[i]);
        }
        v16i x = v16_bits(v16_load(a)), y = v16_bits(v16_load(b));
        CHECK_INTS(v16i_set1(-7), -7);
        CHECK_INTS(v16i_add(x, y), p[i] + q[i]);
        CHECK_INTS(v16i_sub(x, y), p[i] - q[i]);
        CHECK_INTS(v16i_and(x, y), p[i] & q[i]);
        CHECK_INTS(v16i_or(x, y), p[i] | q[i]);
        CHECK_INTS(v16i_xor(x, y), p[i] ^ q[i]);
        CHECK_INTS(v16i_shl(y, 23), q[i] << 23);
        CHECK_INTS(v16i_shr(y, 9), q[i] >> 9);
        CHECK_INTS(v16i_sar(y, 9), (q[i] >> 9) | (q[i] >> 31 ? 0xFF800000u : 0));
        CHECK_MASK(v16i_eq(x, y), p[i] == q[i]);
        CHECK_MASK(v16i_gt(x, y), (int64_t)(p[i] ^ 0x80000000u) > (int64_t)(q[i] ^ 0x80000000u));
        CHECK_INTS(v16i_select(v16i_eq(x, y), v16i_set1(5), x), p[i] == q[i] ? 5 : p[i]);
        int32_t whole[16];
        for (int i = 0; i < 16; i++) {
            whole[i] = (int32_t)(q[i] >> 8) - (1 << 23);
            a[i] = (float)whole[i] * 0.25f; /* halves among them */
        }
        CHECK_INTS(v16_to_i32(v16_load(a)), (int32_t)nearbyint(whole[i] * 0.25));
        CHECK_FLOATS(v16_from_i32(y), (float)(double)(q[i] >> 31 ? (int64_t)q[i] - (INT64_C(1) << 32) : q[i]));
    }
}

/* x rounded to a multiple of its ulp in a format with `digits` bits and smallest normal exponent `least`, exactly. */
static double rounded_to(double x, int digits, int least) {
    int e = 0;
    if (x == 0.0 || isinf(x)) return x;
    frexp(x, &e);
    if (e < least + 1) e = least + 1;
    return ldexp(nearbyint(ldexp(x, digits - e)), e - digits);
}
/* The number that the bits mean. */
static double value_of(uint16_t half, int digits, int least) {
    int mantissa_bits = digits - 1, exponent = (half & 0x7FFF) >> mantissa_bits;
    int mantissa = half & ((1 << mantissa_bits) - 1), last = (0x7FFF >> mantissa_bits);
    double value = exponent == last ? (mantissa ? (double)NAN : (double)INFINITY)
                   : exponent == 0  ? ldexp(mantissa, least - mantissa_bits)
                                    : ldexp(mantissa + (1 << mantissa_bits), exponent - 1 + least - mantissa_bits);
    return half & 0x8000 ? -value : value;
}

static void check_halves_of(int digits, int least, double overflow, uint32_t nan, int bf16) {
    float x[16], back[16];
    uint16_t half[16];
    for (uint32_t h = 0; h < 65536; h += 16) {
        for (uint32_t i = 0; i < 16; i++) half[i] = (uint16_t)(h + i);
        v16_store(x, bf16 ? v16_load_bf16(half) : v16_load_f16(half));
        for (int i = 0; i < 16; i++) {
            double value = value_of(half[i], digits, least);
            assert_bits(bits_of(x[i]), value != value ? 0x7FC00000u : bits_of((float)value), "widening");
        }
    }
    for (int round = 0; round < 20000; round++) {
        fill_lanes(x);
        if (round % 2) /* where f16 has its subnormals and its end */
            for (int i = 0; i < 16; i++)
                x[i] = float_of((bits_of(x[i]) & 0x87FFFFFFu) | (i % 2 ? 0x30000000u : 0x40000000u));
        if (bf16)
            v16_store_bf16(half, v16_load(x)), v16_store(back, v16_load_bf16(half));
        else
            v16_store_f16(half, v16_load(x)), v16_store(back, v16_load_f16(half));
        for (int i = 0; i < 16; i++) {
            double value = rounded_to((double)x[i], digits, least);
            if (value != value) {
                assert_bits(half[i], nan, "NaN to 16 bits");
                continue;
            }
            if (fabs(value) >= overflow) value = copysign((double)INFINITY, value);
            assert_bits(bits_of(back[i]), bits_of((float)value), "narrowing");
        }
    }
}

static void check_halves(void **state) {
    (void)state;
    check_halves_of(8, -126, 0x1p128, 0x7FC0, 1);
    check_halves_of(11, -14, 0x1p16, 0x7E00, 0);
}

static void check_parts(void **state) {
    (void)state;
    for (size_t n = 0; n <= 16; n++) {
        float in[48], out[48], lanes[16];
        uint16_t half[48], put[48];
        for (int i = 0; i < 48; i++) {
            in[i] = (float)(i + 1), out[i] = -1.0f;
            half[i] = (uint16_t)(0x3C00 + i), put[i] = 0xEEEE;
        }
        v16_store(lanes, v16_load_n(in + 17, n, 7.5f));
        for (size_t i = 0; i < 16; i++) assert_number(lanes[i], i < n ? in[17 + i] : 7.5f, "load_n");
        v16_store_n(out + 17, v16_load(in + 3), n);
        for (size_t i = 0; i < 48; i++) assert_number(out[i], i >= 17 && i < 17 + n ? in[i - 14] : -1.0f, "store_n");
        v16_store(lanes, v16_load_bf16_n(half + 5, n));
        for (size_t i = 0; i < 16; i++)
            assert_bits(bits_of(lanes[i]), i < n ? (uint32_t)half[5 + i] << 16 : 0, "load_bf16_n");
        v16_store_bf16_n(put + 9, v16_load_bf16(half + 1), n);
        for (size_t i = 0; i < 48; i++) assert_bits(put[i], i >= 9 && i < 9 + n ? half[i - 8] : 0xEEEE, "store_bf16_n");
        v16_store(lanes, v16_load_f16_n(half + 5, n));
        for (size_t i = 0; i < 16; i++)
            assert_number(lanes[i], i < n ? (float)value_of(half[5 + i], 11, -14) : 0.0f, "load_f16_n");
        for (int i = 0; i < 48; i++) put[i] = 0xEEEE;
        v16_store_f16_n(put + 9, v16_load_f16(half + 1), n);
        for (size_t i = 0; i < 48; i++) assert_bits(put[i], i >= 9 && i < 9 + n ? half[i - 8] : 0xEEEE, "store_f16_n");
    }
}

static const struct CMUnitTest simd_tests[] = {
    cmocka_unit_test(check_arithmetic), cmocka_unit_test(check_masks),    cmocka_unit_test(check_across),
    cmocka_unit_test(check_doubles),    cmocka_unit_test(check_integers), cmocka_unit_test(check_halves),
    cmocka_unit_test(check_parts),
};

#endif
