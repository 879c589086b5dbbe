/* test_safetensors_header.c: headers that lie. Each must be refused with a message that names the lie; the files stand
 * in memory of exactly their size, so that a sanitizer sees every byte read too far. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "checkpoint/safetensors.h"

/* A file with this header and this many bytes of data; *bytes is its size. */
static unsigned char *make_file(const char *header, size_t header_bytes, size_t data_bytes, size_t *bytes) {
    *bytes = 8 + header_bytes + data_bytes;
    unsigned char *file = malloc(*bytes);
    assert_non_null(file);
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)((uint64_t)header_bytes >> 8 * i);
    memcpy(file + 8, header, header_bytes);
    for (size_t i = 0; i < data_bytes; i++) file[8 + header_bytes + i] = (unsigned char)i;
    return file;
}

#define T(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *message;
} lies[] = {
    {"", 0, "does not begin with '{'"},
    {"[]", 0, "does not begin with '{'"},
    {" {}", 0, "does not begin with '{'"},
    {"{", 0, "header of lie"},
    {"{}x", 0, "end of file expected"},
    {"{} {}", 0, "end of file expected"},
    {"{'a':1}", 0, "header of lie"},
    {"{\"a\":" T("U8", "[1]", "[0,1]") ",}", 1, "header of lie"},
    {"{\"a\":" T("U8", "[1]", "[0,1]") ",\"a\":" T("U8", "[1]", "[1,2]") "}", 2, "duplicate object key"},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "duplicate object key"},
    {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "duplicate object key"},
    {"{\"a\":[]}", 0, "tensor 'a': its entry is not a JSON object"},
    {"{\"a\":null}", 0, "its entry is not a JSON object"},
    {"{\"a\":{}}", 0, "\"dtype\" is missing"},
    {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "\"shape\" is missing"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "\"data_offsets\" is missing"},
    {"{\"a\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "\"dtype\" is a whole number"},
    {"{\"a\":" T("Q8", "[1]", "[0,1]") "}", 1, "no type 'Q8'"},
    {"{\"a\":" T("f32", "[1]", "[0,4]") "}", 4, "no type 'f32'"},
    {"{\"a\":" T("U8", "1", "[0,1]") "}", 1, "\"shape\" is a whole number"},
    {"{\"a\":" T("U8", "[-1]", "[0,1]") "}", 1, "shape holds -1"},
    {"{\"a\":" T("U8", "[1.0]", "[0,1]") "}", 1, "shape holds a value that is not a whole number"},
    {"{\"a\":" T("U8", "[\"1\"]", "[0,1]") "}", 1, "shape holds a value that is not a whole number"},
    {"{\"a\":" T("U8", "[[1]]", "[0,1]") "}", 1, "shape holds a value that is not a whole number"},
    {"{\"a\":" T("U8", "[9223372036854775808]", "[0,0]") "}", 0, "too big integer"},
    {"{\"a\":" T("U8", "[4294967296,2147483648]", "[0,0]") "}", 0, "more than 2^63 elements"},
    {"{\"a\":" T("U8", "[4294967296,4294967296]", "[0,0]") "}", 0, "more than 2^63 elements"},
    {"{\"a\":" T("U8", "[4294967296,4294967296,0]", "[0,0]") "}", 0, "more than 2^63 elements"},
    {"{\"a\":" T("F32", "[2305843009213693952]", "[0,0]") "}", 0, "more than 2^63 bits of F32"},
    {"{\"a\":" T("F4", "[3]", "[0,1]") "}", 1, "not a whole number of bytes"},
    {"{\"a\":" T("U8", "[1]", "[0]") "}", 1, "data_offsets holds 1 numbers"},
    {"{\"a\":" T("U8", "[1]", "[0,1,1]") "}", 1, "data_offsets holds 3 numbers"},
    {"{\"a\":" T("U8", "[1]", "[-1,0]") "}", 1, "data_offsets holds -1"},
    {"{\"a\":" T("U8", "[1]", "[0,true]") "}", 1, "data_offsets holds a value that is not a whole number"},
    {"{\"a\":" T("U8", "[1]", "[2,1]") "}", 2, "end (1) before they begin (2)"},
    {"{\"a\":" T("U8", "[9]", "[0,9]") "}", 8, "end at 9, and the file has 8 bytes of data"},
    {"{\"a\":" T("U8", "[1]", "[9223372036854775806,9223372036854775807]") "}", 8, "the file has 8 bytes of data"},
    {"{\"a\":" T("F32", "[2,3]", "[0,23]") "}", 23, "F32 [2, 3] takes 24 bytes, but data_offsets span 23"},
    {"{\"a\":" T("BF16", "[]", "[0,4]") "}", 4, "BF16 [] takes 2 bytes"},
    {"{\"a\":" T("U8", "[0]", "[0,1]") "}", 1, "U8 [0] takes 0 bytes"},
    {"{\"a\":" T("U8", "[4]", "[0,4]") ",\"b\":" T("U8", "[4]", "[3,7]") "}", 7, "tensors 'a' and 'b' overlap"},
    {"{\"a\":" T("U8", "[4]", "[0,4]") ",\"b\":" T("U8", "[4]", "[0,4]") "}", 4, "overlap"},
    {"{\"a\":" T("U8", "[4]", "[0,4]") ",\"b\":" T("U8", "[0]", "[2,2]") "}", 4, "overlap"},
    {"{\"a\":" T("U8", "[4]", "[1,5]") "}", 5, "bytes 0 to 1 before tensor 'a' belong to no tensor"},
    {"{\"b\":" T("U8", "[1]", "[5,6]") ",\"a\":" T("U8", "[4]", "[0,4]") "}", 6, "bytes 4 to 5 before tensor 'b'"},
    {"{\"a\":" T("U8", "[4]", "[0,4]") "}", 6, "the last 2 bytes belong to no tensor"},
    {"{}", 1, "the last 1 bytes belong to no tensor"},
    {"{\"__metadata__\":1}", 0, "__metadata__ must be an object"},
    {"{\"__metadata__\":{\"k\":1}}", 0, "the metadata 'k' is not a string"},
    {"{\"__metadata__\":{\"k\":{}}}", 0, "the metadata 'k' is not a string"},
    {"{\"a\xff\":" T("U8", "[1]", "[0,1]") "}", 1, "unable to decode byte"},
    {"{\"\xc0\x80\":" T("U8", "[1]", "[0,1]") "}", 1, "unable to decode byte"},
    {"{\"a\\u0000\":" T("U8", "[1]", "[0,1]") "}", 1, "NUL"},
    {"{\"a\\ud800\":" T("U8", "[1]", "[0,1]") "}", 1, "header of lie"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"more\":0}}", 1, "fields besides"},
};

