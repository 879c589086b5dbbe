/* test_timeline.c: traces made by hand, whose figures are known; damaged ones; the drawing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "observe/timeline.h"
#include "report/charts.h"

enum { TEXT_MAX = 1 << 16 };

/* A trace as it is put together. */
static char text[TEXT_MAX];
static size_t used;

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put(const char *format, ...) {
    va_list list;
    va_start(list, format);
    used += (size_t)vsnprintf(text + used, sizeof text - used, format, list);
    va_end(list);
    assert_true(used < sizeof text);
}

static void begin(void) {
    used = 0;
    put("[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"args\":{\"name\":\"worker 0\"}}");
}

static void end(void) { put("]\n"); }

static void span(int worker, const char *category, const char *name, double from, double to, const char *args) {
    put(",\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%d,\"tid\":0,\"ts\":%.3f,\"dur\":%.3f,\"args\":{%s}}",
        category, name, worker, from, to - from, args);
}

static void act(int worker, const char *name, int chunk, int micro, double from, double to) {
    char args[64];
    snprintf(args, sizeof args, "\"n\":%d,\"micro\":%d", chunk, micro);
    span(worker, "stage", name, from, to, args);
}

static void step(int worker, int number, double from, double to) {
    char args[32];
    snprintf(args, sizeof args, "\"n\":%d", number);
    span(worker, "train", "step", from, to, args);
}

static void wait_for(int worker, const char *operation, long long n, double from, double to) {
    char args[96];
    snprintf(args, sizeof args, "\"n\":%lld,\"of\":\"%s\"", n, operation);
    span(worker, "comm", "wait", from, to, args);
}

/* An operation from its start to its end; `of` may be "". */
static void pair(int worker, const char *name, const char *of, long long n, double from, double to) {
    static int id;
    id++;
    put(",\n{\"ph\":\"b\",\"cat\":\"comm\",\"name\":\"%s\",\"pid\":%d,\"tid\":0,\"ts\":%.3f,\"id\":\"%d\",\"args\":{"
        "\"n\":"
        "%lld%s%s%s}}",
        name, worker, from, id, n, *of ? ",\"of\":\"" : "", of, *of ? "\"" : "");
    put(",\n{\"ph\":\"e\",\"cat\":\"comm\",\"name\":\"%s\",\"pid\":%d,\"tid\":0,\"ts\":%.3f,\"id\":\"%d\"}", name,
        worker, to, id);
}

static void dropped(int worker, long long count) {
    put(",\n{\"ph\":\"M\",\"name\":\"dropped_events\",\"pid\":%d,\"tid\":0,\"args\":{\"dropped\":%lld}}", worker,
        count);
}

/* A queue of a GPU, and what it did. */
static void queue(int worker, int thread, const char *name) {
    put(",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}", worker, thread,
        name);
}

static void kernel(int worker, int thread, const char *kind, const char *name, const char *of, double from, double to) {
    put(",\n{\"ph\":\"X\",\"cat\":\"gpu %s\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,"
        "\"args\":{\"n\":1%s%s%s}}",
        kind, name, worker, thread, from, to - from, *of ? ",\"of\":\"" : "", of, *of ? "\"" : "");
}

/* What the test is about: set up empty, freed behind it. */
static ls_trace trace;
static ls_timeline line;

static int drop(void **state) {
    (void)state;
    ls_timeline_free(&line);
    ls_trace_free(&trace);
    return 0;
}

static int start(void **state) {
    begin();
    return drop(state);
}

/* Ends the trace, and makes the timeline of a step of it. */
static void make(int64_t wanted) {
    end();
    if (ls_trace_parse("t.json", text, used, &trace) != LS_OK) fail_msg("%s", ls_status_message());
    if (ls_timeline_make(&trace, "t.json", wanted, &line) != LS_OK) fail_msg("%s", ls_status_message());
}

