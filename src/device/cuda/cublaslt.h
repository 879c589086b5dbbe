/* cublaslt.h: GEMMs by NVIDIA's cuBLASLt, for the autotuner (ops/library.c). The shared library is loaded on first
 * use, so the program runs without it. Requests only what the contract (the formulas that fix every bit,
 * docs/reference/arithmetic.md) allows: no workspace, no split-K, no epilogue. Whether an algorithm then adds in
 * the contract's order is tested by the autotuner, which compares bytes. One thread of a process uses it. */
#ifndef LS_DEVICE_CUDA_CUBLASLT_H
#define LS_DEVICE_CUDA_CUBLASLT_H

#include "device/calls.h"
#include "device/cuda/driver.h"

/* A handle of the library, for the GPU whose context was current when it was opened. */
typedef struct ls_cublaslt ls_cublaslt;

/* A strided batch of `batch` GEMMs C = A·B, or C = added + A·B, row-major like ls_gemm. The align_ members are the
 * alignments of the addresses, in bytes. */
typedef struct ls_lt_shape {
    ls_gemm_form form;
    ls_dtype dtype, c_dtype; /* of A and B; of C and `added` */
    size_t m, n, k;
    size_t lda, ldb, ldc, ldadded; /* elements from one row to the next, as stored */
    size_t batch;                  /* at least 1 */
    size_t a_step, b_step, c_step; /* elements from one GEMM of the batch to the next; c_step: of `added`, too */
    unsigned align_a, align_b, align_c, align_added;
} ls_lt_shape;

/* Memory of the device. `added` may be C itself. */
typedef struct ls_lt_operands {
    const void *a, *b, *added; /* added NULL: nothing is added */
    void *c;
} ls_lt_operands;

/* The library's descriptors of a shape. */
typedef struct ls_lt_product ls_lt_product;
/* An algorithm of the library (cublasLtMatmulAlgo_t), opaque; valid for the shape it was found for and with the same
 * version of the library, so it may be kept in a file. */
typedef struct ls_lt_algorithm {
    uint64_t words[8];
} ls_lt_algorithm;

/* Loads the library if needed and creates a handle, which the caller closes. LS_ERR_INPUT: the library is not
 * installed, or lacks a function. On failure *out is NULL. */
ls_status ls_cublaslt_open(ls_cublaslt **out);
/* Destroys a handle; its ls_lt_product must be closed before. The library stays loaded. NULL does nothing. */
void ls_cublaslt_close(ls_cublaslt *lt);
/* Loads the library if needed and sets *out to its version, 130000 for 13.0.0. LS_ERR_INPUT as above, with *out 0. */
ls_status ls_cublaslt_version(size_t *out);

/* Creates the descriptors of a shape, which the caller closes before the handle. LS_ERR_FAILED: the library does
 * not support it. On failure *out is NULL. */
ls_status ls_lt_product_open(ls_cublaslt *lt, const ls_lt_shape *shape, ls_lt_product **out);
/* Frees the descriptors. NULL does nothing. */
void ls_lt_product_close(ls_lt_product *product);
/* Asks the library's heuristic for up to `most` algorithms (16 at most) that need no workspace, fastest guess
 * first, and writes them to `out`. Returns how many; 0 also on failure. None is run, so its time and its bits are not
 * known. */
int ls_lt_product_guess(ls_lt_product *product, ls_lt_algorithm *out, int most);
/* Returns whether the heuristic lists this algorithm among its first `most` (16 at most). The caller asks before it
 * runs an algorithm that a file kept. */
bool ls_lt_product_takes(ls_lt_product *product, const ls_lt_algorithm *algorithm, int most);
/* Enqueues the GEMM on the stream; it runs after the call returns. LS_ERR_FAILED if the library refuses it. */
ls_status ls_lt_product_run(ls_lt_product *product, const ls_lt_algorithm *algorithm, const ls_lt_operands *operands,
                            CUstream stream);

#endif
