/* test_scaling.c: a fit finds the numbers that times were made from; predictions and crossovers follow from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "lab/scale/scaling.h"

enum { RS = LS_TRAFFIC_REDUCE_SCATTER, AR = LS_TRAFFIC_ALL_REDUCE, AG = LS_TRAFFIC_ALL_GATHER };

/* What times are made from. */
typedef struct truth {
    double c, d, f, g, alpha, beta, hides, idle, other, params;
} truth;

static const truth usual = {
    .c = 2e-3, .f = 1e-3, .g = .5e-3, .alpha = 1e-3, .beta = 8e-8, .other = 1e-4, .params = 1e6};

static ls_scaling_point size_of(const truth *t, int workers, size_t batch) {
    ls_scaling_point p = {.workers = workers, .batch = batch, .crowding = 1};
    p.sequences = (double)((batch + (size_t)workers - 1) / (size_t)workers);
    if (workers == 1) return p;
    double share = (workers - 1.0) / workers;
    p.messages[RS] = 6;
    p.bytes[RS] = 4 * t->params * share;
    p.messages[AR] = 2;
    p.bytes[AR] = 100 * share;
    p.messages[AG] = 1;
    p.bytes[AG] = 4 * t->params * share;
    return p;
}

/* `wobble`: relative errors of measuring, with signs that change from point to point. */
static ls_scaling_point measured(const truth *t, int workers, size_t batch, double wobble) {
    ls_scaling_point p = size_of(t, workers, batch);
    p.compute = ((t->c + t->d * (1 - 1.0 / workers)) * p.sequences + t->f / workers + t->g) * (1 + wobble);
    p.idle = workers > 1 ? t->idle * p.compute : 0;
    p.other = t->other;
    for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
        double all = t->alpha * p.messages[k] + t->beta * p.bytes[k];
        double room = k == RS ? t->hides * p.compute : 0;
        p.own[k] = all * (1 - wobble);
        p.hidden[k] = all < room ? all : room;
        p.sync[k] = (all - p.hidden[k]) * (1 - wobble);
    }
    p.seconds = p.compute + p.idle + p.other + ls_scaling_sync_of(&p);
    return p;
}

static int measure_all(const truth *t, double wobble, ls_scaling_point *points) {
    static const int workers[] = {1, 2, 4};
    static const size_t batches[] = {8, 32, 64};
    int n = 0;
    for (int w = 0; w < 3; w++)
        for (int b = 0; b < 3; b++, wobble = -wobble) points[n++] = measured(t, workers[w], batches[b], wobble);
    return n;
}

static void near(const char *what, double got, double wanted, double share) {
    double least = wanted * (1 - share), most = wanted * (1 + share);
    if (!(got >= least - 1e-15 && got <= most + 1e-15)) fail_msg("%s is %g, not %g", what, got, wanted);
}

static void check_fit(const truth *t, double wobble, double share) {
    ls_scaling_point points[16];
    ls_scaling_fit fit;
    int n = measure_all(t, wobble, points);
    assert_true(ls_scaling_fit_make(points, n, &fit));
    near("a sequence", fit.sequence_s, t->c, share);
    near("sharing", fit.contended_s, t->d, share + (wobble > 0 ? 1 : 0));
    near("a message", fit.latency_s, t->alpha, 3 * share);
    near("a byte", fit.byte_s, t->beta, 3 * share);
    if (t->hides > 0) near("hiding", fit.hides, t->hides, .02 + 10 * share);
    near("idling", fit.idle, t->idle, share);
    assert_true(fit.error < wobble + .01);
    for (int w = 8; w <= 16; w *= 2) {
        ls_scaling_point next = measured(t, w, 64, 0);
        near("the next size", ls_scaling_predict(&fit, &next, 1).seconds, next.seconds, .01 + 4 * share);
    }
}

static void test_finds_what_times_were_made_from(void **state) {
    (void)state;
    truth hiding = usual, idle = usual, contended = usual;
    hiding.hides = .3;
    idle.idle = .07;
    contended.d = .8e-3;
    check_fit(&usual, 0, 1e-6);
    check_fit(&hiding, 0, 1e-3);
    check_fit(&idle, 0, 1e-6);
    check_fit(&contended, 0, 1e-6);
    check_fit(&usual, .01, .03);
    check_fit(&hiding, .01, .03);
}

/* By search, from the truth. */
static size_t first_batch(const truth *t, int workers) {
    for (size_t each = 1; each < 100000; each++) {
        size_t batch = each * (size_t)workers;
        if (measured(t, workers, batch, 0).seconds < measured(t, 1, batch, 0).seconds) return batch;
    }
    return 0;
}

