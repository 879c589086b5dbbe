/* test_json.c: places of mistakes and types of fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/files.h"
#include "base/json.h"

static json_t *load(const char *text) {
    json_t *value = NULL;
    assert_int_equal(ls_json_load_text("text", text, strlen(text), &value), LS_OK);
    return value;
}

static void check_refused(const char *text, const char *start) {
    json_t *value = (json_t *)&value;
    assert_int_equal(ls_json_load_text("run.json", text, strlen(text), &value), LS_ERR_INPUT);
    assert_null(value);
    if (strncmp(ls_status_message(), start, strlen(start)) != 0) fail_msg("%s", ls_status_message());
}

static void mistakes_have_a_place(void **state) {
    (void)state;
    check_refused("{\n  \"a\": 1,\n  \"b\": ?\n}", "run.json:3:");
    check_refused("{\"a\": 1, \"a\": 2}", "run.json:1:");
    assert_non_null(strstr(ls_status_message(), "duplicate"));
    check_refused("", "run.json:1:");
    check_refused("{} x", "run.json:1:");
    check_refused("[1e999]", "run.json:1:");
    check_refused("{\"a\": \"\xff\"}", "run.json:1:");
}

static void files_are_loaded(void **state) {
    (void)state;
    char path[64];
    json_t *value = NULL;
    snprintf(path, sizeof path, "/tmp/ls_test_json.%ld", (long)getpid());
    assert_int_equal(ls_file_write_atomic(path, "{\"a\": [1]}", 10), LS_OK);
    assert_int_equal(ls_json_load_file(path, 100, &value), LS_OK);
    json_t *array = NULL;
    assert_int_equal(ls_json_get_array(value, "a", &array), LS_OK);
    assert_int_equal(json_array_size(array), 1);
    json_decref(value);
    assert_int_equal(ls_json_load_file(path, 5, &value), LS_ERR_INPUT);
    assert_null(value);
    assert_int_equal(ls_file_write_atomic(path, "{\n!", 3), LS_OK);
    assert_int_equal(ls_json_load_file(path, 100, &value), LS_ERR_INPUT);
    assert_int_equal(unlink(path), 0);
    strcat(path, ":2:");
    assert_ptr_equal(strstr(ls_status_message(), path), ls_status_message());
    assert_int_equal(ls_json_load_file("/nonexistent.json", 100, &value), LS_ERR_INPUT);
    assert_null(value);
}

static void fields_have_types(void **state) {
    (void)state;
    json_t *object = load("{\"i\": -7, \"x\": 2.5, \"t\": true, \"s\": \"word\", \"o\": {\"i\": 1}, \"n\": null}");
    int64_t i = 0;
    double x = 0;
    bool t = false;
    const char *s = NULL;
    json_t *o = NULL;
    assert_int_equal(ls_json_get_i64(object, "i", &i), LS_OK);
    assert_true(i == -7);
    assert_int_equal(ls_json_get_f64(object, "x", &x), LS_OK);
    assert_true(x == 2.5);
    assert_int_equal(ls_json_get_f64(object, "i", &x), LS_OK);
    assert_true(x == -7.0);
    assert_int_equal(ls_json_get_bool(object, "t", &t), LS_OK);
    assert_true(t);
    assert_int_equal(ls_json_get_text(object, "s", &s), LS_OK);
    assert_string_equal(s, "word");
    assert_int_equal(ls_json_get_object(object, "o", &o), LS_OK);
    assert_int_equal(ls_json_get_i64(o, "i", &i), LS_OK);
    assert_true(i == 1);

    assert_int_equal(ls_json_get_i64(object, "x", &i), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "field \"x\" is a number; it must be a whole number");
    assert_true(i == 1);
    assert_int_equal(ls_json_get_i64(object, "absent", &i), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "field \"absent\" is missing");
    assert_int_equal(ls_json_get_f64(object, "s", &x), LS_ERR_INPUT);
    assert_int_equal(ls_json_get_bool(object, "i", &t), LS_ERR_INPUT);
    assert_int_equal(ls_json_get_text(object, "n", &s), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "field \"n\" is null; it must be a string");
    assert_int_equal(ls_json_get_array(object, "o", &o), LS_ERR_INPUT);
    assert_int_equal(ls_json_get_object(object, "s", &o), LS_ERR_INPUT);
    json_decref(object);

    json_t *array = load("[1]");
    assert_int_equal(ls_json_get_i64(array, "i", &i), LS_ERR_INPUT);
    json_decref(array);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_have_a_place),
        cmocka_unit_test(files_are_loaded),
        cmocka_unit_test(fields_have_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
