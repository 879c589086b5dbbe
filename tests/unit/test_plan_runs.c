/* What a plan writes, a run does: random models and random layouts that can be run go through the JSON of a plan, and
 * the partitions that are made from it have the predicted blocks, micro-batches and bytes.
 *
 * Cases are drawn by a counter-based generator: LS_TEST_CASE=N runs that one alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ask.h"
#include "base/rng.h"
#include "model/model.h"
#include "model/shape_file.h"
#include "parallel/layout/micro_batches.h"
#include "plan/native/native.h"
#include "plan/search.h"

enum { CASES = 120, PLANS = 40, LIST_MAX = 256 };

typedef struct draw {
    ls_rng_key key;
    uint64_t next;
} draw;

static int below(draw *d, int n) { return (int)ls_rng_below(d->key, d->next++, (uint64_t)n); }
static int between(draw *d, int least, int most) { return least + below(d, most - least + 1); }
static bool chance(draw *d) { return below(d, 2) == 1; }

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static void draw_settings(draw *d, ls_settings *s) {
    ls_shape *shape = &s->shape;
    assert_int_equal(ls_shape_preset(chance(d) ? "tiny" : "llama-8b", shape), LS_OK);
    *s = (ls_settings){.shape = *shape};
    shape->L = (size_t)between(d, 1, 7);
    shape->head_size = 8;
    shape->kv_heads = 4;
    shape->H = ls_shape_family(shape)->gated ? 8 : 4;
    shape->C = shape->H * shape->head_size;
    shape->hidden = (size_t)between(d, 33, 90);
    shape->V = (size_t)between(d, 60, 300);
    shape->T = 32;
    shape->tied = chance(d);
    s->slices = 1 << below(d, 3);
    s->groups = between(d, 1, 8);
    s->B = (size_t)between(d, s->groups, 17);
    s->T = (size_t)between(d, 4, 12);
    s->policy.act = chance(d) ? LS_F32 : LS_BF16;
    s->options.check = chance(d) ? LS_CHECK_REPLICAS : LS_CHECK_OFF;
}

/* n as the sum of `parts` numbers ≥ 1, in words. */
static void draw_list(draw *d, int n, int parts, char *text) {
    size_t used = 0;
    for (int i = 0; i < parts; i++) {
        int left = n - (parts - i - 1), part = i + 1 < parts ? between(d, 1, left) : n;
        used += (size_t)snprintf(text + used, LIST_MAX - used, "%s%d", i > 0 ? "," : "", part);
        n -= part;
    }
}

/* A layout that can be run: what cannot is drawn again. */
static void draw_layout(draw *d, const ls_layout_task *task, ls_layout *out) {
    char shares[LIST_MAX], stages[LIST_MAX];
    for (;;) {
        ls_layout_request request = ls_layout_request_none();
        int dp = between(d, 1, task->G), pp = between(d, 1, task->model->nblocks), v = chance(d) ? 1 : between(d, 2, 3);
        ask(&request, LS_KNOB_dp, dp);
        ask(&request, LS_KNOB_tp, 1 << below(d, 3));
        ask(&request, LS_KNOB_pp, pp);
        ask(&request, LS_KNOB_schedule, below(d, LS_KNOB_LAST_schedule + 1));
        ask(&request, LS_KNOB_virtual_stages, v);
        ask(&request, LS_KNOB_zero, below(d, LS_KNOB_LAST_zero + 2) - 1);
        ask(&request, LS_KNOB_recompute, below(d, LS_KNOB_LAST_recompute + 1));
        ask(&request, LS_KNOB_sequence_parallel, chance(d));
        ask(&request, LS_KNOB_micro, between(d, 1, (int)task->B));
        if (chance(d)) request.stages = "count";
        if (chance(d) && pp * v <= task->model->nblocks) {
            draw_list(d, task->model->nblocks, pp * v, stages);
            request.stages = stages;
        }
        draw_list(d, task->G, dp, shares);
        if (chance(d)) request.shares = shares;
        if (dp * pp <= 16 && ls_layout_make(&request, task, out) == LS_OK) return;
    }
}

