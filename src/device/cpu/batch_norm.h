/* batch_norm.h: batch norm over ghost groups of images, channels last; the formulas are in docs/arithmetic.md, "Batch
 * norm".
 *
 * A tensor is [image][pixel][channel]; `ghost` consecutive images are a ghost group. Statistics are [group][channel],
 * or one row for all groups where they are `shared` (running statistics; those of workers that join theirs):
 *
 *     one worker    forward                                                   grad_sums → input_grad
 *     workers       sums → join → mean → squares → join → rstd → apply        grad_sums → join → input_grad
 *
 * Gradients of weight and bias are the sums of `dot` and `sum` over ghost groups, in their order, by gradient groups:
 * ls_ops.bias_grad with a ghost group as a sequence of one token. */
#ifndef LS_DEVICE_CPU_BATCH_NORM_H
#define LS_DEVICE_CPU_BATCH_NORM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ls_batch_norm_call {
    size_t images, pixels, channels;
    size_t ghost; /* images of a group; divides images */
    bool shared;  /* mean, rstd, and in input_grad sum and dot, are one row */
    double count; /* numbers of a channel behind these: pixels · ghost, or of all workers; 0: pixels · ghost */
    const float *x;
    const float *w, *b;    /* [channels] */
    const float *residual; /* added before ReLU, or NULL */
    bool relu;
    float *y; /* may be x or residual; backward reads it where relu is set */
    float *mean, *rstd;
    float eps;
    float *var; /* forward writes it where it is not NULL, for running statistics */
    const float *dy;
    float *dx;        /* may be dy */
    float *dresidual; /* dy behind ReLU, or NULL; may be dy unless dx is */
    float *sum, *dot; /* [group][channel]: sums of dy behind ReLU, and of its products with the normalised x */
} ls_batch_norm_call;

/* What one row of statistics belongs to: rows of C channels, one behind the other, in columns begin … end−1. Chains go
 * on from what is in the sums. */
typedef struct ls_batch_norm_kernels {
    /* sum = fma(x − mean, x − mean, sum) */
    void (*squares)(float *sum, const float *x, const float *mean, size_t rows, size_t C, size_t begin, size_t end);
    void (*apply)(float *y, const float *x, const float *residual, const float *mean, const float *rstd, const float *w,
                  const float *b, bool relu, size_t rows, size_t C);
    /* y NULL: no ReLU. */
    void (*grad_sums)(float *sum, float *dot, const float *dy, const float *y, const float *x, const float *mean,
                      const float *rstd, size_t rows, size_t C, size_t begin, size_t end);
    /* s and t are the sums by their count. */
    void (*input_grad)(float *dx, float *dresidual, const float *dy, const float *y, const float *x, const float *mean,
                       const float *rstd, const float *w, const float *s, const float *t, size_t rows, size_t C);
} ls_batch_norm_kernels;

void ls_batch_norm_kernels_fill_portable(ls_batch_norm_kernels *table);
void ls_batch_norm_kernels_fill_neon(ls_batch_norm_kernels *table);
void ls_batch_norm_kernels_fill_avx2(ls_batch_norm_kernels *table);
void ls_batch_norm_kernels_fill_avx512(ls_batch_norm_kernels *table);

#endif
