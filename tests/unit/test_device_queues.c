/* test_device_queues.c: queues, events and shared memory of the devices that are not the host: the fake one, and a GPU
 * or what plays one (LS_TEST_CUDA). Two devices of one process stand for two workers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/events.h"
#include "device/cuda/cuda.h"
#include "device/ops.h"

#include "../fake/fake.h"

enum { N = 1000 };

static ls_device *first, *second;

static void ok(ls_status status) {
    if (status != LS_OK) fail_msg("%s", ls_status_message());
}

static float *memory_of(ls_device *device, size_t elems) {
    void *memory;
    ok(ls_device_alloc(device, elems * sizeof(float), &memory));
    return memory;
}

static void scale(ls_device *device, float *y, const float *x, float factor) {
    ok(device->ops->scale(device, &(ls_scale_call){y, x, factor, N}));
}

/* A chain of 200 steps that alternate between two queues. */
static void check_follow(ls_device *device) {
    float *x = memory_of(device, N), host[N];
    ls_event event;
    for (int i = 0; i < N; i++) host[i] = 1;
    ok(ls_device_copy_in(device, x, host, sizeof host));
    for (int step = 0; step < 200; step++) {
        scale(device, x, x, step % 2 ? 0.5f : 4.0f);
        ok(ls_device_record(device, &event));
        (void)ls_device_use(device, step % 2 ? LS_QUEUE_COMPUTE : LS_QUEUE_COMM);
        ok(ls_device_follow(device, event));
        if (step % 50 == 49)
            for (int k = 0; k < 25; k++) scale(device, x, x, 0.5f);
    }
    assert_int_equal(ls_device_use(device, LS_QUEUE_COMPUTE), LS_QUEUE_COMPUTE);
    ok(ls_device_copy_out(device, host, x, sizeof host));
    for (int i = 0; i < N; i++) assert_true(host[i] == 1);
    assert_int_equal(ls_device_follow(device, (ls_event){0, UINT64_MAX}), LS_ERR_INPUT);
    assert_int_equal(ls_device_wait(device, (ls_event){LS_QUEUES, 1}), LS_ERR_INPUT);
    ls_device_free(device, x);
}

/* The second reads what the first wrote after its counter says so, and counts the read; the first overwrites after
 * that. */
static void check_share(void) {
    float *x = memory_of(first, N), *y = memory_of(second, 8 * N), host[8 * N];
    uint64_t *ready = (uint64_t *)(void *)memory_of(first, 4), *read = (uint64_t *)(void *)memory_of(second, 4);
    ls_memory_handle handle;
    void *peer_x, *peer_ready, *peer_read;
    ok(ls_device_finish(first));
    ok(ls_device_finish(second));
    ok(ls_device_share(first, x, &handle));
    ok(ls_device_open(second, &handle, &peer_x));
    ok(ls_device_share(first, ready, &handle));
    ok(ls_device_open(second, &handle, &peer_ready));
    ok(ls_device_share(second, read, &handle));
    ok(ls_device_open(first, &handle, &peer_read));
    (void)ls_device_use(second, LS_QUEUE_COMM);
    for (uint64_t round = 1; round <= 8; round++) {
        ok(ls_device_await(second, peer_ready, round));
        ok(ls_device_copy(second, y + (round - 1) * N, peer_x, N * sizeof *x));
        ok(ls_device_signal(second, read, round));
    }
    for (uint64_t round = 1; round <= 8; round++) {
        ok(ls_device_await(first, peer_read, round - 1));
        ok(first->ops->set(first, &(ls_set_call){x, (float)round, N}));
        ok(ls_device_signal(first, ready, round));
    }
    ok(ls_device_copy_out(second, host, y, sizeof host));
    for (int i = 0; i < 8 * N; i++) assert_true(host[i] == (float)(i / N + 1));
    (void)ls_device_use(second, LS_QUEUE_COMPUTE);
    ls_device_close(first, peer_read);
    ls_device_close(second, peer_ready);
    ls_device_close(second, peer_x);
    ls_device_free(first, x);
    ls_device_free(first, ready);
    ls_device_free(second, y);
    ls_device_free(second, read);
}

static void test_fake(void **state) {
    (void)state;
    ok(ls_device_open_fake(&first));
    ok(ls_device_open_fake(&second));
    assert_true(!first->is_host && ls_device_shares(first));
    check_follow(first);
    check_share();
    ls_device_destroy(first);
    ls_device_destroy(second);
}

/* While a trace is recorded every launch, copy and wait is in it, on its queue, one after the other and inside the
 * host's time; else nothing. */
