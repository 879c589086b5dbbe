/* pooling.h: the largest number and the mean of windows over images, channels last; the formulas are in
 * docs/arithmetic.md, "Pooling".
 *
 * x and dx are [image][y][x][channel], y, taps and dy are [image][out y][out x][channel]. Global pooling is a window of
 * the size of the image. A window that lies over the edge has the pixels that are there, at least one: pad < kernel.
 *
 * Forward writes rows begin … end−1 of the result, counted over all images, backward rows of dx: threads split rows.
 * Outputs overlap no input. */
#ifndef LS_DEVICE_CPU_POOLING_H
#define LS_DEVICE_CPU_POOLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cpu/conv.h"

typedef struct ls_pooling_call {
    size_t images, height, width, channels;
    ls_window window;
    bool count_pad; /* mean: pixels outside the image count in the divisor */
    const float *x;
    float *y;
    uint32_t *taps; /* maximum: which tap of its window it was, ky·kernel_x + kx; backward reads it */
    const float *dy;
    float *dx;
} ls_pooling_call;

typedef void (*ls_pooling_rows)(const ls_pooling_call *call, size_t begin, size_t end);

typedef struct ls_pooling_kernels {
    ls_pooling_rows max_forward;
    ls_pooling_rows max_backward;
    ls_pooling_rows mean_forward;
    ls_pooling_rows mean_backward;
} ls_pooling_kernels;

void ls_pooling_kernels_fill_portable(ls_pooling_kernels *table);
void ls_pooling_kernels_fill_neon(ls_pooling_kernels *table);
void ls_pooling_kernels_fill_avx2(ls_pooling_kernels *table);
void ls_pooling_kernels_fill_avx512(ls_pooling_kernels *table);

#endif
