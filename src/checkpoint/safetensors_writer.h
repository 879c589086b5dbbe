/* safetensors_writer.h: writing a safetensors file, tensor by tensor or in any pieces.
 *
 * All tensors are declared first, so that every byte has its place before the first is written. The header keeps the
 * declared order and is padded with spaces: the data begin at a multiple of 64 bytes.
 *
 *     create ── write_at … write_at ── finish        the file is there, complete and on disk
 *                                   └─ abort         nothing is there
 *
 * The data go to a temporary file beside `path`, whose space is reserved at the start, so that a full disk shows at
 * once. On any error `path` is what it was before and the caller ends the writer with ls_safetensors_abort().
 *
 * Several processes write one file with ls_safetensors_share(): each puts its parts to their places in a file that has
 * its name from the start, in a folder that counts only when all have finished. All give the same plan; none waits for
 * another. One thread at a time uses a writer. */
#ifndef LS_CHECKPOINT_SAFETENSORS_WRITER_H
#define LS_CHECKPOINT_SAFETENSORS_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/status.h"
#include "checkpoint/byte_sum.h"

typedef struct ls_safetensors_writer ls_safetensors_writer;

typedef struct ls_safetensors_decl {
    const char *name; /* UTF-8, used once, not "__metadata__" */
    ls_dtype dtype;
    int dims;             /* 0: a scalar */
    const int64_t *shape; /* none negative */
} ls_safetensors_decl;

typedef struct ls_safetensors_text {
    const char *key, *value; /* UTF-8 */
} ls_safetensors_text;

/* What the file will hold; needed only during the call that takes it. */
typedef struct ls_safetensors_plan {
    const ls_safetensors_decl *tensors;
    int count;
    const ls_safetensors_text *metadata; /* may be NULL with metadata_count 0 */
    int metadata_count;
} ls_safetensors_plan;

/* LS_ERR_INPUT for a bad plan, LS_ERR_RESOURCE when the disk is full, LS_ERR_FAILED otherwise; then there is nothing
 * to release. */
ls_status ls_safetensors_create(const char *path, const ls_safetensors_plan *plan, ls_safetensors_writer **out);
/* One of several writers. The first one reserves the space and writes the header. Finishing forces what this one wrote
 * to disk and cannot tell whether all is there; aborting leaves the file. */
ls_status ls_safetensors_share(const char *path, const ls_safetensors_plan *plan, bool is_first,
                               ls_safetensors_writer **out);
/* Bytes of the whole file. */
size_t ls_safetensors_writer_bytes(const ls_safetensors_writer *writer);

/* Whole elements from `elem_offset` on; they must lie inside the tensor. Any order, each element once. */
ls_status ls_safetensors_write_at(ls_safetensors_writer *writer, int tensor, size_t elem_offset, const void *data,
                                  size_t bytes);

/* Sums of the bytes that this writer was given, each at its place in the file: of the header, which only the first one
 * writes, then of each tensor; count + 1 of them, until the writer ends. Those of all writers add up to those of the
 * file. */
const ls_byte_sum *ls_safetensors_byte_sums(const ls_safetensors_writer *writer);

/* Forces the file to disk and gives it its name; fails when bytes are missing. Ends the writer, on failure as abort
 * does. `file_hash` gets the XXH3-128 of the whole file, of one that was not written in order by reading it, and may be
 * NULL; for one of several writers it must be. */
ls_status ls_safetensors_finish(ls_safetensors_writer *writer, ls_hash128 *file_hash);
/* NULL does nothing. */
void ls_safetensors_abort(ls_safetensors_writer *writer);

#endif
