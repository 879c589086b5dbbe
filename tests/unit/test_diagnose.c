/* test_diagnose.c: seeded failures must be named first, and healthy runs must be left alone. LS_TEST_LONG takes twenty
 * times as many; LS_TEST_SEED=N takes other ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "observe/diagnose/diagnose.h"
#include "run_failures.h"

enum { SEEDS = 20, HEALTHY_SEEDS = 6 };

static const ls_cause expected[FAILURES] = {
    [OVERFLOW_SEED] = LS_CAUSE_OVERFLOW, [UNDERFLOW_SEED] = LS_CAUSE_UNDERFLOW, [LOST_SEED] = LS_CAUSE_LOST_UPDATES,
    [OUTLIER_SEED] = LS_CAUSE_OUTLIER,   [DATA_SEED] = LS_CAUSE_BAD_DATA,       [LR_SEED] = LS_CAUSE_LR,
    [SLOW_SEED] = LS_CAUSE_SLOW_WORKER,
};

/* The thresholds were chosen with an eye on the runs of seed 0; others show how far that carries. */
static uint64_t first_seed(void) {
    const char *text = getenv("LS_TEST_SEED");
    return text ? strtoull(text, NULL, 10) * 1000000 : 0;
}

static int seeds(int n) { return getenv("LS_TEST_LONG") ? 20 * n : n; }

static void give_layout(const maker *m, const char *groups, ls_run_log *run) {
    char text[256];
    int bytes = snprintf(text, sizeof text, "{\"dp\": %d, \"tp\": 1, \"pp\": %d, \"shares\": \"%s\"}",
                         m->workers / m->pp, m->pp, groups);
    assert_int_equal(ls_run_log_add_layout(run, text, (size_t)bytes), LS_OK);
    bytes = snprintf(text, sizeof text,
                     "{\"precision\": \"%s\", \"lr\": \"%g\", \"warmup\": \"%lld\", \"loss-scale\": \"%s\"}",
                     m->precision, m->lr, (long long)m->warmup, m->failure == UNDERFLOW_SEED ? "1" : "dynamic");
    assert_int_equal(ls_run_log_add_options(run, text, (size_t)bytes), LS_OK);
}

static void diagnose_text(const char *text, size_t bytes, ls_run_log *run, ls_diagnosis *d) {
    assert_int_equal(ls_run_log_add_metrics(run, text, bytes), LS_OK);
    assert_int_equal(ls_diagnose(run, d), LS_OK);
}

static void complain(const char *what, int seed, const maker *m, const ls_diagnosis *d) {
    print_message("  %s, seed %d (variant %d, %s, step %lld of %lld): verdict %d\n", what, seed, m->variant,
                  m->precision, (long long)m->when, (long long)m->steps, d->verdict);
    for (int i = 0; i < d->finding_count; i++)
        print_message("    %s step %lld onset %lld: %s\n", d->finding[i].is_note ? "note" : "cause",
                      (long long)d->finding[i].step, (long long)d->finding[i].onset, d->finding[i].title);
}

/* ---- seeded failures --------------------------------------------------------------------------------------------- */

static bool names_worker(const maker *m, const ls_finding *f) {
    if (m->failure == SLOW_SEED) return f->worker == m->bad_worker;
    if (m->failure == OUTLIER_SEED) return f->worker == m->bad_worker;
    return true;
}

static bool is_right(const maker *m, const ls_diagnosis *d) {
    const ls_finding *f = &d->finding[0];
    if (d->verdict != LS_VERDICT_CAUSE || f->cause != expected[m->failure]) return false;
    assert_true(f->title[0] && f->action[0] && f->evidence_count > 0);
    assert_true(d->cause_count <= d->finding_count);
    return names_worker(m, f);
}

static void try_failure(failure what) {
    int right = 0, all = seeds(SEEDS);
    for (int seed = 0; seed < all; seed++) {
        maker m;
        ls_run_log run;
        ls_diagnosis d;
        maker_init(&m, first_seed() + 1000 * (uint64_t)what + (uint64_t)seed, what, seed);
        make_run(&m);
        ls_run_log_init(&run);
        give_layout(&m, "", &run);
        diagnose_text(m.text, m.used, &run, &d);
        bool ok = is_right(&m, &d);
        right += ok;
        if (!ok) complain(ls_cause_name(expected[what]), seed, &m, &d);
        ls_diagnosis_free(&d);
        ls_run_log_free(&run);
        maker_free(&m);
    }
    print_message("%s: %d of %d named first\n", ls_cause_name(expected[what]), right, all);
    assert_true(100 * right >= 95 * all);
}

