/* Stages in 16 bits: the bytes that they take, and what fp32 weights beside the rounded ones are for. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "numerics/float16.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "tiny_partition.h"

enum { T = 10, B = 4 };

static ls_partition_setup training(size_t batch, size_t micro, int G) {
    return (ls_partition_setup){.train = true, .B = batch, .T = T, .G = G, .moments = 2, .layout = {.micro = micro}};
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* In 16 bits the weights that products read are there twice, activations are at most 0.6 of fp32's, and forward alone
 * keeps nothing else of matrices. */
static void sixteen_bits_take_what_they_promise(void **state) {
    (void)state;
    ls_shape shape;
    ls_model *model = NULL;
    ls_arena wide, narrow, forward;
    assert_int_equal(ls_shape_preset("gpt2-124m", &shape), LS_OK);
    shape.L = 4;
    assert_int_equal(ls_model_create(&shape, 4, &model), LS_OK);
    ls_partition_setup setup = training(2, 1, 2);
    setup.T = 64;
    ls_partition_setup one = tiny_one(model, &setup);
    assert_int_equal(ls_partition_measure(model, &one, &wide), LS_OK);
    one.policy.act = LS_BF16;
    assert_int_equal(ls_partition_measure(model, &one, &narrow), LS_OK);
    one.train = false;
    assert_int_equal(ls_partition_measure(model, &one, &forward), LS_OK);
    size_t matrices = 0, vectors = 0;
    for (int i = 0; i < ls_model_params(model); i++) {
        const ls_param *param = ls_model_param(model, i);
        bool matrix = param->kind == LS_PARAM_MATRIX || param->kind == LS_PARAM_TOKENS;
        *(matrix ? &matrices : &vectors) += ls_param_elems(param);
    }
    assert_int_equal(ls_arena_kind_bytes(&wide, "parameters"), 4 * (matrices + vectors));
    assert_int_equal(ls_arena_kind_bytes(&wide, "16-bit parameters"), 0);
    assert_int_equal(ls_arena_kind_bytes(&narrow, "parameters"), 4 * (matrices + vectors));
    assert_int_equal(ls_arena_kind_bytes(&narrow, "16-bit parameters"), 2 * matrices);
    assert_int_equal(ls_arena_kind_bytes(&forward, "parameters"), 4 * vectors);
    assert_int_equal(ls_arena_kind_bytes(&forward, "16-bit parameters"), 2 * matrices);
    double kept = (double)ls_arena_kind_bytes(&narrow, "activations");
    assert_true(kept <= 0.6 * (double)ls_arena_kind_bytes(&wide, "activations"));
    ls_model_destroy(model);
}

/* ---- master weights ---------------------------------------------------------------------------------------------- */

static void run_step(tiny *t, const ls_shape *shape) {
    int32_t ids[B * T], targets[B * T];
    tiny_ids(ids, B * T, shape->V, 1);
    tiny_ids(targets, B * T, shape->V, 2);
    tiny_tokens tokens = {ids, targets, T};
    ls_partition_feed feed = {.read = tiny_read, .ctx = &tokens};
    assert_int_equal(ls_partition_step(t->partition, 0, ls_clip_backward_start(B * T, 0), &feed), LS_OK);
}

/* After one update of about `lr`: how many weights of the first matrix changed. The 16-bit copies are the weights,
 * rounded. */
static size_t changed_weights(ls_policy policy, double lr, size_t *elems) {
    ls_optimizer adamw = {.kind = LS_OPTIMIZER_ADAMW, .adamw = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8}};
    ls_shape shape = tiny_gpt2();
    ls_partition_setup setup = training(B, 2, 2);
    ls_adamw_powers powers = {0};
    float before[512], after[512];
    size_t changed = 0;
    tiny t;
    setup.policy = policy;
    tiny_open(&t, &shape, 1, 1, &setup);
    const ls_param *param = ls_block_param(&t.model->blocks[1], LS_ROLE_QKV);
    *elems = ls_param_elems(param);
    assert_true(param->kind == LS_PARAM_MATRIX && *elems <= 512);
    assert_int_equal(ls_partition_read(t.partition, param, LS_TENSOR_WEIGHT, 0, *elems, before), LS_OK);
    run_step(&t, &shape);
    ls_adamw_powers_move(&powers, &adamw.adamw, 1);
    ls_optimizer_update update = ls_optimizer_update_at(&adamw, &powers, lr, 1);
    assert_int_equal(ls_optimizer_step(&update, t.device, &policy, t.model), LS_OK);
    assert_int_equal(ls_partition_read(t.partition, param, LS_TENSOR_WEIGHT, 0, *elems, after), LS_OK);
    for (size_t i = 0; i < *elems; i++) {
        float update_made = after[i] - before[i];
        changed += update_made != 0;
        if (update_made != 0 && !policy.no_master) assert_true(fabs(fabs((double)update_made) - lr) < 0.05 * lr);
        assert_int_equal(param->w16[i], policy.act == LS_BF16 ? ls_bf16_from_f32(after[i]) : ls_f16_from_f32(after[i]));
    }
    tiny_close(&t);
    return changed;
}

/* Weights are near 0.3, where steps of bf16 are 2^-9 wide and those of fp16 2^-12. */
static void master_weights_keep_small_updates(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        ls_policy policy = {.act = i ? LS_F16 : LS_BF16};
        size_t elems;
        assert_true(changed_weights(policy, 2e-5, &elems) > elems - elems / 10);
        policy.no_master = true;
        assert_true(changed_weights(policy, 2e-5, &elems) < elems / 4);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_bits_take_what_they_promise),
        cmocka_unit_test(master_weights_keep_small_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
