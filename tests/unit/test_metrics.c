/* test_metrics.c: lines that are JSON whatever is in them, a disk that is full, and files cut back to a step. */
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/files.h"
#include "observe/metrics.h"
#include "observe/run_read.h"
#include "scratch.h"

enum { FILE_MAX = 1 << 24 };

static char path[128];

static int make_files(void **state) {
    if (make_folder_in_memory(state) != 0) return -1;
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    return 0;
}

static char *content(size_t *bytes) {
    char *text = NULL;
    assert_int_equal(ls_file_read(path, FILE_MAX, &text, bytes), LS_OK);
    return text;
}

static void check_content(const char *expected) {
    size_t bytes;
    char *text = content(&bytes);
    assert_string_equal(text, expected);
    assert_int_equal(bytes, strlen(expected));
    free(text);
}

static void put_content(const char *text, size_t bytes) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void lines_are_as_documented(void **state) {
    (void)state;
    ls_metrics *m;
    assert_int_equal(ls_metrics_open(path, &m), LS_OK);
    ls_metrics_begin(m);
    ls_metrics_add_i64(m, "step", 10);
    ls_metrics_add_hex(m, "loss", 4.125);
    ls_metrics_add_f64(m, "lr", 6e-4);
    ls_metrics_add_bool(m, "clipped", true);
    ls_metrics_add_text(m, "note", "a\"b\\c\n");
    assert_int_equal(ls_metrics_end(m), LS_OK);
    /* On disk before anything else happens, not in a buffer. */
    check_content("{\"step\":10,\"loss\":4.125,\"loss_hex\":\"0x1.08p+2\",\"lr\":0.0006,\"clipped\":true,"
                  "\"note\":\"a\\\"b\\\\c\\u000a\",\"checksum\":\"26f01660afab08c5\"}\n");
    ls_metrics_begin(m);
    ls_metrics_add_text(m, "dropped", "without an end");
    ls_metrics_begin(m);
    ls_metrics_add_f64(m, "a", (double)NAN);
    ls_metrics_add_f64(m, "b", -(double)INFINITY);
    ls_metrics_add_hex(m, "c", (double)INFINITY);
    ls_metrics_add_ms_list(m, "d", (const double[]){1.25, 1e6, 0.0004}, 3);
    ls_metrics_add_ms_list(m, "e", NULL, 0);
    assert_int_equal(ls_metrics_end(m), LS_OK);
    int fd = ls_metrics_share(m);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(ls_metrics_close(m), LS_OK);
    /* Opened again, it goes on behind. */
    assert_int_equal(ls_metrics_open(path, &m), LS_OK);
    ls_metrics_begin(m);
    assert_int_equal(ls_metrics_end(m), LS_OK);
    assert_int_equal(ls_metrics_close(m), LS_OK);
    check_content("{\"step\":10,\"loss\":4.125,\"loss_hex\":\"0x1.08p+2\",\"lr\":0.0006,\"clipped\":true,"
                  "\"note\":\"a\\\"b\\\\c\\u000a\",\"checksum\":\"26f01660afab08c5\"}\n"
                  "{\"a\":\"nan\",\"b\":\"-inf\",\"c\":\"inf\",\"c_hex\":\"inf\",\"d\":[1.250,1000000.000,0.000],\"e\":"
                  "[],\"checksum\":\"5ec48c377156bac1\"}\n{}\n");
}

static void no_metrics_are_no_error(void **state) {
    (void)state;
    ls_metrics_begin(NULL);
    ls_metrics_add_i64(NULL, "a", 1);
    ls_metrics_add_f64(NULL, "a", 1);
    ls_metrics_add_hex(NULL, "a", 1);
    ls_metrics_add_bool(NULL, "a", true);
    ls_metrics_add_text(NULL, "a", "b");
    assert_int_equal(ls_metrics_end(NULL), LS_OK);
    assert_int_equal(ls_metrics_share(NULL), -1);
    assert_int_equal(ls_metrics_close(NULL), LS_OK);
}

