/* conv_bn.h: a convolution and the batch norm behind it, with its ReLU and what is added before it.
 *
 *     x ─ conv ─ c ─ norm ─ + residual ─ ReLU ─ y          statistics over ghost groups of images, or over
 *                                                         the whole batch, whichever workers have them
 *
 * Running statistics are parameters whose gradient is the sum of the statistics of all ghost groups, so they are
 * joined, saved and hashed as gradients and weights are; the optimizer lets them follow (optim/optimizer.h). */
#ifndef LS_NN_CONV_BN_H
#define LS_NN_CONV_BN_H

#include "nn/block.h"

/* Images of a step over which statistics are taken: those of the batch, or of a ghost group. */
static inline size_t ls_norm_images(const ls_nn *nn) { return nn->sync.groups > 0 ? nn->sync.batch : nn->ghost; }

/* Adds the five parameters of the block's conv_bn u, with this number behind "conv" and "norm". */
void ls_conv_bn_declare(ls_block *block, int u, const char *number);
/* Of all that the block has, as its table wants them (block.h). */
void ls_conv_bn_carve_saved(const ls_block *block, ls_saved *saved, const ls_nn *nn, unsigned parts, ls_arena *arena);
void ls_conv_bn_carve_kept(const ls_block *block, ls_kept *kept, const ls_nn *nn, ls_arena *arena);
void ls_conv_bn_carve_scratch(const ls_block *block, ls_scratch *scratch, const ls_nn *nn, bool for_backward,
                              ls_arena *arena);

/* saved.y, and all that backward needs, from x and, unless it is NULL, the residual. */
ls_status ls_conv_bn_forward(ls_block *block, ls_nn *nn, int u, const float *x, const float *residual);
/* dc, sum and dot from the gradient of y; that of the residual to dresidual, unless it is NULL. */
ls_status ls_conv_bn_backward(ls_block *block, const ls_nn *nn, int u, const float *dy, const ls_conv_bn_grads *grads,
                              float *dresidual);
/* The gradient of x, from dc. */
ls_status ls_conv_bn_input(ls_block *block, const ls_nn *nn, int u, const ls_conv_bn_grads *grads, float *dx);
/* Those of the five parameters. */
ls_status ls_conv_bn_weights(ls_block *block, const ls_nn *nn, int u, const float *x, const ls_conv_bn_grads *grads);
/* How the running statistics of a block follow, taken over so many images together. */
void ls_conv_bn_settle(ls_block *block, size_t images);

#endif
