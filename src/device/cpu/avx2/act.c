/* act.c: activations, bias and residual for x86-64 with AVX2 and FMA. */
#include "device/cpu/simd/avx2.h"
#define LSK_NAME(stem) stem##_avx2
#include "device/cpu/loops/act_loops.h"

void ls_act_kernels_fill_avx2(ls_act_kernels *table) { fill_avx2(table); }
