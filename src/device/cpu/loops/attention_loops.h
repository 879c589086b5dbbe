/* attention_loops.h: attention, written once over v16 and the micro-kernel of the machine's matmuls.
 *
 * Included by kernels_loops.h. */
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

static const ls_attention_kernels attention_kernels = {
    .forward = LSK_NAME(lsk_attention_forward),
    .backward_dots = LSK_NAME(lsk_attention_backward_dots),
    .backward = LSK_NAME(lsk_attention_backward),
    .backward_queries = LSK_NAME(lsk_attention_backward_queries),
    .backward_keys = LSK_NAME(lsk_attention_backward_keys),
};