static json_t *only_line(void) {
    size_t bytes;
    char *text = content(&bytes);
    json_error_t error;
    json_t *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!object) fail_msg("%s in %s", error.text, text);
    free(text);
    return object;
}

/* Whatever is put in, another reader takes the line for JSON, and numbers come back to the bit. */
static void numbers_read_back_to_the_bit(void **state) {
    (void)state;
    static const double values[] = {0.1,     1.0 / 3, 1e300, DBL_MAX, DBL_MIN, 0x1p-1074, 123456789.125,
                                    -2.5e-7, 1e22,    5,     0.0,     -0.0,    1e15,      0x1.fffffffffffffp+52};
    enum { COUNT = sizeof values / sizeof *values };
    ls_metrics *m;
    assert_int_equal(ls_metrics_open(path, &m), LS_OK);
    ls_metrics_begin(m);
    char key[32];
    for (int i = 0; i < COUNT; i++) {
        snprintf(key, sizeof key, "v%d", i);
        ls_metrics_add_hex(m, key, values[i]);
    }
    ls_metrics_add_i64(m, "least", INT64_MIN);
    assert_int_equal(ls_metrics_end(m), LS_OK);
    assert_int_equal(ls_metrics_close(m), LS_OK);
    json_t *object = only_line();
    for (int i = 0; i < COUNT; i++) {
        snprintf(key, sizeof key, "v%d", i);
        assert_true(json_number_value(json_object_get(object, key)) == values[i]);
        snprintf(key, sizeof key, "v%d_hex", i);
        double read = strtod(json_string_value(json_object_get(object, key)), NULL);
        assert_memory_equal(&read, &values[i], sizeof read);
    }
    assert_true(json_integer_value(json_object_get(object, "least")) == INT64_MIN);
    json_decref(object);
}

