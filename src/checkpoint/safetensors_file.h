/* safetensors_file.h: the inside of ls_safetensors, for the files of this folder only. */
#ifndef LS_CHECKPOINT_SAFETENSORS_FILE_H
#define LS_CHECKPOINT_SAFETENSORS_FILE_H

#include "base/json.h"
#include "checkpoint/safetensors.h"

struct ls_safetensors {
    char *path;
    int fd;                      /* −1: the file lies in `memory` */
    const unsigned char *memory; /* owned by the caller */
    size_t file_bytes;
    size_t data_at;         /* offset of the data after the header */
    json_t *header;         /* owns names, types and texts of the tensors */
    ls_safetensor *tensors; /* in the order of the header */
    int64_t *shapes;        /* of all tensors, one after the other */

    /* of several files, which use none of the above but the path: */
    ls_safetensors **shards;
    const char **shard_names; /* from the index, valid only while it is read */
    int shard_count;

    const ls_safetensor **list, **by_name; /* in order; sorted by name */
    int count;
};

const char *ls_safetensors_type_name(ls_dtype dtype);
/* Allocates a file: all zeros but for the path and fd −1. */
ls_status ls_safetensors_new(const char *path, ls_safetensors **out);
/* Allocates the lists for `count` tensors. */
ls_status ls_safetensors_make_lists(ls_safetensors *file, size_t count);
/* Fills by_name; to be called once `list` is complete. */
void ls_safetensors_sort(ls_safetensors *file);

#endif
