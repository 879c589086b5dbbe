/* safetensors.h: reads files in the safetensors format.
 *
 *     8 bytes   length N of the header, little-endian
 *     N bytes   JSON: {"__metadata__": {text: text},
 *                      name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
 *     the rest  the tensors' bytes, row-major and little-endian, without gaps; offsets count from here
 *
 * Opening validates the whole file: sizes, offsets, shapes and names. After that every tensor lies inside the file, no
 * two tensors overlap, and every byte of data belongs to a tensor. LS_ERR_INPUT names the file, the tensor and the
 * value.
 *
 * A type of the format that lockstep does not support (F64, F8_E4M3 …) is listed, and refused only when it is read.
 *
 * Checkpoints, and weights of other programs (interop), are read with it. An open file does not change, so any thread
 * may read. Tensors and texts are borrowed until the file is closed. */
#ifndef LS_CHECKPOINT_SAFETENSORS_H
#define LS_CHECKPOINT_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ls_safetensors ls_safetensors;

/* Maximal bytes of a header; the limit of the format. */
#define LS_SAFETENSORS_HEADER_MAX 100000000u

typedef struct ls_safetensor {
    const char *name; /* UTF-8 */
    const char *type; /* its name in the format: "F32", "BF16", "F8_E4M3" … */
    bool is_readable; /* lockstep supports this type; otherwise `dtype` is undefined */
    ls_dtype dtype;
    int dims; /* 0: a scalar */
    const int64_t *shape;
    uint64_t elems;             /* product of the shape; 1 for a scalar */
    size_t begin, bytes;        /* where its bytes begin, counted from the end of the header, and how many they are */
    const ls_safetensors *file; /* the file that it lies in; of a set, the one of the set's files */
} ls_safetensor;

/* Opens and validates a file. If another process truncates it later, reading fails with LS_ERR_FAILED. The caller
 * closes *out; NULL on failure. */
ls_status ls_safetensors_open(const char *path, ls_safetensors **out);
/* Opens and validates a file in memory, which the caller owns and which must outlive *out. Messages call it
 * `source`. */
ls_status ls_safetensors_parse(const char *source, const void *data, size_t bytes, ls_safetensors **out);
/* Opens the tensors of one model, in one file or in several with an index: a JSON file {"metadata": …, "weight_map":
 * {tensor: file name}} in the same folder. Opens and validates all files, and checks that every tensor of the index is
 * in the file that the index names. Tensors that the index does not name are ignored.
 *
 * `path` is a safetensors file, an index (its name ends in .json), or a folder with model.safetensors or
 * model.safetensors.index.json, searched in this order. */
ls_status ls_safetensors_open_set(const char *path, ls_safetensors **out);
/* Closes the file, or the set and all its files; tensors and texts that it returned become invalid. NULL does
 * nothing. */
void ls_safetensors_close(ls_safetensors *file);

/* Returns the path (or `source`) that was given when the file was opened; borrowed. */
const char *ls_safetensors_path(const ls_safetensors *file);
/* Returns the bytes of all tensors of one file: the file without its header. Undefined for a set. */
size_t ls_safetensors_data_bytes(const ls_safetensors *file);
/* Returns the number of tensors; of a set, those that its index names. */
int ls_safetensors_count(const ls_safetensors *file);
/* Returns tensor `index` (below the count) in the order of the header, or of the index of a set. */
const ls_safetensor *ls_safetensors_get(const ls_safetensors *file, int index);
/* Returns the tensor of this name; NULL if there is none. */
const ls_safetensor *ls_safetensors_find(const ls_safetensors *file, const char *name);
/* Finds the tensor of this name and shape. LS_ERR_INPUT names file, tensor and both shapes; then *out is NULL. */
ls_status ls_safetensors_need(const ls_safetensors *file, const char *name, int dims, const int64_t *shape,
                              const ls_safetensor **out);

/* Returns the value of `key` in the header's __metadata__, borrowed; NULL if there is none, and for every key in a
 * set. */
const char *ls_safetensors_metadata_find(const ls_safetensors *file, const char *key);

/* Fails with LS_ERR_INPUT, which names file, tensor and both shapes, unless the tensor has exactly this shape. */
ls_status ls_safetensor_check_shape(const ls_safetensor *tensor, int dims, const int64_t *shape);
/* Copies bytes byte_offset … byte_offset + bytes − 1 of the tensor to `host`, in the type of the file, without
 * conversion. LS_ERR_INPUT for a range outside the tensor and for an unsupported type; LS_ERR_FAILED if the file cannot
 * be read. */
ls_status ls_safetensor_read(const ls_safetensor *tensor, size_t byte_offset, void *host, size_t bytes);

#endif
