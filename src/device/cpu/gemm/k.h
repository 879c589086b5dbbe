/* k.h: the K dimension of packed panels, padded for matrix units (instructions that multiply 16-bit matrices).
 *
 * A unit adds a granule, a fixed number of consecutive products, at a time, and only whole ones. A slice is a part of K
 * whose sum stands alone; a sequence is a stretch of K that belongs to one sequence of tokens. So K is a row of
 * positions: the values of a slice in their order, and +0 behind the end of each sequence and of each slice up to the
 * next multiple of the granule. Chains have granule 1 and no such padding.
 *
 *     granule 4, period 6, two sequences:    0 1 2 3 | 4 5 . . | 6 7 8 9 | 10 11 . .
 *
 * What is cut at a multiple of the granule (a pass, a chunk, a call that is continued) cuts no granule. */
#ifndef LS_DEVICE_CPU_GEMM_K_H
#define LS_DEVICE_CPU_GEMM_K_H

#include "device/cpu/gemm/gemm.h"

typedef struct ls_gemm_k {
    size_t granule;
    size_t period; /* values of a sequence; 0: no padding but behind slices */
    bool is_dense; /* no padding at all */
    int slices;
    size_t from[LS_GEMM_SLICES_MAX + 1];   /* where slices begin and end in k */
    size_t bounds[LS_GEMM_SLICES_MAX + 1]; /* the same in positions */
} ls_gemm_k;

/* Computes the padded positions of the slices of a matmul for a unit with this granule. Allocates nothing. If K has
 * several slices and sequences that are not whole granules, each slice must begin at a sequence. */
void ls_gemm_k_open(ls_gemm_k *x, const ls_gemm *g, size_t granule);

/* Returns the most positions that a matmul can have, wherever its slices end: for the size of panels before the bounds
 * of slices are known. */
size_t ls_gemm_k_most(const ls_gemm *g, size_t granule);

/* A run of consecutive values, and the padding behind them. */
typedef struct ls_gemm_stretch {
    size_t k, values; /* `values` from k on */
    size_t positions; /* that they take with their padding */
} ls_gemm_stretch;

/* Returns the first stretch of the positions at … end−1, both multiples of the granule; the caller asks again behind
 * its positions. */
ls_gemm_stretch ls_gemm_k_stretch(const ls_gemm_k *x, size_t at, size_t end);

#endif
