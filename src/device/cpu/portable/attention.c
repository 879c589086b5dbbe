/* attention.c: causal attention for any CPU. */
#include "device/cpu/simd/portable.h"

#define LSK_NAME(stem) stem##_portable
#define LSK_GEMM_FILL ls_gemm_kernels_fill_portable
#include "device/cpu/loops/attention_loops.h"

void ls_attention_kernels_fill_portable(ls_attention_kernels *t) { fill_attention_portable(t); }