static void lies_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        size_t bytes;
        unsigned char *file = make_file(lies[i].header, strlen(lies[i].header), lies[i].data_bytes, &bytes);
        ls_safetensors *out = (ls_safetensors *)file;
        ls_status status = ls_safetensors_parse("lie", file, bytes, &out);
        if (status != LS_ERR_INPUT || !strstr(ls_status_message(), lies[i].message) ||
            !strstr(ls_status_message(), "lie"))
            fail_msg("%s: %s: %s; expected '%s'", lies[i].header, ls_status_name(status), ls_status_message(),
                     lies[i].message);
        assert_null(out);
        free(file);
    }
}

static void check_length(uint64_t claimed, size_t bytes, const char *message) {
    unsigned char *file = malloc(bytes + 1);
    ls_safetensors *out;
    assert_non_null(file);
    memset(file, ' ', bytes + 1);
    for (size_t i = 0; i < 8 && i < bytes; i++) file[i] = (unsigned char)(claimed >> 8 * i);
    if (bytes > 9) memcpy(file + 8, "{}", 2);
    file = realloc(file, bytes ? bytes : 1);
    ls_status status = ls_safetensors_parse("short", file, bytes, &out);
    if (message) {
        assert_int_equal(status, LS_ERR_INPUT);
        assert_non_null(strstr(ls_status_message(), message));
    } else {
        assert_int_equal(status, LS_OK);
        ls_safetensors_close(out);
    }
    free(file);
}

static void length_of_the_header_is_checked(void **state) {
    (void)state;
    check_length(0, 0, "it has 0 bytes");
    check_length(0, 7, "it has 7 bytes");
    check_length(2, 8, "truncated: its header takes 2 bytes, and only 0 are there");
    check_length(2, 9, "and only 1 are there");
    check_length(2, 10, NULL);
    check_length(30, 38, NULL);
    check_length(100000000, 38, "truncated: its header takes 100000000 bytes, and only 30 are there");
    check_length(100000001, 38, "at most 100000000 are allowed");
    check_length(UINT64_MAX, 38, "would take 18446744073709551615 bytes");
    check_length(UINT64_MAX - 7, 38, "at most 100000000 are allowed");
}

