/* Blocks that fuse with their neighbours compute the same bits as blocks that do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "optim/clip.h"
#include "tiny_partition.h"

enum { T = 10, B = 4, ELEMS_MAX = 1024 };

typedef struct outcome {
    ls_hash128 grads;
    int fused; /* norms that add a branch to the stream, or round their gradient, on the way */
} outcome;

static int fused;
static const ls_ops *real;

static ls_status counted_norm_forward(ls_device *device, const ls_norm_call *call) {
    fused += call->branch != NULL;
    return real->norm_forward(device, call);
}

static ls_status counted_norm_backward(ls_device *device, const ls_norm_call *call) {
    fused += call->dx_copy != NULL;
    return real->norm_backward(device, call);
}

static ls_hash128 hash_grads(const tiny *t) {
    ls_hash128 hashes[2 * 64];
    float grad[ELEMS_MAX];
    int count = ls_model_params(t->model);
    assert_true(count <= 64);
    for (int i = 0; i < count; i++) {
        const ls_param *param = ls_model_param(t->model, i);
        size_t elems = ls_param_elems(param);
        assert_true(elems <= ELEMS_MAX);
        assert_int_equal(ls_partition_read(t->partition, param, LS_TENSOR_GRAD, 0, elems, grad), LS_OK);
        hashes[i] = ls_hash_f32(grad, elems);
    }
    return ls_hash_combine(hashes, (size_t)count);
}

static outcome run_step(const ls_shape *shape, const ls_partition_setup *setup) {
    int32_t ids[B * T], targets[B * T];
    tiny t;
    assert_int_equal(ls_model_create(shape, 2, &t.model), LS_OK);
    assert_int_equal(ls_device_open_cpu(2, NULL, NULL, &t.device), LS_OK);
    real = t.device->ops;
    ls_ops ops = *real;
    ops.norm_forward = counted_norm_forward;
    ops.norm_backward = counted_norm_backward;
    t.device->ops = &ops;
    ls_partition_setup one = tiny_one(t.model, setup);
    one.layout.recompute = setup->layout.recompute;
    assert_int_equal(ls_partition_create(t.model, t.device, &one, &t.partition), LS_OK);
    assert_int_equal(ls_partition_init_weights(t.partition, 7), LS_OK);
    tiny_ids(ids, B * T, shape->V, 1);
    tiny_ids(targets, B * T, shape->V, 2);
    tiny_tokens tokens = {ids, targets, T};
    ls_partition_feed feed = {.read = tiny_read, .ctx = &tokens};
    fused = 0;
    assert_int_equal(ls_partition_step(t.partition, 0, ls_clip_backward_start(B * T, 0), &feed), LS_OK);
    outcome out = {.grads = hash_grads(&t), .fused = fused};
    t.device->ops = real;
    tiny_close(&t);
    return out;
}

static void compare(const ls_shape *shape, ls_policy policy, int recompute, double dropout) {
    ls_partition_setup setup = {.train = true, .B = B, .T = T, .G = 2, .moments = 2, .layout = {.micro = 1}};
    setup.policy = policy;
    setup.dropout = dropout;
    setup.layout.recompute = recompute;
    outcome with = run_step(shape, &setup);
    setup.unfused = true;
    outcome without = run_step(shape, &setup);
    assert_memory_equal(&with.grads, &without.grads, sizeof with.grads);
    /* Two seams between three blocks, in each of four micro-batches: forward, and backward in 16 bits. */
    assert_int_equal(with.fused - without.fused, ls_policy_is_16(&policy) ? 16 : 8);
}

static void fused_blocks_compute_the_same_bits(void **state) {
    static const ls_policy policies[] = {
        {.act = LS_F32},
        {.act = LS_BF16},
        {.act = LS_F16},
        {.act = LS_BF16, .unit = LS_UNIT_HGMMA},
    };
    static const int recompute[] = {LS_RECOMPUTE_NONE, LS_RECOMPUTE_SELECTIVE, LS_RECOMPUTE_FULL};
    (void)state;
    ls_fpenv_set();
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
        for (int r = 0; r < 3; r++) {
            ls_shape gpt2 = tiny_gpt2(), llama = tiny_llama();
            gpt2.L = llama.L = 3;
            compare(&gpt2, policies[p], recompute[r], 0.1);
            compare(&llama, policies[p], recompute[r], 0);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fused_blocks_compute_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
