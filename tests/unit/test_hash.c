/* test_hash.c: XXH3 by known answers, one value for NaN, and no dependence on blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/alive.h"
#include "base/hash.h"

static void check_text(ls_hash128 hash, const char *expected) {
    char text[LS_HASH_TEXT_BYTES];
    ls_hash_text(hash, text);
    assert_string_equal(text, expected);
}

static float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* As xxhsum -H2 prints them. */
static void bytes_have_the_known_hashes(void **state) {
    (void)state;
    check_text(ls_hash_bytes("", 0), "99aa06d3014798d86001c324468d497f");
    check_text(ls_hash_bytes("a", 1), "a96faf705af16834e6c632b61e964e1f");
    check_text(ls_hash_bytes("abc", 3), "06b05ab6733a618578af5f94892f3950");
}

/* Pieces end where the hash has no block that does. */
static void what_is_long_hashes_as_the_whole(void **state) {
    (void)state;
    static const size_t lengths[] = {0, 1, LS_ALIVE_BYTES - 1, LS_ALIVE_BYTES, 2 * (size_t)LS_ALIVE_BYTES + 77};
    const size_t most = 2 * (size_t)LS_ALIVE_BYTES + 77;
    unsigned char *bytes = malloc(most);
    assert_non_null(bytes);
    for (size_t i = 0; i < most; i++) bytes[i] = (unsigned char)(i * 131 >> 7);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint64_t before = atomic_load(&ls_alive_count);
        assert_true(ls_hash_equal(ls_hash_long(bytes, lengths[i]), ls_hash_bytes(bytes, lengths[i])));
        assert_int_equal(atomic_load(&ls_alive_count) - before, (lengths[i] + LS_ALIVE_BYTES - 1) / LS_ALIVE_BYTES);
    }
    free(bytes);
}

static void text_keeps_leading_zeros(void **state) {
    (void)state;
    check_text((ls_hash128){.lo = 0x1, .hi = 0xAB}, "00000000000000ab0000000000000001");
}

static void f32_hash_is_that_of_its_bytes(void **state) {
    (void)state;
    static float values[3000];
    static unsigned char bytes[sizeof values];
    for (size_t i = 0; i < 3000; i++) {
        values[i] = (float)i * 0.37f - 500.0f;
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        for (int b = 0; b < 4; b++) bytes[4 * i + (size_t)b] = (unsigned char)(bits >> 8 * b);
    }
    static const size_t lengths[] = {0, 1, 3, 60, 61, 1023, 1024, 1025, 2048, 3000};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        ls_hash128 a = ls_hash_f32(values, lengths[i]), b = ls_hash_bytes(bytes, 4 * lengths[i]);
        assert_true(ls_hash_equal(a, b));
    }
}

static void every_nan_is_one_value(void **state) {
    (void)state;
    static float values[1500];
    values[1200] = from_bits(0x7FC00000u);
    ls_hash128 quiet = ls_hash_f32(values, 1500);
    assert_true(ls_hash_equal(quiet, ls_hash_bytes(values, sizeof values)));
    static const uint32_t nans[] = {0x7F800001u, 0x7FFFFFFFu, 0xFFC00000u, 0xFF800001u, 0x7FC12345u};
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        memcpy(&values[1200], &nans[i], sizeof nans[i]);
        assert_true(ls_hash_equal(quiet, ls_hash_f32(values, 1500)));
    }
    static const uint32_t others[] = {0x7F800000u, 0xFF800000u, 0x00000000u, 0x80000000u, 0x00000001u};
    ls_hash128 seen[5];
    for (size_t i = 0; i < 5; i++) {
        memcpy(&values[1200], &others[i], sizeof others[i]);
        seen[i] = ls_hash_f32(values, 1500);
        assert_false(ls_hash_equal(quiet, seen[i]));
        for (size_t j = 0; j < i; j++) assert_false(ls_hash_equal(seen[i], seen[j]));
    }
}

