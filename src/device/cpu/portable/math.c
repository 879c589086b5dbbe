/* math.c: the elementary functions for any CPU. */
#define LSK_FMA_ONCE
#include "device/cpu/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
#include "device/cpu/loops/math_loops.h"

void ls_math_kernels_fill_portable(ls_math_kernels *table) { lsk_math_fill_portable(table); }
