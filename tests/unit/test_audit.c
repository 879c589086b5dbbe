/* test_audit.c: which groups an audit covers: no fewer than its share, on any shares of the rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tiny_partition.h"
#include "run/guard/audit.h"

static const struct {
    int dp, share[8];
} cases[] = {
    {1, {8}},       {2, {4, 4}},       {2, {7, 1}},        {2, {1, 7}},          {3, {2, 3, 3}},
    {3, {6, 1, 1}}, {4, {2, 2, 2, 2}}, {4, {1, 13, 1, 1}}, {5, {1, 2, 3, 4, 5}}, {8, {1, 1, 1, 1, 1, 1, 1, 1}},
};

static ls_layout layout_of(size_t i, int zero, int *groups) {
    ls_layout layout = {.dp = cases[i].dp, .tp = 1, .pp = 1, .zero = zero};
    *groups = 0;
    for (int d = 0; d < layout.dp; d++) *groups += layout.share[d] = cases[i].share[d];
    return layout;
}

/* How often each group is audited in `steps` steps, counted as the trainer counts them. */
static void audit_steps(ls_audit *audit, const ls_layout *layout, int64_t steps, int *times) {
    for (int64_t step = 1; step <= steps; step++) {
        int seen = 0;
        if (step % audit->every != 0) continue;
        for (int i = 0; i < audit->groups; i++)
            for (int d = 0; d < layout->dp; d++) {
                int group = ls_audit_group(audit, layout, d, i);
                if (group < 0) continue;
                times[group]++;
                seen++;
            }
        assert_int_equal(seen, audit->total);
        audit->counted++;
    }
}

static void every_group_gets_its_share(void **state) {
    (void)state;
    static const double shares[] = {1, 0.75, 0.5, 0.34, 1.0 / 3, 0.25, 0.1, 0.05, 1.0 / 64, 0.001};
    ls_shape shape = tiny_gpt2();
    ls_model *model = NULL;
    assert_int_equal(ls_model_create(&shape, 1, &model), LS_OK);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int zero = 0; zero <= 2; zero += 2)
            for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
                int groups, times[16] = {0}, sum = 0;
                const int64_t steps = 6000;
                ls_layout layout = layout_of(c, zero, &groups);
                ls_settings settings = {.groups = groups, .options.audit = shares[s]};
                ls_audit audit;
                assert_int_equal(ls_audit_open(&audit, &settings, &layout, model), LS_OK);
                if (shares[s] == 1) assert_int_equal(audit.total, groups);
                audit_steps(&audit, &layout, steps, times);
                for (int g = 0; g < groups; g++) {
                    /* Turns of the last round may be missing. */
                    if (times[g] + 2 < shares[s] * (double)steps)
                        fail_msg("case %zu, zero %d, audit %g: group %d %d times in %d steps", c, zero, shares[s], g,
                                 times[g], (int)steps);
                    sum += times[g];
                }
                /* Rounding up costs less than one more group of each row in each audit. */
                double audits = (double)(steps / audit.every);
                assert_true(sum <= audits * (shares[s] * groups * audit.every + layout.dp) + 1);
                ls_audit_close(&audit);
            }
    ls_model_destroy(model);
}

/* A part of a group a step: one group of each row, every so many steps. */
static void small_shares_are_spread_over_steps(void **state) {
    (void)state;
    ls_shape shape = tiny_gpt2();
    ls_model *model = NULL;
    assert_int_equal(ls_model_create(&shape, 1, &model), LS_OK);
    int groups;
    ls_layout layout = layout_of(1, 0, &groups);
    ls_settings settings = {.groups = groups, .options.audit = 1.0 / 64};
    ls_audit audit;
    assert_int_equal(ls_audit_open(&audit, &settings, &layout, model), LS_OK);
    assert_int_equal(audit.every, 16);
    assert_int_equal(audit.total, 2);
    ls_audit_close(&audit);
    settings.options.audit = 0;
    assert_int_equal(ls_audit_open(&audit, &settings, &layout, model), LS_OK);
    assert_int_equal(audit.every, 0);
    ls_audit_close(&audit);
    ls_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_group_gets_its_share),
        cmocka_unit_test(small_shares_are_spread_over_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
