/* hf.h: exports models in the form of Hugging Face's transformers: config.json, model.safetensors or shards with an
 * index, and the files of the tokenizer. Reading is in weights.h; names and orientations are in hf_names.h. */
#ifndef LS_INTEROP_HF_H
#define LS_INTEROP_HF_H

#include "base/json.h"
#include "interop/stored.h"
#include "nn/blocks.h"

/* Returns whether the folder has weights of any format, also of pickle and other formats that lockstep cannot read. */
bool ls_hf_has_weights(const char *folder);

typedef struct ls_hf_export_options {
    ls_dtype dtype;          /* of the weights in the files: LS_F32, LS_BF16 or LS_F16 */
    size_t shard_bytes;      /* most tensor bytes of a file, unless one tensor is larger; 0: one file */
    const char *tokenizer;   /* "bytes", or a folder or file whose files are copied; NULL: none */
    const char *origin;      /* where the model comes from: its generation_config.json goes along; may be NULL */
    const json_t *token_ids; /* ls_weights_token_ids(); may be NULL */
} ls_hf_export_options;

/* Writes the model to `folder`, which must be absent or empty, in one rename, so that it appears complete or not at
 * all. `source` is called once for each piece of rows, with `ctx`. LS_ERR_INPUT for a shape that transformers cannot
 * run, or values too large for the type; LS_ERR_RESOURCE if the disk is full. */
ls_status ls_hf_export(const char *folder, const ls_model *model, const ls_hf_export_options *options,
                       ls_tensor_source source, void *ctx);

#endif
