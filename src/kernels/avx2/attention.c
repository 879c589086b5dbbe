/* attention.c: causal attention with AVX2. */
#include "kernels/simd/avx2.h"

#define LSK_NAME(stem) stem##_avx2
#define LSK_GEMM_FILL ls_gemm_kernels_fill_avx2
#include "kernels/loops/attention_loops.h"

void ls_attention_kernels_fill_avx2(ls_attention_kernels *t) { fill_attention_avx2(t); }
