/* Traffic of a training step: the formulas of parallel/traffic.h give, to the call and to the byte, what every worker
 * of a layout counts on its communicators in the second of two steps. Workers are forked and make no assertions: one
 * that finds a difference fails with a message that names it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ask.h"
#include "count_traffic.h"
#include "sample.h"
#include "tiny_trainer.h"

enum { G = 8 };

typedef struct layout_case {
    bool llama; /* untied; otherwise GPT-2, tied */
    int dp, tp, pp, zero;
    size_t micro;
    int recompute;
    bool sequence_parallel;
    int schedule;
    int virtual_stages; /* 0: not said */
    const char *shares, *stages;
    size_t layers; /* 0: five */
} layout_case;

/* Types of the case at hand; workers are forked, and have it too. */
static ls_policy policy;

enum {
    NONE = LS_RECOMPUTE_NONE,
    SOME = LS_RECOMPUTE_SELECTIVE,
    FULL = LS_RECOMPUTE_FULL,
    F1B = LS_SCHEDULE_1F1B,
    GPIPE = LS_SCHEDULE_GPIPE,
    NAIVE = LS_SCHEDULE_NAIVE,
    INTER = LS_SCHEDULE_INTERLEAVED,
    ZERO_BUBBLE = LS_SCHEDULE_ZERO_BUBBLE
};

static const layout_case cases[] = {
    /* dp: every kind of sharding, runs that are subtrees and runs that are not */
    {false, 2, 1, 1, 0, 11, NONE, false, F1B, 0, NULL, NULL, 0},
    {false, 2, 1, 1, 1, 3, NONE, false, F1B, 0, NULL, NULL, 0},
    {false, 3, 1, 1, 1, 2, NONE, false, F1B, 0, NULL, NULL, 0},
    {true, 3, 1, 1, 0, 2, FULL, false, F1B, 0, "1,2,5", NULL, 0},
    {true, 5, 1, 1, 2, 1, NONE, false, F1B, 0, NULL, NULL, 0},
    {false, 3, 1, 1, 2, 2, NONE, false, GPIPE, 0, "5,2,1", NULL, 0},
    {false, 2, 1, 1, 3, 2, NONE, false, F1B, 0, NULL, NULL, 0},
    {true, 2, 1, 1, 3, 1, FULL, false, GPIPE, 0, "3,5", NULL, 0},
    {true, 3, 1, 1, 3, 1, SOME, false, F1B, 0, NULL, NULL, 1},
    {false, 2, 1, 1, 3, 1, NONE, false, GPIPE, 0, NULL, NULL, 2},
    {true, 2, 1, 1, 3, 1, NONE, false, ZERO_BUBBLE, 0, NULL, NULL, 3},
    /* tp */
    {false, 1, 2, 1, 0, 3, NONE, false, F1B, 0, NULL, NULL, 0},
    {true, 1, 4, 1, 0, 4, SOME, false, F1B, 0, NULL, NULL, 0},
    {false, 1, 4, 1, 0, 11, FULL, true, F1B, 0, NULL, NULL, 0},
    {true, 1, 2, 1, 0, 2, SOME, true, GPIPE, 0, NULL, NULL, 0},
    {true, 1, 2, 1, 0, 5, FULL, false, ZERO_BUBBLE, 0, NULL, NULL, 0},
    /* pp */
    {false, 1, 1, 2, 0, 2, NONE, false, NAIVE, 0, NULL, NULL, 0},
    {true, 1, 1, 3, 0, 2, FULL, false, F1B, 0, NULL, NULL, 0},
    {false, 1, 1, 2, 0, 1, NONE, false, INTER, 3, NULL, NULL, 0},
    {false, 1, 1, 4, 0, 3, NONE, false, ZERO_BUBBLE, 0, NULL, "1,1,4,1", 0},
    /* together */
    {false, 2, 2, 2, 1, 2, NONE, true, F1B, 0, "3,5", NULL, 0},
    {false, 2, 1, 2, 3, 1, FULL, false, INTER, 2, NULL, NULL, 0},
    {true, 2, 2, 2, 3, 2, SOME, true, ZERO_BUBBLE, 0, NULL, NULL, 0},
    {false, 3, 1, 2, 3, 2, NONE, false, ZERO_BUBBLE, 0, "2,5,1", NULL, 0},
    {true, 2, 1, 3, 3, 1, NONE, false, INTER, 2, NULL, "1,1,2,1,1,1", 0},
    {false, 3, 2, 1, 2, 1, FULL, true, F1B, 0, NULL, NULL, 0},
    {true, 2, 4, 1, 1, 4, NONE, true, GPIPE, 0, NULL, NULL, 0},
    {false, 2, 1, 3, 2, 1, SOME, false, GPIPE, 0, "7,1", NULL, 0},
};

