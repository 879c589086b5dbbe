/* norm.c: norms for ARM64. */
#include "device/cpu/simd/neon.h"
#define LSK_NAME(stem) stem##_neon
enum { FORWARD_ROWS = 2, BACKWARD_ROWS = 1, PARAM_ROWS = 4 };
#include "device/cpu/loops/norm_loops.h"

void ls_norm_kernels_fill_neon(ls_norm_kernels *table) { fill_neon(table); }
