/* What a step does when its numbers cannot be trusted: a NaN or an infinity is found where it appeared first, with the
 * right block, phase, tensor, element, micro-batch and worker; and a step without some groups is the step of a batch
 * that never had them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "step_layouts.h"

/* ---- hunting on one worker --------------------------------------------------------------------------------------- */

enum { B = 4, T = 9 };

typedef struct hunt {
    tiny t;
    ls_partition_setup setup;
    int32_t ids[B * T], targets[B * T];
} hunt;

static void hunt_open(hunt *h, ls_shape shape, ls_policy policy) {
    h->setup = (ls_partition_setup){.train = true, .B = B, .T = T, .G = 2, .moments = 2, .seed = 5, .policy = policy};
    h->setup.layout.micro = 1;
    tiny_open(&h->t, &shape, 2, 1, &h->setup);
    tiny_ids(h->ids, B * T, shape.V, 1);
    tiny_ids(h->targets, B * T, shape.V, 2);
}

static ls_bad_place hunt_run(hunt *h, float start) {
    tiny_tokens tokens = {h->ids, h->targets, T};
    ls_partition_feed feed = {.read = tiny_read, .ctx = &tokens};
    ls_bad_place place;
    assert_int_equal(ls_partition_hunt(h->t.partition, 0, start, &feed, &place), LS_OK);
    return place;
}

static const ls_param *param_named(const ls_model *model, const char *name) {
    for (int i = 0; i < ls_model_params(model); i++)
        if (strcmp(ls_model_param(model, i)->name, name) == 0) return ls_model_param(model, i);
    fail_msg("there is no %s", name);
    return NULL;
}

static void put(hunt *h, const char *name, size_t elem, float value) {
    const ls_param *param = param_named(h->t.model, name);
    assert_int_equal(ls_partition_write(h->t.partition, param, LS_TENSOR_WEIGHT, elem, 1, &value), LS_OK);
    assert_int_equal(ls_partition_settle(h->t.partition), LS_OK);
}

static void scale_rows(hunt *h, const char *name, size_t first, size_t end, float factor) {
    const ls_param *param = param_named(h->t.model, name);
    for (size_t i = first * param->columns; i < end * param->columns; i++) {
        float w;
        assert_int_equal(ls_partition_read(h->t.partition, param, LS_TENSOR_WEIGHT, i, 1, &w), LS_OK);
        w *= factor;
        assert_int_equal(ls_partition_write(h->t.partition, param, LS_TENSOR_WEIGHT, i, 1, &w), LS_OK);
    }
}

static void expect_place(ls_bad_place place, ls_bad_phase phase, int block, int64_t micro) {
    assert_true(place.order >= 0);
    assert_int_equal(place.phase, phase);
    assert_int_equal(place.block, block);
    assert_int_equal(place.micro, micro);
    assert_int_equal(place.worker, 0);
}

static void sound_numbers_are_no_find(void **state) {
    (void)state;
    const ls_policy policies[] = {{.act = LS_F32}, {.act = LS_BF16}, {.act = LS_F16}};
    for (int i = 0; i < 3; i++) {
        hunt h;
        hunt_open(&h, i == 1 ? tiny_llama() : tiny_gpt2(), policies[i]);
        assert_true(hunt_run(&h, 0x1p-6F).order < 0);
        tiny_close(&h.t);
    }
}

/* The last thing that a block adds: its column of every row is bad, the first in row 0. */
static void forward_names_block_and_element(void **state) {
    (void)state;
    const ls_policy policies[] = {{.act = LS_F32}, {.act = LS_BF16}, {.act = LS_F16}};
    for (int i = 0; i < 3; i++)
        for (int layer = 0; layer < 2; layer++) {
            hunt h;
            char name[64];
            snprintf(name, sizeof name, "blocks.%d.mlp.out.bias", layer);
            hunt_open(&h, tiny_gpt2(), policies[i]);
            put(&h, name, 7, layer ? NAN : INFINITY);
            ls_bad_place place = hunt_run(&h, 0x1p-6F);
            expect_place(place, LS_BAD_FORWARD, 1 + layer, 0);
            assert_int_equal(place.param, -1);
            assert_int_equal(place.index, 7);
            assert_int_equal(place.is_nan, layer);
            tiny_close(&h.t);
        }
}

/* A row of the table that one sample alone looks up: the find is of its micro-batch, at its position. */
static void embedding_names_the_sample(void **state) {
    (void)state;
    hunt h;
    hunt_open(&h, tiny_llama(), (ls_policy){.act = LS_BF16});
    for (int i = 0; i < B * T; i++)
        if (h.ids[i] == 3) h.ids[i] = 4;
    h.ids[2 * T + 5] = 3;
    put(&h, "tokens.weight", 3 * 14 + 2, NAN);
    ls_bad_place place = hunt_run(&h, 0x1p-6F);
    expect_place(place, LS_BAD_FORWARD, 0, 2);
    assert_int_equal(place.index, 5 * 14 + 2);
    tiny_close(&h.t);
}

