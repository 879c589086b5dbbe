/* conv.h: convolutions of images, channels last; the formulas are in docs/arithmetic.md, "Convolution".
 *
 *     x   [image][y][x][c_in]                 images one behind the other, without gaps
 *     w   [c_out][kernel_y][kernel_x][c_in]   an output is one chain along a row of it
 *     y   [image][out y][out x][c_out]
 *
 * A flattened image is the same memory: its numbers are in the order (y, x, channel). */
#ifndef LS_DEVICE_CPU_CONV_H
#define LS_DEVICE_CPU_CONV_H

#include <stdbool.h>
#include <stddef.h>

#include "device/cpu/gemm/gemm.h"
#include "lockstep.h"

/* Pixels of a side, and channels, at most. */
enum { LS_SIDE_MAX = 1 << 20 };

/* Windows over an image: of convolutions and of pooling. `pad` pixels are put on each side. */
typedef struct ls_window {
    size_t kernel_y, kernel_x;
    size_t stride_y, stride_x;
    size_t pad_y, pad_x;
} ls_window;

/* Windows along a side of `size` pixels; 0 where not even one fits. */
static inline size_t ls_window_count(size_t size, size_t kernel, size_t stride, size_t pad) {
    return size + 2 * pad < kernel ? 0 : (size + 2 * pad - kernel) / stride + 1;
}
static inline size_t ls_window_rows(const ls_window *w, size_t height) {
    return ls_window_count(height, w->kernel_y, w->stride_y, w->pad_y);
}
static inline size_t ls_window_columns(const ls_window *w, size_t width) {
    return ls_window_count(width, w->kernel_x, w->stride_x, w->pad_x);
}
/* LS_ERR_INPUT with a message where no window fits, or a number is 0 or larger than any image. */
ls_status ls_window_check(const ls_window *w, size_t height, size_t width);

/* Forward reads x, w and bias, writes y; input_grad reads dy and w, writes dx; weight_grad reads dy and x, writes dw.
 * The gradient of a bias is that of a linear layer, over rows of c_out (ls_ops.bias_grad).
 *
 * A weight gradient is summed over positions (image, out y, out x) by groups, as a product is over k: `slices`, bounds,
 * accumulate and siblings are those of ls_gemm; dw is its C, and siblings lie like dw. */
typedef struct ls_conv_call {
    size_t images, height, width, c_in, c_out;
    ls_window window;
    const float *x, *w;
    const float *bias; /* [c_out], or NULL */
    float *y;
    const float *dy;
    float *dx, *dw;
    int slices;
    const size_t *bounds; /* host: slices + 1 numbers of positions; NULL with one slice */
    bool accumulate;
    int siblings;
    const float *sibling[LS_GEMM_SIBLINGS_MAX];
} ls_conv_call;

#endif
