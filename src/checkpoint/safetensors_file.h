/* safetensors_file.h: what reading, writing and sets of safetensors files share; for this folder only. */
#ifndef LS_CHECKPOINT_SAFETENSORS_FILE_H
#define LS_CHECKPOINT_SAFETENSORS_FILE_H

#include "base/json.h"
#include "checkpoint/safetensors.h"

const char *ls_safetensors_type_name(ls_dtype dtype);

void ls_safetensors_sort(const ls_safetensor **list, int count);
/* In a sorted list; NULL when there is none. */
const ls_safetensor *ls_safetensors_search(const ls_safetensor *const *sorted, int count, const char *name);
/* Turns what a search gave into a tensor of this shape or an error; `place` is where was looked. */
ls_status ls_safetensors_accept(const char *place, const char *name, const ls_safetensor *found, int dims,
                                const int64_t *shape, const ls_safetensor **out);

#endif
