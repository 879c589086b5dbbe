/* convert.c: conversions between number formats: over flat arrays, split by elements. */
#include <string.h>

#include "device/cpu/ops/staging.h"

#include "device/dtype.h"

/* Converts elements begin … end−1. */
static void convert_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_convert_call *c = args;
    const ls_convert_kernels *k = &kernels->convert;
    if (c->from == LS_F32)
        (c->to == LS_BF16 ? k->f32_to_bf16 : k->f32_to_f16)((uint16_t *)c->out + begin, (const float *)c->in + begin,
                                                            end - begin);
    else
        (c->from == LS_BF16 ? k->bf16_to_f32 : k->f16_to_f32)((float *)c->out + begin, (const uint16_t *)c->in + begin,
                                                              end - begin);
}

/* Returns whether the type is bf16 or fp16. */
static bool is_half(ls_dtype dtype) { return dtype == LS_BF16 || dtype == LS_F16; }

/* Converts between fp32 and a 16-bit type, rounding to nearest even; LS_ERR_INPUT for any other pair of types. */
ls_status ls_cpu_op_convert(ls_device *device, const ls_convert_call *call) {
    if (!(call->from == LS_F32 && is_half(call->to)) && !(is_half(call->from) && call->to == LS_F32))
        return ls_fail(LS_ERR_INPUT, "cannot convert from %s to %s; one must be f32, the other bf16 or f16",
                       ls_dtype_name(call->from), ls_dtype_name(call->to));
    return ls_cpu_run(device, call->n, LS_CPU_GRAIN, convert_range, call);
}

/* Rounds elements begin … end−1 to 16 bits and widens them again. */
static void round_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_round_call *c = args;
    uint16_t rounded[LS_CPU_STAGING];
    for (size_t i = begin, n; i < end; i += n) {
        n = ls_cpu_piece(c->to, end - i);
        ls_cpu_narrow(kernels, rounded, c->to, 0, c->x + i, n);
        ls_cpu_widen(kernels, c->y + i, rounded, c->to, 0, n);
    }
}

/* Computes y = x rounded to a 16-bit type, kept in fp32. */
ls_status ls_cpu_op_round(ls_device *device, const ls_round_call *call) {
    LS_TRY(ls_check_half("rounding", call->to));
    return ls_cpu_run(device, call->n, LS_CPU_GRAIN, round_range, call);
}

/* Copies rows begin … end−1. */
static void copy_range(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    (void)kernels;
    const ls_copy_rows_call *c = args;
    for (size_t r = begin; r < end; r++)
        memcpy((char *)c->to + r * c->to_stride, (const char *)c->from + r * c->from_stride, c->bytes);
}

/* Copies rows of `bytes` bytes whose strides are in bytes. */
ls_status ls_cpu_op_copy_rows(ls_device *device, const ls_copy_rows_call *call) {
    if (call->bytes == 0) return LS_OK;
    return ls_cpu_run(device, call->rows, ls_cpu_row_grain(call->bytes / sizeof(float)), copy_range, call);
}
