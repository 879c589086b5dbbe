/* shape.h: the shape of a model: its family and its sizes, everything but the values of its weights.
 *
 * A family (families.def) fixes the kinds of norm, positions and MLP; the other fields, such as tied tables or grouped
 * heads, are free in every family of transformers.
 *
 * An image model treats an image as a sequence of one token: T is 1, V is the number of classes, C is the width in
 * front of the last layer, and the members about heads are 1.
 *
 * ls_shape_check() (model/shape_check.c) names what is wrong with a shape. All other code relies on a checked shape. */
#ifndef LS_NN_SHAPE_H
#define LS_NN_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum ls_arch {
#define LS_FAMILY(ID, ...) LS_ARCH_##ID,
#include "nn/families.def"
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

typedef enum ls_norm_kind {
    LS_NORM_NONE,
    LS_NORM_LAYER,
    LS_NORM_RMS, /* no mean and no bias */
    LS_NORM_BATCH
} ls_norm_kind;

/* The properties in a row of families.def. */
typedef struct ls_family {
    const char *name;
    bool sees_images; /* an image model; else a transformer */
    ls_norm_kind norm;
    bool rotary;      /* positions are rotations of q and k; else a learned table */
    bool gated;       /* the MLP is silu(gate)·up; else GELU */
    bool scaled_out;  /* initial weights of what enters the residual stream are smaller, by the number of additions */
    bool has_dropout; /* --dropout has an effect */
    /* Defaults of a shape file: */
    bool tied;
    bool biases; /* of attention and of the MLP */
    /* Fields of image models that only this family has: */
    bool has_sigmoid, has_small_stem, has_widths;
} ls_family;

extern const ls_family ls_families[LS_ARCH_COUNT];

static inline const ls_family *ls_shape_family(const ls_shape *shape) { return &ls_families[shape->arch]; }
static inline bool ls_shape_sees_images(const ls_shape *shape) { return ls_shape_family(shape)->sees_images; }
static inline bool ls_shape_has_batch_norm(const ls_shape *shape) {
    return ls_shape_family(shape)->norm == LS_NORM_BATCH;
}
static inline bool ls_shape_has_rms_norm(const ls_shape *shape) { return ls_shape_family(shape)->norm == LS_NORM_RMS; }

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
