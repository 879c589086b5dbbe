/* test_device_link.c: a link with one member moves bytes to itself, in the order of the queue. NCCL's, on a GPU or what
 * plays one (LS_TEST_CUDA); it shows that the library loads and takes our declarations of its interface. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "device/choose.h"
#include "device/device.h"

enum { BYTES = 3 << 20, PATIENCE_S = 60 };

static void ok(ls_status status) {
    if (status != LS_OK) fail_msg("%s", ls_status_message());
}

static void settle(ls_device *device, ls_link *link) {
    double begin = ls_clock_seconds();
    for (bool settled = false; !settled;) {
        ok(ls_device_link_settled(device, link, &settled));
        assert_true(ls_clock_seconds() - begin < PATIENCE_S);
    }
}

static void move(ls_device *device, ls_link *link) {
    void *from, *to, *host = malloc(BYTES);
    ok(ls_device_alloc(device, BYTES, &from));
    ok(ls_device_alloc(device, BYTES, &to));
    for (int turn = 1; turn <= 3; turn++) {
        ok(ls_device_fill(device, from, (unsigned char)turn, BYTES));
        const ls_link_piece pieces[2] = {{from, (size_t)BYTES - 1, 0, true}, {to, (size_t)BYTES - 1, 0, false}};
        ok(ls_device_link_move(device, link, pieces, 2));
        settle(device, link);
        ok(ls_device_fill(device, from, 99, BYTES)); /* after it was sent */
        ok(ls_device_copy_out(device, host, to, BYTES));
        for (size_t i = 0; i < BYTES - 1; i++) assert_int_equal(((unsigned char *)host)[i], turn);
        assert_int_equal(((unsigned char *)host)[BYTES - 1], 0);
    }
    ls_device_free(device, from);
    ls_device_free(device, to);
    free(host);
}

static void test_one_member(void **state) {
    (void)state;
    if (!getenv("LS_TEST_CUDA")) skip();
    ls_device *device;
    ls_link_id id;
    ls_link *link;
    ls_event event;
    bool passed;
    ok(ls_device_open_named("cuda", 0, &device));
    if (ls_device_link_id(device, &id) != LS_OK) {
        printf("%s\n", ls_status_message());
        ls_device_destroy(device);
        skip();
    }
    ok(ls_device_link_open(device, &id, 0, 1, &link));
    settle(device, link);
    move(device, link);
    ok(ls_device_record(device, &event));
    ok(ls_device_finish(device));
    ok(ls_device_passed(device, event, &passed));
    assert_true(passed);
    ls_device_link_close(device, link);
    ls_device_destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_member)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
