/* shape.h: the shape of a model: its family (architecture) and its sizes, everything but the values of its weights. All
 * code about models reads it; presets and shape files (model/shape_file.h) make it.
 *
 * A family (families.def) fixes the kinds of norm, positions and MLP. The fields (fields.def), such as tied tables or
 * grouped heads, are free in every family that has them.
 *
 * An image model treats an image as a sequence of one token: T is 1, V is the number of classes, C is the width in
 * front of the last layer, and the members about heads are 1.
 *
 * ls_shape_check() (model/shape_check.c) names what is wrong with a shape. All other code relies on a checked shape. */
#ifndef LS_NN_SHAPE_H
#define LS_NN_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

/* The families, by row of families.def. */
typedef enum ls_arch {
#define LS_FAMILY(ID, ...) LS_ARCH_##ID,
#include "nn/families.def"
    LS_ARCH_COUNT
} ls_arch;

enum { LS_SHAPE_NAME_MAX = 64, LS_SHAPE_LAYERS_MAX = 32, LS_SHAPE_LIST_MAX = 16 };

/* ---- the struct, from the table of fields ------------------------------------------------------------------------ */

typedef size_t ls_field_c_SIZE;
typedef double ls_field_c_NUMBER;
typedef double ls_field_c_FRACTION; /* least and most do not belong to the range */
typedef bool ls_field_c_TRUTH;
/* Values by layer: layer i has value[i % count]. Empty: all layers have the value of another field. */
typedef struct ls_layer_list {
    size_t count;
    double value[LS_SHAPE_LIST_MAX]; /* 0 behind the last */
} ls_layer_list;
typedef ls_layer_list ls_field_c_LIST;

/* Rotary frequencies are 1 / base^(2i/d). Where they are scaled, those whose wave is longer than the original context
 * are divided by `factor`, with a smooth passage between the two wave lengths that low and high name (Llama 3.1). */
typedef struct ls_rope_shape {
    bool scaled;
#define LS_FIELD_ROPE(ID, KIND, member, ...) ls_field_c_##KIND member;
#define LS_SCALING(ID, KIND, member, ...) ls_field_c_##KIND member;
#include "nn/fields.def"
} ls_rope_shape;

typedef struct ls_image_shape {
#define LS_FIELD_IMAGE(ID, KIND, member, ...) ls_field_c_##KIND member;
#include "nn/fields.def"
    size_t hidden[LS_SHAPE_LAYERS_MAX]; /* MLP: widths of its L + 1 hidden layers */
} ls_image_shape;

/* A shape. Its members come from fields.def: V vocabulary, C width, L layers, H query heads, T positions, ... */
typedef struct ls_shape {
    char name[LS_SHAPE_NAME_MAX];
    ls_arch arch;
#define LS_FIELD(ID, KIND, member, ...) ls_field_c_##KIND member;
#include "nn/fields.def"
    ls_rope_shape rope;
    ls_image_shape image;
    /* Of the matrix unit that trains the model, not of the model (ls_model_suit_unit): slices of the vocabulary end at
     * multiples of it. 0: anywhere. */
    size_t vocabulary_grain;
} ls_shape;

/* ---- the rows of the tables -------------------------------------------------------------------------------------- */

typedef enum ls_field_id {
#define LS_FIELD(ID, ...) LS_FIELD_##ID,
#define LS_FIELD_ROPE LS_FIELD
#define LS_FIELD_IMAGE LS_FIELD
#define LS_FIELD_OTHER LS_FIELD
#include "nn/fields.def"
    LS_FIELD_COUNT
} ls_field_id;

typedef enum ls_scaling_id {
#define LS_SCALING(ID, ...) LS_SCALING_##ID,
#include "nn/fields.def"
    LS_SCALING_COUNT
} ls_scaling_id;

/* The type of a field. */
typedef enum ls_field_kind {
    LS_KIND_SIZE,
    LS_KIND_NUMBER,
    LS_KIND_FRACTION,
    LS_KIND_TRUTH,
    LS_KIND_LIST,   /* "10000,500000" */
    LS_KIND_WIDTHS, /* "300,100" */
    LS_KIND_SCALING /* an object of the LS_SCALING rows */
} ls_field_kind;

/* What a shape file without the field means (fields.def). */
typedef enum ls_field_rule { LS_RULE_NEEDED, LS_RULE_DERIVED, LS_RULE_USUAL, LS_RULE_ABSENT } ls_field_rule;

/* Models that have a field, a bit each. */
enum {
    LS_OF_TRANSFORMERS = 1,
    LS_OF_ROTARY = 2,
    LS_OF_IMAGES = 4,
    LS_OF_LENET = 8,
    LS_OF_RESNET18 = 16,
    LS_OF_MLP = 32,
    LS_OF_GATED = 64,
    LS_OF_ALL = LS_OF_TRANSFORMERS | LS_OF_IMAGES
};

/* A row of fields.def: a field of shapes, where it is in the struct, and its range. Files and messages are read and
 * written by it. */
typedef struct ls_field {
    const char *key;
    ls_field_kind kind;
    size_t offset; /* of the member in ls_shape */
    size_t bytes;
    unsigned models; /* LS_OF_* */
    ls_field_rule rule;
    double least, most;
} ls_field;

extern const ls_field ls_fields[LS_FIELD_COUNT], ls_scaling_fields[LS_SCALING_COUNT];

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
    bool gated;       /* the MLP is silu(gate)·up, or gelu(gate)·up; else GELU */
    bool scaled_out;  /* initial weights of what enters the residual stream are smaller, by the number of additions */
    bool has_dropout; /* --dropout has an effect */
    unsigned own_fields; /* LS_OF_* of this family alone */
    ls_shape usual;      /* without name and arch */
} ls_family;

