/* test_diagnose_rules.c: single rules on runs of a few lines whose answer is known: which worker, step and tensor is
 * named, what comes first when there are several, what is said to be missing. */
#include "clean_runs.h"
#include "diagnose_case.h"
#include "observe/advice.h"

static bool misses(const char *words) {
    for (int i = 0; i < d.missing_count; i++)
        if (strstr(d.missing[i], words)) return true;
    return false;
}

static bool follows(int64_t step, const char *words) {
    for (int i = 0; i < d.followed_count; i++)
        if (d.followed[i].step == step && strstr(d.followed[i].text, words)) return true;
    return false;
}

/* ---- workers that are wrong -------------------------------------------------------------------------------------- */

static void test_replica(void **state) {
    (void)state;
    steps(1, 100);
    line("{\"step\":100,\"event\":\"replica\",\"workers\":[3],\"tensor\":\"blocks.2.mlp.in.weight\",\"block\":\"blocks."
         "2\"}");
    line("{\"step\":100,\"event\":\"stopped\",\"reason\":\"replicas differ\"}");
    diagnose();
    const ls_finding *f = first_is(LS_CAUSE_FAULT);
    assert_int_equal(f->worker, 3);
    assert_int_equal(f->step, 100);
    assert_string_equal(f->tensor, "blocks.2.mlp.in.weight");
    assert_non_null(strstr(f->title, "worker 3"));
    assert_true(follows(100, "replicas differ"));
}

static void test_audit(void **state) {
    (void)state;
    steps(1, 60);
    for (int s = 30; s <= 50; s += 10)
        line("{\"step\":%d,\"event\":\"audit\",\"group\":5,\"owner\":1,\"auditor\":0,\"wrong\":1,\"persistent\":true,"
             "\"block\":\"blocks.1\",\"micro\":2}",
             s);
    diagnose();
    const ls_finding *f = first_is(LS_CAUSE_FAULT);
    assert_int_equal(f->worker, 1);
    assert_int_equal(f->step, 30);
    assert_int_equal(f->last_step, 50);
    assert_int_equal((int)f->size, 3);
    assert_non_null(strstr(f->action, "remove the machine of worker 1"));
}

static void test_left_out(void **state) {
    (void)state;
    steps(1, 60);
    line("{\"step\":30,\"event\":\"audit\",\"group\":5,\"owner\":1,\"auditor\":0,\"wrong\":1,\"persistent\":true,"
         "\"suspect_from\":31,\"suspect_to\":39,\"found_step\":40,\"left_out\":true}");
    diagnose();
    const ls_finding *f = first_is(LS_CAUSE_FAULT);
    assert_int_equal(f->worker, 1);
    assert_non_null(strstr(f->action, "nothing for this run"));
    assert_non_null(strstr(f->evidence[1], "steps 31 to 39"));
    assert_non_null(strstr(f->evidence[1], "repeated"));
}

static void test_suspects(void **state) {
    (void)state;
    steps(1, 39);
    line("{\"step\":40,\"event\":\"audit\",\"group\":5,\"owner\":1,\"auditor\":0,\"wrong\":1,\"persistent\":true,"
         "\"suspect_from\":31,\"suspect_to\":39}");
    diagnose();
    const ls_finding *f = first_is(LS_CAUSE_FAULT);
    assert_non_null(strstr(f->action, "checkpoint before step 31; lockstep bisect RUN --from 30"));
}

static void test_memory(void **state) {
    (void)state;
    steps(1, 60);
    line("{\"step\":42,\"event\":\"state\",\"worker\":2,\"tensor\":\"head.weight\",\"what\":\"moment2\"}");
    diagnose();
    const ls_finding *f = first_is(LS_CAUSE_FAULT);
    assert_int_equal(f->worker, 2);
    assert_non_null(strstr(f->title, "moment2 of head.weight"));
    assert_non_null(strstr(f->action, "--audit"));
}

