/* test_comm_trace.c: what a trace tells about communication: each operation from its start to its end, and the waiting
 * apart from it. Two workers; what worker 0 recorded is looked at in worker 0, and a failing check fails the run. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/events.h"
#include "base/status.h"

enum { ELEMS = 50000 };

static ls_status parse_events(int rank, json_t **out) {
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_events_json(rank, &text, &bytes));
    char *whole = malloc(bytes + 3);
    if (!whole) return ls_fail(LS_ERR_RESOURCE, "out of memory");
    snprintf(whole, bytes + 3, "[%s]", text);
    *out = json_loads(whole, 0, NULL);
    free(whole);
    free(text);
    return *out ? LS_OK : ls_fail(LS_ERR_FAILED, "the events are not JSON");
}

static const char *text_of(const json_t *event, const char *key) {
    const char *text = json_string_value(json_object_get(event, key));
    return text ? text : "";
}

static double number_of(const json_t *event, const char *key) { return json_number_value(json_object_get(event, key)); }

/* The first event of this type, name and (if given) subject; its number in the array in *at. */
static json_t *find(json_t *array, const char *type, const char *name, const char *of, size_t *at) {
    for (*at = 0; *at < json_array_size(array); ++*at) {
        json_t *event = json_array_get(array, *at);
        if (strcmp(text_of(event, "ph"), type) != 0 || strcmp(text_of(event, "name"), name) != 0) continue;
        if (strcmp(text_of(event, "cat"), "comm") != 0) continue;
        if (!of || strcmp(text_of(json_object_get(event, "args"), "of"), of) == 0) return event;
    }
    return NULL;
}

/* Start and length in microseconds, and n, of an operation. */
static ls_status operation(json_t *array, const char *name, double *start, double *length, int64_t *n) {
    size_t at;
    json_t *begin = find(array, "b", name, NULL, &at), *end = json_array_get(array, at + 1);
    if (!begin || strcmp(text_of(end, "ph"), "e") != 0 || strcmp(text_of(end, "id"), text_of(begin, "id")) != 0)
        return ls_fail(LS_ERR_FAILED, "no pair of events for %s", name);
    *start = number_of(begin, "ts");
    *length = number_of(end, "ts") - *start;
    *n = json_integer_value(json_object_get(json_object_get(begin, "args"), "n"));
    return LS_OK;
}

/* Worker 1 comes 100 ms late to a sum that worker 0 began and waits for after 20 ms of other work. */
static ls_status overlap(ls_comm *comm, float *in, float *out, uint64_t *end_ns) {
    const void *parts[1] = {in};
    ls_request *request = NULL;
    int64_t word = 0;
    bool late = ls_comm_rank(comm) == 1;
    if (late) {
        LS_TRY(ls_comm_recv(comm, 0, 1, &word, sizeof word));
        ls_clock_sleep_us(100000);
    }
    LS_TRY(ls_comm_all_reduce_start(comm, NULL, LS_F32, parts, out, ELEMS, &request));
    if (!late) {
        LS_TRY(ls_comm_send(comm, 1, 1, &word, sizeof word));
        ls_clock_sleep_us(20000);
    }
    LS_TRY(ls_request_wait(request));
    *end_ns = ls_clock_ns();
    return LS_OK;
}

/* Bounds that hold however late a busy machine lets a worker go on. */
static ls_status check_overlap(json_t *array, uint64_t end_ns) {
    double start, length;
    int64_t n;
    size_t at;
    LS_TRY(operation(array, "all_reduce", &start, &length, &n));
    json_t *wait = find(array, "X", "wait", "all_reduce", &at);
    if (!wait) return ls_fail(LS_ERR_FAILED, "no wait for the all-reduce");
    double waited = number_of(wait, "dur"), wait_start = number_of(wait, "ts");
    /* Half of the elements to the other one, and half of the result. */
    if (n != ELEMS * 4) return ls_fail(LS_ERR_FAILED, "an all-reduce of %lld bytes", (long long)n);
    if (length < 99999 || wait_start < start + 19999 || wait_start + waited > (double)end_ns * 1e-3 + 1)
        return ls_fail(LS_ERR_FAILED, "it took %g us, of which %g us were waited", length, waited);
    return LS_OK;
}

static ls_status everything(ls_comm *comm, float *in, float *out) {
    size_t bytes[2] = {64, 64};
    int rank = ls_comm_rank(comm);
    const void *parts[1] = {in};
    ls_request *sending = NULL;
    LS_TRY(ls_comm_barrier(comm));
    LS_TRY(ls_comm_broadcast(comm, 0, out, 64));
    LS_TRY(ls_comm_all_gather(comm, in, out, bytes));
    LS_TRY(ls_comm_all_to_all(comm, in, out, 64));
    LS_TRY(ls_comm_reduce_scatter(comm, NULL, LS_F32, parts, out, NULL, 4096));
    LS_TRY(ls_comm_send_start(comm, 1 - rank, 0, in, ELEMS * 4, &sending));
    LS_TRY(ls_comm_recv(comm, 1 - rank, 0, out, ELEMS * 4));
    return ls_request_wait(sending);
}

static ls_status check_everything(json_t *array) {
    static const char *const names[] = {"barrier",        "broadcast", "all_gather", "all_to_all",
                                        "reduce_scatter", "send",      "receive"};
    static const int64_t bytes[] = {0, 64, 64, 64, 2048 * 4, 8, ELEMS * 4}; /* the first of each */
    double start, length;
    int64_t n;
    size_t at;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        LS_TRY(operation(array, names[i], &start, &length, &n));
        if (n != bytes[i]) return ls_fail(LS_ERR_FAILED, "%s: %lld bytes", names[i], (long long)n);
    }
    return find(array, "X", "copy", NULL, &at) ? LS_OK : ls_fail(LS_ERR_FAILED, "no copy");
}

static ls_status worker(ls_world *world, void *arg) {
    (void)arg;
    void *in = NULL, *out = NULL;
    json_t *array = NULL;
    uint64_t end_ns = 0;
    ls_status status;
    LS_TRY_OUT(ls_world_alloc(world, ELEMS * 4, &in));
    LS_TRY_OUT(ls_world_alloc(world, ELEMS * 4, &out));
    LS_TRY_OUT(ls_events_enable(1000));
    LS_TRY_OUT(overlap(ls_world_comm(world), in, out, &end_ns));
    LS_TRY_OUT(everything(ls_world_comm(world), in, out));
    ls_events_disable();
    LS_TRY_OUT(ls_comm_barrier(ls_world_comm(world)));
    if (ls_world_rank(world) == 0) {
        LS_TRY_OUT(parse_events(0, &array));
        LS_TRY_OUT(check_overlap(array, end_ns));
        LS_TRY_OUT(check_everything(array));
    }
out:
    json_decref(array);
    ls_world_free(world, in);
    ls_world_free(world, out);
    return status;
}

static void operations_and_waits_are_traced(void **state) {
    (void)state;
    ls_workers_options options = {.workers = 2, .threads = 1, .timeout_s = 60, .no_pin = 1};
    if (ls_workers_run(&options, worker, NULL) != LS_OK) fail_msg("%s", ls_status_message());
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(operations_and_waits_are_traced)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
