/* test_micro_batches.c: the rows' micro-batches hold every sequence of the batch once, in the groups that are the
 * row's, in order, and with divided gradients all rows keep step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "parallel/layout/micro_batches.h"

enum { B_MAX = 40 };

/* The group of a sequence, straight from rule 3: group g holds sequences ⌊gB/G⌋ … ⌊(g+1)B/G⌋ − 1. */
static int group_of(size_t B, int G, size_t sequence) {
    int g = 0;
    while ((size_t)(g + 1) * B / (size_t)G <= sequence) g++;
    return g;
}

/* The row that has each group, dealt one after the other as layout.h says. */
static void deal(const ls_layout *layout, int G, int *row, int *round) {
    int left[LS_WORKERS_MAX], d = 0, turn = 0;
    memcpy(left, layout->share, sizeof left);
    for (int g = 0; g < G; g++) {
        if (layout->zero < 2) {
            while (left[d] == 0) d++;
            row[g] = d;
            round[g] = 0;
            left[d]--;
            continue;
        }
        for (;; d++) {
            if (d == layout->dp) {
                d = 0;
                turn++;
            }
            if (left[d] > 0) break;
        }
        row[g] = d;
        round[g] = turn;
        left[d++]--;
    }
}

static void check_row(const ls_layout *layout, size_t B, int G, int d, const int *row, const int *round, int *seen) {
    ls_micro_list list;
    size_t most = 0, next = 0;
    int ends = 0, at_round = 0;
    assert_int_equal(ls_micro_list_make(layout, B, G, d, &list), LS_OK);
    for (int i = 0; i < list.count; i++) {
        const ls_micro *m = &list.micro[i];
        size_t size = m->end - m->begin;
        assert_true(m->begin <= m->end && m->end <= B && size <= layout->micro);
        assert_int_equal(m->round, at_round);
        assert_int_equal(m->ends_round, i + 1 == list.count || list.micro[i + 1].round != m->round);
        if (m->ends_round) {
            ends++;
            at_round++;
        }
        if (size > 0) assert_true(m->begin >= next);
        if (size > 0) next = m->end;
        if (layout->zero < 2) assert_true(size > 0 && (size == layout->micro || i + 1 == list.count));
        for (size_t s = m->begin; s < m->end; s++) {
            int g = group_of(B, G, s);
            seen[s]++;
            assert_int_equal(row[g], d);
            assert_int_equal(round[g], m->round);
            if (layout->zero >= 2) assert_int_equal(g, group_of(B, G, m->begin));
            if (layout->zero >= 2) assert_int_equal(g, ls_layout_group(layout, d, m->round));
        }
        most = size > most ? size : most;
    }
    assert_int_equal(list.most, most);
    assert_int_equal(list.rounds, ends);
    ls_micro_list_free(&list);
    assert_null(list.micro);
}

/* With divided gradients: the same rounds in all rows, as long as the largest group of the round needs, and no longer.
 */
static void check_step(const ls_layout *layout, size_t B, int G, const int *round) {
    int needed[B_MAX] = {0}, rounds = 0;
    for (int g = 0; g < G; g++) {
        int size = (int)((size_t)(g + 1) * B / (size_t)G - (size_t)g * B / (size_t)G);
        int count = (size + (int)layout->micro - 1) / (int)layout->micro;
        if (count > needed[round[g]]) needed[round[g]] = count;
        if (round[g] >= rounds) rounds = round[g] + 1;
    }
    for (int d = 0; d < layout->dp; d++) {
        ls_micro_list list;
        int have[B_MAX] = {0};
        assert_int_equal(ls_micro_list_make(layout, B, G, d, &list), LS_OK);
        assert_int_equal(list.rounds, rounds);
        for (int i = 0; i < list.count; i++) have[list.micro[i].round]++;
        assert_memory_equal(have, needed, sizeof have);
        ls_micro_list_free(&list);
    }
}

static void check_layout(const ls_layout *layout, size_t B, int G) {
    int row[B_MAX], round[B_MAX], seen[B_MAX] = {0};
    deal(layout, G, row, round);
    for (int d = 0; d < layout->dp; d++) check_row(layout, B, G, d, row, round, seen);
    for (size_t s = 0; s < B; s++) assert_int_equal(seen[s], 1);
    if (layout->zero >= 2) check_step(layout, B, G, round);
}

static void test_every_sequence_once(void **state) {
    (void)state;
    static const size_t batches[] = {1, 2, 3, 7, 8, 13, 16, 33, B_MAX};
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        for (int G = 1; G <= 16 && (size_t)G <= batches[b]; G++)
            for (int dp = 1; dp <= G; dp++)
                for (size_t micro = 1; micro <= batches[b]; micro += micro < 5 ? 1 : 7)
                    for (int zero = 0; zero <= 3; zero += 3) {
                        ls_layout layout = {.dp = dp, .micro = micro, .zero = zero};
                        for (int d = 0; d < dp; d++) layout.share[d] = (d + 1) * G / dp - d * G / dp;
                        check_layout(&layout, batches[b], G);
                    }
}

