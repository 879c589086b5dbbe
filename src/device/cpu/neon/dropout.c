/* dropout.c: dropout for ARM64. */
#include "device/cpu/simd/neon.h"
#define LSK_NAME(stem) stem##_neon
#include "device/cpu/loops/dropout_loops.h"

void ls_dropout_kernels_fill_neon(ls_dropout_kernels *table) { fill_neon(table); }
