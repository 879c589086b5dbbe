/* convert.h: between fp32 and the 16-bit formats; docs/arithmetic.md, "Number formats".
 *
 * To fp32 exact, from fp32 round to nearest even; every NaN becomes the one NaN of the format. Elementwise: threads may
 * split anywhere. The arrays do not overlap. */
#ifndef LS_DEVICE_CPU_CONVERT_H
#define LS_DEVICE_CPU_CONVERT_H

#include <stddef.h>
#include <stdint.h>

typedef struct ls_convert_kernels {
    void (*f32_to_bf16)(uint16_t *out, const float *in, size_t n);
    void (*bf16_to_f32)(float *out, const uint16_t *in, size_t n);
    void (*f32_to_f16)(uint16_t *out, const float *in, size_t n);
    void (*f16_to_f32)(float *out, const uint16_t *in, size_t n);
    /* To fp32 for numbers that are only read by arithmetic: a NaN may keep its payload, which saves half the time. */
    void (*widen_bf16)(float *out, const uint16_t *in, size_t n);
    void (*widen_f16)(float *out, const uint16_t *in, size_t n);
} ls_convert_kernels;

void ls_convert_kernels_fill_portable(ls_convert_kernels *table);
void ls_convert_kernels_fill_neon(ls_convert_kernels *table);
void ls_convert_kernels_fill_avx2(ls_convert_kernels *table);
void ls_convert_kernels_fill_avx512(ls_convert_kernels *table);

#endif