/* Every way to share 6 and 7 groups among three rows. */
static void test_unequal_shares(void **state) {
    (void)state;
    for (int G = 6; G <= 7; G++)
        for (int a = 1; a <= G - 2; a++)
            for (int b = 1; b <= G - 1 - a; b++)
                for (size_t micro = 1; micro <= 4; micro++)
                    for (int zero = 1; zero <= 2; zero++) {
                        ls_layout layout = {.dp = 3, .share = {a, b, G - a - b}, .micro = micro, .zero = zero};
                        check_layout(&layout, 20, G);
                    }
}

static void test_groups_of_rows(void **state) {
    (void)state;
    ls_layout layout = {.dp = 3, .share = {3, 1, 2}};
    static const int expected[3][4] = {{0, 3, 5, -1}, {1, -1, -1, -1}, {2, 4, -1, -1}};
    static const int first[] = {0, 3, 4, 6};
    for (int d = 0; d < 3; d++)
        for (int r = 0; r < 4; r++) assert_int_equal(ls_layout_group(&layout, d, r), expected[d][r]);
    for (int d = 0; d <= 3; d++) assert_int_equal(ls_layout_first_group(&layout, d), first[d]);
    assert_int_equal(ls_layout_group(&layout, 0, -1), -1);
    /* rule 3: group r·dp + d */
    layout = (ls_layout){.dp = 4, .share = {2, 2, 2, 2}};
    for (int d = 0; d < 4; d++)
        for (int r = 0; r < 2; r++) assert_int_equal(ls_layout_group(&layout, d, r), r * 4 + d);
}

/* Written out: 10 sequences in 4 groups (2, 3, 2, 3) on 3 rows with 1, 1 and 2 of them. */
static void test_an_example(void **state) {
    (void)state;
    static const ls_micro spread[] = {{5, 7, 0, false}, {7, 9, 0, false}, {9, 10, 0, true}};
    static const ls_micro round_robin[] = {{5, 7, 0, false}, {7, 7, 0, true}, {7, 9, 1, false}, {9, 10, 1, true}};
    static const ls_micro padded[] = {{0, 2, 0, false}, {2, 2, 0, true}, {0, 0, 1, false}, {0, 0, 1, true}};
    ls_layout layout = {.dp = 3, .share = {1, 1, 2}, .micro = 2};
    ls_micro_list list;
    assert_int_equal(ls_micro_list_make(&layout, 10, 4, 2, &list), LS_OK);
    assert_true(list.count == 3 && list.rounds == 1 && list.most == 2);
    for (int i = 0; i < 3; i++)
        assert_true(list.micro[i].begin == spread[i].begin && list.micro[i].end == spread[i].end);
    ls_micro_list_free(&list);
    layout.zero = 2;
    for (int d = 0; d <= 2; d += 2) {
        const ls_micro *expected = d == 0 ? padded : round_robin;
        assert_int_equal(ls_micro_list_make(&layout, 10, 4, d, &list), LS_OK);
        assert_true(list.count == 4 && list.rounds == 2 && list.most == 2);
        for (int i = 0; i < 4; i++) {
            assert_true(list.micro[i].begin == expected[i].begin && list.micro[i].end == expected[i].end);
            assert_true(list.micro[i].round == expected[i].round && list.micro[i].ends_round == expected[i].ends_round);
        }
        ls_micro_list_free(&list);
    }
}

static void test_large_batches(void **state) {
    (void)state;
    ls_layout layout = {.dp = 2, .share = {2048, 2048}, .micro = SIZE_MAX};
    ls_micro_list list;
    assert_int_equal(ls_micro_list_make(&layout, SIZE_MAX, 4096, 1, &list), LS_OK);
    assert_true(list.count == 1 && list.micro[0].begin == SIZE_MAX / 2 && list.micro[0].end == SIZE_MAX);
    ls_micro_list_free(&list);
    layout.micro = 1;
    assert_int_equal(ls_micro_list_make(&layout, SIZE_MAX, 4096, 1, &list), LS_ERR_RESOURCE);
    assert_null(list.micro);
    layout.zero = 3;
    assert_int_equal(ls_micro_list_make(&layout, SIZE_MAX, 4096, 1, &list), LS_ERR_RESOURCE);
}

static void test_refusals(void **state) {
    (void)state;
    ls_layout layout = {.dp = 2, .share = {2, 2}};
    ls_micro_list list;
    assert_int_equal(ls_micro_list_make(&layout, 8, 4, 0, &list), LS_ERR_FAILED); /* no size */
    layout.micro = 1;
    assert_int_equal(ls_micro_list_make(&layout, 8, 4, 2, &list), LS_ERR_FAILED);
    assert_int_equal(ls_micro_list_make(&layout, 8, 4, -1, &list), LS_ERR_FAILED);
    assert_int_equal(ls_micro_list_make(&layout, 8, 5, 0, &list), LS_ERR_FAILED);
    assert_int_equal(ls_micro_list_make(&layout, 3, 4, 0, &list), LS_ERR_FAILED);
    assert_int_equal(ls_micro_list_make(&layout, 8, 0, 0, &list), LS_ERR_FAILED);
    ls_micro_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_sequence_once), cmocka_unit_test(test_unequal_shares),
        cmocka_unit_test(test_groups_of_rows),      cmocka_unit_test(test_an_example),
        cmocka_unit_test(test_large_batches),       cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
