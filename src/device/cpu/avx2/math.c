/* math.c: the elementary functions with AVX2. */
#include "device/cpu/simd/avx2.h"
#define LSK_NAME(stem) stem##_avx2
#include "device/cpu/loops/math_loops.h"

void ls_math_kernels_fill_avx2(ls_math_kernels *table) { lsk_math_fill_avx2(table); }
