/* test_plan_search.c: the search finds what trying everything finds, in order, and says why there is nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ask.h"
#include "model/shape_file.h"
#include "plan/cost/cost_case.h"
#include "plan/search.h"

enum { BRUTE_MAX = 20000 };

static ls_plan_task make_task(const char *model, const char *chip, int chips, size_t seq, size_t batch,
                              const char *stack) {
    ls_plan_task task = {.seq = seq, .global_batch = batch};
    assert_int_equal(ls_shape_preset(model, &task.shape), LS_OK);
    assert_int_equal(ls_cluster_of(chip, chips, 0, &task.cluster), LS_OK);
    assert_int_equal(ls_stack_find(stack, &task.stack), LS_OK);
    return task;
}

/* ---- against trying everything ----------------------------------------------------------------------------------- */

typedef struct brute {
    ls_plan_choice best[BRUTE_MAX]; /* of each kind */
    int count;
    long long tried, fit;
    double nearest; /* least lack */
} brute;

static void brute_offer(const ls_plan_task *task, const ls_knobs *l, brute *b) {
    ls_plan_choice choice = {.layout = *l};
    if (ls_plan_check(task, l) != LS_OK) return;
    assert_int_equal(ls_plan_predict(task, l, &choice.prediction), LS_OK);
    b->tried++;
    double lack = choice.prediction.memory_bytes - task->cluster.site[0].chip.memory_bytes;
    if (lack > 0) {
        if (lack < b->nearest) b->nearest = lack;
        return;
    }
    b->fit++;
    for (int i = 0; i < b->count; i++) {
        ls_knobs *o = &b->best[i].layout;
        if (o->dp != l->dp || o->tp != l->tp || o->pp != l->pp || o->zero != l->zero || o->recompute != l->recompute ||
            o->context != l->context || (o->shard_group > 0) != (l->shard_group > 0))
            continue;
        if (choice.prediction.seconds < b->best[i].prediction.seconds) b->best[i] = choice;
        return;
    }
    assert_true(b->count < BRUTE_MAX);
    b->best[b->count++] = choice;
}

/* ZeRO 3 among all replicas, and inside a node. */
static void brute_groups(const ls_plan_task *task, ls_knobs *l, brute *b) {
    int group = task->cluster.site[0].node / l->tp, D = l->dp * l->context;
    brute_offer(task, l, b);
    if (l->zero < 3 || !task->stack.hybrid || group < 2 || group >= D || D % group != 0) return;
    l->shard_group = group;
    brute_offer(task, l, b);
    l->shard_group = 0;
}

static void brute_inner(const ls_plan_task *task, ls_knobs *l, bool pipelines_shard, brute *b) {
    size_t share = task->global_batch / (size_t)l->dp;
    for (size_t micro = 1; micro <= share; micro++) {
        if (share % micro != 0) continue;
        for (int v = 1; v <= (int)task->shape.L / l->pp; v++) {
            int L = (int)task->shape.L;
            if (v > 1 && (l->pp == 1 || (L % (l->pp * v) != 0 && (L + 2) % (l->pp * v) != 0))) continue;
            if (v > 1 && share / micro % (size_t)l->pp != 0) continue;
            for (int zero = 0; zero <= (l->dp > 1 ? 3 : 0); zero++) {
                if (zero > 1 && l->pp > 1 && !pipelines_shard) continue;
                for (int kind = 0; kind < 3; kind++) {
                    bool flash_alone = task->stack.flash && task->stack.selective_share < 0;
                    if (kind == 1 && flash_alone) continue;
                    l->micro = micro;
                    l->virtual_stages = v;
                    l->schedule = v > 1 ? LS_SCHEDULE_INTERLEAVED : LS_SCHEDULE_1F1B;
                    l->zero = zero;
                    l->recompute = (ls_recompute)kind;
                    brute_groups(task, l, b);
                    if (v > 1 || l->pp == 1 || !task->stack.zero_bubble) continue;
                    l->schedule = LS_SCHEDULE_ZERO_BUBBLE;
                    brute_groups(task, l, b);
                }
            }
        }
    }
}

static int faster(const void *left, const void *right) {
    const ls_plan_choice *a = left, *b = right;
    double x = a->prediction.seconds, y = b->prediction.seconds;
    return x < y ? -1 : x > y;
}

