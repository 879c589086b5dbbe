/* model.h: models out of shapes: embedding, transformer blocks, head. */
#ifndef LS_MODEL_MODEL_H
#define LS_MODEL_MODEL_H

#include "nn/blocks.h"

/* `slices` is a power of two, at most the number of key/value heads. The shape is checked. On failure nothing is left
 * to release. */
ls_status ls_model_create(const ls_shape *shape, int slices, ls_model **out);
void ls_model_destroy(ls_model *model);

/* Largest power of two ≤ min(8, kv heads), for hgmma ≤ min(2, kv heads): an identity default, so it looks at nothing
 * else. */
int ls_model_default_slices(const ls_shape *shape, ls_unit unit);

/* What the unit asks of a model: hgmma, that slices of the vocabulary end at multiples of 64
 * (docs/reference/arithmetic.md). To be called before ls_model_create(). */
void ls_model_suit_unit(ls_shape *shape, ls_unit unit);

#endif
