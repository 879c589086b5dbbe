/* batch_norm.c: batch norm for x86-64 with AVX-512. */
#include "device/cpu/simd/avx512.h"
#define LSK_NAME(stem) stem##_avx512
#include "device/cpu/loops/batch_norm_loops.h"

void ls_batch_norm_kernels_fill_avx512(ls_batch_norm_kernels *table) { fill_avx512(table); }
