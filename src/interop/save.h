/* save.h: weights of others as one of our checkpoints: weights.safetensors in fp32, state.json (step 0, no identity, so
 * that a run starts from it and does not resume it), the tokenizer's files, complete.json. */
#ifndef LS_INTEROP_SAVE_H
#define LS_INTEROP_SAVE_H

#include "interop/weights.h"

/* Makes `folder`, which must not be there or be empty: it appears complete or not at all. `tokenizer` is "bytes", a
 * path whose files are copied, or NULL: that of the weights, if any. */
ls_status ls_weights_save(ls_weights *weights, const char *folder, const char *tokenizer);

#endif
