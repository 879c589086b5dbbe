/* test_diagnose_time.c: what the time of a run went to, how it ended, and runs that are ruined from the start. */
#include "diagnose_case.h"

/* Steps of two workers, by kind: busy, waiting, network, input, in line, on a core. */
typedef struct two {
    double busy[2], wait[2], net[2], input[2], queued[2], cpu[2];
} two;

static void step_of(int s, const two *t) {
    line("{\"step\":%d,\"loss\":%.6f,\"norm\":0.7,\"lr\":0.001,\"ms\":%.3f,\"busy_ms\":[%.3f,%.3f],\"wait_ms\":[%.3f,%."
         "3f],"
         "\"net_ms\":[%.3f,%.3f],\"input_ms\":[%.3f,%.3f],\"queued_ms\":[%.3f,%.3f],\"cpu_ms\":[%.3f,%.3f]}",
         s, calm(s), t->busy[0] + t->wait[0], t->busy[0], t->busy[1], t->wait[0], t->wait[1], t->net[0], t->net[1],
         t->input[0], t->input[1], t->queued[0], t->queued[1], t->cpu[0], t->cpu[1]);
}

static void steps_of(two t) {
    for (int s = 1; s <= 40; s++) step_of(s, &t);
}

static void share_is(ls_use use, double share) { assert_true(fabs(d.use.share[use] - share) < 1e-3); }

static void test_network(void **state) {
    (void)state;
    layout("{\"dp\":2,\"tp\":1,\"pp\":1,\"shares\":\"4,4\"}");
    steps_of((two){.busy = {20, 20}, .wait = {80, 80}, .net = {78, 78}, .cpu = {20, 20}});
    diagnose();
    share_is(LS_USE_NETWORK, .78);
    share_is(LS_USE_COMPUTING, .2);
    share_is(LS_USE_IMBALANCE, .02);
    const ls_finding *f = first_is(LS_CAUSE_NETWORK);
    assert_true(fabs(f->share - .78) < 1e-3);
}

/* Bytes that are under way while the other stands in line for a core wait for that, not for the link. */
static void test_network_on_a_busy_machine(void **state) {
    (void)state;
    for (int slow = 0; slow < 3; slow++) {
        double net = slow == 1 ? 70 : 25;
        begin(NULL);
        if (slow == 2) options("{\"slow-link\": \"1ms\"}"); /* it is under way at any load */
        layout("{\"dp\":2,\"tp\":1,\"pp\":1,\"shares\":\"4,4\"}");
        steps_of((two){.busy = {30, 30}, .wait = {net, net}, .net = {net, net}, .queued = {20, 20}, .cpu = {10, 10}});
        diagnose();
        share_is(LS_USE_NETWORK, (net - (slow == 2 ? 0 : 20)) / (30 + net));
        if (slow)
            first_is(LS_CAUSE_NETWORK);
        else
            assert_int_equal(d.verdict, LS_VERDICT_CLEAN);
        end(NULL);
    }
}

/* The same waiting, and nothing under way: in a pipeline the bubble, without one workers late in turns. */
static void test_idle(void **state) {
    (void)state;
    layout("{\"dp\":1,\"tp\":1,\"pp\":2,\"shares\":\"8\",\"micro-batch\":4,\"schedule\":\"naive\"}");
    options("{\"global-batch\":\"16\"}");
    steps_of((two){.busy = {50, 50}, .wait = {50, 50}, .net = {2, 2}, .cpu = {50, 50}});
    diagnose();
    share_is(LS_USE_BUBBLE, .48);
    assert_non_null(strstr(first_is(LS_CAUSE_BUBBLE)->evidence[0], "schedule naive, 4 micro-batches of 4"));
    end(NULL);
    begin(NULL);
    layout("{\"dp\":2,\"tp\":1,\"pp\":1,\"shares\":\"4,4\"}");
    steps_of((two){.busy = {50, 50}, .wait = {50, 50}, .net = {2, 2}, .cpu = {50, 50}});
    diagnose();
    share_is(LS_USE_IMBALANCE, .48);
    first_is(LS_CAUSE_IMBALANCE);
}

/* A machine that others use makes stages wait as well. It is a bubble where the schedule promises one, and on a machine
 * that is quiet. */
