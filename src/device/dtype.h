/* dtype.h: names of element types. ls_dtype and ls_dtype_bytes() are in lockstep.h. */
#ifndef LS_DEVICE_DTYPE_H
#define LS_DEVICE_DTYPE_H

#include "base/status.h"

/* "f32", "bf16", "f16", "i64", "u8" */
const char *ls_dtype_name(ls_dtype dtype);
ls_status ls_dtype_parse(const char *text, ls_dtype *out);

#endif
