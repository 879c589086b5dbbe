/* norm.c: norms for any CPU. */
#include "kernels/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
enum { FORWARD_ROWS = 1, BACKWARD_ROWS = 1, PARAM_ROWS = 1 };
#include "kernels/loops/norm_loops.h"

void ls_norm_kernels_fill_portable(ls_norm_kernels *table) { fill_portable(table); }
