/* dtype.c: one table of element types. */
#include "device/dtype.h"

#include <assert.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[LS_DTYPE_COUNT] = {
    [LS_F32] = {"f32", 4}, [LS_BF16] = {"bf16", 2}, [LS_F16] = {"f16", 2}, [LS_I64] = {"i64", 8}, [LS_U8] = {"u8", 1},
};

size_t ls_dtype_bytes(ls_dtype dtype) {
    assert((unsigned)dtype < LS_DTYPE_COUNT);
    return dtypes[dtype].bytes;
}

const char *ls_dtype_name(ls_dtype dtype) { return (unsigned)dtype < LS_DTYPE_COUNT ? dtypes[dtype].name : "unknown"; }
