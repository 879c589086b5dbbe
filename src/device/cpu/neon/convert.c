/* convert.c: conversions of number formats for ARM64. */
#include "device/cpu/simd/neon.h"
#define LSK_NAME(stem) stem##_neon
#include "device/cpu/loops/convert_loops.h"

void ls_convert_kernels_fill_neon(ls_convert_kernels *table) { fill_neon(table); }