static void test_idle_on_a_busy_machine(void **state) {
    (void)state;
    for (int form = 0; form < 3; form++) {
        begin(NULL);
        layout(form == 1 ? "{\"dp\":1,\"tp\":1,\"pp\":2,\"shares\":\"8\",\"micro-batch\":8,\"schedule\":\"1f1b\"}"
                         : "{\"dp\":1,\"tp\":1,\"pp\":2,\"shares\":\"8\",\"micro-batch\":2,\"schedule\":\"1f1b\"}");
        options("{\"global-batch\":\"16\"}");
        double queued = form == 2 ? 0 : 60;
        steps_of((two){.busy = {20 + queued, 20 + queued},
                       .wait = {20, 20},
                       .net = {1, 1},
                       .queued = {queued, queued},
                       .cpu = {20, 20}});
        diagnose();
        if (form == 0)
            assert_int_equal(d.verdict, LS_VERDICT_CLEAN); /* 1/9 of a step is promised, 19 of 100 ms were waited */
        else
            first_is(LS_CAUSE_BUBBLE); /* the schedule implies a third; no other program ran */
        end(NULL);
    }
}

/* Workers of a machine that others use get a core now and then: none of them is slow. One that alone stands in line is,
 * and so is one that computes longer. */
static void test_slow_on_a_busy_machine(void **state) {
    (void)state;
    for (int form = 0; form < 3; form++) {
        begin(NULL);
        layout("{\"dp\":2,\"tp\":1,\"pp\":1,\"shares\":\"4,4\"}");
        for (int s = 1; s <= 60; s++) {
            int late = form > 0 || s % 20 < 15; /* stretches of one and the same */
            double in_line[2] = {form == 1 ? 0 : late ? 20 : 80, late ? 80 : 20}, compute = form == 2 ? 45 : 10;
            double busy[2] = {10 + in_line[0], compute + in_line[1]}, all = busy[0] > busy[1] ? busy[0] : busy[1];
            step_of(s, &(two){.busy = {busy[0], busy[1]},
                              .wait = {all - busy[0], all - busy[1]},
                              .queued = {in_line[0], in_line[1]},
                              .cpu = {10, compute}});
        }
        diagnose();
        if (form == 0) {
            assert_int_equal(d.verdict, LS_VERDICT_CLEAN);
        } else {
            assert_int_equal(first_is(LS_CAUSE_SLOW_WORKER)->worker, 1);
            assert_true(fabs(d.finding[0].size - (form == 1 ? 9 : 4.5)) < 1e-3);
        }
        end(NULL);
    }
}

/* A moment's other work on the core of a worker is no fault of its own, unless it takes more than a core can lose. */
static void test_slow_for_a_moment(void **state) {
    (void)state;
    for (int form = 0; form < 3; form++) {
        double ms = form == 1 ? 40 : 2, slow = form == 2 ? 3 * ms : 1.5 * ms; /* 40 steps: 0.1 s, 2.4 s, 0.2 s */
        begin(NULL);
        layout("{\"dp\":2,\"tp\":1,\"pp\":1,\"shares\":\"4,4\"}");
        steps_of((two){.busy = {ms, slow}, .wait = {slow - ms, 0}, .cpu = {ms, slow}});
        diagnose();
        if (form == 0)
            assert_int_equal(d.verdict, LS_VERDICT_CLEAN);
        else
            assert_int_equal(first_is(LS_CAUSE_SLOW_WORKER)->worker, 1);
        end(NULL);
    }
    begin(NULL);
}

static void test_input(void **state) {
    (void)state;
    layout("{\"dp\":2,\"tp\":1,\"pp\":1,\"shares\":\"4,4\"}");
    /* One reads longer, and the other waits for it: that is input as well. */
    steps_of((two){.busy = {40, 60}, .wait = {20, 0}, .input = {20, 40}, .cpu = {20, 20}});
    diagnose();
    share_is(LS_USE_INPUT, 80 / 120.0);
    share_is(LS_USE_IMBALANCE, 0);
    first_is(LS_CAUSE_INPUT);
}

