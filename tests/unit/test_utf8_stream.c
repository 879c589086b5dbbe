/* test_utf8_stream.c: text from bytes in pieces. Expected texts are those of Python's bytes.decode(errors="replace"),
 * and of the examples in the Unicode standard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alive.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8_stream.h"

#define BAD "\xEF\xBF\xBD"

static const struct {
    const char *bytes, *text;
} cases[] = {
    {"", ""},
    {"plain\n\ttext\r\x1b[2J", "plain\n\ttext\r\x1b[2J"},
    {"gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x98\x80!", "gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x98\x80!"},
    {"\xC3", BAD}, /* ends too soon */
    {"\xE2\x82", BAD},
    {"\xF0\x9F\x98", BAD},
    {"\x80\xBF", BAD BAD},                 /* tails alone */
    {"\xC0\xAF\xC1\xBF", BAD BAD BAD BAD}, /* overlong */
    {"\xE0\x80\xBF", BAD BAD BAD},
    {"\xF0\x80\x80\x80", BAD BAD BAD BAD},
    {"\xED\xA0\x80\xED\xBF\xBF", BAD BAD BAD BAD BAD BAD},            /* surrogates */
    {"\xF4\x90\x80\x80\xF5\xFF", BAD BAD BAD BAD BAD BAD},            /* above U+10FFFF */
    {"\xF4\x8F\xBF\xBF\xEF\xBF\xBF", "\xF4\x8F\xBF\xBF\xEF\xBF\xBF"}, /* the last characters */
    {"\xE2\x82"
     "a\xF0\x9F\x98\xC3\xA4\xC3",
     BAD "a" BAD "\xC3\xA4" BAD},
    {"\xF0\x90\xC2", BAD BAD},
    {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", BAD BAD BAD BAD "A"}, /* cut off, again and again */
};
enum { CASES = sizeof cases / sizeof *cases, TEXT_MAX = 256 };

/* The bytes in pieces that end after byte i where bit i of `cuts` is set. */
static void check(const char *bytes, const char *text, uint32_t cuts, bool for_terminal) {
    ls_utf8_stream stream = {.for_terminal = for_terminal};
    char out[TEXT_MAX];
    size_t count = strlen(bytes), made = 0, begin = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(cuts >> i & 1) && i + 1 < count) continue;
        size_t more = ls_utf8_stream_add(&stream, bytes + begin, i + 1 - begin, out + made);
        assert_true(more <= ls_utf8_stream_room(i + 1 - begin));
        made += more;
        begin = i + 1;
        /* What has come out so far is text by itself. */
        assert_int_equal(ls_utf8_valid_bytes((const uint8_t *)out, made), made);
    }
    made += ls_utf8_stream_end(&stream, out + made);
    assert_int_equal(made, strlen(text));
    assert_memory_equal(out, text, made);
    assert_int_equal(ls_utf8_stream_end(&stream, out), 0);
}

static void every_split_gives_the_same_text(void **state) {
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        size_t count = strlen(cases[i].bytes), gaps = count > 0 ? count - 1 : 0;
        assert_true(gaps < 20);
        for (uint32_t cuts = 0; cuts < UINT32_C(1) << gaps; cuts++) check(cases[i].bytes, cases[i].text, cuts, false);
    }
}

/* All pairs of bytes, whole and apart. */
static void any_bytes_give_valid_text(void **state) {
    (void)state;
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++) {
            uint8_t bytes[4] = {0xF0, (uint8_t)a, (uint8_t)b, 'x'};
            char whole[64], apart[64];
            ls_utf8_stream one = {0}, each = {0};
            size_t made = ls_utf8_stream_add(&one, bytes, 4, whole), pieces = 0;
            for (int i = 0; i < 4; i++) pieces += ls_utf8_stream_add(&each, bytes + i, 1, apart + pieces);
            made += ls_utf8_stream_end(&one, whole + made);
            pieces += ls_utf8_stream_end(&each, apart + pieces);
            assert_int_equal(made, pieces);
            assert_memory_equal(whole, apart, made);
            assert_int_equal(ls_utf8_valid_bytes((const uint8_t *)whole, made), made);
            assert_int_equal(whole[made - 1], 'x');
        }
}

/* A character of four bytes lies at every place around the end of a piece, whole or not. */
static void long_text_is_valid_across_its_pieces(void **state) {
    (void)state;
    const size_t bytes = LS_ALIVE_BYTES + 64;
    uint8_t *text = malloc(bytes);
    assert_non_null(text);
    for (size_t at = LS_ALIVE_BYTES - 5; at < LS_ALIVE_BYTES + 2; at++) {
        memset(text, 'x', bytes);
        memcpy(text + at, "\xF0\x9F\x90\xA2", 4);
        assert_int_equal(ls_utf8_valid_bytes(text, bytes), bytes);
        text[at + 3] = 'x';
        assert_int_equal(ls_utf8_valid_bytes(text, bytes), at);
    }
    free(text);
}

static void a_terminal_gets_no_controls(void **state) {
    (void)state;
    ls_utf8_stream stream = {.for_terminal = true};
    char nul[8];
    check("a\n\tb", "a\n\tb", 0, true);
    check("\x1b[2J\r\x07\x7f", "\xE2\x90\x9B[2J\xE2\x90\x8D\xE2\x90\x87\xE2\x90\xA1", 0, true);
    check("\xC2\x9B"
          "5n\xC2\xA0\xC3\xA4",
          BAD "5n\xC2\xA0\xC3\xA4", 0x1, true);
    assert_int_equal(ls_utf8_stream_add(&stream, "", 1, nul), 3);
    assert_memory_equal(nul, "\xE2\x90\x80", 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_text_is_valid_across_its_pieces),
        cmocka_unit_test(every_split_gives_the_same_text),
        cmocka_unit_test(any_bytes_give_valid_text),
        cmocka_unit_test(a_terminal_gets_no_controls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
