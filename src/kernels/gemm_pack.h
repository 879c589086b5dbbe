/* gemm_pack.h: operands of a matrix product as panels: k rows of `width` values, one for each row (or column) of a
 * tile. */
#ifndef LS_KERNELS_GEMM_PACK_H
#define LS_KERNELS_GEMM_PACK_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/gemm.h"

/* Lines of an operand: line l begins at `at` + l·ld where its values are neighbours (along_k), else at `at` + l, with
 * its values ld apart. */
typedef struct ls_gemm_lines {
    const void *at;
    ls_dtype dtype;
    size_t ld;
    bool along_k;
} ls_gemm_lines;

/* The rows of A, the columns of B. */
ls_gemm_lines ls_gemm_lines_of_a(const ls_gemm *g);
ls_gemm_lines ls_gemm_lines_of_b(const ls_gemm *g);
/* The same without the first `line` lines and the first `k` values of each. */
ls_gemm_lines ls_gemm_lines_from(ls_gemm_lines x, size_t line, size_t k);

/* Packs `lines` lines, k values each, into panels one behind the other; lines that the last panel misses become +0. */
void ls_gemm_pack(const ls_gemm_kernels *kernels, float *panel, size_t width, ls_gemm_lines from, size_t lines,
                  size_t k);

#endif
