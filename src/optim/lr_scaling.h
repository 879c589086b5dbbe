/* lr_scaling.h: how a learning rate that was found at one batch is carried over to another.
 *
 * With k = B / N, the batch of this run over the one that the rate is for, the rate is multiplied by k or by √k, both
 * in double and rounded once. Linear is for SGD: one step with the mean of a batch k times as large stands for k small
 * ones. The square root is for optimizers that divide by the gradient's own size, such as Adam: there a step is set by
 * the noise, whose spread falls with √k. Either ends where the batch comes near the noise scale (docs/numerics.md). */
#ifndef LS_OPTIM_LR_SCALING_H
#define LS_OPTIM_LR_SCALING_H

#include "config/choices.h"

/* What the rate of a batch of `base` is multiplied by for one of `batch`; both are whole numbers, at least 1. */
double ls_lr_scaling_factor(ls_lr_scaling scaling, double batch, double base);

#endif
