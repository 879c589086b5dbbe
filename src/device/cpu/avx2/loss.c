/* loss.c: softmax cross-entropy for x86-64 with AVX2 and FMA. */
#include "device/cpu/simd/avx2.h"
#define LSK_NAME(stem) stem##_avx2
#include "device/cpu/loops/loss_loops.h"

void ls_loss_kernels_fill_avx2(ls_loss_kernels *table) { fill_avx2(table); }