/* ---- through the file -------------------------------------------------------------------------------------------- */

/* As `plan` writes and `train --layout` reads it; takes the reference. */
static void through_file(json_t *json, const ls_layout_task *task, ls_layout *out) {
    assert_non_null(json);
    char *text = json_dumps(json, JSON_INDENT(1));
    json_t *read = json_loads(text, 0, NULL);
    ls_layout_request request;
    if (ls_layout_request_from_json("plan.json", read, &request) != LS_OK) fail_msg("%s", ls_status_message());
    if (ls_layout_make(&request, task, out) != LS_OK) fail_msg("%s: %s", text, ls_status_message());
    json_decref(read);
    json_decref(json);
    free(text);
}

/* ---- this program ------------------------------------------------------------------------------------------------ */

static ls_native_machine machine;
static ls_device *device;

static int set_up(void **state) {
    (void)state;
    machine = (ls_native_machine){.cores = 2, .memory_bytes = 1e12, .counts = 1};
    ls_native_rates *r = &machine.rates[0];
    *r = (ls_native_rates){.workers = 1, .threads = 2, .launch_seconds = 1e-6};
    for (int back = 0; back < 2; back++)
        for (int h = 0; h < LS_NATIVE_HEADS; h++)
            for (int t = 0; t < LS_NATIVE_LENGTHS; t++) r->attention[back][0][h][t] = 1e-6;
    for (int pass = 0; pass < LS_NATIVE_PASSES; pass++) r->pass[pass][0][0] = r->pass[pass][0][1] = 1e-6;
    return ls_device_open_cpu(1, NULL, NULL, &device) == LS_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    ls_device_destroy(device);
    return 0;
}

/* A block's parameters are on the workers of its stage, and on no others. */
static void assert_blocks(const ls_model *model, const ls_layout *predicted, int stage) {
    for (int c = 0; c < ls_layout_chunks(predicted); c++)
        for (int b = predicted->chunk_first[c]; b < predicted->chunk_first[c + 1]; b++)
            for (int i = 0; i < model->blocks[b].nparams; i++)
                assert_int_equal(model->blocks[b].param[i].held, c % predicted->pp == stage);
}

/* What a worker of the run makes, beside what was predicted of it. */
static void assert_worker(const ls_settings *s, const ls_layout *predicted, const ls_layout *run, int rank,
                          const ls_prediction *p, int busiest) {
    ls_model *model;
    ls_partition *partition;
    ls_dry_worker worker;
    ls_partition_setup setup = ls_trainer_setup(s, run, rank);
    assert_int_equal(ls_dry_measure(s, predicted, rank, &worker), LS_OK);
    assert_int_equal(ls_model_create(&s->shape, s->slices, &model), LS_OK);
    if (ls_partition_create(model, device, &setup, &partition) != LS_OK) fail_msg("%s", ls_status_message());
    assert_int_equal(ls_partition_arena(partition)->peak, worker.arena);
    assert_true((double)(worker.arena + worker.outside) <= p->memory_bytes);
    if (setup.place.dp == busiest) assert_int_equal(ls_partition_schedule(partition)->micros, p->micros);
    assert_blocks(model, predicted, setup.place.pp);
    ls_partition_destroy(partition);
    ls_model_destroy(model);
}