static void compare(const ls_plan_task *task) {
    brute *b = calloc(1, sizeof *b);
    ls_plan_found *found = malloc(sizeof *found);
    int chips = ls_cluster_chips(&task->cluster);
    ls_layout_request request = ls_layout_request_none();
    assert_non_null(b);
    assert_non_null(found);
    b->nearest = 1e30;
    for (int ways = 1; ways == 1 || (task->stack.context_balanced && (size_t)ways * 4096 <= task->seq); ways *= 2)
        for (int tp = 1; tp <= task->cluster.site[0].node; tp++)
            for (int pp = 1; pp <= chips; pp++) {
                size_t n = (size_t)tp, kv = task->shape.kv_heads;
                if (chips % (tp * pp * ways) != 0 || (kv % n != 0 && n % kv != 0)) continue;
                ls_knobs l = {.dp = chips / tp / pp / ways, .tp = tp, .pp = pp, .context = ways, .type = LS_PLAN_BF16};
                l.sequence_parallel = tp > 1;
                if (task->global_batch % (size_t)l.dp == 0) brute_inner(task, &l, task->stack.sharded_stages, b);
            }
    qsort(b->best, (size_t)b->count, sizeof *b->best, faster);
    assert_int_equal(ls_plan_search(task, &request, found), LS_OK);
    assert_int_equal(found->tried, b->tried);
    assert_int_equal(found->fit, b->fit);
    assert_int_equal(found->fitting, b->count < LS_PLAN_KEPT ? b->count : LS_PLAN_KEPT);
    for (int i = 0; i < found->fitting; i++) {
        /* The fastest of its kind, or one with fewer virtual stages that is nearly as fast. */
        const ls_plan_choice *is = &found->fits[i], *best = &b->best[i];
        double slower = is->prediction.seconds / best->prediction.seconds - 1;
        bool simpler = is->layout.virtual_stages < best->layout.virtual_stages;
        assert_true(slower == 0 || (simpler && slower > 0 && slower <= LS_PLAN_NEARLY));
        assert_true(ls_prediction_fits(&found->fits[i].prediction));
    }
    if (b->fit == 0 && b->tried > 0) {
        const ls_prediction *p = &found->lacks[0].prediction;
        assert_true(p->memory_bytes - p->capacity_bytes == b->nearest);
    }
    for (int i = 0; i < found->missing; i++) assert_false(ls_prediction_fits(&found->lacks[i].prediction));
    free(found);
    free(b);
}

