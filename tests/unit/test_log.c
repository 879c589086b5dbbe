/* test_log.c: which lines are written, and how they look. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"

typedef struct caught {
    int lines;
    ls_log_level level;
    size_t bytes;
    char text[2 * LS_LOG_LINE_MAX];
} caught;

static void catch_line(void *ctx, ls_log_level level, const char *line, size_t bytes) {
    caught *c = ctx;
    c->lines++;
    c->level = level;
    c->bytes = bytes;
    memcpy(c->text, line, bytes);
    c->text[bytes] = '\0';
    errno = EIO;
}

static int set_up(void **state) {
    static caught c;
    c = (caught){0};
    *state = &c;
    ls_log_set_level(LS_LOG_WARN);
    ls_log_set_worker(-1);
    ls_log_set_sink(catch_line, &c);
    return 0;
}

static void warnings_are_on_and_info_off(void **state) {
    caught *c = *state;
    ls_log_info("not seen");
    ls_log_debug("not seen");
    assert_int_equal(c->lines, 0);
    ls_log_warn("%d workers on %d cores", 8, 2);
    assert_int_equal(c->lines, 1);
    assert_int_equal(c->level, LS_LOG_WARN);
    assert_string_equal(c->text, "lockstep: warning: 8 workers on 2 cores\n");
    ls_log_set_level(LS_LOG_DEBUG);
    ls_log_debug("x");
    assert_string_equal(c->text, "lockstep: debug: x\n");
    ls_log_set_level(LS_LOG_ERROR);
    ls_log_warn("not seen");
    ls_log_write(LS_LOG_WARN, "not seen");
    assert_int_equal(c->lines, 2);
    ls_log_write(LS_LOG_ERROR, "seen");
    assert_string_equal(c->text, "lockstep: error: seen\n");
}

static void arguments_of_silent_messages_are_not_evaluated(void **state) {
    (void)state;
    int calls = 0;
    ls_log_debug("%d", ++calls);
    assert_int_equal(calls, 0);
}

static void worker_is_named(void **state) {
    caught *c = *state;
    ls_log_set_worker(3);
    ls_log_warn("slow");
    assert_string_equal(c->text, "lockstep: [worker 3] warning: slow\n");
    ls_log_set_worker(-1);
    ls_log_warn("slow");
    assert_string_equal(c->text, "lockstep: warning: slow\n");
}

static void message_becomes_one_line(void **state) {
    caught *c = *state;
    ls_log_warn("a\nb\n\n");
    assert_string_equal(c->text, "lockstep: warning: a b\n");
}

static void long_message_is_cut(void **state) {
    caught *c = *state;
    static char text[2 * LS_LOG_LINE_MAX];
    size_t prefix = strlen("lockstep: warning: ");
    memset(text, 'x', sizeof text - 1);
    for (size_t length = LS_LOG_LINE_MAX - 30; length < LS_LOG_LINE_MAX + 30; length++) {
        ls_log_warn("%.*s", (int)length, text);
        size_t whole = prefix + length + 1;
        assert_int_equal(c->bytes, whole <= LS_LOG_LINE_MAX ? whole : LS_LOG_LINE_MAX);
        assert_int_equal(c->text[c->bytes - 1], '\n');
        assert_int_equal(c->text[c->bytes - 2], whole <= LS_LOG_LINE_MAX ? 'x' : '.');
    }
    for (size_t i = 0; i + 1 < sizeof text - 1; i += 2) memcpy(text + i, "é", 2);
    for (int shift = 0; shift < 2; shift++) {
        ls_log_warn("%.*s%s", shift, "z", text);
        size_t cut_at = c->bytes - 4;
        assert_memory_equal(c->text + cut_at, "...\n", 4);
        assert_memory_equal(c->text + cut_at - 2, "é", 2);
    }
}

static void errno_is_kept(void **state) {
    (void)state;
    errno = ENOENT;
    ls_log_warn("x");
    assert_int_equal(errno, ENOENT);
}

/* What a warning writes to standard error. */
static void catch_stderr(char text[128]) {
    int ends[2], saved = dup(STDERR_FILENO);
    memset(text, 0, 128);
    assert_true(saved >= 0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    ls_log_warn("to %s", "stderr");
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    assert_true(read(ends[0], text, 127) >= 0);
    close(ends[0]);
    close(saved);
}

static void lines_go_to_stderr(void **state) {
    (void)state;
    char text[128];
    ls_log_set_sink(ls_log_stderr, NULL);
    catch_stderr(text);
    assert_string_equal(text, "lockstep: warning: to stderr\n");
}

/* As a program finds the library. */
static void nobody_asked_and_nothing_is_written(void **state) {
    (void)state;
    char text[128];
    ls_log_set_sink(NULL, NULL);
    catch_stderr(text);
    assert_string_equal(text, "");
}

static void keep_message(void *ctx, const char *line) { snprintf(ctx, 128, "%s", line); }

static void a_program_has_its_own_handler(void **state) {
    (void)state;
    char line[128] = "", text[128];
    ls_message_handler_set(keep_message, line);
    catch_stderr(text);
    assert_string_equal(line, "lockstep: warning: to stderr");
    assert_string_equal(text, "");
    ls_message_handler_set(NULL, NULL);
    line[0] = '\0';
    catch_stderr(text);
    assert_string_equal(line, "");
    assert_string_equal(text, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(warnings_are_on_and_info_off, set_up),
        cmocka_unit_test_setup(arguments_of_silent_messages_are_not_evaluated, set_up),
        cmocka_unit_test_setup(worker_is_named, set_up),
        cmocka_unit_test_setup(message_becomes_one_line, set_up),
        cmocka_unit_test_setup(long_message_is_cut, set_up),
        cmocka_unit_test_setup(errno_is_kept, set_up),
        cmocka_unit_test_setup(lines_go_to_stderr, set_up),
        cmocka_unit_test_setup(nobody_asked_and_nothing_is_written, set_up),
        cmocka_unit_test_setup(a_program_has_its_own_handler, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
