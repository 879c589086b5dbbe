/* corpus_cache.h: tokenizes a text into the cache, once (data/text/corpus.h says when; data/text/cache_folder.h has the
 * names). Several processes may call for the same text. For corpus.c only. */
#ifndef LS_DATA_TEXT_CORPUS_CACHE_H
#define LS_DATA_TEXT_CORPUS_CACHE_H

#include "data/text/corpus.h"

/* Returns the size, in bytes of ids, from which on a shard has checksums of its pieces, so that each piece is verified
 * when it is read. Smaller shards are verified whole when they are opened. */
uint64_t ls_corpus_cache_pieces_from(const ls_corpus_options *options);

/* Makes sure that the shards of the text file are in the cache: finds them, waits for the process that makes them,
 * or tokenizes the text. *prefix is that of their paths (ls_token_shard_path), numbered from 1; the first number
 * without a file is the end. LS_ERR_INPUT if the text cannot be read or is empty; LS_ERR_DEADLINE if the other process
 * makes no progress for a while (options->wait_s). */
ls_status ls_corpus_cache_fill(const char *path, const ls_corpus_options *options, ls_path *prefix);

#endif