/* Cores that others use are a note; workers that are too many are a cause. */
static void test_cores(void **state) {
    (void)state;
    two t = {.busy = {90, 90}, .wait = {10, 10}, .net = {1, 1}, .queued = {65, 65}, .cpu = {30, 30}};
    layout("{\"dp\":2,\"tp\":1,\"pp\":1,\"shares\":\"4,4\"}");
    steps_of(t);
    diagnose();
    share_is(LS_USE_HOST, .655); /* and what is sent without a core */
    share_is(LS_USE_COMPUTING, .3);
    assert_true(d.verdict == LS_VERDICT_CLEAN && d.finding_count == 1 && d.finding[0].is_note);
    end(NULL);
    begin(NULL);
    layout("{\"dp\":2,\"tp\":1,\"pp\":1,\"shares\":\"4,4\"}");
    line("{\"step\":1,\"started\":true,\"threads\":4,\"crowded\":true}");
    steps_of(t);
    diagnose();
    first_is(LS_CAUSE_CORES);
}

static const ls_finding *cause_of(ls_cause cause) {
    for (int i = 0; i < d.cause_count; i++)
        if (d.finding[i].cause == cause) return &d.finding[i];
    return NULL;
}

/* From the host, another's kernels look like bytes that do not come, or like a worker that is late. With a GPU for each
 * worker they are; and so they are on a link that is slow on purpose. */
static void test_gpus(void **state) {
    (void)state;
    for (int form = 0; form < 3; form++) {
        char device[64];
        begin(NULL);
        layout("{\"dp\":2,\"tp\":1,\"pp\":1,\"shares\":\"4,4\"}");
        snprintf(device, sizeof device, "{\"device\":\"cuda\",\"gpus\":%d}", form == 1 ? 2 : 1);
        assert_int_equal(ls_run_log_add_device(&run, device, strlen(device)), LS_OK);
        if (form == 2) options("{\"slow-link\": \"1ms\"}");
        steps_of((two){.busy = {10, 20}, .wait = {90, 80}, .net = {60, 60}, .cpu = {10, 20}});
        diagnose();
        share_is(LS_USE_GPU, form == 0 ? .85 : form == 1 ? 0 : .25);
        share_is(LS_USE_NETWORK, form == 0 ? 0 : .6);
        assert_true((form == 1) == (cause_of(LS_CAUSE_SLOW_WORKER) != NULL));
        if (form != 1) first_is(form == 0 ? LS_CAUSE_GPUS : LS_CAUSE_NETWORK);
        end(NULL);
    }
    begin(NULL);
}

/* Three of ten seconds; the one at the end counts for nothing. */
static void test_between(void **state) {
    (void)state;
    for (int saves = 0; saves < 2; saves++) {
        for (int s = 1; s <= 101; s++) {
            line("{\"step\":%d,\"loss\":%.6f,\"norm\":0.7,\"lr\":0.001,\"ms\":100,\"input_ms\":[0],\"queued_ms\":[0],"
                 "\"cpu_ms\":"
                 "[100]}",
                 s, calm(s));
            if (saves && s % 10 == 0) line("{\"step\":%d,\"saved\":true,\"ms\":300}", s);
            if (s == 101) line("{\"step\":%d,\"saved\":true,\"ms\":90000}", s);
        }
        diagnose();
        if (saves) {
            share_is(LS_USE_CHECKPOINTS, 3.0 / 13);
            assert_non_null(strstr(first_is(LS_CAUSE_CHECKPOINTS)->action, "--save-every 200,"));
        } else {
            assert_true(d.verdict == LS_VERDICT_CLEAN && d.use.steps == 100);
        }
        end(NULL);
        begin(NULL);
    }
}

/* ---- how it ended ------------------------------------------------------------------------------------------------ */

static void some_steps(const char *last) {
    options("{\"steps\":\"100\"}");
    line("{\"step\":1,\"started\":true,\"threads\":1}");
    steps(1, 30);
    line("{\"step\":30,\"saved\":true}");
    steps(31, 37);
    if (last) line("%s", last);
    diagnose();
}