static ls_shape shape_of(const layout_case *c) {
    ls_shape shape = c->llama ? tiny_llama() : tiny_gpt2();
    shape.V = c->llama ? 263 : 259;
    shape.L = c->layers > 0 ? c->layers : 5;
    shape.C = 40;
    shape.H = c->llama ? 10 : 5;
    shape.kv_heads = 5;
    shape.head_size = 8;
    shape.hidden = 71;
    /* Workers of a TP group gather the rows of these norms' gradients, with or without sequence parallelism. */
    shape.qk_norm = c->llama && c->tp == 2;
    return shape;
}

/* Some layouts are run with it, some without; formulas by hand are without. */
static bool with_checks;

static ls_settings settings_of(const layout_case *c) {
    ls_shape shape = shape_of(c);
    ls_settings settings = tiny_settings(&shape, adamw);
    settings.slices = 4;
    settings.groups = G;
    settings.B = 11;
    settings.options.check = with_checks && c->dp % 2 == 0 ? LS_CHECK_REPLICAS : LS_CHECK_OFF;
    settings.policy = policy;
    settings.loss_scale = (ls_loss_scale_settings){.constant = true, .initial = 4, .hysteresis = 1};
    return settings;
}

static ls_layout_request request_of(const layout_case *c) {
    ls_layout_request request = ls_layout_request_none();
    ask(&request, LS_KNOB_dp, c->dp);
    ask(&request, LS_KNOB_tp, c->tp);
    ask(&request, LS_KNOB_pp, c->pp);
    ask(&request, LS_KNOB_zero, c->zero);
    ask(&request, LS_KNOB_micro, c->micro);
    ask(&request, LS_KNOB_recompute, c->recompute);
    ask(&request, LS_KNOB_sequence_parallel, c->sequence_parallel);
    ask(&request, LS_KNOB_schedule, c->schedule);
    ask(&request, LS_KNOB_virtual_stages, c->virtual_stages);
    request.shares = c->shares;
    request.stages = c->stages;
    return request;
}

/* ---- the workers ------------------------------------------------------------------------------------------------- */

static ls_status compare(const ls_trainer *t, const ls_step_traffic *before, const ls_step_traffic *now) {
    ls_layout_task task = {.model = t->model,
                           .B = t->settings.B,
                           .T = t->settings.T,
                           .G = t->settings.groups,
                           .policy = t->settings.policy,
                           .checks_replicas = t->settings.options.check >= LS_CHECK_REPLICAS};
    return compare_traffic(&task, t, before, now);
}

static ls_status work(ls_world *world, void *arg) {
    const layout_case *c = arg;
    ls_settings settings = settings_of(c);
    ls_layout_request request = request_of(c);
    ls_trainer *trainer = NULL;
    fixture f;
    ls_status status;
    LS_TRY_OUT(fixture_open(&f, &settings));
    LS_TRY_OUT(trainer_open(&f, world, &request, &trainer));
    LS_TRY_OUT(ls_partition_init_weights(trainer->partition, 11));
    LS_TRY_OUT(trainer_run(trainer, 1));
    ls_step_traffic before = look(trainer);
    LS_TRY_OUT(trainer_run(trainer, 2));
    ls_step_traffic now = look(trainer);
    LS_TRY_OUT(compare(trainer, &before, &now));
out:
    ls_trainer_destroy(trainer);
    fixture_close(&f);
    return status;
}

/* Every so many of them; with LS_TEST_LONG all. */
static void check_cases(ls_policy types, size_t first, size_t every) {
    if (getenv("LS_TEST_LONG")) first = 0, every = 1;
    every *= (size_t)sample_every(3);
    policy = types;
    put_tokens(200);
    for (size_t i = first; i < sizeof cases / sizeof *cases; i += every) {
        layout_case c = cases[i];
        ls_workers_options options = {.workers = c.dp * c.tp * c.pp, .threads = 1, .no_pin = 1};
        if (ls_workers_run(&options, work, &c) != LS_OK) fail_msg("layout %zu: %s", i, ls_status_message());
    }
    policy = (ls_policy){.act = LS_F32};
}

