/* test_pool.c: every task runs once, the caller sees what tasks wrote, and pools come and go. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "base/pool.h"

enum { TASKS_MAX = 5000, THREADS_MAX = 16 };

typedef struct tally {
    unsigned char runs[TASKS_MAX]; /* not atomic: each task is its own byte, and the pool orders it before the return */
    atomic_int wrong_thread, wrong_fpenv;
    int threads;
} tally;

static void count_task(void *ctx, size_t task, int thread) {
    tally *t = ctx;
    t->runs[task]++;
    if (thread < 0 || thread >= t->threads) t->wrong_thread++;
    if (!ls_fpenv_is_set()) t->wrong_fpenv++;
}

static void check_each_once(ls_pool *pool, size_t tasks) {
    static tally t;
    memset(t.runs, 0, sizeof t.runs);
    t.wrong_thread = t.wrong_fpenv = 0;
    t.threads = ls_pool_threads(pool);
    ls_pool_run(pool, tasks, count_task, &t);
    for (size_t i = 0; i < TASKS_MAX; i++) assert_int_equal(t.runs[i], i < tasks);
    assert_int_equal(t.wrong_thread, 0);
    assert_int_equal(t.wrong_fpenv, 0);
}

static void each_task_runs_once(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 8, THREADS_MAX};
    static const size_t counts[] = {0, 1, 2, 3, 7, 64, TASKS_MAX};
    ls_fpenv_set();
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        ls_pool *pool = NULL;
        assert_int_equal(ls_pool_create(sizes[s], NULL, &pool), LS_OK);
        assert_int_equal(ls_pool_threads(pool), sizes[s]);
        for (int round = 0; round < 20; round++) {
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) check_each_once(pool, counts[c]);
        }
        ls_pool_destroy(pool);
    }
}

static void no_pool_is_a_plain_loop(void **state) {
    (void)state;
    ls_fpenv_set();
    assert_int_equal(ls_pool_threads(NULL), 1);
    check_each_once(NULL, 100);
    ls_pool_destroy(NULL);
}

typedef struct sum {
    long part[THREADS_MAX * 16];
} sum;

static void add_task(void *ctx, size_t task, int thread) { ((sum *)ctx)->part[16 * thread] += (long)task + 1; }

/* Many short runs, some with a pause that lets the threads fall asleep. */
static void runs_follow_each_other(void **state) {
    (void)state;
    for (int threads = 2; threads <= 5; threads++) {
        ls_pool *pool = NULL;
        assert_int_equal(ls_pool_create(threads, NULL, &pool), LS_OK);
        sum s = {{0}};
        long expected = 0;
        for (int round = 0; round < 4000; round++) {
            size_t tasks = (size_t)(2 + round % 9);
            ls_pool_run(pool, tasks, add_task, &s);
            expected += (long)(tasks * (tasks + 1) / 2);
            if (round % 500 == 0) ls_clock_sleep_us(300);
        }
        long got = 0;
        for (int t = 0; t < threads; t++) got += s.part[16 * t];
        assert_int_equal(got, expected);
        ls_pool_destroy(pool);
    }
}

/* Whether all of them are there at once; the limit is for code that is broken, not for a machine that is busy. */
static bool meet(atomic_int *arrived, int all) {
    uint64_t end_ns = ls_clock_ns() + 30000000000u;
    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < all && ls_clock_ns() < end_ns) sched_yield();
    return atomic_load(arrived) >= all;
}

typedef struct meeting {
    atomic_int arrived, met;
} meeting;

static void wait_for_all(void *ctx, size_t task, int thread) {
    (void)task, (void)thread;
    meeting *m = ctx;
    if (meet(&m->arrived, 3)) atomic_fetch_add(&m->met, 1);
}

/* Three tasks that each need the other two: only three threads at once get through without the deadline. */
static void threads_really_run_together(void **state) {
    (void)state;
    ls_pool *pool = NULL;
    assert_int_equal(ls_pool_create(3, NULL, &pool), LS_OK);
    for (int round = 0; round < 5; round++) {
        meeting m = {.arrived = 0};
        ls_pool_run(pool, 3, wait_for_all, &m);
        assert_int_equal(m.met, 3);
        ls_clock_sleep_us(200);
    }
    ls_pool_destroy(pool);
}

