/* loss.c: softmax cross-entropy for ARM64. */
#include "kernels/simd/neon.h"
#define LSK_NAME(stem) stem##_neon
#include "kernels/loops/loss_loops.h"

void ls_loss_kernels_fill_neon(ls_loss_kernels *table) { fill_neon(table); }
