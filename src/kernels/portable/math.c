/* math.c: the elementary functions for any CPU. */
#define LSK_FMA_ONCE
#include "kernels/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
#include "kernels/loops/math_loops.h"

void ls_math_kernels_fill_portable(ls_math_kernels *table) { lsk_math_fill_portable(table); }