static void assert_near(double a, double b) {
    if (!(fabs(a - b) < 1e-6)) fail_msg("%.9g is not %.9g", a, b);
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

/* 1f1b, two stages, two micro-batches, forward 100, backward 200, from `at` on. */
static void put_pipeline(int number, double at) {
    step(0, number, at, at + 1100);
    act(0, "forward", 0, 0, at + 100, at + 200);
    act(0, "forward", 0, 1, at + 200, at + 300);
    act(0, "backward", 0, 0, at + 500, at + 700);
    act(0, "backward", 0, 1, at + 800, at + 1000);
    span(0, "stage", "optimizer", at + 1010, at + 1060, "\"n\":0");
    step(1, number, at + 5, at + 1090);
    act(1, "forward", 1, 0, at + 200, at + 300);
    act(1, "backward", 1, 0, at + 300, at + 500);
    wait_for(1, "all_gather", 7, at + 320, at + 365);
    wait_for(1, "receive", 7, at + 500, at + 510);
    act(1, "forward", 1, 1, at + 510, at + 600);
    act(1, "backward", 1, 1, at + 600, at + 800);
}

static void test_a_pipeline(void **state) {
    (void)state;
    put_pipeline(1, 5000);
    make(0);
    assert_int_equal(line.step, 1);
    assert_int_equal(line.workers, 2);
    assert_int_equal(line.stages, 2);
    assert_int_equal(line.pipelines, 1);
    assert_int_equal(line.chunks, 1);
    assert_near(line.work_end_us - line.work_begin_us, 900);
    assert_near(line.end_us - line.begin_us, 1100);
    assert_near(line.worker[0].busy, 600.0 / 900);
    assert_near(line.worker[0].bubble, 300.0 / 900);
    assert_near(line.worker[0].us[LS_MARK_OPTIMIZER], 50);
    assert_near(line.worker[1].waiting, 45.0 / 900);
    assert_near(line.worker[1].busy, 545.0 / 900);
    assert_near(line.worker[1].bubble, 310.0 / 900);
    assert_near(line.worker[1].us[LS_MARK_WAIT], 55);
}

/* Every micro-batch the same: F 100, B 200 on both stages. The simulation must give the run itself. */
static void test_the_prediction_of_an_ideal_run_is_the_run(void **state) {
    (void)state;
    step(0, 1, 0, 2000);
    step(1, 1, 0, 2000);
    act(0, "forward", 0, 0, 0, 100);
    act(0, "forward", 0, 1, 100, 200);
    act(1, "forward", 1, 0, 100, 200);
    act(1, "backward", 1, 0, 200, 400);
    act(0, "backward", 0, 0, 400, 600);
    act(1, "forward", 1, 1, 400, 500);
    act(1, "backward", 1, 1, 500, 700);
    act(0, "backward", 0, 1, 700, 900);
    make(0);
    assert_non_null(line.prediction);
    assert_near(ls_timeline_predicted_us(&line), 900);
    assert_near(line.prediction[0].actions[0][3].start * 1e6, 700);
    for (int r = 0; r < 2; r++) {
        assert_near(line.worker[r].predicted_bubble, 1.0 / 3);
        assert_near(line.worker[r].bubble, 1.0 / 3);
    }
}

/* The second micro-batch is half of the first; input and weights are apart. */
static void test_micro_batches_of_different_size(void **state) {
    (void)state;
    step(0, 9, 0, 1000);
    act(0, "forward", 0, 0, 0, 100);
    act(0, "backward-input", 0, 0, 100, 220);
    act(0, "backward-weights", 0, 0, 220, 300);
    act(0, "forward", 0, 1, 300, 350);
    act(0, "backward-input", 0, 1, 350, 410);
    act(0, "backward-weights", 0, 1, 410, 450);
    make(9);
    assert_near(ls_timeline_predicted_us(&line), 450);
    assert_near(line.prediction[0].actions[0][3].start * 1e6, 300);
    assert_near(line.prediction[0].actions[0][3].end * 1e6, 350);
    assert_near(line.worker[0].predicted_bubble, 0);
}

static void test_interleaved_on_two_rows(void **state) {
    (void)state;
    for (int r = 0; r < 4; r++) {
        int stage = r / 2;
        step(r, 1, 0, 1000);
        act(r, "forward", stage, 0, 100 * stage, 100 * stage + 100);
        act(r, "forward", stage + 2, 0, 200 + 100 * stage, 300 + 100 * stage);
        act(r, "backward", stage + 2, 0, 500 - 100 * stage, 600 - 100 * stage);
        act(r, "backward", stage, 0, 700 - 100 * stage, 800 - 100 * stage);
    }
    make(0);
    assert_int_equal(line.stages, 2);
    assert_int_equal(line.pipelines, 2);
    assert_int_equal(line.chunks, 2);
    assert_int_equal(line.worker[2].stage, 1);
    assert_int_equal(line.worker[3].pipeline, 1);
    assert_near(line.worker[3].bubble, 0.5);
    assert_near(ls_timeline_predicted_us(&line), 800);
    ls_timeline_set_mesh(&line, 2, 2, 2);
    assert_int_equal(line.dp, 0);
    ls_timeline_set_mesh(&line, 1, 2, 2);
    assert_int_equal(line.dp, 1);
    assert_int_equal(line.tp, 2);
}

static void test_a_step_without_all_its_actions_has_no_prediction(void **state) {
    (void)state;
    step(0, 1, 0, 1000);
    act(0, "forward", 0, 0, 0, 100);
    act(0, "backward", 0, 0, 100, 200);
    act(0, "forward", 0, 1, 200, 300);
    make(0);
    assert_null(line.prediction);
    assert_true(strlen(line.no_prediction) > 0);
    assert_true(isnan(line.worker[0].predicted_bubble));
    assert_true(isnan(ls_timeline_predicted_us(&line)));
    assert_near(line.worker[0].bubble, 0);
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

static void test_reductions(void **state) {
    (void)state;
    step(0, 1, 0, 1000);
    act(0, "forward", 0, 0, 0, 100);
    act(0, "backward", 0, 0, 100, 300);
    pair(0, "all_reduce", "tp", 64, 110, 150);
    wait_for(0, "all_reduce", 64, 111, 151);
    pair(0, "reduce_scatter", "dp", 1000, 200, 260);
    wait_for(0, "reduce_scatter", 1000, 250, 265);
    pair(0, "all_reduce", "dp", 500, 240, 340);
    span(0, "stage", "finish reductions", 300, 350, "\"n\":0");
    wait_for(0, "all_reduce", 500, 300, 341);
    pair(0, "reduce_scatter", "dp", 30, 400, 410);
    wait_for(0, "all_reduce", 64, 405, 415); /* of a TP group, while a reduction ends */
    pair(0, "reduce_scatter", "dp", 3, 50, 70);
    pair(0, "all_reduce", "", 8, 500, 600);
    wait_for(0, "all_reduce", 8, 500, 600);
    make(0);
    const ls_timeline_reductions *r = &line.worker[0].reductions;
    assert_int_equal(r->count, 4);
    assert_int_equal(r->bytes, 1533);
    assert_near(r->under_way, 140 + 10 + 20);
    assert_near(r->in_backward, 100 - 15);
    assert_near(r->exposed, 15 + 41);
    assert_near(line.worker[0].us[LS_MARK_FINISH], 50);
    assert_near(line.worker[0].waiting_us, 40 + 15);
}

/* ---- which step -------------------------------------------------------------------------------------------------- */

static void test_the_middle_step_or_the_one_asked_for(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) put_pipeline(i + 11, 2000.0 * i);
    make(0);
    assert_int_equal(line.step, 13);
    assert_int_equal(line.first_step, 11);
    assert_int_equal(line.last_step, 15);
    assert_near(line.begin_us, 4000);
    ls_timeline_free(&line);
    assert_int_equal(ls_timeline_make(&trace, "t.json", 15, &line), LS_OK);
    assert_int_equal(line.step, 15);
    assert_near(line.begin_us, 8000);
    ls_timeline_free(&line);
    assert_int_equal(ls_timeline_make(&trace, "t.json", 16, &line), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "t.json does not contain all of step 16; complete steps are 11 to 15");
}

/* The first event that is left ends inside step 2, so that one is not whole; step 4 is missing on worker 1. */
static void test_steps_that_are_not_whole_are_left_out(void **state) {
    (void)state;
    put_pipeline(3, 6000);
    put_pipeline(2, 4000);
    step(0, 4, 9000, 9900);
    dropped(0, 12);
    dropped(1, 0);
    make(0);
    assert_int_equal(line.step, 3);
    assert_int_equal(line.first_step, 3);
    assert_int_equal(line.last_step, 3);
    assert_int_equal(line.dropped_events, 12);
}

/* ---- queues of GPUs ---------------------------------------------------------------------------------------------- */

/*  0: compute  [product 10–30][product 33–43][wait 50–80][norm 80–90]     a kernel of the next step at 120
 *  0: dp               [copy 20–55]                [sum 70–100]
 *  1: compute  [product 10–50]                                            */
static void put_queues(void) {
    for (int r = 0; r < 2; r++) step(r, 1, 0, 110);
    for (int r = 0; r < 2; r++) act(r, "forward", 0, 0, 1, 20);
    queue(0, 4, "dp");
    kernel(0, 4, "communication", "copy", "", 20, 55);
    kernel(0, 4, "communication", "tree_sum", "tree_sum", 70, 100);
    queue(0, 3, "compute");
    kernel(0, 3, "products", "gemm", "NN 1x2x3", 10, 30);
    kernel(0, 3, "products", "gemm", "NN 1x2x3", 33, 43);
    kernel(0, 3, "waiting", "wait", "dp", 50, 80);
    kernel(0, 3, "norms", "norm", "norm_forward", 80, 90);
    kernel(0, 3, "norms", "norm", "norm_forward", 120, 190);
    queue(1, 3, "compute");
    kernel(1, 3, "products", "gemm", "NT 1x2x3", 10, 50);
}

static void test_queues_of_gpus(void **state) {
    (void)state;
    put_queues();
    make(1);
    const ls_kernels *k = &line.kernels;
    assert_int_equal(k->workers, 2);
    assert_int_equal(k->lanes, 3);
    const ls_kernel_lane *compute = &k->lane[0], *dp = &k->lane[1];
    assert_string_equal(compute->name, "compute");
    assert_string_equal(dp->name, "dp");
    assert_int_equal(k->lane[2].worker, 1);
    assert_int_equal(compute->count, 4);
    assert_near(compute->busy_us, 40);
    assert_near(compute->us[LS_KERNEL_WAITING], 30);
    assert_near(compute->us[LS_KERNEL_PRODUCTS], 30);
    assert_int_equal(compute->gaps, 2);
    assert_near(compute->gaps_us, 10);
    assert_int_equal(compute->small_gaps, 2);
    assert_near(compute->hidden_us, 0);
    assert_near(dp->busy_us, 65);
    assert_near(dp->hidden_us, 10 + 10 + 10); /* behind two products and the norm, not behind the wait */
    assert_near(dp->gaps_us, 15);
    assert_int_equal(dp->small_gaps, 0);
    assert_near(k->us[LS_KERNEL_PRODUCTS], 35); /* of a worker */
    assert_near(k->launches[LS_KERNEL_PRODUCTS], 1.5);
    assert_near(k->us[LS_KERNEL_NORMS], 5);
    assert_int_equal(k->rows, 6);
    assert_string_equal(k->row[0].of, "NT 1x2x3");
    assert_near(k->row[0].us, 40);
    for (size_t i = 1; i < k->rows; i++) assert_true(k->row[i].us <= k->row[i - 1].us);
    for (size_t i = 0; i < k->rows; i++)
        if (strcmp(k->row[i].of, "NN 1x2x3") == 0) {
            assert_int_equal(k->row[i].count, 2);
            assert_near(k->row[i].us, 30);
            assert_near(k->row[i].longest_us, 20);
        }
}

/* What a lane lost takes away the steps that it began before; one that lost nothing does not give them back. */
static void test_a_lane_that_lost_spans(void **state) {
    (void)state;
    put_pipeline(1, 0);
    put_pipeline(2, 2000);
    dropped(0, 0);
    queue(0, 7, "compute");
    kernel(0, 7, "loss", "k", "", 2500, 2600);
    dropped(0, 3);
    queue(0, 8, "dp");
    kernel(0, 8, "loss", "k", "", 100, 200);
    dropped(0, 0);
    put_pipeline(3, 4000);
    make(0);
    assert_int_equal(line.first_step, 3);
    assert_int_equal(line.dropped_events, 3);
}

/* ---- what is no trace -------------------------------------------------------------------------------------------- */

static void assert_refused(const char *what) {
    assert_int_equal(ls_trace_parse("t.json", text, used, &trace), LS_ERR_INPUT);
    if (!strstr(ls_status_message(), what)) fail_msg("'%s' does not say '%s'", ls_status_message(), what);
    assert_null(trace.spans);
}

static void refuse_event(const char *event, const char *what) {
    begin();
    put(",%s", event);
    end();
    assert_refused(what);
}

static void test_wrong_events_are_named(void **state) {
    (void)state;
    refuse_event("7", "is not an object");
    refuse_event("{}", "has a type that lockstep does not write");
    refuse_event("{\"ph\":\"X\"}", "field \"pid\" is missing");
    refuse_event("{\"ph\":\"X\",\"pid\":512}", "an impossible worker number");
    refuse_event("{\"ph\":\"X\",\"pid\":-1}", "an impossible worker number");
    refuse_event("{\"ph\":\"X\",\"pid\":1.5}", "field \"pid\" is a number");
    refuse_event("{\"ph\":\"X\",\"pid\":1e999}", "real number overflow");
    refuse_event("{\"ph\":\"X\",\"pid\":99999999999999999999}", "too big integer");
    refuse_event("{\"ph\":\"X\",\"pid\":0}", "field \"ts\" is missing");
    refuse_event("{\"ph\":\"X\",\"pid\":0,\"ts\":-1}", "a timestamp out of range");
    refuse_event("{\"ph\":\"X\",\"pid\":0,\"ts\":1e300}", "a timestamp out of range");
    refuse_event("{\"ph\":\"X\",\"pid\":0,\"ts\":1}", "field \"dur\" is missing");
    refuse_event("{\"ph\":\"X\",\"pid\":0,\"ts\":1,\"dur\":\"x\"}", "field \"dur\" is a string");
#define FORWARD "{\"ph\":\"X\",\"cat\":\"stage\",\"name\":\"forward\",\"pid\":0,\"ts\":1,\"dur\":1"
    refuse_event(FORWARD "}", "not an object");
    refuse_event(FORWARD ",\"args\":[]}", "not an object");
    refuse_event(FORWARD ",\"args\":{\"micro\":0}}", "field \"n\" is missing");
    refuse_event(FORWARD ",\"args\":{\"n\":0}}", "field \"micro\" is missing");
    refuse_event(FORWARD ",\"args\":{\"n\":-1,\"micro\":0}}", "an impossible chunk number");
    refuse_event(FORWARD ",\"args\":{\"n\":1024,\"micro\":0}}", "an impossible chunk number");
    refuse_event(FORWARD ",\"args\":{\"n\":0,\"micro\":9223372036854775807}}", "an impossible micro-batch number");
    refuse_event("{\"ph\":\"e\",\"pid\":0,\"ts\":1,\"id\":\"1\"}", "ends a pair that was not begun");
#define BEGIN "{\"ph\":\"b\",\"pid\":0,\"ts\":5,\"id\":\"1\"}"
    refuse_event(BEGIN, "a pair has no end");
    refuse_event(BEGIN "," BEGIN, "between the begin and the end of a pair");
    refuse_event(BEGIN ",{\"ph\":\"e\",\"pid\":0,\"ts\":6,\"id\":\"2\"}", "ends a pair that was not begun");
    refuse_event(BEGIN ",{\"ph\":\"e\",\"pid\":0,\"ts\":4,\"id\":\"1\"}", "ends before it begins");
    refuse_event(BEGIN ",{\"ph\":\"e\",\"pid\":1,\"ts\":6,\"id\":\"1\"}", "ends before it begins");
    refuse_event(
        "{\"ph\":\"X\",\"cat\":\"gpu loss\",\"name\":\"k\",\"pid\":0,\"tid\":1,\"ts\":1,\"dur\":1,\"args\":{}}",
        "is on a queue that has no name");
    refuse_event("{\"ph\":\"M\",\"name\":\"dropped_events\",\"pid\":0,\"args\":{\"dropped\":-1}}",
                 "has an impossible number of lost events");
}

static void test_what_is_no_array_of_events(void **state) {
    (void)state;
    static const char *const texts[] = {"",
                                        " ",
                                        "{}",
                                        "[1",
                                        "null",
                                        "[",
                                        "[{}",
                                        "[,]",
                                        "[{},]",
                                        "x",
                                        "[{\"ph\":\"M",
                                        "[] []",
                                        "[{}{}",
                                        "[]]",
                                        "[[[[[[",
                                        "\"trace\"",
                                        "[{\"ph\":\"M\",\"pid\":0}] 1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(ls_trace_parse("t.json", texts[i], strlen(texts[i]), &trace), LS_ERR_INPUT);
    }
}

static void test_a_file_cut_anywhere_is_refused(void **state) {
    (void)state;
    put_pipeline(1, 0);
    pair(0, "reduce_scatter", "dp", 10, 600, 700);
    end();
    for (size_t bytes = 0; bytes + 1 < used; bytes++) {
        char *copy = malloc(bytes + 1); /* nothing behind it */
        assert_non_null(copy);
        memcpy(copy, text, bytes);
        assert_int_equal(ls_trace_parse("t.json", copy, bytes, &trace), LS_ERR_INPUT);
        free(copy);
    }
}

static void refuse_timeline(const char *what) {
    end();
    assert_int_equal(ls_trace_parse("t.json", text, used, &trace), LS_OK);
    assert_int_equal(ls_timeline_make(&trace, "t.json", 0, &line), LS_ERR_INPUT);
    if (!strstr(ls_status_message(), what)) fail_msg("'%s' does not say '%s'", ls_status_message(), what);
    assert_null(line.worker);
    drop(NULL);
    begin();
}

static void test_steps_that_no_run_can_have(void **state) {
    (void)state;
    refuse_timeline("contains no complete training step");
    step(0, 1, 0, 10);
    refuse_timeline("worker 0 recorded nothing in step 1");
    step(0, 1, 0, 10);
    act(0, "forward", 5, 0, 1, 2);
    refuse_timeline("chunk 5 is the first one of worker 0, but there are only 1 workers");
    for (int r = 0; r < 3; r++) step(r, 1, 0, 10);
    for (int r = 0; r < 3; r++) act(r, "forward", r % 2, 0, 1, 2);
    refuse_timeline("3 workers cannot be divided among 2 stages");
    for (int r = 0; r < 2; r++) step(r, 1, 0, 10);
    act(0, "forward", 1, 0, 1, 2);
    act(1, "forward", 0, 0, 1, 2);
    refuse_timeline("worker 0 of stage 0 ran chunk 1");
    step(0, 1, 0, 100);
    act(0, "forward", 0, 0, 1, 20);
    act(0, "forward", 0, 1, 10, 30);
    refuse_timeline("ran two actions at the same time");
    /* One step on two places in time. */
    step(0, 1, 0, 100);
    step(0, 1, 200, 300);
    act(0, "forward", 0, 0, 1, 20);
    refuse_timeline("contains no complete training step");
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

static int occurrences(const char *in, const char *what) {
    int count = 0;
    for (const char *at = in; (at = strstr(at, what)) != NULL; at += strlen(what)) count++;
    return count;
}

static void test_the_drawing(void **state) {
    (void)state;
    char *svg = NULL;
    size_t bytes = 0;
    put_pipeline(1, 0);
    pair(0, "reduce_scatter", "dp", 10, 600, 700);
    make(0);
    FILE *out = open_memstream(&svg, &bytes);
    assert_non_null(out);
    ls_timeline_svg(&line, "a <b> & c", out);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(strncmp(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\"", 39), 0);
    assert_non_null(strstr(svg, ">a &lt;b&gt; &amp; c<"));
    assert_int_equal(occurrences(svg, "<title>forward"), 8); /* predicted and measured */
    assert_int_equal(occurrences(svg, "<title>backward"), 8);
    assert_int_equal(occurrences(svg, ">stage 0</text>"), 2);
    assert_int_equal(occurrences(svg, "busy 66.7 %, bubble 33.3 %"), 1);
    assert_int_equal(occurrences(svg, "busy 60.6 %, bubble 34.4 %"), 1);
    assert_non_null(strstr(svg, "<title>backward, micro-batch 1, chunk 0: 0.200 ms</title>"));
    assert_int_equal(occurrences(svg, "optimizer"), 1); /* in the legend */
    assert_int_equal(occurrences(svg, "reductions in flight"), 1);
    assert_int_equal(occurrences(svg, "new weights"), 0);
    assert_int_equal(occurrences(svg, "<text"), occurrences(svg, "</text>"));
    assert_int_equal(strcmp(svg + bytes - 7, "</svg>\n"), 0);
    free(svg);
}

/* A lane for each queue, below its worker's; a legend of the kinds that are there. */
static void test_the_drawing_of_queues(void **state) {
    (void)state;
    char *svg = NULL;
    size_t bytes = 0;
    put_queues();
    make(1);
    FILE *out = open_memstream(&svg, &bytes);
    assert_non_null(out);
    ls_timeline_svg(&line, "gpus", out);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(occurrences(svg, ">compute</text>"), 2);
    assert_int_equal(occurrences(svg, ">dp</text>"), 1);
    assert_int_equal(occurrences(svg, ">products</text>"), 1);
    assert_int_equal(occurrences(svg, ">attention</text>"), 0);
    assert_int_equal(occurrences(svg, "class=\"a\""), 2); /* the norm, and its sample */
    assert_int_equal(occurrences(svg, "class=\"v\""), 3);
    free(svg);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_pipeline, start, drop),
        cmocka_unit_test_setup_teardown(test_the_prediction_of_an_ideal_run_is_the_run, start, drop),
        cmocka_unit_test_setup_teardown(test_micro_batches_of_different_size, start, drop),
        cmocka_unit_test_setup_teardown(test_interleaved_on_two_rows, start, drop),
        cmocka_unit_test_setup_teardown(test_a_step_without_all_its_actions_has_no_prediction, start, drop),
        cmocka_unit_test_setup_teardown(test_reductions, start, drop),
        cmocka_unit_test_setup_teardown(test_the_middle_step_or_the_one_asked_for, start, drop),
        cmocka_unit_test_setup_teardown(test_steps_that_are_not_whole_are_left_out, start, drop),
        cmocka_unit_test_setup_teardown(test_queues_of_gpus, start, drop),
        cmocka_unit_test_setup_teardown(test_a_lane_that_lost_spans, start, drop),
        cmocka_unit_test_setup_teardown(test_the_drawing_of_queues, start, drop),
        cmocka_unit_test_setup_teardown(test_wrong_events_are_named, start, drop),
        cmocka_unit_test_setup_teardown(test_what_is_no_array_of_events, start, drop),
        cmocka_unit_test_setup_teardown(test_a_file_cut_anywhere_is_refused, start, drop),
        cmocka_unit_test_setup_teardown(test_steps_that_no_run_can_have, start, drop),
        cmocka_unit_test_setup_teardown(test_the_drawing, start, drop),
    };
    return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
