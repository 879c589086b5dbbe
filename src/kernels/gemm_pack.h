/* gemm_pack.h: operands of a matrix product as panels: k rows of `width` values, one for each row (or column) of a
 * tile. */
#ifndef LS_KERNELS_GEMM_PACK_H
#define LS_KERNELS_GEMM_PACK_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep.h"

/* Packs `lines` lines of the operand, k values each, into panels one behind the other; lines that the last panel misses
 * become +0. Line l begins at source + l·ld where its values are neighbours (along_k), else at source + l, with its
 * values ld apart. */
void ls_gemm_pack(float *panel, size_t width, const void *source, ls_dtype dtype, size_t ld, bool along_k, size_t lines,
                  size_t k);

#endif
