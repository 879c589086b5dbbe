/* test_wire.c: a slow link: no result changes, nothing comes earlier than latency and bandwidth allow, transfers on one
 * link follow each other and overlap with computing. Lower bounds are exact; upper ones leave room for a busy machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/world/wire.h"

enum { WORKERS = 3, ELEMS = 30720, BYTES = ELEMS * 4 };

static const double latency_s = 3e-3, rate = 20e6, slack_s = 0.4;

typedef struct setting {
    double latency_s, bytes_per_s;
} setting;

static setting now_is; /* of the run under way; forked workers have it */

/* What a transfer of `bytes` on the busiest link takes. */
static double expected(double bytes, int hops) {
    return hops * now_is.latency_s + (now_is.bytes_per_s > 0 ? bytes / now_is.bytes_per_s : 0);
}

static ls_status judge(const char *what, double seconds, double least) {
    if (seconds < least) return ls_fail(LS_ERR_FAILED, "%s took %.6f s, less than %.6f s", what, seconds, least);
    if (seconds > least * 1.5 + slack_s)
        return ls_fail(LS_ERR_FAILED, "%s took %.6f s, much more than %.6f s", what, seconds, least);
    return LS_OK;
}

static void fill(float *to, int rank) {
    for (int i = 0; i < ELEMS; i++) to[i] = (float)((i * 7919 + rank * 104729) % 10007) * 1e-3f - 3.0f;
}

/* (0 + 1) + 2: the tree over three groups. */
static float sum_at(int i) {
    float each[WORKERS];
    for (int r = 0; r < WORKERS; r++) each[r] = (float)((i * 7919 + r * 104729) % 10007) * 1e-3f - 3.0f;
    return (each[0] + each[1]) + each[2];
}

static ls_status same(const char *what, const float *got, int first, int count) {
    for (int i = 0; i < count; i++) {
        float wanted = sum_at(first + i);
        if (memcmp(&got[i], &wanted, sizeof wanted) != 0) return ls_fail(LS_ERR_FAILED, "%s: element %d", what, i);
    }
    return LS_OK;
}

/* ---- each operation ---------------------------------------------------------------------------------------------- */

static ls_status check_sums(ls_comm *comm, float *in, float *out) {
    const void *parts[1] = {in};
    int rank = ls_comm_rank(comm);
    size_t bounds[WORKERS + 1];
    double begin;
    ls_shard_bounds(ELEMS, WORKERS, bounds);
    LS_TRY(ls_comm_barrier(comm));
    begin = ls_clock_seconds();
    LS_TRY(ls_comm_reduce_scatter(comm, NULL, LS_F32, parts, out, NULL, ELEMS));
    LS_TRY(judge("reduce-scatter", ls_clock_seconds() - begin, expected(BYTES * 2.0 / 3, 1)));
    LS_TRY(same("reduce-scatter", out, (int)bounds[rank], (int)(bounds[rank + 1] - bounds[rank])));
    LS_TRY(ls_comm_barrier(comm));
    begin = ls_clock_seconds();
    LS_TRY(ls_comm_all_reduce(comm, NULL, LS_F32, parts, out, ELEMS));
    LS_TRY(judge("all-reduce", ls_clock_seconds() - begin, expected(BYTES * 4.0 / 3, 2)));
    LS_TRY(same("all-reduce", out, 0, ELEMS));
    LS_TRY(ls_comm_barrier(comm));
    begin = ls_clock_seconds();
    LS_TRY(ls_comm_all_reduce(comm, NULL, LS_F32, parts, out, 5));
    LS_TRY(judge("small all-reduce", ls_clock_seconds() - begin, expected(40, 1)));
    return same("small all-reduce", out, 0, 5);
}

