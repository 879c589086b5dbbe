/* optim.h: optimizer steps and what goes with them, over flat arrays; the formulas are in docs/arithmetic.md,
 * "Optimizers" and "Squared norm".
 *
 * Elementwise, so threads and shards may split anywhere; square_sums only at multiples of LS_SQUARE_BLOCK. Arrays do
 * not overlap. */
#ifndef LS_DEVICE_CPU_OPTIM_H
#define LS_DEVICE_CPU_OPTIM_H

#include <stddef.h>
#include <stdint.h>

enum { LS_SQUARE_BLOCK = 1024 };

/* Formed in double by the caller and rounded once. */
typedef struct ls_adamw_step {
    float factor;            /* f */
    float beta1, beta1_rest; /* β1, 1 − β1 */
    float beta2, beta2_rest;
    float rate; /* a */
    float root; /* r */
    float epsilon;
    float decay; /* 1 − lr·wd */
} ls_adamw_step;

typedef struct ls_sgd_step {
    float factor;
    float rate; /* lr */
    float momentum, weight_decay;
    int nesterov;
} ls_sgd_step;

typedef struct ls_optim_kernels {
    /* One pass over w, m and v. bf16 gets the new w rounded, unless it is NULL. |m|, |v| < 2^−126 become +0 before they
     * are used. */
    void (*adamw)(float *w, float *m, float *v, uint16_t *bf16, const float *g, const ls_adamw_step *step, size_t n);
    /* b is the momentum; NULL: without momentum. bf16 as above. */
    void (*sgd)(float *w, float *b, uint16_t *bf16, const float *g, const ls_sgd_step *step, size_t n);
    /* out[i] = Σ x² of elements 1024·i … 1024·i+1023, the last block possibly short, in double. */
    void (*square_sums)(double *out, const float *x, size_t n);
    /* y = x·factor; y may be x. */
    void (*scale)(float *y, const float *x, float factor, size_t n);
} ls_optim_kernels;

void ls_optim_kernels_fill_portable(ls_optim_kernels *table);
void ls_optim_kernels_fill_neon(ls_optim_kernels *table);
void ls_optim_kernels_fill_avx2(ls_optim_kernels *table);
void ls_optim_kernels_fill_avx512(ls_optim_kernels *table);

#endif
