/* norm_sync.h: statistics of batch norm over the whole batch, whichever workers have its images.
 *
 * Each gradient group has a row of sums; all rows are brought together and added up by the tree over the groups, as
 * gradients are. So the result is that of one worker, to the bit. All images of a step must be at the norm at once: a
 * worker has its share of them in one micro-batch. */
#ifndef LS_NN_NORM_SYNC_H
#define LS_NN_NORM_SYNC_H

#include "nn/block.h"

/* Images of a step over which statistics are taken: those of the batch, or of a ghost group. */
static inline size_t ls_norm_images(const ls_nn *nn) { return nn->sync.groups > 0 ? nn->sync.batch : nn->ghost; }

/* scratch->gathered and ->joined, for units of so many channels. */
void ls_norm_sync_carve(const ls_nn *nn, size_t channels, ls_scratch *scratch, ls_arena *arena);
/* Statistics of the batch to each row of call->mean, ->rstd and ->var; then y. */
ls_status ls_norm_sync_forward(const ls_nn *nn, ls_batch_norm_call call);
/* From the sums of this worker's groups, which are in call->sum and ->dot: dx and dresidual. */
ls_status ls_norm_sync_backward(const ls_nn *nn, ls_batch_norm_call call);

#endif