static void test_ending(void **state) {
    (void)state;
    some_steps(NULL);
    assert_non_null(strstr(first_is(LS_CAUSE_ENDED)->title, "killed after step 37 of 100"));
    assert_non_null(strstr(d.finding[0].evidence[1], "of step 30, so 7 steps (0.7 s"));
    end(NULL), begin(NULL);
    some_steps("{\"step\":37,\"stopped\":\"another worker failed\"}");
    assert_non_null(strstr(first_is(LS_CAUSE_ENDED)->title, "at step 37 of 100: another worker failed"));
    end(NULL), begin(NULL);
    some_steps("{\"step\":37,\"stopped\":\"interrupted\"}");
    assert_true(d.verdict == LS_VERDICT_CLEAN && d.finding[0].is_note);
    assert_non_null(strstr(d.finding[0].title, "step 37 of 100: interrupted; it was not saved"));
    end(NULL), begin(NULL);
    run.is_open = true;
    some_steps(NULL);
    assert_true(d.verdict == LS_VERDICT_CLEAN && strstr(d.finding[0].title, "still going"));
}

static void test_spell(void **state) {
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0.7, "0.7 s"},     {119, "119.0 s"}, {120, "2.0 min"},
                 {4300, "71.7 min"}, {7200, "2.0 h"},  {1e6, "11.6 days"}};
    char text[LS_SPELL_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(ls_spell(cases[i].seconds, text), cases[i].text);
}

/* ---- ruined ------------------------------------------------------------------------------------------------------ */

static void losses(double lr, double (*loss)(int)) {
    for (int s = 1; s <= 40; s++)
        line("{\"step\":%d,\"loss\":%.6f,\"norm\":%.3f,\"lr\":%g,\"ms\":100}", s, loss(s), 0.7 + 0.1 * sin(3.3 * s),
             lr);
}

static double worse(int s) { return s < 2 ? 5.6 : 79 + sin(s); }
static double blown(int s) { return s < 4 ? 5.6 : 5.6 + 1000 * exp(-s / 2.0) - .1 * (s > 20); }
static double still(int s) { return 5.6 + .01 * sin(7.0 * s); }

static void test_ruined(void **state) {
    (void)state;
    options("{\"lr\":\"0.5\",\"optimizer\":\"adamw\"}");
    losses(.5, worse);
    diagnose();
    assert_non_null(strstr(first_is(LS_CAUSE_LR)->title, "above the 5.600 that it began with"));
    assert_non_null(strstr(d.finding[0].action, "--lr 0.001 instead of 0.5"));
    end(NULL), begin(NULL);
    /* It came down again, but only to where guessing frequencies begins. */
    line("{\"step\":1,\"started\":true,\"unigram_nats\":3.3}");
    losses(3, blown);
    diagnose();
    first_is(LS_CAUSE_LR);
    end(NULL), begin(NULL);
    losses(0, still);
    diagnose();
    first_is(LS_CAUSE_LR_ZERO);
    end(NULL), begin(NULL);
    losses(.001, still); /* slow is not ruined */
    diagnose();
    assert_int_equal(d.verdict, LS_VERDICT_CLEAN);
}

/* What overflows at such a rate would in any format. */
static void test_wild(void **state) {
    (void)state;
    options("{\"lr\":\"900\",\"optimizer\":\"adamw\",\"precision\":\"fp16\"}");
    for (int s = 1; s <= 30; s++) {
        if (s > 2)
            line("{\"step\":%d,\"event\":\"overflow\",\"scale\":%d,\"next_scale\":%d,\"tensor\":\"a.w\",\"block\":"
                 "\"a\"}",
                 s, 16 - s, 15 - s);
        line("{\"step\":%d,\"loss\":%s,\"norm\":%s,\"lr\":900,\"ms\":5,\"scale\":%d%s}", s, s > 2 ? "\"nan\"" : "5.6",
             s > 2 ? "\"inf\"" : "0.7", 16 - s, s > 2 ? ",\"skipped\":true" : "");
    }
    diagnose();
    first_is(LS_CAUSE_LR);
    for (int i = 0; i < d.finding_count; i++) assert_null(strstr(d.finding[i].action, "bf16")); /* it would die too */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_network),
        TEST(test_network_on_a_busy_machine),
        TEST(test_idle),
        TEST(test_idle_on_a_busy_machine),
        TEST(test_slow_on_a_busy_machine),
        TEST(test_slow_for_a_moment),
        TEST(test_input),
        TEST(test_cores),
        TEST(test_gpus),
        TEST(test_between),
        TEST(test_ending),
        TEST(test_spell),
        TEST(test_ruined),
        TEST(test_wild),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
