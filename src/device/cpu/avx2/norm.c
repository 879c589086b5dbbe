/* norm.c: norms for x86-64 with AVX2 and FMA. */
#include "device/cpu/simd/avx2.h"
#define LSK_NAME(stem) stem##_avx2
enum { FORWARD_ROWS = 4, BACKWARD_ROWS = 2, PARAM_ROWS = 4 };
#include "device/cpu/loops/norm_loops.h"

void ls_norm_kernels_fill_avx2(ls_norm_kernels *table) { fill_avx2(table); }
