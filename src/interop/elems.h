/* elems.h: elements of files as fp32 and back. To fp32 every conversion is exact, and fp32 itself is copied bit by bit;
 * a NaN of a 16-bit format becomes the one NaN. From fp32 they round to nearest, ties to even. */
#ifndef LS_INTEROP_ELEMS_H
#define LS_INTEROP_ELEMS_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep.h"

/* LS_F32, LS_BF16 or LS_F16. */
bool ls_elems_can(ls_dtype dtype);

/* `raw` needs no alignment. It may be the end of the memory of `out`: elements are read before they are written over.
 */
void ls_elems_to_f32(ls_dtype dtype, const void *raw, size_t elems, float *out);
/* False when a finite value is too large for the format; it became an infinity. */
bool ls_elems_from_f32(ls_dtype dtype, const float *values, size_t elems, void *raw);

#endif