static void run_case(int number) {
    draw d = {.key = ls_rng_key_make(16, (uint64_t)number, 0)};
    ls_settings s;
    ls_model *model;
    ls_layout predicted, run;
    ls_prediction p;
    ls_dry_run before, after;
    int micros[LS_WORKERS_MAX], busiest = 0;
    draw_settings(&d, &s);
    if (ls_model_create(&s.shape, s.slices, &model) != LS_OK) fail_msg("%s", ls_status_message());
    ls_layout_task task = ls_trainer_task(&s, model);
    draw_layout(&d, &task, &predicted);
    ls_native_task native = ls_native_task_of(&s, &machine);
    if (ls_native_predict(&machine, &native, &predicted, &p) != LS_OK) fail_msg("%s", ls_status_message());

    through_file(ls_layout_to_json(&predicted), &task, &run);
    assert_true(ls_knobs_equal(&run.knobs, &predicted.knobs));
    assert_memory_equal(run.share, predicted.share, (size_t)run.dp * sizeof *run.share);
    assert_memory_equal(run.chunk_first, predicted.chunk_first,
                        (size_t)(ls_layout_chunks(&run) + 1) * sizeof *run.chunk_first);
    assert_int_equal(ls_micro_counts(&run, s.B, s.groups, micros, &busiest), LS_OK);
    assert_int_equal(micros[busiest], p.micros);
    for (int rank = 0; rank < ls_layout_workers(&run); rank++) assert_worker(&s, &predicted, &run, rank, &p, busiest);
    assert_int_equal(ls_dry_run_make(&s, &predicted, &before), LS_OK);
    assert_int_equal(ls_dry_run_make(&s, &run, &after), LS_OK);
    assert_memory_equal(&before.traffic, &after.traffic, sizeof before.traffic);
    ls_dry_free(&before);
    ls_dry_free(&after);
    ls_model_destroy(model);
}

static void test_what_is_planned_is_run(void **state) {
    (void)state;
    const char *one = getenv("LS_TEST_CASE");
    for (int i = one ? atoi(one) : 0; i < CASES; i++) {
        run_case(i);
        if (one) return;
    }
}

/* ---- clusters of chips ------------------------------------------------------------------------------------------- */

/* The layouts of a plan for other programs run here too, with their stages; and micro-batches where no group is cut. */
static void run_plan(int number) {
    draw d = {.key = ls_rng_key_make(17, (uint64_t)number, 0)};
    ls_plan_found *found = malloc(sizeof *found);
    ls_plan_task plan = {.seq = 16, .global_batch = 32};
    ls_settings s = {.slices = 4, .groups = 32, .B = 32, .T = 16};
    ls_layout_request request = ls_layout_request_none();
    ls_model *model;
    assert_non_null(found);
    assert_int_equal(ls_shape_preset("tiny", &s.shape), LS_OK);
    s.shape.L = (size_t)between(&d, 4, 13);
    plan.shape = s.shape;
    assert_int_equal(ls_stack_find(chance(&d) ? "megatron" : "fsdp", &plan.stack), LS_OK);
    assert_int_equal(ls_cluster_of("A100", 8, 8, &plan.cluster), LS_OK);
    ask(&request, LS_KNOB_pp, 1 << below(&d, 3));
    assert_int_equal(ls_plan_search(&plan, &request, found), LS_OK);
    assert_int_equal(ls_model_create(&s.shape, s.slices, &model), LS_OK);
    ls_layout_task task = ls_trainer_task(&s, model);
    for (int i = 0; i < found->fitting; i++) {
        const ls_plan_choice *c = &found->fits[i];
        ls_layout run;
        int first[LS_CHUNKS_MAX + 1], micros[LS_WORKERS_MAX], busiest = 0;
        if (c->layout.tp > s.slices) continue;
        through_file(ls_plan_to_json(&plan, &c->layout, 0), &task, &run);
        ls_knobs as_run = c->layout;
        as_run.type = run.type; /* of the run, not of its layout */
        assert_true(ls_knobs_equal(&run.knobs, &as_run));
        ls_plan_blocks(&plan, &c->layout, first);
        size_t chunks = (size_t)ls_layout_chunks(&run);
        if (chunks > 1) assert_memory_equal(run.chunk_first, first, (chunks + 1) * sizeof *first);
        assert_int_equal(ls_micro_counts(&run, s.B, s.groups, micros, &busiest), LS_OK);
        if (run.zero < 2 || run.dp == 1) assert_int_equal(micros[busiest], c->prediction.micros);
    }
    ls_model_destroy(model);
    free(found);
}

static void test_plans_of_chips_are_run(void **state) {
    (void)state;
    for (int i = 0; i < PLANS; i++) run_plan(i);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_planned_is_run),
                                       cmocka_unit_test(test_plans_of_chips_are_run)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
