/* conv_bn.h: a convolution and the batch norm behind it, with its ReLU and the residual that is added before it.
 *
 *     x ─ conv ─ c ─ norm ─ + residual ─ ReLU ─ y          statistics over ghost groups of images, or over
 *                                                         the whole batch, whichever workers have them
 *
 * A ghost group is a fixed number of images of the batch (--ghost), so the statistics do not depend on the layout. For
 * the stem and the residual blocks of ResNet. `u` is the number of a conv_bn in its block.
 *
 * The running mean and variance are parameters whose gradient is the sum of the statistics of all ghost groups, so that
 * they are reduced, saved and hashed as gradients and weights are. Instead of a step of SGD or AdamW, the optimizer
 * moves them towards the mean of these statistics (optim/optimizer.h). */
#ifndef LS_NN_IMAGES_CONV_BN_H
#define LS_NN_IMAGES_CONV_BN_H

#include "nn/block.h"

/* What backward of a convolution with its batch norm needs. */
typedef struct ls_conv_bn_saved {
    float *c, *y;             /* [images][…] the convolution's result, and that of all */
    float *mean, *rstd, *var; /* [ghost group][channel] */
} ls_conv_bn_saved;

/* Gradients of one conv_bn, from which those of its weights are computed. */
typedef struct ls_conv_bn_grads {
    float *dc;        /* [images][…] of the convolution's result */
    float *sum, *dot; /* [ghost group][channel] sums of the gradient; of the gradient times the normalized value */
} ls_conv_bn_grads;

/* State of a block that has conv_bns, of any kind: what forward saves, what the first phase of backward keeps for the
 * second, and what a pass needs only while it runs. */
typedef struct ls_conv_bns_saved {
    ls_conv_bn_saved unit[LS_CONV_BN_MAX];
    uint32_t *taps; /* where each window of the stem's pooling had its maximum */
} ls_conv_bns_saved;

typedef struct ls_conv_bns_kept {
    ls_conv_bn_grads unit[LS_CONV_BN_MAX];
} ls_conv_bns_kept;

typedef struct ls_conv_bns_scratch {
    ls_conv_bn_grads unit[LS_CONV_BN_MAX];
    /* Only where batch norm is that of the whole batch, one row as wide as the widest conv_bn: */
    float *gathered;     /* [gradient group of the step][channel] sums of all workers */
    float *joined_stats; /* [2][channel] sums over all groups: in forward one row, in backward of gradient and dot */
    float *dpre;         /* stem: gradient in front of the pooling; residual block: of conv_bn 1's input */
    float *shortcut;     /* residual block: gradient of what the skip path adds */
    float *side;         /* residual block with a convolution on the skip path: gradient of x through it */
} ls_conv_bns_scratch;

/* Returns the gradients that this phase of backward writes or reads. */
static inline const ls_conv_bn_grads *ls_conv_bn_grads_of(const ls_block *block, ls_block_pass phase) {
    const ls_conv_bns_scratch *scratch = block->scratch;
    const ls_conv_bns_kept *kept = block->kept;
    return phase == LS_BACKWARD_BOTH ? scratch->unit : kept->unit;
}

/* Adds the five parameters of the block's conv_bn u: weight of the convolution; weight, bias, running mean and running
 * variance of the norm. Their names have `number` after "conv" and "norm". */
void ls_conv_bn_declare(ls_block *block, int u, const char *number);
/* Takes memory from the arena for the saved tensors of all conv_bns of a block, if `parts`, a set of LS_SAVE_…, has
 * LS_SAVE_WIDE (ls_block_kind.carve_saved). */
void ls_conv_bn_carve_saved(const ls_block *block, void *saved, const ls_nn *nn, unsigned parts, ls_arena *arena);
/* Takes memory from the arena for the gradients that the first phase of backward leaves for the weight gradients; sets
 * the pointers in `kept`, an ls_conv_bns_kept (ls_block_kind.carve_kept). */
void ls_conv_bn_carve_kept(const ls_block *block, void *kept, const ls_nn *nn, ls_arena *arena);
/* Takes memory from the arena for the gradients of all conv_bns, and for statistics of the whole batch; nothing
 * unless for_backward (ls_block_kind.carve_scratch). */
void ls_conv_bn_carve_scratch(const ls_block *block, void *scratch, ls_scratch *shared, const ls_nn *nn,
                              bool for_backward, ls_arena *arena);
/* Counts the collectives of batch norm over the whole batch in a pass that first recomputes the classes `again`, a set
 * of LS_SAVE_… (ls_block_kind.traffic). */
ls_block_traffic ls_conv_bn_traffic(const ls_block *block, ls_block_pass pass, unsigned again);
/* Sets ls_param.follow of the running statistics: the factor of the mean over ghost groups towards which they move. It
 * is 1 for means, and n / (n − 1) for variances of n > 1 numbers. Does nothing without ghost groups. */
void ls_conv_bn_settle(ls_block *block, const ls_nn *nn);

/* Computes conv_bn u's y, and what backward needs, in its saved tensors, from x and the residual (or NULL). */
ls_status ls_conv_bn_forward(ls_block *block, ls_nn *nn, int u, const float *x, const float *residual);
/* Computes dc, sum and dot from dy, and the gradient of the residual in dresidual (or NULL). */
ls_status ls_conv_bn_backward(ls_block *block, const ls_nn *nn, int u, const float *dy, const ls_conv_bn_grads *grads,
                              float *dresidual);
/* Computes the gradient of x from dc. */
ls_status ls_conv_bn_input(ls_block *block, const ls_nn *nn, int u, const ls_conv_bn_grads *grads, float *dx);
/* Computes the gradients of the five parameters, group by group, in the order of nn->grads.steps (nn/grad_plan.h). */
ls_status ls_conv_bn_weights(ls_block *block, const ls_nn *nn, int u, const float *x, const ls_conv_bn_grads *grads);

#endif
