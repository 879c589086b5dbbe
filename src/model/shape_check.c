/* shape_check.c: what can be wrong with a shape.
 *
 * After the check: every size is at least 1 and inside its limit, heads are whole groups of key/value heads, rotated
 * heads have pairs, and the bytes of all parameters fit in a size_t. */
#include <assert.h>

#include "config/value.h"
#include "model/image_blocks.h"
#include "model/shape_file.h"

#define WEIGHT_BYTES_MAX ((size_t)1 << 52)

/* Fails unless the size is between 1 and `most`; `what` names it in the message. */
static ls_status check_size(const ls_shape *shape, const char *what, size_t value, double most) {
    if (value >= 1 && (double)value <= most) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "shape '%s': %s is %zu; it must be between 1 and %.0f", shape->name, what, value,
                   most);
}

/* Checks the range of a number. Its message gives the family's usual value as an example. */
static ls_status check_number(const ls_shape *shape, const ls_field *field) {
    double value = *(const double *)ls_field_of(field, shape);
    bool is_open = field->kind == LS_KIND_FRACTION;
    if (is_open ? value > field->least && value < field->most : value >= field->least && value <= field->most)
        return LS_OK;
    char least[LS_VALUE_REAL_MAX], most[LS_VALUE_REAL_MAX], usual[LS_VALUE_REAL_MAX];
    ls_value_format_real(field->least, least);
    ls_value_format_real(field->most, most);
    ls_value_format_real(*(const double *)ls_field_of(field, &ls_shape_family(shape)->usual), usual);
    return ls_fail(LS_ERR_INPUT,
                   is_open ? "shape '%s': %s is %g; it must be above %s and below %s, e.g. %s"
                           : "shape '%s': %s is %g; it must be between %s and %s, e.g. %s",
                   shape->name, field->key, value, least, most, usual);
}

/* Fails unless every value of the list by layer is 0 or in the field's range. */
static ls_status check_list(const ls_shape *shape, const ls_field *field) {
    const ls_layer_list *list = ls_field_of(field, shape);
    for (size_t i = 0; i < list->count; i++)
        if (list->value[i] != 0 && !(list->value[i] >= field->least && list->value[i] <= field->most))
            return ls_fail(LS_ERR_INPUT, "shape '%s': %s has the value %g; a value must be 0 or between %g and %g",
                           shape->name, field->key, list->value[i], field->least, field->most);
    return LS_OK;
}

/* Checks the range of every size, number, list by layer and hidden layer that the family has. */
static ls_status check_ranges(const ls_shape *shape) {
    for (ls_field_id id = 0; id < LS_FIELD_COUNT; id++) {
        const ls_field *field = &ls_fields[id];
        if (!ls_family_has_field(ls_shape_family(shape), id)) continue;
        if (field->kind == LS_KIND_SIZE)
            LS_TRY(check_size(shape, field->key, *(const size_t *)ls_field_of(field, shape), field->most));
        if (field->kind == LS_KIND_NUMBER || field->kind == LS_KIND_FRACTION) LS_TRY(check_number(shape, field));
        if (field->kind == LS_KIND_LIST) LS_TRY(check_list(shape, field));
        for (size_t i = 0; field->kind == LS_KIND_WIDTHS && i <= shape->L; i++)
            LS_TRY(check_size(shape, "a hidden layer", shape->image.hidden[i], field->most));
    }
    return LS_OK;
}

/* Fails unless heads can be divided among key/value heads and, with rotary positions, have an even size. */
static ls_status check_heads(const ls_shape *shape) {
    if (shape->H % shape->kv_heads != 0)
        return ls_fail(LS_ERR_INPUT,
                       "shape '%s': %zu heads cannot be divided evenly among %zu kv-heads; kv-heads must divide heads",
                       shape->name, shape->H, shape->kv_heads);
    if (!ls_shape_family(shape)->rotary) return LS_OK;
    if (shape->rope_share == 0 && shape->head_size % 2 != 0)
        return ls_fail(LS_ERR_INPUT, "shape '%s': head-size is %zu; rotary embeddings (RoPE) need an even head-size",
                       shape->name, shape->head_size);
    if (ls_shape_rotated(shape) % 2 != 0 || ls_shape_rotated(shape) == 0)
        return ls_fail(
            LS_ERR_INPUT,
            "shape '%s': rope-share %g of a head-size of %zu is %zu columns; rotary embeddings (RoPE) need an "
            "even number of them",
            shape->name, shape->rope_share, shape->head_size, ls_shape_rotated(shape));
    return LS_OK;
}

