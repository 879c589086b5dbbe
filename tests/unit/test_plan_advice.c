/* test_plan_advice.c: made cases of bad advice. The right answer of each is known by pricing everything there is with
 * the same model: every layout of every size. What is recommended is that, or at most 2 % slower. A test of the search
 * and of what is made of it, not of the model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/shape_file.h"
#include "plan/answer.h"
#include "plan/cost/cost_case.h"

typedef struct made {
    const char *what, *model, *chip[2], *network, *link, *stack;
    int chips[2];
    size_t seq, batch;
    int least, most; /* devices that the answer uses */
} made;

static const made cases[] = {
    /* too many devices, over a slow link */
    {"1B, two nodes, 1 Gb/s", "llama-1b", {"A100"}, "1gbe", NULL, "megatron", {16}, 2048, 64, 8, 8},
    {"1B, four nodes, 1 Gb/s", "llama-1b", {"H100"}, "1gbe", NULL, "megatron", {32}, 2048, 64, 8, 8},
    {"124M, two nodes, 10 Gb/s", "gpt2-124m", {"H100"}, "10gbe", NULL, "megatron", {16}, 1024, 32, 1, 8},
    {"124M, eight nodes, small batch", "gpt2-124m", {"A100"}, "hdr", NULL, "megatron", {64}, 1024, 16, 1, 64},
    {"355M with FSDP, 1 Gb/s", "gpt2-355m", {"A100"}, "1gbe", NULL, "fsdp", {32}, 1024, 64, 1, 8},
    {"8B, batch of 4 on 32", "llama-8b", {"H100"}, "ndr", NULL, "megatron", {32}, 2048, 4, 8, 32},
    {"a batch that 24 devices share better than 32",
     "gpt2-1558m",
     {"A100"},
     "100gbe",
     NULL,
     "megatron",
     {32},
     1024,
     24,
     8,
     32},
    /* all devices are right */
    {"8B, four nodes, fast", "llama-8b", {"H100"}, "ndr", NULL, "megatron", {32}, 2048, 128, 32, 32},
    {"8B with FSDP", "llama-8b", {"A100"}, "hdr", NULL, "fsdp", {16}, 2048, 64, 16, 16},
    {"one node", "gpt2-1558m", {"A100"}, "hdr", NULL, "megatron", {8}, 1024, 64, 8, 8},
    /* two sites */
    {"like sites, 1 Gb/s", "llama-8b", {"H100", "H100"}, "ndr", "1gbe", "megatron", {16, 16}, 2048, 64, 16, 16},
    {"like sites, 100 Gb/s", "llama-8b", {"H100", "H100"}, "ndr", "100gbe", "megatron", {16, 16}, 2048, 128, 32, 32},
    {"unlike sites, 1 Gb/s", "llama-8b", {"A100", "H100"}, "ndr", "1gbe", "megatron", {16, 16}, 2048, 64, 16, 16},
    {"unlike sites, 100 Gb/s", "llama-8b", {"A100", "H100"}, "ndr", "100gbe", "megatron", {8, 8}, 2048, 64, 16, 16},
    {"V100 beside H100", "gpt2-1558m", {"V100", "H100"}, "hdr", "400gbe", "megatron", {8, 8}, 1024, 96, 8, 16},
    /* wrong ZeRO, wrong order */
    {"70B, slow network, no ZeRO 3", "llama-70b", {"H100"}, "25gbe", NULL, "megatron", {64}, 2048, 128, 64, 64},
    {"8B, ZeRO 3 for want of memory", "llama-8b", {"A100-40GB"}, "hdr", NULL, "fsdp", {16}, 2048, 32, 16, 16},
    {"virtual stages that hardly pay", "llama-70b", {"A100"}, "hdr", NULL, "megatron", {32}, 2048, 64, 32, 32},
    {"13B, copies between nodes pay", "llama-13b", {"A100"}, "25gbe", NULL, "fsdp", {16}, 2048, 128, 8, 16},
    {"no ZeRO where it all fits", "gpt2-355m", {"H100"}, "ndr", NULL, "fsdp-compile", {8}, 1024, 64, 8, 8},
    /* too few micro-batches */
    {"30B, a bubble too large", "llama-30b", {"A100"}, "hdr", NULL, "megatron", {16}, 2048, 16, 8, 16},
    {"7B, one sequence for each replica", "llama-7b", {"A100-40GB"}, "hdr", NULL, "megatron", {16}, 2048, 16, 8, 16},
    {"6.7B, old program, few micro-batches",
     "gpt3-6.7b",
     {"V100"},
     "hdr100",
     NULL,
     "megatron-2021",
     {16},
     2048,
     16,
     8,
     16},
    /* recomputation that is not needed, or is */
    {"1B, room for all activations", "llama-1b", {"H200"}, "ndr", NULL, "megatron", {8}, 4096, 64, 8, 8},
    {"13B, little room", "llama-13b", {"A100-40GB"}, "hdr", NULL, "megatron", {16}, 4096, 32, 16, 16},
    /* tensor parallelism too wide, or across slow links inside the node */
    {"8B over PCIe", "llama-8b", {"A100 PCIe"}, "hdr100", NULL, "megatron", {8}, 2048, 64, 8, 8},
    {"13B on consumer cards", "gpt3-13b", {"RTX 4090"}, "25gbe", NULL, "megatron", {16}, 2048, 64, 8, 16},
    /* long sequences */
    {"8B, 32k tokens", "llama-8b", {"H100"}, "ndr", NULL, "megatron", {8}, 32768, 8, 8, 8},
    /* other chips */
    {"32B on B300", "llama-32b", {"B300"}, "xdr", NULL, "megatron", {8}, 4096, 64, 8, 8},
    {"13B on MI325X", "llama-13b", {"MI325X"}, "ndr", NULL, "fsdp", {8}, 4096, 64, 8, 8},
};
enum { CASES = sizeof cases / sizeof cases[0] };
_Static_assert(CASES == 30, "thirty made cases");

