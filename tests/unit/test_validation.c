/* test_validation.c: the best evaluation, how long ago it was, and which checkpoint is the best that was saved. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "run/validation.h"

static void the_lowest_loss_is_the_best(void **state) {
    (void)state;
    ls_validation v = ls_validation_start();
    assert_true(isnan(v.best_loss) && v.best_step == -1 && v.saved_step == -1);
    assert_false(ls_validation_is_best_at(&v, 0));
    ls_validation_add(&v, 10, (double)NAN);
    assert_true(v.best_step == -1 && v.stale == 1);
    assert_false(ls_validation_is_best_at(&v, 10));
    ls_validation_add(&v, 20, 3.5);
    assert_true(v.best_step == 20 && v.best_loss == 3.5 && v.stale == 0);
    ls_validation_add(&v, 30, 3.5);
    ls_validation_add(&v, 40, (double)NAN);
    ls_validation_add(&v, 50, (double)INFINITY);
    assert_true(v.best_step == 20 && v.stale == 3);
    assert_false(ls_validation_is_over(&v, 0));
    assert_false(ls_validation_is_over(&v, 4));
    assert_true(ls_validation_is_over(&v, 3));
    ls_validation_add(&v, 60, 3.25);
    assert_true(v.best_step == 60 && v.stale == 0);
    assert_false(ls_validation_is_over(&v, 1));
}

/* One that was not saved is no reason against the best of those that are. */
static void the_best_that_is_saved(void **state) {
    (void)state;
    ls_validation v = ls_validation_start();
    ls_validation_saving(&v, 5);
    assert_int_equal(v.saved_step, -1);
    ls_validation_add(&v, 10, 4);
    ls_validation_saving(&v, 10);
    ls_validation_add(&v, 20, 2);
    ls_validation_saving(&v, 25); /* not evaluated there */
    assert_int_equal(v.saved_step, 10);
    ls_validation_add(&v, 30, 3);
    assert_true(ls_validation_is_best_at(&v, 30));
    assert_false(ls_validation_is_best_at(&v, 31));
    ls_validation_saving(&v, 30);
    assert_true(v.saved_step == 30 && v.saved_loss == 3 && v.best_step == 20 && v.best_loss == 2);
    ls_validation_add(&v, 40, 3);
    assert_false(ls_validation_is_best_at(&v, 40));
}

static void it_comes_back_from_json(void **state) {
    (void)state;
    ls_validation v = ls_validation_start(), back;
    json_t *root = json_object();
    assert_true(ls_validation_to_json(&v, root));
    assert_int_equal(json_object_size(root), 0);
    assert_int_equal(ls_validation_from_json(&back, root), LS_OK);
    assert_true(back.best_step == -1 && back.saved_step == -1 && back.stale == 0 && isnan(back.best_loss));
    ls_validation_add(&v, 1, (double)NAN);
    for (int i = 0; i < 3; i++) {
        if (i > 0) ls_validation_add(&v, 10 * i, 1.0 / (3 * i));
        if (i > 1) ls_validation_saving(&v, 10 * i);
        ls_validation_add(&v, 10 * i + 1, 5);
        assert_true(ls_validation_to_json(&v, root));
        assert_int_equal(ls_validation_from_json(&back, root), LS_OK);
        assert_true(back.best_step == v.best_step && back.stale == v.stale && back.saved_step == v.saved_step);
        assert_true(back.best_loss == v.best_loss);
        if (v.saved_step >= 0) assert_true(back.saved_loss == v.saved_loss);
        assert_int_equal(back.last_step, -1);
    }
    json_decref(root);
}

static void what_is_no_state_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "{\"validation\": 3}",
        "{\"validation\": {}}",
        "{\"validation\": {\"best_step\": 1, \"stale\": 0, \"saved_step\": -1}}",
        "{\"validation\": {\"best_step\": 1, \"stale\": 0, \"saved_step\": -1, \"best_loss_hex\": \"x\"}}",
        "{\"validation\": {\"best_step\": 1, \"stale\": 0, \"saved_step\": -1, \"best_loss_hex\": \"nan\"}}",
        "{\"validation\": {\"best_step\": -1, \"stale\": -1, \"saved_step\": -1}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ls_validation v;
        json_t *root = json_loads(bad[i], 0, NULL);
        assert_non_null(root);
        assert_int_equal(ls_validation_from_json(&v, root), LS_ERR_INPUT);
        json_decref(root);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_loss_is_the_best),
        cmocka_unit_test(the_best_that_is_saved),
        cmocka_unit_test(it_comes_back_from_json),
        cmocka_unit_test(what_is_no_state_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
