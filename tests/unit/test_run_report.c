/* test_run_report.c: what a run says of itself beside its steps: the summary at its end, samples, and the hint that
 * another matrix unit would be faster. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "run/progress.h"

/* ---- summary ----------------------------------------------------------------------------------------------------- */

static void add_step(ls_run_summary *s, double seconds, double samples) {
    s->steps++;
    s->step_s += seconds;
    s->samples += samples;
}

static void summary_tells_time_and_speed(void **state) {
    (void)state;
    char line[LS_RUN_SUMMARY_LINE_MAX];
    ls_run_summary s = {.wall_s = 0.25};
    ls_run_summary_time_text(&s, line);
    assert_string_equal(line, "no steps; 0.2 s in total");
    add_step(&s, 2, 4096);
    ls_run_summary_time_text(&s, line);
    assert_string_equal(line, "1 step in 2.0 s (2048 tok/s); 0.2 s in total");
    for (int i = 0; i < 44; i++) add_step(&s, 2, 409600);
    s.wall_s = 96;
    ls_run_summary_time_text(&s, line);
    assert_string_equal(line, "45 steps in 1m30s (200.3k tok/s); 1m36s in total");
    s.is_images = true;
    ls_run_summary_time_text(&s, line);
    assert_string_equal(line, "45 steps in 1m30s (200.3k img/s); 1m36s in total");
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

static void expect_frame(const char *text, size_t bytes, const char *expected) {
    char *framed = NULL;
    assert_int_equal(ls_sample_frame(100, text, bytes, &framed), LS_OK);
    assert_string_equal(framed, expected);
    free(framed);
}

static void samples_are_set_apart(void **state) {
    (void)state;
    expect_frame("step 1/2 | loss 3\n\nmore", 23, "--- sample at step 100 ---\n  | step 1/2 | loss 3\n  | \n  | more");
    expect_frame("caf\303\251\n\n", 7, "--- sample at step 100 ---\n  | caf\303\251");
    expect_frame("", 0, "--- sample at step 100 ---\n  | ");
    /* Nothing that moves a cursor, and no byte that ends the text. */
    expect_frame("a\0b\x1b[2J\r\tc\x7f", 11, "--- sample at step 100 ---\n  | a␀b␛[2J␍\tc␡");
}

/* ---- matrix unit ------------------------------------------------------------------------------------------------- */

static void expect_hint(int64_t bfmmla, int64_t avx512, int64_t amx, const char *expected) {
    int64_t having[LS_UNITS] = {
        [LS_UNIT_CHAIN] = 4, [LS_UNIT_BFMMLA] = bfmmla, [LS_UNIT_AVX512_BF16] = avx512, [LS_UNIT_AMX] = amx};
    char text[LS_UNIT_HINT_MAX];
    ls_unit_hint_text(having, 4, text);
    assert_string_equal(text, expected);
}

#define HINT(unit)                                                                                                     \
    "matrix unit chain: same bits on every CPU; --matrix-unit " unit " is about twice as fast here and changes the "   \
    "result"

static void faster_units_of_all_workers_are_named(void **state) {
    (void)state;
    expect_hint(4, 0, 0, HINT("bfmmla"));
    expect_hint(0, 4, 4, HINT("amx"));
    expect_hint(3, 0, 0, "");
    expect_hint(2, 2, 2, ""); /* each worker has one, but not all the same */
    expect_hint(0, 4, 3, ""); /* avx512-bf16 is not faster than chain */
    expect_hint(0, 0, 0, "");
}

static void hints_are_for_bf16_by_chain(void **state) {
    (void)state;
    int64_t having[LS_UNITS];
    assert_true(ls_unit_hint_is_of_use(&(ls_policy){.act = LS_BF16, .unit = LS_UNIT_CHAIN}));
    assert_false(ls_unit_hint_is_of_use(&(ls_policy){.act = LS_BF16, .unit = LS_UNIT_AMX}));
    assert_false(ls_unit_hint_is_of_use(&(ls_policy){.act = LS_F32, .unit = LS_UNIT_CHAIN}));
    assert_false(ls_unit_hint_is_of_use(&(ls_policy){.act = LS_F16, .unit = LS_UNIT_CHAIN}));
    ls_unit_hint_count(having);
    for (int u = 0; u < LS_UNITS; u++) assert_int_equal(having[u], ls_unit_is_fast_here((ls_unit)u));
}

static void expect_agreeing(ls_dtype type, ls_unit unit, bool is_named, const char *expected) {
    char text[LS_UNIT_HINT_MAX];
    ls_unit_hint_agree(&(ls_policy){.act = type, .unit = unit}, is_named, text);
    assert_string_equal(text, expected);
}

#define AGREE(unit)                                                                                                    \
    "to get the same bits on another machine, use --matrix-unit " unit                                                 \
    " there: CPUs default to chain, Hopper GPUs to "                                                                   \
    "hgmma"

static void a_default_unit_is_named_for_other_machines(void **state) {
    (void)state;
    expect_agreeing(LS_BF16, LS_UNIT_CHAIN, false, AGREE("chain"));
    expect_agreeing(LS_F16, LS_UNIT_HGMMA, false, AGREE("hgmma"));
    expect_agreeing(LS_BF16, LS_UNIT_CHAIN, true, "");
    expect_agreeing(LS_F32, LS_UNIT_CHAIN, false, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(summary_tells_time_and_speed),

        cmocka_unit_test(samples_are_set_apart),        cmocka_unit_test(faster_units_of_all_workers_are_named),
        cmocka_unit_test(hints_are_for_bf16_by_chain),  cmocka_unit_test(a_default_unit_is_named_for_other_machines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
