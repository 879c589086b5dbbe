/* norm.c: norms for any CPU. */
#include "device/cpu/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
enum { FORWARD_ROWS = 1, BACKWARD_ROWS = 1, PARAM_ROWS = 1 };
#include "device/cpu/loops/norm_loops.h"

void ls_norm_kernels_fill_portable(ls_norm_kernels *table) { fill_portable(table); }
