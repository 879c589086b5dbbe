/* staging.c: pieces of 16-bit tensors in and out of fp32 buffers. */
#include "device/cpu/ops/staging.h"

#include "device/dtype.h"

const float *ls_cpu_widen(const ls_kernels *kernels, float *buffer, const void *from, ls_dtype dtype, size_t first,
                          size_t n) {
    if (dtype == LS_F32) return (const float *)from + first;
    const uint16_t *half = (const uint16_t *)from + first;
    if (dtype == LS_BF16)
        kernels->convert.widen_bf16(buffer, half, n);
    else
        kernels->convert.widen_f16(buffer, half, n);
    return buffer;
}

float *ls_cpu_target(float *buffer, void *to, ls_dtype dtype, size_t first) {
    return dtype == LS_F32 ? (float *)to + first : buffer;
}

void ls_cpu_narrow(const ls_kernels *kernels, void *to, ls_dtype dtype, size_t first, const float *from, size_t n) {
    if (dtype == LS_F32) return;
    uint16_t *half = (uint16_t *)to + first;
    if (dtype == LS_BF16)
        kernels->convert.f32_to_bf16(half, from, n);
    else
        kernels->convert.f32_to_f16(half, from, n);
}
