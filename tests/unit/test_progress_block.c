/* test_progress_block.c: the block of a terminal: never wider than the window, no number cut, what it says of the loss,
 * evaluations and guards. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "run/progress.h"

static const ls_step sample = {.step = 120,
                               .steps = 900,
                               .loss = 4.125,
                               .norm = 0.51234,
                               .lr = 6e-4,
                               .seconds = 0.125,
                               .samples = 4096,
                               .mfu = 0.4125};

static int width_of(const char *text) {
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

static void make(ls_progress *p, int columns, ls_progress_block *block) {
    ls_progress_block_make(p, columns, block);
    for (int i = 0; i < LS_PROGRESS_BLOCK_LINES; i++) {
        assert_int_equal(block->width[i], width_of(block->line[i])); /* without colours */
        assert_true(block->width[i] <= columns);
    }
}

static void test_lines(void **state) {
    (void)state;
    ls_progress p = {.live = true, .block = true, .utf8 = true, .timed = 3, .average_s = 0.125, .last = sample};
    ls_progress_block block;
    make(&p, 79, &block);
    assert_string_equal(block.line[2], "32.8k tok/s · 125 ms a step · MFU 41.2 % · lr 6.00e-04 · norm 0.5123");
    assert_string_equal(block.line[3], "guards  quiet");
    assert_non_null(strstr(block.line[0], "step 120/900  ━━━"));
    assert_non_null(strstr(block.line[0], "─  13 %  ETA 1m38s"));
    assert_string_equal(block.line[1], "loss 4.1250");
    p.utf8 = false;
    make(&p, 79, &block);
    assert_non_null(strstr(block.line[0], "step 120/900  ###"));
    for (int i = 0; i < LS_PROGRESS_BLOCK_LINES; i++)
        for (const char *c = block.line[i]; *c; c++) assert_true((unsigned char)*c < 0x80);
}

static void test_curve(void **state) {
    (void)state;
    ls_progress p = {.live = true, .block = true, .utf8 = true, .timed = 3, .average_s = 0.125, .last = sample};
    ls_progress_block block;
    ls_step step = sample;
    for (int i = 0; i < 10000; i++) {
        step.loss = 10 - i * 1e-3;
        ls_progress_seen_step(&p.seen, &step);
    }
    assert_true(p.seen.count <= LS_PROGRESS_POINTS && p.seen.count >= LS_PROGRESS_POINTS / 2);
    make(&p, 79, &block);
    assert_non_null(strstr(block.line[1], "   █"));
    assert_string_equal(block.line[1] + strlen(block.line[1]) - strlen("▁"), "▁");
    step.loss = (double)NAN; /* is no point of the curve */
    ls_progress_seen_step(&p.seen, &step);
    p.last.loss = (double)NAN;
    make(&p, 79, &block);
    assert_non_null(strstr(block.line[1], "loss nan"));
    p.seen.evaluated = true;
    p.seen.val_step = 100;
    p.seen.best_step = 80;
    p.seen.val_loss = 4.21;
    p.seen.best_loss = 4.195;
    p.seen.val_accuracy = -1;
    make(&p, 100, &block);
    assert_non_null(strstr(block.line[1], "   validation 4.2100 (best 4.1950 at step 80)"));
}

static void test_guards(void **state) {
    (void)state;
    ls_progress p = {.live = true, .block = true, .utf8 = true, .last = sample};
    ls_progress_block block;
    p.seen.notices = 2;
    p.seen.skipped = 1;
    snprintf(p.seen.notice, sizeof p.seen.notice,
             "step 7: gradient group 3 of worker 1 stands out: ä ä ä ä ä ä ä ä ä ä ä ä");
    for (int columns = 39; columns < 160; columns++) make(&p, columns, &block);
    assert_non_null(strstr(block.line[3], "guards  1 update skipped, 2 notices: step 7: gradient group 3"));
    p.colours = true;
    ls_progress_block_make(&p, 79, &block);
    assert_non_null(strstr(block.line[3], "\x1b[33m"));
    assert_true(block.width[3] <= 79);
}

/* Whatever the numbers, and however narrow. */
static void test_narrow(void **state) {
    (void)state;
    ls_progress p = {.live = true, .block = true, .utf8 = true, .timed = 1, .average_s = 1e6, .last = sample};
    ls_progress_block block;
    p.last.step = INT64_C(123456789012);
    p.last.steps = INT64_C(999999999999);
    p.last.loss = -1e300;
    p.last.norm = -HUGE_VAL;
    for (int columns = 1; columns < 200; columns++) make(&p, columns, &block);
    p.last.steps = 0;
    make(&p, 79, &block);
}

static void test_rows(void **state) {
    (void)state;
    const int widths[] = {79, 40, 0, 10};
    assert_int_equal(ls_progress_block_rows(widths, 4, 100), 4);
    assert_int_equal(ls_progress_block_rows(widths, 4, 79), 4);
    assert_int_equal(ls_progress_block_rows(widths, 4, 40), 5);
    assert_int_equal(ls_progress_block_rows(widths, 4, 20), 4 + 2 + 1 + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),  cmocka_unit_test(test_curve), cmocka_unit_test(test_guards),
        cmocka_unit_test(test_narrow), cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
