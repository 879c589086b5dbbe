/* safetensors.h: reading files in the safetensors format.
 *
 *     8 bytes   length N of the header, little-endian
 *     N bytes   JSON: {"__metadata__": {text: text},
 *                      name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
 *     the rest  the tensors' bytes, row-major and little-endian, without gaps; offsets count from here
 *
 * A file is checked as a whole when it is opened: sizes, offsets, shapes and names. After that every tensor lies inside
 * the file, none overlaps another and no byte belongs to none. LS_ERR_INPUT names the file, the tensor and the value.
 *
 * A type that the format knows and lockstep does not (F64, F8_E4M3 …) is listed and refused only when it is read.
 *
 * Nothing changes after opening: any thread may read. Tensors and texts are borrowed until the file is closed. */
#ifndef LS_CHECKPOINT_SAFETENSORS_H
#define LS_CHECKPOINT_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ls_safetensors ls_safetensors;

/* The most that a header may take; the format's own limit. */
#define LS_SAFETENSORS_HEADER_MAX 100000000u

typedef struct ls_safetensor {
    const char *name; /* UTF-8 */
    const char *type; /* as the format calls it: "F32", "BF16", "F8_E4M3" … */
    bool is_readable; /* whether lockstep has this type; only then `dtype` means something */
    ls_dtype dtype;
    int dims; /* 0: a scalar */
    const int64_t *shape;
    uint64_t elems;      /* product of the shape; 1 for a scalar */
    size_t begin, bytes; /* where it lies behind the header */
    const ls_safetensors *file;
} ls_safetensor;

/* A file that another process cuts meanwhile is an error when it is read. */
ls_status ls_safetensors_open(const char *path, ls_safetensors **out);
/* The same for a file that lies in memory, which stays the caller's and must outlive *out. `source` names it. */
ls_status ls_safetensors_parse(const char *source, const void *data, size_t bytes, ls_safetensors **out);
/* The tensors of one model, in one file or spread over several by an index: a JSON file {"metadata": …, "weight_map":
 * {tensor: file name}}; the files lie beside it. All files are opened and checked with the index, and every tensor must
 * be in the file that the index says. A tensor that the index does not name is not there.
 *
 * `path` is a safetensors file, an index (its name ends in .json), or a folder with model.safetensors or
 * model.safetensors.index.json in it, looked for in this order. */
ls_status ls_safetensors_open_set(const char *path, ls_safetensors **out);
/* NULL does nothing. */
void ls_safetensors_close(ls_safetensors *file);

const char *ls_safetensors_path(const ls_safetensors *file);
/* Bytes of all tensors: what lies behind the header. */
size_t ls_safetensors_data_bytes(const ls_safetensors *file);
int ls_safetensors_count(const ls_safetensors *file);
/* In the order of the header or of the index. */
const ls_safetensor *ls_safetensors_get(const ls_safetensors *file, int index);
/* NULL when there is none. */
const ls_safetensor *ls_safetensors_find(const ls_safetensors *file, const char *name);
/* The tensor of this name and shape, or LS_ERR_INPUT that names file, tensor and both shapes. */
ls_status ls_safetensors_need(const ls_safetensors *file, const char *name, int dims, const int64_t *shape,
                              const ls_safetensor **out);

/* A text of the metadata; NULL when there is none. */
const char *ls_safetensors_metadata_find(const ls_safetensors *file, const char *key);

/* LS_ERR_INPUT, naming file and tensor, when the shape is another. */
ls_status ls_safetensor_check_shape(const ls_safetensor *tensor, int dims, const int64_t *shape);
/* Copies bytes byte_offset … byte_offset + bytes − 1 of the tensor, which must lie inside it. LS_ERR_INPUT for a type
 * that lockstep does not have. */
ls_status ls_safetensor_read(const ls_safetensor *tensor, size_t byte_offset, void *host, size_t bytes);

#endif