static void loss_comes_after_forward(void **state) {
    (void)state;
    hunt h;
    hunt_open(&h, tiny_llama(), (ls_policy){.act = LS_F32});
    put(&h, "norm.weight", 1, NAN);
    expect_place(hunt_run(&h, 0x1p-6F), LS_BAD_LOSS, 3, 0);
    tiny_close(&h.t);
}

/* Everything is sound until backward starts with too much. */
static void backward_begins_at_the_head(void **state) {
    (void)state;
    hunt h;
    hunt_open(&h, tiny_llama(), (ls_policy){.act = LS_F16});
    expect_place(hunt_run(&h, 0x1p30F), LS_BAD_BACKWARD, 3, 0);
    tiny_close(&h.t);
}

/* Values of attention so large, and what is made of them so small, that all but the gradient of the second is finite.
 */
static void gradient_names_the_parameter(void **state) {
    (void)state;
    for (int layer = 0; layer < 2; layer++) {
        hunt h;
        char qkv[64], out[64];
        snprintf(qkv, sizeof qkv, "blocks.%d.attn.qkv.weight", layer);
        snprintf(out, sizeof out, "blocks.%d.attn.out.weight", layer);
        hunt_open(&h, tiny_gpt2(), (ls_policy){.act = LS_F32});
        scale_rows(&h, qkv, 24, 36, 1e36F);
        scale_rows(&h, out, 0, 12, 1e-36F);
        assert_true(hunt_run(&h, 0x1p-6F).order < 0);
        ls_bad_place place = hunt_run(&h, 0x1p20F);
        expect_place(place, LS_BAD_GRADIENT, 1 + layer, 0);
        assert_int_equal(place.param, param_named(h.t.model, out)->number);
        tiny_close(&h.t);
    }
}

/* ---- hunting under layouts --------------------------------------------------------------------------------------- */

/* NaN in the last bias of the second transformer block, on every worker that has it. */
static ls_status plant(const play *p, ls_trainer *t) {
    const float nan = NAN;
    (void)p;
    for (int i = 0; i < ls_model_params(t->model); i++) {
        const ls_param *param = ls_model_param(t->model, i);
        if (strcmp(param->name, "blocks.1.mlp.out.bias") == 0)
            LS_TRY(ls_partition_write(t->partition, param, LS_TENSOR_WEIGHT, 4, 1, &nan));
    }
    LS_TRY(ls_partition_settle(t->partition));
    return see_state(t, &p->seen[t->rank]);
}

/* The first worker of the stage that has the block: blocks are embedding, two layers, head. */
static int worker_of_block_2(const layout_case *c) {
    return c->pp == 1 ? 0 : c->tp * c->dp; /* of two stages the second has it, of three the second too */
}

static void all_workers_stop_and_name_the_place(void **state) {
    (void)state;
    ls_shape shape = tiny_gpt2();
    for (int i = 0; i < LAYOUT_CASES; i++) {
        play p = {.settings = tiny_settings(&shape, adamw), .steps = 1, .layout = layout_cases[i], .before = plant};
        p.settings.policy.act = i % 2 ? LS_BF16 : LS_F32;
        p.settings.options.dropout = 0;
        p.seen = seen_open();
        assert_int_equal(play_run(&p), LS_ERR_FAILED);
        const char *said = ls_status_message();
        if (!strstr(said, "step 1: first nan in the forward pass: blocks.1, output, element 4, micro-batch 0"))
            fail_msg("%s", said);
        if (!strstr(said, "; the weights were not changed")) fail_msg("%s", said);
        for (int r = 0; r < play_workers(&p); r++) {
            const run_seen *seen = &p.seen[r];
            assert_int_equal(seen->events, 1);
            const ls_train_event *event = &seen->event[0];
            assert_int_equal(event->kind, LS_EVENT_NON_FINITE);
            assert_int_equal(event->step, 1);
            assert_true(event->recurs);
            assert_string_equal(event->phase, "forward");
            assert_string_equal(event->block, "blocks.1");
            assert_string_equal(event->tensor, "output");
            assert_string_equal(event->value, "nan");
            assert_int_equal(event->index, 4);
            assert_int_equal(event->micro, 0);
            if (event->worker != worker_of_block_2(&p.layout)) fail_msg("%s: worker %d", play_name(&p), event->worker);
        }
        seen_close(p.seen);
    }
}

/* ---- absent groups ----------------------------------------------------------------------------------------------- */

typedef struct part {
    size_t B;
    int G;
    size_t first; /* sequence of the tokens */
    bool absent[4];
} part;

typedef struct gradient {
    ls_loss_sum loss;
    char grads[32][33];
    int params;
} gradient;

