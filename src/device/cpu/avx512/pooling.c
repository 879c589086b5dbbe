/* pooling.c: pooling for x86-64 with AVX-512. */
#include "device/cpu/simd/avx512.h"
#define LSK_NAME(stem) stem##_avx512
#include "device/cpu/loops/pooling_loops.h"

void ls_pooling_kernels_fill_avx512(ls_pooling_kernels *table) { fill_avx512(table); }