static void check_times(ls_device *device) {
    float *x = memory_of(device, N);
    ls_event event;
    char *trace = NULL;
    size_t bytes = 0;
    ok(ls_device_read_times(device));
    ok(ls_events_enable(100));
    uint64_t begin_ns = ls_clock_ns();
    ok(ls_device_fill(device, x, 0, N * sizeof *x));
    for (int i = 0; i < 5; i++) scale(device, x, x, 2);
    ok(ls_device_record(device, &event));
    (void)ls_device_use(device, LS_QUEUE_COMM);
    ok(ls_device_follow(device, event));
    scale(device, x, x, 2);
    ok(ls_device_record(device, &event));
    (void)ls_device_use(device, LS_QUEUE_COMPUTE);
    ok(ls_device_wait(device, event));
    ok(ls_device_read_times(device));
    ok(ls_device_read_times(device)); /* nothing is there twice */
    uint64_t end_ns = ls_clock_ns();
    ls_events_disable();
    scale(device, x, x, 2);
    ok(ls_device_finish(device));
    ok(ls_events_json(0, &trace, &bytes));
    int found[2] = {0}, queue = 0;
    double last[2] = {0};
    for (char *next, *at = strtok_r(trace, "\n", &next); at; at = strtok_r(NULL, "\n", &next)) {
        char category[32], name[32];
        double from, dur;
        if (strstr(at, "thread_name")) queue = strstr(at, "\"dp\"") != NULL;
        if (sscanf(
                at,
                "{\"ph\":\"X\",\"cat\":\"%31[^\"]\",\"name\":\"%31[^\"]\",\"pid\":0,\"tid\":%*d,\"ts\":%lf,\"dur\":%lf",
                category, name, &from, &dur) != 4)
            continue;
        static const char *const wanted[2][6] = {{"gpu copies", "gpu elementwise", "gpu elementwise", "gpu elementwise",
                                                  "gpu elementwise", "gpu elementwise"},
                                                 {"gpu waiting", "gpu communication"}};
        assert_true(found[queue] < (queue ? 2 : 6));
        assert_string_equal(category, wanted[queue][found[queue]]);
        if (strstr(category, "elementwise")) assert_non_null(strstr(at, "\"of\":\"scale\""));
        assert_true(from >= last[queue] - 1);
        last[queue] = from + dur;
        /* The clocks were compared at both ends; a GPU's own has a resolution of half a microsecond. */
        assert_true(from >= (double)begin_ns / 1e3 - 100 && last[queue] <= (double)end_ns / 1e3 + 100);
        found[queue]++;
    }
    free(trace);
    assert_int_equal(found[0], 6);
    assert_int_equal(found[1], 2);
    ls_device_free(device, x);
}

static bool is_gone;
static ls_status watch(ls_device_guest *guest) {
    (void)guest;
    return is_gone ? ls_fail(LS_ERR_PEER, "another is gone") : LS_OK;
}
static ls_status take_note(ls_device_guest *guest, void *memory, size_t bytes) {
    (void)guest, (void)memory, (void)bytes;
    return LS_OK;
}
static void forget(ls_device_guest *guest, void *memory) { (void)guest, (void)memory; }
static void leave(ls_device_guest *guest) { (void)guest; }

/* The queue waits for a worker that was lost: what was done before the mark can be read, and is done even where
 * it was not yet when the wait was given up. The device is destroyed. */
static void check_rescue(ls_device *device) {
    ls_device_guest guest = {watch, take_note, forget, leave};
    float *x = memory_of(device, N), *y = memory_of(device, N), host[N];
    uint64_t *counter = (void *)memory_of(device, 2);
    device->guest = &guest;
    is_gone = false;
    for (int i = 0; i < N; i++) host[i] = 1;
    ok(ls_device_copy_in(device, x, host, sizeof host));
    for (int i = 0; i < 10; i++) scale(device, x, x, 2);
    ok(ls_device_mark(device));
    ok(ls_device_await(device, counter, 1));
    scale(device, y, x, 2);
    is_gone = true;
    assert_int_equal(ls_device_copy_out(device, host, y, sizeof host), LS_ERR_PEER);
    memset(host, 0, sizeof host);
    ok(ls_device_rescue(device, host, x, sizeof host));
    for (int i = 0; i < N; i++) assert_true(host[i] == 1024);
    ls_device_free(device, x);
    ls_device_free(device, y);
    ls_device_free(device, counter);
    ls_device_destroy(device);
}

static void test_rescue(void **state) {
    (void)state;
    ok(ls_device_open_fake(&first));
    check_rescue(first);
}

/* A GPU does not open its own process's handles, so only its queues. */
static void test_gpu(void **state) {
    (void)state;
    if (!getenv("LS_TEST_CUDA")) skip();
    ok(ls_device_open_cuda(0, &first));
    check_follow(first);
    check_times(first);
    ok(ls_device_use_graphs(first, LS_GRAPHS_ON));
    for (int i = 0; i < 3; i++) check_follow(first);
    check_times(first);
    ls_device_destroy(first);
}

static void test_gpu_rescue(void **state) {
    (void)state;
    if (!getenv("LS_TEST_CUDA")) skip();
    ok(ls_device_open_cuda(0, &first));
    check_rescue(first);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fake), cmocka_unit_test(test_rescue),
                                       cmocka_unit_test(test_gpu), cmocka_unit_test(test_gpu_rescue)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
