/* elems.h: converts elements of files to fp32 and back. Every conversion to fp32 is exact; fp32 is copied bit by bit,
 * and a NaN of a 16-bit format becomes the canonical NaN. Conversions from fp32 round to nearest, ties to even. */
#ifndef LS_INTEROP_ELEMS_H
#define LS_INTEROP_ELEMS_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep.h"

/* Returns whether the type can be converted: LS_F32, LS_BF16 and LS_F16 can. */
bool ls_elems_can(ls_dtype dtype);

/* Converts `elems` elements to fp32. `raw` needs no alignment. It may be the last bytes of the memory of `out`, because
 * each element is read before it is overwritten. The type must be one that ls_elems_can() accepts. */
void ls_elems_to_f32(ls_dtype dtype, const void *raw, size_t elems, float *out);
/* Converts `elems` elements from fp32 to `raw`, which needs no alignment. Returns false if a finite value was too large
 * for the type and became infinite; all elements are written all the same. */
bool ls_elems_from_f32(ls_dtype dtype, const float *values, size_t elems, void *raw);

#endif
