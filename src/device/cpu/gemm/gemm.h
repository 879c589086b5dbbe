/* gemm.h: matmuls in chain order.
 *
 *     C[m][n] = sum over k of A·B        form NN: A[m][k] B[k][n]   NT: A[m][k] B[n][k]   TN: A[k][m] B[k][n]
 *
 * A call allocates nothing and cannot fail. The order of every sum is that of docs/reference/arithmetic.md, "Matrix
 * products": a chain over k inside a slice, a tree over slices. Block sizes, tile shapes and the number of threads
 * decide only which thread computes an element and when, so they never change a bit. Operands are packed into panels,
 * 16-bit types are widened on the way; K is never padded. A matmul with few rows or few columns reads its large operand
 * once and packs nothing that outlives a block (thin.c).
 *
 * A matrix unit (unit.h), in hardware or, for tensor cores, emulated, multiplies 16-bit numbers as they are, a granule
 * of k at a time. Panels hold them then, and K is padded with +0 to whole granules at the end of each slice and of each
 * sequence (k.h).
 *
 * An ISA adds its kernels and its block sizes, set together in one function; the loops are written once (gemm.c,
 * tile.c, thin.c).
 *
 * Words of this folder: a line is a row of A or a column of B; a panel is a packed strip of mr or nr lines (BLIS:
 * micro-panel); a thin matmul has few rows or columns; a turned one computes C transposed, by exchanging A and B; the
 * halo is the part of an image that some positions need, with zeros around it. */
#ifndef LS_DEVICE_CPU_GEMM_GEMM_H
#define LS_DEVICE_CPU_GEMM_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "device/calls.h"

/* Conversions between fp32 and the 16-bit formats (docs/reference/arithmetic.md, "Number formats"): exact to fp32, from
 * fp32 rounded to nearest even; every NaN becomes the one NaN of the format. Threads may split the arrays anywhere. The
 * arrays do not overlap. */
typedef struct ls_convert_kernels {
    void (*f32_to_bf16)(uint16_t *out, const float *in, size_t n);
    void (*bf16_to_f32)(float *out, const uint16_t *in, size_t n);
    void (*f32_to_f16)(uint16_t *out, const float *in, size_t n);
    void (*f16_to_f32)(float *out, const uint16_t *in, size_t n);
    /* To fp32 for numbers that are only read by arithmetic: a NaN may keep its payload, which saves half the time. */
    void (*widen_bf16)(float *out, const uint16_t *in, size_t n);
    void (*widen_f16)(float *out, const uint16_t *in, size_t n);
} ls_convert_kernels;

/* Fill the conversions of one ISA; those for NEON, AVX2 and AVX-512 only on such a CPU. */
void ls_convert_kernels_fill_portable(ls_convert_kernels *table);
void ls_convert_kernels_fill_neon(ls_convert_kernels *table);
void ls_convert_kernels_fill_avx2(ls_convert_kernels *table);
void ls_convert_kernels_fill_avx512(ls_convert_kernels *table);

/* One value to be added to a tile from the left. */
typedef struct ls_gemm_addend {
    const float *at;
    size_t ld;
} ls_gemm_addend;

/* The epilogue of a micro-kernel, in this order: adds the addends, adds the bias, rounds, stores. */
typedef struct ls_gemm_tile {
    const float *start; /* where the chains continue from, NULL: +0 */
    size_t ldstart;
    float *out;
    size_t ldout;
    int addends;
    const ls_gemm_addend *addend;
    const float *bias; /* nr values, or NULL */
    uint16_t *halves;  /* where the table rounds to bf16 itself: instead of out, or NULL */
    size_t ldhalves;
} ls_gemm_tile;

/* Computes a tile of mr × nr from panels a (k × mr) and b (k × nr), packed as the table says; k is whole granules. */
typedef void (*ls_gemm_micro)(size_t k, const void *a, const void *b, const ls_gemm_tile *tile);

/* Kernels for few rows continue c[row][column] = chain over k of a·b, for 1 to LS_GEMM_THIN_ROWS rows. a: k rows of
 * LS_GEMM_THIN_ROWS values. */
enum { LS_GEMM_THIN_ROWS = 4, LS_GEMM_THIN_LANES = 16 };

