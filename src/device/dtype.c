/* dtype.c: one table of element types. */
#include "device/dtype.h"

#include <assert.h>
#include <string.h>

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

ls_status ls_dtype_parse(const char *text, ls_dtype *out) {
    for (int dtype = 0; dtype < LS_DTYPE_COUNT; dtype++) {
        if (strcmp(text, dtypes[dtype].name) != 0) continue;
        *out = (ls_dtype)dtype;
        return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT, "unknown element type '%s'; use f32, bf16, f16, i64 or u8", text);
}