/* ---- pricing everything ------------------------------------------------------------------------------------------ */

typedef struct priced {
    const ls_plan_task *task;
    double best;
    long long count;
} priced;

static ls_status price(void *state, const ls_knobs *layout) {
    priced *p = state;
    ls_prediction cost;
    /* What can be no better need not be simulated: the bound is tested on its own. */
    assert_int_equal(ls_plan_bound(p->task, layout, &cost), LS_OK);
    p->count++;
    if (!ls_prediction_fits(&cost) || (p->best > 0 && cost.seconds >= p->best)) return LS_OK;
    assert_int_equal(ls_plan_predict(p->task, layout, &cost), LS_OK);
    if (p->best == 0 || cost.seconds < p->best) p->best = cost.seconds;
    return LS_OK;
}

/* Least seconds of the step on these devices, or what is known already; 0: nothing fits. */
static double price_all(const ls_plan_task *task, const int *chips, double known) {
    ls_plan_size size = {.chips = {chips[0], chips[1]}};
    ls_plan_task part = ls_plan_task_of_size(task, &size);
    ls_layout_request request = ls_layout_request_none();
    priced p = {.task = &part, .best = known};
    ls_status status = ls_plan_space(&part, &request, price, &p);
    assert_true(status == LS_OK || status == LS_ERR_INPUT);
    return p.best;
}

