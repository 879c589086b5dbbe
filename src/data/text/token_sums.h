/* token_sums.h: checksums of the pieces of a large shard of the token cache, in a file beside it, so that a shard of
 * many GB is verified piece by piece as it is read, and not completely each time it is opened.
 *
 * NAME.bin.sums, all numbers little-endian:
 *
 *     byte  0   "LSTKSUMS"
 *     byte  8   version (u32): 1
 *     byte 12   bytes of a piece (u32): 65536; the last piece may be shorter
 *     byte 16   number of pieces (u64)
 *     byte 24   the shard's own checksum (u64 lo, u64 hi), as in its header
 *     byte 40   XXH3-128 of all its ids (lo, hi)
 *     byte 56   XXH3-64 of each piece of the ids (u64)
 *     then      XXH3-128 of all bytes before (lo, hi)
 *
 * The shard's checksum is that of its header and of the hash of its ids (token_file.h). Both are stored here, so that
 * the header can be verified, and sums of another shard can be detected, without reading the ids. */
#ifndef LS_DATA_TEXT_TOKEN_SUMS_H
#define LS_DATA_TEXT_TOKEN_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/files.h"
#include "base/hash.h"
#include "base/status.h"

enum { LS_TOKEN_PIECE_BYTES = 1 << 16 };

/* Shards with fewer bytes of ids are verified whole, which takes a fraction of a second. */
#define LS_TOKEN_SUMS_FROM_BYTES (UINT64_C(256) << 20)

/* Returns the path of the file with a shard's checksums: the shard's path and ".sums". */
ls_path ls_token_sums_path(const char *shard);

/* Checksums of a whole shard, by which its sums are matched to it. */
typedef struct ls_token_shard_sums {
    ls_hash128 shard; /* in its header */
    ls_hash128 ids;
} ls_token_shard_sums;

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* The checksums of the pieces written so far. Starts as {0}. */
typedef struct ls_token_sum_list {
    uint64_t *sums;
    size_t count, capacity;
} ls_token_sum_list;

/* Appends the sums of these bytes of ids. All calls for a shard but the last must pass whole pieces. */
ls_status ls_token_sum_list_add(ls_token_sum_list *list, const void *data, size_t bytes);
/* Frees the checksums, and empties the list. */
void ls_token_sum_list_fini(ls_token_sum_list *list);
/* Writes the file at `path`, a temporary name that is the caller's alone, and syncs it to disk. */
ls_status ls_token_sum_list_write(const ls_token_sum_list *list, const ls_token_shard_sums *of, const char *path);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The checksums of an open shard, and which of its pieces were verified. */
typedef struct ls_token_sums ls_token_sums;

/* Opens the sums of a shard with `bytes` bytes of ids whose header has the checksum `shard`; *ids receives the hash of
 * the ids. If there is no such file, the status is LS_OK and *out NULL. LS_ERR_INPUT: damaged, or of another shard. */
ls_status ls_token_sums_open(const char *path, uint64_t bytes, ls_hash128 shard, ls_hash128 *ids, ls_token_sums **out);
/* Frees the checksums; NULL does nothing. */
void ls_token_sums_close(ls_token_sums *sums);

/* Verifies the pieces that contain bytes begin … end−1 of `ids`, all ids of the shard; each piece once. Returns false
 * if piece *wrong has a wrong sum. Many threads may call; two may verify the same piece. */
bool ls_token_sums_verify(ls_token_sums *sums, const uint8_t *ids, uint64_t begin, uint64_t end, uint64_t *wrong);

#endif
