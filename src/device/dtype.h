/* dtype.h: names of element types, for messages and metrics. ls_dtype and ls_dtype_bytes() are in lockstep.h. */
#ifndef LS_DEVICE_DTYPE_H
#define LS_DEVICE_DTYPE_H

#include "base/status.h"

/* Returns "f32", "bf16", "f16", "i64" or "u8"; "unknown" for any other number. The string is static. */
const char *ls_dtype_name(ls_dtype dtype);

#endif
