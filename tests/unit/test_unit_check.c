/* The comparison of a device's matrix unit with its formula: equal where nothing is wrong, and a single wrong bit of
 * any kind of number is found and told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fault.h"
#include "device/cuda/cuda.h"
#include "device/unit_check.h"

#include "../fake/fake.h"

static struct {
    size_t index; /* of the element whose last bit is turned */
    int calls, skip;
} wrong;

static void spoil(const ls_fault_site *site) {
    uint32_t bits;
    char *at = (char *)site->data + wrong.index * sizeof bits;
    assert_int_equal(site->place, LS_FAULT_PRODUCT);
    assert_string_equal(site->tensor, "hgmma");
    if (wrong.calls++ < wrong.skip) return;
    assert_int_equal(ls_device_copy_out(site->device, &bits, at, sizeof bits), LS_OK);
    bits ^= 1;
    assert_int_equal(ls_device_copy_in(site->device, at, &bits, sizeof bits), LS_OK);
}

static void check_device(ls_device *device) {
    static const ls_dtype types[] = {LS_BF16, LS_F16};
    for (int t = 0; t < 2; t++) {
        double begin = ls_clock_seconds();
        assert_int_equal(ls_device_check_unit(device, LS_UNIT_HGMMA, types[t]), LS_OK);
        print_message("%s: %.1f ms\n", device->name, (ls_clock_seconds() - begin) * 1e3);
        /* Of the first and of the second product; row 1, column 2: numbers far apart with subnormal ones. */
        for (int i = 0; i < 2; i++) {
            wrong.index = 48 + 2, wrong.skip = i, wrong.calls = 0;
            ls_fault_spoil = spoil;
            assert_int_equal(ls_device_check_unit(device, LS_UNIT_HGMMA, types[t]), LS_ERR_INPUT);
            ls_fault_spoil = NULL;
            assert_int_equal(wrong.calls, i + 1);
            assert_true(ls_fail_is_here());
            const char *said = ls_status_message();
            if (!strstr(said, "do not compute by the formula of hgmma: element 1, 2 of a product of"))
                fail_msg("%s", said);
            if (!strstr(said, device->about ? device->about : device->name)) fail_msg("%s", said);
        }
    }
    ls_fault_spoil = spoil;
    wrong.calls = 0;
    assert_int_equal(ls_device_check_unit(device, LS_UNIT_CHAIN, LS_BF16), LS_OK);
    assert_int_equal(wrong.calls, 0);
    ls_fault_spoil = NULL;
}

static void test_fake(void **state) {
    (void)state;
    ls_device *device;
    assert_int_equal(ls_device_open_fake(&device), LS_OK);
    check_device(device);
    ls_device_destroy(device);
}

static void test_cuda(void **state) {
    (void)state;
    ls_device *device;
    if (!getenv("LS_TEST_CUDA")) skip();
    assert_int_equal(ls_device_open_cuda(0, &device), LS_OK);
    check_device(device);
    ls_device_destroy(device);
}

/* There is nothing to compare the CPU with. */
static void test_cpu(void **state) {
    (void)state;
    ls_device *device;
    assert_int_equal(ls_device_open_cpu(1, NULL, NULL, &device), LS_OK);
    ls_fault_spoil = spoil;
    wrong.calls = 0;
    assert_int_equal(ls_device_check_unit(device, LS_UNIT_HGMMA, LS_BF16), LS_OK);
    assert_int_equal(wrong.calls, 0);
    ls_fault_spoil = NULL;
    ls_device_destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fake),
        cmocka_unit_test(test_cuda),
        cmocka_unit_test(test_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
