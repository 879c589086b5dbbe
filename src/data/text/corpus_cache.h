/* corpus_cache.h: tokenizes a text into the cache, once (data/text/corpus.h says when; data/text/cache_folder.h has the
 * names). Several processes may call for the same text. For corpus.c only. */
#ifndef LS_DATA_TEXT_CORPUS_CACHE_H
#define LS_DATA_TEXT_CORPUS_CACHE_H

#include "data/text/corpus.h"

/* Returns the bytes of ids from which on a file of the cache has sums and is verified piece by piece. */
uint64_t ls_corpus_cache_pieces_from(const ls_corpus_options *options);

/* Makes sure that the shards of the text file are in the cache: finds them, waits for the process that makes them,
 * or tokenizes the text. *prefix is that of their paths (ls_token_shard_path); the first number without a file is
 * the end. */
ls_status ls_corpus_cache_fill(const char *path, const ls_corpus_options *options, ls_path *prefix);

#endif
