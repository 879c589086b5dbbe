/* hash_stream.h: XXH3-128 of bytes that come in pieces, and of whole files; for this folder only. */
#ifndef LS_CHECKPOINT_HASH_STREAM_H
#define LS_CHECKPOINT_HASH_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/status.h"

typedef struct ls_hash_stream ls_hash_stream;

/* NULL when memory is short. */
ls_hash_stream *ls_hash_stream_create(void);
/* NULL does nothing. */
void ls_hash_stream_destroy(ls_hash_stream *stream);
void ls_hash_stream_restart(ls_hash_stream *stream);
void ls_hash_stream_add(ls_hash_stream *stream, const void *data, size_t bytes);
/* Of all that was added since the restart; more may follow. */
ls_hash128 ls_hash_stream_value(const ls_hash_stream *stream);

/* Reads a file as it is on disk. `step`, when not NULL, is told the bytes of each piece. */
ls_status ls_hash_file(const char *path, void (*step)(void *ctx, size_t bytes), void *ctx, ls_hash128 *hash,
                       uint64_t *bytes);

#endif
