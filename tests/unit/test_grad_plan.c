/* Plans of weight gradients: run on symbols instead of numbers. Every slot holds the text of the sum it stands for, and
 * in the end slot 0 must hold the tree over groups, written by a recursion of its own, however the batch was cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nn/grad_plan.h"
#include "nn/param.h"

enum { TEXT = 4096 };

/* (0..3) is a chain over sequences 0, 1, 2, 3 of one group. */
static void leaf(char *out, size_t first, size_t end) { snprintf(out, TEXT, "(%zu..%zu)", first, end - 1); }

static void join(char *left, const char *right) {
    char sum[TEXT];
    int bytes = snprintf(sum, sizeof sum, "[%.1900s+%.1900s]", left, right);
    assert_true(bytes < TEXT);
    memcpy(left, sum, sizeof sum);
}

static void tree(char *out, size_t B, int G, int first, int count) {
    if (count == 1) {
        leaf(out, B * (size_t)first / (size_t)G, B * (size_t)(first + 1) / (size_t)G);
        return;
    }
    int left = 1;
    while (2 * left < count) left *= 2;
    char right[TEXT];
    tree(out, B, G, first, left);
    tree(right, B, G, first + left, count - left);
    join(out, right);
}

typedef struct machine {
    char slot[LS_GRAD_SLOTS_MAX][TEXT];
    size_t chain_first, chain_end; /* of the group that is not finished */
    int most_product, most_sum;
    int ended[32]; /* by group: how often it was complete */
} machine;

/* The value of a step's groups: its own small tree over the bounds. */
static void step_tree(char *out, const ls_grad_step *step, size_t at, int first, int count) {
    if (count == 1) {
        leaf(out, at + step->bounds[first], at + step->bounds[first + 1]);
        return;
    }
    int left = 1;
    while (2 * left < count) left *= 2;
    char right[TEXT];
    step_tree(out, step, at, first, left);
    step_tree(right, step, at, first + left, count - left);
    join(out, right);
}

/* What the kind of plan promises of a step. */
static void check_cut(machine *m, const ls_grad_step *step, size_t B, int G, ls_grad_cut cut, size_t begin) {
    size_t at = begin + step->first, next = begin + step->end;
    int last = step->group + step->groups - 1;
    assert_in_range(step->group, 0, G - 1);
    assert_in_range(at, B * (size_t)step->group / (size_t)G, next - 1);
    assert_int_equal(step->ends, next == B * (size_t)(last + 1) / (size_t)G);
    assert_int_equal(step->accumulate, at > B * (size_t)step->group / (size_t)G);
    if (!step->ends) assert_int_equal(step->joins, 0);
    if (cut != LS_GRAD_WHOLE) assert_int_equal(step->groups, 1);
    if (cut == LS_GRAD_SEQUENCES) assert_int_equal(step->end - step->first, 1);
    for (int g = step->group; step->ends && g <= last; g++) m->ended[g]++;
}

static void run_step(machine *m, const ls_grad_step *step, ls_grad_cut cut, size_t begin) {
    size_t at = begin + step->first;
    char value[TEXT];
    assert_int_equal(step->bounds[0], 0);
    assert_int_equal(step->bounds[step->groups], step->end - step->first);
    if (step->accumulate) {
        assert_int_equal(m->chain_end, at);
        assert_int_equal(step->groups, 1);
    } else {
        m->chain_first = at;
    }
    m->chain_end = begin + step->end;
    if (step->groups == 1)
        leaf(value, m->chain_first, m->chain_end);
    else
        step_tree(value, step, at, 0, step->groups);
    for (int i = 1; i <= step->joins; i++) {
        char sum[TEXT];
        memcpy(sum, m->slot[step->at - i], sizeof sum);
        join(sum, value);
        memcpy(value, sum, sizeof value);
    }
    int into = step->at - step->joins;
    memcpy(m->slot[into], value, sizeof value);
    bool by_product = cut == LS_GRAD_WHOLE && step->joins > 0 && !step->accumulate;
    int product = by_product ? into : step->at;
    if (product + 1 > m->most_product) m->most_product = product + 1;
    if (step->at + 1 > m->most_sum) m->most_sum = step->at + 1;
}

