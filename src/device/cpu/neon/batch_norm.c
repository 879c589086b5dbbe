/* batch_norm.c: batch norm for ARM64. */
#include "device/cpu/simd/neon.h"
#define LSK_NAME(stem) stem##_neon
#include "device/cpu/loops/batch_norm_loops.h"

void ls_batch_norm_kernels_fill_neon(ls_batch_norm_kernels *table) { fill_neon(table); }
