/* kernels.h: the table of functions that touch the memory of tensors, one small struct for each family.
 *
 * Filled once, from portable C upwards: each ISA overrides a family where it does better, and all give the same bits:
 * the contract is docs/arithmetic.md. A kernel allocates nothing and keeps nothing; scratch comes from the caller. What
 * may be split among threads stands with each kernel. */
#ifndef LS_DEVICE_CPU_KERNELS_H
#define LS_DEVICE_CPU_KERNELS_H

#include "device/cpu/act.h"
#include "device/cpu/add.h"
#include "device/cpu/attention.h"
#include "device/cpu/batch_norm.h"
#include "device/cpu/convert.h"
#include "device/cpu/dropout.h"
#include "device/cpu/embed.h"
#include "device/cpu/gemm/gemm.h"
#include "device/cpu/loss.h"
#include "device/cpu/math.h"
#include "device/cpu/norm.h"
#include "device/cpu/optim.h"
#include "device/cpu/pooling.h"
#include "device/cpu/rope.h"

typedef struct ls_kernels {
    const char *isa;
    ls_add_kernels add;
    ls_gemm_kernels gemm;
    ls_math_kernels math;
    ls_norm_kernels norm;
    ls_batch_norm_kernels batch_norm;
    ls_act_kernels act;
    ls_pooling_kernels pooling;
    ls_rope_kernels rope;
    ls_dropout_kernels dropout;
    ls_embed_kernels embed;
    ls_loss_kernels loss;
    ls_attention_kernels attention;
    ls_attention_kernels attention_bfmmla; /* bf16 with LS_UNIT_BFMMLA; all NULL where the CPU lacks it */
    ls_optim_kernels optim;
    ls_convert_kernels convert;
} ls_kernels;

/* The table for this CPU, less what --isa or LS_ISA switch off. */
const ls_kernels *ls_kernels_get(void);
/* The table that a CPU with at most this ISA would use; for tests and benchmarks. The CPU must have it. */
void ls_kernels_fill(ls_kernels *table, unsigned isa_mask);

#endif
