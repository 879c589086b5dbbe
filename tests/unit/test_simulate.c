/* test_simulate.c: how long schedules take: against formulas, a run worked out by hand, and a second plain simulator.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/rng.h"
#include "parallel/schedule/simulate.h"

#define F LS_ACTION_FORWARD
#define B LS_ACTION_BACKWARD
#define I LS_ACTION_BACKWARD_INPUT
#define W LS_ACTION_BACKWARD_WEIGHTS
enum { STAGES = 8, CHUNKS = 4, MICROS = 40 };

static ls_schedule made(ls_schedule_kind kind, int stages, int chunks, int micros) {
    ls_schedule s;
    if (ls_schedule_make(kind, stages, chunks, micros, &s) != LS_OK) fail_msg("%s", ls_status_message());
    return s;
}

/* Costs that are the same on all chunks; the backward action takes input + weights. */
static double total(ls_schedule_kind kind, int stages, int chunks, int micros, double f, double b, double w) {
    double table[LS_ACTION_KINDS][STAGES * CHUNKS];
    const double each[LS_ACTION_KINDS] = {[F] = f, [B] = b + w, [I] = b, [W] = w};
    ls_simulate_costs costs = {.send_seconds = 0};
    for (int k = 0; k < LS_ACTION_KINDS; k++) {
        for (int i = 0; i < STAGES * CHUNKS; i++) table[k][i] = each[k];
        costs.seconds[k] = table[k];
    }
    ls_schedule s = made(kind, stages, chunks, micros);
    ls_simulation run;
    if (ls_simulate(&s, &costs, &run) != LS_OK) fail_msg("%s", ls_status_message());
    double seconds = run.seconds;
    for (int i = 0; i < stages; i++) assert_true(run.busy[i] == micros * chunks * (f + b + w));
    ls_simulation_free(&run);
    ls_schedule_free(&s);
    return seconds;
}

static void check_total(double got, double expected, const char *what, int stages, int chunks, int micros) {
    if (got == expected) return;
    fail_msg("%s, %d stages, %d chunks, %d micro-batches: %g, expected %g", what, stages, chunks, micros, got,
             expected);
}

/* Costs are whole numbers, so that sums are exact. */
static void test_totals(void **state) {
    (void)state;
    static const double costs[][2] = {{1, 2}, {1, 1}, {3, 2}, {1, 6}};
    for (int p = 1; p <= STAGES; p++)
        for (int m = 1; m <= MICROS; m++)
            for (int k = 0; k < 4; k++) {
                double f = costs[k][0], b = costs[k][1] / 2, all = f + 2 * b;
                check_total(total(LS_SCHEDULE_NAIVE, p, 1, m, f, b, b), p * m * all, "naive", p, 1, m);
                check_total(total(LS_SCHEDULE_GPIPE, p, 1, m, f, b, b), (m + p - 1) * all, "gpipe", p, 1, m);
                check_total(total(LS_SCHEDULE_1F1B, p, 1, m, f, b, b), (m + p - 1) * all, "1f1b", p, 1, m);
            }
}

/* Costs are those of a chunk. With whole groups the bubble is that of 1f1b divided by the chunks; otherwise not more
 * than with the last group filled up, and never longer than 1f1b. */
static void test_interleaved(void **state) {
    (void)state;
    for (int p = 2; p <= STAGES; p++)
        for (int v = 2; v <= CHUNKS; v++)
            for (int m = 1; m <= MICROS; m++) {
                double got = total(LS_SCHEDULE_INTERLEAVED, p, v, m, 1, 1, 1);
                int filled = (m + p - 1) / p * p;
                if (m % p == 0) check_total(got, (m * v + p - 1) * 3, "interleaved", p, v, m);
                assert_true(got <= (filled * v + p - 1) * 3);
                assert_true(got <= (m + p - 1) * v * 3);
                assert_true(got >= (m * v + p - 1) * 3);
                if (m % p == 0)
                    check_total(total(LS_SCHEDULE_INTERLEAVED, p, v, m, 2, 1, 2), (m * v + p - 1) * 5, "5", p, v, m);
            }
    /* As reached: the lowest bounds, 54 and 90, leave out that the last group is short. */
    check_total(total(LS_SCHEDULE_INTERLEAVED, 3, 4, 4, 1, 1, 1), 66, "interleaved", 3, 4, 4);
    check_total(total(LS_SCHEDULE_INTERLEAVED, 3, 4, 7, 1, 1, 1), 102, "interleaved", 3, 4, 7);
}

