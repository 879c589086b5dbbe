/* math.h: elementary functions over arrays of floats.
 *
 * out[i] = f(in[i]); out is in, or does not overlap it. Element i depends on in[i] alone, so threads may split the
 * array anywhere. The formulas and their errors are in docs/arithmetic.md; every NaN that comes out is 0x7FC00000. */
#ifndef LS_DEVICE_CPU_MATH_H
#define LS_DEVICE_CPU_MATH_H

#include <stddef.h>

typedef void (*ls_math_fn)(float *out, const float *in, size_t n);

typedef struct ls_math_kernels {
    ls_math_fn exp;     /* +0 where the result is below 2^-126 */
    ls_math_fn log;     /* NaN below zero, -inf of either zero */
    ls_math_fn tanh;    /* odd, keeps -0 */
    ls_math_fn sigmoid; /* 1 / (1 + e^-x); +0 where e^x is below 2^-126 */
    ls_math_fn erf;     /* odd, keeps -0 */
    ls_math_fn sin;     /* odd, keeps -0; NaN of infinities */
    ls_math_fn cos;     /* NaN of infinities */
    /* in[i]^y for in[i] >= 0, either zero being zero; NaN below zero. x^0 and 1^y are 1, whatever the other is. */
    void (*pow)(float *out, const float *in, float y, size_t n);
} ls_math_kernels;

void ls_math_kernels_fill_portable(ls_math_kernels *table);
void ls_math_kernels_fill_neon(ls_math_kernels *table);
void ls_math_kernels_fill_avx2(ls_math_kernels *table);
void ls_math_kernels_fill_avx512(ls_math_kernels *table);

#endif
