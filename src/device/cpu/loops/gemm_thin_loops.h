/* gemm_thin_loops.h: chains of a few rows with rows of a wide operand, over v16.
 *
 * Included by the gemm.c of each ISA. A few k at a time are applied to all columns, so that the wide operand is read in
 * long runs; each chain still takes its k in ascending order. */
#include "device/cpu/gemm/gemm.h"

/* k that are applied at a time; and runs of fewer columns than THIN_LONG do not start the hardware prefetcher. */
enum { THIN_K = 8, THIN_LONG = 512 };

#ifdef __clang__
#    define THIN_UNROLL _Pragma("clang loop unroll(full)")
#else
#    define THIN_UNROLL _Pragma("GCC unroll 8")
#endif

/* Continues the chains with `k` values, for `rows` rows; both are constants. */
LSK_INLINE void thin_step(size_t k, size_t rows, const float *a, const float *b, size_t ldb, float *c, size_t ldc,
                          size_t columns) {
    for (size_t j = 0; j < columns; j += LS_GEMM_THIN_LANES) {
        v16 sums[LS_GEMM_THIN_ROWS];
        THIN_UNROLL
        for (size_t r = 0; r < rows; r++) sums[r] = v16_load(c + r * ldc + j);
        THIN_UNROLL
        for (size_t p = 0; p < k; p++) {
            v16 row = v16_load(b + p * ldb + j);
            if (columns < THIN_LONG) __builtin_prefetch(b + (p + k) * ldb + j);
            THIN_UNROLL
            for (size_t r = 0; r < rows; r++) sums[r] = v16_fma(v16_set1(a[p * LS_GEMM_THIN_ROWS + r]), row, sums[r]);
        }
        THIN_UNROLL
        for (size_t r = 0; r < rows; r++) v16_store(c + r * ldc + j, sums[r]);
    }
}

/* Continues the chains of `rows` rows, a constant, over all k. */
LSK_INLINE void thin_rows(size_t k, size_t rows, const float *a, const float *b, size_t ldb, float *c, size_t ldc,
                          size_t columns) {
    size_t p = 0;
    for (; p + THIN_K <= k; p += THIN_K)
        thin_step(THIN_K, rows, a + p * LS_GEMM_THIN_ROWS, b + p * ldb, ldb, c, ldc, columns);
    for (; p < k; p++) thin_step(1, rows, a + p * LS_GEMM_THIN_ROWS, b + p * ldb, ldb, c, ldc, columns);
}

/* Continues the chains of 1 to 4 rows of c; columns are a multiple of 16: ls_gemm_kernels.thin. */
static void LSK_NAME(lsk_gemm_thin_f32)(size_t k, size_t rows, const float *a, const float *b, size_t ldb, float *c,
                                        size_t ldc, size_t columns) {
    switch (rows) {
    case 1: thin_rows(k, 1, a, b, ldb, c, ldc, columns); break;
    case 2: thin_rows(k, 2, a, b, ldb, c, ldc, columns); break;
    case 3: thin_rows(k, 3, a, b, ldb, c, ldc, columns); break;
    default: thin_rows(k, 4, a, b, ldb, c, ldc, columns); break;
    }
}
