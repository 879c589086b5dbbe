/* weights.h: the weights of a model from wherever they are, in canonical order and fp32.
 *
 *     checkpoint      a folder with complete.json (checkpoint/checkpoint.h); its checksums are verified
 *     run directory   its newest sound checkpoint; damaged ones that were passed over are reported in the log
 *     Hugging Face    a folder with config.json and model.safetensors, or shards with model.safetensors.index.json
 *     llm.c           a model file of GPT-2
 *
 * All names, shapes and types are checked when the weights are opened; only reading can fail later. One thread at a
 * time uses a ls_weights. */
#ifndef LS_INTEROP_WEIGHTS_H
#define LS_INTEROP_WEIGHTS_H

#include "base/json.h"
#include "interop/stored.h"
#include "nn/blocks.h"
#include "parallel/partition/partition.h"

typedef struct ls_weights ls_weights;

typedef enum ls_weights_kind { LS_WEIGHTS_CHECKPOINT, LS_WEIGHTS_HF, LS_WEIGHTS_LLMC } ls_weights_kind;

/* LS_ERR_INPUT names the file and what is wrong with it. */
ls_status ls_weights_open(const char *path, ls_weights **out);
/* The same for what another worker has opened; `path` is what ls_weights_path() gave there. Checksums, which that
 * worker has verified, are not looked at again. */
ls_status ls_weights_open_again(const char *path, ls_weights **out);
/* NULL does nothing. */
void ls_weights_close(ls_weights *weights);

/* What --model means: a preset's name, a shape file, config.json, or anything that ls_weights_open() takes. *weights is
 * NULL where there is only a shape; a Hugging Face folder without weights is one. */
ls_status ls_weights_resolve(const char *model, ls_shape *shape, ls_weights **weights);
/* The same without looking at checksums, to know of what kind and shape it is: the newest checkpoint of a run may be
 * damaged. */
ls_status ls_weights_look(const char *model, ls_shape *shape, ls_weights **weights);

/* All borrowed until close. */
ls_weights_kind ls_weights_kind_of(const ls_weights *weights);
/* The folder or file they are read from: of a run directory the folder of the checkpoint. */
const char *ls_weights_path(const ls_weights *weights);
const ls_shape *ls_weights_shape(const ls_weights *weights);
/* A model of that shape, without memory, whose parameters may be used in the calls below. */
const ls_model *ls_weights_model(const ls_weights *weights);
/* What ls_tokenizer_open() takes: "bytes" or a path; NULL: nothing known. */
const char *ls_weights_tokenizer(const ls_weights *weights);
/* Where the files are that go with the model to another place: the tokenizer, or a folder that may have files of one
 * that ls_tokenizer_open() does not take; NULL: nowhere. */
const char *ls_weights_companions(const ls_weights *weights);
/* "bos_token_id", "eos_token_id" and "pad_token_id", as Hugging Face's config.json has them; NULL: nothing known. */
const json_t *ls_weights_token_ids(const ls_weights *weights);
/* The ids that end a text: "eos_token_id" of the model's generation_config.json, else of its config.json, each a number
 * or a list. At most `capacity` of them; *count 0: nothing known. */
ls_status ls_weights_eos(const ls_weights *weights, int32_t *ids, size_t capacity, size_t *count);
/* Steps of training behind these weights; 0 for those of others. */
int64_t ls_weights_step(const ls_weights *weights);

/* Gives all parameters of `model`, in its order, to the sink, in pieces of whole rows. LS_ERR_INPUT when the model is
 * of another shape. */
ls_status ls_weights_load(ls_weights *weights, const ls_model *model, ls_tensor_sink sink, void *ctx);
/* Into a partition of the same shape what its worker needs of them; other rows are not read, but of a tensor that is
 * stored turned (stored.h) any row takes the whole. No collective: workers of a layout call it each for itself. */
ls_status ls_weights_load_partition(ls_weights *weights, ls_partition *partition);
/* Some rows of one parameter, [rows][columns]. The first argument is the ls_weights: an ls_tensor_source. */
ls_status ls_weights_read(void *weights, const ls_param *param, size_t first_row, size_t rows, float *data);

#endif
