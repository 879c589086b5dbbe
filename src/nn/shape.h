/* shape.h: the numbers that make a model: what is trained, apart from the values of its weights.
 *
 * Transformers: GPT-2 has learned positions, layer norms, biases and GELU; Llama has rotary positions, RMS norms and a
 * gated MLP. Everything else, like tied tables or grouped heads, is free in both.
 *
 * Image models: LeNet-5, ResNet-18 and plain layers. Such a model sees an image as a sequence of one token: T is 1,
 * V the number of classes, C the width in front of the last layer, and the members of heads are 1. ls_shape_check()
 * (model/shape_check.c) says what is wrong with a shape; all other code may rely on a checked one. */
#ifndef LS_NN_SHAPE_H
#define LS_NN_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum ls_arch {
    LS_ARCH_GPT2,
    LS_ARCH_LLAMA,
    LS_ARCH_LENET,
    LS_ARCH_RESNET18,
    LS_ARCH_MLP,
    LS_ARCH_COUNT
} ls_arch;

/* Rotary frequencies 1 / base^(2i/d); scaled: those whose wave is longer than the original context are divided by
 * `factor`, with a smooth passage between the two wave lengths that low and high name (Llama 3.1). */
typedef struct ls_rope_shape {
    double base;
    bool scaled;
    double factor, low_factor, high_factor;
    size_t original_T;
} ls_rope_shape;

enum { LS_SHAPE_NAME_MAX = 64, LS_SHAPE_LAYERS_MAX = 32 };

/* Of image models. */
typedef struct ls_image_shape {
    size_t channels, height, width;
    bool sigmoid;                       /* LeNet: sigmoids and means, as in 1998, instead of ReLU and maxima */
    bool small;                         /* ResNet: the stem for small images, 3 × 3 without pooling */
    size_t hidden[LS_SHAPE_LAYERS_MAX]; /* MLP: widths of its L + 1 hidden layers */
} ls_image_shape;

typedef struct ls_shape {
    char name[LS_SHAPE_NAME_MAX];
    ls_arch arch;
    size_t V, C, L, H;
    size_t T; /* positions: the longest sequence */
    size_t kv_heads, head_size;
    size_t hidden;        /* of the MLP */
    bool tied;            /* the head uses the token table */
    bool attention_bias;  /* in the projections to q, k, v and from the heads */
    bool mlp_bias;        /* in the projections of the MLP */
    double eps;           /* of the norms */
    double init_std;      /* of the initial weights */
    ls_rope_shape rope;   /* Llama alone */
    ls_image_shape image; /* image models alone */
    /* Not of the model but of the matrix unit it is trained with (ls_model_suit_unit): slices of the vocabulary end at
     * multiples of it; 0: anywhere. */
    size_t vocabulary_grain;
} ls_shape;

static inline bool ls_shape_sees_images(const ls_shape *shape) { return shape->arch >= LS_ARCH_LENET; }
static inline bool ls_shape_has_batch_norm(const ls_shape *shape) { return shape->arch == LS_ARCH_RESNET18; }
/* As files call it: "gpt2". */
static inline const char *ls_shape_arch_name(ls_arch arch) {
    static const char *const names[LS_ARCH_COUNT] = {"gpt2", "llama", "lenet", "resnet18", "mlp"};
    return names[arch];
}
static inline bool ls_shape_is_llama(const ls_shape *shape) { return shape->arch == LS_ARCH_LLAMA; }

/* What the blocks of a family of transformers are made of; what else they differ in is in the shape. */
typedef struct ls_family {
    bool rms_norm;   /* norms have no bias and no mean; else layer norm */
    bool rotary;     /* positions are rotations of q and k; else a learned table */
    bool gated;      /* the MLP is silu(gate)·up; else GELU */
    bool scaled_out; /* initial weights of what enters the residual stream are smaller, by the number of additions */
} ls_family;

static inline const ls_family *ls_shape_family(const ls_shape *shape) {
    static const ls_family families[LS_ARCH_COUNT] = {
        [LS_ARCH_GPT2] = {.scaled_out = true},
        [LS_ARCH_LLAMA] = {.rms_norm = true, .rotary = true, .gated = true},
    };
    return &families[shape->arch];
}

/* Columns of the q heads, and of the k heads (as many as of the v heads). */
static inline size_t ls_shape_query_width(const ls_shape *shape) { return shape->H * shape->head_size; }
static inline size_t ls_shape_key_width(const ls_shape *shape) { return shape->kv_heads * shape->head_size; }
static inline size_t ls_shape_qkv_width(const ls_shape *shape) {
    return ls_shape_query_width(shape) + 2 * ls_shape_key_width(shape);
}
/* Columns of the first projection of the MLP: gate and up, or up alone. */
static inline size_t ls_shape_mlp_width(const ls_shape *shape) {
    return ls_shape_family(shape)->gated ? 2 * shape->hidden : shape->hidden;
}

/* First of the units of slice i, of n units in `slices` slices; slice i ends where slice i + 1 begins (rule 2). */
static inline size_t ls_slice_begin(size_t units, int slices, int i) {
    size_t count = (size_t)slices, k = (size_t)i; /* ⌊k·units / count⌋ without a product that could overflow */
    return units / count * k + units % count * k / count;
}

/* The same at multiples of `grain`, where every slice gets one. */
static inline size_t ls_slice_begin_at(size_t units, size_t grain, int slices, int i) {
    if (grain <= 1 || units / grain < (size_t)slices) return ls_slice_begin(units, slices, i);
    size_t begin = ls_slice_begin((units + grain - 1) / grain, slices, i) * grain;
    return begin < units ? begin : units;
}

static inline size_t ls_shape_first_id(const ls_shape *shape, int slices, int i) {
    return ls_slice_begin_at(shape->V, shape->vocabulary_grain, slices, i);
}

#endif