/* Text a byte model may produce. jansson refuses a line that is not UTF-8. */
static void any_bytes_become_text(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x98\x80", "gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x98\x80"},
        {"\x80", "\xEF\xBF\xBD"},
        {"\xC3", "\xEF\xBF\xBD"},
        {"\xE2\x82", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xE0\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xF0\x80\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xFF", "\xEF\xBF\xBD"},
        {"\x01\t\r\x1b[0m\x7f", "\x01\t\r\x1b[0m\x7f"},
        {"a\xC3z", "a\xEF\xBF\xBDz"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_metrics *m;
        (void)unlink(path);
        assert_int_equal(ls_metrics_open(path, &m), LS_OK);
        ls_metrics_begin(m);
        ls_metrics_add_text(m, "t", cases[i].in);
        assert_int_equal(ls_metrics_end(m), LS_OK);
        assert_int_equal(ls_metrics_close(m), LS_OK);
        json_t *object = only_line();
        assert_string_equal(json_string_value(json_object_get(object, "t")), cases[i].out);
        json_decref(object);
    }
}

/* All 65536 pairs and the triples after the leading bytes with rules of their own: jansson decides what is UTF-8. */
static void no_bytes_break_a_line(void **state) {
    (void)state;
    ls_metrics *m;
    assert_int_equal(ls_metrics_open(path, &m), LS_OK);
    static char text[8192];
    static const unsigned char leads[] = {0x41, 0xC1, 0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5};
    size_t lines = 0;
    for (size_t l = 0; l < sizeof leads; l++)
        for (int a = 1; a < 256; a++) {
            size_t used = 0;
            for (int b = 1; b < 256; b++) {
                text[used++] = (char)leads[l];
                text[used++] = (char)a;
                text[used++] = (char)b;
                if (b % 3 == 0) text[used++] = (char)0x80;
            }
            text[used] = '\0';
            ls_metrics_begin(m);
            ls_metrics_add_text(m, "t", text);
            assert_int_equal(ls_metrics_end(m), LS_OK);
            lines++;
        }
    assert_int_equal(ls_metrics_close(m), LS_OK);
    ls_metrics_cut_report report;
    assert_int_equal(ls_metrics_cut(path, 0, &report), LS_OK);
    assert_int_equal(report.kept, lines);
    assert_int_equal(report.damaged_bytes, 0);
}

static void a_line_too_long_is_not_written(void **state) {
    (void)state;
    static char text[LS_METRICS_LINE_MAX + 10];
    ls_metrics *m;
    assert_int_equal(ls_metrics_open(path, &m), LS_OK);
    /* {"t":"…","checksum":"…"}\n has 39 bytes around the text. */
    for (int over = 0; over <= 3; over++) {
        memset(text, 'x', sizeof text);
        text[LS_METRICS_LINE_MAX - 39 + over] = '\0';
        ls_metrics_begin(m);
        ls_metrics_add_text(m, "t", text);
        assert_int_equal(ls_metrics_end(m), over ? LS_ERR_INPUT : LS_OK);
    }
    memset(text, '\n', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ls_metrics_begin(m);
    ls_metrics_add_text(m, "t", text);
    ls_metrics_add_i64(m, "more", 1);
    assert_int_equal(ls_metrics_end(m), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "65536 bytes"));
    ls_metrics_begin(m);
    assert_int_equal(ls_metrics_end(m), LS_OK);
    assert_int_equal(ls_metrics_close(m), LS_OK);
    size_t bytes;
    free(content(&bytes));
    assert_int_equal(bytes, LS_METRICS_LINE_MAX + 3);
    ls_metrics_cut_report report;
    assert_int_equal(ls_metrics_cut(path, 0, &report), LS_OK);
    assert_int_equal(report.kept, 2);
}

/* A file-size limit makes write(2) first short and then fail, as a disk that fills up does. */
static void a_full_disk_leaves_whole_lines(void **state) {
    (void)state;
    ls_metrics *m;
    assert_int_equal(ls_metrics_open(path, &m), LS_OK);
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){.rlim_cur = 1000, .rlim_max = before.rlim_max};
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ls_status status = LS_OK;
    int lines = 0;
    while (status == LS_OK && lines < 1000) {
        ls_metrics_begin(m);
        ls_metrics_add_i64(m, "step", 1000);
        ls_metrics_add_f64(m, "x", 0.125);
        status = ls_metrics_end(m);
        lines += status == LS_OK;
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, LS_ERR_RESOURCE);
    assert_non_null(strstr(ls_status_message(), "metrics.jsonl: File too large"));
    assert_int_equal(lines, 1000 / 54); /* {"step":1000,"x":0.125,"checksum":"…"} and a newline */
    size_t bytes;
    char *text = content(&bytes);
    assert_int_equal(bytes, 54 * lines);
    assert_int_equal(text[bytes - 1], '\n');
    free(text);
    /* And when there is room again, it goes on. */
    ls_metrics_begin(m);
    assert_int_equal(ls_metrics_end(m), LS_OK);
    assert_int_equal(ls_metrics_close(m), LS_OK);
    free(content(&bytes));
    assert_int_equal(bytes, 54 * lines + 3);
}

static void places_that_cannot_be_written_are_named(void **state) {
    (void)state;
    ls_metrics *m;
    char below[160];
    assert_int_equal(ls_metrics_open(folder, &m), LS_ERR_INPUT);
    assert_null(m);
    snprintf(below, sizeof below, "%s/none/metrics.jsonl", folder);
    assert_int_equal(ls_metrics_open(below, &m), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), below));
    assert_int_equal(ls_metrics_cut(folder, 0, NULL), LS_ERR_INPUT);
    assert_int_equal(ls_metrics_cut(below, 0, NULL), LS_OK);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(ls_metrics_cut(path, 0, NULL), LS_ERR_INPUT);
}

/* ---- cutting back ------------------------------------------------------------------------------------------------ */

#define L1 "{\"step\":1,\"loss\":5.5}\n"
#define L2 "{\"step\":2,\"loss\":5.25}\n"
#define E2 "{\"step\":2,\"val\":5}\n"
#define L3 "{\"step\":3,\"loss\":4}\n"
#define EVENT "{\"event\":\"saved\"}\n"
#define TOLD "{\"step\":3,\"event\":\"audit\"}\n"