static void pools_come_and_go(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++) {
        ls_pool *a = NULL, *b = NULL;
        assert_int_equal(ls_pool_create(3, NULL, &a), LS_OK);
        assert_int_equal(ls_pool_create(2, NULL, &b), LS_OK);
        sum s = {{0}};
        if (round % 2) ls_pool_run(a, 8, add_task, &s);
        ls_pool_destroy(a);
        ls_pool_destroy(b);
    }
}

static void bad_sizes_are_refused(void **state) {
    (void)state;
    ls_pool *pool = (ls_pool *)&pool;
    assert_int_equal(ls_pool_create(0, NULL, &pool), LS_ERR_INPUT);
    assert_null(pool);
    assert_int_equal(ls_pool_create(-3, NULL, &pool), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "-3 threads"));
    assert_int_equal(ls_pool_create(LS_POOL_THREADS_MAX + 1, NULL, &pool), LS_ERR_INPUT);
}

typedef struct places {
    int cpu[2];
    atomic_int arrived;
} places;

static void note_place(void *ctx, size_t task, int thread) {
    places *p = ctx;
    cpu_set_t set;
    (void)task;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1) {
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (CPU_ISSET(cpu, &set)) p->cpu[thread] = cpu;
        }
    }
    (void)meet(&p->arrived, 2);
}

static void threads_are_pinned(void **state) {
    (void)state;
    cpu_set_t before;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    int first = 0, last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(first, &before)) first++;
    while (!CPU_ISSET(last, &before)) last--;
    const int cpus[2] = {last, first};
    ls_pool *pool = NULL;
    places p;
    ls_status status;
    bool was_crowded;
    /* Again where other programs have driven the threads from their CPUs. */
    do {
        p = (places){.cpu = {-1, -1}};
        status = ls_pool_create(2, cpus, &pool);
        if (status == LS_OK) ls_pool_run(pool, 2, note_place, &p);
        was_crowded = ls_pool_is_crowded(pool);
        ls_pool_destroy(pool);
        assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    } while (was_crowded);
    assert_int_equal(status, LS_OK);
    assert_int_equal(p.cpu[0], last);
    assert_int_equal(p.cpu[1], first);

    const int absent[2] = {-1, 100000};
    assert_int_equal(ls_pool_create(2, absent, &pool), LS_ERR_INPUT);
    assert_null(pool);
    assert_non_null(strstr(ls_status_message(), "CPU 100000"));
}

static void the_rule_for_crowded_cores(void **state) {
    (void)state;
    const uint64_t ms = 1000000;
    assert_false(ls_pool_waits_for_cores(0, 0, 10 * ms));
    assert_false(ls_pool_waits_for_cores(2 * ms, 1, 10 * ms));
    assert_true(ls_pool_waits_for_cores(3 * ms, 1, 10 * ms));
    assert_true(ls_pool_waits_for_cores(40 * ms, 5, 10 * ms));
    /* Many short waits are those for an idle core to wake up. */
    assert_false(ls_pool_waits_for_cores(3 * ms, 100, 10 * ms));
    assert_true(ls_pool_waits_for_cores(6 * ms, 100, 10 * ms));
}

enum { RIVALS = 3 };

typedef struct rivals {
    pthread_t thread[2 * RIVALS];
    int cpus[2];
    atomic_bool stop;
    atomic_int started;
} rivals;

static void *keep_core_busy(void *arg) {
    rivals *r = arg;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(r->cpus[atomic_fetch_add(&r->started, 1) % 2], &set);
    (void)sched_setaffinity(0, sizeof set, &set);
    while (!atomic_load_explicit(&r->stop, memory_order_relaxed)) {
    }
    return NULL;
}

static void take_some_time(void *ctx, size_t task, int thread) {
    (void)ctx, (void)task, (void)thread;
    uint64_t end_ns = ls_clock_ns() + 100000;
    while (ls_clock_ns() < end_ns) {
    }
}

typedef struct looks {
    bool is_pinned[2];
    atomic_int arrived;
} looks;

static void note_pinned(void *ctx, size_t task, int thread) {
    looks *l = ctx;
    cpu_set_t set;
    (void)task;
    l->is_pinned[thread] = sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1;
    (void)meet(&l->arrived, 2);
}

