/* model.h: builds models from shapes: embedding, transformer blocks, head, or the blocks of image models. Runs, the
 * planner and conversions call it. The model (nn/blocks.h) has names, sizes and an order of parameters, but no memory
 * for them. */
#ifndef LS_MODEL_MODEL_H
#define LS_MODEL_MODEL_H

#include "nn/blocks.h"

/* Builds the list of blocks with all their parameters, which have no memory yet. Checks the shape first. `slices` is
 * the number of fixed parts into which layers are cut for tensor parallelism: a power of two, at most the number of
 * key/value heads and LS_SLICES_MAX, else LS_ERR_INPUT. There are L + 2 blocks. All slices are this worker's at first.
 * The caller destroys *out; on failure it is NULL. */
ls_status ls_model_create(const ls_shape *shape, int slices, ls_model **out);
/* Frees the model and its blocks; NULL is allowed. The memory that parameters point to belongs to the partition. */
void ls_model_destroy(ls_model *model);

/* Returns the number of parameters of a transformer of this shape (not of an image model), which has been checked,
 * without making the model. */
double ls_model_count_params(const ls_shape *shape);

/* Returns the default of --slices: the largest power of two ≤ min(8, kv heads), with a matrix unit of tensor cores
 * (hgmma and the other units of GPUs) ≤ min(2, kv heads). It decides bits and is part of a run's identity, so it
 * depends on nothing else. */
int ls_model_default_slices(const ls_shape *shape, ls_unit unit);

/* Sets what the matrix unit requires of a shape: with tensor cores, slices of the vocabulary end at multiples of 64
 * (docs/reference/arithmetic.md); with other units anywhere. Call it before ls_model_create(). */
void ls_model_suit_unit(ls_shape *shape, ls_unit unit);

#endif