static void files_are_cut_to_a_step(void **state) {
    (void)state;
    static const struct {
        const char *before;
        int64_t step;
        const char *after;
        int kept, dropped, damaged;
    } cases[] = {
        {"", 5, "", 0, 0, 0},
        {L1 L2 L3, 3, L1 L2 L3, 3, 0, 0},
        {L1 L2 L3, 9, L1 L2 L3, 3, 0, 0},
        {L1 L2 E2 L3, 2, L1 L2 E2, 3, 1, 0},
        {L1 L2 E2 L3, 1, L1, 1, 3, 0},
        {L1 L2 E2 L3, 0, "", 0, 4, 0},
        {L1 EVENT L2 EVENT L3 EVENT, 2, L1 EVENT L2 EVENT, 4, 2, 0},
        /* a torn last line */
        {L1 L2 "{\"step\":3,\"lo", 9, L1 L2, 2, 0, 13},
        {L1 L2 "{\"step\":3,\"lo", 1, L1, 1, 1, 13},
        {"{", 9, "", 0, 0, 1},
        /* one that lacks only its newline */
        {L1 "{\"step\":2}", 9, L1 "{\"step\":2}\n", 2, 0, 0},
        {L1 "{\"step\":2}", 1, L1, 1, 1, 0},
        /* damage in the middle takes no other line with it */
        {L1 "rubbish\n" L2, 9, L1 L2, 2, 0, 8},
        {L1 "\n" L2, 9, L1 L2, 2, 0, 1},
        {L1 "[1]\n" L2, 9, L1 L2, 2, 0, 4},
        {L1 "rubbish\n" L2 L3, 2, L1 L2, 2, 1, 8},
        {L1 L2 "rubbish\n" L3 "{", 2, L1 L2, 2, 1, 9},
        {L1 "x\n" L2 "{\"step\":3}", 9, L1 L2 "{\"step\":3}\n", 3, 0, 2},
        {"17\n", 9, "", 0, 0, 3},
        /* nor does a step whose number was damaged */
        {L1 "{\"step\":66,\"loss\":5}\n" EVENT L2 L3, 3, L1 L2 L3, 3, 0, 21 + sizeof EVENT - 1},
        /* an event of a step that was not done, and what was told of the one before it later */
        {L1 L2 TOLD E2, 2, L1 L2 E2, 3, 0, 0},
        {L1 L2 TOLD, 2, L1 L2, 2, 1, 0},
        {L1 L2 TOLD E2 L3, 3, L1 L2 TOLD E2 L3, 5, 0, 0},
        /* a step that is no whole number has no say */
        {L1 "{\"step\":\"7\"}\n", 1, L1 "{\"step\":\"7\"}\n", 2, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_metrics_cut_report report = {.kept = -1, .dropped = -1, .damaged_bytes = -1};
        put_content(cases[i].before, strlen(cases[i].before));
        assert_int_equal(ls_metrics_cut(path, cases[i].step, &report), LS_OK);
        check_content(cases[i].after);
        assert_int_equal(report.kept, cases[i].kept);
        assert_int_equal(report.dropped, cases[i].dropped);
        assert_int_equal(report.damaged_bytes, cases[i].damaged);
        /* Once more changes nothing. */
        assert_int_equal(ls_metrics_cut(path, cases[i].step, NULL), LS_OK);
        check_content(cases[i].after);
    }
}

static void check_aside(const char *name, const char *expected) {
    char aside[160], *text = NULL;
    size_t bytes;
    snprintf(aside, sizeof aside, "%s.%s", path, name);
    assert_int_equal(ls_file_read(aside, FILE_MAX, &text, &bytes), LS_OK);
    assert_string_equal(text, expected);
    free(text);
}

/* Nothing that cannot be read is deleted, and a second damage does not replace the first. */
static void put_steps(void) {
    ls_metrics *m;
    assert_int_equal(ls_metrics_open(path, &m), LS_OK);
    for (int step = 1; step <= 3; step++) {
        ls_metrics_begin(m);
        ls_metrics_add_i64(m, "step", step);
        ls_metrics_add_hex(m, "loss", 1.0 / step);
        ls_metrics_add_text(m, "state_before", "0123456789abcdef0123456789abcdef");
        assert_int_equal(ls_metrics_end(m), LS_OK);
    }
    assert_int_equal(ls_metrics_close(m), LS_OK);
}

/* Of the three steps those that are there have their numbers. */
static size_t check_steps(const char *text, size_t bytes, long long *damaged) {
    ls_run_log log;
    ls_run_log_init(&log);
    assert_int_equal(ls_run_log_add_metrics(&log, text, bytes), LS_OK);
    for (size_t i = 0; i < log.step_count; i++) {
        const ls_run_log_step *step = &log.steps[i];
        assert_in_range(step->step, 1, 3);
        assert_true(step->loss == 1.0 / (double)step->step);
        assert_string_equal(step->state_before, "0123456789abcdef0123456789abcdef");
    }
    size_t count = log.step_count;
    *damaged = log.damaged_lines;
    ls_run_log_free(&log);
    return count;
}

/* Whichever bit of a file flips: a line is what was written, or damaged; and cutting sets the damaged one aside. */
static void no_bit_of_a_line_changes_a_number(void **state) {
    (void)state;
    size_t bytes, cut_bytes;
    long long damaged;
    put_steps();
    char *text = content(&bytes);
    assert_int_equal(check_steps(text, bytes, &damaged), 3);
    assert_int_equal(damaged, 0);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        text[bit / 8] ^= (char)(1 << bit % 8);
        size_t there = check_steps(text, bytes, &damaged);
        assert_true(damaged > 0 ? there < 3 : there == 3);
        put_content(text, bytes);
        ls_metrics_cut_report report;
        assert_int_equal(ls_metrics_cut(path, 3, &report), LS_OK);
        assert_int_equal(report.damaged, damaged);
        if (damaged > 0) assert_int_equal(unlink(report.aside), 0);
        char *cut = content(&cut_bytes);
        assert_int_equal(check_steps(cut, cut_bytes, &damaged), there);
        assert_int_equal(damaged, 0);
        free(cut);
        text[bit / 8] ^= (char)(1 << bit % 8);
    }
    free(text);
}