/* Runs until both threads are where they should be; the limit is for code that is broken. */
static bool run_until_pinned(ls_pool *pool, bool pinned, uint64_t limit_s) {
    uint64_t end_ns = ls_clock_ns() + limit_s * 1000000000u;
    looks l;
    do {
        for (int i = 0; i < 50; i++) ls_pool_run(pool, 4, take_some_time, NULL);
        l = (looks){.arrived = 0};
        ls_pool_run(pool, 2, note_pinned, &l);
    } while ((l.is_pinned[0] != pinned || l.is_pinned[1] != pinned) && ls_clock_ns() < end_ns);
    return l.is_pinned[0] == pinned && l.is_pinned[1] == pinned;
}

/* How much of a quarter of a second this thread waits for a core. */
static bool cores_are_free(ls_pool *pool) {
    int fd = ls_clock_queue_open();
    ls_clock_queue before = ls_clock_queue_read(fd);
    uint64_t start_ns = ls_clock_ns();
    while (ls_clock_ns() < start_ns + 250000000) ls_pool_run(pool, 4, take_some_time, NULL);
    ls_clock_queue now = ls_clock_queue_read(fd);
    (void)close(fd);
    return now.waited_ns - before.waited_ns < (ls_clock_ns() - start_ns) / 100;
}

/* On CPUs that others keep busy threads do not spin, and leave their CPUs; they take them again when those have
 * gone. */
static void crowded_threads_leave_their_cpus(void **state) {
    (void)state;
    static rivals r;
    cpu_set_t before;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    int fd = ls_clock_queue_open();
    if (CPU_COUNT(&before) < 2 || fd < 0) skip();
    (void)close(fd);
    int first = 0, last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(first, &before)) first++;
    while (!CPU_ISSET(last, &before)) last--;
    const int cpus[2] = {first, last};
    r = (rivals){.cpus = {first, last}};
    for (int i = 0; i < 2 * RIVALS; i++) assert_int_equal(pthread_create(&r.thread[i], NULL, keep_core_busy, &r), 0);
    ls_pool *pool = NULL;
    ls_status status = ls_pool_create(2, cpus, &pool);
    bool left = status == LS_OK && run_until_pinned(pool, false, 60), was_crowded = ls_pool_is_crowded(pool);
    atomic_store(&r.stop, true);
    for (int i = 0; i < 2 * RIVALS; i++) (void)pthread_join(r.thread[i], NULL);
    bool are_back = status == LS_OK && run_until_pinned(pool, true, 3), had_to = are_back || cores_are_free(pool);
    ls_pool_destroy(pool);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(status, LS_OK);
    assert_true(left);
    assert_true(was_crowded);
    assert_false(ls_pool_is_crowded(NULL));
    if (had_to) assert_true(are_back);
}

static void note_signal_mask(void *ctx, size_t task, int thread) {
    places *p = ctx;
    sigset_t set;
    (void)task;
    if (pthread_sigmask(SIG_BLOCK, NULL, &set) == 0) p->cpu[thread] = sigismember(&set, SIGTERM);
    (void)meet(&p->arrived, 2);
}

static void signals_are_left_to_the_caller(void **state) {
    (void)state;
    ls_pool *pool = NULL;
    places p = {.cpu = {-1, -1}};
    assert_int_equal(ls_pool_create(2, NULL, &pool), LS_OK);
    ls_pool_run(pool, 2, note_signal_mask, &p);
    ls_pool_destroy(pool);
    assert_int_equal(p.cpu[0], 0);
    assert_int_equal(p.cpu[1], 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_task_runs_once),        cmocka_unit_test(no_pool_is_a_plain_loop),
        cmocka_unit_test(runs_follow_each_other),     cmocka_unit_test(threads_really_run_together),
        cmocka_unit_test(pools_come_and_go),          cmocka_unit_test(bad_sizes_are_refused),
        cmocka_unit_test(threads_are_pinned),         cmocka_unit_test(signals_are_left_to_the_caller),
        cmocka_unit_test(the_rule_for_crowded_cores), cmocka_unit_test(crowded_threads_leave_their_cpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