/* A bubble of (stages − 1)·(f + b − w) from as many micro-batches as stages on; with fewer, the way of the last one
 * there and back, and its weights. */
static void test_zero_bubble(void **state) {
    (void)state;
    for (int p = 1; p <= STAGES; p++)
        for (int m = 1; m <= MICROS; m++) {
            double got = total(LS_SCHEDULE_ZERO_BUBBLE, p, 1, m, 1, 1, 1);
            check_total(got, m >= p ? 3 * m + p - 1 : 2 * m + 2 * p - 1, "zero-bubble", p, 1, m);
            if (p > 1) assert_true(got < total(LS_SCHEDULE_1F1B, p, 1, m, 1, 1, 1));
        }
}

/* ---- by hand ----------------------------------------------------------------------------------------------------- */

/* Forward 2, backward 3, send 1, two stages, two micro-batches:
 *   stage 0   F0 0–2   F1 2–4             B0 9–12   B1 14–17
 *   stage 1       F0 3–5   B0 5–8   F1 8–10   B1 10–13 */
static void test_by_hand(void **state) {
    (void)state;
    static const double forward[] = {2, 2}, backward[] = {3, 3};
    static const double expected[2][4][2] = {{{0, 2}, {2, 4}, {9, 12}, {14, 17}}, {{3, 5}, {5, 8}, {8, 10}, {10, 13}}};
    static const size_t slot_bytes[] = {100, 10}, kept_bytes[] = {7, 7};
    ls_simulate_costs costs = {
        .seconds = {forward, backward}, .send_seconds = 1, .slot_bytes = slot_bytes, .kept_bytes = kept_bytes};
    ls_schedule s = made(LS_SCHEDULE_1F1B, 2, 1, 2);
    ls_simulation run;
    assert_int_equal(ls_simulate(&s, &costs, &run), LS_OK);
    for (int stage = 0; stage < 2; stage++)
        for (int i = 0; i < 4; i++) {
            assert_true(run.actions[stage][i].start == expected[stage][i][0]);
            assert_true(run.actions[stage][i].end == expected[stage][i][1]);
        }
    assert_true(run.seconds == 17 && run.busy[0] == 10 && run.busy[1] == 10);
    assert_true(fabs(ls_simulation_bubble(&run, 0) - 7.0 / 17) < 1e-15);
    assert_int_equal(run.peak_bytes[0], 200);
    assert_int_equal(run.peak_bytes[1], 10);
    ls_simulation_free(&run);
    assert_null(run.actions);

    /* The second micro-batch is half a full one: F1 2–3 and 8–9, B1 9–10.5 and, 1 later but after B0, 12–13.5. */
    static const double share[] = {1, 0.5};
    costs.micro_share = share;
    assert_int_equal(ls_simulate(&s, &costs, &run), LS_OK);
    assert_true(run.seconds == 13.5);
    assert_true(run.actions[1][3].end == 10.5);
    assert_true(run.busy[1] == 7.5);
    ls_simulation_free(&run);
    ls_schedule_free(&s);
}

