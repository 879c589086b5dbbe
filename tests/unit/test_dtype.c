/* test_dtype.c: element types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "device/dtype.h"

static void dtypes_have_sizes_and_names(void **state) {
    (void)state;
    static const struct {
        ls_dtype dtype;
        const char *name;
        size_t bytes;
    } known[] = {{LS_F32, "f32", 4}, {LS_BF16, "bf16", 2}, {LS_F16, "f16", 2}, {LS_I64, "i64", 8}, {LS_U8, "u8", 1}};
    assert_int_equal(sizeof known / sizeof known[0], LS_DTYPE_COUNT);
    for (size_t i = 0; i < LS_DTYPE_COUNT; i++) {
        assert_int_equal(ls_dtype_bytes(known[i].dtype), known[i].bytes);
        assert_string_equal(ls_dtype_name(known[i].dtype), known[i].name);
    }
    assert_string_equal(ls_dtype_name(LS_DTYPE_COUNT), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtypes_have_sizes_and_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