/* Groups first … last−1 of the batch: the slots must end up with the subtrees of the whole tree that these make up. */
static void check(size_t B, int G, int first, int last, size_t micro, ls_grad_cut cut) {
    static machine m;
    ls_grad_plan plan;
    ls_tree_node cover[LS_TREE_COVER_MAX];
    size_t from = B * (size_t)first / (size_t)G, to = B * (size_t)last / (size_t)G;
    memset(&m, 0, sizeof m);
    ls_grad_plan_begin(&plan, B, G, cut);
    for (size_t begin = from; begin < to; begin += micro) {
        size_t end = to - begin < micro ? to : begin + micro;
        for (size_t at = begin; at < end;) {
            ls_grad_step step;
            size_t next = ls_grad_plan_next(&plan, begin, end, at, &step);
            assert_int_equal(step.first, at - begin);
            assert_int_equal(step.end, next - begin);
            check_cut(&m, &step, B, G, cut, begin);
            run_step(&m, &step, cut, begin);
            at = next;
        }
    }
    int parts = ls_tree_cover(G, first, last, cover);
    for (int i = 0; i < parts; i++) {
        char want[TEXT];
        tree(want, B, G, cover[i].first, cover[i].count);
        assert_string_equal(m.slot[i], want);
    }
    assert_int_equal(plan.stack.depth, parts);
    for (int g = 0; g < G; g++) assert_int_equal(m.ended[g], g >= first && g < last);
    ls_grad_slots slots = ls_grad_slots_count(B, G, cut, from, to, micro);
    assert_int_equal(slots.parts, parts);
    assert_int_equal(slots.product, m.most_product);
    assert_int_equal(slots.sum, m.most_sum);
}

static void test_any_cut(void **state) {
    (void)state;
    for (size_t B = 1; B <= 17; B++)
        for (int G = 1; G <= (int)B; G++)
            for (size_t micro = 1; micro <= B; micro++)
                for (int cut = LS_GRAD_WHOLE; cut <= LS_GRAD_SEQUENCES; cut++)
                    check(B, G, 0, G, micro, (ls_grad_cut)cut);
}

/* What rows of data-parallel workers have: any run of groups, in any micro-batches. */
static void test_any_run_of_groups(void **state) {
    (void)state;
    static const size_t batches[][2] = {{5, 5}, {8, 8}, {13, 7}, {20, 11}, {23, 16}};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        int G = (int)batches[i][1];
        for (int first = 0; first < G; first++)
            for (int last = first + 1; last <= G; last++)
                for (size_t micro = 1; micro <= 6; micro++)
                    for (int cut = LS_GRAD_WHOLE; cut <= LS_GRAD_SEQUENCES; cut++)
                        check(batches[i][0], G, first, last, micro, (ls_grad_cut)cut);
    }
}

/* The steps of sequences begin … end−1 of the batch, in parts of `chunk` sequences. */
static void run_parts(machine *m, const ls_grad_step *steps, size_t B, int G, ls_grad_cut cut, size_t begin, size_t end,
                      size_t chunk) {
    ls_grad_parts parts = ls_grad_parts_begin(steps);
    for (size_t first = 0; first < end - begin; first += chunk) {
        size_t last = end - begin - first < chunk ? end - begin : first + chunk;
        for (size_t at = first; at < last;) {
            ls_grad_step part;
            size_t next = ls_grad_parts_next(&parts, first, last, at, &part);
            assert_int_equal(part.first, at - first);
            assert_int_equal(part.end, next - first);
            check_cut(m, &part, B, G, cut, begin + first);
            run_step(m, &part, cut, begin + first);
            at = next;
        }
    }
}

