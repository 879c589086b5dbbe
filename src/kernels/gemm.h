/* gemm.h: matrix products in chain order.
 *
 *     C[m][n] = sum over k of A·B        form NN: A[m][k] B[k][n]   NT: A[m][k] B[n][k]   TN: A[k][m] B[k][n]
 *
 * The order of every sum is that of docs/arithmetic.md, "Matrix products": a chain over k inside a slice, a tree over
 * slices. Block sizes, tile shapes and threads only decide who computes what when, so they never change a bit. Operands
 * are packed into panels, bf16 is widened on the way; K is never padded.
 *
 * A machine adds its micro-kernel and its block sizes, set together in one function; the loops are written once
 * (gemm.c). */
#ifndef LS_KERNELS_GEMM_H
#define LS_KERNELS_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/pool.h"
#include "lockstep.h"

typedef enum ls_gemm_form { LS_GEMM_NN, LS_GEMM_NT, LS_GEMM_TN } ls_gemm_form;

enum { LS_GEMM_SLICES_MAX = 64, LS_GEMM_LEVELS_MAX = 6 };

typedef struct ls_gemm {
    ls_gemm_form form;
    ls_dtype dtype; /* of A and B: LS_F32 or LS_BF16 */
    size_t m, n, k;
    const void *a, *b;
    size_t lda, ldb; /* elements from one row to the next, as stored */
    float *c;
    size_t ldc;

    int slices;           /* 0 or 1: one chain; else a power of two up to LS_GEMM_SLICES_MAX */
    const size_t *bounds; /* slices + 1 ascending positions from 0 to k; NULL with one slice */
    bool accumulate;      /* with one slice: the chain continues from C */
    const float *sibling; /* added from the left to the finished product, or NULL; may be C */
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
    ls_gemm_addend addend[LS_GEMM_LEVELS_MAX + 1];
    const float *bias; /* nr values, or NULL */
} ls_gemm_tile;

/* a: k × mr, b: k × nr, packed. */
typedef void (*ls_gemm_micro)(size_t k, const float *a, const float *b, const ls_gemm_tile *tile);

typedef struct ls_gemm_kernels {
    const char *name; /* tile and machine */
    ls_gemm_micro micro;
    size_t mr, nr;
    size_t kc;     /* k of a pass over a block: its panel of B stays in the first cache */
    size_t mb, nb; /* rows and columns of a task: its block of A stays in the second cache; multiples of mr, nr */
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