static void damaged_lines_are_set_aside(void **state) {
    (void)state;
    ls_metrics_cut_report report;
    put_content(L1 "rubb\x01sh\n" L2 E2 L3 "{\"to", sizeof(L1 "rubb\x01sh\n" L2 E2 L3 "{\"to") - 1);
    assert_int_equal(ls_metrics_cut(path, 2, &report), LS_OK);
    check_content(L1 L2 E2);
    assert_int_equal(report.damaged, 2);
    assert_int_equal(report.dropped, 1);
    assert_non_null(strstr(report.aside, "metrics.jsonl.damaged-1"));
    check_aside("damaged-1", "rubb\x01sh\n{\"to");
    put_content(L1 L2 "more\n", sizeof(L1 L2 "more\n") - 1);
    assert_int_equal(ls_metrics_cut(path, 2, &report), LS_OK);
    check_content(L1 L2);
    check_aside("damaged-1", "rubb\x01sh\n{\"to");
    check_aside("damaged-2", "more\n");
}

/* One bit of a long history costs at most the two lines that it joins, wherever it is. */
static void a_flipped_bit_costs_its_line_alone(void **state) {
    (void)state;
    enum { LINES = 8 };
    char whole[LINES * 40] = "", entry[40];
    for (int i = 1; i <= LINES; i++) {
        snprintf(entry, sizeof entry, "{\"step\":%d,\"loss\":5.5}\n", i);
        strcat(whole, entry);
    }
    size_t bytes = strlen(whole);
    for (size_t bit = 0; bit < 8 * bytes; bit += 5) {
        ls_metrics_cut_report report;
        whole[bit / 8] = (char)(whole[bit / 8] ^ (1 << bit % 8));
        put_content(whole, bytes);
        whole[bit / 8] = (char)(whole[bit / 8] ^ (1 << bit % 8));
        assert_int_equal(ls_metrics_cut(path, LINES, &report), LS_OK);
        assert_true(report.kept + report.damaged + report.dropped >= LINES - 1);
        assert_true(report.kept >= LINES - 2);
        if (report.aside[0]) assert_int_equal(unlink(report.aside), 0);
    }
}

