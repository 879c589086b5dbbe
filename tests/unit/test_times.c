/* test_times.c: measured times explained: times made from known terms are attributed to them, with and without noise;
 * two rows allow what they allow; what moved between two sets is found; tables that are wrong are refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/rng.h"
#include "plan/times/times.h"

enum { PURPOSE = 0x54494d45, SEEDS = 300 };

typedef struct work {
    ls_times times;
    ls_times_basis basis;
    ls_times_answer answer;
    ls_times_comparison comparison;
} work;

static double uniform(uint64_t seed, uint64_t index, double least, double most) {
    return least + (most - least) * (double)ls_rng_uniform_f32(ls_rng_key_make(seed, PURPOSE, 0), index);
}

/* Nearly normal, of deviation 1. */
static double normal(uint64_t seed, uint64_t index) {
    double sum = -6;
    for (uint64_t i = 0; i < 12; i++) sum += uniform(seed, 1000 + 12 * index + i, 0, 1);
    return sum;
}

static ls_times_row *add(ls_times *t, int dp, int tp, int pp, size_t micro, size_t batch) {
    ls_times_row *row = &t->row[t->count++];
    *row = (ls_times_row){.chips = dp * tp * pp, .micro = micro, .batch = batch};
    if (micro) row->dp = dp, row->tp = tp, row->pp = pp;
    t->has_layout = micro > 0;
    t->has_batch = batch > 0;
    return row;
}

static void near_to(const char *what, double got, double expected, double by) {
    if (!(fabs(got - expected) <= by)) fail_msg("%s: %.5f, expected %.5f ± %g", what, got, expected, by);
}

static void must(ls_status status) {
    if (status != LS_OK) fail_msg("%s", ls_status_message());
}

/* ---- the fit ----------------------------------------------------------------------------------------------------- */

static void test_fit(void **state) {
    (void)state;
    static ls_fit fit;
    double c[LS_FIT_TERMS_MAX];
    memset(&fit, 0, sizeof fit);
    fit.rows = 6, fit.terms = 4;
    for (int i = 0; i < 6; i++) {
        double n = i + 1;
        fit.x[i][0] = 1 / n, fit.x[i][1] = 1, fit.x[i][2] = n, fit.x[i][3] = 2;
        fit.y[i] = 3 / n + .25 + .125 * n;
        fit.weight[i] = 1;
    }
    assert_true(ls_fit_solve(&fit, 7, c));
    near_to("1/n", c[0], 3, 1e-9);
    near_to("1", c[1], .25, 1e-9);
    near_to("n", c[2], .125, 1e-9);
    assert_true(c[3] == 0 && ls_fit_squares(&fit, c, 0) < 1e-18);
    assert_false(ls_fit_solve(&fit, 10, c)); /* 1 and 2 are not told apart */
    for (int i = 0; i < 6; i++) fit.y[i] = 3 / (i + 1.) - .1;
    assert_false(ls_fit_solve(&fit, 3, c)); /* below 0 */
    fit.any_sign = 2;
    assert_true(ls_fit_solve(&fit, 3, c));
    near_to("a coefficient that may be below 0", c[1], -.1, 1e-9);
    for (int i = 0; i < 6; i++) fit.y[i] = 3 / (i + 1.) + 1;
    fit.y[2] *= 3; /* one row is wild */
    assert_true(ls_fit_solve_robust(&fit, 3, c));
    near_to("1/n beside a wild row", c[0], 3, .1);
    near_to("1 beside a wild row", c[1], 1, .1);
    for (int i = 2; i < 6; i++) fit.weight[i] = 0;
    assert_false(ls_fit_solve(&fit, 7, c)); /* two rows, three terms */
}

/* ---- times from known terms -------------------------------------------------------------------------------------- */

