/* convert.c: conversions of number formats for any CPU. */
#include "kernels/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
#include "kernels/loops/convert_loops.h"

void ls_convert_kernels_fill_portable(ls_convert_kernels *table) { fill_portable(table); }
