/* shape.c: the tables of families and fields. */
#include "nn/shape.h"

#include <stdint.h>

const ls_family ls_families[LS_ARCH_COUNT] = {
#define LS_FAMILY(ID, NAME, HF, ...) [LS_ARCH_##ID] = {.name = NAME, __VA_ARGS__},
#include "nn/families.def"
};

/* Far above any model, and low enough that a file with absurd numbers cannot make the program allocate without end:
 * each layer costs some kilobytes before the first weight. */
#define LS_LAYERS_MAX (1 << 14)
#define LS_HEADS_MAX (1 << 16)
#define LS_SIDE_MAX (1 << 24) /* of a matrix in a block */
#define LS_POSITIONS_MAX (1 << 30)
#define LS_PIXELS_MAX (1 << 12) /* of a side */

#define ROW(KIND, member, key, models, rule, least, most)                                                              \
    {                                                                                                                  \
        key, LS_KIND_##KIND, offsetof(ls_shape, member), sizeof(((ls_shape *)0)->member), LS_OF_##models,              \
            LS_RULE_##rule, least, most                                                                                \
    }

const ls_field ls_fields[LS_FIELD_COUNT] = {
#define LS_FIELD(ID, KIND, member, ...) [LS_FIELD_##ID] = ROW(KIND, member, __VA_ARGS__),
#define LS_FIELD_OTHER LS_FIELD
#define LS_FIELD_IMAGE(ID, KIND, member, ...) [LS_FIELD_##ID] = ROW(KIND, image.member, __VA_ARGS__),
#define LS_FIELD_ROPE(ID, KIND, member, ...) [LS_FIELD_##ID] = ROW(KIND, rope.member, __VA_ARGS__),
#include "nn/fields.def"
};

const ls_field ls_scaling_fields[LS_SCALING_COUNT] = {
#define LS_SCALING(ID, KIND, member, key) [LS_SCALING_##ID] = ROW(KIND, rope.member, key, ROTARY, USUAL, 0, 0),
#include "nn/fields.def"
};

bool ls_family_has_field(const ls_family *family, ls_field_id id) {
    unsigned models = family->own_fields | (family->sees_images ? LS_OF_IMAGES : LS_OF_TRANSFORMERS);
    if (family->rotary) models |= LS_OF_ROTARY;
    if (family->gated) models |= LS_OF_GATED;
    return (ls_fields[id].models & models) != 0;
}