/* One worker up to 64, dp alone: computing, a ring, hops, a link between nodes; at 64 they take about the same each. */
static double made_up(work *w, uint64_t seed, double noise, int wild, double *sync) {
    double a = uniform(seed, 0, 50, 200), ring = uniform(seed, 1, 0, .012) * a, hops = uniform(seed, 2, 0, .0012) * a,
           nodes = uniform(seed, 3, 0, 1) < .5 ? 0 : uniform(seed, 4, .002, .01) * a, useful = 0;
    static const int sizes[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
    memset(w, 0, sizeof *w);
    for (int i = 0; i < 12; i++) {
        int n = sizes[i];
        ls_times_row *row = add(&w->times, n, 1, 1, 0, 0);
        double others = (n - 1.) / n * ring + (n - 1) / 8. * hops + (n > 8 ? 1 - 1. / ((n + 7) / 8) : 0) * nodes;
        row->time = row->measured = (a / n + others) * (1 + noise * normal(seed, (uint64_t)i)) * (i == wild ? 1.5 : 1);
        useful = a / n / (a / n + others);
        *sync = 1 - useful;
    }
    ls_times_basis_make(&w->times, 8, &w->basis);
    must(ls_times_explain(&w->times, &w->basis, &w->answer));
    return useful;
}

static void attribute(double noise, int wild, double by, int right_at_least) {
    work *w = malloc(sizeof *w);
    int right = 0, inside = 0;
    double sync, width = 0, lost_share = 0;
    assert_non_null(w);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        double useful = made_up(w, seed, noise, wild, &sync);
        const double *share = w->answer.explanation[0].share;
        double lost = share[LS_LOSS_SYNC] + share[LS_LOSS_SERIAL] + share[LS_LOSS_IMBALANCE] + share[LS_LOSS_BUBBLE];
        right += fabs(share[LS_LOSS_NONE] - useful) <= by && fabs(lost - sync) <= by + 3 * noise;
        width += w->answer.high[LS_LOSS_NONE] - w->answer.low[LS_LOSS_NONE];
        lost_share += sync;
        inside += w->answer.low[LS_LOSS_SYNC] <= sync + .02 && sync - .02 <= w->answer.high[LS_LOSS_SYNC];
    }
    print_message(
        "noise %g, wild row %d: %d of %d within %g, %d inside the range; lost %.2f, range of computing %.2f\n", noise,
        wild, right, SEEDS, by, inside, lost_share / SEEDS, width / SEEDS);
    assert_true(right * 100 >= right_at_least * SEEDS);
    assert_true(inside * 100 >= right_at_least * SEEDS);
    free(w);
}

static void test_known_terms(void **state) {
    (void)state;
    attribute(0, -1, .02, 99);
    attribute(.01, -1, .05, 95);
    attribute(.03, -1, .12, 90);
    attribute(.01, 4, .08, 90);
}

/* Pipelines: the bubble follows from the layout, the rest is found. */
static void test_layouts(void **state) {
    (void)state;
    static const int layouts[][4] = {{1, 1, 1, 64}, {2, 1, 1, 64}, {1, 2, 4, 64},  {2, 2, 4, 64},
                                     {4, 2, 4, 64}, {4, 2, 8, 64}, {8, 2, 8, 128}, {8, 4, 4, 128}};
    work *w = malloc(sizeof *w);
    assert_non_null(w);
    for (uint64_t seed = 0; seed < 50; seed++) {
        double a = uniform(seed, 0, 50, 200), ring = uniform(seed, 1, .05, .3) * a;
        memset(w, 0, sizeof *w);
        for (int i = 0; i < 8; i++) {
            int dp = layouts[i][0], tp = layouts[i][1], pp = layouts[i][2], batch = layouts[i][3], m = batch / dp;
            ls_times_row *row = add(&w->times, dp, tp, pp, 1, (size_t)batch);
            double part = a * batch / 64 / (dp * tp * pp);
            row->time = part * (1 + (pp - 1.) / m) + ring * (dp - 1) / dp / (tp * pp);
        }
        ls_times_basis_make(&w->times, 8, &w->basis);
        must(ls_times_explain(&w->times, &w->basis, &w->answer));
        const double *share = w->answer.explanation[0].share;
        assert_int_equal(w->answer.largest, 6); /* the first of two that have as many */
        double m = 16, at = a * 2 / 128, all = at * (1 + 7 / m) + ring * 7 / 8 / 16;
        near_to("bubble", share[LS_LOSS_BUBBLE], at * 7 / m / all, .01);
        near_to("computing", share[LS_LOSS_NONE], at / all, .02);
        near_to("sync", share[LS_LOSS_SYNC], ring * 7 / 8 / 16 / all, .03);
    }
    free(w);
}