/* Computes a few rows of C for B with k rows, ldb apart; columns are a multiple of LS_GEMM_THIN_LANES. */
typedef void (*ls_gemm_thin)(size_t k, size_t rows, const float *a, const float *b, size_t ldb, float *c, size_t ldc,
                             size_t columns);
/* Computes a few rows of C for B transposed: lines along k, ldb apart, one for each of the table's thin_lines columns.
 */
typedef void (*ls_gemm_thin_along)(size_t k, size_t rows, const float *a, const void *b, ls_dtype dtype, size_t ldb,
                                   float *c, size_t ldc);

/* Transposes the first of `lines` lines, of k values each, line l at from + l·ld, to to[k][line] with rows `width`
 * apart. Returns how many lines; 0 if there are too few for a vector. */
typedef size_t (*ls_gemm_transpose)(float *to, size_t width, const void *from, ls_dtype dtype, size_t ld, size_t lines,
                                    size_t k);

typedef struct ls_gemm_kernels {
    const char *name; /* tile and machine */
    ls_gemm_micro micro;
    ls_gemm_thin thin;
    ls_gemm_thin_along thin_along; /* or NULL */
    size_t thin_lines;
    ls_gemm_transpose transpose; /* or NULL */
    size_t mr, nr;
    size_t kc;        /* k of a pass over a block: its panel of B stays in the first cache */
    size_t mb, nb;    /* rows and columns of a block: its panels stay in the second cache; multiples of mr, nr */
    size_t own_bytes; /* of panels that a task packs for itself at most; 0: the usual */
    ls_convert_kernels convert;
    /* For matrix units only; all 0 for chains. A panel is [k / group][line][group]. */
    size_t granule;          /* values of k that the micro-kernel takes at a time: the unit's granule, or two of them */
    size_t group_a, group_b; /* values of k of a line that lie together in panels of A, of B; they divide the granule */
    size_t rate;             /* multiply-adds in the time of one of a chain in fp32; for choosing tasks */
    bool rounds_bf16;        /* the micro-kernel can store a tile as bf16 */
    void (*begin)(void);     /* called by a thread before the first tile of a task, or NULL */
    void (*end)(void);       /* called by it after the last tile of the task, or NULL */
} ls_gemm_kernels;

/* Fill the kernels of one ISA. */
void ls_gemm_kernels_fill_portable(ls_gemm_kernels *table);
/* Fills those for a CPU without an instruction for fmaf(). */
void ls_gemm_kernels_fill_plain(ls_gemm_kernels *table);
void ls_gemm_kernels_fill_neon(ls_gemm_kernels *table);
void ls_gemm_kernels_fill_avx2(ls_gemm_kernels *table);
void ls_gemm_kernels_fill_avx512(ls_gemm_kernels *table);
/* Fill the kernels of a matrix unit. A table may be filled anywhere, but run only if ls_unit_is_here(). */
void ls_gemm_kernels_fill_bfmmla(ls_gemm_kernels *table);
void ls_gemm_kernels_fill_avx512_bf16(ls_gemm_kernels *table);
void ls_gemm_kernels_fill_amx(ls_gemm_kernels *table);
void ls_gemm_kernels_fill_tensor_core(ls_gemm_kernels *table, ls_unit unit, ls_dtype dtype);

/* Returns the bytes of scratch that ls_gemm_run() needs: a few tens of MiB at most, 0 if ls_gemm_is_thin(). Reads no
 * tensor. */
size_t ls_gemm_scratch_bytes(const ls_gemm_kernels *kernels, const ls_gemm *g);
/* Computes a matmul on all threads of the pool, and returns when it is done. The scratch is 64-byte aligned. `kernels`
 * are those of the ISA; the function finds the unit's itself. The call must have passed ls_gemm_check(). */
void ls_gemm_run(const ls_gemm_kernels *kernels, const ls_gemm *g, ls_pool *pool, void *scratch);

/* Returns whether ls_gemm_run() gives the matmul to ls_gemm_thin_run(): one of chains, with at most 2·LS_GEMM_THIN_ROWS
 * rows or columns (half as many with patches). */
bool ls_gemm_is_thin(const ls_gemm *g);
/* Computes a matmul for which ls_gemm_is_thin() is true, without scratch. */
void ls_gemm_thin_run(const ls_gemm_kernels *kernels, const ls_gemm *g, ls_pool *pool);

#endif
