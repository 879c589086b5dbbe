/* act.h: activations, residual and bias; the formulas are in docs/arithmetic.md, "Activations" and "Embedding, bias,
 * residual".
 *
 * All but bias_grad are elementwise: threads may split them anywhere, and an output may be exactly one of the inputs
 * with the same stride. Strides count elements and may be larger than the row. */
#ifndef LS_DEVICE_CPU_ACT_H
#define LS_DEVICE_CPU_ACT_H

#include <stddef.h>

typedef struct ls_act_kernels {
    void (*gelu_forward)(float *y, const float *x, size_t n);
    void (*gelu_backward)(float *dx, const float *dy, const float *x, size_t n);
    void (*silu_forward)(float *y, const float *x, size_t n);
    void (*silu_backward)(float *dx, const float *dy, const float *x, size_t n);
    /* Backward of these two reads the result of forward. */
    void (*relu_forward)(float *y, const float *x, size_t n);
    void (*relu_backward)(float *dx, const float *dy, const float *y, size_t n);
    void (*sigmoid_forward)(float *y, const float *x, size_t n);
    void (*sigmoid_backward)(float *dx, const float *dy, const float *y, size_t n);

    /* y = silu(gate)·up on rows × columns; gate and up have one stride, so that both may lie in one fused row. */
    void (*gated_forward)(float *y, size_t y_stride, const float *gate, const float *up, size_t in_stride, size_t rows,
                          size_t columns);
    /* dgate and dup have one stride; dgate may be gate and dup may be up, and either may be dy. */
    void (*gated_backward)(float *dgate, float *dup, size_t din_stride, const float *dy, size_t dy_stride,
                           const float *gate, const float *up, size_t in_stride, size_t rows, size_t columns);

    /* pre = c + bias[column], y = gelu(pre); pre may be c. */
    void (*bias_gelu_forward)(float *y, size_t y_stride, float *pre, size_t pre_stride, const float *c, size_t c_stride,
                              const float *bias, size_t rows, size_t columns);

    /* y = a + b */
    void (*residual)(float *y, const float *a, const float *b, size_t n);

    /* db[c], column_begin ≤ c < column_end, continues its chain of additions over the rows, ascending; db does not
     * overlap dy. Threads split columns. Pointers are those of the whole row, whatever the range. */
    void (*bias_grad)(float *db, const float *dy, size_t dy_stride, size_t rows, size_t column_begin,
                      size_t column_end);
} ls_act_kernels;

void ls_act_kernels_fill_portable(ls_act_kernels *table);
void ls_act_kernels_fill_neon(ls_act_kernels *table);
void ls_act_kernels_fill_avx2(ls_act_kernels *table);
void ls_act_kernels_fill_avx512(ls_act_kernels *table);

#endif