static void workers_count_what_the_formulas_say(void **state) {
    (void)state;
    with_checks = true;
    check_cases((ls_policy){.act = LS_F32}, 0, 1);
}

/* Weights, rounded sums of a TP group and, with reduce-dtype, leaves travel in two bytes. */
static void the_same_in_16_bits(void **state) {
    (void)state;
    check_cases((ls_policy){.act = LS_BF16, .reduce = LS_BF16}, 0, 2);
    check_cases((ls_policy){.act = LS_F16}, 1, 6);
    check_cases((ls_policy){.act = LS_BF16}, 3, 6);
    check_cases((ls_policy){.act = LS_F32, .reduce = LS_BF16}, 5, 6);
}

/* ---- the formulas alone ------------------------------------------------------------------------------------------ */

typedef struct formula {
    ls_model *model;
    ls_layout_task task;
    ls_layout layout;
} formula;

static formula formula_of(const layout_case *c) {
    formula f = {0};
    ls_settings settings = settings_of(c);
    ls_layout_request request = request_of(c);
    assert_int_equal(ls_model_create(&settings.shape, settings.slices, &f.model), LS_OK);
    f.task = (ls_layout_task){.model = f.model,
                              .B = settings.B,
                              .T = settings.T,
                              .G = settings.groups,
                              .policy = settings.policy,
                              .checks_replicas = settings.options.check >= LS_CHECK_REPLICAS};
    assert_int_equal(ls_layout_make(&request, &f.task, &f.layout), LS_OK);
    return f;
}

static ls_step_traffic traffic_of(const formula *f, int rank) {
    ls_step_traffic traffic;
    assert_int_equal(ls_traffic_of_step(&f->task, &f->layout, ls_layout_place(&f->layout, rank), &traffic), LS_OK);
    return traffic;
}

static void one_worker_sends_nothing(void **state) {
    (void)state;
    layout_case c = {.dp = 1, .tp = 1, .pp = 1, .zero = 3, .micro = 2, .sequence_parallel = false};
    formula f = formula_of(&c);
    ls_step_traffic traffic = traffic_of(&f, 0), none;
    memset(&none, 0, sizeof none);
    assert_memory_equal(&traffic, &none, sizeof none);
    ls_model_destroy(f.model);
}

/* Worked out by hand. GPT-2 with C = 40: a block has matrices of 120·40, 40·40 and twice 71·40 elements, and vectors of
 * 40, 40, 120, 40, 40, 40, 71, 40, kept in four rows for the token slices; each begins at a multiple of 16 elements.
 * The table has 259·40 = 10360 elements (10368 with the padding) and two uses, positions have 400, the last norm 2·160.
 */
static void plain_data_parallelism_by_hand(void **state) {
    (void)state;
    formula f = formula_of(&cases[0]);
    f.task.checks_replicas = false;
    uint64_t matrices = 4800 + 1600 + 2 * 2848, vectors = 6 * 160 + 480 + 288;
    uint64_t elems = 5 * (matrices + vectors) + 2 * 10368 + 400 + 2 * 160;
    for (int rank = 0; rank < 2; rank++) {
        ls_step_traffic traffic = traffic_of(&f, rank);
        assert_int_equal(traffic.of[LS_AXIS_DP][LS_TRAFFIC_ALL_REDUCE].calls, 2 * 5 + 2 + 1 + 1);
        assert_int_equal(traffic.of[LS_AXIS_DP][LS_TRAFFIC_ALL_REDUCE].bytes, elems / 2 * 4 * 2);
        assert_int_equal(traffic.of[LS_AXIS_DP][LS_TRAFFIC_ALL_GATHER].calls, 0);
        assert_int_equal(traffic.of[LS_TRAFFIC_WORLD][LS_TRAFFIC_ALL_REDUCE].calls, 1);
    }
    ls_model_destroy(f.model);
}

/* What the issue of 16-bit training promises of the wire: half of it for gradients where every row has one group, three
 * quarters in the TP group, half of the weights that are gathered. */
