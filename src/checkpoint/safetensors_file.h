/* safetensors_file.h: the inside of ls_safetensors (safetensors.h), for the files of this folder only. One struct
 * serves an open file (safetensors.c) and a set of files with an index (safetensors_set.c). */
#ifndef LS_CHECKPOINT_SAFETENSORS_FILE_H
#define LS_CHECKPOINT_SAFETENSORS_FILE_H

#include "base/json.h"
#include "checkpoint/safetensors.h"

struct ls_safetensors {
    char *path;                  /* as given to open; owned */
    int fd;                      /* −1: the file lies in `memory` */
    const unsigned char *memory; /* owned by the caller */
    size_t file_bytes;
    size_t data_at;         /* offset of the data after the header */
    json_t *header;         /* owns names, types and texts of the tensors */
    ls_safetensor *tensors; /* in the order of the header */
    int64_t *shapes;        /* of all tensors, one after the other */

    /* of a set, which uses none of the above but the path: */
    ls_safetensors **shards;  /* the files of the set; owned */
    const char **shard_names; /* from the index, valid only while it is read */
    int shard_count;

    const ls_safetensor **list, **by_name; /* pointers to all tensors: in order, and sorted by name */
    int count;
};

/* Returns the name of a type in the format, such as "F32" for LS_F32. */
const char *ls_safetensors_type_name(ls_dtype dtype);
/* Allocates a file that is not yet open: all zeros but for a copy of the path, and fd −1. */
ls_status ls_safetensors_new(const char *path, ls_safetensors **out);
/* Allocates `list` and `by_name` for `count` tensors; on failure ls_safetensors_close() frees what there is. */
ls_status ls_safetensors_make_lists(ls_safetensors *file, size_t count);
/* Fills by_name; to be called once `list` is complete. */
void ls_safetensors_sort(ls_safetensors *file);

#endif
