/* test_tensor.c: element types and shapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tensor/dtype.h"
#include "tensor/shape.h"

static void dtypes_have_sizes_and_names(void **state) {
    (void)state;
    static const struct {
        ls_dtype dtype;
        const char *name;
        size_t bytes;
    } known[] = {{LS_F32, "f32", 4}, {LS_BF16, "bf16", 2}, {LS_F16, "f16", 2}, {LS_I64, "i64", 8}, {LS_U8, "u8", 1}};
    assert_int_equal(sizeof known / sizeof known[0], LS_DTYPE_COUNT);
    for (size_t i = 0; i < LS_DTYPE_COUNT; i++) {
        ls_dtype parsed = LS_DTYPE_COUNT;
        assert_int_equal(ls_dtype_bytes(known[i].dtype), known[i].bytes);
        assert_string_equal(ls_dtype_name(known[i].dtype), known[i].name);
        assert_int_equal(ls_dtype_parse(known[i].name, &parsed), LS_OK);
        assert_int_equal(parsed, known[i].dtype);
    }
    ls_dtype dtype = LS_F16;
    assert_int_equal(ls_dtype_parse("f64", &dtype), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "'f64'"));
    assert_int_equal(dtype, LS_F16);
    assert_string_equal(ls_dtype_name(LS_DTYPE_COUNT), "unknown");
}

static void check_shape(ls_shape shape, size_t elems, const char *text) {
    char got[LS_SHAPE_TEXT_BYTES];
    size_t n = 77;
    assert_int_equal(ls_shape_elems(&shape, &n), LS_OK);
    assert_int_equal(n, elems);
    ls_shape_text(&shape, got);
    assert_string_equal(got, text);
}

static void shapes_are_counted_and_printed(void **state) {
    (void)state;
    check_shape((ls_shape){.ndim = 0}, 1, "scalar");
    check_shape((ls_shape){1, {5}}, 5, "5");
    check_shape((ls_shape){3, {2, 3, 4}}, 24, "2×3×4");
    check_shape((ls_shape){4, {2, 3, 4, 5}}, 120, "2×3×4×5");
    check_shape((ls_shape){4, {SIZE_MAX, SIZE_MAX, 0, SIZE_MAX}}, 0,
                "18446744073709551615×18446744073709551615×0×18446744073709551615");
}

static void overflow_is_an_error(void **state) {
    (void)state;
    size_t n = 77;
    ls_shape large = {2, {(size_t)1 << 32, (size_t)1 << 32}};
    assert_int_equal(ls_shape_elems(&large, &n), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "4294967296×4294967296"));
    ls_shape just_fits = {2, {(size_t)1 << 31, (size_t)1 << 32}};
    assert_int_equal(ls_shape_elems(&just_fits, &n), LS_OK);
    assert_true(n == (size_t)1 << 63);
    assert_int_equal(ls_shape_bytes(&just_fits, LS_U8, &n), LS_OK);
    assert_int_equal(ls_shape_bytes(&just_fits, LS_BF16, &n), LS_ERR_INPUT);
    assert_true(n == (size_t)1 << 63);
    ls_shape negative = {.ndim = -1}, deep = {.ndim = 5};
    assert_int_equal(ls_shape_elems(&negative, &n), LS_ERR_INPUT);
    assert_int_equal(ls_shape_elems(&deep, &n), LS_ERR_INPUT);
    ls_shape plain = {2, {3, 5}};
    assert_int_equal(ls_shape_bytes(&plain, LS_I64, &n), LS_OK);
    assert_int_equal(n, 120);
}

static void shapes_are_compared(void **state) {
    (void)state;
    ls_shape a = {2, {3, 5, 7}}, b = {2, {3, 5, 9}}, c = {3, {3, 5, 7}}, d = {2, {3, 6}};
    assert_true(ls_shape_equal(&a, &b));
    assert_false(ls_shape_equal(&a, &c));
    assert_false(ls_shape_equal(&a, &d));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtypes_have_sizes_and_names),
        cmocka_unit_test(shapes_are_counted_and_printed),
        cmocka_unit_test(overflow_is_an_error),
        cmocka_unit_test(shapes_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