/* The same event is a fault of the machine when it does not come again, and an overflow when it does. */
static void test_non_finite(void **state) {
    (void)state;
    static const char format[] =
        "{\"step\":61,\"event\":\"non-finite\",\"worker\":1,\"phase\":\"backward\",\"micro\":3,\"block\":\"blocks.0\","
        "\"tensor\":\"input gradient\",\"index\":17,\"value\":\"nan\",\"recurs\":%s}";
    for (int again = 0; again < 2; again++) {
        begin(NULL);
        steps(1, 60);
        line(format, again ? "true" : "false");
        diagnose();
        const ls_finding *f = first_is(again ? LS_CAUSE_OVERFLOW : LS_CAUSE_FAULT);
        assert_int_equal(f->worker, 1);
        assert_int_equal(f->step, 61);
        assert_string_equal(f->block, "blocks.0");
        assert_string_equal(f->tensor, "input gradient");
        end(NULL);
    }
}

/* What to begin again from is there: a checkpoint before the state that gave the value, or else the start. */
static void test_base(void **state) {
    (void)state;
    static const char format[] =
        "{\"step\":61,\"event\":\"non-finite\",\"worker\":0,\"phase\":\"forward\",\"micro\":0,"
        "\"block\":\"blocks.0\",\"tensor\":\"output\",\"index\":1,\"value\":\"nan\",\"recurs\":true}";
    static const char *const says[] = {"from the start", "from step 40 (--fork RUN/checkpoints/step-000000040)"};
    for (int saves = 0; saves < 2; saves++) {
        begin(NULL);
        steps(1, 40);
        if (saves) line("{\"step\":40,\"saved\":true}");
        steps(41, 60);
        line("%s", format);
        line("{\"step\":60,\"saved\":true}"); /* after the failure: it gives the same value again */
        diagnose();
        const ls_finding *f = first_is(LS_CAUSE_OVERFLOW);
        assert_non_null(strstr(f->action, says[saves]));
        end(NULL);
    }
}

/* Where a steep fall of the loss ends, steps lie above the line that it fell along: that is no bad data. But a spike
 * there is. */
static void test_end_of_a_fall(void **state) {
    (void)state;
    for (int r = 0; r < CLEAN_RUNS; r++)
        for (int spiked = 0; spiked < 2; spiked++) {
            begin(NULL);
            for (int s = 1; s <= CLEAN_STEPS; s++)
                line("{\"step\":%d,\"loss\":%.3f,\"norm\":0.8,\"lr\":0.003,\"ms\":100}", s,
                     clean_losses[r][s - 1] + (spiked && s > 30 && s % 15 < 2 ? 2.5 : 0));
            diagnose();
            if (spiked)
                (void)first_is(LS_CAUSE_BAD_DATA);
            else
                assert_int_equal(d.verdict, LS_VERDICT_CLEAN);
            end(NULL);
        }
}

/* A cause makes a verdict of few steps, too. */
static void test_few_steps_and_a_cause(void **state) {
    (void)state;
    steps(1, 9);
    line("{\"step\":10,\"event\":\"non-finite\",\"phase\":\"forward\",\"value\":\"nan\",\"recurs\":true}");
    diagnose();
    (void)first_is(LS_CAUSE_OVERFLOW);
    assert_false(misses("too few to judge"));
}

/* The reason of a stop is told whole. */
static void test_long_reason(void **state) {
    (void)state;
    char reason[420];
    memset(reason, 'x', sizeof reason);
    memcpy(reason + sizeof reason - 8, " the end", 8);
    steps(1, 60);
    options("{\"steps\": \"90\"}");
    line("{\"step\":60,\"stopped\":\"%.*s\"}", (int)sizeof reason, reason);
    diagnose();
    assert_non_null(strstr(first_is(LS_CAUSE_ENDED)->title, " the end"));
}

/* Both the run and the doctor advise on the floor of the loss scale. */
static void test_floor_advice(void **state) {
    (void)state;
    for (int constant = 0; constant < 2; constant++) {
        begin(NULL);
        options(constant ? "{\"loss-scale\": \"1024\", \"precision\": \"fp16\"}"
                         : "{\"loss-scale\": \"dynamic\", \"precision\": \"fp16\"}");
        steps(1, 60);
        line("{\"step\":61,\"event\":\"floor\",\"scale\":10,\"next_scale\":10,\"tensor\":\"head.weight\"}");
        diagnose();
        assert_string_equal(first_is(LS_CAUSE_OVERFLOW)->action, ls_advice_at_floor(constant));
        end(NULL);
    }
}

/* ---- the loss scale ---------------------------------------------------------------------------------------------- */

