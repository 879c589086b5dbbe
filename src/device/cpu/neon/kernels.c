/* kernels.c: the kernels for ARM64 with NEON, and attention of bf16 with BFMMLA; the matmuls are in gemm.c. */
#include "device/cpu/simd/neon.h"

#define LSK_NAME(stem) stem##_neon
#define LSK_WIDTH 16
enum { FORWARD_ROWS = 2, BACKWARD_ROWS = 1, PARAM_ROWS = 4 };
#include "device/cpu/loops/kernels_loops.h"
/* Each of these needs what is above. */
#include "device/cpu/neon/bfmmla_loops.h"
#include "device/cpu/neon/attention_unit_forward_loops.h"
#include "device/cpu/neon/attention_unit_backward_loops.h"

void ls_attention_kernels_fill_bfmmla(ls_attention_kernels *table) {
    *table = (ls_attention_kernels){.forward = lsk_attention_forward_bfmmla,
                                    .backward_dots = lsk_attention_backward_dots_neon,
                                    .backward = lsk_attention_backward_bfmmla,
                                    .backward_queries = lsk_attention_backward_queries_bfmmla,
                                    .backward_keys = lsk_attention_backward_keys_bfmmla};
}
