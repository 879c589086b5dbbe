/* test_identity.c: what an identity is written as, what its hash depends on, and how differences are told. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "run/folder/identity.h"

#define FIXED LS_IDENTITY_FIXED
#define FREE LS_IDENTITY_FREE

static const ls_hash128 data_hash = {.hi = 0x0123456789abcdef, .lo = 0xfedcba9876543210};

static ls_identity *new_identity(void) {
    ls_identity *identity = NULL;
    assert_int_equal(ls_identity_create(&identity), LS_OK);
    return identity;
}

static ls_identity *sample(double lr, int64_t seed, const char *optimizer, int64_t steps) {
    ls_identity *identity = new_identity();
    assert_int_equal(ls_identity_add_i64(identity, "seed", seed, FIXED), LS_OK);
    assert_int_equal(ls_identity_add_text(identity, "optimizer", optimizer, FIXED), LS_OK);
    assert_int_equal(ls_identity_add_f64(identity, "lr", lr, FIXED), LS_OK);
    assert_int_equal(ls_identity_add_hash(identity, "data", data_hash, FIXED), LS_OK);
    assert_int_equal(ls_identity_add_i64(identity, "steps", steps, FREE), LS_OK);
    return identity;
}

static void hash_text_of(const ls_identity *identity, char text[LS_HASH_TEXT_BYTES]) {
    ls_hash128 hash;
    assert_int_equal(ls_identity_hash(identity, &hash), LS_OK);
    ls_hash_text(hash, text);
}

static bool same_hash(const ls_identity *a, const ls_identity *b) {
    char x[LS_HASH_TEXT_BYTES], y[LS_HASH_TEXT_BYTES];
    hash_text_of(a, x);
    hash_text_of(b, y);
    return strcmp(x, y) == 0;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void text_is_as_documented(void **state) {
    (void)state;
    /* XXH3-128 of the compact text below, as the documentation has it. */
    static const char hashed[] = "{\"data\":{\"xxh128\":\"0123456789abcdeffedcba9876543210\"},"
                                 "\"lr\":{\"f64\":\"0x1.0624dd2f1a9fcp-10\"},\"optimizer\":\"adamw\",\"seed\":7}";
    char hash[LS_HASH_TEXT_BYTES], expected[1024], *text;
    size_t bytes;
    ls_hash_text(ls_hash_bytes(hashed, sizeof hashed - 1), hash);
    snprintf(expected, sizeof expected,
             "{\n  \"hash\": \"%s\",\n  \"fields\": {\n    \"seed\": 7,\n    \"optimizer\": \"adamw\",\n"
             "    \"lr\": {\n      \"f64\": \"0x1.0624dd2f1a9fcp-10\"\n    },\n"
             "    \"data\": {\n      \"xxh128\": \"0123456789abcdeffedcba9876543210\"\n    }\n  },\n"
             "  \"free\": {\n    \"steps\": 100\n  }\n}\n",
             hash);
    ls_identity *identity = sample(0.001, 7, "adamw", 100);
    assert_int_equal(ls_identity_to_text(identity, &text, &bytes), LS_OK);
    assert_string_equal(text, expected);
    assert_int_equal(bytes, strlen(expected));
    /* Made with Python's json and xxhash: the same on every machine. */
    assert_string_equal(hash, "d1ab13b774cbc012b495c471451cbc25");
    free(text);
    ls_identity_destroy(identity);
}