static void sixteen_bits_save_what_they_promise(void **state) {
    (void)state;
    const ls_policy fp32 = {.act = LS_F32}, bf16 = {.act = LS_BF16, .reduce = LS_BF16};
    layout_case dp = {.dp = G, .tp = 1, .pp = 1, .zero = 1, .micro = 2, .schedule = F1B};
    layout_case tp = {.llama = true, .dp = 1, .tp = 4, .pp = 1, .micro = 11, .schedule = F1B};
    layout_case *list[] = {&dp, &tp};
    ls_step_traffic got[2][2];
    for (int i = 0; i < 2; i++)
        for (int p = 0; p < 2; p++) {
            policy = p ? bf16 : fp32;
            formula f = formula_of(list[i]);
            f.task.checks_replicas = false;
            got[i][p] = traffic_of(&f, 1);
            ls_model_destroy(f.model);
        }
    policy = fp32;
    const ls_traffic *wide = got[0][0].of[LS_AXIS_DP], *narrow = got[0][1].of[LS_AXIS_DP];
    assert_true(wide[LS_TRAFFIC_REDUCE_SCATTER].bytes > 0);
    assert_int_equal(2 * narrow[LS_TRAFFIC_REDUCE_SCATTER].bytes, wide[LS_TRAFFIC_REDUCE_SCATTER].bytes);
    /* Positions, 400 elements, stay fp32; of them this worker has none. */
    assert_int_equal(2 * narrow[LS_TRAFFIC_ALL_GATHER].bytes, wide[LS_TRAFFIC_ALL_GATHER].bytes);
    /* A sum of 99 rows over four workers, of which this one adds up 25, in fp32 a quarter of the elements. Two sums
     * each way of five blocks and one of the head; that of the embedding is the stream itself, and the loss is fp32. */
    enum { ROWS = 99, WIDTH = 40, JOINS = 5 * 4 + 1, PLAIN = (ROWS * WIDTH / 4 * 3 * 2) * 4 };
    assert_int_equal(got[1][0].of[LS_AXIS_TP][LS_TRAFFIC_ALL_REDUCE].bytes, (JOINS + 1) * PLAIN);
    const ls_traffic *tp16 = got[1][1].of[LS_AXIS_TP];
    assert_int_equal(tp16[LS_TRAFFIC_ALL_REDUCE].bytes, PLAIN);
    assert_int_equal(tp16[LS_TRAFFIC_REDUCE_SCATTER].bytes, JOINS * (ROWS - 25) * WIDTH * 4);
    assert_int_equal(tp16[LS_TRAFFIC_ALL_GATHER].bytes, JOINS * 3 * 25 * WIDTH * 2 + 3 * (2 + 1) * ROWS * 4);
}

/* Whatever is sent is received; all members of a communicator make the same collective calls. */
static void members_agree(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        formula f = formula_of(&cases[i]);
        ls_step_traffic sum = {0};
        for (int rank = 0; rank < ls_layout_workers(&f.layout); rank++) {
            ls_step_traffic traffic = traffic_of(&f, rank);
            ls_traffic_add(&sum, &traffic);
        }
        const ls_traffic *sent = &sum.of[LS_AXIS_PP][LS_TRAFFIC_SEND];
        assert_memory_equal(sent, &sum.of[LS_AXIS_PP][LS_TRAFFIC_RECEIVE], sizeof *sent);
        assert_int_equal(sum.of[LS_AXIS_DP][LS_TRAFFIC_REDUCE_SCATTER].calls % (uint64_t)f.layout.dp, 0);
        assert_int_equal(sum.of[LS_AXIS_DP][LS_TRAFFIC_ALL_GATHER].calls % (uint64_t)f.layout.dp, 0);
        assert_int_equal(sum.of[LS_AXIS_TP][LS_TRAFFIC_ALL_GATHER].calls % (uint64_t)f.layout.tp, 0);
        ls_model_destroy(f.model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_worker_sends_nothing),
        cmocka_unit_test(plain_data_parallelism_by_hand),
        cmocka_unit_test(members_agree),
        cmocka_unit_test(sixteen_bits_save_what_they_promise),
        cmocka_unit_test(workers_count_what_the_formulas_say),
        cmocka_unit_test(the_same_in_16_bits),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
