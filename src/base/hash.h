/* hash.h: 128-bit XXH3 of bytes, whole or in pieces, of files, of fp32 tensors, and of lists of hashes. Runs are
 * compared, and data, weights and checkpoints verified, by these hashes.
 *
 * It detects differences and corruption, but does not protect against an attacker. The hash of fp32 values is that of
 * their little-endian bytes with every NaN replaced by 0x7FC00000 (rule 16 of docs/reference/arithmetic.md), so that
 * equal numbers have equal hashes on every machine; −0 and +0 differ. The text form is that of xxhsum. Any thread may
 * call; only streams and files allocate memory. */
#ifndef LS_BASE_HASH_H
#define LS_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ls_hash128 {
    uint64_t lo, hi;
} ls_hash128;

enum { LS_HASH_TEXT_BYTES = 33 };

/* Returns the XXH3 hash of the bytes as they are. */
ls_hash128 ls_hash_bytes(const void *data, size_t bytes);
/* Returns the same as ls_hash_bytes(), and reports progress (base/alive.h): for large data, such as a mapped file. */
ls_hash128 ls_hash_long(const void *data, size_t bytes);
/* Returns the hash of `elems` fp32 values, with every NaN replaced by 0x7FC00000. */
ls_hash128 ls_hash_f32(const float *values, size_t elems);
/* Combines `count` hashes in this order: returns the hash of their canonical forms (hi, then lo, big-endian). */
ls_hash128 ls_hash_combine(const ls_hash128 *hashes, size_t count);

/* ---- in pieces --------------------------------------------------------------------------------------------------- */

typedef struct ls_hash_stream ls_hash_stream;

/* Makes a stream without bytes, which the caller destroys. Returns NULL if memory is short. */
ls_hash_stream *ls_hash_stream_create(void);
/* Frees the stream; NULL does nothing. */
void ls_hash_stream_destroy(ls_hash_stream *stream);
/* Forgets all bytes, as after creation. */
void ls_hash_stream_restart(ls_hash_stream *stream);
/* Adds bytes to those hashed so far. */
void ls_hash_stream_add(ls_hash_stream *stream, const void *data, size_t bytes);
/* Returns the hash of all bytes since the restart; more may be added. */
ls_hash128 ls_hash_stream_value(const ls_hash_stream *stream);

/* Reads a regular file; *hash is the hash of its bytes and *bytes its size, both unchanged on failure. */
ls_status ls_hash_file(const char *path, ls_hash128 *hash, uint64_t *bytes);

/* ---- values ------------------------------------------------------------------------------------------------------ */

bool ls_hash_equal(ls_hash128 a, ls_hash128 b);
/* Writes 32 hexadecimal digits, hi first, and a NUL. */
void ls_hash_text(ls_hash128 hash, char out[LS_HASH_TEXT_BYTES]);

#endif
