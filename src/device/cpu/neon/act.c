/* act.c: activations, bias and residual for ARM64. */
#include "device/cpu/simd/neon.h"
#define LSK_NAME(stem) stem##_neon
#include "device/cpu/loops/act_loops.h"

void ls_act_kernels_fill_neon(ls_act_kernels *table) { fill_neon(table); }