/* Cut anywhere, a good file is refused. */
static void every_cut_is_seen(void **state) {
    (void)state;
    const char header[] = "{\"a\":" T("F32", "[2]", "[0,8]") ",\"b\":" T("U8", "[3]", "[8,11]") "}  ";
    size_t bytes;
    unsigned char *file = make_file(header, sizeof header - 1, 11, &bytes);
    ls_safetensors *out;
    assert_int_equal(ls_safetensors_parse("whole", file, bytes, &out), LS_OK);
    ls_safetensors_close(out);
    for (size_t cut = 0; cut < bytes; cut++) {
        unsigned char *part = malloc(cut + 1);
        assert_non_null(part);
        memcpy(part, file, cut);
        part = realloc(part, cut ? cut : 1);
        assert_int_equal(ls_safetensors_parse("part", part, cut, &out), LS_ERR_INPUT);
        assert_null(out);
        free(part);
    }
    free(file);
}

/* Nothing may follow how deep a header goes. */
static void deep_and_long_headers_end_well(void **state) {
    (void)state;
    enum { DEEP = 200000 };
    size_t bytes;
    char *header = malloc(DEEP);
    ls_safetensors *out;
    assert_non_null(header);
    memset(header, '[', DEEP);
    memcpy(header, "{\"a\":", 5);
    unsigned char *file = make_file(header, DEEP, 0, &bytes);
    assert_int_equal(ls_safetensors_parse("deep", file, bytes, &out), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "depth"));
    free(file);
    memset(header, 'n', DEEP);
    memcpy(header, "{\"", 2);
    memcpy(header + DEEP - 5, "\":7} ", 5);
    file = make_file(header, DEEP, 0, &bytes);
    assert_int_equal(ls_safetensors_parse("long", file, bytes, &out), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "its entry is not a JSON object"));
    free(file);
    free(header);
}

static void all_types_of_the_format_are_listed(void **state) {
    (void)state;
    static const struct {
        const char *name;
        unsigned bits;
        bool is_readable;
    } types[] = {
        {"BOOL", 8, false},    {"U8", 8, true},       {"I8", 8, false},          {"F8_E5M2", 8, false},
        {"F8_E4M3", 8, false}, {"F8_E8M0", 8, false}, {"F8_E4M3FNUZ", 8, false}, {"F8_E5M2FNUZ", 8, false},
        {"I16", 16, false},    {"U16", 16, false},    {"F16", 16, true},         {"BF16", 16, true},
        {"I32", 32, false},    {"U32", 32, false},    {"F32", 32, true},         {"C64", 64, false},
        {"F64", 64, false},    {"I64", 64, true},     {"U64", 64, false},        {"F4", 4, false},
        {"F6_E2M3", 6, false}, {"F6_E3M2", 6, false},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char header[256], buffer[64];
        size_t bytes, data_bytes = types[i].bits * 8 / 8;
        int used =
            snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[2,4],\"data_offsets\":[0,%zu]}}",
                     types[i].name, data_bytes);
        unsigned char *file = make_file(header, (size_t)used, data_bytes, &bytes);
        ls_safetensors *out;
        assert_int_equal(ls_safetensors_parse("types", file, bytes, &out), LS_OK);
        const ls_safetensor *tensor = ls_safetensors_find(out, "t");
        assert_non_null(tensor);
        assert_string_equal(tensor->type, types[i].name);
        assert_int_equal(tensor->elems, 8);
        assert_int_equal(tensor->bytes, data_bytes);
        assert_int_equal(tensor->is_readable, types[i].is_readable);
        ls_status expected = types[i].is_readable ? LS_OK : LS_ERR_INPUT;
        assert_int_equal(ls_safetensor_read(tensor, 0, buffer, data_bytes), expected);
        if (expected == LS_OK)
            assert_memory_equal(buffer, file + 8 + used, data_bytes);
        else
            assert_non_null(strstr(ls_status_message(), types[i].name));
        ls_safetensors_close(out);
        free(file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(length_of_the_header_is_checked),
        cmocka_unit_test(every_cut_is_seen),
        cmocka_unit_test(deep_and_long_headers_end_well),
        cmocka_unit_test(all_types_of_the_format_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
