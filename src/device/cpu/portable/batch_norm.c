/* batch_norm.c: batch norm for any CPU. */
#define LSK_FMA_ONCE
#include "device/cpu/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
#include "device/cpu/loops/batch_norm_loops.h"

void ls_batch_norm_kernels_fill_portable(ls_batch_norm_kernels *table) { fill_portable(table); }
