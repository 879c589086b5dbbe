/* batch_norm.c: batch norm for any CPU. */
#define LSK_FMA_ONCE
#include "kernels/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
#include "kernels/loops/batch_norm_loops.h"

void ls_batch_norm_kernels_fill_portable(ls_batch_norm_kernels *table) { fill_portable(table); }