static void hash_depends_on_fixed_fields_alone(void **state) {
    (void)state;
    ls_identity *a = sample(0.001, 7, "adamw", 100), *longer = sample(0.001, 7, "adamw", 200);
    ls_identity *others[] = {sample(0.0010000000000000002, 7, "adamw", 100), sample(0.001, 8, "adamw", 100),
                             sample(0.001, 7, "sgd", 100)};
    assert_true(same_hash(a, longer));
    for (int i = 0; i < 3; i++) {
        assert_false(same_hash(a, others[i]));
        ls_identity_destroy(others[i]);
    }
    /* Another order of adding. */
    ls_identity *turned = new_identity();
    assert_int_equal(ls_identity_add_hash(turned, "data", data_hash, FIXED), LS_OK);
    assert_int_equal(ls_identity_add_f64(turned, "lr", 0.001, FIXED), LS_OK);
    assert_int_equal(ls_identity_add_i64(turned, "seed", 7, FIXED), LS_OK);
    assert_int_equal(ls_identity_add_text(turned, "optimizer", "adamw", FIXED), LS_OK);
    assert_true(same_hash(a, turned));
    assert_int_equal(ls_identity_check(a, turned, "the checkpoint"), LS_OK);
    /* One field more. */
    assert_int_equal(ls_identity_add_i64(turned, "a", 0, FIXED), LS_OK);
    assert_false(same_hash(a, turned));
    ls_identity_destroy(a);
    ls_identity_destroy(longer);
    ls_identity_destroy(turned);
    ls_identity_destroy(NULL);
}

/* Round trips, of values at the ends of their ranges. */
static void what_is_written_is_read(void **state) {
    (void)state;
    static const double numbers[] = {0.0, -0.0, 0.1, 1e300, 0x1p-1074, -2.5, 0x1.fffffffffffffp+1023};
    ls_identity *identity = new_identity(), *back = NULL;
    char name[32], *text, *again;
    size_t bytes, again_bytes;
    for (int i = 0; i < 7; i++) {
        snprintf(name, sizeof name, "number.%d", i);
        assert_int_equal(ls_identity_add_f64(identity, name, numbers[i], i % 2 ? FIXED : FREE), LS_OK);
    }
    assert_int_equal(ls_identity_add_i64(identity, "least", INT64_MIN, FIXED), LS_OK);
    assert_int_equal(ls_identity_add_i64(identity, "most", INT64_MAX, FREE), LS_OK);
    assert_int_equal(ls_identity_add_text(identity, "text", "a \"b\" \\ \n \xE2\x82\xAC", FIXED), LS_OK);
    assert_int_equal(ls_identity_add_text(identity, "nothing", "", FIXED), LS_OK);
    assert_int_equal(ls_identity_add_hash(identity, "hash.free", data_hash, FREE), LS_OK);
    assert_int_equal(ls_identity_add_hash(identity, "hash.fixed", data_hash, FIXED), LS_OK);
    assert_int_equal(ls_identity_to_text(identity, &text, &bytes), LS_OK);
    assert_int_equal(ls_identity_from_text("a test", text, bytes, &back), LS_OK);
    assert_int_equal(ls_identity_to_text(back, &again, &again_bytes), LS_OK);
    assert_string_equal(text, again);
    assert_int_equal(ls_identity_diff(identity, back, NULL, 0), 0);
    int64_t value = 5;
    assert_true(ls_identity_get_i64(back, "most", &value) && value == INT64_MAX);
    assert_true(ls_identity_get_i64(back, "least", &value) && value == INT64_MIN);
    assert_false(ls_identity_get_i64(back, "text", &value));
    assert_string_equal(ls_identity_get_text(back, "text"), "a \"b\" \\ \n \xE2\x82\xAC");
    assert_null(ls_identity_get_text(back, "most"));
    assert_null(ls_identity_get_text(back, "none"));
    assert_false(ls_identity_get_i64(back, "none", &value));
    assert_true(value == INT64_MIN);
    free(text);
    free(again);
    ls_identity_destroy(identity);
    ls_identity_destroy(back);
}

