/* test_run_read.c: every kind of line, and what is no line; folders that are runs, and folders that are not. */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "observe/metrics.h"
#include "observe/run_read.h"

static void read_text(ls_run_log *run, const char *text) {
    ls_run_log_init(run);
    assert_int_equal(ls_run_log_add_metrics(run, text, strlen(text)), LS_OK);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static void test_steps(void **state) {
    (void)state;
    ls_run_log run;
    read_text(
        &run,
        "{\"step\":1,\"loss\":5.5,\"loss_hex\":\"0x1.6p+2\",\"norm\":3.25,\"lr\":0.001,\"ms\":12.5,\"mfu\":0.3}\n"
        "{\"step\":2,\"loss\":\"nan\",\"norm\":\"-inf\",\"lr\":0.002,\"scale\":15,\"skipped\":true,\"dropped\":[1,4]}\n"
        "{\"step\":3,\"loss\":null,\"norm\":\"0x1.8p+1\"}\n"
        "{\"step\":3,\"val_loss\":5.25,\"val_loss_hex\":\"0x1.5p+2\"}\n");
    assert_int_equal(run.lines, 4);
    assert_int_equal(run.damaged_lines + run.unknown_lines, 0);
    assert_int_equal(run.step_count, 3);
    assert_true(run.steps[0].loss == 5.5 && run.steps[0].norm == 3.25 && run.steps[0].lr == 0.001 &&
                run.steps[0].ms == 12.5);
    assert_true(run.steps[0].scale == INT_MIN && !run.steps[0].skipped && run.steps[0].dropped == 0);
    assert_true(isnan(run.steps[1].loss) && run.steps[1].norm == -HUGE_VAL);
    assert_true(run.steps[1].scale == 15 && run.steps[1].skipped && run.steps[1].dropped == 2);
    assert_true(isnan(run.steps[2].loss) && run.steps[2].norm == 3 && isnan(run.steps[2].lr));
    assert_true(run.validation_count == 1 && run.validations[0].step == 3 && run.validations[0].loss == 5.25);
    ls_run_log_free(&run);
}

/* What metrics.c writes is read back to the bit. */
static void test_as_written(void **state) {
    (void)state;
    char path[] = "/tmp/lockstep-run-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    ls_metrics *metrics;
    assert_int_equal(ls_metrics_open(path, &metrics), LS_OK);
    ls_metrics_begin(metrics);
    ls_metrics_add_i64(metrics, "step", 7);
    ls_metrics_add_hex(metrics, "loss", 0x1.23456789abcdep+1);
    ls_metrics_add_f64(metrics, "norm", -(double)INFINITY);
    ls_metrics_add_bool(metrics, "skipped", true);
    assert_int_equal(ls_metrics_end(metrics), LS_OK);
    assert_int_equal(ls_metrics_close(metrics), LS_OK);
    char text[1024];
    ssize_t bytes = read(fd, text, sizeof text);
    assert_true(bytes > 0);
    ls_run_log run;
    ls_run_log_init(&run);
    assert_int_equal(ls_run_log_add_metrics(&run, text, (size_t)bytes), LS_OK);
    assert_true(run.step_count == 1 && run.steps[0].step == 7 && run.steps[0].loss == 0x1.23456789abcdep+1);
    assert_true(run.steps[0].norm == -HUGE_VAL && run.steps[0].skipped);
    ls_run_log_free(&run);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
}

static void test_numerics(void **state) {
    (void)state;
    ls_run_log run;
    read_text(&run, "{\"step\":10,\"numerics\":\"embedding\",\"grad_norm\":0.5,\"weight_norm\":8,\"update_norm\":0.25,"
                    "\"grad_flushed\":0.125,\"grad_high\":0,"
                    "\"lost\":0.5}\n"
                    "{\"step\":10,\"numerics\":\"blocks.0\",\"act_flushed\":0.75,\"act_high\":1e-3}\n"
                    "{\"step\":20,\"numerics\":\"embedding\",\"lost\":\"nan\",\"grad_norm\":1e300}\n"
                    "{\"step\":20,\"noise\":true,\"groups\":8,\"grad_sq\":1,\"trace\":2,\"scale_tokens\":4096,\"scale_"
                    "sequences\":64}\n");
    assert_int_equal(run.block_count, 2);
    assert_string_equal(run.blocks[1], "blocks.0");
    assert_int_equal(run.numerics_count, 3);
    assert_true(run.numerics[0].block == 0 && run.numerics[1].block == 1 && run.numerics[2].block == 0);
    assert_true(run.numerics[0].grad_norm == 0.5F && run.numerics[0].update_norm == 0.25F &&
                run.numerics[0].lost == 0.5F);
    assert_true(run.numerics[0].grad_flushed == 0.125F && isnan(run.numerics[0].act_flushed) &&
                run.numerics[1].act_flushed == 0.75F);
    assert_true(isnan(run.numerics[2].lost) && isinf(run.numerics[2].grad_norm));
    assert_true(run.noise.step == 20 && run.noise.scale_tokens == 4096 && run.noise.scale_sequences == 64);
    ls_run_log_free(&run);
}

static void test_events(void **state) {
    (void)state;
    ls_run_log run;
    read_text(&run,
              "{\"step\":3,\"event\":\"overflow\",\"scale\":16,\"next_scale\":15,\"tensor\":\"head.weight\",\"block\":"
              "\"head\"}\n"
              "{\"step\":4,\"event\":\"non-finite\",\"worker\":2,\"phase\":\"backward\",\"micro\":1,\"block\":\"blocks."
              "3\",\"tensor\":\"output\","
              "\"index\":123456789012,\"value\":\"inf\",\"recurs\":false}\n"
              "{\"step\":5,\"event\":\"outlier\",\"group\":6,\"worker\":3,\"first_sample\":80,\"samples\":2,\"norm\":9."
              "5,\"median\":0.5,\"spread\":0.25,"
              "\"score\":11,\"angle_deg\":45,\"length_with\":2,\"length_without\":1,\"action\":\"skip-group\"}\n"
              "{\"step\":6,\"event\":\"replica\",\"workers\":[1,0,-3,5000,\"x\"],\"tensor\":\"t\",\"block\":\"b\"}\n"
              "{\"step\":7,\"event\":\"audit\",\"group\":1,\"owner\":0,\"auditor\":1,\"wrong\":1,\"persistent\":true,"
              "\"block\":\"head\",\"micro\":0}\n"
              "{\"step\":8,\"event\":\"stopped\",\"reason\":\"a\\u001b[31m b\\u0085\\u00e9\"}\n"
              "{\"step\":9,\"event\":\"of another kind\"}\n{\"step\":9,\"event\":7}\n");
    const ls_run_log_event *e = run.events;
    assert_int_equal(run.event_count, 6);
    assert_int_equal(run.unknown_lines, 2);
    assert_true(e[0].kind == LS_EVENT_OVERFLOW && e[0].scale == 16 && e[0].next_scale == 15 &&
                e[0].worker == LS_RUN_NONE);
    assert_true(e[1].worker == 2 && e[1].micro == 1 && e[1].index == 123456789012 && e[1].has_recurs && !e[1].recurs);
    assert_string_equal(e[1].what, "backward");
    assert_string_equal(e[1].value, "inf");
    assert_true(e[2].group == 6 && e[2].first_sample == 80 && e[2].samples == 2 && e[2].norm == 9.5 &&
                e[2].length_without == 1);
    assert_string_equal(e[2].what, "skip-group");
    assert_true(e[3].suspect_count == 2 && e[3].suspects[0] == 1 && e[3].suspects[1] == 0 && e[3].worker == 1);
    assert_true(e[4].worker == 1 && e[4].owner == 0 && e[4].persistent && e[4].has_persistent);
    assert_string_equal(e[5].what, "a?[31m b?\xC3\xA9"); /* no control character is left */
    assert_int_equal(run.of_kind[LS_EVENT_OUTLIER], 1);
    ls_run_log_free(&run);
}

static void test_usage(void **state) {
    (void)state;
    ls_run_log run;
    read_text(&run, "{\"step\":1,\"loss\":5,\"busy_ms\":[10,20.5],\"wait_ms\":[11,0.5]}\n"
                    "{\"step\":2,\"loss\":5,\"busy_ms\":[10,-1,\"x\"],\"wait_ms\":[1]}\n"
                    "{\"step\":3,\"loss\":5,\"busy_ms\":7}\n");
    assert_int_equal(run.usage_count, 2);
    const float *busy = ls_run_log_busy(&run, &run.usage[0]), *wait = ls_run_log_wait(&run, &run.usage[0]);
    assert_true(run.usage[0].workers == 2 && busy[0] == 10 && busy[1] == 20.5F && wait[0] == 11 && wait[1] == 0.5F);
    busy = ls_run_log_busy(&run, &run.usage[1]);
    wait = ls_run_log_wait(&run, &run.usage[1]);
    assert_true(run.usage[1].workers == 3 && busy[0] == 10 && isnan(busy[1]) && isnan(wait[0]) && isnan(wait[2]));
    ls_run_log_free(&run);
}

/* Parts of busy and of waiting; one worker alone tells parts of its step. */
static void test_parts(void **state) {
    (void)state;
    ls_run_log run;
    read_text(
        &run,
        "{\"step\":1,\"started\":true,\"version\":\"1\",\"cpu\":\"c\",\"threads\":2,\"crowded\":true}\n"
        "{\"step\":1,\"loss\":5,\"ms\":12,\"busy_ms\":[10,9],\"wait_ms\":[1,2],\"net_ms\":[0.5,1],\"queued_ms\":[3]}\n"
        "{\"step\":2,\"loss\":5,\"ms\":12,\"input_ms\":[4],\"queued_ms\":[1]}\n"
        "{\"step\":2,\"val_loss\":5,\"ms\":7}\n{\"step\":2,\"saved\":true,\"ms\":8}\n{\"step\":2,\"saved\":true}\n"
        "{\"step\":2,\"stopped\":\"why\"}\n");
    const ls_run_log_usage *u = run.usage;
    assert_int_equal(run.usage_count, 2);
    assert_true(ls_run_log_times(&run, &u[0], LS_USAGE_NET)[1] == 1 &&
                isnan(ls_run_log_times(&run, &u[0], LS_USAGE_QUEUED)[0]));
    assert_true(u[1].workers == 1 && ls_run_log_busy(&run, &u[1])[0] == 12 &&
                ls_run_log_times(&run, &u[1], LS_USAGE_INPUT)[0] == 4);
    assert_true(run.validations[0].ms == 7 && run.save_count == 2 && run.saves[0].ms == 8 && isnan(run.saves[1].ms));
    assert_true(run.start.step == 1 && run.start.crowded && run.start.threads == 2 && run.unknown_lines == 0);
    assert_true(run.stopped);
    assert_string_equal(run.stop, "why");
    assert_int_equal(ls_run_log_add_line(&run, "{\"step\":3,\"loss\":5}", 19), LS_OK); /* it went on */
    assert_false(run.stopped);
    ls_run_log_free(&run);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

static void test_damage(void **state) {
    (void)state;
    ls_run_log run;
    read_text(&run, "\n[1,2]\n{\"step\":1,\"loss\":5}\n{\"step\":1,\"step\":2}\nnull\n{\"loss\":5}\n{\"step\":-4,"
                    "\"loss\":5}\n{\"step\":1e3,\"loss\":5}\n"
                    "{\"step\":2,\"loss\":4}\n{\"step\":3,\"unheard\":1}\n{\"step\":4,\"lo");
    assert_int_equal(run.step_count, 2);
    assert_int_equal(run.lines, 11);
    assert_int_equal(run.damaged_lines, 5);
    assert_int_equal(run.unknown_lines, 4);
    assert_true(run.ends_torn);
    ls_run_log_free(&run);
    /* A last line that lacks only its newline is whole. */
    read_text(&run, "{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":4}");
    assert_true(run.step_count == 2 && !run.ends_torn);
    ls_run_log_free(&run);
}

static void test_long_line(void **state) {
    (void)state;
    ls_run_log run;
    size_t bytes = 3 * (size_t)LS_METRICS_LINE_MAX;
    char *text = malloc(bytes + 64);
    assert_non_null(text);
    memset(text, 'x', bytes);
    memcpy(text + bytes, "\n{\"step\":1,\"loss\":5}\n", 22);
    ls_run_log_init(&run);
    assert_int_equal(ls_run_log_add_metrics(&run, text, bytes + 21), LS_OK);
    assert_true(run.lines == 2 && run.damaged_lines == 1 && run.step_count == 1);
    ls_run_log_free(&run);
    free(text);
}

/* What was told of a step that comes again no longer counts, nor what was told of later ones. */
static void test_goes_back(void **state) {
    (void)state;
    ls_run_log run;
    read_text(&run, "{\"step\":1,\"loss\":5,\"busy_ms\":[1,2]}\n{\"step\":2,\"loss\":4,\"busy_ms\":[3,4]}\n{\"step\":3,"
                    "\"loss\":3,\"busy_ms\":[5,6]}\n"
                    "{\"step\":3,\"event\":\"stopped\",\"reason\":\"x\"}\n{\"step\":3,\"numerics\":\"head\"}\n{"
                    "\"step\":3,\"val_loss\":3}\n"
                    "{\"step\":2,\"loss\":9,\"busy_ms\":[7,8]}\n");
    assert_int_equal(run.step_count, 2);
    assert_true(run.steps[1].step == 2 && run.steps[1].loss == 9);
    assert_true(run.usage_count == 2 && run.usage_ms_count == 2 * 2 * LS_USAGE_KINDS &&
                ls_run_log_busy(&run, &run.usage[1])[0] == 7);
    assert_true(run.event_count == 0 && run.of_kind[LS_EVENT_STOPPED] == 0 && run.numerics_count == 0 &&
                run.validation_count == 0);
    ls_run_log_free(&run);
}

/* Events and blocks without end do not fill the memory. */
static void test_many(void **state) {
    (void)state;
    ls_run_log run;
    char line[128];
    ls_run_log_init(&run);
    for (int i = 0; i < LS_RUN_EVENTS_MAX + 10; i++) {
        int bytes = snprintf(line, sizeof line, "{\"step\":%d,\"event\":\"outlier\",\"worker\":1}", i);
        assert_int_equal(ls_run_log_add_line(&run, line, (size_t)bytes), LS_OK);
    }
    assert_int_equal(run.event_count, LS_RUN_EVENTS_MAX);
    assert_int_equal(run.of_kind[LS_EVENT_OUTLIER], LS_RUN_EVENTS_MAX + 10);
    for (int i = 0; i < LS_RUN_BLOCKS_MAX + 5; i++) {
        int bytes = snprintf(line, sizeof line, "{\"step\":1,\"numerics\":\"b%d\"}", i);
        assert_int_equal(ls_run_log_add_line(&run, line, (size_t)bytes), LS_OK);
    }
    assert_true(run.block_count == LS_RUN_BLOCKS_MAX && run.numerics_count == LS_RUN_BLOCKS_MAX &&
                run.unknown_lines == 5);
    ls_run_log_free(&run);
}

/* ---- options and layout ------------------------------------------------------------------------------------------ */

static void test_options(void **state) {
    (void)state;
    static const char config[] = "{\"lr\":\"0.0006\",\"precision\":\"fp16\",\"list\":[1]}";
    static const char identity[] = "{\"hash\":\"00\",\"fields\":{\"lr\":{\"f64\":\"0x1p-4\"},\"eps\":{\"f64\":\"0x1p-"
                                   "4\"},\"groups\":8},\"free\":{\"steps\":100}}";
    ls_run_log run;
    ls_run_log_init(&run);
    assert_int_equal(ls_run_log_add_options(&run, config, strlen(config)), LS_OK);
    assert_int_equal(ls_run_log_add_options(&run, identity, strlen(identity)), LS_OK);
    assert_int_equal(ls_run_log_add_options(&run, "{torn", 5), LS_OK);
    assert_int_equal(ls_run_log_add_options(&run, "[]", 2), LS_OK);
    assert_string_equal(ls_run_log_option_get(&run, "precision"), "fp16");
    assert_true(ls_run_log_option_number(&run, "lr") == 0.0006); /* the options come first */
    assert_true(ls_run_log_option_number(&run, "eps") == 0.0625);
    assert_true(ls_run_log_option_number(&run, "groups") == 8 && ls_run_log_option_number(&run, "steps") == 100);
    assert_true(isnan(ls_run_log_option_number(&run, "precision")) && isnan(ls_run_log_option_number(&run, "none")));
    assert_null(ls_run_log_option_get(&run, "list"));
    ls_run_log_free(&run);
}

static void test_layout(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int dp, tp, pp, share;
    } cases[] = {
        {"{\"dp\":2,\"tp\":3,\"pp\":4,\"shares\":\"5,3\"}", 2, 3, 4, 5},
        {"{\"dp\":2,\"tp\":1,\"pp\":1,\"shares\":\"5,3,1\"}", 2, 1, 1, 0},
        {"{\"dp\":2,\"tp\":1,\"pp\":1,\"shares\":\"5\"}", 2, 1, 1, 0},
        {"{\"dp\":2,\"tp\":1,\"pp\":1,\"shares\":\"5,-3\"}", 2, 1, 1, 0},
        {"{\"dp\":2,\"tp\":1,\"pp\":1}", 2, 1, 1, 0},
        {"{\"dp\":0,\"tp\":1,\"pp\":1}", 0, 0, 0, 0},
        {"{\"dp\":512,\"tp\":512,\"pp\":512}", 0, 0, 0, 0},
        {"{\"dp\":\"x\"}", 0, 0, 0, 0},
        {"{", 0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_run_log run;
        ls_run_log_init(&run);
        assert_int_equal(ls_run_log_add_layout(&run, cases[i].text, strlen(cases[i].text)), LS_OK);
        assert_true(run.dp == cases[i].dp && run.tp == cases[i].tp && run.pp == cases[i].pp &&
                    run.share[0] == cases[i].share);
        ls_run_log_free(&run);
    }
}

/* Two workers, one step: worker 0 works 60 us of 100, worker 1 all the time. */
static void test_trace(void **state) {
    (void)state;
    static const char text[] = "[{\"ph\":\"X\",\"cat\":\"train\",\"name\":\"step\",\"pid\":0,\"tid\":0,\"ts\":0,"
                               "\"dur\":110,\"args\":{\"n\":4}},\n"
                               "{\"ph\":\"X\",\"cat\":\"stage\",\"name\":\"forward\",\"pid\":0,\"tid\":0,\"ts\":0,"
                               "\"dur\":60,\"args\":{\"n\":0,\"micro\":0}},\n"
                               "{\"ph\":\"X\",\"cat\":\"stage\",\"name\":\"finish "
                               "reductions\",\"pid\":0,\"tid\":0,\"ts\":60,\"dur\":45,\"args\":{\"n\":0}},\n"
                               "{\"ph\":\"X\",\"cat\":\"train\",\"name\":\"step\",\"pid\":1,\"tid\":0,\"ts\":0,\"dur\":"
                               "110,\"args\":{\"n\":4}},\n"
                               "{\"ph\":\"X\",\"cat\":\"stage\",\"name\":\"forward\",\"pid\":1,\"tid\":0,\"ts\":0,"
                               "\"dur\":100,\"args\":{\"n\":0,\"micro\":0}}]\n";
    ls_trace trace;
    ls_run_log run;
    ls_run_log_init(&run);
    assert_int_equal(ls_trace_parse("text", text, strlen(text), &trace), LS_OK);
    assert_int_equal(ls_run_log_add_trace(&run, "text", &trace), LS_OK);
    assert_true(run.usage_of_trace && run.usage_count == 1 && run.usage[0].step == 4 && run.usage[0].workers == 2);
    const float *busy = ls_run_log_busy(&run, &run.usage[0]), *wait = ls_run_log_wait(&run, &run.usage[0]);
    assert_true(fabsf(busy[0] - 0.06F) < 1e-6F && fabsf(busy[1] - 0.1F) < 1e-6F);
    assert_true(fabsf(wait[0] - 0.045F) < 1e-6F && fabsf(wait[1]) < 1e-6F);
    ls_trace_free(&trace);
    ls_run_log_free(&run);
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/lockstep-run-XXXXXX";

static void write_file(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void remove_file(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(remove(path), 0);
}

static void expect(ls_status status, const char *words) {
    ls_run_log run;
    assert_int_equal(ls_run_log_open(folder, &run), status);
    assert_non_null(strstr(ls_status_message(), words));
    if (status == LS_OK) ls_run_log_free(&run);
}

static void test_folders(void **state) {
    (void)state;
    ls_run_log run;
    char path[256];
    assert_non_null(mkdtemp(folder));
    expect(LS_ERR_INPUT, "is not a run");
    write_file("identity.json", "{\"fields\":{\"groups\":4}}");
    assert_int_equal(ls_run_log_open(folder, &run), LS_OK); /* a run that made no step */
    assert_true(run.lines == 0 && ls_run_log_option_number(&run, "groups") == 4);
    ls_run_log_free(&run);
    write_file("metrics.jsonl", "{\"step\":1,\"loss\":5}\n");
    write_file("config.json", "{\"lr\":\"0.5\"}");
    write_file("layout.json", "no JSON at all");
    write_file("trace.json", "[{\"torn\":");
    assert_int_equal(ls_run_log_open(folder, &run), LS_OK);
    assert_true(run.step_count == 1 && run.dp == 0 && ls_run_log_option_number(&run, "lr") == 0.5);
    assert_non_null(strstr(run.trace_problem, "trace.json"));
    ls_run_log_free(&run);
    write_file("metrics.jsonl", "this is\nno metrics\n");
    expect(LS_ERR_INPUT, "contains no metrics line");
    remove_file("metrics.jsonl");
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    expect(LS_ERR_INPUT, "not a regular file");
    assert_int_equal(rmdir(path), 0);
    snprintf(path, sizeof path, "%s/identity.json", folder);
    assert_int_equal(ls_run_log_open(path, &run), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "is a file"));
    remove_file("identity.json");
    remove_file("config.json");
    remove_file("layout.json");
    remove_file("trace.json");
    assert_int_equal(rmdir(folder), 0);
    expect(LS_ERR_INPUT, "there is no file or folder");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),  cmocka_unit_test(test_as_written), cmocka_unit_test(test_numerics),
        cmocka_unit_test(test_events), cmocka_unit_test(test_usage),      cmocka_unit_test(test_parts),
        cmocka_unit_test(test_damage), cmocka_unit_test(test_long_line),  cmocka_unit_test(test_goes_back),
        cmocka_unit_test(test_many),   cmocka_unit_test(test_options),    cmocka_unit_test(test_layout),
        cmocka_unit_test(test_trace),  cmocka_unit_test(test_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
