/* weights_file.h: the struct behind ls_weights, and the readers that fill it; private to this folder.
 *
 * A reader (checkpoint, Hugging Face, llm.c) calls ls_weights_begin() and then appends one stored tensor after another
 * to the list. ls_weights_close() releases everything. */
#ifndef LS_INTEROP_WEIGHTS_FILE_H
#define LS_INTEROP_WEIGHTS_FILE_H

#include "base/files.h"
#include "checkpoint/checkpoint.h"
#include "interop/weights.h"

struct ls_weights {
    ls_weights_kind kind; /* the format */
    char *path;           /* as ls_weights_path() returns it */
    ls_model *model;      /* of the shape, without memory */
    ls_stored *list;      /* sorted by parameter, then by row; together they cover every row once */
    int count;            /* entries of `list` */
    int *first;           /* parameter p is list entries first[p] … first[p+1]−1; made when the reader is done */
    ls_stored_cache cache;
    char *tokenizer;   /* "bytes" or a path; NULL: not known */
    json_t *token_ids; /* as ls_weights_token_ids() returns it */
    int64_t step;      /* of a checkpoint; 0 for imported weights */
    /* The tensors are read from one of these two. */
    ls_safetensors *file;
    int fd; /* −1: none */
};

/* Opens a checkpoint: fills all fields but `first` and `path`. On failure the caller closes the weights. Does not
 * verify checksums. */
ls_status ls_weights_from_checkpoint(ls_weights *weights, const char *folder);
/* Opens a Hugging Face folder likewise. */
ls_status ls_weights_from_hf(ls_weights *weights, const char *folder);
/* Opens a model file of llm.c likewise. */
ls_status ls_weights_from_llmc(ls_weights *weights, const char *path);

/* Creates the model of a shape and allocates the list for `count` stored tensors; 0: one for each parameter. */
ls_status ls_weights_begin(ls_weights *weights, const ls_shape *shape, int count);
/* Appends a tensor of a safetensors file to the list, with the rows, columns and orientation of `stored`; the caller
 * has checked its shape. LS_ERR_INPUT unless its type is fp32, bf16 or fp16. */
ls_status ls_weights_add_safetensor(ls_weights *weights, const ls_safetensor *tensor, ls_stored stored);

/* Returns whether the file begins like a model file of llm.c. */
bool ls_llmc_is_model(const char *path);

#endif