static ls_status check_moves(ls_comm *comm, float *in, float *out) {
    int rank = ls_comm_rank(comm);
    size_t sizes[WORKERS] = {BYTES / 4, BYTES / 2, BYTES / 4};
    double begin;
    LS_TRY(ls_comm_barrier(comm));
    begin = ls_clock_seconds();
    LS_TRY(ls_comm_all_gather(comm, in, out, sizes));
    /* The largest piece goes out twice. */
    LS_TRY(judge("all-gather", ls_clock_seconds() - begin, expected(BYTES, 1)));
    LS_TRY(ls_comm_barrier(comm));
    begin = ls_clock_seconds();
    LS_TRY(ls_comm_all_to_all(comm, in, out, BYTES / 3));
    LS_TRY(judge("all-to-all", ls_clock_seconds() - begin, expected(BYTES * 2.0 / 3, 1)));
    /* A sender may begin before the others have left the barrier, so clocks start before it. */
    begin = ls_clock_seconds();
    LS_TRY(ls_comm_barrier(comm));
    LS_TRY(ls_comm_broadcast(comm, 1, out, BYTES));
    /* Worker 2 comes first, then worker 0; the root is done when both have read. */
    LS_TRY(judge("broadcast", ls_clock_seconds() - begin, expected(rank == 2 ? BYTES : 2.0 * BYTES, 1)));
    begin = ls_clock_seconds();
    LS_TRY(ls_comm_barrier(comm));
    return judge("barrier", ls_clock_seconds() - begin, expected(0, 1));
}

/* 0 sends two messages to 1: the second waits for the first on both links. */
static ls_status check_messages(ls_comm *comm, float *in, float *out) {
    int rank = ls_comm_rank(comm);
    ls_request *first = NULL, *second = NULL;
    double begin = ls_clock_seconds();
    LS_TRY(ls_comm_barrier(comm));
    if (rank == 0) {
        LS_TRY(ls_comm_send_start(comm, 1, 7, in, BYTES, &first));
        LS_TRY(ls_comm_send_start(comm, 1, 8, in, 512, &second));
    } else if (rank == 1) {
        LS_TRY(ls_comm_recv_start(comm, 0, 7, out, BYTES, &first));
        LS_TRY(ls_comm_recv_start(comm, 0, 8, out + ELEMS / 2, 512, &second));
    }
    LS_TRY(ls_request_wait(first));
    double between = ls_clock_seconds() - begin;
    LS_TRY(ls_request_wait(second));
    if (rank == 1) LS_TRY(judge("message", between, expected(BYTES, 1)));
    if (rank == 1) LS_TRY(judge("second message", ls_clock_seconds() - begin, expected(BYTES + 512, 1)));
    return LS_OK;
}

/* Two sums at once share a link and overlap with what the worker does meanwhile. */
static ls_status check_queue(ls_comm *comm, float *in, float *out) {
    const void *parts[1] = {in};
    ls_request *request[2];
    double least = expected(2 * BYTES * 2.0 / 3, 1);
    LS_TRY(ls_comm_barrier(comm));
    double begin = ls_clock_seconds();
    for (int i = 0; i < 2; i++)
        LS_TRY(ls_comm_reduce_scatter_start(comm, NULL, LS_F32, parts, out + i * ELEMS / 2, NULL, ELEMS, &request[i]));
    for (int i = 0; i < 2; i++) LS_TRY(ls_request_wait(request[i]));
    LS_TRY(judge("two sums", ls_clock_seconds() - begin, least));
    LS_TRY(ls_comm_barrier(comm));
    LS_TRY(ls_comm_reduce_scatter_start(comm, NULL, LS_F32, parts, out, NULL, ELEMS, &request[0]));
    /* The others publish within the slack; then all of it is overlapped with the sleep, whenever a worker polls. */
    ls_clock_sleep_us((uint64_t)(1e6 * (expected(BYTES * 2.0 / 3, 1) + slack_s / 2)));
    begin = ls_clock_seconds();
    LS_TRY(ls_request_wait(request[0]));
    double left = ls_clock_seconds() - begin;
    return left < slack_s / 2 ? LS_OK : ls_fail(LS_ERR_FAILED, "a hidden sum was still waited for, %.6f s", left);
}

