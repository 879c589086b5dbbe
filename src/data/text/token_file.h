/* token_file.h: reads and writes files of token ids. A corpus reads them, mapped into memory; `lockstep tokenize` and
 * the token cache write them.
 *
 * Reads these formats, recognized by their content:
 *
 *     llm.c      256 words of 32 bits: 20240520, 1, count; then 16-bit ids. With 20240801, 7: 32-bit ids
 *     Megatron   name.bin with the ids and name.idx, which begins with MMIDIDX; integer types, sequences without gaps
 *     nanoGPT    only 16-bit ids: any other file whose name ends in .bin
 *
 * All numbers are little-endian. Opening checks the sizes; ls_token_file_check() checks every id and the checksum
 * before training begins. If a file is truncated while it is open, the function that reads it returns an error
 * (data/text/map_file.h).
 *
 * Writes llm.c's format, with 16-bit ids for a vocabulary of at most 65536, else 32-bit ids. llm.c leaves the words
 * behind the count free. Words 8 … 19 contain lockstep's metadata, which other programs skip:
 *
 *     word  8       0x4B54534C ("LSTK")
 *     word  9, 10   bytes of text that the ids stand for (low word first); 0: not known
 *     word 11       size of the vocabulary
 *     word 12 … 15  hash of the tokenizer (ls_tokenizer_hash): lo, then hi, each low word first
 *     word 16 … 19  checksum, in the same order: XXH3-128 of two XXH3-128 hashes, that of the header with zeros here
 *                   and that of all ids as stored; zeros: none (files of version 0.1.0)
 *
 * A token file and a writer belong to one thread at a time, but many threads may call functions that take a const file.
 */
#ifndef LS_DATA_TEXT_TOKEN_FILE_H
#define LS_DATA_TEXT_TOKEN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/files.h"
#include "base/hash.h"
#include "base/status.h"

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct ls_token_file ls_token_file;

/* Opens a file; for Megatron, by either of the two names, or without suffix. LS_ERR_INPUT if it is empty, truncated
 * or of another format. Does not read the ids. The caller closes *out, which is NULL on failure. */
ls_status ls_token_file_open(const char *path, ls_token_file **out);
/* Closes the file and frees it; NULL does nothing. */
void ls_token_file_close(ls_token_file *file);
/* Sets *is_tokens to whether the file has tokens, not text: by name (.bin, .idx, a Megatron pair without suffix),
 * else by its first bytes. */
ls_status ls_token_file_detect(const char *path, bool *is_tokens);

/* Returns the number of ids. */
uint64_t ls_token_file_count(const ls_token_file *file);
/* Returns the path that was given to open. */
const char *ls_token_file_path(const ls_token_file *file);
/* Returns "llm.c", "Megatron" or "nanoGPT". */
const char *ls_token_file_format(const ls_token_file *file);

/* What a file's ids were made from. Zeros for files of other programs. */
typedef struct ls_token_origin {
    uint64_t text_bytes;  /* of text that the ids stand for; 0: not known */
    uint32_t vocab;       /* size of the vocabulary */
    ls_hash128 tokenizer; /* ls_tokenizer_hash() */
} ls_token_origin;
/* Returns the metadata; all zeros for files of other programs. */
ls_token_origin ls_token_file_origin(const ls_token_file *file);

/* Callback for progress, `done` of `total` in bytes of text or in ids; may be NULL everywhere. */
typedef void (*ls_data_progress)(void *ctx, uint64_t done, uint64_t total);

/* Reads every id and, if the file has one, the checksum. LS_ERR_INPUT for an id that is not below `vocab` (the message
 * names file, position and id), and for a wrong checksum. */
ls_status ls_token_file_check(const ls_token_file *file, uint32_t vocab, ls_data_progress progress, void *ctx);
/* Verifies only the checksum; LS_ERR_INPUT also if the file has none. */
ls_status ls_token_file_verify(const ls_token_file *file);
/* Prepares verification by pieces for a shard of the token cache with at least `from_bytes` bytes of ids and a file of
 * sums (data/text/token_sums.h): verifies its header; from then on ls_token_file_read() verifies each piece of the ids
 * when it first reads it. *used false: the shard is smaller or has no sums; the caller must verify it whole.
 * LS_ERR_INPUT says what is wrong with the sums; then the caller must do so too. Call it once, before the file is
 * shared with other threads. */
ls_status ls_token_file_use_sums(ls_token_file *file, uint64_t from_bytes, bool *used);
/* Reads tokens begin … begin+count−1. LS_ERR_INPUT if the file has fewer, for an id that does not fit an int32_t, and
 * for a piece with a wrong sum. */
ls_status ls_token_file_read(const ls_token_file *file, uint64_t begin, size_t count, int32_t *out);

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Writes ids into shards, files of llm.c's format. */
typedef struct ls_token_writer ls_token_writer;

/* llm.c counts the tokens of a file in 31 bits. */
#define LS_SHARD_TOKENS_MAX UINT64_C(0x7FFFFFFF)

/* Opens a writer of shards <prefix>_000001.bin, <prefix>_000002.bin … with `shard_tokens` tokens each (at most
 * LS_SHARD_TOKENS_MAX), fewer in the last; `origin` has vocabulary and tokenizer. The files get these names only in
 * ls_token_writer_finish(), which replaces older ones. */
ls_status ls_token_writer_open(const char *prefix, const ls_token_origin *origin, uint64_t shard_tokens,
                               ls_token_writer **out);
/* Makes the writer keep a file of checksums (data/text/token_sums.h) for each shard with at least `from_bytes` bytes of
 * ids. Call it before the first id. */
void ls_token_writer_keep_sums(ls_token_writer *writer, uint64_t from_bytes);
/* Appends ids that stand for `text_bytes` bytes of text, which count for the shard of the first id; each id must be
 * below the vocabulary (LS_ERR_INPUT). Without ids it does nothing. */
ls_status ls_token_writer_add(ls_token_writer *writer, const int32_t *ids, size_t count, uint64_t text_bytes);
/* Syncs the last shard to disk, as all before it, and renames them, the first one last, so that all exist if the first
 * does. LS_ERR_INPUT if there is no token. If a rename fails, the shards that were renamed are removed. After it
 * nothing can be added. */
ls_status ls_token_writer_finish(ls_token_writer *writer);
/* Returns the number of ids so far, in all shards. */
uint64_t ls_token_writer_count(const ls_token_writer *writer);
/* Returns the number of complete shards; after finish, all. */
size_t ls_token_writer_shards(const ls_token_writer *writer);
/* Closes the writer; removes what was written if it was not finished. NULL does nothing. */
void ls_token_writer_close(ls_token_writer *writer);

/* Returns the name of shard `number`, which counts from 1. */
ls_path ls_token_shard_path(const char *prefix, size_t number);

#endif