static void one_bit_changes_the_hash(void **state) {
    (void)state;
    float values[100] = {0};
    ls_hash128 before = ls_hash_f32(values, 100);
    values[99] = from_bits(1);
    ls_hash128 after = ls_hash_f32(values, 100);
    assert_true(before.lo != after.lo && before.hi != after.hi);
    assert_false(ls_hash_equal(before, (ls_hash128){.lo = before.lo, .hi = ~before.hi}));
    assert_false(ls_hash_equal(before, (ls_hash128){.lo = ~before.lo, .hi = before.hi}));
}

static void combining_hashes_their_canonical_bytes(void **state) {
    (void)state;
    enum { N = 150 };
    static ls_hash128 list[N];
    static unsigned char bytes[16 * N];
    for (size_t i = 0; i < N; i++) {
        list[i] = ls_hash_bytes(&i, 1 + i % 8);
        for (int b = 0; b < 8; b++) {
            bytes[16 * i + (size_t)b] = (unsigned char)(list[i].hi >> (56 - 8 * b));
            bytes[16 * i + 8 + (size_t)b] = (unsigned char)(list[i].lo >> (56 - 8 * b));
        }
    }
    static const size_t counts[] = {0, 1, 2, 63, 64, 65, N};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        assert_true(ls_hash_equal(ls_hash_combine(list, counts[i]), ls_hash_bytes(bytes, 16 * counts[i])));
    ls_hash128 swapped[2] = {list[1], list[0]};
    assert_false(ls_hash_equal(ls_hash_combine(list, 2), ls_hash_combine(swapped, 2)));
}

static void pieces_hash_as_the_whole(void **state) {
    (void)state;
    static unsigned char bytes[5000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 7 + i / 251);
    ls_hash_stream *stream = ls_hash_stream_create();
    assert_non_null(stream);
    for (size_t step = 1; step <= sizeof bytes; step = step * 3 + 1) {
        ls_hash_stream_restart(stream);
        for (size_t at = 0; at < sizeof bytes; at += step) {
            assert_true(ls_hash_equal(ls_hash_stream_value(stream), ls_hash_bytes(bytes, at)));
            ls_hash_stream_add(stream, bytes + at, sizeof bytes - at < step ? sizeof bytes - at : step);
        }
        assert_true(ls_hash_equal(ls_hash_stream_value(stream), ls_hash_bytes(bytes, sizeof bytes)));
    }
    ls_hash_stream_destroy(stream);
    ls_hash_stream_destroy(NULL);
}

/* Longer than a piece that is read at a time. */
static void a_file_hashes_as_its_bytes(void **state) {
    (void)state;
    enum { BYTES = (1 << 20) + 12345 };
    char path[] = "/tmp/test-hash-XXXXXX";
    unsigned char *data = calloc(BYTES, 1);
    uint64_t bytes = 0;
    ls_hash128 hash;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && data != NULL);
    for (size_t i = 0; i < BYTES; i++) data[i] = (unsigned char)(i % 253);
    assert_int_equal(write(fd, data, BYTES), BYTES);
    assert_int_equal(close(fd), 0);
    assert_int_equal(ls_hash_file(path, &hash, &bytes), LS_OK);
    assert_true(ls_hash_equal(hash, ls_hash_bytes(data, BYTES)));
    assert_true(bytes == BYTES);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ls_hash_file(path, &hash, &bytes), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), path));
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_long_hashes_as_the_whole),
        cmocka_unit_test(bytes_have_the_known_hashes),
        cmocka_unit_test(text_keeps_leading_zeros),
        cmocka_unit_test(f32_hash_is_that_of_its_bytes),
        cmocka_unit_test(every_nan_is_one_value),
        cmocka_unit_test(one_bit_changes_the_hash),
        cmocka_unit_test(combining_hashes_their_canonical_bytes),
        cmocka_unit_test(pieces_hash_as_the_whole),
        cmocka_unit_test(a_file_hashes_as_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
