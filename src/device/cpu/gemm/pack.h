/* pack.h: packs operands of a matmul into panels, the layout that micro-kernels read: k rows of `width` values, one for
 * each row (or column) of a tile; for a matrix unit (device/unit.h), rows of `width` groups of consecutive k. A line is
 * a row of A or a column of B. Tasks of gemm.c and thin.c call it; panels are memory of the caller, and nothing
 * allocates or fails. */
#ifndef LS_DEVICE_CPU_GEMM_PACK_H
#define LS_DEVICE_CPU_GEMM_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cpu/gemm/gemm.h"
#include "device/cpu/gemm/k.h"

/* Lines of an operand. If a line's values are contiguous (along_k), line l begins at `at` + l·ld; else at `at` + l,
 * with its values ld apart. The lines of patches and grids are not stored like this but gathered: `at` is then the
 * first image, or the grid's first row from the first line on; `line` and `k` count the lines and values that were
 * skipped. */
typedef struct ls_gemm_lines {
    const void *at;
    ls_dtype dtype;
    size_t ld;
    bool along_k;
    const ls_gemm_patches *patches; /* or NULL */
    const ls_gemm_grid *grid;       /* or NULL; across k alone */
    size_t line, k;
} ls_gemm_lines;

/* Returns the rows of A as lines. */
ls_gemm_lines ls_gemm_lines_of_a(const ls_gemm *g);
/* Returns the columns of B as lines. */
ls_gemm_lines ls_gemm_lines_of_b(const ls_gemm *g);
/* Returns the lines without the first `line` of them and without the first `k` values of each. Copies no data. */
ls_gemm_lines ls_gemm_lines_from(ls_gemm_lines x, size_t line, size_t k);

/* Returns the bytes of an element of a panel: 4 (fp32) for chains, 2 for units. */
static inline size_t ls_gemm_packed_bytes(const ls_gemm_kernels *kernels) { return kernels->granule ? 2 : 4; }

/* Returns whether the lines lie in memory with one stride; otherwise they are gathered. */
static inline bool ls_gemm_lines_are_stored(const ls_gemm_lines *x) { return !x->patches && !x->grid; }

/* Packs `lines` lines, k values each, widened to fp32, into consecutive panels of `width` lines and k rows; lines that
 * the last panel lacks become +0. */
void ls_gemm_pack(const ls_gemm_kernels *kernels, float *panel, size_t width, ls_gemm_lines from, size_t lines,
                  size_t k);

/* Packs as many of the first of `lines` lines as one step handles, into one panel at `to`; the lines are fp32 or bf16
 * and stored along k. Returns how many lines it packed, at least one; the caller repeats. */
size_t ls_gemm_pack_some(const ls_gemm_kernels *kernels, float *to, size_t width, ls_gemm_lines from, size_t lines,
                         size_t k);

/* Packs 16-bit lines for a matrix unit without conversion: their positions at … at+n−1 of x (values and padding), in
 * groups of `group`, with +0 for padding and for lines that the last panel lacks. */
void ls_gemm_pack_unit(const ls_gemm_kernels *kernels, uint16_t *panel, size_t width, size_t group, ls_gemm_lines from,
                       size_t lines, const ls_gemm_k *x, size_t at, size_t n);

/* ---- operands of a convolution, packed straight from the image --------------------------------------------------- */

/* Returns the offset of row `row` of the grid from its first row, in elements. */
static inline size_t ls_gemm_grid_at(const ls_gemm_grid *grid, size_t row) {
    size_t pair = row / grid->n2;
    return pair / grid->n1 * grid->step0 + pair % grid->n1 * grid->step1 + row % grid->n2 * grid->step2;
}

/* Packs lines that are not stored, patches or rows in a grid, as ls_gemm_pack() does with the stored matrix; but lines
 * that the last panel lacks are left as they are. */
void ls_gemm_gather(const ls_gemm_kernels *kernels, float *panel, size_t width, ls_gemm_lines from, size_t lines,
                    size_t k);

/* Packs patches of images with few channels, with positions as lines, faster than ls_gemm_gather(). Returns false, and
 * writes nothing, for patches that it does not support; the caller then gathers. */
bool ls_gemm_halo_positions(float *panel, size_t width, const ls_gemm_lines *from, size_t lines, size_t k);
/* Does the same with columns of the matrix of patches as lines. Returns false, and writes nothing, for patches that it
 * does not support. */
bool ls_gemm_halo_columns(float *panel, size_t width, const ls_gemm_lines *from, size_t lines, size_t k);

#endif
