/* hf_names.h: what Hugging Face calls our parameters, and how its files store them; for this folder only.
 *
 * GPT-2's weights are [inputs][outputs] there, Llama's are [outputs][inputs]; ours have the side first that is cut into
 * slices (fixed parts of a layer, which tensor parallelism assigns to workers: nn/param.h). Llama stores q, k, v and
 * gate, up separately. */
#ifndef LS_INTEROP_HF_NAMES_H
#define LS_INTEROP_HF_NAMES_H

#include "interop/stored.h"
#include "nn/blocks.h"

enum { LS_HF_NAME_MAX = 96 };

typedef struct ls_hf_tensor {
    char name[LS_HF_NAME_MAX]; /* in the file, with the prefix */
    const ls_param
        *param;       /* borrowed from the model; NULL: a bias that Hugging Face's code requires and the model lacks */
    ls_stored stored; /* which rows of it, and how; without type and reader */
    int dims;         /* of the tensor in the file: 1 or 2 */
    int64_t shape[2]; /* in the file */
} ls_hf_tensor;

/* Lists the tensors of a model as its family's files have them, in the order of its parameters; the caller frees the
 * list, whose entries borrow from the model. */
ls_status ls_hf_tensors(const ls_model *model, ls_hf_tensor **out, int *count);

/* Returns "transformer." or "model.", the prefix of all names but the head's. Files of a bare model (without head)
 * lack it. */
const char *ls_hf_prefix(const ls_shape *shape);
/* Returns whether the name is that of a tensor of older files that holds no parameter: a mask or frequencies. */
bool ls_hf_is_buffer(const ls_shape *shape, const char *name);

#define LS_HF_HEAD "lm_head.weight"

#endif