/* Checks the scaling of rotary frequencies, which only families with rotary positions may have. */
static ls_status check_rope(const ls_shape *shape) {
    const ls_rope_shape *rope = &shape->rope;
    if (!ls_shape_family(shape)->rotary) {
        if (!rope->scaled) return LS_OK;
        return ls_fail(LS_ERR_INPUT,
                       "shape '%s': rope-scaling applies to rotary positions only; %s has learned position embeddings",
                       shape->name, ls_shape_family(shape)->name);
    }
    if (!rope->scaled) return LS_OK;
    if (!(rope->factor >= 1 && rope->factor <= 1e9))
        return ls_fail(LS_ERR_INPUT, "shape '%s': the factor of rope-scaling is %g; it must be between 1 and 1e9",
                       shape->name, rope->factor);
    if (!(rope->low_factor > 0 && rope->low_factor < rope->high_factor && rope->high_factor <= 1e9))
        return ls_fail(
            LS_ERR_INPUT,
            "shape '%s': rope-scaling has low %g and high %g; low must be above 0 and below high, e.g. 1 and 4",
            shape->name, rope->low_factor, rope->high_factor);
    return check_size(shape, "original of rope-scaling", rope->original_T, ls_fields[LS_FIELD_POSITIONS].most);
}

/* Adds count × rows × columns to *elems; returns false if that overflows. */
static bool add_matrix(size_t *elems, size_t count, size_t rows, size_t columns) {
    size_t more;
    return !__builtin_mul_overflow(rows, columns, &more) && !__builtin_mul_overflow(more, count, &more) &&
           !__builtin_add_overflow(*elems, more, elems);
}

/* Fails if the number of parameters overflows, or they would have more than WEIGHT_BYTES_MAX bytes in fp32. Norms and
 * biases of a layer count as six rows of the width. */
static ls_status check_weights(const ls_shape *shape) {
    size_t elems = 0, tables = shape->tied ? 1 : 2;
    bool fits = add_matrix(&elems, tables, shape->V, shape->C) && add_matrix(&elems, 1, shape->T, shape->C) &&
                add_matrix(&elems, shape->L, ls_shape_qkv_width(shape), shape->C + 1) &&
                add_matrix(&elems, shape->L, ls_shape_query_width(shape), shape->C) &&
                add_matrix(&elems, shape->L, ls_shape_mlp_width(shape), shape->C + 1) &&
                add_matrix(&elems, shape->L, shape->hidden, shape->C) && add_matrix(&elems, shape->L + 1, 6, shape->C);
    if (fits && elems <= WEIGHT_BYTES_MAX / sizeof(float)) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "shape '%s': vocab %zu, width %zu, layers %zu, hidden %zu: too many parameters for any machine",
                   shape->name, shape->V, shape->C, shape->L, shape->hidden);
}

/* Fails if ls_image_shape_fill(), which also computes the sizes that follow from the family, fails. */
static ls_status check_image(const ls_shape *shape) {
    ls_shape filled = *shape;
    LS_TRY(ls_image_shape_fill(&filled));
    assert(filled.L == shape->L && filled.C == shape->C && shape->T == 1);
    return LS_OK;
}

ls_status ls_shape_check(const ls_shape *shape) {
    if ((unsigned)shape->arch >= LS_ARCH_COUNT)
        return ls_fail(LS_ERR_INPUT, "shape '%s': unknown architecture number %d", shape->name, (int)shape->arch);
    LS_TRY(check_ranges(shape));
    if (ls_shape_sees_images(shape)) return check_image(shape);
    LS_TRY(check_size(shape, "heads × head-size", shape->H * shape->head_size, ls_fields[LS_FIELD_HEAD_SIZE].most));
    LS_TRY(check_heads(shape));
    LS_TRY(check_rope(shape));
    return check_weights(shape);
}
