/* loss.h: softmax cross-entropy over a row of logits in slices; the formulas are in docs/arithmetic.md.
 *
 * Probabilities are never stored. A worker that holds some slices of a row calls slice_max on them, and after the
 * maximum over all workers slice_sum; with the tree of all sums slice_grad. One that holds the whole row calls row.
 * Rows stand alone: threads may split rows anywhere, but never a slice. */
#ifndef LS_DEVICE_CPU_LOSS_H
#define LS_DEVICE_CPU_LOSS_H

#include <stddef.h>
#include <stdint.h>

/* slice_grad: the target lies in another slice. */
#define LS_LOSS_NO_TARGET SIZE_MAX

typedef struct ls_loss_row {
    float m, l, loss;
} ls_loss_row;

typedef struct ls_loss_kernels {
    /* −inf for n = 0 */
    float (*slice_max)(const float *z, size_t n);
    /* sum16 of exp(z_j − m) */
    float (*slice_sum)(const float *z, size_t n, float m);
    /* dz_j = (exp(z_j − m) / l − [j = target])·g, target counted from the begin of the slice; dz may be z. */
    void (*slice_grad)(float *dz, const float *z, size_t n, float m, float l, size_t target, float g);
    /* log(l) − (z_target − m) */
    float (*value)(float z_target, float m, float l);
    /* A whole row: slice i holds z[bounds[i] … bounds[i+1]−1], 1 ≤ slices ≤ 4096. dz may be z; NULL: no gradient. */
    ls_loss_row (*row)(float *dz, const float *z, const size_t *bounds, size_t slices, size_t target, float g);
} ls_loss_kernels;

void ls_loss_kernels_fill_portable(ls_loss_kernels *table);
void ls_loss_kernels_fill_neon(ls_loss_kernels *table);
void ls_loss_kernels_fill_avx2(ls_loss_kernels *table);
void ls_loss_kernels_fill_avx512(ls_loss_kernels *table);

#endif
