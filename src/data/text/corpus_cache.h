/* corpus_cache.h: text that has been tokenized once. */
#ifndef LS_DATA_TEXT_CORPUS_CACHE_H
#define LS_DATA_TEXT_CORPUS_CACHE_H

#include "data/text/corpus.h"

/* Files of the cache with so many bytes of ids have sums and are verified piece by piece. */
uint64_t ls_corpus_cache_pieces_from(const ls_corpus_options *options);

/* Sees to it that the shards of the text file are in the cache: `prefix` is theirs (ls_token_shard_path), and they end
 * with the first number that is not there. */
ls_status ls_corpus_cache_fill(const char *path, const ls_corpus_options *options, ls_path *prefix);

#endif
