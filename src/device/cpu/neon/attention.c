/* attention.c: causal attention with NEON, and with BFMMLA for bf16. */
#include "device/cpu/simd/neon.h"

#define LSK_NAME(stem) stem##_neon
#define LSK_GEMM_FILL ls_gemm_kernels_fill_neon
#include "device/cpu/loops/attention_loops.h"
#include "device/cpu/neon/bfmmla_loops.h"
/* Each of these needs what is above. */
#include "device/cpu/neon/attention_unit_forward_loops.h"
#include "device/cpu/neon/attention_unit_backward_loops.h"

void ls_attention_kernels_fill_neon(ls_attention_kernels *t) { fill_attention_neon(t); }

void ls_attention_kernels_fill_bfmmla(ls_attention_kernels *t) {
    *t = (ls_attention_kernels){.forward = lsk_attention_forward_bfmmla,
                                .backward_dots = lsk_attention_backward_dots_neon,
                                .backward = lsk_attention_backward_bfmmla,
                                .backward_queries = lsk_attention_backward_queries_bfmmla,
                                .backward_keys = lsk_attention_backward_keys_bfmmla};
}