static ls_status work(ls_world *world, void *arg) {
    (void)arg;
    ls_comm *comm = ls_world_comm(world);
    void *in, *out;
    LS_TRY(ls_world_alloc(world, BYTES, &in));
    LS_TRY(ls_world_alloc(world, BYTES, &out));
    fill(in, ls_comm_rank(comm));
    LS_TRY(check_sums(comm, in, out));
    LS_TRY(check_moves(comm, in, out));
    LS_TRY(check_messages(comm, in, out));
    return now_is.bytes_per_s > 0 ? check_queue(comm, in, out) : LS_OK;
}

static void run(setting s, double timeout_s, ls_status (*fn)(ls_world *, void *)) {
    now_is = s;
    ls_workers_options options = {.workers = WORKERS,
                                  .threads = 1,
                                  .timeout_s = timeout_s,
                                  .link_latency_s = s.latency_s,
                                  .link_bytes_per_s = s.bytes_per_s};
    if (ls_workers_run(&options, fn, NULL) != LS_OK) fail_msg("%s", ls_status_message());
}

static void test_no_link(void **state) {
    (void)state;
    run((setting){0}, 60, work);
}

static void test_latency_and_bandwidth(void **state) {
    (void)state;
    run((setting){latency_s, rate}, 60, work);
}

static void test_one_of_the_two(void **state) {
    (void)state;
    run((setting){.latency_s = 5e-3}, 60, work);
    run((setting){.bytes_per_s = rate}, 60, work);
}

/* A transfer that takes longer than the timeout does not make its worker a lost one. */
static ls_status take_long(ls_world *world, void *arg) {
    (void)arg;
    char bytes[1200] = {0};
    double begin = ls_clock_seconds();
    LS_TRY(ls_comm_barrier(ls_world_comm(world)));
    LS_TRY(ls_comm_broadcast(ls_world_comm(world), 0, bytes, sizeof bytes));
    return judge("a long broadcast", ls_clock_seconds() - begin, expected(ls_world_rank(world) == 1 ? 1200 : 2400, 1));
}

static void test_no_deadline(void **state) {
    (void)state;
    run((setting){.bytes_per_s = 4000}, 0.2, take_long);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void test_parse(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double latency_s, bytes_per_s;
    } good[] = {{"1ms,100Mbit", 1e-3, 12.5e6}, {"10Gbit,50us", 50e-6, 1.25e9}, {"0.5ms", .5e-3, 0},
                {"1.5MB/s", 0, 1.5e6},         {"0ms,8kbit", 0, 1000},         {"20µs", 20e-6, 0}};
    static const char *const bad[] = {"",        ",",    "1ms,",    "100",         "1ms,100",    "0Mbit",
                                      "-1ms",    "ms",   "1ms,2ms", "1Mbit,2Gbit", "1e3ms",      "11s",
                                      "1.2.3ms", "1 ms", "1mbit",   "nan",         "1ms,-5Mbit", "99999999Gbit"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        double latency, bytes;
        assert_int_equal(ls_wire_parse(good[i].text, &latency, &bytes), LS_OK);
        assert_true(latency > good[i].latency_s * .999999 - 1e-15 && latency < good[i].latency_s * 1.000001 + 1e-15);
        assert_true(bytes > good[i].bytes_per_s * .999999 - 1e-15 && bytes < good[i].bytes_per_s * 1.000001 + 1e-15);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double latency, bytes;
        if (ls_wire_parse(bad[i], &latency, &bytes) != LS_ERR_INPUT) fail_msg("'%s' was taken", bad[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_no_link),
        cmocka_unit_test(test_latency_and_bandwidth),
        cmocka_unit_test(test_one_of_the_two),
        cmocka_unit_test(test_no_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
