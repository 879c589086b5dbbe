/* dropout.c: dropout for any CPU. */
#include "device/cpu/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
#include "device/cpu/loops/dropout_loops.h"

void ls_dropout_kernels_fill_portable(ls_dropout_kernels *table) { fill_portable(table); }
