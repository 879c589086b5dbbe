/* Predictions from shapes: the work of all stages is that of the model, schedules wait as they should, and memory
 * outside the arena is about what it was measured to be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/cpu/kernels.h"
#include "parallel/schedule/predict.h"
#include "tiny_partition.h"

enum { B = 12, T = 9, G = 4 };

typedef struct course {
    double seconds, busy, bubble; /* of all stages together */
} course;

static ls_model *open_model(void) {
    ls_shape shape = tiny_gpt2();
    ls_model *model = NULL;
    shape.L = 7;
    assert_int_equal(ls_model_create(&shape, 2, &model), LS_OK);
    return model;
}

static course course_of(const ls_model *model, const ls_layout_request *request, int row) {
    ls_layout_task task = {.model = model, .B = B, .T = T, .G = G};
    ls_layout layout;
    ls_schedule schedule;
    ls_simulation simulation;
    course c = {0};
    assert_int_equal(ls_layout_make(request, &task, &layout), LS_OK);
    assert_int_equal(ls_predict_schedule(&task, &layout, row, &schedule, &simulation), LS_OK);
    for (int s = 0; s < layout.pp; s++) c.busy += simulation.busy[s];
    c.seconds = simulation.seconds;
    c.bubble = 1 - c.busy / (c.seconds * layout.pp);
    ls_simulation_free(&simulation);
    ls_schedule_free(&schedule);
    return c;
}

static ls_layout_request request_of(int pp, ls_schedule_kind schedule, size_t micro) {
    ls_layout_request request = ls_layout_request_none();
    ls_knob_give(&request, LS_KNOB_pp, pp);
    ls_knob_give(&request, LS_KNOB_schedule, (int)schedule);
    ls_knob_give(&request, LS_KNOB_micro, micro);
    return request;
}

static bool is_near(double a, double b) { return a > b * (1 - 1e-9) && a < b * (1 + 1e-9); }

static void all_work_is_done_once(void **state) {
    (void)state;
    ls_model *model = open_model();
    double flops = ls_model_step_flops(model, B, T);
    for (int kind = 0; kind < LS_SCHEDULE_KINDS; kind++)
        for (int pp = 1; pp <= 4; pp++) {
            if (kind == LS_SCHEDULE_INTERLEAVED && pp == 1) continue;
            ls_layout_request request = request_of(pp, (ls_schedule_kind)kind, 5);
            course c = course_of(model, &request, 0);
            assert_true(is_near(c.busy, flops));
            if (pp == 1) assert_true(is_near(c.seconds, flops));
        }
    ls_model_destroy(model);
}

/* With one micro-batch at a time in the pipeline exactly one stage works at any moment. */
static void schedules_wait_as_they_should(void **state) {
    (void)state;
    ls_model *model = open_model();
    ls_layout_request naive = request_of(4, LS_SCHEDULE_NAIVE, 1), f1b = request_of(4, LS_SCHEDULE_1F1B, 1);
    ls_layout_request few = request_of(4, LS_SCHEDULE_1F1B, 4), zero_bubble = request_of(4, LS_SCHEDULE_ZERO_BUBBLE, 1);
    double alone = course_of(model, &naive, 0).bubble, many = course_of(model, &f1b, 0).bubble;
    assert_true(is_near(alone, 0.75));
    assert_true(many < course_of(model, &few, 0).bubble && many < alone);
    assert_true(course_of(model, &zero_bubble, 0).bubble < many);
    ls_model_destroy(model);
}

static void recomputation_takes_longer(void **state) {
    (void)state;
    ls_model *model = open_model();
    ls_layout_request request = request_of(2, LS_SCHEDULE_1F1B, 2);
    double none = course_of(model, &request, 0).busy;
    ls_knob_give(&request, LS_KNOB_recompute, LS_RECOMPUTE_SELECTIVE);
    double selective = course_of(model, &request, 0).busy;
    ls_knob_give(&request, LS_KNOB_recompute, LS_RECOMPUTE_FULL);
    double full = course_of(model, &request, 0).busy;
    assert_true(none < selective && selective < full && full < none * 4 / 3);
    ls_model_destroy(model);
}

/* A row with more groups works longer. */
static void rows_have_their_own_course(void **state) {
    (void)state;
    ls_model *model = open_model();
    ls_layout_request request = request_of(2, LS_SCHEDULE_1F1B, 1);
    ls_knob_give(&request, LS_KNOB_dp, 2);
    request.shares = "3,1";
    course large = course_of(model, &request, 0), small = course_of(model, &request, 1);
    assert_true(is_near(large.busy, 3 * small.busy));
    ls_knob_give(&request, LS_KNOB_zero, 3);
    assert_true(is_near(course_of(model, &request, 0).busy, large.busy));
    ls_model_destroy(model);
}

static void memory_outside_is_bounded(void **state) {
    (void)state;
    ls_model *model = open_model();
    ls_layout_task task = {.model = model, .B = B, .T = T, .G = G};
    ls_layout layout = ls_layout_one(&task, 3);
    size_t one = ls_predict_outside_bytes(&task, &layout, ls_layout_place(&layout, 0), &ls_kernels_get()->gemm);
    assert_in_range(one, 8 << 20, 16 << 20);
    layout.dp = 4;
    size_t four = ls_predict_outside_bytes(&task, &layout, ls_layout_place(&layout, 0), &ls_kernels_get()->gemm);
    assert_in_range(four - one, 4 * (132 << 10), 16 * (132 << 10));
    ls_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_work_is_done_once),      cmocka_unit_test(schedules_wait_as_they_should),
        cmocka_unit_test(recomputation_takes_longer), cmocka_unit_test(rows_have_their_own_course),
        cmocka_unit_test(memory_outside_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
