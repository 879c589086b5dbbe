/* skip.c: one function per operation, made from LS_OPS. */
#include "device/skip.h"

/* skip_gemm() and so on: do nothing and return LS_OK. */
#define LS_OP_SKIPPED(name, call_type)                                                                                 \
    static ls_status skip_##name(ls_device *device, const call_type *call) {                                           \
        (void)device, (void)call;                                                                                      \
        return LS_OK;                                                                                                  \
    }
LS_OPS(LS_OP_SKIPPED)
#undef LS_OP_SKIPPED

/* Returns 0: the peak is not known. */
static double no_peak(ls_device *device, ls_unit unit) {
    (void)device, (void)unit;
    return 0;
}

const ls_ops ls_ops_skip = {
#define LS_OP_SKIP(name, call_type) .name = skip_##name,
    LS_OPS(LS_OP_SKIP)
#undef LS_OP_SKIP
        .gemm_ends = ls_gemm_ends_never,
    .peak_flops_s = no_peak};
