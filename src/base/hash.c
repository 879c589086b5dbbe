/* hash.c: XXH3 from libxxhash. fp32 values are canonicalized in a small buffer on the stack. A file is read, not
 * mapped, because a failing read is an error, while a failing mapping kills the process. */
#include "base/hash.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alive.h"
#include "base/files.h"

/* Exposes the streaming state, so that it can live on the stack. */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the hash of fp32 values is that of little-endian bytes");

enum { BLOCK_ELEMS = 1024, BLOCK_HASHES = 64 };

#define F32_QUIET_NAN 0x7FC00000u
#define F32_INFINITY 0x7F800000u

static ls_hash128 from_xxh(XXH128_hash_t hash) { return (ls_hash128){.lo = hash.low64, .hi = hash.high64}; }

/* ---- in pieces --------------------------------------------------------------------------------------------------- */

struct ls_hash_stream {
    XXH3_state_t state;
};

ls_hash_stream *ls_hash_stream_create(void) {
    /* The state needs a larger alignment than malloc() guarantees. */
    ls_hash_stream *stream = aligned_alloc(_Alignof(ls_hash_stream), sizeof *stream);
    if (stream) ls_hash_stream_restart(stream);
    return stream;
}

void ls_hash_stream_destroy(ls_hash_stream *stream) { free(stream); }

void ls_hash_stream_restart(ls_hash_stream *stream) {
    XXH_errorcode rc = XXH3_128bits_reset(&stream->state);
    assert(rc == XXH_OK); /* fails only for NULL */
    (void)rc;
}

void ls_hash_stream_add(ls_hash_stream *stream, const void *data, size_t bytes) {
    XXH_errorcode rc = XXH3_128bits_update(&stream->state, data, bytes);
    assert(rc == XXH_OK);
    (void)rc;
}

ls_hash128 ls_hash_stream_value(const ls_hash_stream *stream) { return from_xxh(XXH3_128bits_digest(&stream->state)); }

typedef struct file_hash {
    ls_hash_stream stream;
    uint64_t bytes;
} file_hash;

/* Adds a piece of a file to its hash, for ls_file_scan(). */
static void hash_piece(void *ctx, const void *data, size_t bytes) {
    file_hash *f = ctx;
    ls_hash_stream_add(&f->stream, data, bytes);
    f->bytes += bytes;
}

ls_status ls_hash_file(const char *path, ls_hash128 *hash, uint64_t *bytes) {
    file_hash f = {.bytes = 0};
    ls_hash_stream_restart(&f.stream);
    LS_TRY(ls_file_scan(path, hash_piece, &f));
    *hash = ls_hash_stream_value(&f.stream);
    *bytes = f.bytes;
    return LS_OK;
}

/* ---- whole ------------------------------------------------------------------------------------------------------- */

ls_hash128 ls_hash_bytes(const void *data, size_t bytes) { return from_xxh(XXH3_128bits(data, bytes)); }

ls_hash128 ls_hash_long(const void *data, size_t bytes) {
    ls_hash_stream stream;
    ls_hash_stream_restart(&stream);
    for (size_t done = 0; done < bytes; ls_alive_turn()) {
        size_t part = bytes - done < LS_ALIVE_BYTES ? bytes - done : LS_ALIVE_BYTES;
        ls_hash_stream_add(&stream, (const uint8_t *)data + done, part);
        done += part;
    }
    return ls_hash_stream_value(&stream);
}

ls_hash128 ls_hash_f32(const float *values, size_t elems) {
    ls_hash_stream stream;
    uint32_t block[BLOCK_ELEMS];
    ls_hash_stream_restart(&stream);
    for (size_t done = 0; done < elems;) {
        size_t count = elems - done < BLOCK_ELEMS ? elems - done : BLOCK_ELEMS;
        memcpy(block, values + done, count * sizeof block[0]);
        for (size_t i = 0; i < count; i++)
            block[i] = (block[i] & 0x7FFFFFFFu) > F32_INFINITY ? F32_QUIET_NAN : block[i];
        ls_hash_stream_add(&stream, block, count * sizeof block[0]);
        done += count;
    }
    return ls_hash_stream_value(&stream);
}

ls_hash128 ls_hash_combine(const ls_hash128 *hashes, size_t count) {
    ls_hash_stream stream;
    XXH128_canonical_t block[BLOCK_HASHES];
    ls_hash_stream_restart(&stream);
    for (size_t done = 0; done < count;) {
        size_t n = count - done < BLOCK_HASHES ? count - done : BLOCK_HASHES;
        for (size_t i = 0; i < n; i++) {
            XXH128_hash_t hash = {.low64 = hashes[done + i].lo, .high64 = hashes[done + i].hi};
            XXH128_canonicalFromHash(&block[i], hash);
        }
        ls_hash_stream_add(&stream, block, n * sizeof block[0]);
        done += n;
    }
    return ls_hash_stream_value(&stream);
}

bool ls_hash_equal(ls_hash128 a, ls_hash128 b) { return a.lo == b.lo && a.hi == b.hi; }

void ls_hash_text(ls_hash128 hash, char out[LS_HASH_TEXT_BYTES]) {
    snprintf(out, LS_HASH_TEXT_BYTES, "%016" PRIx64 "%016" PRIx64, hash.hi, hash.lo);
}
