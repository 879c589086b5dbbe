/* weights_file.h: what open weights are made of; for this folder only. */
#ifndef LS_INTEROP_WEIGHTS_FILE_H
#define LS_INTEROP_WEIGHTS_FILE_H

#include "base/files.h"
#include "checkpoint/checkpoint.h"
#include "interop/weights.h"

struct ls_weights {
    ls_weights_kind kind;
    char *path;
    ls_model *model;
    ls_stored *list; /* by parameter, then by row; together they cover every row once */
    int count;
    int *first; /* of the list, for each parameter and one more */
    ls_stored_cache cache;
    char *tokenizer;
    json_t *token_ids;
    int64_t step;
    /* what the tensors are read from: one of the two */
    ls_safetensors *file;
    int fd; /* −1: none */
};

/* Each fills everything but `first` and `path`; on failure the caller closes the weights. */
ls_status ls_weights_from_checkpoint(ls_weights *weights, const char *folder);
ls_status ls_weights_from_hf(ls_weights *weights, const char *folder);
ls_status ls_weights_from_llmc(ls_weights *weights, const char *path);

/* Makes the model of a shape, and space for `count` stored tensors (0: one for each parameter). */
ls_status ls_weights_begin(ls_weights *weights, const ls_shape *shape, int count);
/* Puts a tensor of a safetensors file, whose shape was checked, behind the list. LS_ERR_INPUT for a type that is none
 * of the three. */
ls_status ls_weights_add_safetensor(ls_weights *weights, const ls_safetensor *tensor, ls_stored stored);

/* Whether the file begins as a model file of llm.c does. */
bool ls_llmc_is_model(const char *path);

#endif
