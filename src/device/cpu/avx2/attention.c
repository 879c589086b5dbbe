/* attention.c: causal attention with AVX2. */
#include "device/cpu/simd/avx2.h"

#define LSK_NAME(stem) stem##_avx2
#define LSK_GEMM_FILL ls_gemm_kernels_fill_avx2
#include "device/cpu/loops/attention_loops.h"

void ls_attention_kernels_fill_avx2(ls_attention_kernels *t) { fill_attention_avx2(t); }
