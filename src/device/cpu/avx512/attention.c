/* attention.c: causal attention with AVX-512. */
#include "device/cpu/simd/avx512.h"

#define LSK_NAME(stem) stem##_avx512
#define LSK_GEMM_FILL ls_gemm_kernels_fill_avx512
#include "device/cpu/loops/attention_loops.h"

void ls_attention_kernels_fill_avx512(ls_attention_kernels *t) { fill_attention_avx512(t); }
