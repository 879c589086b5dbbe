/* save.h: writes imported weights as a lockstep checkpoint: weights.safetensors in fp32, state.json, the tokenizer's
 * files, complete.json. state.json has step 0 and no identity, so that a run starts from it and cannot resume it. */
#ifndef LS_INTEROP_SAVE_H
#define LS_INTEROP_SAVE_H

#include "interop/weights.h"

/* Writes the checkpoint to `folder`, which must be absent or empty, in one rename, so that it appears complete or not
 * at all. `tokenizer` is "bytes" or a path whose files are copied; NULL: the tokenizer of the weights, if they have
 * one. The weights stay open. */
ls_status ls_weights_save(ls_weights *weights, const char *folder, const char *tokenizer);

#endif
