/* test_shares.c: when groups are redistributed: a replica that stays slow loses some; noise changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "run/shares.h"

static ls_layout of(int dp, const int *share) {
    ls_layout layout = {.dp = dp, .tp = 1, .pp = 1};
    for (int d = 0; d < dp; d++) layout.share[d] = share[d];
    return layout;
}

static uint32_t seed;
static double draw(void) {
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / (1 << 24);
}

/* Steps of `seconds`, each replica by its time for a group, held up as `noise` says; when it asked, −1: never. */
static double run(ls_share_watch *w, const ls_layout *layout, const double *group_ms, double noise, double seconds,
                  double left_s) {
    double now = 100, end = now + seconds;
    while (now < end) {
        double busy[LS_WORKERS_MAX], step = 0;
        for (int d = 0; d < layout->dp; d++) {
            busy[d] = group_ms[d] * layout->share[d];
            if (draw() < noise) busy[d] *= 1 + 10 * draw();
            if (busy[d] > step) step = busy[d];
        }
        now += step * 1e-3;
        if (ls_share_watch_add(w, busy, now, left_s)) return now - 100;
    }
    return -1;
}

static void a_slow_replica_loses_groups(void **state) {
    (void)state;
    ls_layout layout = of(2, (const int[]){4, 4});
    ls_share_watch w;
    ls_share_watch_begin(&w, &layout, 1, 0, 0);
    double asked = run(&w, &layout, (const double[]){10, 30}, 0.3, 60, 1000);
    assert_true(asked > 5 && asked < 60);
    assert_int_equal(w.share[0], 6);
    assert_int_equal(w.share[1], 2);
    assert_true(w.then_ms < w.step_ms);
    /* With these shares it is content. */
    ls_layout next = of(2, w.share);
    ls_share_watch_begin(&w, &next, 1, 1, 0);
    assert_true(run(&w, &next, (const double[]){10, 30}, 0.3, 120, 1000) < 0);
    /* And when the replica is fast again it gets them back. */
    ls_share_watch_begin(&w, &next, 1, 1, 0);
    assert_true(run(&w, &next, (const double[]){10, 10}, 0.3, 100, 1000) > 0);
    assert_int_equal(w.share[1], 4);
}

static void what_does_not_pay_is_left(void **state) {
    (void)state;
    ls_layout layout = of(2, (const int[]){4, 4});
    ls_share_watch w;
    /* Few steps are left. */
    ls_share_watch_begin(&w, &layout, 1, 0, 0);
    assert_true(run(&w, &layout, (const double[]){10, 30}, 0, 60, 9) < 0);
    /* It costs too much. */
    ls_share_watch_begin(&w, &layout, 100, 0, 0);
    assert_true(run(&w, &layout, (const double[]){10, 30}, 0, 60, 10000) < 0);
    /* A group is too much for the difference. */
    ls_share_watch_begin(&w, &layout, 1, 0, 0);
    assert_true(run(&w, &layout, (const double[]){10, 12}, 0, 60, 10000) < 0);
    /* It was done a moment ago, for the third time. */
    ls_share_watch_begin(&w, &layout, 1, 3, 100);
    double asked = run(&w, &layout, (const double[]){10, 30}, 0, 300, 10000);
    assert_true(asked >= 120 && asked < 140);
    /* Without a layout no speed is watched. */
    ls_share_watch_begin(&w, NULL, 1, 0, 0);
    assert_true(run(&w, &layout, (const double[]){10, 30}, 0, 60, 10000) < 0);
}

static void noise_changes_nothing(void **state) {
    (void)state;
    for (seed = 1; seed < 2000000000u; seed += 97000001u) {
        ls_layout layout = of(4, (const int[]){2, 2, 2, 2});
        ls_share_watch w;
        ls_share_watch_begin(&w, &layout, 0.5, 0, 0);
        uint32_t kept = seed;
        assert_true(run(&w, &layout, (const double[]){10, 10.5, 10, 11}, 0.6, 300, 1e6) < 0);
        seed = kept;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_replica_loses_groups),
        cmocka_unit_test(what_does_not_pay_is_left),
        cmocka_unit_test(noise_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