static void overflow_at(int step, int scale) {
    line("{\"step\":%d,\"event\":\"overflow\",\"scale\":%d,\"next_scale\":%d,\"tensor\":\"blocks.1.mlp.out.weight\","
         "\"block\":\"blocks.1\"}",
         step, scale, scale - 1);
    line("{\"step\":%d,\"loss\":%.6f,\"norm\":\"inf\",\"lr\":0.001,\"ms\":100,\"scale\":%d,\"skipped\":true}", step,
         calm(step), scale);
}

static void scaled(int first, int last, int scale) {
    for (int s = first; s <= last; s++)
        line("{\"step\":%d,\"loss\":%.6f,\"norm\":0.7,\"lr\":0.001,\"ms\":100,\"scale\":%d}", s, calm(s), scale);
}

static void test_start_is_normal(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) overflow_at(i + 1, 24 - i);
    scaled(9, 120, 16);
    overflow_at(121, 17);
    scaled(122, 200, 16);
    diagnose();
    assert_int_equal(d.verdict, LS_VERDICT_CLEAN);
    assert_int_equal(d.cause_count, 0);
    assert_int_equal(d.finding_count, 2); /* the start, and the one that grew */
}

/* With a short window and hysteresis skips are many, but the scale stays where it is. */
static void test_swinging_is_normal(void **state) {
    (void)state;
    scaled(1, 40, 16);
    for (int s = 41; s <= 100; s += 6) {
        overflow_at(s, 17);
        overflow_at(s + 1, 17);
        scaled(s + 2, s + 5, 16);
    }
    diagnose();
    assert_int_equal(d.cause_count, 0);
}

static void test_scale_falls(void **state) {
    (void)state;
    scaled(1, 100, 16);
    for (int i = 0; i < 6; i++) overflow_at(101 + i, 16 - i);
    scaled(107, 150, 10);
    diagnose();
    const ls_finding *f = first_is(LS_CAUSE_OVERFLOW);
    assert_int_equal(f->step, 101);
    assert_string_equal(f->tensor, "blocks.1.mlp.out.weight");
    assert_non_null(strstr(f->evidence[0], "2^16 to 2^10"));
}

static void test_scale_never_fits(void **state) {
    (void)state;
    for (int s = 1; s <= 20; s++)
        line("{\"step\":%d,\"loss\":5.1,\"norm\":\"inf\",\"lr\":0.001,\"ms\":100,\"scale\":24,\"skipped\":true}", s);
    diagnose();
    assert_int_equal((int)(100 * first_is(LS_CAUSE_OVERFLOW)->size), 100);
}

static void test_floor_alone(void **state) {
    (void)state;
    scaled(1, 40, 0);
    line("{\"step\":41,\"event\":\"floor\",\"scale\":-14,\"next_scale\":-14,\"tensor\":\"head.weight\",\"block\":"
         "\"head\"}");
    diagnose();
    assert_string_equal(first_is(LS_CAUSE_OVERFLOW)->tensor, "head.weight");
}

/* ---- shares ------------------------------------------------------------------------------------------------------ */

static void numerics(int step, const char *block, double flushed, double lost) {
    line("{\"step\":%d,\"numerics\":\"%s\",\"grad_norm\":0.3,\"weight_norm\":20,\"update_norm\":0.05,\"grad_flushed\":%"
         "g,\"grad_high\":0,"
         "\"act_flushed\":%g,\"act_high\":0,\"lost\":%g}",
         step, block, flushed / 3, flushed, lost);
}

/* Gradients of certain logits flush in the best of runs; those between the blocks must not. */
static void test_head_may_flush(void **state) {
    (void)state;
    for (int inner = 0; inner < 2; inner++) {
        begin(NULL);
        scaled(1, 100, 16);
        for (int s = 10; s <= 100; s += 10) {
            numerics(s, "embedding", 0.4, 0);
            numerics(s, "blocks.0", inner ? 0.15 : 0.01, 0);
            numerics(s, "head", 0.4, 0);
        }
        diagnose();
        if (inner)
            assert_string_equal(first_is(LS_CAUSE_UNDERFLOW)->block, "blocks.0");
        else
            assert_int_equal(d.verdict, LS_VERDICT_CLEAN);
        end(NULL);
    }
}

