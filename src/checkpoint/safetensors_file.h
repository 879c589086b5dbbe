/* safetensors_file.h: what an open safetensors file is made of; for this folder only.
 *
 * The names, types and texts of the tensors belong to the JSON value of the header, which therefore lives as long as
 * the file. */
#ifndef LS_CHECKPOINT_SAFETENSORS_FILE_H
#define LS_CHECKPOINT_SAFETENSORS_FILE_H

#include "base/json.h"
#include "checkpoint/safetensors.h"

struct ls_safetensors {
    char *path;
    int fd;                    /* −1: the file lies in memory of the caller */
    const unsigned char *file; /* the whole file */
    size_t file_bytes;
    size_t data_at; /* first byte behind the header */
    json_t *header;
    ls_safetensor *tensors; /* in the order of the header */
    int count;
    int64_t *shapes; /* of all tensors, one after the other */
    const ls_safetensor **by_name;
    struct ls_safetensors_pair {
        const char *key, *value;
    } * metadata;
    int metadata_count;
};

/* A type of the format. */
typedef struct ls_safetensors_type {
    const char *name;
    unsigned bits; /* of one element */
    int dtype;     /* an ls_dtype, or −1 */
} ls_safetensors_type;

/* NULL when the format has no such type. */
const ls_safetensors_type *ls_safetensors_type_find(const char *name);
const ls_safetensors_type *ls_safetensors_type_of(ls_dtype dtype);

/* Fills everything from `header` on; file, file_bytes and path are there. On failure the caller closes the file. */
ls_status ls_safetensors_parse_header(ls_safetensors *file);

void ls_safetensors_sort(const ls_safetensor **list, int count);
/* In a sorted list; NULL when there is none. */
const ls_safetensor *ls_safetensors_search(const ls_safetensor *const *sorted, int count, const char *name);
/* Turns what a search gave into a tensor of this shape or an error; `place` is where was looked. */
ls_status ls_safetensors_accept(const char *place, const char *name, const ls_safetensor *found, int dims,
                                const int64_t *shape, const ls_safetensor **out);

/* "[2, 3]", cut when it is long. */
enum { LS_SHAPE_TEXT_BYTES = 96 };
void ls_safetensors_shape_text(int dims, const int64_t *shape, char text[LS_SHAPE_TEXT_BYTES]);

#endif
