/* Lists that grow and blocks that are released together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/memory.h"

static void a_list_grows_and_keeps_its_elements(void **state) {
    (void)state;
    int *list = NULL;
    size_t capacity = 0;
    for (int i = 0; i < 1000; i++) {
        list = ls_list_grow(list, (size_t)i, &capacity, sizeof *list);
        assert_non_null(list);
        assert_true(capacity > (size_t)i);
        list[i] = i;
    }
    for (int i = 0; i < 1000; i++) assert_int_equal(list[i], i);
    size_t before = capacity;
    assert_ptr_equal(ls_list_grow(list, 1, &capacity, sizeof *list), list);
    assert_int_equal(capacity, before);
    free(list);
}

static void a_region_gives_zeros_and_remembers_what_it_could_not_give(void **state) {
    (void)state;
    ls_region region = {0};
    for (size_t n = 0; n < 100; n++) {
        unsigned char *block = ls_region_take(&region, n, 3);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < 3 * n; i++) assert_int_equal(block[i]++, 0);
    }
    assert_false(region.is_short);
    assert_null(ls_region_take(&region, SIZE_MAX / 2, 3));
    assert_null(ls_region_take(&region, SIZE_MAX, 1));
    assert_true(region.is_short);
    ls_region_free(&region);
    assert_null(region.last);
    assert_false(region.is_short);
    ls_region_free(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_grows_and_keeps_its_elements),
        cmocka_unit_test(a_region_gives_zeros_and_remembers_what_it_could_not_give),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
