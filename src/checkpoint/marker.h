/* marker.h: complete.json (the marker), the list of a checkpoint's files; for this folder only. It ends with a hash of
 * itself, so that a damaged marker is detected. The store (store_save.c) fills a marker while a checkpoint is saved and
 * writes it last; checkpoint.c reads it. A zeroed ls_marker is an empty one; one thread at a time uses it. */
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
    bool has_hash, has_sum;    /* at least one: which of the next two is valid */
    ls_hash128 hash;           /* XXH3-128 */
    ls_hash128 sum;            /* byte_sum.h */
    ls_marker_tensor *tensors; /* in the order of the file; NULL: not known, in markers of older versions */
    int tensor_count;
} ls_marker_file;

/* All zeros: no files. */
typedef struct ls_marker {
    int64_t step; /* steps that were completed when the checkpoint was saved */
    ls_marker_file *files;
    int count;
} ls_marker;

/* Checks whether a file of this name may be added. LS_ERR_INPUT: it is listed already, is no plain name (it would lead
 * out of the folder), or is that of the marker itself. */
ls_status ls_marker_check_name(const ls_marker *marker, const char *name);
/* Adds a file, whose name the caller has checked with ls_marker_check_name(); the name is copied. `file` has all other
 * members; the marker takes ownership of its list of tensors, also on failure. */
ls_status ls_marker_add(ls_marker *marker, const char *name, const ls_marker_file *file);
/* Appends a tensor with its checksum to file->tensors, in the order of the file; the name is copied. For a file that is
 * not yet in a marker, which the caller ends with ls_marker_file_fini() also after a failure. */
ls_status ls_marker_add_tensor(ls_marker_file *file, const char *name, ls_hash128 sum);
/* Frees the name and the tensors of a file that is in no marker, and zeroes it. */
void ls_marker_file_fini(ls_marker_file *file);
/* Returns the file of this name; NULL if there is none. */
const ls_marker_file *ls_marker_find(const ls_marker *marker, const char *name);

/* Writes the marker atomically (a temporary file and a rename), and syncs it and its folder to disk. */
ls_status ls_marker_write(const ls_marker *marker, const char *path);
/* Reads a marker into *marker, which ls_marker_fini() ends; empty on failure. LS_ERR_INPUT: it is malformed, of another
 * format, or its hash of itself differs; markers of older versions, which have none and list no tensors, pass without
 * it. */
ls_status ls_marker_read(const char *path, ls_marker *marker);
/* Frees the files of the marker and makes it empty. */
void ls_marker_fini(ls_marker *marker);

#endif
