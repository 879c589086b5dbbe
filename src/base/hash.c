/* hash.c: XXH3 from libxxhash. Data that must be rewritten first goes through a small buffer on the stack. */
#include "base/hash.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Shows the size of the streaming state, so that it can live on the stack. */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the hash of fp32 values is that of little-endian bytes");

enum { BLOCK_ELEMS = 1024, BLOCK_HASHES = 64 };

#define F32_QUIET_NAN 0x7FC00000u
#define F32_INFINITY 0x7F800000u

static ls_hash128 from_xxh(XXH128_hash_t hash) { return (ls_hash128){.lo = hash.low64, .hi = hash.high64}; }

static void stream_begin(XXH3_state_t *state) {
    XXH_errorcode rc = XXH3_128bits_reset(state);
    assert(rc == XXH_OK); /* fails for NULL only */
    (void)rc;
}

static void stream_add(XXH3_state_t *state, const void *data, size_t bytes) {
    XXH_errorcode rc = XXH3_128bits_update(state, data, bytes);
    assert(rc == XXH_OK);
    (void)rc;
}

ls_hash128 ls_hash_bytes(const void *data, size_t bytes) { return from_xxh(XXH3_128bits(data, bytes)); }

ls_hash128 ls_hash_f32(const float *values, size_t elems) {
    XXH3_state_t state;
    uint32_t block[BLOCK_ELEMS];
    stream_begin(&state);
    for (size_t done = 0; done < elems;) {
        size_t count = elems - done < BLOCK_ELEMS ? elems - done : BLOCK_ELEMS;
        memcpy(block, values + done, count * sizeof block[0]);
        for (size_t i = 0; i < count; i++)
            block[i] = (block[i] & 0x7FFFFFFFu) > F32_INFINITY ? F32_QUIET_NAN : block[i];
        stream_add(&state, block, count * sizeof block[0]);
        done += count;
    }
    return from_xxh(XXH3_128bits_digest(&state));
}

ls_hash128 ls_hash_combine(const ls_hash128 *hashes, size_t count) {
    XXH3_state_t state;
    XXH128_canonical_t block[BLOCK_HASHES];
    stream_begin(&state);
    for (size_t done = 0; done < count;) {
        size_t n = count - done < BLOCK_HASHES ? count - done : BLOCK_HASHES;
        for (size_t i = 0; i < n; i++) {
            XXH128_hash_t hash = {.low64 = hashes[done + i].lo, .high64 = hashes[done + i].hi};
            XXH128_canonicalFromHash(&block[i], hash);
        }
        stream_add(&state, block, n * sizeof block[0]);
        done += n;
    }
    return from_xxh(XXH3_128bits_digest(&state));
}

bool ls_hash_equal(ls_hash128 a, ls_hash128 b) { return a.lo == b.lo && a.hi == b.hi; }

void ls_hash_text(ls_hash128 hash, char out[LS_HASH_TEXT_BYTES]) {
    snprintf(out, LS_HASH_TEXT_BYTES, "%016" PRIx64 "%016" PRIx64, hash.hi, hash.lo);
}