static void fields_that_do_not_fit_are_refused(void **state) {
    (void)state;
    ls_identity *identity = sample(0.001, 7, "adamw", 100);
    char hash[LS_HASH_TEXT_BYTES], after[LS_HASH_TEXT_BYTES];
    hash_text_of(identity, hash);
    assert_int_equal(ls_identity_add_i64(identity, "lr", 1, FIXED), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "field lr twice"));
    assert_int_equal(ls_identity_add_i64(identity, "steps", 1, FIXED), LS_ERR_INPUT);
    assert_int_equal(ls_identity_add_i64(identity, "", 1, FIXED), LS_ERR_INPUT);
    assert_int_equal(ls_identity_add_text(identity, "Upper", "x", FIXED), LS_ERR_INPUT);
    assert_int_equal(ls_identity_add_text(identity, "a b", "x", FIXED), LS_ERR_INPUT);
    char name[LS_IDENTITY_NAME_MAX + 1], value[LS_IDENTITY_VALUE_MAX + 1];
    memset(name, 'a', sizeof name);
    name[LS_IDENTITY_NAME_MAX] = '\0';
    memset(value, 'b', sizeof value);
    value[LS_IDENTITY_VALUE_MAX] = '\0';
    assert_int_equal(ls_identity_add_i64(identity, name, 1, FIXED), LS_ERR_INPUT);
    assert_int_equal(ls_identity_add_text(identity, "long", value, FIXED), LS_ERR_INPUT);
    assert_int_equal(ls_identity_add_text(identity, "bytes", "\xff", FIXED), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "not UTF-8"));
    assert_int_equal(ls_identity_add_f64(identity, "nan", (double)NAN, FIXED), LS_ERR_INPUT);
    assert_int_equal(ls_identity_add_f64(identity, "inf", (double)INFINITY, FIXED), LS_ERR_INPUT);
    hash_text_of(identity, after);
    assert_string_equal(hash, after);
    name[LS_IDENTITY_NAME_MAX - 1] = value[LS_IDENTITY_VALUE_MAX - 1] = '\0';
    assert_int_equal(ls_identity_add_text(identity, name, value, FIXED), LS_OK);
    for (int i = 6; i < LS_IDENTITY_FIELDS_MAX; i++) {
        snprintf(name, sizeof name, "f%d", i);
        assert_int_equal(ls_identity_add_i64(identity, name, i, FREE), LS_OK);
    }
    assert_int_equal(ls_identity_add_i64(identity, "one-more", 1, FREE), LS_ERR_INPUT);
    ls_identity_destroy(identity);
}

/* Texts that are no identity; each with what the message must say. H stands for the hash of no fields. */
#define H "\"hash\": \"EMPTY\""
static void damaged_texts_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "a file:"},
        {"{", "a file:1"},
        {"[]", "not an object"},
        {"{" H "}", "\"fields\" is missing"},
        {"{" H ", \"fields\": {}}", "\"free\" is missing"},
        {"{\"fields\": {}, \"free\": {}}", "\"hash\" is missing"},
        {"{\"hash\": 5, \"fields\": {}, \"free\": {}}", "\"hash\" is"},
        {"{" H ", \"fields\": [], \"free\": {}}", "\"fields\" is an array"},
        {"{" H ", \"fields\": {\"a\": 1}, \"free\": {}}", "damaged, or was edited"},
        {"{" H ", \"fields\": {\"a\": 1, \"a\": 1}, \"free\": {}}", "uplicate"},
        {"{" H ", \"fields\": {}, \"free\": {\"a\": 1.5}}", "field a is no value"},
        {"{" H ", \"fields\": {}, \"free\": {\"a\": true}}", "field a is no value"},
        {"{" H ", \"fields\": {}, \"free\": {\"a\": {}}}", "field a is no value"},
        {"{" H ", \"fields\": {}, \"free\": {\"a\": {\"f64\": \"0.1\"}}}", "field a is no value"},
        {"{" H ", \"fields\": {}, \"free\": {\"a\": {\"f64\": \"0x1p+0 \"}}}", "field a is no value"},
        {"{" H ", \"fields\": {}, \"free\": {\"a\": {\"f64\": \"0x1p+99999\"}}}", "field a is no value"},
        {"{" H ", \"fields\": {}, \"free\": {\"a\": {\"f64\": \"nan\"}}}", "field a is no value"},
        {"{" H ", \"fields\": {}, \"free\": {\"a\": {\"f64\": \"0x1p+0\", \"b\": 1}}}", "field a is no value"},
        {"{" H ", \"fields\": {}, \"free\": {\"a\": {\"xxh128\": \"0123\"}}}", "field a is no value"},
        {"{" H ", \"fields\": {}, \"free\": {\"a\": {\"xxh128\": \"0123456789ABCDEF0123456789ABCDEF\"}}}",
         "field a is no value"},
        {"{" H ", \"fields\": {}, \"free\": {\"A\": 1}}", "'A' cannot be a field"},
        {"{" H ", \"fields\": {}, \"free\": {\"a\": 99999999999999999999}}", "a file:1"},
    };
    ls_identity *identity = NULL;
    char hash[LS_HASH_TEXT_BYTES], text[512];
    ls_hash_text(ls_hash_bytes("{}", 2), hash);
    snprintf(text, sizeof text, "{\"hash\": \"%s\", \"fields\": {}, \"free\": {\"a\": 1}}", hash);
    assert_int_equal(ls_identity_from_text("a file", text, strlen(text), &identity), LS_OK);
    ls_identity_destroy(identity);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *place = strstr(cases[i].text, "EMPTY");
        if (place)
            snprintf(text, sizeof text, "%.*s%s%s", (int)(place - cases[i].text), cases[i].text, hash, place + 5);
        else
            snprintf(text, sizeof text, "%s", cases[i].text);
        identity = (ls_identity *)text;
        assert_int_equal(ls_identity_from_text("a file", text, strlen(text), &identity), LS_ERR_INPUT);
        assert_null(identity);
        if (!strstr(ls_status_message(), cases[i].message)) fail_msg("%s: %s", text, ls_status_message());
        if (strncmp(ls_status_message(), "a file", 6) != 0) fail_msg("no source: %s", ls_status_message());
    }
}