static void a_link_is_not_followed(void **state) {
    (void)state;
    ls_metrics *m;
    char other[160];
    snprintf(other, sizeof other, "%s/other", folder);
    assert_int_equal(ls_file_write_atomic(other, "mine\n", 5), LS_OK);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(ls_metrics_cut(path, 0, NULL), LS_ERR_INPUT);
    assert_int_equal(ls_metrics_open(path, &m), LS_ERR_INPUT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(other, path), 0);
    check_content("mine\n");
}

static void a_look_tells_the_last_step(void **state) {
    (void)state;
    ls_metrics_about about;
    assert_int_equal(ls_metrics_look(path, &about), LS_OK);
    assert_int_equal(about.last_step, 0);
    assert_int_equal(about.saved_step, -1);
    put_content(L1 "rubbish\n" L2 "{\"step\":2,\"saved\":true}\n" L3,
                sizeof(L1 "rubbish\n" L2 "{\"step\":2,\"saved\":true}\n" L3) - 1);
    assert_int_equal(ls_metrics_look(path, &about), LS_OK);
    assert_int_equal(about.last_step, 3);
    assert_int_equal(about.saved_step, 2);
}

/* Every place at which a file can be torn: whole lines stay, and nothing but they. */
static void every_tear_is_mended(void **state) {
    (void)state;
    static const char whole[] = L1 L2 E2 L3;
    for (size_t bytes = 0; bytes < sizeof whole; bytes++) {
        put_content(whole, bytes);
        assert_int_equal(ls_metrics_cut(path, 9, NULL), LS_OK);
        char expected[sizeof whole];
        size_t keep = 0;
        for (size_t i = 0; i < bytes; i++)
            if (whole[i] == '\n' || (i + 1 == bytes && whole[i] == '}')) keep = i + 1;
        snprintf(expected, sizeof expected, "%.*s", (int)keep, whole);
        if (keep && expected[keep - 1] != '\n') strcat(expected, "\n");
        check_content(expected);
    }
}

static void long_and_binary_lines_are_damage(void **state) {
    (void)state;
    static char text[3 * LS_METRICS_LINE_MAX];
    ls_metrics_cut_report report;
    memset(text, 'x', sizeof text);
    memcpy(text, L1, sizeof L1 - 1);
    put_content(text, sizeof text);
    assert_int_equal(ls_metrics_cut(path, 9, &report), LS_OK);
    check_content(L1);
    assert_int_equal(report.damaged_bytes, sizeof text - (sizeof L1 - 1));
    memset(text + sizeof L1 - 1, 0, 4096);
    put_content(text, 4096);
    assert_int_equal(ls_metrics_cut(path, 9, &report), LS_OK);
    check_content(L1);
    memset(text, '[', sizeof text);
    put_content(text, sizeof text);
    assert_int_equal(ls_metrics_cut(path, 9, &report), LS_OK);
    check_content("");
}

/* Until the writer is well past step 10, however slowly it runs. */
static void await_lines(pid_t pid) {
    struct stat about = {0};
    for (int ms = 0; stat(path, &about) != 0 || about.st_size < 4096; ms++) {
        assert_int_equal(waitpid(pid, &(int){0}, WNOHANG), 0);
        assert_true(ms < 60000);
        usleep(1000);
    }
}

/* A writer killed at any moment leaves whole lines and at most one torn one: a write that crosses a page may be cut. */
static void kill_leaves_whole_lines(void **state) {
    (void)state;
    for (int round = 0; round < 5; round++) {
        (void)unlink(path);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            ls_metrics *m;
            if (ls_metrics_open(path, &m) != LS_OK) _exit(1);
            for (int64_t step = 1;; step++) {
                ls_metrics_begin(m);
                ls_metrics_add_i64(m, "step", step);
                ls_metrics_add_hex(m, "loss", 1.0 / (double)step);
                if (ls_metrics_end(m) != LS_OK) _exit(1);
            }
        }
        await_lines(pid);
        usleep(3000 * (useconds_t)round);
        assert_int_equal(kill(pid, SIGKILL), 0);
        int wait_status;
        assert_int_equal(waitpid(pid, &wait_status, 0), pid);
        assert_true(WIFSIGNALED(wait_status));
        ls_metrics_cut_report report;
        assert_int_equal(ls_metrics_cut(path, 10, &report), LS_OK);
        assert_int_equal(report.kept, 10);
        assert_true(report.dropped > 0);
        assert_true(report.damaged_bytes < 64);
    }
}

