/* dropout.h: dropout and the residual behind it; the formula is in docs/arithmetic.md, "Dropout".
 *
 * Whether an element is kept is a function of (seed, purpose, step, global index) alone: backward makes the same choice
 * again instead of storing it, and any worker may hold any rows. Threads may split rows anywhere. */
#ifndef LS_DEVICE_CPU_DROPOUT_H
#define LS_DEVICE_CPU_DROPOUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "lockstep.h"

/* Element (row, column) has the global index (index0 + row)·columns + column, which is below LS_RNG_INDEX_LIMIT.
 * Strides count elements. y may be exactly x or residual. */
typedef struct ls_dropout_call {
    size_t rows, columns;
    ls_rng_key key;
    uint64_t index0;    /* of the first row, in the whole batch */
    uint32_t threshold; /* elements whose number is below are dropped */
    float scale;        /* of those that are kept */
    const void *x;
    ls_dtype x_dtype; /* the kernel takes LS_F32 alone; the operation of a device any */
    size_t x_stride;
    const float *residual; /* NULL: none */
    size_t residual_stride;
    void *y;
    ls_dtype y_dtype;
    size_t y_stride;
} ls_dropout_call;

/* Of the probability 0 ≤ p < 1 to be dropped. */
static inline uint32_t ls_dropout_threshold(double p) { return (uint32_t)(p * 0x1p32); }
static inline float ls_dropout_scale(double p) { return (float)(1.0 / (1.0 - p)); }

static inline void ls_dropout_set_rate(ls_dropout_call *call, double p) {
    call->threshold = ls_dropout_threshold(p);
    call->scale = ls_dropout_scale(p);
}

typedef struct ls_dropout_kernels {
    /* y = residual + (kept ? x·scale : +0). Without residual it is backward too: x is then dy and y is dx. */
    void (*dropout_add)(const ls_dropout_call *call);
} ls_dropout_kernels;

void ls_dropout_kernels_fill_portable(ls_dropout_kernels *table);
void ls_dropout_kernels_fill_neon(ls_dropout_kernels *table);
void ls_dropout_kernels_fill_avx2(ls_dropout_kernels *table);
void ls_dropout_kernels_fill_avx512(ls_dropout_kernels *table);

#endif
