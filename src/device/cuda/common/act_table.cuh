/* act_table.cuh: tanh of GELU and the sigmoid of SiLU of bf16 numbers from tables in shared memory: what a block looks up it has
 * made before, by the same functions, so the bits are theirs. tests/unit/test_act_table.c has all 65,536 numbers.
 *
 * A table has the numbers whose results follow from nothing simpler; a NaN may have any result, as it comes through beside it. */
#pragma once
#include "device/cuda/args/act.h"
#include "device/cuda/common/act.cuh"
#include "device/cuda/common/pack.cuh"

template <int FN> struct act_table;

/* x < least ? line : made, by a choice: the compiler would rather branch around the access to the table. */
LS_DEVICE float line_if_below(float line, float made, float x, float least) {
#ifdef LS_CUDA_ON_CPU_H
    return x < least ? line : made;
#else
    float y;
    asm("{ .reg .pred p; setp.lt.f32 p, %3, %4; selp.f32 %0, %1, %2, p; }" : "=f"(y) : "f"(line), "f"(made), "f"(x), "f"(least));
    return y;
#endif
}

/* A number of a table whose first is that of FIRST; the last 16 bits of x are zero. */
template <uint32_t FIRST> LS_DEVICE float number_of(const float *table, float x) {
    return *(const float *)((const char *)table + ((int)(__float_as_uint(x) >> 14) - (int)(FIRST >> 14)));
}

/* Of numbers of either sign: below 2^−12 tanh is its argument, whose second term is lost, and nowhere is it more; from 5.1875
 * on it is 1. */
template <> struct act_table<LS_CUDA_GELU> {
    enum : uint32_t { FIRST = 0x39800000u, LAST = 0x40A60000u, COUNT = ((LAST - FIRST) >> 16) + 1 };
    static_assert((int)COUNT <= (int)LS_CUDA_GELU_TABLE, "what there is room for");
    float *at;

    LS_DEVICE void make(int thread, int threads) {
        for (int i = thread; i < (int)COUNT; i += threads) {
            const float x = __uint_as_float(FIRST + ((uint32_t)i << 16));
            at[i] = gelu_tanh(x, x * x);
        }
    }
    LS_DEVICE float tanh_of(float x) const {
        const float size = abs_of(x), near = fminf(fmaxf(size, __uint_as_float(FIRST)), __uint_as_float(LAST));
        const float t = fminf(number_of<FIRST>(at, near), GELU_C0 * size);
        return with_sign(t, x);
    }
    template <int W> LS_DEVICE void look_up(const float (&x)[W], float (&t)[W]) const {
        LS_UNROLL for (int i = 0; i < W; i++) t[i] = tanh_of(x[i]);
    }
    LS_DEVICE static float y(float x, float t) { return gelu_both(x, t).y; }
    LS_DEVICE static float slope(float x, float t) { return gelu_both(x, t).slope; }
};

/* First those above zero, then those below: from 2^−12 to 18, where the sigmoid of the former is 1. Between 2^−17 and
 * 2^−12 it is a line. Of the rest, which is rare, it is computed. */
template <> struct act_table<LS_CUDA_SILU> {
    enum : uint32_t { FIRST = 0x39800000u, LAST = 0x41900000u, HALF = ((LAST - FIRST) >> 16) + 1, COUNT = 2 * HALF };
    static_assert((int)COUNT <= (int)LS_CUDA_SIGMOID_TABLE, "what there is room for");
    float *at;

    LS_DEVICE void make(int thread, int threads) {
        for (int i = thread; i < (int)COUNT; i += threads) {
            const float x = __uint_as_float(FIRST + ((uint32_t)i % HALF << 16));
            at[i] = sigmoid_of(i < (int)HALF ? x : -x);
        }
    }
    template <int W> LS_DEVICE void look_up(const float (&x)[W], float (&s)[W]) const {
        bool are_here = true;
        LS_UNROLL for (int i = 0; i < W; i++) {
            const float size = abs_of(x[i]), near = fminf(fmaxf(size, __uint_as_float(FIRST)), __uint_as_float(LAST));
            const float made = number_of<FIRST>(x[i] < 0.0f ? at + HALF : at, near);
            s[i] = line_if_below(__fmaf_rn(0.25f, x[i], 0.5f), made, size, __uint_as_float(FIRST));
            are_here = are_here & (size >= 0x1p-17f) & (x[i] >= -__uint_as_float(LAST));
        }
        if (are_here) return;
        LS_UNROLL for (int i = 0; i < W; i++) s[i] = sigmoid_of(x[i]);
    }
    LS_DEVICE static float y(float x, float s) { return x * s; }
    LS_DEVICE static float slope(float x, float s) { return silu_slope(x, s); }
};
