/* rope.h: rotary embedding; the formula is in docs/arithmetic.md, "Rotary embedding".
 *
 * Row r of a call has the position (position0 + r) mod period. So rows of several sequences of `period` rows go in one
 * call, a thread that begins in the middle of a sequence passes where, and one row during generation passes its
 * position with the period of the table. Rows and heads stand alone: threads may split both anywhere. */
#ifndef LS_DEVICE_CPU_ROPE_H
#define LS_DEVICE_CPU_ROPE_H

#include <stddef.h>

#include "lockstep.h"

/* Row r and head h of x start at x + r·x_row_stride + h·x_head_stride; the same for y, which may be exactly x. */
typedef struct ls_rope_call {
    ls_dtype act; /* of x and y: the kernel takes LS_F32 alone; the operation of a device any */
    void *y;
    size_t y_row_stride, y_head_stride;
    const void *x;
    size_t x_row_stride, x_head_stride;
    size_t rows, heads, d;  /* d is even */
    const float *cos, *sin; /* tables [period][d/2] */
    size_t position0, period;
} ls_rope_call;

typedef struct ls_rope_kernels {
    void (*forward)(const ls_rope_call *call);
    /* x is the gradient of the rotated values, y becomes that of the values before. */
    void (*backward)(const ls_rope_call *call);
} ls_rope_kernels;

void ls_rope_kernels_fill_portable(ls_rope_kernels *table);
void ls_rope_kernels_fill_neon(ls_rope_kernels *table);
void ls_rope_kernels_fill_avx2(ls_rope_kernels *table);
void ls_rope_kernels_fill_avx512(ls_rope_kernels *table);

#endif
