/* test_series.c: the series of a run: numbers to the bit, every step once, reading on while a run grows, is cut back,
 * sets files aside and goes on; forks. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files.h"
#include "base/rng.h"
#include "observe/line_scan.h"
#include "observe/metrics.h"
#include "observe/series.h"

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static uint64_t state_of_random = 88172645463325252ULL;
static uint64_t random_bits(void) {
    state_of_random ^= state_of_random << 13;
    state_of_random ^= state_of_random >> 7;
    state_of_random ^= state_of_random << 17;
    return state_of_random;
}

static void check_number(const char *text) {
    const char *at = text, *end = text + strlen(text);
    double expected = strtod(text, NULL), got = ls_line_scan_number(&at, end);
    if (!at) return; /* left to the parser */
    assert_ptr_equal(at, end);
    if (memcmp(&expected, &got, sizeof got) != 0) fail_msg("%s: %a, not %a", text, got, expected);
}

static void test_numbers(void **state) {
    (void)state;
    static const char *const odd[] = {"0",
                                      "-0.0",
                                      "1",
                                      "0.1",
                                      "1e22",
                                      "1e-5",
                                      "9007199254740993",
                                      "2.5e-27",
                                      "1e308",
                                      "4e-324",
                                      "1.7976931348623157e308",
                                      "9007199254740993.0",
                                      "0.5e-3",
                                      "123.456"};
    char text[64];
    int taken = 0;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) check_number(odd[i]);
    for (int i = 0; i < 200000; i++) {
        uint64_t bits = random_bits();
        double x;
        if (i % 2)
            x = (double)(bits >> 11) * 0x1p-53 * (i % 4 == 1 ? 1 : 1e4);
        else
            memcpy(&x, &bits, sizeof x);
        if (!isfinite(x)) continue;
        snprintf(text, sizeof text, "%.*g", 9 + i % 9, x);
        check_number(text);
        const char *at = text;
        (void)ls_line_scan_number(&at, text + strlen(text));
        taken += at != NULL;
    }
    /* Halfway between two doubles, and beside it. */
    for (int i = 0; i < 20000; i++) {
        uint64_t m = (random_bits() >> 12 | UINT64_C(1) << 51) * 2 + 1;
        snprintf(text, sizeof text, "%llu.%d", (unsigned long long)(m * 4 + 2), i % 3 == 0 ? 0 : i % 3);
        check_number(text);
    }
    assert_true(taken > 150000);
    static const char *const none[] = {"", "-", "01", ".5", "1.", "1e", "+1", "nan", "1e+", "0x1p3", "1e999"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        const char *at = none[i], *end = at + strlen(at);
        (void)ls_line_scan_number(&at, end);
        assert_true(at != end || strlen(none[i]) == 0);
        assert_true(at == NULL || at < end);
    }
}

