/* safetensors_file.h: what reading one safetensors file, several of them, and writing share; for this folder only. */
#ifndef LS_CHECKPOINT_SAFETENSORS_FILE_H
#define LS_CHECKPOINT_SAFETENSORS_FILE_H

#include "base/json.h"
#include "checkpoint/safetensors.h"

struct ls_safetensors {
    char *path;
    int fd;                      /* −1: the file lies in memory of the caller, */
    const unsigned char *memory; /* here */
    size_t file_bytes;
    size_t data_at;         /* first byte behind the header */
    json_t *header;         /* names, types and texts of the tensors belong to it */
    ls_safetensor *tensors; /* in the order of the header */
    int64_t *shapes;        /* of all tensors, one after the other */

    /* of several files: none of the above but the path */
    ls_safetensors **shards;
    const char **shard_names; /* as the index has them; they live only while it is read */
    int shard_count;

    const ls_safetensor **list, **by_name; /* in order, and sorted */
    int count;
};

const char *ls_safetensors_type_name(ls_dtype dtype);
/* Zeroed but for path and fd −1. */
ls_status ls_safetensors_new(const char *path, ls_safetensors **out);
/* Space for `count` tensors in the lists. */
ls_status ls_safetensors_make_lists(ls_safetensors *file, size_t count);
void ls_safetensors_sort(ls_safetensors *file);

#endif