/* A batch that does not divide: ten sequences on four replicas take three micro-batches each. */
static void test_imbalance(void **state) {
    (void)state;
    work *w = calloc(1, sizeof *w);
    assert_non_null(w);
    static const int sizes[] = {1, 2, 4, 5};
    for (int i = 0; i < 4; i++) {
        ls_times_row *row = add(&w->times, sizes[i], 1, 1, 1, 10);
        row->time = 2.0 * ((10 + sizes[i] - 1) / sizes[i]);
    }
    ls_times_basis_make(&w->times, 8, &w->basis);
    must(ls_times_explain(&w->times, &w->basis, &w->answer));
    double part[LS_LOSSES];
    ls_times_losses(&w->basis, w->answer.explanation[0].coefficient, 2, part);
    near_to("imbalance", part[LS_LOSS_IMBALANCE], 6 - 5, 1e-6);
    near_to("computing", part[LS_LOSS_NONE], 5, 1e-6);
    free(w);
}

/* ---- few rows ---------------------------------------------------------------------------------------------------- */

static void write_file(char *path, const char *text) {
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static ls_status read_text(const char *text, ls_times *times) {
    char path[] = "/tmp/test_times.XXXXXX";
    write_file(path, text);
    ls_status status = ls_times_read(path, times);
    unlink(path);
    return status;
}

static void explain_text(const char *text, work *w) {
    must(read_text(text, &w->times));
    ls_times_basis_make(&w->times, 0, &w->basis);
    must(ls_times_explain(&w->times, &w->basis, &w->answer));
}

/* 128 → 256 GPUs took 10 → 7 days: 6 + 4 and 3 + 4, or 8⅔ + 1⅓ and 4⅓ + 2⅔. */
static void test_two_rows(void **state) {
    (void)state;
    work *w = malloc(sizeof *w);
    assert_non_null(w);
    explain_text("gpus,days\n128,10\n256,7\n", w);
    const ls_times_answer *a = &w->answer;
    assert_int_equal(w->times.row[a->largest].chips, 256);
    assert_false(a->decided);
    assert_true(a->scatter_assumed && a->count >= 3);
    assert_true(a->low[LS_LOSS_NONE] < 3. / 7 + .005 && a->high[LS_LOSS_NONE] > 13. / 21 - .005);
    assert_true(a->low[LS_LOSS_SYNC] < .01 && a->high[LS_LOSS_SYNC] > 4. / 7 - .01 &&
                a->high[LS_LOSS_SERIAL] > 4. / 7 - .01);
    for (int i = 0; i < a->count; i++) {
        const ls_times_explanation *e = &a->explanation[i];
        if (e->terms == (1u << LS_TERM_COMPUTE | 1u << LS_TERM_SERIAL)) near_to("512 GPUs", e->twice, 5.5, 1e-6);
        if (e->terms == (1u << LS_TERM_COMPUTE | 1u << LS_TERM_LATENCY)) near_to("512 GPUs", e->twice, 7.5, .05);
    }
    /* 8 → 16 GPUs gave 8× → 10×: nothing is lost in one node, so it is the second. */
    explain_text("gpus,speedup\n8,8\n16,10\n", w);
    assert_true(a->decided && a->worst == LS_LOSS_SYNC);
    assert_int_equal(a->explanation[0].terms, 1u << LS_TERM_COMPUTE | 1u << LS_TERM_NODES);
    near_to("sync at 16 GPUs", a->explanation[0].share[LS_LOSS_SYNC], .375, .01);
    assert_true(a->low[LS_LOSS_SYNC] < .37 && a->high[LS_LOSS_SYNC] > .38); /* never more certain than the rows */
    /* Perfect scaling. */
    explain_text("workers,throughput\n1,100\n2,199\n4,398\n8,795\n16,1590\n", w);
    assert_true(a->explanation[0].share[LS_LOSS_NONE] > .98);
    free(w);
}

/* ---- before and after -------------------------------------------------------------------------------------------- */

static void test_moved(void **state) {
    (void)state;
    static const ls_times_term moved[] = {LS_TERM_COMPUTE, LS_TERM_RING, LS_TERM_LATENCY, LS_TERM_BUBBLE, -1};
    work *w = malloc(sizeof *w);
    assert_non_null(w);
    for (int k = 0; k < 5; k++) {
        int right = 0, wrong = 0, seeds = 100;
        for (uint64_t seed = 0; seed < (uint64_t)seeds; seed++) {
            double a = 100, ring = uniform(seed, 1, 1, 4), hops = uniform(seed, 2, .02, .1);
            memset(w, 0, sizeof *w);
            for (int i = 0; i < 12; i++) {
                int pp = i % 6 < 3 ? 1 : 4, dp = 4 << i % 3, after = i >= 6;
                ls_times_row *row = add(&w->times, dp, 1, pp, 1, 128);
                double part = a / row->chips, bubble = part * (pp - 1.) / (128. / dp), sync = ring * (dp - 1) / dp / pp,
                       late = hops * (dp - 1) / 8.;
                if (after && k == 0) part *= 1.2, bubble *= 1.2;
                if (after && k == 1) sync *= 2;
                if (after && k == 2) late += .3 * (dp - 1) / 8.;
                if (after && k == 3) bubble *= 4;
                row->label = after;
                row->time = (part + bubble + sync + late) * (1 + .003 * normal(seed, (uint64_t)i));
            }
            w->times.labels = 2;
            ls_times_basis_make(&w->times, 8, &w->basis);
            must(ls_times_compare(&w->times, &w->basis, &w->comparison));
            int first = w->comparison.move[0].term;
            right += first == (k == 4 ? -1 : (int)moved[k]);
            wrong += first != (k == 4 ? -1 : (int)moved[k]) && w->comparison.decided;
        }
        print_message("moved %d: %d of %d right, %d wrong and sure of it\n", k, right, seeds, wrong);
        assert_true(right >= 95 && wrong <= 2);
    }
    free(w);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void refuse(const char *text, const char *word) {
    static ls_times times;
    if (read_text(text, &times) != LS_ERR_INPUT) fail_msg("not refused: %s", text);
    if (!strstr(ls_status_message(), word)) fail_msg("\"%s\" does not say \"%s\"", ls_status_message(), word);
}

static void test_tables(void **state) {
    (void)state;
    static ls_times t;
    refuse("gpus,seconds\n8,1\n", "one row");
    refuse("gpus,seconds\n", "no rows");
    refuse("gpus,seconds\n8,1\n16,-2\n", "line 3: seconds is \"-2\"");
    refuse("gpus,seconds\n8,1\n16,0\n", "above 0");
    refuse("gpus,seconds\n8,1\n16,nan\n", "above 0");
    refuse("gpus,seconds\n8,1\n16,inf\n", "above 0");
    refuse("gpus,seconds\n8,1\n16,2s\n", "above 0");
    refuse("gpus,seconds\n8,1\n16,\n", "above 0");
    refuse("gpus,seconds\n0,1\n16,2\n", "line 2: gpus is \"0\"");
    refuse("gpus,seconds\n3.5,1\n16,2\n", "whole number");
    refuse("gpus,seconds\n99999999999999999999,1\n16,2\n", "whole number");
    refuse("gpus,loss\n8,1\n16,2\n", "time column");
    refuse("size,seconds\n8,1\n16,2\n", "\"gpus\"");
    refuse("gpus,seconds,dp,tp\n8,1,4,4\n16,2,4,4\n", "dp 4 × tp 4 × pp 1 is 16, not 8");
    refuse("gpus,seconds,dp,micro_batch,global_batch\n8,1,8,2,8\n16,2,16,1,16\n", "global_batch of at least 16");
    refuse("gpus,seconds,label\n8,1,a\n16,2,b\n32,1,c\n", "third");
    must(read_text("chips,ms,label,other\n8,1500,a,x\n16,800,b,y\n", &t));
    assert_int_equal(t.count, 2);
    near_to("ms", t.row[0].time, 1.5, 1e-12);
    assert_true(t.labels == 2 && t.row[1].label == 1 && !t.has_layout && !t.has_batch);
    must(read_text("gpus,throughput,global_batch,tp\n8,100,64,4\n16,200,128,4\n", &t));
    near_to("step of twice the batch", t.row[1].time / t.row[0].time, 1, 1e-12);
    assert_true(t.row[1].dp == 4 && t.has_layout && t.has_batch);
    must(read_text("gpus,speedup\n8,1\n16,1.9\n", &t)); /* over the first row */
    assert_int_equal(t.count, 2);
}

/* Times that the planner predicts are explained by its terms; a slower network shows in synchronisation alone. */
static void test_predicted(void **state) {
    (void)state;
    work *w = calloc(1, sizeof *w);
    ls_times_model model = {.layout = {.zero = 1, .type = LS_PLAN_BF16}};
    assert_non_null(w);
    model.task.shape = (ls_shape){.arch = LS_ARCH_GPT2,
                                  .L = 24,
                                  .C = 2048,
                                  .H = 16,
                                  .V = 50304,
                                  .kv_heads = 16,
                                  .head_size = 128,
                                  .hidden = 8192,
                                  .tied = true};
    model.task.seq = 1024;
    must(ls_cluster_of("A100", 8, 8, &model.task.cluster));
    must(ls_link_find("25gbe", &model.task.cluster.site[0].between));
    must(ls_stack_find("megatron", &model.task.stack));
    for (int dp = 2; dp <= 64; dp *= 2) add(&w->times, dp, 1, 1, 2, 256)->time = 1;
    must(ls_times_basis_predict(&w->times, &model, &w->basis));
    for (int i = 0; i < w->times.count; i++) {
        const double *x = w->basis.fit.x[i];
        w->basis.fit.y[i] = w->times.row[i].time = 1.1 * x[LS_TERM_COMPUTE] + 2 * x[LS_TERM_PREDICTED];
    }
    must(ls_times_explain(&w->times, &w->basis, &w->answer));
    near_to("computing", w->answer.explanation[0].coefficient[LS_TERM_COMPUTE], 1.1, .02);
    near_to("synchronisation", w->answer.explanation[0].coefficient[LS_TERM_PREDICTED], 2, .05);
    w->times.metric = LS_TIMES_SPEEDUP;
    assert_int_equal(ls_times_basis_predict(&w->times, &model, &w->basis), LS_ERR_INPUT);
    free(w);
}

/* Times that the planner makes itself with one thing changed: the thing is named first, and its share is right. */
typedef enum changed { LINK, CHIP, BUBBLE, STRAGGLER, SERIAL, CHANGES } changed;

static void base_model(ls_times_model *m, bool large) {
    *m = (ls_times_model){.layout = {.zero = 1, .type = LS_PLAN_BF16}};
    m->task.shape = (ls_shape){.arch = LS_ARCH_GPT2,
                               .L = large ? 48 : 24,
                               .C = large ? 4096 : 2048,
                               .H = 16,
                               .V = 50304,
                               .kv_heads = 16,
                               .head_size = large ? 256 : 128,
                               .hidden = large ? 16384 : 8192};
    m->task.seq = 1024;
    must(ls_cluster_of(large ? "H100" : "A100", 8, 8, &m->task.cluster));
    must(ls_link_find(large ? "100gbe" : "25gbe", &m->task.cluster.site[0].between));
    must(ls_stack_find("megatron", &m->task.stack));
}

/* Made times; returns the share that the change has of the largest row. */
static double make_changed(work *w, const ls_times_model *model, changed what, uint64_t seed, ls_times_thing *thing) {
    static const ls_times_thing things[CHANGES] = {LS_THING_LINK, LS_THING_CHIP, LS_THING_BUBBLE, LS_THING_STRAGGLER,
                                                   LS_THING_SERIAL};
    ls_times_model other = *model;
    double by = uniform(seed, 1, .3, .6), share = 0;
    *thing = things[what];
    if (what == LINK) other.task.cluster.site[0].between.bandwidth *= by;
    memset(w, 0, sizeof *w);
    for (int i = 0; i < 6; i++) {
        int pp = i < 3 ? 1 : 4;
        ls_times_row *row = add(&w->times, 4 << i % 3, 1, pp, 1, 128);
        ls_prediction now, was;
        must(ls_times_predict_row(row, model, &was));
        must(ls_times_predict_row(row, &other, &now));
        double sync = was.time[LS_TIME_TP] + was.time[LS_TIME_GATHER] + was.time[LS_TIME_P2P] + was.time[LS_TIME_DP];
        double bubble = was.time[LS_TIME_BUBBLE], computing = was.seconds - sync - bubble;
        row->time = now.seconds;
        if (what == CHIP) row->time += (computing + bubble) * by;
        if (what == BUBBLE) row->time += bubble * (2 + 4 * by);
        if (what == STRAGGLER) row->time += computing * by / 4 * (2 + i % 3 + (pp == 4 ? 2 : 0));
        if (what == SERIAL) row->time += by * .2;
        row->time *= 1 + .005 * normal(seed, (uint64_t)i);
        row->measured = row->time;
        if (i == 5) share = 1 - was.seconds / row->time;
    }
    return share;
}

static void test_deviations(void **state) {
    (void)state;
    work *w = malloc(sizeof *w);
    ls_times_model *model = malloc(sizeof *model);
    ls_times_deviations d;
    int right = 0, near = 0, cases = 0;
    assert_true(w && model);
    for (uint64_t seed = 0; seed < 4; seed++)
        for (int what = 0; what < CHANGES; what++, cases++) {
            ls_times_thing thing;
            base_model(model, seed % 2);
            double share = make_changed(w, model, (changed)what, 100 + 10 * seed + (uint64_t)what, &thing);
            must(ls_times_deviate(&w->times, model, &d));
            right += d.thing[0].thing == thing;
            near += d.thing[0].thing == thing && fabs(d.thing[0].share - share) <= .1;
            if (d.thing[0].thing != thing || fabs(d.thing[0].share - share) > .1)
                print_message("  seed %d: %s instead of %s, share %.3f instead of %.3f\n", (int)seed,
                              ls_times_thing_name(d.thing[0].thing), ls_times_thing_name(thing), d.thing[0].share,
                              share);
        }
    print_message("one thing changed: %d of %d named first, %d with its share\n", right, cases, near);
    assert_true(cases == 20 && right >= 19 && near >= 19);
    /* As predicted: nothing is named. No chip is above its peak, whatever was measured. */
    for (int i = 0; i < w->times.count; i++) {
        ls_prediction p;
        must(ls_times_predict_row(&w->times.row[i], model, &p));
        w->times.row[i].time = p.seconds;
    }
    must(ls_times_deviate(&w->times, model, &d));
    assert_int_equal(d.thing[0].thing, LS_THING_NONE);
    for (int i = 0; i < w->times.count; i++) w->times.row[i].time /= 50;
    must(ls_times_deviate(&w->times, model, &d));
    for (int i = 0; i < LS_THINGS; i++)
        if (d.thing[i].thing == LS_THING_CHIP) assert_true(d.thing[i].factor > .2);
    /* Without stages there is no bubble to be tested, and with one size nothing that grows. */
    w->times.count = 2;
    w->times.row[1] = w->times.row[0];
    must(ls_times_deviate(&w->times, model, &d));
    for (int i = 0; i < LS_THINGS; i++)
        if (d.thing[i].thing == LS_THING_BUBBLE || d.thing[i].thing == LS_THING_SERIAL)
            assert_true(!d.thing[i].tested && d.thing[i].why_not);
    free(model);
    free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fit),       cmocka_unit_test(test_known_terms), cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_imbalance), cmocka_unit_test(test_two_rows),    cmocka_unit_test(test_moved),
        cmocka_unit_test(test_tables),    cmocka_unit_test(test_predicted),   cmocka_unit_test(test_deviations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
