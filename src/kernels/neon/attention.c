/* attention.c: causal attention with NEON. */
#include "kernels/simd/neon.h"

#define LSK_NAME(stem) stem##_neon
#define LSK_GEMM_FILL ls_gemm_kernels_fill_neon
#include "kernels/loops/attention_loops.h"

void ls_attention_kernels_fill_neon(ls_attention_kernels *t) { fill_attention_neon(t); }
