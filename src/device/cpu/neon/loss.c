/* loss.c: softmax cross-entropy for ARM64. */
#include "device/cpu/simd/neon.h"
#define LSK_NAME(stem) stem##_neon
#include "device/cpu/loops/loss_loops.h"

void ls_loss_kernels_fill_neon(ls_loss_kernels *table) { fill_neon(table); }
