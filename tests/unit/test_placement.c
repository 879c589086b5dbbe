/* Cores that one run is pinned to are left alone by the next, and come back when it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/placement.h"

/* Another run may have the cores; then nothing can be said here. */
static void skip_where_busy(ls_placement *all) {
    assert_int_equal(ls_placement_make(1, 0, true, all), LS_OK);
    if (all->cpus != NULL) return;
    ls_placement_free(all);
    skip();
}

static void test_all_cores_are_taken_once(void **state) {
    (void)state;
    ls_placement all, next;
    skip_where_busy(&all);
    assert_int_equal(ls_placement_make(1, 1, true, &next), LS_OK);
    /* Hyperthreads beyond the cores may still be free, never one that is taken. */
    for (int c = 0; next.cpus != NULL && c < all.threads; c++) assert_int_not_equal(next.cpus[0], all.cpus[c]);
    ls_placement_free(&next);
    ls_placement_free(&all);
    skip_where_busy(&all);
    ls_placement_free(&all);
}

static void test_two_runs_have_different_cores(void **state) {
    (void)state;
    ls_placement all, one, other;
    skip_where_busy(&all);
    int cores = all.threads;
    ls_placement_free(&all);
    if (cores < 2) skip();
    assert_int_equal(ls_placement_make(1, 1, true, &one), LS_OK);
    assert_int_equal(ls_placement_make(1, 1, true, &other), LS_OK);
    if (one.cpus != NULL && other.cpus != NULL)
        assert_int_not_equal(*ls_placement_cpus(&one, 0), *ls_placement_cpus(&other, 0));
    ls_placement_free(&one);
    ls_placement_free(&other);
}

/* However the process that has a core ends. */
static void test_a_dead_run_leaves_its_cores(void **state) {
    (void)state;
    ls_placement all;
    skip_where_busy(&all);
    ls_placement_free(&all);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ls_placement own;
        _exit(ls_placement_make(1, 0, true, &own) == LS_OK && own.cpus != NULL ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    skip_where_busy(&all);
    ls_placement_free(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_cores_are_taken_once),
        cmocka_unit_test(test_two_runs_have_different_cores),
        cmocka_unit_test(test_a_dead_run_leaves_its_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
