/* test_ops_count.c: counting, finding and hashing, against roundings of the test's own; on every number of threads.
 * Results lie on the device, `check` compares them with the rest. */
#include "numerics/float16.h"

#include "halves.h"

/* The largest finite number of a type over 16. */
static float upper_end(ls_dtype type) {
    return type == LS_F32 ? 0x1.FFFFFEp123f : (float)(format_of(type).largest / 16);
}

static bool rounds_to_zero(float x, ls_dtype type) {
    return type == LS_F32 ? x == 0 : (round_one(x, type) & 0x7FFF) == 0;
}

static void count_plainly(int64_t out[LS_COUNTS], const float *x, float scale, ls_dtype type, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float p = x[i] * scale;
        out[LS_COUNT_FLUSHED] += x[i] != 0 && rounds_to_zero(p, type);
        out[LS_COUNT_HIGH] += fabsf(p) >= upper_end(type);
        out[LS_COUNT_NONZERO] += x[i] != 0;
        out[LS_COUNT_BAD] += !isfinite(x[i]);
    }
}

/* Numbers of every size, and the limits themselves with their neighbours. */
static float some_number(size_t i) {
    static const float limits[] = {0x1p-134f,       0x1p-25f, 0x1p-149f, 0x1.FEp123f, 4094.0f,
                                   0x1.FFFFFEp123f, INFINITY, NAN,       0.0f,        1.0f};
    uint32_t bits = ls_rng_u32(ls_rng_key_make(17, 0, 0), i);
    float x;
    memcpy(&x, &bits, sizeof x);
    if (i % 3 != 0) return x;
    x = limits[i / 3 % (sizeof limits / sizeof *limits)];
    if (i % 9 == 3) x = nextafterf(x, 0.0f);
    if (i % 9 == 6) x = nextafterf(x, INFINITY);
    return bits & 1 ? -x : x;
}

static int64_t *words_of(float *p) { return (int64_t *)(void *)p; }

/* Such numbers on the device and plain. */
static twin make_words(const int64_t *words, size_t count) {
    twin t = make(2 * count);
    memcpy(t.ref, words, count * sizeof *words);
    ok(ls_device_copy_in(device, t.dev, words, count * sizeof *words));
    return t;
}

static void check_count(size_t n) {
    static const float scales[] = {1.0f, 0x1p-16f, 1024.0f, 0x1p-140f};
    static const ls_dtype types[] = {LS_F32, LS_BF16, LS_F16};
    twin x = make(n);
    for (size_t i = 0; i < n; i++) x.ref[i] = some_number(i);
    ok(ls_device_copy_in(device, x.dev, x.ref, n * sizeof(float)));
    for (int s = 0; s < 4; s++)
        for (int t = 0; t < 3; t++) {
            twin out = make_words((const int64_t[LS_COUNTS]){7, -8, 9, 1LL << 40}, LS_COUNTS);
            ok(ops->count(device, &(ls_count_call){words_of(out.dev), x.dev, scales[s], types[t], n}));
            count_plainly(words_of(out.ref), x.ref, scales[s], types[t], n);
        }
    check("count", n, 0);
}

/* Bad numbers at the ends and inside; what is found is the first, whichever thread finds the others. */
static void check_find(size_t n) {
    static const ls_dtype types[] = {LS_F32, LS_BF16, LS_F16};
    static const uint32_t bad[3][4] = {{0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF},
                                       {0x7F80, 0xFF80, 0x7F81, 0xFFFF},
                                       {0x7C00, 0xFC00, 0x7C01, 0xFFFF}};
    static const uint32_t most[3] = {0xFF7FFFFF, 0xFF7F, 0xFBFF};
    for (int t = 0; t < 3; t++)
        for (size_t k = 0; k < 4; k++) {
            twin x = make(n), out = make_words((const int64_t[4]){1, 2, 3, 4}, 4);
            size_t width = types[t] == LS_F32 ? 4 : 2, places[3] = {n - 1, n / 2, n / 3};
            uint64_t *index = (uint64_t *)(void *)out.dev, *want = (uint64_t *)(void *)out.ref;
            unsigned char *bytes = (unsigned char *)(void *)x.ref;
            for (size_t i = 0; i < n; i++) memcpy(bytes + i * width, &most[t], width);
            ok(ls_device_copy_in(device, x.dev, x.ref, n * width));
            ok(ops->find_bad(device, &(ls_find_bad_call){x.dev, types[t], n, index}));
            want[0] = LS_ALL_FINITE;
            for (int p = 0; p < 3; p++) {
                memcpy(bytes + places[p] * width, &bad[t][(k + (size_t)p) % 4], width);
                ok(ls_device_copy_in(device, x.dev, x.ref, n * width));
                ok(ops->find_bad(device, &(ls_find_bad_call){x.dev, types[t], n, index + 1 + p}));
                want[1 + p] = places[p];
            }
            check("find", n, (size_t)t);
        }
}

/* ---- differences, hashes ----------------------------------------------------------------------------------------- */

static void check_difference(size_t n) {
    twin before = make(n), after = make(n), by = make(n), out = make_words((const int64_t[1]){5}, 1);
    for (size_t i = 0; i < n; i++) {
        if (i % 3 == 0) after.ref[i] = before.ref[i];
        if (i % 2 == 0) by.ref[i] = i % 4 ? 0.0f : -0.0f;
        words_of(out.ref)[0] += i % 3 == 0 && i % 2 != 0;
    }
    ok(ls_device_copy_in(device, after.dev, after.ref, n * sizeof(float)));
    ok(ls_device_copy_in(device, by.dev, by.ref, n * sizeof(float)));
    ok(ops->difference(device, &(ls_difference_call){before.dev, after.dev, by.dev, words_of(out.dev), n}));
    for (size_t i = 0; i < n; i++) before.ref[i] = after.ref[i] - before.ref[i];
    check("difference", n, 0);
}

