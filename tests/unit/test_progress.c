/* test_progress.c: the line a person sees, on a terminal (a pseudo-terminal here) and elsewhere, and how they stop a
 * run. */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "run/progress.h"
#include "run/stop.h"

static const ls_step sample = {.step = 120,
                               .steps = 5000,
                               .loss = 4.125,
                               .norm = 0.51234,
                               .lr = 6e-4,
                               .seconds = 0.125,
                               .samples = 4096,
                               .mfu = 0.4125};

/* A clock that the test sets. */
static uint64_t test_ns;
static uint64_t test_now(void) { return test_ns; }

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void line_is_as_documented(void **state) {
    (void)state;
    char line[LS_PROGRESS_LINE_MAX];
    size_t bytes = ls_progress_format(&sample, 610, 0, line);
    assert_string_equal(line, "step  120/5000 | loss 4.1250 | norm 0.5123 | lr 6.00e-04 | 125 ms | "
                              "32.8k tok/s | MFU 41.2% | ETA 10m10s");
    assert_int_equal(bytes, strlen(line));
    /* What is not known is left out. */
    ls_step bare = sample;
    bare.mfu = 0;
    bare.seconds = 0;
    (void)ls_progress_format(&bare, -1, 0, line);
    assert_string_equal(line, "step  120/5000 | loss 4.1250 | norm 0.5123 | lr 6.00e-04 | 0.00 ms");
}

static void numbers_keep_their_shape(void **state) {
    (void)state;
    static const struct {
        double seconds, tokens, eta;
        const char *text;
    } cases[] = {
        {0.001234, 4, 0, "1.23 ms | 3241 tok/s | MFU 41.2% | ETA 0s"},
        {0.0123, 123, 59.4, "12.3 ms | 10.0k tok/s | MFU 41.2% | ETA 59s"},
        {1.5, 1500000, 59.6, "1500 ms | 1.00M tok/s | MFU 41.2% | ETA 1m00s"},
        {1, 9999, 3599.4, "1000 ms | 9999 tok/s | MFU 41.2% | ETA 59m59s"},
        {1, 1, 3660, "ETA 1h01m"},
        {1, 1, 86400 * 3.5, "ETA 3d12h"},
        {1, 1, 1e30, "ETA ?"},
    };
    char line[LS_PROGRESS_LINE_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_step s = sample;
        s.seconds = cases[i].seconds;
        s.samples = cases[i].tokens;
        (void)ls_progress_format(&s, cases[i].eta, 0, line);
        size_t length = strlen(line), tail = strlen(cases[i].text);
        assert_true(length >= tail);
        assert_string_equal(line + length - tail, cases[i].text);
    }
}

static void wild_numbers_are_harmless(void **state) {
    (void)state;
    static const double wild[] = {(double)NAN, -(double)NAN, (double)INFINITY, -(double)INFINITY, 1.7e308, -1.7e308, 0};
    char line[LS_PROGRESS_LINE_MAX];
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        double x = wild[i];
        ls_step s = {INT64_MAX, INT64_MAX, x, x, x, x, x, x, i % 2 == 1, INT_MAX, 0};
        for (int columns = 0; columns < 300; columns++) {
            size_t bytes = ls_progress_format(&s, x, columns, line);
            assert_int_equal(bytes, strlen(line));
            if (columns > 0) assert_true(bytes <= (size_t)columns);
        }
    }
    /* One NaN on every machine. */
    ls_step s = sample;
    s.loss = s.norm = -(double)NAN;
    (void)ls_progress_format(&s, -1, 0, line);
    assert_non_null(strstr(line, "| loss nan | norm nan |"));
    s.loss = -(double)INFINITY;
    (void)ls_progress_format(&s, -1, 0, line);
    assert_non_null(strstr(line, "| loss -inf |"));
}

