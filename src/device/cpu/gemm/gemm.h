/* gemm.h: matmuls in chain order.
 *
 *     C[m][n] = sum over k of A·B        form NN: A[m][k] B[k][n]   NT: A[m][k] B[n][k]   TN: A[k][m] B[k][n]
 *
 * The order of every sum is that of docs/reference/arithmetic.md, "Matrix products": a chain over k inside a slice, a
 * tree over slices. Block sizes, tile shapes and the number of threads decide only which thread computes an element and
 * when, so they never change a bit. Operands are packed into panels, 16-bit types are widened on the way; K is never
 * padded. A matmul with few rows or few columns reads its large operand once and packs nothing that outlives a block
 * (thin.c).
 *
 * A hardware unit (unit.h) multiplies bf16 as it is, a granule of k at a time. Panels hold bf16 then, and K is padded
 * with +0 to whole granules at the end of each slice and of each sequence (k.h).
 *
 * A machine adds its kernels and its block sizes, set together in one function; the loops are written once (gemm.c,
 * tile.c, thin.c). */
#ifndef LS_DEVICE_CPU_GEMM_GEMM_H
#define LS_DEVICE_CPU_GEMM_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "device/calls.h"

/* Between fp32 and the 16-bit formats; docs/reference/arithmetic.md, "Number formats". To fp32 exact, from fp32 round
 * to nearest even; every NaN becomes the one NaN of the format. Elementwise: threads may split anywhere. The arrays do
 * not overlap. */
typedef struct ls_convert_kernels {
    void (*f32_to_bf16)(uint16_t *out, const float *in, size_t n);
    void (*bf16_to_f32)(float *out, const uint16_t *in, size_t n);
    void (*f32_to_f16)(uint16_t *out, const float *in, size_t n);
    void (*f16_to_f32)(float *out, const uint16_t *in, size_t n);
    /* To fp32 for numbers that are only read by arithmetic: a NaN may keep its payload, which saves half the time. */
    void (*widen_bf16)(float *out, const uint16_t *in, size_t n);
    void (*widen_f16)(float *out, const uint16_t *in, size_t n);
} ls_convert_kernels;

void ls_convert_kernels_fill_portable(ls_convert_kernels *table);
void ls_convert_kernels_fill_neon(ls_convert_kernels *table);
void ls_convert_kernels_fill_avx2(ls_convert_kernels *table);
void ls_convert_kernels_fill_avx512(ls_convert_kernels *table);

/* One value to be added to a tile from the left. */
typedef struct ls_gemm_addend {
    const float *at;
    size_t ld;
} ls_gemm_addend;

/* What a micro-kernel does after its chains, in this order: adds the addends, adds the bias, rounds, stores. */
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

/* a: k × mr, b: k × nr, packed as the table says; k is a multiple of its granule. */
typedef void (*ls_gemm_micro)(size_t k, const void *a, const void *b, const ls_gemm_tile *tile);

/* Kernels for few rows continue c[row][column] = chain over k of a·b, for 1 to LS_GEMM_THIN_ROWS rows. a: k rows of
 * LS_GEMM_THIN_ROWS values. */
enum { LS_GEMM_THIN_ROWS = 4, LS_GEMM_THIN_LANES = 16 };

/* b: k rows, ldb apart; columns are a multiple of LS_GEMM_THIN_LANES. */
typedef void (*ls_gemm_thin)(size_t k, size_t rows, const float *a, const float *b, size_t ldb, float *c, size_t ldc,
                             size_t columns);
/* b: lines along k, ldb apart, one for each column; as many columns as the table's thin_lines. */
typedef void (*ls_gemm_thin_along)(size_t k, size_t rows, const float *a, const void *b, ls_dtype dtype, size_t ldb,
                                   float *c, size_t ldc);

/* Transposes some of `lines` lines, k values each, line l at from + l·ld, to to[k][line], `width` apart; returns how
 * many. 0: this machine has no faster way for so few. */
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
    /* Of a unit alone; all 0 with chains. A panel is [k / group][line][group]. */
    size_t granule;
    size_t group_a, group_b; /* they divide the granule */
    size_t rate;             /* multiply-adds while a chain in fp32 does one; for choosing tasks */
    bool rounds_bf16;        /* the micro-kernel can store a tile as bf16 */
    void (*begin)(void);     /* called by a thread before the first tile of a task, and after its last; or NULL */
    void (*end)(void);
} ls_gemm_kernels;

void ls_gemm_kernels_fill_portable(ls_gemm_kernels *table);
/* Those of a CPU that has no instruction for fmaf(). */
void ls_gemm_kernels_fill_plain(ls_gemm_kernels *table);
void ls_gemm_kernels_fill_neon(ls_gemm_kernels *table);
void ls_gemm_kernels_fill_avx2(ls_gemm_kernels *table);
void ls_gemm_kernels_fill_avx512(ls_gemm_kernels *table);
/* A unit's, whatever the ISA of the others; the unit must be here (ls_unit_is_here) to run them. */
void ls_gemm_kernels_fill_bfmmla(ls_gemm_kernels *table);
void ls_gemm_kernels_fill_avx512_bf16(ls_gemm_kernels *table);
void ls_gemm_kernels_fill_amx(ls_gemm_kernels *table);
void ls_gemm_kernels_fill_hgmma(ls_gemm_kernels *table, ls_dtype dtype);

/* The kernels for this matmul: `chain` itself, or its unit's; `chain` too where the unit is not here. */
const ls_gemm_kernels *ls_gemm_kernels_of(const ls_gemm_kernels *chain, const ls_gemm *g);

/* Bytes of scratch that ls_gemm_run() needs; at most a few tens of MiB, whatever the sizes. Looks at no pointer. */
size_t ls_gemm_scratch_bytes(const ls_gemm_kernels *kernels, const ls_gemm *g);
/* Outputs of different tasks go to different threads as they come free. The scratch is 64-byte aligned. `kernels` are
 * those of the ISA; the unit's are found by itself. */
void ls_gemm_run(const ls_gemm_kernels *kernels, const ls_gemm *g, ls_pool *pool, void *scratch);

/* Matmuls with few rows or few columns, in chain order; inside ls_gemm_run(). */
bool ls_gemm_is_thin(const ls_gemm *g);
/* Needs no scratch. */
void ls_gemm_thin_run(const ls_gemm_kernels *kernels, const ls_gemm *g, ls_pool *pool);

#endif
