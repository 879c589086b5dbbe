/* shape.h: the dimensions of a tensor, outermost first. Without dimensions it is a scalar of one element; a dimension
 * may be 0. A plain value: copy it freely. */
#ifndef LS_TENSOR_SHAPE_H
#define LS_TENSOR_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { LS_SHAPE_DIMS_MAX = 4, LS_SHAPE_TEXT_BYTES = 96 };

typedef struct ls_shape {
    int ndim;
    size_t dim[LS_SHAPE_DIMS_MAX];
} ls_shape;

/* LS_ERR_INPUT when the number does not fit a size_t, or ndim is out of range. */
ls_status ls_shape_elems(const ls_shape *shape, size_t *elems);
ls_status ls_shape_bytes(const ls_shape *shape, ls_dtype dtype, size_t *bytes);
bool ls_shape_equal(const ls_shape *a, const ls_shape *b);
/* "2×3×4", or "scalar" */
void ls_shape_text(const ls_shape *shape, char out[LS_SHAPE_TEXT_BYTES]);

#endif