/* ---- files that are set aside ------------------------------------------------------------------------------------ */

static void write_steps(int from, int to, int64_t file_max) {
    ls_metrics *m;
    assert_int_equal(ls_metrics_open(path, &m), LS_OK);
    ls_metrics_set_file_max(m, file_max);
    for (int step = from; step <= to; step++) {
        ls_metrics_begin(m);
        ls_metrics_add_i64(m, "step", step);
        ls_metrics_add_f64(m, "loss", step * 0.5);
        assert_int_equal(ls_metrics_end(m), LS_OK);
        if (step != 7) continue;
        ls_metrics_begin(m);
        ls_metrics_add_i64(m, "step", step);
        ls_metrics_add_bool(m, "saved", true);
        assert_int_equal(ls_metrics_end(m), LS_OK);
    }
    assert_int_equal(ls_metrics_close(m), LS_OK);
}

/* The steps of all files, in order. */
static void check_series(int last, int least_files) {
    ls_metrics_file *files;
    int count, step = 0;
    assert_int_equal(ls_metrics_files(path, &files, &count), LS_OK);
    assert_true(count >= least_files);
    for (int i = 0; i <= count; i++) {
        FILE *file = fopen(i < count ? files[i].path.text : path, "r");
        char line[256];
        assert_non_null(file);
        while (fgets(line, sizeof line, file)) {
            int found = -1;
            if (!strstr(line, "\"loss\"")) continue;
            assert_int_equal(sscanf(line, "{\"step\":%d", &found), 1);
            assert_int_equal(found, ++step);
            if (i < count) assert_true(found <= files[i].last_step);
        }
        fclose(file);
    }
    assert_int_equal(step, last);
    free(files);
}

static void large_files_are_set_aside_and_cut_back(void **state) {
    (void)state;
    ls_metrics_about about;
    write_steps(1, 200, 500);
    check_series(200, 5);
    assert_int_equal(ls_metrics_look(path, &about), LS_OK);
    assert_int_equal(about.saved_step, 7);
    assert_int_equal(about.last_step, 200);
    for (int back = 200; back >= 0; back -= back > 20 ? 9 : 1) {
        assert_int_equal(ls_metrics_cut(path, back, NULL), LS_OK);
        check_series(back, 0);
        if (back % 2 == 0) continue;
        write_steps(back + 1, back + 12, 500);
        check_series(back + 12, 0);
        assert_int_equal(ls_metrics_cut(path, back, NULL), LS_OK);
        check_series(back, 0);
    }
}

