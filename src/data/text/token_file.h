/* token_file.h: files of token ids, mapped into memory.
 *
 * Read as they are, told apart by what they hold:
 *
 *     llm.c      256 words of 32 bits: 20240520, 1, count; then 16-bit ids. With 20240801, 7: 32-bit ids
 *     Megatron   name.bin of ids and name.idx, which begins with MMIDIDX; whole-number types, one sequence behind
 *                another
 *     nanoGPT    16-bit ids and nothing else: any other file whose name ends in .bin
 *
 * All numbers are little-endian. Sizes are checked when a file is opened; ls_token_file_check() looks at every id and
 * at the checksum and is run before training begins. A file that is cut while it is open is an error of the function
 * that reads it (data/text/map_file.h).
 *
 * Written is llm.c's format: 16-bit ids for a vocabulary of at most 65536, else 32-bit ones. llm.c leaves the words
 * behind the count free; here words 8 … 19 hold what lockstep knows, and other programs skip them:
 *
 *     word  8       0x4B54534C ("LSTK")
 *     word  9, 10   bytes of text that the ids stand for (low word first); 0: not known
 *     word 11       size of the vocabulary
 *     word 12 … 15  hash of the tokenizer (ls_tokenizer_hash): lo, then hi, each low word first
 *     word 16 … 19  checksum, in the same order: XXH3-128 of two XXH3-128 hashes, that of the header with zeros here,
 * and that of all ids as they are in the file; zeros: none (files of version 0.1.0)
 *
 * A token file and a writer belong to one thread at a time; ls_token_file_read() and the rest that takes a const file
 * may be called from many. */
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

/* A file of one of the formats; for Megatron either of the two names. An empty, cut or foreign file is LS_ERR_INPUT. */
ls_status ls_token_file_open(const char *path, ls_token_file **out);
/* NULL does nothing. */
void ls_token_file_close(ls_token_file *file);
/* Whether the file is one of tokens (by its first bytes or, for nanoGPT, its name) and not text. */
ls_status ls_token_file_detect(const char *path, bool *is_tokens);

uint64_t ls_token_file_count(const ls_token_file *file);
/* As given to open. */
const char *ls_token_file_path(const ls_token_file *file);
/* "llm.c", "Megatron" or "nanoGPT" */
const char *ls_token_file_format(const ls_token_file *file);

/* What a file written by lockstep says of itself; zeros for files of other programs. */
typedef struct ls_token_origin {
    uint64_t text_bytes;
    uint32_t vocab;
    ls_hash128 tokenizer;
} ls_token_origin;
ls_token_origin ls_token_file_origin(const ls_token_file *file);

/* Called now and then with how far the work is; may be NULL wherever it is asked for. */
typedef void (*ls_data_progress)(void *ctx, uint64_t done, uint64_t total);

/* Reads every id: the first that is not below `vocab` is LS_ERR_INPUT, and the message names file, position and id. So
 * is a checksum that does not fit. */
ls_status ls_token_file_check(const ls_token_file *file, uint32_t vocab, ls_data_progress progress, void *ctx);
/* The checksum alone; LS_ERR_INPUT also when the file has none. */
ls_status ls_token_file_verify(const ls_token_file *file);
/* For a shard of the token cache with at least `from_bytes` bytes of ids and its sums beside it
 * (data/text/token_sums.h): verifies its header, and from then on ls_token_file_read() verifies each piece of the ids
 * the first time it touches it. *used false: the shard is smaller or has no sums, and is to be verified whole; so it is
 * after LS_ERR_INPUT, which tells what is wrong with the sums. Call it once, before the file is shared with other
 * threads. */
ls_status ls_token_file_use_sums(ls_token_file *file, uint64_t from_bytes, bool *used);
/* Tokens begin … begin+count−1. LS_ERR_INPUT when the file has fewer, for an id that an int32_t cannot hold, and for a
 * piece that does not have its sum. */
ls_status ls_token_file_read(const ls_token_file *file, uint64_t begin, size_t count, int32_t *out);

/* ---- writing ----------------------------------------------------------------------------------------------------- */

typedef struct ls_token_writer ls_token_writer;

/* llm.c counts the tokens of a file in 31 bits. */
#define LS_SHARD_TOKENS_MAX UINT64_C(0x7FFFFFFF)

/* Shards <prefix>_000001.bin, <prefix>_000002.bin … of `shard_tokens` tokens each, the last with what is left; `origin`
 * gives vocabulary and tokenizer. Nothing appears under these names before ls_token_writer_finish(). */
ls_status ls_token_writer_open(const char *prefix, const ls_token_origin *origin, uint64_t shard_tokens,
                               ls_token_writer **out);
/* Shards with at least `from_bytes` bytes of ids get their sums beside them (data/text/token_sums.h). Before the first
 * id.
 */
void ls_token_writer_keep_sums(ls_token_writer *writer, uint64_t from_bytes);
/* Appends ids, which stand for `text_bytes` bytes of text; each must be below the vocabulary. */
ls_status ls_token_writer_add(ls_token_writer *writer, const int32_t *ids, size_t count, uint64_t text_bytes);
/* Forces all shards to disk and gives them their names, the first one last: where it is, all are. Without a single
 * token it fails. */
ls_status ls_token_writer_finish(ls_token_writer *writer);
uint64_t ls_token_writer_count(const ls_token_writer *writer);
size_t ls_token_writer_shards(const ls_token_writer *writer);
/* Without a finish before it, removes what was written. NULL does nothing. */
void ls_token_writer_close(ls_token_writer *writer);

/* The name of shard `number`, which counts from 1. */
ls_path ls_token_shard_path(const char *prefix, size_t number);

#endif
