/* tiny_partition.h: models of a few hundred weights, on a CPU device, for tests that run whole stages. */
#ifndef TINY_PARTITION_H
#define TINY_PARTITION_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "base/rng.h"
#include "model/model.h"
#include "model/shape_file.h"
#include "parallel/partition/partition.h"

/* Odd sizes: nothing is a multiple of a vector or a tile. */
static inline ls_shape tiny_gpt2(void) {
    return (ls_shape){.name = "gpt2",
                      .arch = LS_ARCH_GPT2,
                      .V = 23,
                      .C = 12,
                      .L = 2,
                      .H = 3,
                      .T = 10,
                      .kv_heads = 3,
                      .head_size = 4,
                      .hidden = 17,
                      .tied = true,
                      .attention_bias = true,
                      .mlp_bias = true,
                      .eps = 1e-5,
                      .init_std = 0.3};
}

static inline ls_shape tiny_llama(void) {
    return (ls_shape){.name = "llama",
                      .arch = LS_ARCH_LLAMA,
                      .V = 23,
                      .C = 14,
                      .L = 2,
                      .H = 4,
                      .T = 10,
                      .kv_heads = 2,
                      .head_size = 6,
                      .hidden = 15,
                      .eps = 1e-5,
                      .init_std = 0.3,
                      .rope = {.base = 10000}};
}

typedef struct tiny {
    ls_model *model;
    ls_device *device;
    ls_partition *partition;
} tiny;

/* The setup with the layout of one worker, of which `setup` has the micro-batch alone. */
static inline ls_partition_setup tiny_one(const ls_model *model, const ls_partition_setup *setup) {
    ls_partition_setup one = *setup;
    ls_layout_task task = {.model = model, .B = setup->B, .T = setup->T, .G = setup->G};
    one.layout = ls_layout_one(&task, setup->layout.micro);
    return one;
}

static inline void tiny_open(tiny *t, const ls_shape *shape, int slices, int threads, const ls_partition_setup *setup) {
    ls_fpenv_set();
    assert_int_equal(ls_model_create(shape, slices, &t->model), LS_OK);
    assert_int_equal(ls_device_open_cpu(threads, NULL, NULL, &t->device), LS_OK);
    ls_partition_setup one = tiny_one(t->model, setup);
    assert_int_equal(ls_partition_create(t->model, t->device, &one, &t->partition), LS_OK);
    assert_int_equal(ls_partition_init_weights(t->partition, 7), LS_OK);
}

static inline void tiny_close(tiny *t) {
    ls_partition_destroy(t->partition);
    ls_model_destroy(t->model);
    ls_device_destroy(t->device);
}

/* Feeds sequences out of memory. */
typedef struct tiny_tokens {
    const int32_t *ids, *targets; /* [B][T] */
    size_t T;
} tiny_tokens;

static inline ls_status tiny_read(void *ctx, size_t begin, size_t end, int32_t *ids, int32_t *targets) {
    const tiny_tokens *from = ctx;
    size_t count = (end - begin) * from->T;
    memcpy(ids, from->ids + begin * from->T, count * sizeof *ids);
    memcpy(targets, from->targets + begin * from->T, count * sizeof *targets);
    return LS_OK;
}

/* Ids below V, the same on every machine. */
static inline void tiny_ids(int32_t *ids, size_t count, size_t V, uint64_t seed) {
    for (size_t i = 0; i < count; i++) ids[i] = (int32_t)ls_rng_below(ls_rng_key_make(seed, 1, 0), i, V);
}

#endif
