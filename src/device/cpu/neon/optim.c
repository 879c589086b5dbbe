/* optim.c: optimizer steps for ARM64. */
#include "device/cpu/simd/neon.h"
#define LSK_NAME(stem) stem##_neon
#include "device/cpu/loops/optim_loops.h"

void ls_optim_kernels_fill_neon(ls_optim_kernels *table) { fill_neon(table); }
