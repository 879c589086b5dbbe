/* math_loops.h: the loops of the elementary functions, written once over sixteen lanes.
 *
 * Included by kernels_loops.h. */
#ifndef LS_DEVICE_CPU_LOOPS_MATH_LOOPS_H
#define LS_DEVICE_CPU_LOOPS_MATH_LOOPS_H

#include "device/cpu/loops/part_loops.h"
#include "device/cpu/simd/math.h"

LSK_LOOP1(lsk_exp, v16_exp)
LSK_LOOP1(lsk_log, v16_log)
LSK_LOOP1(lsk_tanh, v16_tanh)
LSK_LOOP1(lsk_sigmoid, v16_sigmoid)
LSK_LOOP1(lsk_erf, v16_erf)
LSK_LOOP1(lsk_sin, v16_sin)
LSK_LOOP1(lsk_cos, v16_cos)

/* Computes out[i] = in[i]^y. */
static void LSK_NAME(lsk_pow)(float *out, const float *in, float y, size_t n) {
    v16 power = v16_set1(y);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(out + i, v16_pow(v16_load(in + i), power));
    if (i < n) v16_store_n(out + i, v16_pow(v16_load_n(in + i, n - i, 0.0f), power), n - i);
}

static const ls_math_kernels math_kernels = {
    .exp = LSK_NAME(lsk_exp),
    .log = LSK_NAME(lsk_log),
    .tanh = LSK_NAME(lsk_tanh),
    .sigmoid = LSK_NAME(lsk_sigmoid),
    .erf = LSK_NAME(lsk_erf),
    .sin = LSK_NAME(lsk_sin),
    .cos = LSK_NAME(lsk_cos),
    .pow = LSK_NAME(lsk_pow),
};

#endif
