/* rope.c: rotary embedding for any CPU. */
#include "device/cpu/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
#include "device/cpu/loops/rope_loops.h"

void ls_rope_kernels_fill_portable(ls_rope_kernels *table) { fill_portable(table); }
