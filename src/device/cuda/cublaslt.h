/* cublaslt.h: GEMMs by NVIDIA's cuBLASLt, loaded on first use. Requests only what the contract allows: no workspace, no
 * split-K, no epilogue. Whether an algorithm then adds in the contract's order is tested by comparing bytes
 * (ops/library.c). One thread of a process uses it. */
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
    ls_dtype dtype, c_dtype;
    size_t m, n, k;
    size_t lda, ldb, ldc, ldadded;
    size_t batch;
    size_t a_step, b_step, c_step; /* elements from one GEMM of the batch to the next */
    unsigned align_a, align_b, align_c, align_added;
} ls_lt_shape;

typedef struct ls_lt_operands {
    const void *a, *b, *added; /* added NULL: nothing is added */
    void *c;
} ls_lt_operands;

/* The library's descriptors of a shape; and an algorithm for it, valid with the same version of the library. */
typedef struct ls_lt_product ls_lt_product;
typedef struct ls_lt_algorithm {
    uint64_t words[8];
} ls_lt_algorithm;

/* Creates a handle. LS_ERR_INPUT: the library is not installed, or lacks a function. On failure *out is NULL. */
ls_status ls_cublaslt_open(ls_cublaslt **out);
void ls_cublaslt_close(ls_cublaslt *lt); /* NULL does nothing */
/* Sets *out to the version, 130000 for 13.0.0. Loads the library; LS_ERR_INPUT as above. */
ls_status ls_cublaslt_version(size_t *out);

/* Creates the descriptors of a shape, which the caller closes. LS_ERR_FAILED: the library does not support it. */
ls_status ls_lt_product_open(ls_cublaslt *lt, const ls_lt_shape *shape, ls_lt_product **out);
void ls_lt_product_close(ls_lt_product *product); /* NULL does nothing */
/* Asks the library's heuristic for up to `most` algorithms (16 at most) that need no workspace, fastest guess first.
 * Returns how many; 0 also on failure. */
int ls_lt_product_guess(ls_lt_product *product, ls_lt_algorithm *out, int most);
/* Returns whether the heuristic still lists an algorithm, such as one that a file kept, among its first `most`. */
bool ls_lt_product_takes(ls_lt_product *product, const ls_lt_algorithm *algorithm, int most);
/* Enqueues the GEMM on the stream. */
ls_status ls_lt_product_run(ls_lt_product *product, const ls_lt_algorithm *algorithm, const ls_lt_operands *operands,
                            CUstream stream);

#endif
