/* gemm_thin_along_loops.h: the choice of a thin_along() whose rows and type are constants.
 *
 * Included by one file per ISA that has defined thin_along(k, rows, a, b, is_bf16, ldb, c, ldc), with THIN_ALONG (the
 * name of the function) set. */

LSK_INLINE void thin_along_rows(size_t k, size_t rows, const float *a, const void *b, bool is_bf16, size_t ldb,
                                float *c, size_t ldc) {
    switch (rows) {
    case 1: thin_along(k, 1, a, b, is_bf16, ldb, c, ldc); break;
    case 2: thin_along(k, 2, a, b, is_bf16, ldb, c, ldc); break;
    case 3: thin_along(k, 3, a, b, is_bf16, ldb, c, ldc); break;
    default: thin_along(k, 4, a, b, is_bf16, ldb, c, ldc); break;
    }
}

static void THIN_ALONG(size_t k, size_t rows, const float *a, const void *b, ls_dtype dtype, size_t ldb, float *c,
                       size_t ldc) {
    if (dtype == LS_BF16)
        thin_along_rows(k, rows, a, b, true, ldb, c, ldc);
    else
        thin_along_rows(k, rows, a, b, false, ldb, c, ldc);
}
