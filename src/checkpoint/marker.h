/* marker.h: complete.json, the list of what belongs to a checkpoint; for this folder only. It ends with a hash of
 * itself, so that a marker that was damaged is not believed. */
#ifndef LS_CHECKPOINT_MARKER_H
#define LS_CHECKPOINT_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/status.h"

/* The bytes of one tensor, at their place in the file. */
typedef struct ls_marker_tensor {
    char *name;
    ls_hash128 sum; /* byte_sum.h */
} ls_marker_tensor;

typedef struct ls_marker_file {
    char *name;
    uint64_t bytes;
    bool has_hash, has_sum;    /* one at least */
    ls_hash128 hash;           /* XXH3-128 */
    ls_hash128 sum;            /* byte_sum.h */
    ls_marker_tensor *tensors; /* in the order of the file; NULL: not known, as of older versions */
    int tensor_count;
} ls_marker_file;

/* Zeroed: no file. */
typedef struct ls_marker {
    int64_t step;
    ls_marker_file *files;
    int count;
} ls_marker;

/* Whether a file of this name may be added: LS_ERR_INPUT for one that is there, that leaves the folder, or that is the
 * marker's own. */
ls_status ls_marker_check_name(const ls_marker *marker, const char *name);
/* The name was checked. `file` has all but the name, and what it points to is the marker's from now on, on failure
 * too. */
ls_status ls_marker_add(ls_marker *marker, const char *name, const ls_marker_file *file);
/* Adds one to the list of a file that is still to be added. */
ls_status ls_marker_add_tensor(ls_marker_file *file, const char *name, ls_hash128 sum);
void ls_marker_file_fini(ls_marker_file *file);
/* NULL when there is none. */
const ls_marker_file *ls_marker_find(const ls_marker *marker, const char *name);

/* Atomic, and forced to disk with its folder. */
ls_status ls_marker_write(const ls_marker *marker, const char *path);
/* On failure the marker is empty. */
ls_status ls_marker_read(const char *path, ls_marker *marker);
void ls_marker_fini(ls_marker *marker);

#endif
