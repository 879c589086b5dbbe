/* test_kernels.c: every ISA's kernels against plain loops: odd lengths, odd alignments, in place, guard areas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/rng.h"
#include "device/cpu/kernels.h"

enum { MOST = 300, GUARD = 16, ROOM = MOST + 2 * GUARD };

static const size_t lengths[] = {0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 255, 256, 300};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

/* Random bits: subnormals, infinities and both zeros among them; NaN is left out, its payload is not defined by a sum.
 */
static void fill(float *to, uint64_t purpose) {
    ls_rng_key key = ls_rng_key_make(1, (uint32_t)purpose, 0);
    for (size_t i = 0; i < ROOM; i++) {
        uint32_t bits = (uint32_t)ls_rng_u64(key, i);
        if (i % 11 == 3) bits &= 0x807FFFFFu;
        if (i % 13 == 5) bits = bits & 0x80000000u;
        if ((bits & 0x7F800000u) == 0x7F800000u) bits &= 0xBFFFFFFFu;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

static void check_add(const ls_add_kernels *k) {
    float a[ROOM], b[ROOM], out[ROOM], expected[ROOM], second[ROOM];
    for (size_t c = 0; c < N_LENGTHS; c++)
        for (size_t shift = 0; shift < 3; shift++) {
            size_t n = lengths[c] < MOST - shift ? lengths[c] : MOST - shift, at = GUARD + shift;
            fill(a, 2);
            fill(b, 3);
            fill(out, 4);
            memcpy(expected, out, sizeof out);
            for (size_t i = 0; i < n; i++) expected[at + i] = a[at + i] + b[at + i];
            k->add_f32(out + at, a + at, b + at, n);
            assert_memory_equal(out, expected, sizeof out);
            fill(out, 4);
            memcpy(second, out, sizeof out);
            k->add_two_f32(out + at, second + at, a + at, b + at, n);
            assert_memory_equal(out, expected, sizeof out);
            assert_memory_equal(second, expected, sizeof out);
            /* Both outputs are inputs, crosswise. */
            k->add_two_f32(b + at, a + at, a + at, b + at, n);
            assert_memory_equal(a + at, expected + at, n * sizeof(float));
            assert_memory_equal(b + at, expected + at, n * sizeof(float));
        }
}

static void check_integers(const ls_add_kernels *k) {
    uint64_t a[ROOM], b[ROOM], out[ROOM], expected[ROOM];
    ls_rng_key key = ls_rng_key_make(2, 1, 0);
    for (size_t i = 0; i < ROOM; i++) {
        a[i] = ls_rng_u64(key, i);
        b[i] = ls_rng_u64(key, i + ROOM);
        out[i] = expected[i] = i;
    }
    for (size_t c = 0; c < N_LENGTHS; c++) {
        for (size_t i = 0; i < lengths[c]; i++) expected[GUARD + i] = a[GUARD + i] + b[GUARD + i];
        k->add_i64(out + GUARD, a + GUARD, b + GUARD, lengths[c]);
        assert_memory_equal(out, expected, sizeof out);
    }
}

static void check_widen(const ls_add_kernels *k) {
    static uint16_t in[65536];
    static float out[65536 + 1];
    for (uint32_t i = 0; i < 65536; i++) in[i] = (uint16_t)i;
    out[65536] = 3.0f;
    k->widen_bf16(out, in, 65536);
    for (uint32_t i = 0; i < 65536; i++) {
        uint32_t bits;
        memcpy(&bits, &out[i], 4);
        assert_int_equal(bits, (i & 0x7FFF) > 0x7F80 ? 0x7FC00000u : i << 16);
    }
    assert_true(out[65536] == 3.0f);
}

static void check_copy(const ls_add_kernels *k) {
    unsigned char in[1024], out[1024], expected[1024];
    for (size_t i = 0; i < sizeof in; i++) {
        in[i] = (unsigned char)(i * 31 + 7);
        out[i] = expected[i] = 0xEE;
    }
    for (size_t shift = 0; shift < 70; shift += 3)
        for (size_t n = 0; n < 300; n += 7) {
            memset(out, 0xEE, sizeof out);
            memset(expected, 0xEE, sizeof expected);
            memcpy(expected + 100 + shift, in + 50, n);
            k->copy_stream(out + 100 + shift, in + 50, n);
            assert_memory_equal(out, expected, sizeof out);
        }
}

static void check(const ls_kernels *table) {
    print_message("kernels: %s\n", table->isa);
    check_add(&table->add);
    check_integers(&table->add);
    check_widen(&table->add);
    check_copy(&table->add);
}

static void test_every_isa(void **state) {
    (void)state;
    ls_kernels table;
    unsigned all = ls_cpu_isa_mask(), mask = 0;
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (!(all >> isa & 1)) continue;
        mask |= 1u << isa;
        ls_kernels_fill(&table, mask);
        assert_string_equal(table.isa, ls_isa_name((ls_isa)isa));
        check(&table);
    }
    check(ls_kernels_get());
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_isa)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