static double price_every_size(const ls_plan_task *task) {
    double least = 0;
    for (int i = 0; i < task->cluster.sites; i++) {
        const ls_site *site = &task->cluster.site[i];
        for (int n = 1; n <= site->chips; n += n < site->node ? 1 : site->node) {
            int chips[2] = {i == 0 ? n : 0, i == 1 ? n : 0};
            least = price_all(task, chips, least);
        }
    }
    int all[2] = {task->cluster.site[0].chips, task->cluster.sites > 1 ? task->cluster.site[1].chips : 0};
    return price_all(task, all, least);
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

static void ask_case(const made *m, ls_plan_question *q) {
    memset(q, 0, sizeof *q);
    assert_int_equal(ls_shape_preset(m->model, &q->task.shape), LS_OK);
    for (int i = 0; i < 2 && m->chip[i]; i++) {
        ls_cluster one;
        assert_int_equal(ls_cluster_of(m->chip[i], m->chips[i], 0, &one), LS_OK);
        assert_int_equal(ls_link_find(m->network, &one.site[0].between), LS_OK);
        q->task.cluster.site[i] = one.site[0];
        q->task.cluster.sites = i + 1;
    }
    if (m->link) assert_int_equal(ls_link_find(m->link, &q->task.cluster.across), LS_OK);
    assert_int_equal(ls_stack_find(m->stack, &q->task.stack), LS_OK);
    q->task.seq = m->seq;
    q->task.global_batch = m->batch;
    q->request = ls_layout_request_none();
}

static void test_made_cases_are_advised_well(void **state) {
    (void)state;
    ls_plan_question *q = malloc(sizeof *q);
    ls_plan_answer *a = malloc(sizeof *a);
    assert_non_null(q);
    assert_non_null(a);
    for (int i = 0; i < CASES; i++) {
        const made *m = &cases[i];
        ask_case(m, q);
        assert_int_equal(ls_plan_answer_find(q, a), LS_OK);
        assert_non_null(a->best);
        double least = price_every_size(&q->task), got = a->best->prediction.seconds;
        int used = ls_cluster_chips(&a->task.cluster);
        if (got > 1.02 * least) fail_msg("%s: %g s on %d devices, %g s are possible", m->what, got, used, least);
        if (got < least * (1 - 1e-9)) fail_msg("%s: %g s, pricing everything found %g", m->what, got, least);
        if (used < m->least || used > m->most) fail_msg("%s: uses %d devices", m->what, used);
        for (int k = 1; k < a->found.fitting; k++)
            if (a->found.fits[k].prediction.seconds < a->found.fits[k - 1].prediction.seconds)
                fail_msg("%s: runner-up %d is faster than the one before", m->what, k);
        bool fewer = used < ls_cluster_chips(&q->task.cluster);
        assert_int_equal(fewer, ls_plan_use_is_fewer(&a->use));
        if (fewer) assert_true(a->use.fastest.tokens_per_second > a->use.all.tokens_per_second);
        assert_true(a->use.nearly.tokens_per_second >= (1 - LS_PLAN_SIZE_NEARLY) * a->use.fastest.tokens_per_second);
    }
    free(a);
    free(q);
}

/* ---- unlike sites ------------------------------------------------------------------------------------------------ */

static void test_faster_sites_do_more(void **state) {
    (void)state;
    static const made like = {"", "llama-8b", {"A100", "H100"}, "ndr", "400gbe", "megatron", {16, 16}, 2048, 128, 0, 0};
    ls_plan_question *q = malloc(sizeof *q);
    assert_non_null(q);
    ask_case(&like, q);
    ls_knobs l = {.dp = 16,
                  .tp = 1,
                  .pp = 2,
                  .context = 1,
                  .virtual_stages = 1,
                  .micro = 1,
                  .zero = 1,
                  .schedule = LS_SCHEDULE_1F1B,
                  .type = LS_PLAN_BF16,
                  .stages_across = true};
    int first[LS_CHUNKS_MAX + 1], replicas[2], micros[2];
    ls_plan_blocks(&q->task, &l, first);
    int near = first[1] - 1, far = (int)q->task.shape.L - near;
    assert_true(near >= 1 && far > 1.7 * near && far < 3 * near); /* 312 against 989 TFLOP/s, and shares of them */
    assert_false(ls_plan_shares(&q->task, &l, replicas, micros));
    l.stages_across = false;
    assert_true(ls_plan_shares(&q->task, &l, replicas, micros));
    assert_true(replicas[0] == 8 && replicas[1] == 8);
    assert_true(micros[1] >= 1.5 * micros[0] && micros[1] < 4 * micros[0]);
    assert_true(8 * (micros[0] + micros[1]) >= 128);
    json_t *json = ls_plan_to_json(&q->task, &l, 0);
    const char *shares = json_string_value(json_object_get(json, "shares"));
    assert_non_null(shares);
    int sum = 0, count = 0;
    for (const char *at = shares; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) sum += atoi(at), count++;
    assert_int_equal(count, 16);
    assert_true(sum > 0 && 8 * (micros[0] + micros[1]) % sum == 0);
    json_decref(json);
    free(q);
}

/* Of four stages two are at a site that is twice as fast: it has twice the layers, less what the head costs there. */
static void test_layers_go_where_they_end_first(void **state) {
    (void)state;
    static const struct {
        double cost[2][3]; /* embedding, layer, head; of the near site and the far one */
        int most[2], layers[4];
    } rows[] = {
        {{{0, 2, 0}, {0, 1, 0}}, {30, 30}, {5, 5, 10, 10}}, {{{0, 1, 0}, {0, 2, 0}}, {30, 30}, {10, 10, 5, 5}},
        {{{0, 2, 0}, {0, 1, 6}}, {30, 30}, {6, 6, 12, 6}},  {{{4, 2, 0}, {4, 1, 0}}, {30, 30}, {4, 6, 10, 10}},
        {{{0, 2, 0}, {0, 1, 0}}, {30, 8}, {7, 7, 8, 8}}, /* as many as the far chips hold */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_plan_task task = {.shape = {.L = 30}};
        ls_knobs layout = {.pp = 4, .virtual_stages = 1};
        ls_plan_case c = {.task = &task, .layout = &layout, .near_stages = 2};
        double cost[2][3];
        int first[LS_CHUNKS_MAX + 1];
        memcpy(cost, rows[i].cost, sizeof cost);
        ls_plan_divide_unlike(&c, cost, rows[i].most, first);
        double most = 0, expected = 0;
        int sum = 0;
        for (int g = 0; g < 4; g++) {
            int far = g >= 2, layers = first[g + 1] - first[g] - (g == 0) - (g == 3);
            double ends = (g == 0 ? cost[0][0] : 0) + (g == 3 ? cost[1][2] : 0);
            double load = layers * cost[far][1] + ends, then = rows[i].layers[g] * cost[far][1] + ends;
            if (load > most) most = load;
            if (then > expected) expected = then;
            assert_true(layers >= 1 && layers <= rows[i].most[far]);
            sum += layers;
        }
        assert_int_equal(sum, 30);
        if (most > expected) fail_msg("case %zu: a stage takes %g, %g is possible", i, most, expected);
    }
}

/* ---- sensitivity ------------------------------------------------------------------------------------------------- */

/* 13B on 16 A100 with FSDP over 100 Gb/s: ZeRO 2, which reduces the gradients of every micro-batch, is fastest and
 * collapses with 50 Gb/s; ZeRO 3 inside each node takes a little longer and does not. */
static void test_the_robust_one_is_named(void **state) {
    (void)state;
    static const made m = {"", "llama-13b", {"A100"}, "100gbe", NULL, "fsdp-compile", {16}, 2048, 512, 0, 0};
    ls_plan_question *q = malloc(sizeof *q);
    ls_plan_answer *a = malloc(sizeof *a);
    assert_non_null(q);
    assert_non_null(a);
    ask_case(&m, q);
    q->request.memory_bytes = .95 * q->task.cluster.site[0].chip.memory_bytes;
    assert_int_equal(ls_plan_answer_find(q, a), LS_OK);
    const ls_plan_sensitivity *s = &a->sensitivity;
    assert_int_equal(a->best->layout.zero, 2);
    assert_true(s->slow.seconds > 1.15 * a->best->prediction.seconds);
    assert_true(s->robust.prediction.seconds > 0);
    assert_true(s->robust.prediction.seconds <= 1.05 * a->best->prediction.seconds);
    assert_true(s->robust_link_seconds < 1.05 * s->robust.prediction.seconds);
    assert_true(s->link_best.prediction.seconds <= s->robust_link_seconds * (1 + LS_PLAN_NEARLY));
    /* What is said is what predicting again says. */
    ls_plan_task slow = a->task;
    ls_prediction p;
    slow.cluster.site[0].between.bandwidth /= 2;
    assert_int_equal(ls_plan_predict(&slow, &s->robust.layout, &p), LS_OK);
    assert_true(p.seconds == s->robust_link_seconds);
    assert_int_equal(ls_plan_predict(&slow, &a->best->layout, &p), LS_OK);
    assert_true(p.seconds == s->slow.seconds);
    /* On a network that is fast enough for it the fastest is as good as any. */
    assert_int_equal(ls_link_find("16xndr", &q->task.cluster.site[0].between), LS_OK);
    assert_int_equal(ls_plan_answer_find(q, a), LS_OK);
    assert_true(a->sensitivity.robust.prediction.seconds == 0);
    free(a);
    free(q);
}

/* What is fastest with half the bandwidth, of the layouts that fit in 5 % less memory and take so much longer. */
typedef struct guarded {
    const ls_plan_task *task, *slow;
    double longest, best;
} guarded;

static ls_status guard(void *state, const ls_knobs *layout) {
    guarded *g = state;
    ls_prediction now, then;
    assert_int_equal(ls_plan_bound(g->task, layout, &now), LS_OK);
    if (now.seconds > g->longest || now.memory_bytes > .95 * now.capacity_bytes) return LS_OK;
    assert_int_equal(ls_plan_predict(g->task, layout, &now), LS_OK);
    if (now.seconds > g->longest) return LS_OK;
    assert_int_equal(ls_plan_predict(g->slow, layout, &then), LS_OK);
    if (g->best == 0 || then.seconds < g->best) g->best = then.seconds;
    return LS_OK;
}

static double least_when_slow(const ls_plan_answer *a, const ls_plan_task *slow, double within) {
    ls_layout_request request = ls_layout_request_none();
    guarded g = {.task = &a->task, .slow = slow, .longest = (1 + within) * a->best->prediction.seconds};
    assert_int_equal(ls_plan_space(&a->task, &request, guard, &g), LS_OK);
    return g.best;
}

/* The limit of 5 % is kept, and used: layouts beyond it would mind slow links less. */
static void test_the_robust_one_is_the_best_within_its_limit(void **state) {
    (void)state;
    static const made rows[] = {
        {"", "llama-13b", {"H100"}, "hdr", NULL, "megatron", {64}, 2048, 512, 0, 0},
        {"", "llama-13b", {"H100"}, "100gbe", NULL, "megatron", {64}, 2048, 128, 0, 0},
    };
    ls_plan_question *q = malloc(sizeof *q);
    ls_plan_answer *a = malloc(sizeof *a);
    int limited = 0;
    assert_non_null(q);
    assert_non_null(a);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ask_case(&rows[i], q);
        q->request.memory_bytes = .95 * q->task.cluster.site[0].chip.memory_bytes;
        assert_int_equal(ls_plan_answer_find(q, a), LS_OK);
        const ls_plan_sensitivity *s = &a->sensitivity;
        ls_plan_task slow = a->task;
        slow.cluster.site[0].between.bandwidth /= 2;
        assert_true(s->robust.prediction.seconds > 0);
        assert_true(s->robust.prediction.seconds <= 1.05 * a->best->prediction.seconds);
        double least = least_when_slow(a, &slow, .05);
        assert_true(s->robust_link_seconds >= least && s->robust_link_seconds <= least * (1 + LS_PLAN_NEARLY));
        limited += least_when_slow(a, &slow, .15) < least * (1 - 2 * LS_PLAN_NEARLY);
    }
    assert_true(limited > 0);
    free(a);
    free(q);
}