/* Of what begins `shift` bytes behind a multiple of 64. */
static void check_hash(size_t bytes, size_t shift) {
    enum { PIECE = 1 << 18, PIECES_MAX = 8 };
    twin x = make((bytes + shift) / sizeof(float) + 1);
    const char *host = (const char *)x.ref + shift;
    ls_hash128 pieces[PIECES_MAX], want;
    twin out = make_words((const int64_t[2]){1, 2}, 2);
    size_t count = 0;
    for (size_t at = 0; at < bytes; at += PIECE)
        pieces[count++] = ls_hash_bytes(host + at, bytes - at < PIECE ? bytes - at : PIECE);
    ok(ops->hash(device, &(ls_hash_call){(ls_hash128 *)(void *)out.dev, (const char *)x.dev + shift, bytes}));
    want = ls_hash_combine(pieces, count);
    memcpy(out.ref, &want, sizeof want);
    check("hash", bytes, shift);
}

/* Numbers of every kind, of which every NaN is one NaN. */
static void check_hash_blocks(size_t n, ls_dtype type) {
    size_t blocks = (n + LS_SQUARE_BLOCK - 1) / LS_SQUARE_BLOCK;
    twin x = make_shifted(n + 1, 1), out = make(4 * blocks);
    float wide[LS_SQUARE_BLOCK];
    for (size_t i = 0; i < n; i++) x.ref[i] = some_number(i);
    if (type != LS_F32)
        for (size_t i = 0; i < n; i++) halves_of(x.ref)[i] = (uint16_t)ls_rng_u32(ls_rng_key_make(18, 0, 0), i);
    ok(ls_device_copy_in(device, x.dev, x.ref, (n + 1) * sizeof(float)));
    ok(ops->hash_blocks(device, &(ls_hash_blocks_call){(ls_hash128 *)(void *)out.dev, x.dev, type, n}));
    for (size_t b = 0; b < blocks; b++) {
        size_t first = b * LS_SQUARE_BLOCK, count = n - first < LS_SQUARE_BLOCK ? n - first : LS_SQUARE_BLOCK;
        for (size_t i = 0; i < count; i++)
            wide[i] = type == LS_F32    ? x.ref[first + i]
                      : type == LS_BF16 ? ls_bf16_to_f32(halves_of(x.ref)[first + i])
                                        : ls_f16_to_f32(halves_of(x.ref)[first + i]);
        ((ls_hash128 *)(void *)out.ref)[b] = ls_hash_f32(wide, count);
    }
    check("hash blocks", n, (size_t)type);
}

static void all_hashes(void) {
    static const size_t sizes[] = {0,
                                   1,
                                   16,
                                   240,
                                   241,
                                   255,
                                   256,
                                   1023,
                                   1024,
                                   1025,
                                   1088,
                                   1 << 18,
                                   (1 << 18) + 1,
                                   (1 << 18) + 7,
                                   (1 << 18) + 241,
                                   3 * (1 << 18) + 5000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t shift = 0; shift < 8; shift += 2) check_hash(sizes[i], shift);
    for (size_t bytes = 1; bytes < 4096; bytes += bytes < 300 ? 1 : 61) check_hash(bytes, bytes % 2);
    static const ls_dtype types[] = {LS_F32, LS_BF16, LS_F16};
    static const size_t elems[] = {1, 2, 4, 31, 60, 61, 255, 1023, 1024, 1025, 2 * 1024 + 59, 9 * 1024 + 700};
    for (size_t i = 0; i < sizeof elems / sizeof *elems; i++)
        for (int t = 0; t < 3; t++) check_hash_blocks(elems[i], types[t]);
}

static void test_hashes(void **state) {
    (void)state;
    on_every_device(all_hashes);
}

static void all_counts(void) {
    static const size_t sizes[] = {1, 17, 16384, 70001};
    for (int i = 0; i < 4; i++) {
        check_count(sizes[i]);
        check_find(sizes[i]);
        check_difference(sizes[i]);
    }
}

static void test_counts(void **state) {
    (void)state;
    on_every_device(all_counts);
}

static void check_limits(void) {
    float x = 1;
    twin counts = make_words((const int64_t[LS_COUNTS]){0}, LS_COUNTS), index = make_words((const int64_t[1]){5}, 1);
    int64_t *out = words_of(counts.dev);
    uint64_t *at = (uint64_t *)(void *)index.dev;
    assert_int_equal(ops->count(device, &(ls_count_call){out, &x, 1, LS_I64, 1}), LS_ERR_INPUT);
    assert_int_equal(ops->find_bad(device, &(ls_find_bad_call){&x, LS_U8, 1, at}), LS_ERR_INPUT);
    assert_int_equal(ops->hash_blocks(device, &(ls_hash_blocks_call){NULL, &x, LS_I64, 1}), LS_ERR_INPUT);
    ok(ops->count(device, &(ls_count_call){out, NULL, 1, LS_F16, 0}));
    ok(ops->find_bad(device, &(ls_find_bad_call){NULL, LS_F16, 0, at}));
    words_of(index.ref)[0] = -1;
    check("nothing", 0, 0);
}

static void test_limits(void **state) {
    (void)state;
    ok(ls_device_open_cpu(2, NULL, NULL, &device));
    ops = device->ops;
    check_limits();
    ls_device_destroy(device);
    on_cuda(check_limits);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts), cmocka_unit_test(test_hashes),
                                       cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
