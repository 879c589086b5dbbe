/* pooling.c: pooling for ARM64. */
#include "device/cpu/simd/neon.h"
#define LSK_NAME(stem) stem##_neon
#include "device/cpu/loops/pooling_loops.h"

void ls_pooling_kernels_fill_neon(ls_pooling_kernels *table) { fill_neon(table); }
