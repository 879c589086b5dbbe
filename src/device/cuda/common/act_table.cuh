/* act_table.cuh: tanh of GELU and the sigmoid of SiLU of bf16 numbers, from tables in shared memory, for act.cu and hgmma_act.cu. Each
 * block fills its table by the functions of act.cuh, so the bits are theirs; tests/unit/test_act_table.c compares all 65,536 numbers.
 *
 * A table has the range in which no simpler formula gives the bits. The result for a NaN is undefined: the caller's other factor
 * passes it on. */
#pragma once
#include "device/cuda/args/act.h"
#include "device/cuda/common/act.cuh"
#include "device/cuda/common/pack.cuh"

/* The table of an activation, LS_CUDA_GELU or LS_CUDA_SILU: make() fills it, look_up() finds tanhs or sigmoids, y() and slope() make the
 * result of x from them. */
template <int FN> struct act_table;

/* Returns x < least ? line : made, by a select: the compiler would branch around the access to the table. */
LS_DEVICE float line_if_below(float line, float made, float x, float least) {
#ifdef LS_CUDA_ON_CPU_H
    return x < least ? line : made;
#else
    float y;
    asm("{ .reg .pred p; setp.lt.f32 p, %3, %4; selp.f32 %0, %1, %2, p; }" : "=f"(y) : "f"(line), "f"(made), "f"(x), "f"(least));
    return y;
#endif
}

/* Returns the entry of x, a bf16 number as fp32, in a table that begins with the entry of the number whose bits are FIRST. */
template <uint32_t FIRST> LS_DEVICE float number_of(const float *table, float x) {
    return *(const float *)((const char *)table + ((int)(__float_as_uint(x) >> 14) - (int)(FIRST >> 14)));
}

/* tanh of GELU for numbers of either sign: below 2^−12 it is its argument, which it never exceeds; from 5.1875 on it is 1. */
template <> struct act_table<LS_CUDA_GELU> {
    enum : uint32_t { FIRST = 0x39800000u, LAST = 0x40A60000u, COUNT = ((LAST - FIRST) >> 16) + 1 };
    static_assert((int)COUNT <= (int)LS_CUDA_GELU_TABLE, "what there is room for");
    float *at;

    /* Fills the table. Each of `threads` threads calls it with its number; a barrier must follow. */
    LS_DEVICE void make(int thread, int threads) {
        for (int i = thread; i < (int)COUNT; i += threads) {
            const float x = __uint_as_float(FIRST + ((uint32_t)i << 16));
            at[i] = gelu_tanh(x, x * x);
        }
    }
    /* Returns the tanh of GELU of one number. */
    LS_DEVICE float tanh_of(float x) const {
        const float size = abs_of(x), near = fminf(fmaxf(size, __uint_as_float(FIRST)), __uint_as_float(LAST));
        const float t = fminf(number_of<FIRST>(at, near), GELU_C0 * size);
        return with_sign(t, x);
    }
    /* Sets t to the tanhs of GELU of bf16 numbers x. */
    template <int W> LS_DEVICE void look_up(const float (&x)[W], float (&t)[W]) const {
        LS_UNROLL for (int i = 0; i < W; i++) t[i] = tanh_of(x[i]);
    }
    /* Returns GELU of x from its tanh. */
    LS_DEVICE static float y(float x, float t) { return gelu_both(x, t).y; }
    /* Returns the slope of GELU at x from its tanh. */
    LS_DEVICE static float slope(float x, float t) { return gelu_both(x, t).slope; }
};

/* The sigmoid, for positive numbers, then for negative ones: from 2^−12 to 18, where that of positive ones is 1. Between 2^−17 and
 * 2^−12 it is a line. Elsewhere, which is rare, it is computed. */
template <> struct act_table<LS_CUDA_SILU> {
    enum : uint32_t { FIRST = 0x39800000u, LAST = 0x41900000u, HALF = ((LAST - FIRST) >> 16) + 1, COUNT = 2 * HALF };
    static_assert((int)COUNT <= (int)LS_CUDA_SIGMOID_TABLE, "what there is room for");
    float *at;

    /* Fills the table. Each of `threads` threads calls it with its number; a barrier must follow. */
    LS_DEVICE void make(int thread, int threads) {
        for (int i = thread; i < (int)COUNT; i += threads) {
            const float x = __uint_as_float(FIRST + ((uint32_t)i % HALF << 16));
            at[i] = sigmoid_of(i < (int)HALF ? x : -x);
        }
    }
    /* Sets s to the sigmoids of bf16 numbers x; if any of them is outside the table, computes all. */
    template <int W> LS_DEVICE void look_up(const float (&x)[W], float (&s)[W]) const {
        bool are_here = true;
        LS_UNROLL for (int i = 0; i < W; i++) {
            const float size = abs_of(x[i]), near = fminf(fmaxf(size, __uint_as_float(FIRST)), __uint_as_float(LAST));
            const float made = number_of<FIRST>(x[i] < 0.0f ? at + HALF : at, near);
            s[i] = line_if_below(__fmaf_rn(0.25f, x[i], 0.5f), made, size, __uint_as_float(FIRST));
            are_here = are_here & (size >= 0x1p-17f) & (x[i] >= -__uint_as_float(LAST));
        }
        if (!are_here) compute(x, s);
    }
    /* Computes sigmoids without the table, one after the other, rotating the arrays, so that one copy of the code serves all: few instructions and registers. */
    template <int W> LS_DEVICE static void compute(const float (&x)[W], float (&s)[W]) {
        float left[W];
        LS_UNROLL for (int i = 0; i < W; i++) left[i] = x[i];
        LS_NO_UNROLL for (int turn = 0; turn < W; turn++) {
            const float first = left[0];
            LS_UNROLL for (int i = 0; i + 1 < W; i++) left[i] = left[i + 1], s[i] = s[i + 1];
            s[W - 1] = sigmoid_of(first);
        }
    }
    /* Returns SiLU of x from its sigmoid. */
    LS_DEVICE static float y(float x, float s) { return x * s; }
    /* Returns the slope of SiLU at x from its sigmoid. */
    LS_DEVICE static float slope(float x, float s) { return silu_slope(x, s); }
};