/* One stage sends nothing, whatever a send would take; and the bytes of zero-bubble count what is kept. */
static void test_one_stage(void **state) {
    (void)state;
    static const double forward[] = {1, 2, 3}, backward[] = {2, 4, 6};
    ls_simulate_costs costs = {.seconds = {forward, backward}, .send_seconds = 1000};
    ls_schedule s = made(LS_SCHEDULE_INTERLEAVED, 1, 3, 4);
    ls_simulation run;
    assert_int_equal(ls_simulate(&s, &costs, &run), LS_OK);
    assert_true(run.seconds == 4 * 18);
    assert_true(ls_simulation_bubble(&run, 0) == 0);
    assert_int_equal(run.peak_bytes[0], 0);
    ls_simulation_free(&run);
    ls_schedule_free(&s);

    static const double one[] = {1, 1, 1};
    static const size_t slot_bytes[] = {100, 100, 100}, kept_bytes[] = {1, 1, 1};
    costs = (ls_simulate_costs){.seconds = {one, NULL, one, one}, .slot_bytes = slot_bytes, .kept_bytes = kept_bytes};
    s = made(LS_SCHEDULE_ZERO_BUBBLE, 3, 1, 6);
    assert_int_equal(ls_simulate(&s, &costs, &run), LS_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(run.peak_bytes[i], 300 + i + 1);
    ls_simulation_free(&run);
    ls_schedule_free(&s);
}

/* ---- a second simulator ------------------------------------------------------------------------------------------ */

static double end_of(const ls_schedule *s, const ls_simulation *r, int g, int micro, bool forward) {
    int stage = g % s->stages;
    for (int i = 0; i < s->count[stage]; i++) {
        const ls_action *a = &s->actions[stage][i];
        bool wanted = forward ? a->kind == F : a->kind == B || a->kind == I;
        if (wanted && a->chunk == g / s->stages && a->micro == micro) return r->actions[stage][i].end;
    }
    fail_msg("there is no such action");
    return 0;
}

/* Over the border behind a stage, in either direction. */
static double send_from(const ls_schedule *s, const ls_simulate_costs *costs, int stage) {
    if (s->stages == 1) return 0;
    return costs->border_seconds ? costs->border_seconds[stage] : costs->send_seconds;
}

/* Every start is the later of the two things it waits for, and every action lasts what it costs: this has one solution.
 */
static void check_run(const ls_schedule *s, const ls_simulate_costs *costs, const ls_simulation *r) {
    double latest = 0;
    for (int stage = 0; stage < s->stages; stage++)
        for (int i = 0; i < s->count[stage]; i++) {
            const ls_action *a = &s->actions[stage][i];
            int g = a->chunk * s->stages + stage, last = s->stages * s->chunks - 1;
            double start = i ? r->actions[stage][i - 1].end : 0, input = 0;
            if (a->kind == F && g > 0)
                input = end_of(s, r, g - 1, a->micro, true) + send_from(s, costs, (g - 1) % s->stages);
            if ((a->kind == B || a->kind == I) && g < last)
                input = end_of(s, r, g + 1, a->micro, false) + send_from(s, costs, g % s->stages);
            if (input > start) start = input;
            double lasts = costs->seconds[a->kind][stage * s->chunks + a->chunk] * costs->micro_share[a->micro];
            assert_true(r->actions[stage][i].start == start);
            assert_true(r->actions[stage][i].end == start + lasts);
            if (start + lasts > latest) latest = start + lasts;
        }
    assert_true(r->seconds == latest);
}

static void test_random_costs(void **state) {
    (void)state;
    ls_rng_key key = ls_rng_key_make(11, 3, 0);
    double table[LS_ACTION_KINDS][STAGES * CHUNKS], share[MICROS], borders[STAGES];
    for (uint64_t round = 0; round < 300; round++) {
        uint64_t bits = ls_rng_u64(key, round << 10);
        ls_schedule_kind kind = (ls_schedule_kind)(bits % LS_SCHEDULE_KINDS);
        int stages = 1 + (int)(bits >> 8 & 7), micros = 1 + (int)(bits >> 16 & 15);
        int chunks = kind == LS_SCHEDULE_INTERLEAVED ? 1 + (int)(bits >> 24 & 3) : 1;
        ls_simulate_costs costs = {.send_seconds = (double)(bits >> 32 & 15) / 8, .micro_share = share};
        for (int k = 0; k < LS_ACTION_KINDS; k++) {
            costs.seconds[k] = table[k];
            for (int i = 0; i < STAGES * CHUNKS; i++)
                table[k][i] = 1e-3 * (double)(ls_rng_u64(key, (round << 10) + 1 + (uint64_t)(k * 32 + i)) >> 44);
        }
        for (int m = 0; m < MICROS; m++) share[m] = m == micros - 1 ? 0.375 : 1;
        for (int i = 0; i < STAGES; i++) borders[i] = (double)(bits >> (36 + 3 * (i % 8)) & 7) * 50;
        if (round % 2 == 1) costs.border_seconds = borders;
        ls_schedule s = made(kind, stages, chunks, micros);
        ls_simulation run;
        assert_int_equal(ls_simulate(&s, &costs, &run), LS_OK);
        check_run(&s, &costs, &run);
        ls_simulation_free(&run);
        ls_schedule_free(&s);
    }
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

static void check_refused(const ls_schedule *s, const ls_simulate_costs *costs, ls_status expected) {
    ls_simulation run = {.stages = 9};
    assert_int_equal(ls_simulate(s, costs, &run), expected);
    assert_int_equal(run.stages, 0);
    assert_null(run.actions);
}

static void test_bad_input(void **state) {
    (void)state;
    static const double bad[] = {-1, (double)NAN, (double)INFINITY};
    static const double good[] = {1, 1};
    static const size_t huge[] = {SIZE_MAX / 2 + 1, 1};
    const ls_simulate_costs costs = {.seconds = {good, good}};
    ls_schedule s = made(LS_SCHEDULE_1F1B, 2, 1, 2);
    for (int i = 0; i < 3; i++) {
        double table[] = {1, bad[i]};
        ls_simulate_costs c = costs;
        c.send_seconds = bad[i];
        check_refused(&s, &c, LS_ERR_INPUT);
        c = costs;
        c.border_seconds = table;
        check_refused(&s, &c, LS_ERR_INPUT);
        c = costs;
        c.seconds[B] = table;
        check_refused(&s, &c, LS_ERR_INPUT);
        c = costs;
        c.micro_share = table;
        check_refused(&s, &c, LS_ERR_INPUT);
    }
    ls_simulate_costs c = costs;
    c.seconds[B] = NULL;
    check_refused(&s, &c, LS_ERR_INPUT);
    c = costs;
    c.slot_bytes = huge;
    check_refused(&s, &c, LS_ERR_INPUT);
    s.actions[1][0].micro = 1;
    check_refused(&s, &costs, LS_ERR_FAILED);
    ls_schedule_free(&s);
    ls_simulation_free(NULL);
}

/* Actions that cost nothing are no division by zero. */
static void test_no_time(void **state) {
    (void)state;
    static const double none[] = {0, 0};
    ls_simulate_costs costs = {.seconds = {none, none}};
    ls_schedule s = made(LS_SCHEDULE_GPIPE, 2, 1, 2);
    ls_simulation run;
    assert_int_equal(ls_simulate(&s, &costs, &run), LS_OK);
    assert_true(run.seconds == 0 && ls_simulation_bubble(&run, 1) == 0);
    ls_simulation_free(&run);
    ls_schedule_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_totals),    cmocka_unit_test(test_interleaved), cmocka_unit_test(test_zero_bubble),
        cmocka_unit_test(test_by_hand),   cmocka_unit_test(test_one_stage),   cmocka_unit_test(test_random_costs),
        cmocka_unit_test(test_bad_input), cmocka_unit_test(test_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
