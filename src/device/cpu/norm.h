/* norm.h: layer norm and RMS norm over rows of C elements; the formulas are in docs/arithmetic.md, "Norms".
 *
 * Strides count elements and may be larger than the row. Every row stands alone, so threads may split rows anywhere;
 * parameter gradients chain over the rows, so there threads split columns. An output may be exactly one of the inputs
 * of the same row layout (dx may be dy or x, y may be x), unless said otherwise. */
#ifndef LS_DEVICE_CPU_NORM_H
#define LS_DEVICE_CPU_NORM_H

#include <stddef.h>

typedef struct ls_norm_kernels {
    /* y[r] = norm(x[r])·w + b; writes mean[r] and rstd[r]. C ≥ 1. */
    void (*layer_forward)(float *y, size_t y_stride, float *mean, float *rstd, const float *x, size_t x_stride,
                          const float *w, const float *b, float eps, size_t rows, size_t C);
    void (*layer_backward)(float *dx, size_t dx_stride, const float *dy, size_t dy_stride, const float *x,
                           size_t x_stride, const float *w, const float *mean, const float *rstd, size_t rows,
                           size_t C);
    /* dw[c] and db[c], column_begin ≤ c < column_end, continue their chains over the rows, ascending. dw and db
     * overlap nothing else. Pointers are those of the whole row, whatever the range. */
    void (*layer_params)(float *dw, float *db, const float *dy, size_t dy_stride, const float *x, size_t x_stride,
                         const float *mean, const float *rstd, size_t rows, size_t column_begin, size_t column_end);

    /* y[r] = (x[r]·rstd[r])·w; writes rstd[r]. C ≥ 1. */
    void (*rms_forward)(float *y, size_t y_stride, float *rstd, const float *x, size_t x_stride, const float *w,
                        float eps, size_t rows, size_t C);
    void (*rms_backward)(float *dx, size_t dx_stride, const float *dy, size_t dy_stride, const float *x,
                         size_t x_stride, const float *w, const float *rstd, size_t rows, size_t C);
    /* As layer_params. */
    void (*rms_params)(float *dw, const float *dy, size_t dy_stride, const float *x, size_t x_stride, const float *rstd,
                       size_t rows, size_t column_begin, size_t column_end);
} ls_norm_kernels;

void ls_norm_kernels_fill_portable(ls_norm_kernels *table);
void ls_norm_kernels_fill_neon(ls_norm_kernels *table);
void ls_norm_kernels_fill_avx2(ls_norm_kernels *table);
void ls_norm_kernels_fill_avx512(ls_norm_kernels *table);

#endif
