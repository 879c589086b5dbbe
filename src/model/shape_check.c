/* shape_check.c: what can be wrong with a shape.
 *
 * After the check: every size is at least 1 and inside its limit, heads are whole groups of key/value heads, rotated
 * heads have pairs, and the bytes of all parameters fit in a size_t. */
#include <assert.h>
#include <math.h>
#include <stdint.h>

#include "model/image_blocks.h"
#include "model/shape_file.h"

/* Far above any model, and low enough that a file that lies cannot make the program allocate without end: each layer
 * costs some kilobytes before the first weight. */
#define LAYERS_MAX ((size_t)1 << 14)
#define HEADS_MAX ((size_t)1 << 16)
#define SIDE_MAX ((size_t)1 << 24)      /* of a matrix in a block */
#define POSITIONS_MAX ((size_t)1 << 30) /* of a sequence */
#define IDS_MAX ((size_t)INT32_MAX)     /* ids are int32 */
#define CLASSES_MAX ((size_t)1 << 20)
#define PIXELS_MAX ((size_t)1 << 12) /* of a side */
#define WEIGHT_BYTES_MAX ((size_t)1 << 52)

static ls_status check_size(const ls_shape *shape, const char *what, size_t value, size_t max) {
    if (value >= 1 && value <= max) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "shape '%s': %s is %zu; it must be between 1 and %zu", shape->name, what, value, max);
}

static ls_status check_sizes(const ls_shape *shape) {
    LS_TRY(check_size(shape, "vocab", shape->V, IDS_MAX));
    LS_TRY(check_size(shape, "width", shape->C, SIDE_MAX));
    LS_TRY(check_size(shape, "layers", shape->L, LAYERS_MAX));
    LS_TRY(check_size(shape, "heads", shape->H, HEADS_MAX));
    LS_TRY(check_size(shape, "kv-heads", shape->kv_heads, HEADS_MAX));
    LS_TRY(check_size(shape, "head-size", shape->head_size, SIDE_MAX));
    LS_TRY(check_size(shape, "hidden", shape->hidden, SIDE_MAX));
    LS_TRY(check_size(shape, "positions", shape->T, POSITIONS_MAX));
    return check_size(shape, "heads × head-size", shape->H * shape->head_size, SIDE_MAX);
}

static ls_status check_heads(const ls_shape *shape) {
    if (shape->H % shape->kv_heads != 0)
        return ls_fail(LS_ERR_INPUT,
                       "shape '%s': %zu heads cannot be divided evenly among %zu kv-heads; kv-heads must divide heads",
                       shape->name, shape->H, shape->kv_heads);
    if (ls_shape_family(shape)->rotary && shape->head_size % 2 != 0)
        return ls_fail(LS_ERR_INPUT, "shape '%s': head-size is %zu; rotary embeddings (RoPE) need an even head-size",
                       shape->name, shape->head_size);
    return LS_OK;
}

static ls_status check_numbers(const ls_shape *shape) {
    if (!(shape->eps > 0 && shape->eps < 1))
        return ls_fail(LS_ERR_INPUT, "shape '%s': eps is %g; it must be above 0 and below 1, e.g. 1e-5", shape->name,
                       shape->eps);
    if (!(shape->init_std >= 0 && shape->init_std <= 100))
        return ls_fail(LS_ERR_INPUT, "shape '%s': init-std is %g; it must be between 0 and 100, e.g. 0.02", shape->name,
                       shape->init_std);
    return LS_OK;
}

static ls_status check_rope(const ls_shape *shape) {
    const ls_rope_shape *rope = &shape->rope;
    if (!ls_shape_family(shape)->rotary) {
        if (!rope->scaled) return LS_OK;
        return ls_fail(LS_ERR_INPUT,
                       "shape '%s': rope-scaling applies to rotary positions only; %s has learned position embeddings",
                       shape->name, ls_shape_family(shape)->name);
    }
    if (!(rope->base >= 1 && rope->base <= 1e15))
        return ls_fail(LS_ERR_INPUT, "shape '%s': rope-base is %g; it must be between 1 and 1e15, e.g. 10000",
                       shape->name, rope->base);
    if (!rope->scaled) return LS_OK;
    if (!(rope->factor >= 1 && rope->factor <= 1e9))
        return ls_fail(LS_ERR_INPUT, "shape '%s': the factor of rope-scaling is %g; it must be between 1 and 1e9",
                       shape->name, rope->factor);
    if (!(rope->low_factor > 0 && rope->low_factor < rope->high_factor && rope->high_factor <= 1e9))
        return ls_fail(
            LS_ERR_INPUT,
            "shape '%s': rope-scaling has low %g and high %g; low must be above 0 and below high, e.g. 1 and 4",
            shape->name, rope->low_factor, rope->high_factor);
    return check_size(shape, "original of rope-scaling", rope->original_T, POSITIONS_MAX);
}

/* Adds rows × columns to *elems; false when that is too many. */
static bool add_matrix(size_t *elems, size_t count, size_t rows, size_t columns) {
    size_t more;
    return !__builtin_mul_overflow(rows, columns, &more) && !__builtin_mul_overflow(more, count, &more) &&
           !__builtin_add_overflow(*elems, more, elems);
}

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

static ls_status check_image(const ls_shape *shape) {
    const ls_image_shape *image = &shape->image;
    ls_shape filled = *shape;
    LS_TRY(check_size(shape, "classes", shape->V, CLASSES_MAX));
    LS_TRY(check_size(shape, "channels", image->channels, PIXELS_MAX));
    LS_TRY(check_size(shape, "image-height", image->height, PIXELS_MAX));
    LS_TRY(check_size(shape, "image-width", image->width, PIXELS_MAX));
    for (size_t i = 0; i <= shape->L && ls_shape_family(shape)->has_widths; i++)
        LS_TRY(check_size(shape, "a hidden layer", image->hidden[i], SIDE_MAX));
    LS_TRY(check_numbers(shape));
    LS_TRY(ls_image_shape_fill(&filled));
    assert(filled.L == shape->L && filled.C == shape->C && shape->T == 1);
    return LS_OK;
}

ls_status ls_shape_check(const ls_shape *shape) {
    if ((unsigned)shape->arch >= LS_ARCH_COUNT)
        return ls_fail(LS_ERR_INPUT, "shape '%s': unknown architecture number %d", shape->name, (int)shape->arch);
    if (ls_shape_sees_images(shape)) return check_image(shape);
    LS_TRY(check_sizes(shape));
    LS_TRY(check_heads(shape));
    LS_TRY(check_numbers(shape));
    LS_TRY(check_rope(shape));
    return check_weights(shape);
}
