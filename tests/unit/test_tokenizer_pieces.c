/* test_tokenizer_pieces.c: how text is cut into pieces, by hand and against PCRE2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/status.h"
#include "data/tokenizer/pretok.h"

/* The pieces of `text` joined by |. */
static const char *cut(const ls_pretok *step, const char *text, size_t bytes) {
    static char out[4096];
    size_t used = 0;
    const uint8_t *begin = (const uint8_t *)text;
    ls_pieces pieces = ls_pieces_begin(step, begin, begin + bytes);
    while (pieces.at < pieces.end) {
        const uint8_t *start = pieces.at;
        assert_int_equal(ls_pieces_next(&pieces), LS_OK);
        assert_true(pieces.at > start && pieces.at <= pieces.end);
        if (used) out[used++] = '|';
        memcpy(out + used, start, (size_t)(pieces.at - start));
        used += (size_t)(pieces.at - start);
    }
    out[used] = '\0';
    return out;
}

static void pieces_by_hand(void **state) {
    (void)state;
    static const struct {
        const char *text, *gpt2, *llama3;
    } cases[] = {
        {"I've don'T it's", "I|'ve| don|'|T| it|'s", "I|'ve| don|'T| it|'s"},
        {"  two   three ", " | two|  | three| ", " | two|  | three| "},
        {"a\n\n b\r\n", "a|\n\n| b|\r\n", "a|\n\n| b|\r\n"},
        {"x = 12345.67;\n", "x| =| 12345|.|67|;|\n", "x| =| |123|45|.|67|;\n"},
        {"\tif(x)", "\t|if|(|x|)", "\tif|(x|)"},
        {" \n \tz", " \n |\t|z", " \n| |\tz"},
        {" \r  z", " \r | z", " \r| | z"},
        {"\xc3\xa9t\xc3\xa9 \xe2\x82\xac"
         "5",
         "\xc3\xa9t\xc3\xa9| \xe2\x82\xac|5", "\xc3\xa9t\xc3\xa9| \xe2\x82\xac|5"},
        {"'\xc5\xbf"
         "a",
         "'|\xc5\xbf"
         "a",
         "'\xc5\xbf|a"}, /* the long s is an s in any case */
        {"a\xe3\x80\x80\xe3\x80\x80"
         "b",
         "a|\xe3\x80\x80|\xe3\x80\x80|b",
         "a|\xe3\x80\x80|\xe3\x80\x80"
         "b"},
        {"\xd9\xa1\xd9\xa2\xd9\xa3\xd9\xa4", "\xd9\xa1\xd9\xa2\xd9\xa3\xd9\xa4", "\xd9\xa1\xd9\xa2\xd9\xa3|\xd9\xa4"},
        {"e\xcc\x81", "e|\xcc\x81", "e|\xcc\x81"}, /* a mark is no letter */
        {"\xff\xfe z", "\xff\xfe| z", "\xff\xfe| z"},
        {"\xed\xa0\x80"
         "a",
         "\xed\xa0\x80|a",
         "\xed\xa0\x80|"
         "a"}, /* a surrogate is three bytes that are not UTF-8 */
    };
    ls_pretok gpt2, llama3;
    assert_int_equal(ls_pretok_init(&gpt2, "x", LS_PATTERN_GPT2, false), LS_OK);
    assert_int_equal(ls_pretok_init(&llama3, "x", LS_PATTERN_LLAMA3_HEAD "{1,3}" LS_PATTERN_LLAMA3_TAIL, false), LS_OK);
    assert_int_equal(gpt2.kind, LS_PRETOK_GPT2);
    assert_int_equal(llama3.kind, LS_PRETOK_LLAMA3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(cut(&gpt2, cases[i].text, strlen(cases[i].text)), cases[i].gpt2);
        assert_string_equal(cut(&llama3, cases[i].text, strlen(cases[i].text)), cases[i].llama3);
    }
}

/* The same patterns through PCRE2, on characters that every version of Unicode has. */
static void pieces_are_those_of_a_regular_expression(void **state) {
    (void)state;
    static const char *const atoms[] = {"a",           "Z",
                                        "'",           "'s",
                                        "'LL",         " ",
                                        "  ",          "\r",
                                        "\n",          "\r\n",
                                        "\t",          "1",
                                        "23",          "!",
                                        "-",           "\xc3\xa9",
                                        "\xc2\xa0",    "\xe3\x80\x80",
                                        "\xd0\x96",    "\xe6\xbc\xa2",
                                        "\xd9\xa3",    "\xf0\x9f\x98\x80",
                                        "\xcc\x81",    "\xc5\xbf",
                                        "\xe2\x80\xa8"};
    static const char *const patterns[] = {LS_PATTERN_GPT2, LS_PATTERN_LLAMA3_HEAD "{1,3}" LS_PATTERN_LLAMA3_TAIL,
                                           LS_PATTERN_LLAMA3_HEAD LS_PATTERN_LLAMA3_TAIL};
    ls_rng_key key = ls_rng_key_make(1, 2, 3);
    uint64_t index = 0;
    for (size_t p = 0; p < 3; p++) {
        ls_pretok own, regex;
        char wrapped[512], text[256], expected[4096];
        snprintf(wrapped, sizeof wrapped, "(?:%s)", patterns[p]);
        assert_int_equal(ls_pretok_init(&own, "x", patterns[p], false), LS_OK);
        if (ls_pretok_init(&regex, "x", wrapped, false) != LS_OK) {
            assert_non_null(strstr(ls_status_message(), "needs PCRE2"));
            skip();
        }
        assert_int_equal(regex.kind, LS_PRETOK_REGEX);
        for (int round = 0; round < 20000; round++) {
            size_t bytes = 0, count = 1 + ls_rng_below(key, index++, 12);
            while (count--) {
                const char *atom = atoms[ls_rng_below(key, index++, sizeof atoms / sizeof *atoms)];
                memcpy(text + bytes, atom, strlen(atom));
                bytes += strlen(atom);
            }
            strcpy(expected, cut(&regex, text, bytes));
            assert_string_equal(cut(&own, text, bytes), expected);
        }
        ls_pretok_fini(&regex);
        ls_pretok_fini(&own);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_by_hand),
        cmocka_unit_test(pieces_are_those_of_a_regular_expression),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
