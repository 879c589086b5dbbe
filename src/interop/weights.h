/* weights.h: reads the weights of a model from files of any supported format, in canonical order and fp32.
 *
 *     checkpoint      a folder with complete.json (checkpoint/checkpoint.h); its checksums are verified
 *     run directory   its newest sound checkpoint; damaged ones are skipped and reported in the log
 *     Hugging Face    a folder with config.json and model.safetensors, or shards with model.safetensors.index.json
 *     llm.c           a model file of GPT-2
 *
 * All names, shapes and types are checked when the weights are opened, so later only reading can fail. One thread at a
 * time uses a ls_weights.
 *
 *     ls_weights_open or ls_weights_resolve → ls_weights_load or ls_weights_load_partition → ls_weights_close */
#ifndef LS_INTEROP_WEIGHTS_H
#define LS_INTEROP_WEIGHTS_H

#include "base/json.h"
#include "interop/stored.h"
#include "nn/blocks.h"
#include "parallel/partition/partition.h"

typedef struct ls_weights ls_weights;

typedef enum ls_weights_kind { LS_WEIGHTS_CHECKPOINT, LS_WEIGHTS_HF, LS_WEIGHTS_LLMC } ls_weights_kind;

/* Opens the weights at `path`; the caller closes them. `path` may also be `latest` or `best` of a run. LS_ERR_INPUT
 * names the file and what is wrong with it. */
ls_status ls_weights_open(const char *path, ls_weights **out);
/* Opens weights that another worker has opened and verified, without verifying their checksums again. `path` is the
 * result of that worker's ls_weights_path(). */
ls_status ls_weights_open_again(const char *path, ls_weights **out);
/* Closes the weights and releases everything borrowed from them. NULL does nothing. */
void ls_weights_close(ls_weights *weights);

/* Resolves --model: a preset's name, a shape file, config.json, or anything that ls_weights_open() takes. The caller
 * closes *weights, which is NULL if there is only a shape, as in a Hugging Face folder without weights. */
ls_status ls_weights_resolve(const char *model, ls_shape *shape, ls_weights **weights);
/* Resolves --model in the same way without verifying checksums, for a caller that needs only the kind and the shape.
 * The weights may be damaged; the caller closes them. */
ls_status ls_weights_look(const char *model, ls_shape *shape, ls_weights **weights);

/* The results of the following functions are borrowed until ls_weights_close(). */
/* Returns the format of the weights. */
ls_weights_kind ls_weights_kind_of(const ls_weights *weights);
/* Returns its name for messages. */
const char *ls_weights_format(const ls_weights *weights);
/* Returns the folder or file that the weights are read from; for a run directory, the folder of the checkpoint. */
const char *ls_weights_path(const ls_weights *weights);
/* Returns the shape of the model. */
const ls_shape *ls_weights_shape(const ls_weights *weights);
/* Returns a model of that shape, without memory, whose parameters may be passed to the functions below. */
const ls_model *ls_weights_model(const ls_weights *weights);
/* Returns an argument for ls_tokenizer_open(): "bytes" or a path; NULL if no tokenizer is known. */
const char *ls_weights_tokenizer(const ls_weights *weights);
/* Returns the path of the tokenizer files that are copied along with the model, or a folder that may have such files,
 * also of tokenizers that ls_tokenizer_open() cannot open; NULL: there are none. */
const char *ls_weights_companions(const ls_weights *weights);
/* Returns an object with those of "bos_token_id", "eos_token_id" and "pad_token_id" that Hugging Face's config.json
 * has, possibly empty; NULL for weights that come with none, such as llm.c's. */
const json_t *ls_weights_token_ids(const ls_weights *weights);
/* Lists the ids that end a text, at most `capacity`: "eos_token_id" of the model's generation_config.json, otherwise of
 * its config.json; ids outside the vocabulary are left out. *count is 0 if none is known. Fails only if
 * generation_config.json is there but cannot be read. */
ls_status ls_weights_eos(const ls_weights *weights, int32_t *ids, size_t capacity, size_t *count);
/* Returns the training steps after which lockstep saved these weights; 0 for imported weights. */
int64_t ls_weights_step(const ls_weights *weights);

/* Passes all parameters of `model`, in its order, to `sink`, in pieces of whole rows. LS_ERR_INPUT if the model has
 * another shape than the weights, or a weight is not finite; a failure of the sink ends the load. */
ls_status ls_weights_load(ls_weights *weights, const ls_model *model, ls_tensor_sink sink, void *ctx);
/* Loads the rows that a worker needs into its partition (the part of the model that it holds), which has the same
 * shape. Other rows are not read, except that a tensor stored transposed (stored.h) is always read as a whole. Not
 * collective: each worker calls it independently, and then all call ls_partition_settle(). LS_ERR_INPUT as for
 * ls_weights_load(). */
ls_status ls_weights_load_partition(ls_weights *weights, ls_partition *partition);
/* Reads rows of one parameter as [rows][columns]. LS_ERR_INPUT if the parameter has another shape, or a value is not
 * finite. It is an ls_tensor_source: `weights` is the ls_weights. */
ls_status ls_weights_read(void *weights, const ls_param *param, size_t first_row, size_t rows, float *data);

#endif