static void check_parts(size_t B, int G, size_t micro, size_t chunk, ls_grad_cut cut) {
    static machine m;
    ls_grad_plan plan;
    ls_grad_step steps[32];
    char want[TEXT];
    int slots = 1;
    memset(&m, 0, sizeof m);
    ls_grad_plan_begin(&plan, B, G, cut);
    for (size_t begin = 0, end; begin < B; begin = end) {
        int count = 0;
        end = B - begin < micro ? B : begin + micro;
        for (size_t at = begin; at < end;) at = ls_grad_plan_next(&plan, begin, end, at, &steps[count++]);
        int needed = ls_grad_parts_slots(steps, end - begin, chunk, cut != LS_GRAD_WHOLE);
        if (needed > slots) slots = needed;
        run_parts(&m, steps, B, G, cut, begin, end, chunk);
    }
    tree(want, B, G, 0, G);
    assert_string_equal(m.slot[0], want);
    for (int g = 0; g < G; g++) assert_int_equal(m.ended[g], 1);
    assert_int_equal(slots, m.most_product);
}

/* A micro-batch whose sequences come in chunks adds up to the same tree. */
static void test_any_parts(void **state) {
    (void)state;
    for (size_t B = 1; B <= 13; B++)
        for (int G = 1; G <= (int)B; G++)
            for (size_t micro = 1; micro <= B; micro++)
                for (size_t chunk = 1; chunk <= micro; chunk++)
                    for (int cut = LS_GRAD_WHOLE; cut <= LS_GRAD_SEQUENCES; cut++)
                        check_parts(B, G, micro, chunk, (ls_grad_cut)cut);
}

static void test_whole_batch_is_one_step(void **state) {
    (void)state;
    for (int G = 1; G <= LS_GRAD_GROUPS_MAX; G++) {
        ls_grad_plan plan;
        ls_grad_step step;
        ls_grad_plan_begin(&plan, 64, G, LS_GRAD_WHOLE);
        assert_int_equal(ls_grad_plan_next(&plan, 0, 64, 0, &step), 64);
        assert_int_equal(step.groups, G);
        assert_int_equal(ls_grad_slots_count(64, G, LS_GRAD_WHOLE, 0, 64, 64).product, 1);
    }
}

/* Every group is shown alone, so its gradient has a slot of its own beside the finished subtrees: one more than a
 * product that joins by itself needs. */
static void test_leaves_need_one_more_slot(void **state) {
    (void)state;
    for (int cut = LS_GRAD_LEAVES; cut <= LS_GRAD_SEQUENCES; cut++) {
        ls_grad_slots slots = ls_grad_slots_count(64, 8, (ls_grad_cut)cut, 0, 64, 64);
        assert_int_equal(slots.product, 4);
        assert_int_equal(slots.sum, 4);
        assert_int_equal(slots.parts, 1);
        assert_int_equal(ls_grad_slots_count(64, 1, (ls_grad_cut)cut, 0, 64, 64).product, 1);
        assert_true(ls_grad_slots_count(8192, 4096, (ls_grad_cut)cut, 0, 8192, 3).sum <= LS_GRAD_SLOTS_MAX);
    }
}

/* Slots are memory of the size of the model: few even for the most groups. */
static void test_slots_are_few(void **state) {
    (void)state;
    assert_int_equal(ls_grad_slots_count(8, 8, LS_GRAD_WHOLE, 0, 8, 1).product, 3);
    assert_int_equal(ls_grad_slots_count(16, 8, LS_GRAD_WHOLE, 0, 16, 1).product, 4);
    assert_true(ls_grad_slots_count(4096, 4096, LS_GRAD_WHOLE, 0, 4096, 1).sum <= LS_GRAD_SLOTS_MAX);
    assert_true(ls_grad_slots_count(4096, 4096, LS_GRAD_WHOLE, 0, 4096, 1000).sum <= LS_GRAD_SLOTS_MAX);
    assert_true(ls_grad_slots_count(8192, 4095, LS_GRAD_WHOLE, 0, 8192, 3).sum <= LS_GRAD_SLOTS_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_cut),
        cmocka_unit_test(test_any_run_of_groups),
        cmocka_unit_test(test_any_parts),
        cmocka_unit_test(test_whole_batch_is_one_step),
        cmocka_unit_test(test_leaves_need_one_more_slot),
        cmocka_unit_test(test_slots_are_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
