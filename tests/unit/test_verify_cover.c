/* test_verify_cover.c: the rows that verify tries hold every tuple that any legal row holds, counted here by trying all
 * rows; they are legal, and few. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab/verify/cover.h"

enum { FACTORS = 6, BOUND = 3, ALL = 3 * 4 * 2 * 2 * 3 * 2 };
static const int levels[FACTORS] = {3, 4, 2, 2, 3, 2};

/* An arbitrary rule with levels that go together with few others: (0, 3) never, and the third only where the first is
 * above 0. */
static bool rule(int a, int b, int c) { return !(a == 0 && b == 3) && (c == 0 || a > 0); }

static ls_cover_task task_of(bool *legal, int strength, uint64_t seed) {
    ls_cover_task task = {.factors = FACTORS, .strength = strength, .bound = BOUND, .legal = legal, .seed = seed};
    memcpy(task.levels, levels, sizeof levels);
    for (int i = 0; i < 24; i++) legal[i] = rule(i / 8, i / 2 % 4, i % 2);
    return task;
}

static ls_cover_row row_number(int n) {
    ls_cover_row row;
    for (int f = FACTORS - 1; f >= 0; f--) {
        row.level[f] = n % levels[f];
        n /= levels[f];
    }
    return row;
}

static bool is_legal(const ls_cover_row *row) { return rule(row->level[0], row->level[1], row->level[2]); }

/* Whether two rows agree in these factors. */
static bool agree(const ls_cover_row *a, const ls_cover_row *b, const int *factor, int count) {
    for (int k = 0; k < count; k++)
        if (a->level[factor[k]] != b->level[factor[k]]) return false;
    return true;
}

static void assert_has(const ls_cover_row *rows, int count, const ls_cover_row *wanted, const int *factor, int n) {
    for (int i = 0; i < count; i++)
        if (agree(&rows[i], wanted, factor, n)) return;
    fail_msg("no row has the levels of factors %d, %d … of a legal row", factor[0], factor[1]);
}

static void assert_covers(const ls_cover_row *rows, int count, int strength) {
    for (int n = 0; n < ALL; n++) {
        ls_cover_row row = row_number(n);
        if (!is_legal(&row)) continue;
        for (int i = 0; i < FACTORS; i++)
            for (int j = i + 1; j < FACTORS; j++)
                for (int k = strength == 3 ? j + 1 : FACTORS - 1; k < FACTORS; k++) {
                    int factor[] = {i, j, k};
                    assert_has(rows, count, &row, factor, strength);
                }
    }
}

static void check(int strength, int most) {
    bool legal[24];
    for (uint64_t seed = 0; seed < 20; seed++) {
        ls_cover_task task = task_of(legal, strength, seed);
        ls_cover_row *rows;
        int count;
        assert_int_equal(ls_cover_make(&task, NULL, 0, &rows, &count), LS_OK);
        assert_covers(rows, count, strength);
        for (int i = 0; i < count; i++) assert_true(is_legal(&rows[i]));
        assert_in_range(count, 1, most);
        free(rows);
    }
}

/* 12 pairs of the two largest factors, of which one is not legal, need 11 rows; 33 triples with the next one 33. */
static void test_pairs(void **state) {
    (void)state;
    check(2, 16);
}

static void test_triples(void **state) {
    (void)state;
    check(3, 50);
}

static void test_given_rows_come_first(void **state) {
    (void)state;
    bool legal[24];
    ls_cover_task task = task_of(legal, 2, 0);
    ls_cover_row given[2], *rows;
    int count;
    for (int f = 0; f < LS_COVER_FACTORS_MAX; f++) given[0].level[f] = given[1].level[f] = -1;
    given[0].level[1] = 3;
    given[0].level[4] = 2;
    given[1].level[2] = 1;
    assert_int_equal(ls_cover_make(&task, given, 2, &rows, &count), LS_OK);
    assert_covers(rows, count, 2);
    assert_int_equal(rows[0].level[1], 3);
    assert_int_equal(rows[0].level[4], 2);
    assert_int_equal(rows[1].level[2], 1);
    for (int i = 0; i < count; i++) assert_true(is_legal(&rows[i]));
    free(rows);
}

static void test_the_same_every_time(void **state) {
    (void)state;
    bool legal[24];
    ls_cover_task task = task_of(legal, 3, 7);
    ls_cover_row *a, *b;
    int n, m;
    assert_int_equal(ls_cover_make(&task, NULL, 0, &a, &n), LS_OK);
    assert_int_equal(ls_cover_make(&task, NULL, 0, &b, &m), LS_OK);
    assert_int_equal(n, m);
    for (int i = 0; i < n; i++) assert_memory_equal(a[i].level, b[i].level, FACTORS * sizeof(int));
    free(a);
    free(b);
}

static void test_possible(void **state) {
    (void)state;
    bool legal[24];
    ls_cover_task task = task_of(legal, 2, 0);
    ls_cover_row row;
    for (int f = 0; f < LS_COVER_FACTORS_MAX; f++) row.level[f] = -1;
    assert_true(ls_cover_possible(&task, &row));
    row.level[0] = 0;
    assert_true(ls_cover_possible(&task, &row));
    row.level[2] = 1;
    assert_false(ls_cover_possible(&task, &row));
    row.level[2] = -1;
    row.level[1] = 3;
    assert_false(ls_cover_possible(&task, &row));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_triples),
        cmocka_unit_test(test_given_rows_come_first),
        cmocka_unit_test(test_the_same_every_time),
        cmocka_unit_test(test_possible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