static gradient gradient_of(const part *of, size_t micro, ls_policy policy) {
    enum { ALL = 8 };
    ls_shape shape = tiny_gpt2();
    tiny t;
    gradient g = {0};
    int32_t ids[ALL * T], targets[ALL * T];
    ls_partition_setup setup = {.train = true, .leaves = true, .B = of->B, .T = T, .G = of->G, .policy = policy};
    setup.layout.micro = micro;
    tiny_open(&t, &shape, 2, 1, &setup);
    tiny_ids(ids, ALL * T, shape.V, 3);
    tiny_ids(targets, ALL * T, shape.V, 4);
    tiny_tokens tokens = {ids + of->first * T, targets + of->first * T, T};
    ls_partition_feed feed = {.read = tiny_read, .ctx = &tokens};
    ls_partition_leave_out(t.partition, of->absent);
    assert_int_equal(ls_partition_step(t.partition, 0, 0x1p-5F, &feed), LS_OK);
    assert_int_equal(ls_partition_losses(t.partition, &g.loss), LS_OK);
    g.params = ls_model_params(t.model);
    assert_in_range(g.params, 1, 32);
    for (int i = 0; i < g.params; i++)
        assert_int_equal(ls_partition_hash_tensor(t.partition, ls_model_param(t.model, i), LS_TENSOR_GRAD, g.grads[i]),
                         LS_OK);
    tiny_close(&t);
    return g;
}

/* What is left is a subtree of the groups, so the sums are the same ones. */
static void without_a_group_is_the_batch_without_it(void **state) {
    (void)state;
    const struct {
        part whole, rest;
    } pairs[] = {
        {{8, 2, 0, {false, true}}, {4, 1, 0, {false}}},
        {{8, 2, 0, {true, false}}, {4, 1, 4, {false}}},
        {{8, 4, 0, {false, false, true, true}}, {4, 2, 0, {false}}},
        {{8, 4, 0, {true, true, false, true}}, {2, 1, 4, {false}}},
        {{6, 3, 0, {false, false, true}}, {4, 2, 0, {false}}},
    };
    const ls_policy policies[] = {{.act = LS_F32}, {.act = LS_BF16, .reduce = LS_BF16}, {.act = LS_F16}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int p = 0; p < 3; p++)
            for (size_t micro = 1; micro <= 4; micro += 3) {
                gradient whole = gradient_of(&pairs[i].whole, micro, policies[p]);
                gradient rest = gradient_of(&pairs[i].rest, micro, policies[p]);
                assert_memory_equal(&whole.loss, &rest.loss, sizeof whole.loss);
                assert_int_equal(whole.loss.count, pairs[i].rest.B * T);
                for (int k = 0; k < whole.params; k++) assert_string_equal(whole.grads[k], rest.grads[k]);
                part none = pairs[i].whole;
                memset(none.absent, 0, sizeof none.absent);
                gradient all = gradient_of(&none, micro, policies[p]);
                assert_string_not_equal(all.grads[2], whole.grads[2]);
            }
}

/* The loss is the mean over the tokens that are left, and the gradient is scaled by their number: 4 of 5 sequences of
 * two groups, then of one. */
static void scale_is_that_of_the_tokens_left(void **state) {
    (void)state;
    ls_shape shape = tiny_gpt2();
    ls_settings s = tiny_settings(&shape, adamw);
    ls_layout_request request = request_of(&layout_cases[0]);
    ls_trainer *t = NULL;
    fixture f;
    s.options.on_outlier = LS_OUTLIER_WARN;
    s.options.outlier_threshold = 8;
    s.options.clip = 0;
    assert_int_equal(fixture_open(&f, &s), LS_OK);
    assert_int_equal(trainer_open(&f, NULL, &request, &t), LS_OK);
    for (int groups = 0; groups < 16; groups++) {
        /* Groups of 1, 1, 1 and 2 sequences of 9 tokens. */
        int64_t tokens = 0;
        for (int g = 0; g < 4; g++) {
            t->guard.absent[g] = !(groups & 1 << g);
            if (!t->guard.absent[g]) tokens += (g == 3 ? 2 : 1) * 9;
        }
        assert_int_equal(ls_guard_tokens(&t->guard, &s), tokens);
        if (tokens == 0) continue;
        double start = (double)ls_trainer_backward_start(t);
        int log2 = 0;
        while (1 << log2 < tokens) log2++;
        assert_true(start == ldexp(1, -log2));
    }
    ls_trainer_destroy(t);
    fixture_close(&f);
}

static int setup(void **state) {
    if (make_folder(state) != 0) return -1;
    put_tokens(tiny_gpt2().V);
    return 0;
}

int main(void) {
    ls_log_set_level(LS_LOG_ERROR); /* more workers than cores are meant */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_numbers_are_no_find),
        cmocka_unit_test(forward_names_block_and_element),
        cmocka_unit_test(embedding_names_the_sample),
        cmocka_unit_test(loss_comes_after_forward),
        cmocka_unit_test(backward_begins_at_the_head),
        cmocka_unit_test(gradient_names_the_parameter),
        cmocka_unit_test(all_workers_stop_and_name_the_place),
        cmocka_unit_test(without_a_group_is_the_batch_without_it),
        cmocka_unit_test(scale_is_that_of_the_tokens_left),
    };
    return cmocka_run_group_tests(tests, setup, remove_folder);
}