/* What is read without a parser is what the parser reads; what is no step of ours is left to it. */
static void test_scan(void **state) {
    (void)state;
    ls_run_log_step step;
    ls_line_usage usage;
    static const char good[] =
        "{\"step\":12,\"loss\":5.5966284684836864,\"loss_hex\":\"0x1.662f292cp+2\",\"norm\":\"inf\",\"lr\":9."
        "617314097820151e-05,"
        "\"ms\":202.72612099870457,\"tokens_per_s\":631.3937215856753,\"memory_bytes\":1073741824,"
        "\"gpu_memory_bytes\":2.5,\"input_ms\":[0.076,-1],\"scale\":-3,"
        "\"state_before\":\"527e567ca483c43c1d899c805fe10ef2\",\"unix_ms\":1760000000123}";
    assert_true(ls_line_scan_step(good, strlen(good), &step, &usage));
    assert_true(step.step == 12 && step.loss == 5.5966284684836864 && step.norm == HUGE_VAL && step.has_norm);
    assert_true(step.lr == 9.617314097820151e-05 && step.ms == 202.72612099870457 && isnan(step.mfu));
    assert_true(step.memory == 1073741824 && step.gpu_memory == 2.5 && isnan(step.gpu_wait_ms));
    assert_true(step.scale == -3 && step.unix_ms == 1760000000123 && usage.count[LS_USAGE_INPUT] == 2);
    assert_true(usage.ms[LS_USAGE_INPUT][0] == 0.076F && isnan(usage.ms[LS_USAGE_INPUT][1]));
    assert_string_equal(step.state_before, "527e567ca483c43c1d899c805fe10ef2");
    static const char *const left[] = {
        "",
        "{}",
        "{\"step\":1}",
        "{\"loss\":1}",
        "{\"step\":1,\"loss\":1,}",
        "{\"step\":1,\"loss\":1,\"loss\":2}",
        "{\"step\":1,\"loss\":null}",
        "{\"step\":1,\"loss\":1,\"dropped\":[1]}",
        "{\"step\":1,\"loss\":1 }",
        "{ \"step\":1,\"loss\":1}",
        "{\"step\":-1,\"loss\":1}",
        "{\"step\":1.0,\"loss\":1}",
        "{\"step\":1,\"loss\":\"0x1p3\"}",
        "{\"step\":1,\"loss\":1,\"st\\u0061te\":1}",
        "{\"step\":1,\"loss\":1,\"state_before\":\"short\"}",
        "{\"step\":1,\"loss\":1,\"input_ms\":[]}",
        "{\"step\":1,\"loss\":1,\"input_ms\":[1,]}",
        "{\"step\":1,\"loss\":1,\"input_ms\":[1",
        "{\"step\":1,\"loss\":1,\"skipped\":false}",
        "{\"step\":1,\"loss\":1\"lr\":2}",
    };
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (ls_line_scan_step(left[i], strlen(left[i]), &step, &usage)) fail_msg("taken: %s", left[i]);
    /* Any cut of a good line, in memory that ends there. */
    for (size_t bytes = 0; bytes < strlen(good); bytes++) {
        char *part = malloc(bytes ? bytes : 1);
        assert_non_null(part);
        memcpy(part, good, bytes);
        assert_false(ls_line_scan_step(part, bytes, &step, &usage));
        free(part);
    }
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

static char folder[64], file[96];

static int make_run(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/lockstep-series-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/metrics.jsonl", folder);
    return 0;
}
static int remove_run(void **state) {
    (void)state;
    return ls_folder_remove(folder) == LS_OK ? 0 : -1;
}

static double loss_of(int64_t step, int pass) { return 5.0 / (double)step + 1e-9 * pass; }

/* Steps from … to, as a process writes them that has begun at the first. */
static void write_steps(int64_t from, int64_t to, int pass, int64_t file_max) {
    ls_metrics *m;
    assert_int_equal(ls_metrics_cut(file, from - 1, NULL), LS_OK);
    assert_int_equal(ls_metrics_open(file, &m), LS_OK);
    if (file_max > 0) ls_metrics_set_file_max(m, file_max);
    for (int64_t s = from; s <= to; s++) {
        if (s == from) {
            ls_metrics_begin(m);
            ls_metrics_add_i64(m, "step", s);
            ls_metrics_add_bool(m, "started", true);
            assert_int_equal(ls_metrics_end(m), LS_OK);
        }
        ls_metrics_begin(m);
        ls_metrics_add_i64(m, "step", s);
        ls_metrics_add_hex(m, "loss", loss_of(s, pass));
        ls_metrics_add_f64(m, "ms", 10 + pass);
        assert_int_equal(ls_metrics_end(m), LS_OK);
        if (s % 5 != 0) continue;
        ls_metrics_begin(m);
        ls_metrics_add_i64(m, "step", s);
        ls_metrics_add_hex(m, "val_loss", loss_of(s, pass) + 1);
        assert_int_equal(ls_metrics_end(m), LS_OK);
    }
    assert_int_equal(ls_metrics_close(m), LS_OK);
}

/* Steps 1 … last, each once; from `redone` on as the second pass has them. */
static void check_series(const ls_run_log *log, int64_t last, int64_t redone) {
    assert_int_equal(log->step_count, last);
    for (int64_t i = 0; i < last; i++) {
        assert_int_equal(log->steps[i].step, i + 1);
        assert_true(log->steps[i].loss == loss_of(i + 1, i + 1 >= redone));
    }
    assert_int_equal(log->validation_count, last / 5);
    for (int64_t i = 0; i < last / 5; i++) assert_int_equal(log->validations[i].step, 5 * (i + 1));
    assert_int_equal(log->damaged_lines + log->unknown_lines, 0);
}

static void check_change(ls_series *s, bool any, bool back, long long first) {
    ls_series_change change;
    assert_int_equal(ls_series_refresh(s, &change), LS_OK);
    assert_int_equal(change.any, any);
    assert_int_equal(change.went_back, back);
    if (any) assert_int_equal(change.first_step, first);
}

static void test_follow(void **state) {
    (void)state;
    ls_series *s;
    const int64_t sizes[] = {0, 600};
    for (size_t k = 0; k < 2; k++) {
        write_steps(1, 20, 0, sizes[k]);
        assert_int_equal(ls_series_open(folder, LS_SERIES_OWN, &s), LS_OK);
        check_series(ls_series_log(s), 20, 99);
        check_change(s, false, false, 0);
        write_steps(21, 40, 0, sizes[k]);
        check_change(s, true, false, 21);
        check_series(ls_series_log(s), 40, 99);
        /* Back to step 33, and on beyond where it was: the file is longer than before. */
        write_steps(34, 60, 1, sizes[k]);
        check_change(s, true, true, 33);
        check_series(ls_series_log(s), 60, 34);
        /* Back and no further. */
        assert_int_equal(ls_metrics_cut(file, 50, NULL), LS_OK);
        check_change(s, true, true, 50);
        check_series(ls_series_log(s), 50, 34);
        /* To the first step; what is told again is what was told. */
        write_steps(1, 7, 0, sizes[k]);
        check_change(s, true, true, 7);
        check_series(ls_series_log(s), 7, 99);
        assert_int_equal(ls_series_log(s)->start_count, 1);
        ls_series_close(s);
        assert_int_equal(ls_metrics_cut(file, 0, NULL), LS_OK);
    }
}

/* Steps that are told twice in one file, which no cut has mended. */
static void test_told_twice(void **state) {
    (void)state;
    ls_series *s;
    write_steps(1, 10, 0, 0);
    FILE *out = fopen(file, "a");
    assert_non_null(out);
    for (int i = 8; i <= 12; i++) fprintf(out, "{\"step\":%d,\"loss\":%a}\n", i, 1.0);
    assert_int_equal(fclose(out), 0);
    out = fopen(file, "a");
    assert_non_null(out);
    for (int i = 8; i <= 12; i++) fprintf(out, "{\"step\":%d,\"loss\":%.17g,\"ms\":1}\n", i, loss_of(i, 1));
    assert_int_equal(fclose(out), 0);
    assert_int_equal(ls_series_open(folder, LS_SERIES_OWN, &s), LS_OK);
    assert_int_equal(ls_series_log(s)->step_count, 12);
    for (size_t i = 0; i < 12; i++) assert_int_equal(ls_series_log(s)->steps[i].step, i + 1);
    assert_true(ls_series_log(s)->steps[11].loss == loss_of(12, 1));
    write_steps(13, 14, 1, 0);
    check_change(s, true, false, 12); /* a new file, with the same steps */
    ls_series_close(s);
}

/* A line without its end: left while a process is at work, taken afterwards, and again when it has one. */
static void test_torn(void **state) {
    (void)state;
    ls_series *s;
    char lock[96];
    write_steps(1, 3, 0, 0);
    snprintf(lock, sizeof lock, "%s/lock", folder);
    int held = open(lock, O_RDWR | O_CREAT, 0600), fd = open(file, O_WRONLY | O_APPEND);
    assert_true(held >= 0 && fd >= 0);
    assert_int_equal(flock(held, LOCK_EX), 0);
    assert_int_equal(write(fd, "{\"step\":4,\"loss\":1", 18), 18);
    assert_int_equal(ls_series_open(folder, LS_SERIES_OWN, &s), LS_OK);
    assert_int_equal(ls_series_log(s)->step_count, 3);
    assert_true(ls_series_log(s)->is_open && !ls_series_log(s)->ends_torn);
    assert_int_equal(write(fd, ".5}", 3), 3);
    check_change(s, false, false, 0);
    assert_int_equal(flock(held, LOCK_UN), 0);
    check_change(s, true, false, 4);
    assert_true(ls_series_log(s)->step_count == 4 && ls_series_log(s)->steps[3].loss == 1.5);
    check_change(s, false, false, 0);
    assert_int_equal(write(fd, "\n{\"step\":5,\"loss\":2}\n", 21), 21);
    check_change(s, true, false, 4);
    assert_true(ls_series_log(s)->step_count == 5 && ls_series_log(s)->lines == 6);
    assert_int_equal(write(fd, "{\"st", 4), 4);
    ls_series_change change;
    assert_int_equal(ls_series_refresh(s, &change), LS_OK);
    assert_true(ls_series_log(s)->ends_torn && ls_series_log(s)->damaged_lines == 1);
    ls_series_close(s);
    assert_int_equal(close(fd) + close(held), 0);
}

static void write_text(const char *in, const char *name, const char *text) {
    ls_path path = ls_path_in(in, name);
    assert_int_equal(ls_file_write_atomic(path.text, text, strlen(text)), LS_OK);
}

static void test_fork(void **state) {
    (void)state;
    ls_series *s;
    char child[96], own[128], text[512];
    write_steps(1, 20, 0, 600);
    write_text(folder, "identity.json", "{\"fields\":{\"seed\":1,\"steps\":90}}");
    snprintf(child, sizeof child, "%s/child", folder);
    snprintf(own, sizeof own, "%s/metrics.jsonl", child);
    assert_int_equal(ls_dir_make(child), LS_OK);
    snprintf(text, sizeof text, "{\"path\":\"%s\",\"step\":12,\"identity\":{\"fields\":{\"seed\":1,\"steps\":20}}}",
             folder);
    write_text(child, "parent.json", text);
    char parents[96];
    memcpy(parents, file, sizeof parents);
    memcpy(file, own, sizeof file);
    write_steps(13, 30, 1, 0);
    assert_int_equal(ls_series_open(child, LS_SERIES_OWN, &s), LS_OK);
    assert_int_equal(ls_series_log(s)->step_count, 18);
    ls_series_close(s);
    assert_int_equal(ls_series_open(child, LS_SERIES_PARENTS, &s), LS_OK);
    check_series(ls_series_log(s), 30, 13);
    assert_int_equal(ls_series_log(s)->start_count, 2);
    write_steps(25, 40, 1, 0);
    check_change(s, true, false, 30); /* the same steps again: nothing is void */
    check_series(ls_series_log(s), 40, 13);
    ls_series_close(s);
    /* Another run lies there now. */
    write_text(folder, "identity.json", "{\"fields\":{\"seed\":2,\"steps\":90}}");
    assert_int_equal(ls_series_open(child, LS_SERIES_PARENTS, &s), LS_OK);
    assert_int_equal(ls_series_log(s)->step_count, 28);
    ls_series_close(s);
}

static void test_end(void **state) {
    (void)state;
    ls_run_log log;
    write_steps(1, 5000, 0, 0);
    assert_int_equal(ls_series_read_end(folder, &log), LS_OK);
    assert_true(log.step_count > 100 && log.step_count < 5000 && log.damaged_lines == 0);
    assert_int_equal(log.steps[log.step_count - 1].step, 5000);
    ls_run_log_free(&log);
    assert_int_equal(ls_series_read_end("/nowhere", &log), LS_ERR_INPUT);
}

static void test_sample(void **state) {
    (void)state;
    ls_run_log log;
    static const char line[] = "{\"step\":3,\"sample\":\"one\\ntwo\\u001b[31m \\u0085x\"}";
    ls_run_log_init(&log);
    assert_int_equal(ls_run_log_add_line(&log, line, strlen(line)), LS_OK);
    assert_int_equal(log.sample_count, 1);
    assert_string_equal(log.samples[0].text, "one\ntwo?[31m ?x");
    ls_run_log_free(&log);
}

static void test_columns(void **state) {
    (void)state;
    ls_series *s;
    write_steps(1, 10, 0, 0);
    assert_int_equal(ls_series_open(folder, LS_SERIES_OWN, &s), LS_OK);
    const ls_run_log *log = ls_series_log(s);
    const ls_series_column *loss = ls_series_column_find("loss"), *val = ls_series_column_find("val_loss");
    assert_true(loss && val && !ls_series_column_find("step_count"));
    assert_true(loss->get(log, 9) == loss_of(10, 0) && val->get(log, 1) == loss_of(10, 0) + 1);
    assert_true(ls_series_has_column(log, loss) && !ls_series_has_column(log, ls_series_column_find("mfu")));
    ls_series_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_sample),
        cmocka_unit_test_setup_teardown(test_follow, make_run, remove_run),
        cmocka_unit_test_setup_teardown(test_told_twice, make_run, remove_run),
        cmocka_unit_test_setup_teardown(test_torn, make_run, remove_run),
        cmocka_unit_test_setup_teardown(test_fork, make_run, remove_run),
        cmocka_unit_test_setup_teardown(test_end, make_run, remove_run),
        cmocka_unit_test_setup_teardown(test_columns, make_run, remove_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
