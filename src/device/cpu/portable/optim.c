/* optim.c: optimizer steps for any CPU. */
#include "device/cpu/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
#include "device/cpu/loops/optim_loops.h"

void ls_optim_kernels_fill_portable(ls_optim_kernels *table) { fill_portable(table); }
