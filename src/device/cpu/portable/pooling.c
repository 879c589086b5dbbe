/* pooling.c: pooling for any CPU. */
#define LSK_FMA_ONCE
#include "device/cpu/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
#include "device/cpu/loops/pooling_loops.h"

void ls_pooling_kernels_fill_portable(ls_pooling_kernels *table) { fill_portable(table); }
