/* kernels_loops.h: every kernel but the matmuls, written once over a vector of 16 lanes, and the table of them.
 *
 * Included by one file per ISA after its vector type (simd/), with these set:
 *
 *     LSK_NAME(stem)                            the name of the ISA's own function: stem_avx2
 *     LSK_WIDTH, LSK_STREAM(to, from)           bytes of a vector, and its store past the caches, if there is one
 *     FORWARD_ROWS, BACKWARD_ROWS, PARAM_ROWS   rows of a norm that go through a loop together (norm_loops.h) */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "device/cpu/kernels.h"
#include "device/cpu/simd/math.h"

#include "device/cpu/loops/part_loops.h"
/* Each of these needs what is above. */
#include "device/cpu/loops/act_loops.h"
#include "device/cpu/loops/add_loops.h"
#include "device/cpu/loops/attention_loops.h"
#include "device/cpu/loops/batch_norm_loops.h"
#include "device/cpu/loops/convert_loops.h"
#include "device/cpu/loops/dropout_loops.h"
#include "device/cpu/loops/embed_loops.h"
#include "device/cpu/loops/loss_loops.h"
#include "device/cpu/loops/math_loops.h"
#include "device/cpu/loops/norm_loops.h"
#include "device/cpu/loops/optim_loops.h"
#include "device/cpu/loops/pooling_loops.h"
#include "device/cpu/loops/rope_loops.h"

/* Sets the conversions of this ISA. */
void LSK_NAME(ls_convert_kernels_fill)(ls_convert_kernels *table) { *table = convert_kernels; }

/* Sets the whole table to this ISA's kernels; attention of matrix units is left empty (ls_kernels_fill() adds it). */
void LSK_NAME(ls_kernels_fill)(ls_kernels *table) {
    *table = (ls_kernels){
        .isa = LSK_SIMD,
        .add = add_kernels,
        .math = math_kernels,
        .norm = norm_kernels,
        .batch_norm = batch_norm_kernels,
        .act = act_kernels,
        .pooling = pooling_kernels,
        .rope = rope_kernels,
        .dropout = dropout_kernels,
        .embed = embed_kernels,
        .loss = loss_kernels,
        .attention = attention_kernels,
        .optim = optim_kernels,
        .convert = convert_kernels,
    };
    LSK_NAME(ls_gemm_kernels_fill)(&table->gemm);
}
