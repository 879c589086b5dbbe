/* test_byte_sum.c: the checksum of files that several processes write: no dependence on pieces, order or processes, and
 * no damage that it does not see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/files.h"
#include "checkpoint/byte_sum.h"

enum { BYTES = 5003 };

static unsigned char data[BYTES];

static void fill(void) {
    for (size_t i = 0; i < BYTES; i++) data[i] = (unsigned char)(i * 73 + i / 251);
}

static ls_byte_sum whole(void) {
    ls_byte_sum sum = {.bytes = 0};
    ls_byte_sum_add(&sum, 0, data, BYTES);
    return sum;
}

static bool same(const ls_byte_sum *a, const ls_byte_sum *b) {
    return ls_hash_equal(ls_byte_sum_value(a), ls_byte_sum_value(b)) && a->bytes == b->bytes;
}

/* A value of its own: files of today must be verified for ever. */
static void the_value_is_known(void **state) {
    (void)state;
    char text[LS_HASH_TEXT_BYTES];
    ls_byte_sum sum = {.bytes = 0};
    ls_hash_text(ls_byte_sum_value(&sum), text);
    assert_string_equal(text, "00000000000000000000000000000000");
    sum = whole();
    ls_hash_text(ls_byte_sum_value(&sum), text);
    assert_string_equal(text, "8e53dbd3e7b709277728607f84636b63");
}

/* Any cuts, given to any of three processes, in any order. */
static void pieces_sum_as_the_whole(void **state) {
    (void)state;
    ls_byte_sum all = whole();
    for (unsigned seed = 1; seed <= 200; seed++) {
        ls_byte_sum part[3] = {{.bytes = 0}};
        size_t cut[BYTES + 1], cuts = 0, most = seed % 7 == 0 ? 5 : 700;
        srand(seed);
        for (size_t at = 0; at < BYTES; at += 1 + (size_t)rand() % most) cut[cuts++] = at;
        cut[cuts] = BYTES;
        for (size_t i = cuts; i-- > 0;) ls_byte_sum_add(&part[rand() % 3], cut[i], data + cut[i], cut[i + 1] - cut[i]);
        ls_byte_sum joined = {.bytes = 0};
        for (int p = 0; p < 3; p++) ls_byte_sum_join(&joined, &part[p]);
        assert_true(same(&joined, &all));
    }
}

static void every_flipped_bit_shows(void **state) {
    (void)state;
    ls_byte_sum all = whole();
    for (size_t bit = 0; bit < 8 * (size_t)BYTES; bit++) {
        ls_byte_sum sum = all;
        unsigned char was = data[bit / 8], is = was ^ (unsigned char)(1 << bit % 8);
        /* Sums are linear: the difference is that of one byte. */
        ls_byte_sum before = {.bytes = 0}, after = {.bytes = 0};
        ls_byte_sum_add(&before, bit / 8, &was, 1);
        ls_byte_sum_add(&after, bit / 8, &is, 1);
        for (int s = 0; s < LS_BYTE_SUMS; s++) {
            sum.sum[s] += after.sum[s] - before.sum[s];
            assert_true(sum.sum[s] != all.sum[s]);
        }
    }
}

/* Two words exchanged, the sign of two numbers changed, bytes moved by a place or by a block. */
static void other_damage_shows(void **state) {
    (void)state;
    ls_byte_sum all = whole(), sum;
    for (size_t i = 0; i + 2052 < BYTES; i += 4) {
        const size_t apart[] = {4, 8, 1024, 2048};
        for (size_t k = 0; k < 4; k++) {
            unsigned char *a = data + i, *b = data + i + apart[k], kept[4];
            a[3] ^= 0x80, b[3] ^= 0x80;
            sum = whole();
            assert_false(same(&sum, &all));
            a[3] ^= 0x80, b[3] ^= 0x80;
            if (memcmp(a, b, 4) == 0) continue;
            memcpy(kept, a, 4), memcpy(a, b, 4), memcpy(b, kept, 4);
            sum = whole();
            assert_false(same(&sum, &all));
            memcpy(kept, a, 4), memcpy(a, b, 4), memcpy(b, kept, 4);
        }
    }
    for (size_t by = 1; by <= 1024; by *= 4) {
        memmove(data + by, data, BYTES - by);
        sum = whole();
        assert_false(same(&sum, &all));
        fill();
    }
}

static void add_piece(void *ctx, const void *piece, size_t bytes) {
    ls_byte_sum *sum = ctx;
    ls_byte_sum_add(sum, sum->bytes, piece, bytes);
}

static void a_file_sums_as_its_bytes(void **state) {
    (void)state;
    char path[] = "/tmp/ls_test_byte_sum.XXXXXX";
    ls_byte_sum all = whole(), sum = {.bytes = 0};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, BYTES), BYTES);
    assert_int_equal(close(fd), 0);
    assert_int_equal(ls_file_scan(path, add_piece, &sum), LS_OK);
    assert_true(same(&sum, &all));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ls_file_scan(path, add_piece, &sum), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), path));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_value_is_known),       cmocka_unit_test(pieces_sum_as_the_whole),
        cmocka_unit_test(every_flipped_bit_shows),  cmocka_unit_test(other_damage_shows),
        cmocka_unit_test(a_file_sums_as_its_bytes),
    };
    fill();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
