/* pack.h: operands of a matmul as panels: k rows of `width` values, one for each row (or column) of a
 * tile; for a unit, rows of `width` groups of neighbours in k. */
#ifndef LS_DEVICE_CPU_GEMM_PACK_H
#define LS_DEVICE_CPU_GEMM_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cpu/gemm/gemm.h"
#include "device/cpu/gemm/k.h"

/* Lines of an operand: line l begins at `at` + l·ld where its values are neighbours (along_k), else at `at` + l, with
 * its values ld apart. Those of patches and grids are gathered: `at` is the first image, or that of the
 * grid's first row with the lines before it gone; line and k are what was skipped. */
typedef struct ls_gemm_lines {
    const void *at;
    ls_dtype dtype;
    size_t ld;
    bool along_k;
    const ls_gemm_patches *patches; /* or NULL */
    const ls_gemm_grid *grid;       /* or NULL; across k alone */
    size_t line, k;
} ls_gemm_lines;

/* The rows of A, the columns of B. */
ls_gemm_lines ls_gemm_lines_of_a(const ls_gemm *g);
ls_gemm_lines ls_gemm_lines_of_b(const ls_gemm *g);
/* The same without the first `line` lines and the first `k` values of each. */
ls_gemm_lines ls_gemm_lines_from(ls_gemm_lines x, size_t line, size_t k);

/* Bytes of an element of a panel: chains are in fp32, units take bf16. */
static inline size_t ls_gemm_packed_bytes(const ls_gemm_kernels *kernels) { return kernels->granule ? 2 : 4; }

static inline bool ls_gemm_lines_are_stored(const ls_gemm_lines *x) { return !x->patches && !x->grid; }

/* Packs `lines` lines, k values each, into panels one behind the other; lines that the last panel misses become +0. */
void ls_gemm_pack(const ls_gemm_kernels *kernels, float *panel, size_t width, ls_gemm_lines from, size_t lines,
                  size_t k);

/* Some of at least one fp32 or bf16 lines that are stored along k; returns how many. */
size_t ls_gemm_pack_some(const ls_gemm_kernels *kernels, float *to, size_t width, ls_gemm_lines from, size_t lines,
                         size_t k);

/* The same for a unit: bf16 lines, their positions at … at+n−1 of x, in groups of `group`. */
void ls_gemm_pack_unit(const ls_gemm_kernels *kernels, uint16_t *panel, size_t width, size_t group, ls_gemm_lines from,
                       size_t lines, const ls_gemm_k *x, size_t at, size_t n);

/* ---- operands of a convolution, packed straight from the image --------------------------------------------------- */

/* The matrix of patches (ls_gemm_patches) and rows in a grid (ls_gemm_grid). Panels are those of the stored matrix,
 * value by value. */
static inline size_t ls_gemm_grid_at(const ls_gemm_grid *grid, size_t row) {
    size_t pair = row / grid->n2;
    return pair / grid->n1 * grid->step0 + pair % grid->n1 * grid->step1 + row % grid->n2 * grid->step2;
}

/* As ls_gemm_pack(), for lines that are not stored; what the last panel misses is left alone. */
void ls_gemm_gather(const ls_gemm_kernels *kernels, float *panel, size_t width, ls_gemm_lines from, size_t lines,
                    size_t k);

/* For patches of images with few channels. */
/* As ls_gemm_gather(), with positions or with columns as lines. False where this is not the way: nothing is written
 * then. */
bool ls_gemm_halo_positions(float *panel, size_t width, const ls_gemm_lines *from, size_t lines, size_t k);
bool ls_gemm_halo_columns(float *panel, size_t width, const ls_gemm_lines *from, size_t lines, size_t k);

#endif
