/* safetensors_writer.h: writes a safetensors file, tensor by tensor or in any pieces.
 *
 * All tensors are declared first, so that every byte has its place before the first is written. The header keeps the
 * declared order and is padded with spaces so that the data begin at a multiple of 64 bytes.
 *
 *     create ── write_at … write_at ── finish        the file exists, complete and on disk
 *                                   └─ abort         nothing is left
 *
 * Checkpoints and exports are written with it. The data go to a temporary file beside `path`. Its space is reserved at
 * the start, so that a full disk is an error at once. After any error `path` is unchanged, and the caller ends the
 * writer with ls_safetensors_abort().
 *
 * With ls_safetensors_share() several processes write one file. Each writes its parts at their places; the file has its
 * final name from the start, in a folder that becomes valid only when all have finished. All pass the same plan; none
 * waits for another. One thread at a time uses a writer. */
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
    const int64_t *shape; /* `dims` sizes, none negative */
} ls_safetensors_decl;

typedef struct ls_safetensors_text {
    const char *key, *value; /* UTF-8 */
} ls_safetensors_text;

/* The contents of the file; borrowed only during the call that takes it. */
typedef struct ls_safetensors_plan {
    const ls_safetensors_decl *tensors;
    int count;
    const ls_safetensors_text *metadata; /* may be NULL with metadata_count 0 */
    int metadata_count;
} ls_safetensors_plan;

/* Creates a writer and its temporary file, whose whole space is reserved and whose header is written. LS_ERR_INPUT:
 * invalid plan; LS_ERR_RESOURCE: the disk is full, or out of memory; otherwise LS_ERR_FAILED. On failure there is
 * nothing to release. The caller ends *out with finish or abort. */
ls_status ls_safetensors_create(const char *path, const ls_safetensors_plan *plan, ls_safetensors_writer **out);
/* Creates one of several writers of the file `path`, one in each process. The one with `is_first` reserves the space
 * and writes the header; the others need not wait for it. Its finish syncs what this writer wrote to disk, but cannot
 * check that the file is complete; its abort leaves the file. */
ls_status ls_safetensors_share(const char *path, const ls_safetensors_plan *plan, bool is_first,
                               ls_safetensors_writer **out);
/* Returns the bytes that the finished file has: header and all tensors. */
size_t ls_safetensors_writer_bytes(const ls_safetensors_writer *writer);

/* Writes `bytes` bytes of tensor number `tensor` of the plan, from its element `elem_offset` on. Pieces may come in any
 * order, each element once. LS_ERR_INPUT unless they are whole elements inside the tensor. */
ls_status ls_safetensors_write_at(ls_safetensors_writer *writer, int tensor, size_t elem_offset, const void *data,
                                  size_t bytes);

/* Returns the checksums of the bytes that this writer has written so far: [0] of the header, which only the first
 * writer writes, [i + 1] of tensor i. Borrowed until the writer ends. The sums of all writers of a file add up to those
 * of the file. */
const ls_byte_sum *ls_safetensors_byte_sums(const ls_safetensors_writer *writer);

/* Syncs the file to disk and renames it to `path`; LS_ERR_FAILED if bytes of a tensor are missing. Ends the writer in
 * any case; on failure like abort. `file_hash`, if not NULL, gets the XXH3-128 of the whole file, which is read back
 * unless it was written in ascending order; it must be NULL for one of several writers. */
ls_status ls_safetensors_finish(ls_safetensors_writer *writer, ls_hash128 *file_hash);
/* Ends the writer and removes its temporary file; a shared file stays. NULL does nothing. */
void ls_safetensors_abort(ls_safetensors_writer *writer);

#endif
