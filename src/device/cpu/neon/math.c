/* math.c: the elementary functions with NEON. */
#include "device/cpu/simd/neon.h"
#define LSK_NAME(stem) stem##_neon
#include "device/cpu/loops/math_loops.h"

void ls_math_kernels_fill_neon(ls_math_kernels *table) { lsk_math_fill_neon(table); }