/* Any one byte of the fields changed: refused, or the same fields. */
static void every_changed_byte_is_noticed(void **state) {
    (void)state;
    ls_identity *identity = sample(0.001, 7, "adamw", 100);
    char *text;
    size_t bytes;
    assert_int_equal(ls_identity_to_text(identity, &text, &bytes), LS_OK);
    for (size_t i = 0; i < bytes; i++)
        for (int bit = 0; bit < 8; bit++) {
            ls_identity *back = NULL;
            text[i] = (char)(text[i] ^ 1 << bit);
            if (ls_identity_from_text("a test", text, bytes, &back) == LS_OK)
                assert_int_equal(ls_identity_diff(identity, back, NULL, 0), 0);
            ls_identity_destroy(back);
            text[i] = (char)(text[i] ^ 1 << bit);
        }
    free(text);
    ls_identity_destroy(identity);
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static void differences_are_told_in_words(void **state) {
    (void)state;
    ls_identity *here = sample(0.001, 7, "adamw", 100), *there = sample(0.0006, 7, "adamw", 500);
    assert_int_equal(ls_identity_check(here, here, "the checkpoint"), LS_OK);
    assert_int_equal(ls_identity_check(here, there, "the checkpoint"), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "not the same experiment: lr is 0.001 here and 0.0006 in the checkpoint. "
                                             "This changes the result, so --resume requires the same values; --fork "
                                             "starts a new run from there");
    assert_false(ls_identity_agree_on(here, there, "lr"));
    assert_true(ls_identity_agree_on(here, there, "seed"));
    assert_true(ls_identity_agree_on(here, there, "groups"));
    ls_identity_destroy(there);

    there = sample(0.001, 8, "sgd", 100);
    assert_int_equal(ls_identity_add_i64(there, "groups", 4, FIXED), LS_OK);
    ls_identity_change changes[8];
    assert_int_equal(ls_identity_diff(here, there, changes, 8), 3);
    assert_string_equal(changes[0].name, "seed");
    assert_string_equal(changes[0].here, "7");
    assert_string_equal(changes[0].there, "8");
    assert_string_equal(changes[1].name, "optimizer");
    assert_string_equal(changes[1].there, "sgd");
    assert_string_equal(changes[2].name, "groups");
    assert_string_equal(changes[2].here, "absent");
    assert_string_equal(changes[2].there, "4");
    strcpy(changes[1].name, "kept");
    assert_int_equal(ls_identity_diff(here, there, changes, 1), 3);
    assert_string_equal(changes[1].name, "kept");
    assert_false(ls_identity_agree_on(here, there, "groups"));
    assert_int_equal(ls_identity_check(here, there, "the run"), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "seed is 7 here and 8 in the run; optimizer is adamw here and sgd in"));
    assert_non_null(strstr(ls_status_message(), "; groups is absent here and 4 in the run."));
    ls_identity_destroy(here);
    ls_identity_destroy(there);
}