extern const ls_family ls_families[LS_ARCH_COUNT];

/* Returns the properties of the shape's family; static. */
static inline const ls_family *ls_shape_family(const ls_shape *shape) { return &ls_families[shape->arch]; }
/* Returns whether the shape is that of an image model; otherwise it is a transformer. */
static inline bool ls_shape_sees_images(const ls_shape *shape) { return ls_shape_family(shape)->sees_images; }
/* Returns whether the family uses batch norm. */
static inline bool ls_shape_has_batch_norm(const ls_shape *shape) {
    return ls_shape_family(shape)->norm == LS_NORM_BATCH;
}
/* Returns whether the family uses RMS norms, which have no bias. */
static inline bool ls_shape_has_rms_norm(const ls_shape *shape) { return ls_shape_family(shape)->norm == LS_NORM_RMS; }

/* What may differ between the layers of a transformer. */
typedef struct ls_layer_values {
    bool rotates; /* q and k; false for a family without rotary positions, and where rope_bases has 0 for the layer */
    ls_rope_shape rope;
} ls_layer_values;

/* Returns what may differ between layers, for transformer layer `layer`, counted from 0. */
static inline ls_layer_values ls_layer(const ls_shape *shape, size_t layer) {
    const ls_layer_list *bases = &shape->rope_bases;
    ls_layer_values out = {.rotates = ls_shape_family(shape)->rotary, .rope = shape->rope};
    if (bases->count > 0) out.rope.base = bases->value[layer % bases->count];
    out.rotates = out.rotates && out.rope.base > 0;
    return out;
}

/* Returns the columns of a head that are rotated: all (rope_share 0), or the first ones, that share rounded down. */
static inline size_t ls_shape_rotated(const ls_shape *shape) {
    if (shape->rope_share == 0) return shape->head_size;
    return (size_t)((double)shape->head_size * shape->rope_share);
}

/* Returns how many tables of rotations a model needs (0: it does not rotate); layer i uses table i % tables. */
static inline size_t ls_shape_rope_tables(const ls_shape *shape) {
    if (!ls_shape_family(shape)->rotary) return 0;
    return shape->rope_bases.count > 0 ? shape->rope_bases.count : 1;
}

/* Returns whether models of the family have the field. */
bool ls_family_has_field(const ls_family *family, ls_field_id id);
/* Returns the address of a field in a shape, to write; its type is that of field->kind. */
static inline void *ls_field_in(const ls_field *field, ls_shape *shape) { return (char *)shape + field->offset; }
/* Returns the address of a field in a shape, to read. */
static inline const void *ls_field_of(const ls_field *field, const ls_shape *shape) {
    return (const char *)shape + field->offset;
}

/* Returns the columns of all q heads. */
static inline size_t ls_shape_query_width(const ls_shape *shape) { return shape->H * shape->head_size; }
/* Returns the columns of all k heads; v heads have as many. */
static inline size_t ls_shape_key_width(const ls_shape *shape) { return shape->kv_heads * shape->head_size; }
/* Returns the columns of q, k and v together. */
static inline size_t ls_shape_qkv_width(const ls_shape *shape) {
    return ls_shape_query_width(shape) + 2 * ls_shape_key_width(shape);
}
/* Returns the columns of the first projection of the MLP: gate and up, or up alone. */
static inline size_t ls_shape_mlp_width(const ls_shape *shape) {
    return ls_shape_family(shape)->gated ? 2 * shape->hidden : shape->hidden;
}

/* Returns the elements of the matrices of a transformer layer: to q, k, v, from the heads, and those of the MLP. The
 * list of blocks has the same (tests/unit/test_shape.c), but the planner asks too often to build a list. `query` and
 * `key`: columns of all q heads, of all k heads. */
static inline double ls_layer_matrix_elems(double width, double query, double key, double hidden, bool is_gated) {
    return width * (query + 2 * key) + query * width + width * hidden * (is_gated ? 3 : 2);
}
/* Returns the elements of the matrices of one transformer layer of this shape. */
static inline double ls_shape_layer_matrix_elems(const ls_shape *shape) {
    return ls_layer_matrix_elems((double)shape->C, (double)ls_shape_query_width(shape),
                                 (double)ls_shape_key_width(shape), (double)shape->hidden,
                                 ls_shape_family(shape)->gated);
}

/* Returns the elements of the norms of q and k in a layer. */
static inline double ls_shape_qk_norm_elems(const ls_shape *shape) {
    return shape->qk_norm ? 2 * (double)shape->head_size : 0;
}

/* Returns the first unit of slice i, if `slices` slices share the units as evenly as possible. Slice i ends where
 * slice i + 1 begins (rule 2 of docs/reference/arithmetic.md). */
static inline size_t ls_slice_begin(size_t units, int slices, int i) {
    size_t count = (size_t)slices, k = (size_t)i; /* ⌊k·units / count⌋ without a product that could overflow */
    return units / count * k + units % count * k / count;
}

/* Returns the first unit of slice i as ls_slice_begin() does, but at a multiple of `grain` (or at `units`, the end) if
 * the units have at least one whole grain for every slice. Grain 0 or 1: no multiples. */
static inline size_t ls_slice_begin_at(size_t units, size_t grain, int slices, int i) {
    if (grain <= 1 || units / grain < (size_t)slices) return ls_slice_begin(units, slices, i);
    size_t begin = ls_slice_begin((units + grain - 1) / grain, slices, i) * grain;
    return begin < units ? begin : units;
}

/* Returns the first row of the token table that belongs to slice i of `slices`; i = slices gives the size of the
 * vocabulary. */
static inline size_t ls_shape_first_id(const ls_shape *shape, int slices, int i) {
    return ls_slice_begin_at(shape->V, shape->vocabulary_grain, slices, i);
}

#endif
