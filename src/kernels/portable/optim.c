/* optim.c: optimizer steps for any CPU. */
#include "kernels/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
#include "kernels/loops/optim_loops.h"

void ls_optim_kernels_fill_portable(ls_optim_kernels *table) { fill_portable(table); }
