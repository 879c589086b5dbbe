/* passes.h: the operations that pass over arrays once (norms, activations, loss, optimizer …), which the probe measures
 * on a CPU or a GPU. */
#ifndef LS_LAB_PROBE_PASSES_H
#define LS_LAB_PROBE_PASSES_H

#include "device/ops.h"
#include "plan/native/machine.h"

enum { LS_PROBE_PASS_ARRAYS = 6 };

typedef struct ls_probe_pass {
    ls_device *device;
    ls_native_pass which;                     /* the pass to run */
    ls_dtype act, logits;                     /* types of activations and of logits */
    size_t elems, rows;                       /* rows of `columns`, which heads of 64 divide */
    size_t columns, vocabulary;               /* of rows; of rows of logits */
    int32_t id_end;                           /* of the table of tokens; at most `vocabulary` */
    size_t T, block;                          /* tokens of a sequence; as in ls_token_groups */
    int slices, groups, loss_slices;          /* at most 8 each */
    bool in_place;                            /* the gradient of logits takes their place */
    float *at[LS_PROBE_PASS_ARRAYS], *vector; /* as many elements as the largest pass; 3 · columns · slices */
    int32_t *ids;                             /* one for each row */
} ls_probe_pass;

/* Runs the pass pass->which once; an ls_timer_call, whose ctx is an ls_probe_pass. Overwrites the arrays of `pass`. */
ls_status ls_probe_pass_run(void *pass);
/* Returns whether the pass is measured in 16 bits or fp32 on that kind of device: fused passes only on a GPU; epilogues
 * of matmuls are not run here. */
bool ls_probe_pass_has(ls_native_pass which, bool is_16, bool is_gpu);

#endif
