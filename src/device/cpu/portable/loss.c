/* loss.c: softmax cross-entropy for any CPU. */
#include "device/cpu/simd/portable.h"
#define LSK_NAME(stem) stem##_portable
#include "device/cpu/loops/loss_loops.h"

void ls_loss_kernels_fill_portable(ls_loss_kernels *table) { fill_portable(table); }
