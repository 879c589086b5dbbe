/* math.c: the elementary functions with AVX2. */
#include "kernels/simd/avx2.h"
#define LSK_NAME(stem) stem##_avx2
#include "kernels/loops/math_loops.h"

void ls_math_kernels_fill_avx2(ls_math_kernels *table) { lsk_math_fill_avx2(table); }
