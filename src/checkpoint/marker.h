/* marker.h: complete.json, the list of a checkpoint's files; for this folder only. It ends with a hash of itself, so
 * that a damaged marker is detected. */
#ifndef LS_CHECKPOINT_MARKER_H
#define LS_CHECKPOINT_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/status.h"

/* The checksum of one tensor's bytes at their place in the file. */
typedef struct ls_marker_tensor {
    char *name;
    ls_hash128 sum; /* byte_sum.h */
} ls_marker_tensor;

typedef struct ls_marker_file {
    char *name;
    uint64_t bytes;
    bool has_hash, has_sum;    /* at least one */
    ls_hash128 hash;           /* XXH3-128 */
    ls_hash128 sum;            /* byte_sum.h */
    ls_marker_tensor *tensors; /* in the order of the file; NULL: not known, in markers of older versions */
    int tensor_count;
} ls_marker_file;

/* All zeros: no files. */
typedef struct ls_marker {
    int64_t step;
    ls_marker_file *files;
    int count;
} ls_marker;

/* Checks whether a file of this name may be added. LS_ERR_INPUT: it is listed already, leads out of the folder, or is
 * that of the marker. */
ls_status ls_marker_check_name(const ls_marker *marker, const char *name);
/* Adds a file whose name was checked; the name is copied. `file` has all other members; the marker takes ownership of
 * what they point to, also on failure. */
ls_status ls_marker_add(ls_marker *marker, const char *name, const ls_marker_file *file);
/* Adds a tensor to the list of a file that is not yet added. */
ls_status ls_marker_add_tensor(ls_marker_file *file, const char *name, ls_hash128 sum);
void ls_marker_file_fini(ls_marker_file *file);
/* Returns the file of this name; NULL if there is none. */
const ls_marker_file *ls_marker_find(const ls_marker *marker, const char *name);

/* Writes the marker atomically, and syncs it and its folder to disk. */
ls_status ls_marker_write(const ls_marker *marker, const char *path);
/* Reads a marker, which is empty on failure. */
ls_status ls_marker_read(const char *path, ls_marker *marker);
void ls_marker_fini(ls_marker *marker);

#endif