static void a_thinned_file_has_some_steps_and_all_else(void **state) {
    (void)state;
    static const char whole[] = "{\"step\":98,\"continues\":\"metrics-000000000098.jsonl\",\"saved_step\":90}\n"
                                "{\"step\":99,\"loss\":5,\"lr\":1}\n"
                                "{\"step\":99,\"val_loss\":5}\n"
                                "{\"step\":99,\"saved\":true}\n"
                                "{\"step\":100,\"event\":\"overflow\",\"loss\":1}\n"
                                "{\"step\":100,\"loss\":4}\n"
                                "{\"step\":100,\"numerics\":\"head\"}\n"
                                "{\"step\":101,\"loss\":3}\n"
                                "{\"step\":101,\"numerics\":\"head\"}\n"
                                "{\"step\":101,\"noise\":true}\n"
                                "{\"step\":101,\"sample\":\"so\"}\n"
                                "{\"step\":x,\"loss\":3}\n"
                                "rubb\x01sh\n"
                                "{\"step\":102,\"loss\":2}\n"
                                "{\"step\":102,\"stopped\":\"early stop\"}";
    static const char thinned[] = "{\"step\":98,\"thinned\":100}\n"
                                  "{\"step\":98,\"continues\":\"metrics-000000000098.jsonl\",\"saved_step\":90}\n"
                                  "{\"step\":99,\"val_loss\":5}\n"
                                  "{\"step\":99,\"saved\":true}\n"
                                  "{\"step\":100,\"event\":\"overflow\",\"loss\":1}\n"
                                  "{\"step\":100,\"loss\":4}\n"
                                  "{\"step\":100,\"numerics\":\"head\"}\n"
                                  "{\"step\":101,\"sample\":\"so\"}\n"
                                  "{\"step\":x,\"loss\":3}\n"
                                  "rubb\x01sh\n"
                                  "{\"step\":102,\"loss\":2}\n"
                                  "{\"step\":102,\"stopped\":\"early stop\"}";
    put_content(whole, sizeof whole - 1);
    for (int i = 0; i < 2; i++) { /* once is enough */
        assert_int_equal(ls_metrics_thin(path), LS_OK);
        check_content(thinned);
    }
    put_content("", 0);
    assert_int_equal(ls_metrics_thin(path), LS_OK);
    check_content("{\"step\":0,\"thinned\":100}\n");
    assert_int_equal(ls_metrics_thin("none/there"), LS_ERR_INPUT);
}

/* Files but the latest are thinned, when they are set aside, and at once where that is asked for later. */
static void earlier_files_are_thinned(void **state) {
    (void)state;
    ls_metrics_file *files;
    ls_metrics *m;
    int count, thinned = 0;
    write_steps(1, 200, 500);
    assert_int_equal(ls_metrics_open(path, &m), LS_OK);
    ls_metrics_set_keep(m, 3);
    assert_int_equal(ls_metrics_close(m), LS_OK);
    assert_int_equal(ls_metrics_files(path, &files, &count), LS_OK);
    assert_true(count > 10);
    for (int i = 0; i < count; i++) {
        char *text = NULL;
        size_t bytes;
        assert_int_equal(ls_file_read(files[i].path.text, FILE_MAX, &text, &bytes), LS_OK);
        bool is_thinned = strstr(text, "\"thinned\":") != NULL;
        assert_int_equal(is_thinned, i < count - 3);
        thinned += is_thinned;
        free(text);
    }
    free(files);
    assert_int_equal(thinned, count - 3);
    /* What is cut back to a step in a thinned file has the steps that are left. */
    ls_metrics_about about;
    assert_int_equal(ls_metrics_cut(path, 100, NULL), LS_OK);
    assert_int_equal(ls_metrics_look(path, &about), LS_OK);
    assert_int_equal(about.last_step, 100);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_files, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(large_files_are_set_aside_and_cut_back),
        IN_FOLDER(a_thinned_file_has_some_steps_and_all_else),
        IN_FOLDER(earlier_files_are_thinned),
        IN_FOLDER(lines_are_as_documented),
        IN_FOLDER(no_metrics_are_no_error),
        IN_FOLDER(numbers_read_back_to_the_bit),
        IN_FOLDER(any_bytes_become_text),
        IN_FOLDER(no_bytes_break_a_line),
        IN_FOLDER(a_line_too_long_is_not_written),
        IN_FOLDER(a_full_disk_leaves_whole_lines),
        IN_FOLDER(places_that_cannot_be_written_are_named),
        IN_FOLDER(files_are_cut_to_a_step),
        IN_FOLDER(no_bit_of_a_line_changes_a_number),
        IN_FOLDER(damaged_lines_are_set_aside),
        IN_FOLDER(a_flipped_bit_costs_its_line_alone),
        IN_FOLDER(a_link_is_not_followed),
        IN_FOLDER(a_look_tells_the_last_step),
        IN_FOLDER(every_tear_is_mended),
        IN_FOLDER(long_and_binary_lines_are_damage),
        IN_FOLDER(kill_leaves_whole_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
