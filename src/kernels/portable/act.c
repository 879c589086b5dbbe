/* act.c: activations, bias and residual for any CPU. */
#define LSK_FMA_ONCE
#include "kernels/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
#include "kernels/loops/act_loops.h"

void ls_act_kernels_fill_portable(ls_act_kernels *table) { fill_portable(table); }
