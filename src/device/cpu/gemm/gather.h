/* gather.h: operands of a convolution, packed straight from the image: the matrix of patches (ls_gemm_patches) and
 * rows in a grid (ls_gemm_grid). Panels are those of the stored matrix, value by value. */
#ifndef LS_DEVICE_CPU_GEMM_GATHER_H
#define LS_DEVICE_CPU_GEMM_GATHER_H

#include "device/cpu/gemm/pack.h"

static inline size_t ls_gemm_grid_at(const ls_gemm_grid *grid, size_t row) {
    size_t pair = row / grid->n2;
    return pair / grid->n1 * grid->step0 + pair % grid->n1 * grid->step1 + row % grid->n2 * grid->step2;
}

/* As ls_gemm_pack(), for lines that are not stored; what the last panel misses is left alone. */
void ls_gemm_gather(const ls_gemm_kernels *kernels, float *panel, size_t width, ls_gemm_lines from, size_t lines,
                    size_t k);

#endif
