/* test_schedule_check.c: ls_schedule_check on broken lists, where it must agree with the judge. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "schedule_judge.h"

static void check_refused(const ls_schedule *s, const char *words) {
    assert_false(judge(s));
    assert_int_equal(ls_schedule_check(s), LS_ERR_FAILED);
    if (!strstr(ls_status_message(), words)) fail_msg("'%s' is not in: %s", words, ls_status_message());
}

static void swap(ls_schedule *s, int stage, int i, int j) {
    ls_action kept = s->actions[stage][i];
    s->actions[stage][i] = s->actions[stage][j];
    s->actions[stage][j] = kept;
}

static void test_broken_order(void **state) {
    (void)state;
    ls_schedule s = made(LS_SCHEDULE_1F1B, 3, 1, 5);
    swap(&s, 0, 0, 1);
    check_refused(&s, "stage 0, action 0 (forward, chunk 0, micro-batch 1");
    swap(&s, 0, 0, 1);
    swap(&s, 2, 0, 1);
    check_refused(
        &s, "stage 2, action 0 (backward, chunk 0, micro-batch 0, slot 0, kept -1): its forward pass has not run yet");
    swap(&s, 2, 0, 1);
    swap(&s, 1, 8, 9);
    check_refused(&s, "next backward micro-batch");
    swap(&s, 1, 8, 9);
    ls_action whole = s.actions[1][9];
    s.actions[1][9] = s.actions[1][8];
    check_refused(&s, "stage 1, action 9");
    s.actions[1][9] = whole;
    s.count[1]--;
    check_refused(&s, "after all 9 actions of stage 1");
    s.count[1]++;
    assert_int_equal(ls_schedule_check(&s), LS_OK);
    ls_schedule_free(&s);
}

static void remove_action(ls_schedule *s, int stage, int i) {
    s->count[stage]--;
    for (; i < s->count[stage]; i++) s->actions[stage][i] = s->actions[stage][i + 1];
}

/* "F0 I0 F1 I1 W0 F2 I2 W1 F3 I3 W2 W3" on the last of 2 stages. */
static void test_broken_weights(void **state) {
    (void)state;
    ls_schedule s = made(LS_SCHEDULE_ZERO_BUBBLE, 2, 1, 4);
    swap(&s, 1, 1, 4);
    check_refused(&s, "stage 1, action 1 (backward-weights, chunk 0, micro-batch 0, slot 0, kept 0): its backward pass "
                      "has not run yet");
    swap(&s, 1, 1, 4);
    swap(&s, 1, 10, 11);
    check_refused(&s, "next weight-gradient micro-batch");
    swap(&s, 1, 10, 11);
    s.count[1]--;
    check_refused(&s, "weight gradients for 3 of the 4");
    s.count[1]++;

    /* Both halves of micro-batch 3 at once: not before the weights of 2, but well behind them. */
    s.actions[1][9].kind = B;
    s.actions[1][9].kept = -1;
    remove_action(&s, 1, 11);
    check_refused(&s, "weight gradients of earlier micro-batches");
    swap(&s, 1, 9, 10);
    assert_true(judge(&s));
    assert_int_equal(ls_schedule_check(&s), LS_OK);
    ls_schedule_free(&s);
}

static void test_broken_slots(void **state) {
    (void)state;
    ls_schedule s = made(LS_SCHEDULE_ZERO_BUBBLE, 3, 1, 5);
    static const int bad[] = {-1, 1, 3, 1 << 30, -(1 << 30)};
    for (int i = 0; i < s.count[2]; i++)
        for (int k = 0; k < 5; k++) {
            ls_action *a = &s.actions[2][i], whole = *a;
            if (a->slot != bad[k] && a->kind != F) {
                a->slot = bad[k];
                check_refused(&s, "not in this slot");
                *a = whole;
            }
            if (a->kept == bad[k]) continue;
            a->kept = bad[k];
            check_refused(&s, a->kind == F ? "no gradients" : "gradient slot");
            *a = whole;
        }
    s.slots[2]--;
    check_refused(&s, "its slot is occupied");
    s.slots[2]++;
    s.kept[2]--;
    check_refused(&s, "its gradient slot is occupied");
    s.kept[2] = s.micros + 1;
    assert_int_equal(ls_schedule_check(&s), LS_ERR_FAILED);
    ls_schedule_free(&s);
}

/* Each list is good by itself; the first stage waits for a gradient before it sends what the second waits for. */
static void test_lock_up(void **state) {
    (void)state;
    ls_schedule first = made(LS_SCHEDULE_NAIVE, 2, 1, 2), both = made(LS_SCHEDULE_GPIPE, 2, 1, 2);
    ls_action *list = both.actions[0];
    both.actions[0] = first.actions[0];
    check_refused(&both, "deadlock");
    both.actions[0] = list;
    list = both.actions[1];
    both.actions[1] = first.actions[0];
    assert_int_equal(ls_schedule_check(&both), LS_OK);
    both.actions[1] = list;
    ls_schedule_free(&first);
    ls_schedule_free(&both);
}

static void mutate(ls_schedule *s, ls_rng_key key, uint64_t at) {
    uint64_t bits = ls_rng_u64(key, at);
    int stage = (int)(bits % (uint64_t)s->stages), what = (int)(bits >> 8 & 7), n = s->count[stage];
    int i = (int)((bits >> 16 & 0xFFFF) % (uint64_t)n), j = (int)((bits >> 32 & 0xFFFF) % (uint64_t)n);
    int value = (int)(bits >> 48 & 7) - 1;
    ls_action *a = &s->actions[stage][i];
    switch (what) {
    case 0: a->micro = value; break;
    case 1: a->slot = value; break;
    case 2: a->kept = value; break;
    case 3: a->chunk = value; break;
    case 4: a->kind = (ls_action_kind)(value % LS_ACTION_KINDS); break;
    case 5: swap(s, stage, i, j); break;
    default: /* neighbours: often still a good list */
        if (i + 1 < n) swap(s, stage, i, i + 1);
    }
}

static void test_mutations(void **state) {
    (void)state;
    ls_rng_key key = ls_rng_key_make(5, 1, 0);
    int good = 0, refused = 0;
    for (uint64_t round = 0; round < 20000; round++) {
        uint64_t bits = ls_rng_u64(key, round << 8);
        ls_schedule_kind kind = (ls_schedule_kind)(bits % LS_SCHEDULE_KINDS);
        int chunks = kind == LS_SCHEDULE_INTERLEAVED ? 2 : 1;
        ls_schedule s = made(kind, 1 + (int)(bits >> 8 & 3), chunks, 1 + (int)(bits >> 16 & 7));
        for (uint64_t k = 0; k <= (bits >> 24 & 1); k++) mutate(&s, key, (round << 8) + 1 + k);
        bool expected = judge(&s), got = ls_schedule_check(&s) == LS_OK;
        if (expected != got)
            fail_msg("round %d: should be %s, %s", (int)round, expected ? "good" : "refused", ls_status_message());
        if (got)
            good++;
        else
            refused++;
        ls_schedule_free(&s);
    }
    /* Both verdicts are common, so that agreeing means something. */
    assert_true(good > 2000 && refused > 10000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_order), cmocka_unit_test(test_broken_weights), cmocka_unit_test(test_broken_slots),
        cmocka_unit_test(test_lock_up),      cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
