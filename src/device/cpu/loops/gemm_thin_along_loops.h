/* gemm_thin_along_loops.h: calls thin_along(), the matmul of a few rows with lines stored along k, with its rows and
 * type as constants, so that its loops unroll.
 *
 * Included by one file per ISA that has defined thin_along(k, rows, a, b, is_bf16, ldb, c, ldc), with THIN_ALONG (the
 * name of the function) set. */

/* Runs thin_along() for 1 to 4 rows. */
LSK_INLINE void thin_along_rows(size_t k, size_t rows, const float *a, const void *b, bool is_bf16, size_t ldb,
                                float *c, size_t ldc) {
    switch (rows) {
    case 1: thin_along(k, 1, a, b, is_bf16, ldb, c, ldc); break;
    case 2: thin_along(k, 2, a, b, is_bf16, ldb, c, ldc); break;
    case 3: thin_along(k, 3, a, b, is_bf16, ldb, c, ldc); break;
    default: thin_along(k, 4, a, b, is_bf16, ldb, c, ldc); break;
    }
}

/* Continues the chains of c for 1 to 4 rows; B is fp32 or bf16: ls_gemm_kernels.thin_along. */
static void THIN_ALONG(size_t k, size_t rows, const float *a, const void *b, ls_dtype dtype, size_t ldb, float *c,
                       size_t ldc) {
    if (dtype == LS_BF16)
        thin_along_rows(k, rows, a, b, true, ldb, c, ldc);
    else
        thin_along_rows(k, rows, a, b, false, ldb, c, ldc);
}