static void test_less_memory_is_searched_again(void **state) {
    (void)state;
    static const made m = {"", "llama-8b", {"A100"}, "hdr", NULL, "megatron", {8}, 4096, 64, 0, 0};
    ls_plan_question *q = malloc(sizeof *q);
    ls_plan_answer *a = malloc(sizeof *a);
    assert_non_null(q);
    assert_non_null(a);
    ask_case(&m, q);
    assert_int_equal(ls_plan_answer_find(q, a), LS_OK);
    /* Just as much memory as the choice needs: with less, another is taken. */
    q->request.memory_bytes = a->best->prediction.memory_bytes * 1.001;
    assert_int_equal(ls_plan_answer_find(q, a), LS_OK);
    const ls_plan_sensitivity *s = &a->sensitivity;
    assert_false(s->fits_less);
    assert_true(s->memory_best.prediction.seconds >= a->best->prediction.seconds);
    assert_true(s->memory_best.prediction.memory_bytes <= .95 * q->request.memory_bytes);
    free(a);
    free(q);
}

/* ---- what limits scaling ----------------------------------------------------------------------------------------- */

static void test_the_bottleneck_grows_and_is_treated(void **state) {
    (void)state;
    static const made rows[] = {
        {"", "llama-8b", {"A100"}, "25gbe", NULL, "megatron", {64}, 4096, 1024, 0, 0},
        {"", "llama-30b", {"A100"}, "10gbe", NULL, "megatron", {64}, 2048, 256, 0, 0},
        {"", "gpt2-1558m", {"A100"}, "hdr", NULL, "megatron", {64}, 1024, 64, 0, 0},
    };
    ls_plan_question *q = malloc(sizeof *q);
    ls_plan_answer *a = malloc(sizeof *a);
    assert_non_null(q);
    assert_non_null(a);
    int treated = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ask_case(&rows[i], q);
        assert_int_equal(ls_plan_answer_find(q, a), LS_OK);
        const ls_plan_bottleneck *b = &a->bottleneck;
        assert_true(b->is_there);
        double from = b->from.chips * b->from.best.prediction.seconds, to = b->to.chips * b->to.best.prediction.seconds;
        double sum = 0;
        for (int k = 0; k < LS_TIME_KINDS; k++) {
            sum += b->more[k];
            assert_true(b->more[k] <= b->more[b->kind]);
        }
        assert_true(b->more[b->kind] > 0 && to > from);
        assert_true(sum > to - from - 1e-6 * to && sum < to - from + 1e-6 * to);
        treated += b->is_treated;
        if (!b->is_treated) continue;
        const ls_prediction *then = &b->treatment.to.prediction, *now = &b->to.best.prediction;
        assert_true(b->treatment.gain > 0);
        assert_true(then->time[b->kind] / then->model_flops < now->time[b->kind] / now->model_flops);
        assert_true(b->treated_seconds >= .5 * b->treatment.gain * now->seconds);
    }
    assert_true(treated >= 2);
    free(a);
    free(q);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made_cases_are_advised_well),
        cmocka_unit_test(test_faster_sites_do_more),
        cmocka_unit_test(test_layers_go_where_they_end_first),
        cmocka_unit_test(test_the_robust_one_is_named),
        cmocka_unit_test(test_the_robust_one_is_the_best_within_its_limit),
        cmocka_unit_test(test_less_memory_is_searched_again),
        cmocka_unit_test(test_the_bottleneck_grows_and_is_treated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
