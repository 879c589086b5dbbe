/* rope.c: rotary embedding for ARM64. */
#include "kernels/simd/neon.h"
#define LSK_NAME(stem) stem##_neon
#include "kernels/loops/rope_loops.h"

void ls_rope_kernels_fill_neon(ls_rope_kernels *table) { fill_neon(table); }
