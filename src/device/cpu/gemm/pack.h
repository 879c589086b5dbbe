/* pack.h: packs operands of a matmul into panels: k rows of `width` values, one for each row (or column) of a tile; for
 * a matrix unit, rows of `width` groups of consecutive k. Panels are memory of the caller; nothing allocates or fails.
 */
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

/* Return the rows of A, and the columns of B, as lines. */
ls_gemm_lines ls_gemm_lines_of_a(const ls_gemm *g);
ls_gemm_lines ls_gemm_lines_of_b(const ls_gemm *g);
/* Returns the lines without the first `line` of them and without the first `k` values of each. */
ls_gemm_lines ls_gemm_lines_from(ls_gemm_lines x, size_t line, size_t k);

/* Returns the bytes of an element of a panel: chains are in fp32, units take 16 bits. */
static inline size_t ls_gemm_packed_bytes(const ls_gemm_kernels *kernels) { return kernels->granule ? 2 : 4; }

/* Returns whether the lines lie in memory with one stride; otherwise they are gathered. */
static inline bool ls_gemm_lines_are_stored(const ls_gemm_lines *x) { return !x->patches && !x->grid; }

/* Packs `lines` lines, k values each, widened to fp32, into consecutive panels; lines that the last one lacks are +0.
 */
void ls_gemm_pack(const ls_gemm_kernels *kernels, float *panel, size_t width, ls_gemm_lines from, size_t lines,
                  size_t k);

/* Packs the first of one or more fp32 or bf16 lines that are stored along k; returns how many lines, at least one. */
size_t ls_gemm_pack_some(const ls_gemm_kernels *kernels, float *to, size_t width, ls_gemm_lines from, size_t lines,
                         size_t k);

/* Packs 16-bit lines for a unit, as they are: their positions at … at+n−1 of x, in groups of `group`. */
void ls_gemm_pack_unit(const ls_gemm_kernels *kernels, uint16_t *panel, size_t width, size_t group, ls_gemm_lines from,
                       size_t lines, const ls_gemm_k *x, size_t at, size_t n);

/* ---- operands of a convolution, packed straight from the image --------------------------------------------------- */

/* Returns the offset of a row in elements. */
static inline size_t ls_gemm_grid_at(const ls_gemm_grid *grid, size_t row) {
    size_t pair = row / grid->n2;
    return pair / grid->n1 * grid->step0 + pair % grid->n1 * grid->step1 + row % grid->n2 * grid->step2;
}

/* Packs lines that are not stored, patches or rows in a grid, as ls_gemm_pack() does with the stored matrix; but lines
 * that the last panel lacks are left as they are. */
void ls_gemm_gather(const ls_gemm_kernels *kernels, float *panel, size_t width, ls_gemm_lines from, size_t lines,
                    size_t k);

/* Pack patches of images with few channels faster than ls_gemm_gather(), with positions or with columns as lines.
 * Return false, and write nothing, if they do not support these patches; the caller then gathers. */
bool ls_gemm_halo_positions(float *panel, size_t width, const ls_gemm_lines *from, size_t lines, size_t k);
bool ls_gemm_halo_columns(float *panel, size_t width, const ls_gemm_lines *from, size_t lines, size_t k);

#endif