static void test_search_finds_what_trying_everything_finds(void **state) {
    (void)state;
    static const struct {
        const char *model, *chip, *stack;
        int chips;
        size_t seq, batch;
    } rows[] = {
        {"gpt2-1558m", "A100", "megatron", 16, 1024, 64},   {"llama-8b", "H100", "megatron", 16, 4096, 32},
        {"llama-8b", "A100-40GB", "fsdp", 8, 8192, 16},     {"llama-70b", "A100", "megatron-2021", 32, 2048, 64},
        {"llama-70b", "A100-40GB", "megatron", 8, 4096, 8}, {"gpt2-355m", "V100", "megatron-2021", 24, 1024, 96},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_plan_task task =
            make_task(rows[i].model, rows[i].chip, rows[i].chips, rows[i].seq, rows[i].batch, rows[i].stack);
        if (strcmp(rows[i].chip, "V100") == 0) task.cluster.site[0].chip.peak_flops[LS_PLAN_BF16] = 1e14;
        compare(&task);
    }
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

static void test_no_prediction_is_below_its_bound(void **state) {
    (void)state;
    static const char *const networks[] = {"ndr", "25gbe", "1gbe"};
    int checked = 0;
    for (int network = 0; network < 3; network++)
        for (int batch = 64; batch <= 512; batch *= 8)
            for (int pp = 1; pp <= 32; pp *= 2)
                for (int tp = 1; tp <= 8; tp *= 2)
                    for (int v = 1; v <= 32 / pp; v *= 2)
                        for (int kind = 0; kind < LS_SCHEDULE_KINDS; kind++) {
                            ls_knobs l = {.dp = 64 / tp / pp,
                                          .tp = tp,
                                          .pp = pp,
                                          .virtual_stages = v,
                                          .context = 1,
                                          .micro = 1,
                                          .schedule = (ls_schedule_kind)kind,
                                          .type = LS_PLAN_BF16};
                            ls_plan_task task = make_task("llama-8b", "H100", 64, 4096, (size_t)batch, "fsdp");
                            ls_prediction bound, real;
                            assert_int_equal(ls_link_find(networks[network], &task.cluster.site[0].between), LS_OK);
                            if (ls_plan_check(&task, &l) != LS_OK) continue;
                            assert_int_equal(ls_plan_bound(&task, &l, &bound), LS_OK);
                            assert_int_equal(ls_plan_predict(&task, &l, &real), LS_OK);
                            if (!(bound.seconds <= real.seconds * (1 + 1e-9)))
                                fail_msg("%s, batch %d, tp %d pp %d v %d schedule %d: bound %.17g, prediction %.17g",
                                         networks[network], batch, tp, pp, v, kind, bound.seconds, real.seconds);
                            assert_true(bound.memory_bytes == real.memory_bytes);
                            checked++;
                        }
    assert_true(checked > 60);
}

/* ---- what the answer is like ------------------------------------------------------------------------------------- */

static void assert_same(const ls_plan_choice *a, const ls_plan_choice *b) {
    assert_true(ls_knobs_equal(&a->layout, &b->layout));
    assert_true(a->prediction.seconds == b->prediction.seconds);
    assert_true(a->prediction.memory_bytes == b->prediction.memory_bytes);
}

static void test_kept_differ_and_are_in_order(void **state) {
    (void)state;
    ls_plan_task task = make_task("llama-70b", "A100", 64, 4096, 512, "megatron");
    ls_layout_request request = ls_layout_request_none();
    ls_plan_found *a = malloc(sizeof *a), *b = malloc(sizeof *b);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(ls_plan_search(&task, &request, a), LS_OK);
    assert_int_equal(ls_plan_search(&task, &request, b), LS_OK);
    assert_int_equal(a->fitting, b->fitting);
    assert_int_equal(a->missing, b->missing);
    for (int i = 0; i < a->fitting; i++) assert_same(&a->fits[i], &b->fits[i]);
    for (int i = 0; i < a->missing; i++) assert_same(&a->lacks[i], &b->lacks[i]);
    assert_true(a->fitting > 4);
    for (int i = 1; i < a->fitting; i++) {
        assert_true(a->fits[i - 1].prediction.seconds <= a->fits[i].prediction.seconds);
        for (int j = 0; j < i; j++) {
            const ls_knobs *x = &a->fits[i].layout, *y = &a->fits[j].layout;
            assert_false(x->dp == y->dp && x->tp == y->tp && x->pp == y->pp && x->zero == y->zero &&
                         x->recompute == y->recompute);
        }
    }
    for (int i = 0; i < a->missing; i++) /* those shown would be faster, if any would */
        if (a->lacks[i].prediction.seconds > a->fits[0].prediction.seconds * 1.3) fail_msg("lack %d is slow", i);
    free(a);
    free(b);
}

static void test_given_knobs_stay(void **state) {
    (void)state;
    ls_plan_task task = make_task("llama-8b", "H100", 32, 4096, 64, "megatron");
    ls_layout_request request = ls_layout_request_none();
    ls_plan_found *found = malloc(sizeof *found);
    assert_non_null(found);
    ls_knob_give(&request, LS_KNOB_tp, 16); /* more than a node, asked for */
    ls_knob_give(&request, LS_KNOB_zero, 3);
    ls_knob_give(&request, LS_KNOB_recompute, LS_RECOMPUTE_FULL);
    ls_knob_give(&request, LS_KNOB_micro, 2);
    ls_knob_give(&request, LS_KNOB_type, LS_PLAN_FP8);
    ls_knob_give(&request, LS_KNOB_sequence_parallel, 0);
    assert_int_equal(ls_plan_search(&task, &request, found), LS_OK);
    assert_true(found->fitting > 0);
    for (int i = 0; i < found->fitting; i++) {
        const ls_knobs *l = &found->fits[i].layout;
        assert_true(l->tp == 16 && l->zero == 3 && l->recompute == LS_RECOMPUTE_FULL && l->micro == 2);
        assert_true(l->type == LS_PLAN_FP8 && !l->sequence_parallel);
    }
    request = ls_layout_request_none();
    ls_knob_give(&request, LS_KNOB_schedule, LS_SCHEDULE_GPIPE);
    ls_knob_give(&request, LS_KNOB_pp, 4);
    assert_int_equal(ls_plan_search(&task, &request, found), LS_OK);
    for (int i = 0; i < found->fitting; i++) assert_true(found->fits[i].layout.schedule == LS_SCHEDULE_GPIPE);
    request = ls_layout_request_none();
    request.memory_bytes = 30e9;
    assert_int_equal(ls_plan_search(&task, &request, found), LS_OK);
    for (int i = 0; i < found->fitting; i++) {
        assert_true(found->fits[i].prediction.memory_bytes <= 30e9);
        assert_true(found->fits[i].prediction.capacity_bytes == 30e9);
    }
    free(found);
}

static void test_two_sites_are_cut_both_ways(void **state) {
    (void)state;
    ls_plan_task task = make_task("llama-8b", "A100", 32, 4096, 256, "megatron");
    ls_layout_request request = ls_layout_request_none();
    ls_plan_found *found = malloc(sizeof *found);
    bool stages = false, replicas = false;
    assert_non_null(found);
    task.cluster.sites = 2;
    task.cluster.site[1] = task.cluster.site[0];
    assert_int_equal(ls_link_find("100gbe", &task.cluster.across), LS_OK);
    assert_int_equal(ls_plan_search(&task, &request, found), LS_OK);
    for (int i = 0; i < found->fitting; i++) {
        const ls_knobs *l = &found->fits[i].layout;
        assert_int_equal(ls_plan_chips(l), 64);
        assert_int_equal(32 % (l->stages_across ? l->dp * l->tp : l->pp * l->tp), 0);
        *(l->stages_across ? &stages : &replicas) = true;
    }
    assert_true(stages || replicas);
    /* A slower link never helps. */
    double fast = found->fits[0].prediction.seconds;
    assert_int_equal(ls_link_find("10gbe", &task.cluster.across), LS_OK);
    assert_int_equal(ls_plan_search(&task, &request, found), LS_OK);
    assert_true(found->fits[0].prediction.seconds >= fast);
    free(found);
}

static void test_nothing_possible_says_why(void **state) {
    (void)state;
    ls_plan_task task = make_task("llama-8b", "H100", 32, 4096, 64, "megatron");
    ls_plan_found *found = malloc(sizeof *found);
    ls_layout_request request;
    assert_non_null(found);
    static const struct {
        int dp, tp, pp, v;
        size_t micro;
        const char *said;
    } rows[] = {
        {.dp = 3, .said = "dp 3 × tp 1 × pp 1 is 3, which does not divide the 32 chips"},
        {.dp = 4, .tp = 4, .pp = 4, .said = "which does not divide the 32 chips"},
        {.dp = 2, .tp = 2, .pp = 2, .said = "is 8 chips; the cluster has 32"},
        {.tp = 3, .said = "does not divide the 32 chips"},
        {.dp = 1, .pp = 32, .v = 2, .said = "exceed the 32 layers"},
        {.dp = 32, .micro = 4, .said = "needs a global batch of at least 128; it is 64"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        request = ls_layout_request_none();
        ask(&request, LS_KNOB_dp, rows[i].dp);
        ask(&request, LS_KNOB_tp, rows[i].tp);
        ask(&request, LS_KNOB_pp, rows[i].pp);
        ask(&request, LS_KNOB_virtual_stages, rows[i].v);
        ask(&request, LS_KNOB_micro, rows[i].micro);
        assert_int_equal(ls_plan_search(&task, &request, found), LS_ERR_INPUT);
        if (!strstr(ls_status_message(), rows[i].said)) fail_msg("row %zu: %s", i, ls_status_message());
    }
    request = ls_layout_request_none();
    task.cluster.site[0].chips = 28;
    assert_int_equal(ls_plan_search(&task, &request, found), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "3.5 nodes"));
    task.cluster.site[0].chips = 0;
    assert_int_equal(ls_plan_search(&task, &request, found), LS_ERR_INPUT);
    free(found);
}

static void test_odd_batches_are_still_answered(void **state) {
    (void)state;
    ls_plan_task task = make_task("gpt2-124m", "A100", 8, 1024, 13, "megatron");
    ls_plan_found *found = malloc(sizeof *found);
    ls_layout_request request = ls_layout_request_none();
    assert_non_null(found);
    ls_knob_give(&request, LS_KNOB_dp, 8);
    assert_int_equal(ls_plan_search(&task, &request, found), LS_OK);
    assert_true(found->fitting > 0);
    assert_int_equal(found->fits[0].layout.dp, 8);
    free(found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_search_finds_what_trying_everything_finds),
        cmocka_unit_test(test_no_prediction_is_below_its_bound),
        cmocka_unit_test(test_kept_differ_and_are_in_order),
        cmocka_unit_test(test_given_knobs_stay),
        cmocka_unit_test(test_two_sites_are_cut_both_ways),
        cmocka_unit_test(test_nothing_possible_says_why),
        cmocka_unit_test(test_odd_batches_are_still_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