/* A field that is free on both sides may differ or be absent; fixed on one side it may not. */
static void free_fields_may_change(void **state) {
    (void)state;
    static const struct {
        ls_identity_rule here, there;
        int64_t value;
        ls_status status;
    } cases[] = {
        {FREE, FREE, 2, LS_OK},          {FREE, FIXED, 2, LS_ERR_INPUT}, {FIXED, FREE, 2, LS_ERR_INPUT},
        {FIXED, FIXED, 2, LS_ERR_INPUT}, {FIXED, FREE, 1, LS_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_identity *here = new_identity(), *there = new_identity();
        assert_int_equal(ls_identity_add_i64(here, "steps", 1, cases[i].here), LS_OK);
        ls_status absent = ls_identity_check(here, there, "it");
        assert_int_equal(absent, cases[i].here == FREE ? LS_OK : LS_ERR_INPUT);
        assert_int_equal(ls_identity_check(there, here, "it"), absent);
        assert_int_equal(ls_identity_add_i64(there, "steps", cases[i].value, cases[i].there), LS_OK);
        assert_int_equal(ls_identity_check(here, there, "it"), cases[i].status);
        ls_identity_destroy(here);
        ls_identity_destroy(there);
    }
}

static void values_of_other_kinds_differ(void **state) {
    (void)state;
    ls_identity *here = new_identity(), *there = new_identity();
    assert_int_equal(ls_identity_add_i64(here, "a", 5, FIXED), LS_OK);
    assert_int_equal(ls_identity_add_f64(there, "a", 5, FIXED), LS_OK);
    assert_int_equal(ls_identity_add_f64(here, "b", 0.0, FIXED), LS_OK);
    assert_int_equal(ls_identity_add_f64(there, "b", -0.0, FIXED), LS_OK);
    assert_int_equal(ls_identity_diff(here, there, NULL, 0), 2);
    ls_identity_change changes[2];
    (void)ls_identity_diff(here, there, changes, 2);
    assert_string_equal(changes[0].here, "5 (a whole number)");
    assert_string_equal(changes[0].there, "5 (a number)");
    assert_string_equal(changes[1].there, "-0");
    ls_identity_destroy(here);
    ls_identity_destroy(there);
}

/* However much differs, the message keeps its end, which says what to do. */
static void long_lists_are_cut(void **state) {
    (void)state;
    ls_identity *here = new_identity(), *there = new_identity();
    char name[LS_IDENTITY_NAME_MAX], value[LS_IDENTITY_VALUE_MAX];
    memset(value, 'v', sizeof value);
    value[sizeof value - 1] = '\0';
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "%060d", i);
        assert_int_equal(ls_identity_add_text(here, name, value, FIXED), LS_OK);
        assert_int_equal(ls_identity_add_i64(there, name, i, FIXED), LS_OK);
    }
    assert_int_equal(ls_identity_check(here, there, "a checkpoint with a very long name indeed, too long"),
                     LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "and 48 more"));
    assert_non_null(strstr(ls_status_message(), "--fork starts a new run from there"));
    ls_identity_destroy(here);
    ls_identity_destroy(there);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_as_documented),         cmocka_unit_test(hash_depends_on_fixed_fields_alone),
        cmocka_unit_test(what_is_written_is_read),       cmocka_unit_test(fields_that_do_not_fit_are_refused),
        cmocka_unit_test(damaged_texts_are_refused),     cmocka_unit_test(every_changed_byte_is_noticed),
        cmocka_unit_test(differences_are_told_in_words), cmocka_unit_test(free_fields_may_change),
        cmocka_unit_test(values_of_other_kinds_differ),  cmocka_unit_test(long_lists_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
