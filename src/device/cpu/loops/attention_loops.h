/* attention_loops.h: causal attention, written once over v16 and the micro-kernel of the machine's matrix products.
 *
 * Included by one file per ISA, after its simd header, with LSK_NAME(stem) and LSK_GEMM_FILL, which fills the table of
 * the matrix products. */
#include <math.h>
#include <stddef.h>

#include "device/cpu/simd/math.h"

/* What is indexed by a loop counter stays in registers only when that loop is gone. */
#ifdef __clang__
#    define UNROLL_ALL _Pragma("clang loop unroll(full)")
#else
#    define UNROLL_ALL _Pragma("GCC unroll 8")
#endif

#include "device/cpu/loops/attention_tiles_loops.h"
/* Each of these needs what is above. */
#include "device/cpu/loops/attention_drop_loops.h"
#include "device/cpu/loops/attention_rows_loops.h"
#include "device/cpu/loops/attention_forward_loops.h"
#include "device/cpu/loops/attention_backward_loops.h"

static void LSK_NAME(fill_attention)(ls_attention_kernels *t) {
    t->forward = LSK_NAME(lsk_attention_forward);
    t->backward_dots = LSK_NAME(lsk_attention_backward_dots);
    t->backward = LSK_NAME(lsk_attention_backward);
    t->backward_queries = LSK_NAME(lsk_attention_backward_queries);
    t->backward_keys = LSK_NAME(lsk_attention_backward_keys);
}
