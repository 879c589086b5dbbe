/* shape.c: counting and printing dimensions. */
#include "tensor/shape.h"

#include <stdint.h>
#include <stdio.h>

/* Four numbers of at most 20 digits, three signs of two bytes, and the NUL. */
_Static_assert(LS_SHAPE_TEXT_BYTES >= LS_SHAPE_DIMS_MAX * 22, "a shape's text fits its buffer");

static ls_status too_large(const ls_shape *shape) {
    char text[LS_SHAPE_TEXT_BYTES];
    ls_shape_text(shape, text);
    return ls_fail(LS_ERR_INPUT, "a tensor of %s is larger than this machine can address", text);
}

ls_status ls_shape_elems(const ls_shape *shape, size_t *elems) {
    if (shape->ndim < 0 || shape->ndim > LS_SHAPE_DIMS_MAX)
        return ls_fail(LS_ERR_INPUT, "a tensor of %d dimensions; use 0 to %d", shape->ndim, LS_SHAPE_DIMS_MAX);
    size_t product = 1;
    bool overflow = false, empty = false;
    for (int i = 0; i < shape->ndim; i++) {
        if (shape->dim[i] == 0)
            empty = true;
        else
            overflow |= __builtin_mul_overflow(product, shape->dim[i], &product);
    }
    if (overflow && !empty) return too_large(shape);
    *elems = empty ? 0 : product;
    return LS_OK;
}

ls_status ls_shape_bytes(const ls_shape *shape, ls_dtype dtype, size_t *bytes) {
    size_t elems = 0, product;
    LS_TRY(ls_shape_elems(shape, &elems));
    if (__builtin_mul_overflow(elems, ls_dtype_bytes(dtype), &product)) return too_large(shape);
    *bytes = product;
    return LS_OK;
}

bool ls_shape_equal(const ls_shape *a, const ls_shape *b) {
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++) {
        if (a->dim[i] != b->dim[i]) return false;
    }
    return true;
}

void ls_shape_text(const ls_shape *shape, char out[LS_SHAPE_TEXT_BYTES]) {
    size_t used = (size_t)snprintf(out, LS_SHAPE_TEXT_BYTES, "%s", shape->ndim > 0 ? "" : "scalar");
    for (int i = 0; i < shape->ndim && i < LS_SHAPE_DIMS_MAX; i++) {
        used += (size_t)snprintf(out + used, LS_SHAPE_TEXT_BYTES - used, "%s%zu", i > 0 ? "×" : "", shape->dim[i]);
    }
}
