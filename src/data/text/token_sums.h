/* token_sums.h: checksums of the pieces of a large shard of the token cache, in a file beside it, so that a shard of
 * many GB is verified where it is read, and not from its first to its last byte each time it is opened.
 *
 * NAME.bin.sums, all numbers little-endian:
 *
 *     byte  0   "LSTKSUMS"
 *     byte  8   version (u32): 1
 *     byte 12   bytes of a piece (u32): 65536; the last piece is what is left
 *     byte 16   number of pieces (u64)
 *     byte 24   the shard's own checksum (u64 lo, u64 hi), as in its header
 *     byte 40   XXH3-128 of all its ids (lo, hi)
 *     byte 56   XXH3-64 of each piece of the ids (u64)
 *     then      XXH3-128 of all bytes before (lo, hi)
 *
 * The shard's checksum is that of its header and of the hash of its ids (token_file.h). Both are here, so the header of
 * a shard is verified, and sums of another shard are found, without reading an id. */
#ifndef LS_DATA_TEXT_TOKEN_SUMS_H
#define LS_DATA_TEXT_TOKEN_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/files.h"
#include "base/hash.h"
#include "base/status.h"

enum { LS_TOKEN_PIECE_BYTES = 1 << 16 };

/* Shards with fewer bytes of ids are verified whole: a fraction of a second. */
#define LS_TOKEN_SUMS_FROM_BYTES (UINT64_C(256) << 20)

/* The name of the sums of this shard. */
ls_path ls_token_sums_path(const char *shard);

/* Checksums of a shard as a whole, which tie its sums to it. */
typedef struct ls_token_shard_sums {
    ls_hash128 shard; /* in its header */
    ls_hash128 ids;
} ls_token_shard_sums;

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Starts as {0}. */
typedef struct ls_token_sum_list {
    uint64_t *sums;
    size_t count, capacity;
} ls_token_sum_list;

/* Appends the sums of these bytes of ids. All calls for a shard but the last bring whole pieces. */
ls_status ls_token_sum_list_add(ls_token_sum_list *list, const void *data, size_t bytes);
void ls_token_sum_list_fini(ls_token_sum_list *list);
/* Makes the file at `path`, which must be a temporary name of the caller's own, and forces it to disk. */
ls_status ls_token_sum_list_write(const ls_token_sum_list *list, const ls_token_shard_sums *of, const char *path);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct ls_token_sums ls_token_sums;

/* The sums of a shard with `bytes` bytes of ids, whose header has the checksum `shard`; `ids` gets the hash that goes
 * with it. NULL in *out and LS_OK: there is no such file. LS_ERR_INPUT: it is damaged, or of another shard. */
ls_status ls_token_sums_open(const char *path, uint64_t bytes, ls_hash128 shard, ls_hash128 *ids, ls_token_sums **out);
/* NULL does nothing. */
void ls_token_sums_close(ls_token_sums *sums);

/* Verifies the pieces that bytes begin … end−1 of `ids` lie in, each the first time it is asked for; `ids` are all ids
 * of the shard. False: piece *wrong does not have its sum. Many threads may call: two may verify the same piece. */
bool ls_token_sums_verify(ls_token_sums *sums, const uint8_t *ids, uint64_t begin, uint64_t end, uint64_t *wrong);

#endif
