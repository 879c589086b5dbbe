/* act.c: activations, bias and residual for any CPU. */
#define LSK_FMA_ONCE
#include "device/cpu/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
#include "device/cpu/loops/act_loops.h"

void ls_act_kernels_fill_portable(ls_act_kernels *table) { fill_portable(table); }
