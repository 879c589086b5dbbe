/* rope.c: rotary embedding for ARM64. */
#include "device/cpu/simd/neon.h"
#define LSK_NAME(stem) stem##_neon
#include "device/cpu/loops/rope_loops.h"

void ls_rope_kernels_fill_neon(ls_rope_kernels *table) { fill_neon(table); }