/* Narrower and narrower: whole fields go, one at a time, and the line is never wider. */
static void narrow_lines_lose_fields(void **state) {
    (void)state;
    static const struct {
        int columns;
        const char *line;
    } cases[] = {
        {110,
         "step  120/5000 | loss 4.1250 | norm 0.5123 | lr 6.00e-04 | 125 ms | 32.8k tok/s | MFU 41.2% | ETA 10m10s"},
        {100, "step  120/5000 | loss 4.1250 | norm 0.5123 | lr 6.00e-04 | 125 ms | 32.8k tok/s | ETA 10m10s"},
        {79, "step  120/5000 | loss 4.1250 | lr 6.00e-04 | 125 ms | 32.8k tok/s | ETA 10m10s"},
        {41, "step  120/5000 | loss 4.1250 | ETA 10m10s"},
        {30, "step  120/5000 | loss 4.1250"},
        {10, "step  120/"},
        {1, "s"},
    };
    char line[LS_PROGRESS_LINE_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)ls_progress_format(&sample, 610, cases[i].columns, line);
        if (strlen(cases[i].line) <= (size_t)cases[i].columns)
            assert_string_equal(line, cases[i].line);
        else
            fail_msg("the case of %d columns is wrong", cases[i].columns);
    }
}

/* ---- cadence ----------------------------------------------------------------------------------------------------- */

