/* gemm.h: matrix products in chain order.
 *
 *     C[m][n] = sum over k of A·B        form NN: A[m][k] B[k][n]   NT: A[m][k] B[n][k]   TN: A[k][m] B[k][n]
 *
 * The order of every sum is that of docs/arithmetic.md, "Matrix products": a chain over k inside a slice, a tree over
 * slices. Block sizes, tile shapes and threads only decide who computes what when, so they never change a bit. Operands
 * are packed into panels, bf16 is widened on the way; K is never padded. A product with few rows or few columns reads
 * its large operand once and packs nothing that outlives a block (gemm_thin.c).
 *
 * A machine adds its kernels and its block sizes, set together in one function; the loops are written once (gemm.c,
 * gemm_tile.c, gemm_thin.c). */
#ifndef LS_KERNELS_GEMM_H
#define LS_KERNELS_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/pool.h"
#include "lockstep.h"

typedef enum ls_gemm_form { LS_GEMM_NN, LS_GEMM_NT, LS_GEMM_TN } ls_gemm_form;

enum { LS_GEMM_SLICES_MAX = 64, LS_GEMM_LEVELS_MAX = 6, LS_GEMM_SIBLINGS_MAX = 12 };

typedef struct ls_gemm {
    ls_gemm_form form;
    ls_dtype dtype; /* of A and B: LS_F32 or LS_BF16 */
    size_t m, n, k;
    const void *a, *b;
    size_t lda, ldb; /* elements from one row to the next, as stored */
    float *c;
    size_t ldc;

    int slices;           /* 0 or 1: one chain; else up to LS_GEMM_SLICES_MAX */
    const size_t *bounds; /* slices + 1 ascending positions from 0 to k; NULL with one slice */
    bool accumulate;      /* with one slice: the chain continues from C */
    /* Each is added from the left to the finished product, one after another; any may be C, or NULL with siblings 0. */
    int siblings;
    const float *sibling[LS_GEMM_SIBLINGS_MAX];
    size_t ldsibling;
    const float *bias; /* [n], added last, or NULL */
    /* Called once for each finished stretch of a row of C while it is in the cache; or NULL. From any thread. */
    void (*finish)(void *ctx, float *c, size_t row, size_t column, size_t columns);
    void *finish_ctx;
} ls_gemm;

/* One value to be added to a tile from the left. */
typedef struct ls_gemm_addend {
    const float *at;
    size_t ld;
} ls_gemm_addend;

/* What a micro-kernel does after its chains, in this order: adds the addends, adds the bias, stores. */
typedef struct ls_gemm_tile {
    const float *start; /* where the chains continue from, NULL: +0 */
    size_t ldstart;
    float *out;
    size_t ldout;
    int addends;
    const ls_gemm_addend *addend;
    const float *bias; /* nr values, or NULL */
} ls_gemm_tile;

/* a: k × mr, b: k × nr, packed. */
typedef void (*ls_gemm_micro)(size_t k, const float *a, const float *b, const ls_gemm_tile *tile);

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
    size_t kc;     /* k of a pass over a block: its panel of B stays in the first cache */
    size_t mb, nb; /* rows and columns of a block: its panels stay in the second cache; multiples of mr, nr */
} ls_gemm_kernels;

void ls_gemm_kernels_fill_portable(ls_gemm_kernels *table);
void ls_gemm_kernels_fill_neon(ls_gemm_kernels *table);
void ls_gemm_kernels_fill_avx2(ls_gemm_kernels *table);
void ls_gemm_kernels_fill_avx512(ls_gemm_kernels *table);

/* Bytes of scratch that ls_gemm_run() needs; at most a few tens of MiB, whatever the sizes. */
size_t ls_gemm_scratch_bytes(const ls_gemm_kernels *kernels, const ls_gemm *g);
/* Outputs of different tasks go to different threads as they come free. The scratch is 64-byte aligned. */
void ls_gemm_run(const ls_gemm_kernels *kernels, const ls_gemm *g, ls_pool *pool, void *scratch);

#endif