/* With a constant scale that could be higher, less is too much: 6 % and nothing near the limit. */
static void test_low_scale(void **state) {
    (void)state;
    static const char *const scales[] = {"dynamic", "2^-10"};
    for (int constant = 0; constant < 2; constant++) {
        char text[64];
        begin(NULL);
        snprintf(text, sizeof text, "{\"precision\": \"fp16\", \"loss-scale\": \"%s\"}", scales[constant]);
        options(text);
        scaled(1, 100, -10);
        for (int s = 10; s <= 100; s += 10) numerics(s, "blocks.0", 0.06, 0);
        diagnose();
        if (constant)
            assert_non_null(strstr(first_is(LS_CAUSE_UNDERFLOW)->action, "--loss-scale dynamic"));
        else
            assert_int_equal(d.verdict, LS_VERDICT_CLEAN);
        end(NULL);
    }
}

/* Updates vanish where the learning rate does: that is no cause. */
static void test_lost_at_the_end(void **state) {
    (void)state;
    for (int s = 1; s <= 200; s++)
        line("{\"step\":%d,\"loss\":%.6f,\"norm\":0.7,\"lr\":%g,\"ms\":100}", s, calm(s), s <= 160 ? 1e-3 : 1e-8);
    for (int s = 20; s <= 200; s += 20) numerics(s, "blocks.0", 0, s <= 160 ? 0.01 : 0.9);
    diagnose();
    assert_int_equal(d.verdict, LS_VERDICT_CLEAN);
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

static void outlier(int step, int worker, int sample) {
    line("{\"step\":%d,\"event\":\"outlier\",\"group\":%d,\"worker\":%d,\"first_sample\":%d,\"samples\":4,\"norm\":7.5,"
         "\"median\":0.7,\"spread\":0.2,"
         "\"score\":12,\"angle_deg\":40,\"length_with\":2.1,\"length_without\":0.6,\"action\":\"warn\"}",
         step, 2 * worker, worker, sample);
}

/* A wrong worker corrupts the weights: it comes first, the loss that rises after it follows. */
static void test_worker_before_loss(void **state) {
    (void)state;
    layout("{\"dp\":4,\"tp\":1,\"pp\":1,\"shares\":\"2,2,2,2\"}");
    steps(1, 100);
    outlier(101, 2, 400);
    outlier(104, 2, 420);
    outlier(108, 2, 440);
    for (int s = 101; s <= 180; s++)
        line("{\"step\":%d,\"loss\":%.4f,\"norm\":2.0,\"lr\":0.001,\"ms\":100}", s, calm(s) + 0.05 * (s - 100));
    diagnose();
    const ls_finding *f = first_is(LS_CAUSE_OUTLIER);
    assert_int_equal(f->worker, 2);
    assert_true(d.cause_count == 2 && d.finding[1].cause == LS_CAUSE_LR);
    assert_true(misses("--audit"));
}

/* One group that stands out in a step whose loss jumps: it is the data. Where the loss does not, it is the group. */
static void test_hot_outlier(void **state) {
    (void)state;
    for (int hot = 0; hot < 2; hot++) {
        begin(NULL);
        layout("{\"dp\":4,\"tp\":1,\"pp\":1,\"shares\":\"2,2,2,2\"}");
        steps(1, 99);
        outlier(100, 2, 400);
        line("{\"step\":100,\"loss\":%.4f,\"norm\":2.0,\"lr\":0.001,\"ms\":100}", calm(100) + (hot ? 1.0 : 0));
        steps(101, 180);
        diagnose();
        const ls_finding *f = first_is(hot ? LS_CAUSE_BAD_DATA : LS_CAUSE_OUTLIER);
        assert_true(f->step == 100 && d.cause_count == 1);
        if (!hot) assert_int_equal(f->worker, 2);
        end(NULL);
    }
}

/* The loss of the group itself decides, whatever that of its step is. */
static void test_group_loss(void **state) {
    (void)state;
    for (int hot = 0; hot < 2; hot++) {
        begin(NULL);
        layout("{\"dp\":4,\"tp\":1,\"pp\":1,\"shares\":\"2,2,2,2\"}");
        steps(1, 99);
        line("{\"step\":100,\"event\":\"outlier\",\"group\":4,\"worker\":2,\"first_sample\":400,\"samples\":4,\"norm\":"
             "7.5,"
             "\"median\":0.7,\"score\":12,\"group_loss\":%g,\"peers_loss\":2,\"loss_score\":%g}",
             hot ? 4.125 : 2.1, hot ? 11.0 : 0.8);
        line("{\"step\":100,\"loss\":%.4f,\"norm\":2.0,\"lr\":0.001,\"ms\":100}", calm(100) + (hot ? 0 : 1.0));
        steps(101, 180);
        diagnose();
        const ls_finding *f = first_is(hot ? LS_CAUSE_BAD_DATA : LS_CAUSE_OUTLIER);
        assert_true(f->step == 100 && d.cause_count == 1);
        if (hot) assert_non_null(strstr(f->evidence[0], "4.125"));
        end(NULL);
    }
}

/* Two groups with usual losses that came out the same again, or were not computed again, and nothing after them, are a
 * note; a third of the same worker makes a pattern, one that did not come again a fault, and a loss that rises a
 * consequence. */
static void test_harmless_outliers(void **state) {
    (void)state;
    for (int form = 0; form < 5; form++) {
        begin(NULL);
        layout("{\"dp\":4,\"tp\":1,\"pp\":1,\"shares\":\"2,2,2,2\"}");
        for (int s = 1; s <= 220; s++)
            line("{\"step\":%d,\"loss\":%.4f,\"norm\":2.0,\"lr\":0.001,\"ms\":100}", s,
                 calm(s) + (form == 3 && s > 170 ? 0.05 * (s - 170) : 0));
        for (int i = 0; i < (form == 1 ? 3 : 2); i++)
            line("{\"step\":%d,\"event\":\"outlier\",\"group\":4,\"worker\":2,\"first_sample\":%d,\"samples\":4,"
                 "\"norm\":7.5,\"median\":0.7,\"score\":12,\"group_loss\":2.1,\"peers_loss\":2,\"loss_score\":0.8%s}",
                 150 + 9 * i, 600 + 36 * i,
                 form == 4             ? ""
                 : form == 2 && i == 1 ? ",\"recurs\":false"
                                       : ",\"recurs\":true");
        diagnose();
        if (form == 0 || form == 4) {
            assert_int_equal(d.verdict, LS_VERDICT_CLEAN);
            assert_true(d.finding_count == 1 && d.finding[0].is_note);
            assert_true((form == 4) == (strstr(d.finding[0].title, "they were not recomputed") != NULL));
        } else {
            assert_int_equal(first_is(LS_CAUSE_OUTLIER)->worker, 2);
        }
        end(NULL);
    }
}

/* The same samples again, on other workers: it is the data. */
static void test_same_samples(void **state) {
    (void)state;
    layout("{\"dp\":4,\"tp\":1,\"pp\":1,\"shares\":\"2,2,2,2\"}");
    steps(1, 200);
    outlier(60, 2, 1000);
    outlier(120, 0, 1002);
    diagnose();
    assert_int_equal(first_is(LS_CAUSE_BAD_DATA)->step, 60);
}

/* A guard that chooses for itself whether it looks records what it did. */
static void test_guards_that_were_off(void **state) {
    (void)state;
    static const char *const given[] = {"auto", "auto", "off", "warn"};
    for (int i = 0; i < 4; i++) {
        char text[96];
        begin(NULL);
        snprintf(text, sizeof text, "{\"on-outlier\": \"%s\", \"check\": \"replicas\", \"audit\": \"0.1\"}", given[i]);
        options(text);
        line("{\"step\":0,\"started\":true,\"threads\":1,\"watched\":%s}", i == 1 || i == 3 ? "true" : "false");
        steps(1, 60);
        diagnose();
        assert_int_equal(d.verdict, LS_VERDICT_CLEAN);
        assert_true(misses("gradient groups that stand out: --on-outlier warn") == (i == 0 || i == 2));
        assert_false(misses("--audit"));
        end(NULL);
    }
}

/* ---- workers that are slow --------------------------------------------------------------------------------------- */

static void busy_steps(double a, double b) {
    for (int s = 1; s <= 60; s++)
        line("{\"step\":%d,\"loss\":%.6f,\"norm\":0.7,\"lr\":0.001,\"ms\":100,\"busy_ms\":[%.2f,%.2f],\"wait_ms\":[%."
             "2f,%.2f]}",
             s, calm(s), a, b, a > b ? 1.0 : b - a + 1, b > a ? 1.0 : a - b + 1);
}

static void test_slow_by_share(void **state) {
    (void)state;
    layout("{\"dp\":2,\"tp\":1,\"pp\":1,\"shares\":\"6,2\"}");
    busy_steps(90, 30);
    diagnose();
    first_is(LS_CAUSE_IMBALANCE); /* three times the groups, three times the time: no slow worker */
    assert_non_null(strstr(d.finding[0].action, "--shares"));
    assert_int_equal(d.usage.slowest, 0);
    assert_true(fabs(d.usage.worker[0].relative - 1) < 1e-6 && fabs(d.usage.worker[1].busy - 30.0 / 91) < 1e-3);
    assert_int_equal((int)d.usage.worker[0].slowest, 59);
    end(NULL);
    begin(NULL);
    layout("{\"dp\":2,\"tp\":1,\"pp\":1,\"shares\":\"4,4\"}");
    busy_steps(90, 30);
    diagnose();
    const ls_finding *f = first_is(LS_CAUSE_SLOW_WORKER);
    assert_int_equal(f->worker, 0);
    assert_true(fabs(f->size - 3) < 1e-6);
    assert_true(fabs(d.usage.waited_ms - 59 * 61) < 1);
}

static void test_slow_stage(void **state) {
    (void)state;
    layout("{\"dp\":1,\"tp\":1,\"pp\":2,\"shares\":\"8\"}");
    busy_steps(50, 70);
    diagnose();
    assert_int_equal(d.verdict, LS_VERDICT_CLEAN); /* stages are never equal */
    end(NULL);
    begin(NULL);
    layout("{\"dp\":1,\"tp\":1,\"pp\":2,\"shares\":\"8\"}");
    busy_steps(50, 95);
    diagnose();
    assert_int_equal(first_is(LS_CAUSE_SLOW_WORKER)->worker, 1);
    assert_non_null(strstr(d.finding[0].action, "--stages"));
}

/* ---- too little -------------------------------------------------------------------------------------------------- */

static void test_nothing(void **state) {
    (void)state;
    diagnose();
    assert_int_equal(d.verdict, LS_VERDICT_NOT_ENOUGH);
    assert_int_equal(d.cause_count, 0);
    assert_true(misses("metrics:"));
}

static void test_few_steps(void **state) {
    (void)state;
    steps(1, 5);
    diagnose();
    assert_int_equal(d.verdict, LS_VERDICT_NOT_ENOUGH);
    assert_true(misses("5 steps") && misses("--numerics"));
}

/* It broke, and nothing says why: first in the gradient, so the loss of that step is still one. */
static void test_unknown(void **state) {
    (void)state;
    options("{\"precision\":\"bf16\"}");
    steps(1, 80);
    line("{\"step\":81,\"loss\":2.2,\"norm\":\"nan\",\"lr\":0.001,\"ms\":100}");
    diagnose();
    assert_int_equal(d.verdict, LS_VERDICT_NOT_ENOUGH);
    assert_int_equal(d.finding[0].cause, LS_CAUSE_UNKNOWN);
    assert_int_equal(d.finding[0].step, 81);
    assert_non_null(strstr(d.finding[0].action, "--numerics"));
}

static void test_more_workers_than_recorded(void **state) {
    (void)state;
    layout("{\"dp\":2,\"tp\":1,\"pp\":1,\"shares\":\"4,4\"}");
    steps(1, 40);
    diagnose();
    assert_int_equal(d.verdict, LS_VERDICT_CLEAN);
    assert_true(misses("--trace run"));
    assert_int_equal(d.usage.workers, 0);
}

/* ---- GPUs -------------------------------------------------------------------------------------------------------- */

static void on_gpu(void) {
    static const char text[] = "{\"device\":\"cuda\",\"gpu\":\"NVIDIA H200\",\"gpus\":2,\"precision\":\"bf16\","
                               "\"matrix_unit\":\"hgmma\",\"peak_flops_per_second\":1e15}";
    assert_int_equal(ls_run_log_add_device(&run, text, strlen(text)), LS_OK);
}

static void gpu_steps(int last, double wait_ms) {
    for (int s = 1; s <= last; s++)
        line("{\"step\":%d,\"loss\":%.6f,\"norm\":0.7,\"lr\":0.001,\"ms\":100,\"mfu\":%g,\"gpu_wait_ms\":%g}", s,
             calm(s), s == 1 ? .01 : .4, s == 1 ? 0. : wait_ms);
}

/* The first step, which loads kernels, does not count. */
static void test_gpu(void **state) {
    (void)state;
    on_gpu();
    gpu_steps(40, 90);
    diagnose();
    assert_int_equal(d.verdict, LS_VERDICT_CLEAN);
    assert_true(run.device.is_gpu && run.device.gpus == 2 && run.device.peak_flops_s == 1e15);
    assert_string_equal(run.device.unit, "hgmma");
    assert_int_equal((int)d.gpu.steps, 39);
    assert_true(fabs(d.gpu.mfu - .4) < 1e-9 && fabs(d.gpu.waits - .9) < 1e-9);
    assert_true(!d.gpu.lacks_work && d.gpu.action[0] == '\0');
}

static void test_gpu_that_waits(void **state) {
    (void)state;
    on_gpu();
    gpu_steps(40, 1);
    diagnose();
    assert_true(d.gpu.lacks_work);
    assert_non_null(strstr(d.gpu.action, "--micro-batch"));
    assert_null(strstr(d.gpu.action, "thread"));
}

/* A trace has the gaps themselves. */
static void test_gpu_trace(void **state) {
    (void)state;
    on_gpu();
    gpu_steps(40, 1);
    run.device.traced_us = 1e5;
    run.device.idle_us = 1e3;
    diagnose();
    assert_true(fabs(d.gpu.idle - .01) < 1e-9 && !d.gpu.lacks_work);
    end(NULL);
    begin(NULL);
    on_gpu();
    gpu_steps(40, 90);
    run.device.traced_us = 1e5;
    run.device.idle_us = 5e4;
    diagnose();
    assert_true(d.gpu.lacks_work);
}

/* What a CPU recorded, and what a run of before did, is not about a GPU. */
static void test_no_gpu(void **state) {
    (void)state;
    static const char cpu[] = "{\"device\":\"cpu\"}";
    on_gpu();
    assert_int_equal(ls_run_log_add_device(&run, cpu, strlen(cpu)), LS_OK);
    steps(1, 40);
    diagnose();
    assert_true(!run.device.is_gpu && d.gpu.steps == 0 && isnan(d.gpu.mfu) && isnan(d.gpu.waits));
    assert_int_equal(ls_run_log_add_device(&run, "[", 1), LS_OK);
    assert_false(run.device.is_gpu);
}

/* Advice for a slow worker is about its GPU, not about cores. */
static void test_slow_gpu(void **state) {
    (void)state;
    on_gpu();
    run.device.gpus = 4; /* one for each */
    layout("{\"dp\":4,\"tp\":1,\"pp\":1,\"shares\":\"2,2,2,2\"}");
    for (int s = 1; s <= 60; s++)
        line("{\"step\":%d,\"loss\":%.6f,\"norm\":0.7,\"lr\":0.001,\"ms\":100,\"busy_ms\":[50,50,90,50],"
             "\"wait_ms\":[45,45,5,45]}",
             s, calm(s));
    diagnose();
    const ls_finding *f = first_is(LS_CAUSE_SLOW_WORKER);
    assert_int_equal(f->worker, 2);
    assert_non_null(strstr(f->action, "the GPU of worker 2"));
    assert_null(strstr(f->action, "--pin"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_replica),
        TEST(test_audit),
        TEST(test_left_out),
        TEST(test_suspects),
        TEST(test_memory),
        TEST(test_non_finite),
        TEST(test_base),
        TEST(test_end_of_a_fall),
        TEST(test_few_steps_and_a_cause),
        TEST(test_long_reason),
        TEST(test_floor_advice),
        TEST(test_start_is_normal),
        TEST(test_scale_falls),
        TEST(test_scale_never_fits),
        TEST(test_floor_alone),
        TEST(test_worker_before_loss),
        TEST(test_same_samples),
        TEST(test_guards_that_were_off),
        TEST(test_hot_outlier),
        TEST(test_group_loss),
        TEST(test_harmless_outliers),
        TEST(test_swinging_is_normal),
        TEST(test_head_may_flush),
        TEST(test_low_scale),
        TEST(test_lost_at_the_end),
        TEST(test_slow_by_share),
        TEST(test_slow_stage),
        TEST(test_nothing),
        TEST(test_few_steps),
        TEST(test_unknown),
        TEST(test_more_workers_than_recorded),
        TEST(test_gpu),
        TEST(test_gpu_that_waits),
        TEST(test_gpu_trace),
        TEST(test_no_gpu),
        TEST(test_slow_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
