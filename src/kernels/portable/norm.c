/* norm.c: norms for any CPU. */
#include "kernels/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
#include "kernels/loops/norm_loops.h"

void ls_norm_kernels_fill_portable(ls_norm_kernels *table) { fill_portable(table); }
