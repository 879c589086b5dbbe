/* model.h: models out of shapes: embedding, transformer blocks, head. */
#ifndef LS_MODEL_MODEL_H
#define LS_MODEL_MODEL_H

#include "nn/blocks.h"

/* Builds the list of blocks with all their parameters, which have no memory yet. Checks the shape first.
 * `slices` must be a power of two, at most the number of key/value heads, else LS_ERR_INPUT. On failure *out is NULL.
 */
ls_status ls_model_create(const ls_shape *shape, int slices, ls_model **out);
/* Frees the model and its blocks; NULL is allowed. The memory that parameters point to belongs to the partition. */
void ls_model_destroy(ls_model *model);

/* Returns the parameters of a transformer of this shape, which has been checked, without making the model. */
double ls_model_count_params(const ls_shape *shape);

/* Returns the largest power of two ≤ min(8, kv heads), for hgmma ≤ min(2, kv heads). It is part of a run's identity, so
 * it depends on nothing else. */
int ls_model_default_slices(const ls_shape *shape, ls_unit unit);

/* Sets what the matrix unit requires of a shape: with hgmma, slices of the vocabulary end at multiples of 64
 * (docs/reference/arithmetic.md). Call it before ls_model_create(). */
void ls_model_suit_unit(ls_shape *shape, ls_unit unit);

#endif
