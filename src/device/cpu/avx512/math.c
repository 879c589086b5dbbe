/* math.c: the elementary functions with AVX-512. */
#include "device/cpu/simd/avx512.h"
#define LSK_NAME(stem) stem##_avx512
#include "device/cpu/loops/math_loops.h"

void ls_math_kernels_fill_avx512(ls_math_kernels *table) { lsk_math_fill_avx512(table); }