/* Returns the smaller of each of two packed unsigned 16-bit numbers. */
LS_DEVICE uint32_t min_of_two(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t c;
    asm("min.u16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
#else
    const uint32_t low = (a & 0xFFFFu) < (b & 0xFFFFu) ? a : b, high = (a >> 16) < (b >> 16) ? a : b;
    return (low & 0xFFFFu) | (high & 0xFFFF0000u);
#endif
}
/* Returns the larger of each of two packed unsigned 16-bit numbers. */
LS_DEVICE uint32_t max_of_two(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t c;
    asm("max.u16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
#else
    return ~min_of_two(~a, ~b);
#endif
}

/* GELU's slope by a single table access. The table has numbers of both signs beside each other, from 2^−14 to 5.1875; from there on,
 * as long as their squares are finite, the slope is 1, or 0 for negative numbers. A number outside all that is rare, and computed.
 * Numbers are packed by twos, as in memory. */
struct gelu_slopes {
    enum : uint32_t { FIRST = 0x3880, LAST = 0x40A6, END = 0x5D80, COUNT = 2 * (LAST - FIRST + 1) };
    static_assert((int)COUNT <= (int)LS_CUDA_SLOPE_TABLE, "what there is room for");
    float *at;

    /* Returns two copies of a 16-bit number, packed. */
    LS_DEVICE static uint32_t both(uint32_t number) { return number | number << 16; }
    /* Fills the table. Each of `threads` threads calls it with its number; a barrier must follow. */
    LS_DEVICE void make(int thread, int threads) {
        for (int i = thread; i < (int)COUNT; i += threads)
            at[i] = gelu_slope(__uint_as_float((uint32_t)(i & 1) << 31 | (FIRST + ((uint32_t)i >> 1)) << 16));
    }
    /* Sets the slopes of all numbers; if any of them is outside the table, computes all. */
    template <int TWOS> LS_DEVICE void look_up(const uint32_t (&two)[TWOS], float (&slope)[2 * TWOS]) const {
        uint32_t number[TWOS], least = ~0u, most = 0; /* the size, and the sign behind it */
        LS_UNROLL for (int i = 0; i < TWOS; i++) {
            number[i] = (two[i] << 1 & 0xFFFEFFFEu) | (two[i] >> 15 & 0x00010001u);
            least = min_of_two(least, number[i]);
            most = max_of_two(most, number[i]);
        }
        if (min_of_two(least, both(2 * FIRST)) == both(2 * FIRST) && max_of_two(most, both(2 * END - 1)) == both(2 * END - 1)) {
            LS_UNROLL for (int i = 0; i < TWOS; i++) {
                const uint32_t n = min_of_two(number[i], both(2 * LAST)) | (number[i] & 0x00010001u);
                slope[2 * i] = at[(n & 0xFFFFu) - 2 * FIRST];
                slope[2 * i + 1] = at[(n >> 16) - 2 * FIRST];
            }
            return;
        }
        compute(two, slope);
    }
    /* Computes the slopes without the table, as act_table<LS_CUDA_SILU> does, by twos. */
    template <int TWOS> LS_DEVICE static void compute(const uint32_t (&two)[TWOS], float (&slope)[2 * TWOS]) {
        uint32_t left[TWOS];
        LS_UNROLL for (int i = 0; i < TWOS; i++) left[i] = two[i];
        LS_NO_UNROLL for (int turn = 0; turn < TWOS; turn++) {
            const uint32_t first = left[0];
            LS_UNROLL for (int i = 0; i + 1 < TWOS; i++) {
                left[i] = left[i + 1];
                slope[2 * i] = slope[2 * i + 2], slope[2 * i + 1] = slope[2 * i + 3];
            }
            slope[2 * TWOS - 2] = gelu_slope(__uint_as_float(first << 16));
            slope[2 * TWOS - 1] = gelu_slope(__uint_as_float(first & 0xFFFF0000u));
        }
    }
};
