/* convert.c: conversions of number formats for any CPU. */
#include "device/cpu/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
#include "device/cpu/loops/convert_loops.h"

void ls_convert_kernels_fill_portable(ls_convert_kernels *table) { fill_portable(table); }
