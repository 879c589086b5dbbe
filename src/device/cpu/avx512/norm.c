/* norm.c: norms for x86-64 with AVX-512. */
#include "device/cpu/simd/avx512.h"
#define LSK_NAME(stem) stem##_avx512
enum { FORWARD_ROWS = 4, BACKWARD_ROWS = 4, PARAM_ROWS = 4 };
#include "device/cpu/loops/norm_loops.h"

void ls_norm_kernels_fill_avx512(ls_norm_kernels *table) { fill_avx512(table); }