static void test_batch_crossover(void **state) {
    (void)state;
    ls_scaling_point points[16];
    ls_scaling_fit fit;
    int n = measure_all(&usual, 0, points);
    assert_true(ls_scaling_fit_make(points, n, &fit));
    for (int w = 2; w <= 8; w *= 2) {
        ls_scaling_point like = size_of(&usual, w, 64);
        size_t wanted = first_batch(&usual, w), got = ls_scaling_batch_crossover(&fit, &like, 1);
        assert_true(wanted > (size_t)w);
        assert_int_equal(got, wanted);
        assert_true(ls_scaling_batch_crossover(&fit, &like, 1.2) >= got);
    }
    truth slow = usual;
    slow.idle = 3; /* every worker waits so long that two are never faster than one */
    n = measure_all(&slow, 0, points);
    assert_true(ls_scaling_fit_make(points, n, &fit));
    ls_scaling_point like = size_of(&slow, 2, 8);
    assert_int_equal(ls_scaling_batch_crossover(&fit, &like, 1), 0);
}

static void test_rate_crossover(void **state) {
    (void)state;
    ls_scaling_point points[16];
    ls_scaling_fit fit;
    int n = measure_all(&usual, 0, points);
    assert_true(ls_scaling_fit_make(points, n, &fit));
    /* 2 workers, batch 64: computing gains 32 c + f / 2; 9 messages cost 9 ms; what is left pays for the bytes. */
    ls_scaling_point p = size_of(&usual, 2, 64);
    double gain = 32 * usual.c + usual.f / 2 - 9 * usual.alpha, bytes = 4e6 + 50;
    near("the bandwidth", ls_scaling_rate_crossover(&fit, &p, 1 / usual.beta, 1), bytes / gain, 1e-3);
    p = size_of(&usual, 2, 2);
    assert_true(ls_scaling_rate_crossover(&fit, &p, 1 / usual.beta, 1) == 0);
}

/* By search, from the truth: memory takes `own` for a byte, and the link the rest. */
static double first_rate(truth t, int workers, size_t batch, double own) {
    double low = 1, high = 1e13;
    for (int i = 0; i < 200; i++) {
        double middle = low > 1e6 ? (low + high) / 2 : low * 2;
        t.beta = own + 1 / middle;
        if (measured(&t, workers, batch, 0).seconds < measured(&t, 1, batch, 0).seconds)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* A fit over one link tells of links that it has not seen, with what memory and hiding do to them. */
static void test_rate_crossover_from_another_link(void **state) {
    (void)state;
    static const double own = 2e-9, shares[] = {0, .3};
    for (int s = 0; s < 2; s++) {
        for (double link = 4e6; link < 1e8; link *= 4) {
            ls_scaling_point points[16], like = size_of(&usual, 4, 64);
            ls_scaling_fit fit;
            truth t = usual;
            t.hides = shares[s];
            t.beta = own + 1 / link;
            assert_true(ls_scaling_fit_make(points, measure_all(&t, 0, points), &fit));
            double wanted = first_rate(t, 4, 64, own);
            near("the bandwidth", ls_scaling_rate_crossover(&fit, &like, link, 1), wanted, .02);
            assert_true(ls_scaling_rate_crossover(&fit, &like, link, 1.2) > wanted);
        }
    }
}

/* Workers that take turns on a core say nothing about those that have one. */
static void test_crowded_points_do_not_count(void **state) {
    (void)state;
    ls_scaling_point points[16];
    ls_scaling_fit fit;
    int n = measure_all(&usual, 0, points);
    points[n] = measured(&usual, 8, 64, 4);
    points[n++].crowding = 3;
    assert_true(ls_scaling_fit_make(points, n, &fit));
    near("a sequence", fit.sequence_s, usual.c, 1e-6);
    near("a byte", fit.byte_s, usual.beta, 1e-6);
    assert_true(fit.error < 1e-6);
}

static void test_few_points(void **state) {
    (void)state;
    ls_scaling_fit fit;
    ls_scaling_point one = measured(&usual, 1, 8, 0);
    assert_false(ls_scaling_fit_make(NULL, 0, &fit));
    assert_true(ls_scaling_fit_make(&one, 1, &fit));
    assert_false(fit.has_sync);
    near("the only point", ls_scaling_predict(&fit, &one, 1).seconds, one.seconds, 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_what_times_were_made_from),
        cmocka_unit_test(test_batch_crossover),
        cmocka_unit_test(test_rate_crossover),
        cmocka_unit_test(test_rate_crossover_from_another_link),
        cmocka_unit_test(test_crowded_points_do_not_count),
        cmocka_unit_test(test_few_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