static void test_overflow(void **state) { (void)state, try_failure(OVERFLOW_SEED); }
static void test_underflow(void **state) { (void)state, try_failure(UNDERFLOW_SEED); }
static void test_lost_updates(void **state) { (void)state, try_failure(LOST_SEED); }
static void test_outlier(void **state) { (void)state, try_failure(OUTLIER_SEED); }
static void test_bad_data(void **state) { (void)state, try_failure(DATA_SEED); }
static void test_lr(void **state) { (void)state, try_failure(LR_SEED); }
static void test_slow_worker(void **state) { (void)state, try_failure(SLOW_SEED); }

/* ---- healthy runs ------------------------------------------------------------------------------------------------ */

typedef enum oddity {
    PLAIN,
    SKIPS_AT_START,
    SHORT,
    NO_NUMERICS,
    FORKED,
    NOISY,
    STAGES,
    UNEVEN_SHARES,
    SMALL_WINDOW,
    LONG_RUN,
    RESTARTED,
    ODDITIES
} oddity;

static const char *const oddities[ODDITIES] = {
    "plain",  "skips at the start", "short",        "no numerics", "forked",   "noisy",
    "stages", "uneven shares",      "small window", "long",        "restarted"};

static void make_odd(maker *m, oddity odd) {
    switch (odd) {
    case SKIPS_AT_START:
        m->precision = "fp16";
        m->scale = 30;
        m->start_skips = (int)pick(m, 8, 16);
        break;
    case SHORT: m->steps = pick(m, 1, 30); break;
    case NO_NUMERICS:
        m->every = 0;
        m->workers = 1;
        break;
    case FORKED:
        m->first = pick(m, 2000, 9000);
        m->warmup = 0;
        break;
    case NOISY: m->scatter = between(m, 0.04, 0.08); break;
    case STAGES:
        m->workers = 8;
        m->pp = (int)pick(m, 1, 2) * 2;
        m->stage_skew = between(m, 1.1, 1.35);
        break;
    case UNEVEN_SHARES:
        m->workers = 2;
        m->share[0] = 3;
        m->share[1] = 1;
        break;
    case SMALL_WINDOW:
        m->precision = "fp16";
        m->window = (int)pick(m, 10, 20);
        break;
    case LONG_RUN: m->steps = 6000; break;
    default: break;
    }
}

/* A run that was killed in the middle of a line, cut back to a checkpoint, and went on. */
static void restart(maker *m) {
    make_run(m);
    int64_t half = m->steps / 2;
    maker again = *m;
    again.text = NULL;
    again.room = again.used = 0;
    again.first = half;
    again.start_skips = 0; /* the scale is in the checkpoint */
    again.steps = m->steps - half + 1;
    make_run(&again);
    m->used = m->used * 2 / 3; /* cuts a line somewhere */
    put(m, "\n");
    for (size_t at = 0; at < again.used; at += 4000)
        put(m, "%.*s", (int)(again.used - at < 4000 ? again.used - at : 4000), again.text + at);
    maker_free(&again);
}

static bool try_healthy(oddity odd, int seed) {
    maker m;
    ls_run_log run;
    ls_diagnosis d;
    maker_init(&m, first_seed() + 100000 + 1000 * (uint64_t)odd + (uint64_t)seed, HEALTHY, seed);
    make_odd(&m, odd);
    if (odd == RESTARTED)
        restart(&m);
    else
        make_run(&m);
    ls_run_log_init(&run);
    give_layout(&m, odd == UNEVEN_SHARES ? "3,1" : "", &run);
    diagnose_text(m.text, m.used, &run, &d);
    /* Unequal shares do cost time, and nothing else. */
    bool ok = (d.cause_count == 0 && d.verdict != LS_VERDICT_CAUSE) ||
              (odd == UNEVEN_SHARES && d.cause_count == 1 && d.finding[0].cause == LS_CAUSE_IMBALANCE);
    if (!ok) complain(oddities[odd], seed, &m, &d);
    if (odd == SKIPS_AT_START) assert_true(d.finding_count > 0 && d.finding[0].is_note);
    ls_diagnosis_free(&d);
    ls_run_log_free(&run);
    maker_free(&m);
    return ok;
}

static void test_healthy(void **state) {
    (void)state;
    int right = 0, all = 0;
    for (oddity odd = 0; odd < ODDITIES; odd++)
        for (int seed = 0; seed < seeds(odd == LONG_RUN ? 1 : HEALTHY_SEEDS); seed++, all++)
            right += try_healthy(odd, seed);
    print_message("healthy runs: %d of %d left alone\n", right, all);
    assert_int_equal(right, all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overflow),    cmocka_unit_test(test_underflow), cmocka_unit_test(test_lost_updates),
        cmocka_unit_test(test_outlier),     cmocka_unit_test(test_bad_data),  cmocka_unit_test(test_lr),
        cmocka_unit_test(test_slow_worker), cmocka_unit_test(test_healthy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
