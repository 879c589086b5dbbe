/* safetensors_set.h: the tensors of one model, in one safetensors file or spread over several by an index.
 *
 * An index is a JSON file {"metadata": …, "weight_map": {tensor: file name}}; the files lie beside it. All files are
 * opened and checked with the index, and every tensor must be in the file that the index says. A tensor that the index
 * does not name is not in the set. */
#ifndef LS_CHECKPOINT_SAFETENSORS_SET_H
#define LS_CHECKPOINT_SAFETENSORS_SET_H

#include "checkpoint/safetensors.h"

typedef struct ls_safetensors_set ls_safetensors_set;

/* `path` is a safetensors file, an index (its name ends in .json), or a folder with model.safetensors or
 * model.safetensors.index.json in it, looked for in this order. */
ls_status ls_safetensors_set_open(const char *path, ls_safetensors_set **out);
/* Closes its files. NULL does nothing. */
void ls_safetensors_set_close(ls_safetensors_set *set);

int ls_safetensors_set_count(const ls_safetensors_set *set);
/* In the order of the header or of the index. */
const ls_safetensor *ls_safetensors_set_get(const ls_safetensors_set *set, int index);
/* NULL when there is none. */
const ls_safetensor *ls_safetensors_set_find(const ls_safetensors_set *set, const char *name);
/* As ls_safetensors_need(). */
ls_status ls_safetensors_set_need(const ls_safetensors_set *set, const char *name, int dims, const int64_t *shape,
                                  const ls_safetensor **out);

#endif
