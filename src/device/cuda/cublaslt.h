/* cublaslt.h: plain products by NVIDIA's cuBLASLt, loaded when one is asked for. Only what the contract allows is asked
 * of it: one chain along k, no sum split over k, nothing behind the product. Whether it keeps to that is not believed
 * but compared (ops/library.c). */
#ifndef LS_DEVICE_CUDA_CUBLASLT_H
#define LS_DEVICE_CUDA_CUBLASLT_H

#include "device/calls.h"
#include "device/cuda/driver.h"

/* The library with a GPU, which the context that is current belongs to. */
typedef struct ls_cublaslt ls_cublaslt;

/* `batch` products C = A·B at equal distances, rows as ls_gemm has them; or C = added + A·B. Addresses are multiples of
 * `align` bytes. */
typedef struct ls_lt_shape {
    ls_gemm_form form;
    ls_dtype dtype, c_dtype;
    size_t m, n, k;
    size_t lda, ldb, ldc, ldadded;
    size_t batch;
    size_t a_step, b_step, c_step; /* elements from one product to the next */
    unsigned align_a, align_b, align_c, align_added;
} ls_lt_shape;

typedef struct ls_lt_operands {
    const void *a, *b, *added; /* added NULL: nothing is */
    void *c;
} ls_lt_operands;

/* A shape in the library's own words; and a way to make it, which is good for the same version of the library. */
typedef struct ls_lt_product ls_lt_product;
typedef struct ls_lt_algorithm {
    uint64_t words[8];
} ls_lt_algorithm;

/* LS_ERR_INPUT: it is not here, or lacks something. On failure *out is NULL. */
ls_status ls_cublaslt_open(ls_cublaslt **out);
void ls_cublaslt_close(ls_cublaslt *lt); /* NULL does nothing */
/* 130000 is 13.0.0. Loads it; LS_ERR_INPUT as above. */
ls_status ls_cublaslt_version(size_t *out);

/* LS_ERR_FAILED: it does not take such a product. */
ls_status ls_lt_product_open(ls_cublaslt *lt, const ls_lt_shape *shape, ls_lt_product **out);
void ls_lt_product_close(ls_lt_product *product); /* NULL does nothing */
/* Algorithms without memory of their own, best guess first: at most `most`, and how many. */
int ls_lt_product_guess(ls_lt_product *product, ls_lt_algorithm *out, int most);
/* Whether it would guess this one, as it was kept from another time. */
bool ls_lt_product_takes(ls_lt_product *product, const ls_lt_algorithm *algorithm, int most);
ls_status ls_lt_product_run(ls_lt_product *product, const ls_lt_algorithm *algorithm, const ls_lt_operands *operands,
                            CUstream stream);

#endif
