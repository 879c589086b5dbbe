/* act.cuh: GELU, SiLU and their slopes for kernels, with the bits of the contract (docs/reference/arithmetic.md, "Activations"). */
#pragma once
#include "device/cuda/common/math.cuh"

#define GELU_C0 0x1.988454p-1f
#define GELU_C1 0x1.2444f2p-5f
#define GELU_C3 0x1.b6676cp-4f

/* Returns the tanh in GELU of x; q is x². Undefined for NaN: gelu_both() passes a NaN on by its other factor. */
LS_DEVICE float gelu_tanh(float x, float q) { return tanh_number(x * __fmaf_rn(GELU_C1, q, GELU_C0)); }

/* GELU of x and its slope at x, which share a tanh. */
struct gelu_both {
    float y, slope;
    LS_DEVICE explicit gelu_both(float x) : gelu_both(x, gelu_tanh(x, x * x)) {}
    /* t: gelu_tanh(x, x²). */
    LS_DEVICE gelu_both(float x, float t) {
        float q = x * x, h = 0.5f * x;
        y = __fmaf_rn(h, t, h);
        slope = __fmaf_rn(h * __fmaf_rn(-t, t, 1.0f), __fmaf_rn(GELU_C3, q, GELU_C0), __fmaf_rn(0.5f, t, 0.5f));
    }
};

/* Returns GELU of x, in its tanh form. */
LS_DEVICE float gelu(float x) { return gelu_both(x).y; }
/* Returns the slope of GELU at x. */
LS_DEVICE float gelu_slope(float x) { return gelu_both(x).slope; }

/* Returns the slope of SiLU at x; s is the sigmoid of x. */
LS_DEVICE float silu_slope(float x, float s) { return s * __fmaf_rn(x, 1.0f - s, 1.0f); }