static void cadence_is_as_documented(void **state) {
    (void)state;
    const ls_progress_show HOLD = LS_PROGRESS_HOLD, DRAW = LS_PROGRESS_DRAW, LINE = LS_PROGRESS_LINE;
    const uint64_t ms = 1000000, s = 1000 * ms;
    const struct {
        ls_progress_moment moment; /* live, log_every, step, steps, nth, since_ns */
        ls_progress_show show;
    } cases[] = {
        /* A file: ten steps, then one in five seconds, and the last. */
        {{false, 0, 1, 1000, 1, 0}, LINE},
        {{false, 0, 10, 1000, 10, 1 * ms}, LINE},
        {{false, 0, 11, 1000, 11, 1 * ms}, HOLD},
        {{false, 0, 500, 1000, 500, 5 * s - 1}, HOLD},
        {{false, 0, 500, 1000, 500, 5 * s}, LINE},
        {{false, 0, 1000, 1000, 1000, 0}, LINE},
        /* The first ten of a run that was resumed are its own. */
        {{false, 0, 701, 1000, 1, 0}, LINE},
        {{false, 0, 710, 1000, 10, 0}, LINE},
        {{false, 0, 711, 1000, 11, 0}, HOLD},
        /* --log-every counts steps of the run, whatever the time. */
        {{false, 25, 1, 1000, 1, 0}, HOLD},
        {{false, 25, 24, 1000, 24, 60 * s}, HOLD},
        {{false, 25, 25, 1000, 25, 0}, LINE},
        {{false, 25, 725, 1000, 3, 0}, LINE},
        {{false, 25, 990, 990, 990, 0}, LINE},
        {{false, 1, 999, 1000, 999, 0}, LINE},
        /* A terminal: one line, ten times a second; --log-every leaves lines behind. */
        {{true, 0, 1, 1000, 1, 0}, DRAW},
        {{true, 0, 2, 1000, 2, 99 * ms}, HOLD},
        {{true, 0, 3, 1000, 3, 100 * ms}, DRAW},
        {{true, 0, 1000, 1000, 1000, 0}, DRAW},
        {{true, 25, 24, 1000, 24, 99 * ms}, HOLD},
        {{true, 25, 24, 1000, 24, 100 * ms}, DRAW},
        {{true, 25, 25, 1000, 25, 0}, LINE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (ls_progress_cadence(&cases[i].moment) != cases[i].show) fail_msg("case %zu is shown otherwise", i);
}

/* The steps that `text` has lines of. */
static void steps_of(const char *text, char steps[256]) {
    steps[0] = '\0';
    for (const char *at = strstr(text, "step "); at; at = strstr(at + 1, "step "))
        snprintf(steps + strlen(steps), 256 - strlen(steps), "%d ", atoi(at + strlen("step ")));
}

/* 60 steps of a second each, stopped after step 58 of more, as the lines of a file. */
static void expect_lines(int64_t log_every, int64_t first, const char *expected) {
    char *text = NULL, steps[256];
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    ls_progress p;
    ls_progress_init(&p, out, log_every);
    p.now_ns = test_now;
    test_ns = 7000000000;
    ls_step s = {.steps = 60, .loss = 1, .seconds = 1, .samples = 1};
    for (s.step = first; s.step <= 58; s.step++) {
        test_ns += 1000000000;
        assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
    }
    assert_int_equal(ls_progress_end(&p), LS_OK);
    assert_int_equal(ls_progress_end(&p), LS_OK);
    assert_int_equal(fclose(out), 0);
    steps_of(text, steps);
    assert_string_equal(steps, expected);
    free(text);
}

static void lines_come_at_that_cadence(void **state) {
    (void)state;
    expect_lines(0, 1, "1 2 3 4 5 6 7 8 9 10 15 20 25 30 35 40 45 50 55 58 ");
    expect_lines(0, 41, "41 42 43 44 45 46 47 48 49 50 55 58 ");
    expect_lines(25, 1, "25 50 58 ");
    expect_lines(29, 1, "29 58 ");
    expect_lines(1000, 1, "58 ");
}

/* ---- no terminal ------------------------------------------------------------------------------------------------- */

static void plain_lines_elsewhere(void **state) {
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    ls_progress p;
    ls_progress_init(&p, out, 0);
    assert_false(p.live);
    assert_false(p.colours);
    assert_int_equal(ls_progress_end(&p), LS_OK);
    ls_step s = {.steps = 3, .loss = 1.5, .norm = 1, .lr = 0.1, .seconds = 2, .samples = 10};
    for (s.step = 1; s.step <= 3; s.step++) {
        assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
        if (s.step == 2) assert_int_equal(ls_progress_note(&p, "val loss 2"), LS_OK);
    }
    assert_int_equal(ls_progress_end(&p), LS_OK);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "step 1/3 | loss 1.5000 | norm 1 | lr 1.00e-01 | 2000 ms | 5 tok/s | ETA 4s\n"
                              "step 2/3 | loss 1.5000 | norm 1 | lr 1.00e-01 | 2000 ms | 5 tok/s | ETA 2s\n"
                              "val loss 2\n"
                              "step 3/3 | loss 1.5000 | norm 1 | lr 1.00e-01 | 2000 ms | 5 tok/s | ETA 0s\n");
    free(text);
}

/* A run goes on where its progress cannot be printed; that it could not is kept for the end. */
static void a_stream_that_fails_ends_nothing(void **state) {
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    if (!full) skip();
    ls_progress p;
    ls_progress_init(&p, full, 0);
    assert_int_equal(ls_progress_step_done(&p, &sample), LS_OK);
    assert_int_equal(ls_progress_note(&p, "note"), LS_OK);
    assert_int_equal(ls_progress_end(&p), LS_OK);
    assert_true(ferror(full));
    (void)fclose(full);
}

/* The mean of the first steps, then one that follows a change of pace. */
static void eta_follows_the_pace(void **state) {
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    ls_progress p;
    ls_progress_init(&p, out, 0);
    assert_true(ls_progress_eta(&p) < 0);
    ls_step s = {.steps = 1000};
    const double first[] = {3, 1, 2};
    const double mean[] = {3, 2, 2};
    for (int i = 0; i < 3; i++) {
        s.step = i + 1;
        s.seconds = first[i];
        assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
        assert_true(fabs(ls_progress_eta(&p) - mean[i] * (1000 - s.step)) < 1e-9);
    }
    s.seconds = 1;
    for (s.step = 4; s.step <= 200; s.step++) assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
    assert_true(fabs(ls_progress_eta(&p) - 800) < 1);
    s.seconds = 4;
    for (; s.step <= 300; s.step++) assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
    assert_true(fabs(ls_progress_eta(&p) - 4 * 700) < 30);
    assert_int_equal(fclose(out), 0);
    free(text);
}

/* ---- a terminal -------------------------------------------------------------------------------------------------- */

typedef struct terminal {
    int master;
    FILE *out;
} terminal;

static terminal open_terminal(unsigned short columns) {
    terminal t = {.master = posix_openpt(O_RDWR | O_NOCTTY)};
    assert_true(t.master >= 0);
    assert_int_equal(grantpt(t.master), 0);
    assert_int_equal(unlockpt(t.master), 0);
    int slave = open(ptsname(t.master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    struct winsize window = {.ws_row = 24, .ws_col = columns};
    assert_int_equal(ioctl(slave, TIOCSWINSZ, &window), 0);
    t.out = fdopen(slave, "w");
    assert_non_null(t.out);
    return t;
}

static void close_terminal(terminal *t) {
    assert_int_equal(fclose(t->out), 0);
    assert_int_equal(close(t->master), 0);
}

/* What came to the terminal since the last call: up to a mark that is sent behind it, since the kernel takes its time.
 */
static const char *seen(const terminal *t) {
    enum { MARK = 1 };
    static char text[8192];
    size_t used = 0;
    struct pollfd ready = {.fd = t->master, .events = POLLIN};
    assert_int_equal(fputc(MARK, t->out), MARK);
    assert_int_equal(fflush(t->out), 0);
    while (used == 0 || text[used - 1] != MARK) {
        assert_true(used < sizeof text);
        assert_int_equal(poll(&ready, 1, 30000), 1);
        ssize_t got = read(t->master, text + used, sizeof text - used);
        assert_true(got > 0);
        used += (size_t)got;
    }
    text[used - 1] = '\0';
    return text;
}

#define BACK "\r\x1b[K"

static void one_line_on_a_terminal(void **state) {
    (void)state;
    assert_int_equal(setenv("TERM", "xterm", 1), 0);
    assert_int_equal(setenv("NO_COLOR", "1", 1), 0);
    terminal t = open_terminal(50);
    ls_progress p;
    ls_progress_init(&p, t.out, 0);
    p.block = false; /* tests/unit/test_progress_block.c */
    assert_true(p.live);
    assert_false(p.colours);
    assert_true(p.now_ns == ls_clock_ns);
    p.now_ns = test_now;
    test_ns = 7000000000;
    ls_step s = {.step = 1, .steps = 9, .loss = 1.5, .norm = 1, .lr = 0.1, .seconds = 2, .samples = 10};
    assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
    assert_string_equal(seen(&t), BACK "step 1/9 | loss 1.5000 | 5 tok/s | ETA 16s");
    /* Too soon for another. */
    for (s.step = 2; s.step <= 4; s.step++) {
        test_ns += 33333333;
        assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
    }
    assert_string_equal(seen(&t), "");
    /* A note brings the line up to date below it. */
    assert_int_equal(ls_progress_note(&p, "val loss 2"), LS_OK);
    assert_string_equal(seen(&t), BACK "val loss 2\r\n" BACK "step 4/9 | loss 1.5000 | 5 tok/s | ETA 10s");
    test_ns += 100000000;
    s.step = 5;
    assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
    assert_string_equal(seen(&t), BACK "step 5/9 | loss 1.5000 | 5 tok/s | ETA 8s");
    /* The end shows what was held back; once. */
    test_ns += 99999999;
    s.step = 6;
    assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
    assert_string_equal(seen(&t), "");
    assert_int_equal(ls_progress_end(&p), LS_OK);
    assert_string_equal(seen(&t), BACK "step 6/9 | loss 1.5000 | 5 tok/s | ETA 6s\r\n");
    assert_int_equal(ls_progress_end(&p), LS_OK);
    assert_string_equal(seen(&t), "");
    close_terminal(&t);
}

static void log_every_leaves_lines_on_a_terminal(void **state) {
    (void)state;
    assert_int_equal(setenv("TERM", "xterm", 1), 0);
    assert_int_equal(setenv("NO_COLOR", "1", 1), 0);
    terminal t = open_terminal(30);
    ls_progress p;
    ls_progress_init(&p, t.out, 2);
    p.block = false; /* tests/unit/test_progress_block.c */
    p.now_ns = test_now;
    ls_step s = {.step = 1, .steps = 9, .loss = 1.5};
    assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
    assert_string_equal(seen(&t), BACK "step 1/9 | loss 1.5000");
    s.step = 2;
    assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
    assert_string_equal(seen(&t), BACK "step 2/9 | loss 1.5000\r\n");
    /* A note finds nothing to write over, and what was held back comes at the end. */
    assert_int_equal(ls_progress_note(&p, "saved"), LS_OK);
    assert_string_equal(seen(&t), "saved\r\n");
    s.step = 3;
    assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
    assert_string_equal(seen(&t), "");
    assert_int_equal(ls_progress_end(&p), LS_OK);
    assert_string_equal(seen(&t), BACK "step 3/9 | loss 1.5000\r\n");
    close_terminal(&t);
}

static void the_last_step_is_not_held_back(void **state) {
    (void)state;
    terminal t = open_terminal(30);
    ls_progress p;
    ls_progress_init(&p, t.out, 0);
    p.block = false; /* tests/unit/test_progress_block.c */
    ls_step s = {.step = 8, .steps = 9, .loss = 1.5, .seconds = 2};
    assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
    s.step = 9;
    assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
    assert_non_null(strstr(seen(&t), BACK "step 9/9 | loss 1.5000"));
    /* The window may change its size. */
    struct winsize window = {.ws_row = 24, .ws_col = 13};
    assert_int_equal(ioctl(fileno(t.out), TIOCSWINSZ, &window), 0);
    assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
    assert_string_equal(seen(&t), BACK "step 9/9 | l");
    close_terminal(&t);
}

/* The text between the escapes is as wide as without colours. */
static void colours_where_they_are_wanted(void **state) {
    (void)state;
    assert_int_equal(unsetenv("NO_COLOR"), 0);
    terminal t = open_terminal(60);
    ls_progress p;
    ls_progress_init(&p, t.out, 0);
    p.block = false; /* tests/unit/test_progress_block.c */
    assert_true(p.live && p.colours);
    ls_step s = {.step = 1, .steps = 9, .loss = 1.5, .norm = 1, .seconds = 2};
    assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
    assert_non_null(strstr(seen(&t), BACK "step 1/9 | \x1b[1mloss 1.5000\x1b[0m |"));
    p.shown_ns = 0; /* long ago */
    s.loss = (double)NAN;
    assert_int_equal(ls_progress_step_done(&p, &s), LS_OK);
    assert_non_null(strstr(seen(&t), "\x1b[1;31mloss nan\x1b[0m"));
    close_terminal(&t);
    assert_int_equal(setenv("NO_COLOR", "", 1), 0); /* empty is as good as absent */
    t = open_terminal(60);
    ls_progress_init(&p, t.out, 0);
    p.block = false; /* tests/unit/test_progress_block.c */
    assert_true(p.colours);
    assert_int_equal(setenv("TERM", "dumb", 1), 0);
    ls_progress_init(&p, t.out, 0);
    p.block = false; /* tests/unit/test_progress_block.c */
    assert_false(p.live || p.colours);
    close_terminal(&t);
}

/* ---- stopping ---------------------------------------------------------------------------------------------------- */

static void signals_ask_for_a_stop(void **state) {
    (void)state;
    assert_int_equal(ls_stop_install(), LS_OK);
    assert_int_equal(ls_stop_signal(), 0);
    assert_int_equal(ls_stop_status(), LS_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(ls_stop_signal(), SIGTERM);
    assert_int_equal(raise(SIGINT), 0); /* the first counts */
    assert_int_equal(ls_stop_signal(), SIGTERM);
    assert_int_equal(ls_stop_status(), LS_ERR_TERMINATED);
    assert_non_null(strstr(ls_status_message(), "SIGTERM"));
    /* Again: the flag is clear, and SIGINT is caught once more. */
    assert_int_equal(ls_stop_install(), LS_OK);
    assert_int_equal(ls_stop_signal(), 0);
    assert_int_equal(raise(SIGINT), 0);
    assert_int_equal(ls_stop_status(), LS_ERR_INTERRUPTED);
    ls_stop_restore();
    assert_int_equal(ls_stop_signal(), SIGINT);
}

static volatile sig_atomic_t own_calls;
static void own_handler(int number) {
    (void)number;
    own_calls++;
}

static void handlers_are_put_back(void **state) {
    (void)state;
    struct sigaction own = {.sa_handler = own_handler, .sa_flags = SA_NODEFER}, now, before;
    assert_int_equal(sigaction(SIGTERM, &own, &before), 0);
    ls_stop_restore(); /* nothing is installed: nothing happens */
    assert_int_equal(ls_stop_install(), LS_OK);
    assert_int_equal(ls_stop_install(), LS_OK);
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(own_calls, 0);
    ls_stop_restore();
    assert_int_equal(sigaction(SIGTERM, NULL, &now), 0);
    assert_true(now.sa_handler == own_handler);
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(own_calls, 1);
    assert_int_equal(sigaction(SIGTERM, &before, NULL), 0);
    assert_int_equal(sigaction(SIGINT, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_DFL);
}

/* What ends a child that holds twice, runs a loop, releases once, and then gets a signal: 7 where nothing does. */
static int end_of_holder(int number) {
    int wait_status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (signal(SIGHUP, SIG_DFL) == SIG_ERR || ls_stop_hold() != LS_OK || ls_stop_hold() != LS_OK ||
            ls_stop_install() != LS_OK)
            _exit(1);
        if (raise(SIGHUP) != 0 || ls_stop_signal() != SIGTERM) _exit(2);
        ls_stop_restore();
        ls_stop_release();
        if (raise(number) != 0) _exit(3);
        ls_stop_release();
        ls_stop_release(); /* more than were held: nothing happens */
        struct sigaction now;
        _exit(sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_DFL ? 7 : 4);
    }
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

static void signals_after_the_loop_are_caught_while_held(void **state) {
    (void)state;
    assert_int_equal(end_of_holder(SIGUSR1), 7);
    assert_int_equal(end_of_holder(SIGUSR2), 7);
    assert_int_equal(end_of_holder(SIGHUP), 128 + SIGTERM);
    assert_int_equal(end_of_holder(SIGXCPU), 128 + SIGTERM);
    assert_int_equal(end_of_holder(SIGTERM), 128 + SIGTERM);
}

static void ignored_signals_stay_ignored(void **state) {
    (void)state;
    assert_true(signal(SIGINT, SIG_IGN) != SIG_ERR);
    assert_int_equal(ls_stop_install(), LS_OK);
    assert_int_equal(raise(SIGINT), 0);
    assert_int_equal(raise(SIGINT), 0);
    assert_int_equal(ls_stop_signal(), 0);
    ls_stop_restore();
    assert_true(signal(SIGINT, SIG_DFL) == SIG_IGN);
}

/* A child that polls as the training loop does; it ends with 7 when asked, or waits for more where `deaf`. */
static _Noreturn void loop_child(int ready, bool deaf) {
    if (ls_stop_install() != LS_OK || write(ready, "x", 1) != 1) _exit(1);
    while (ls_stop_signal() == 0) usleep(1000);
    if (write(ready, "y", 1) != 1) _exit(1);
    while (deaf) usleep(1000);
    _exit(7);
}

/* How a child ends that gets one SIGINT, and a second one where `twice`. */
static int end_of_child(bool twice) {
    int ready[2], wait_status;
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) loop_child(ready[1], twice);
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(kill(pid, SIGINT), 0);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    if (twice) assert_int_equal(kill(pid, SIGINT), 0);
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    (void)close(ready[0]);
    return wait_status;
}

static void a_second_interrupt_ends_the_process(void **state) {
    (void)state;
    int once = end_of_child(false), twice = end_of_child(true);
    assert_true(WIFEXITED(once) && WEXITSTATUS(once) == 7);
    assert_true(WIFSIGNALED(twice) && WTERMSIG(twice) == SIGINT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cadence_is_as_documented),
        cmocka_unit_test(lines_come_at_that_cadence),
        cmocka_unit_test(log_every_leaves_lines_on_a_terminal),
        cmocka_unit_test(line_is_as_documented),
        cmocka_unit_test(numbers_keep_their_shape),
        cmocka_unit_test(wild_numbers_are_harmless),
        cmocka_unit_test(narrow_lines_lose_fields),
        cmocka_unit_test(plain_lines_elsewhere),
        cmocka_unit_test(a_stream_that_fails_ends_nothing),
        cmocka_unit_test(eta_follows_the_pace),
        cmocka_unit_test(one_line_on_a_terminal),
        cmocka_unit_test(the_last_step_is_not_held_back),
        cmocka_unit_test(colours_where_they_are_wanted),
        cmocka_unit_test(signals_ask_for_a_stop),
        cmocka_unit_test(handlers_are_put_back),
        cmocka_unit_test(signals_after_the_loop_are_caught_while_held),
        cmocka_unit_test(ignored_signals_stay_ignored),
        cmocka_unit_test(a_second_interrupt_ends_the_process),
    };
    /* A script that runs tests in the background has them ignore SIGINT. */
    if (signal(SIGINT, SIG_DFL) == SIG_ERR || signal(SIGTERM, SIG_DFL) == SIG_ERR) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
