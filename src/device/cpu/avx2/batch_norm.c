/* batch_norm.c: batch norm for x86-64 with AVX2 and FMA. */
#include "device/cpu/simd/avx2.h"
#define LSK_NAME(stem) stem##_avx2
#include "device/cpu/loops/batch_norm_loops.h"

void ls_batch_norm_kernels_fill_avx2(ls_batch_norm_kernels *table) { fill_avx2(table); }
