/* bpe.h: byte-pair encoding of one piece of text.
 *
 * The tokenizer (encode.c) calls it for each piece that pretok.h cuts. A piece starts as one token per byte. Among all
 * neighbours that can be merged, the pair of the lowest rank is merged, the leftmost of several, until none is left, as
 * in Hugging Face `tokenizers`. Short pieces are searched completely for each merge; long ones keep their pairs in a
 * heap, so that a piece of n bytes takes O(n log n). Results of short pieces are cached. */
#ifndef LS_DATA_TOKENIZER_BPE_H
#define LS_DATA_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/vocab.h"

/* Longer pieces are refused, because each byte takes 40 bytes of memory and text has no such pieces. */
#define LS_BPE_PIECE_MAX ((size_t)1 << 30)

/* A merge: the pair of tokens `left`, `right` becomes token `id`; the lowest rank is merged first. */
typedef struct ls_merge {
    int32_t left, right; /* left −1: a free slot */
    uint32_t rank;
    int32_t id;
} ls_merge;

typedef struct ls_word ls_word;

typedef struct ls_bpe {
    const ls_vocab *vocab;
    int32_t byte_ids[256]; /* −1: the vocabulary has no token for this byte */
    bool ignore_merges;    /* a piece that is a token becomes that token, without merges */
    ls_merge *merges;      /* hash table of pairs; a power of two */
    size_t merges_capacity, merges_used;
    ls_word *words; /* cache of pieces */
} ls_bpe;

/* Initializes a bpe. `vocab` must be complete and outlive it. At most `merges_max` merges will be added. */
ls_status ls_bpe_init(ls_bpe *bpe, const ls_vocab *vocab, size_t merges_max, bool ignore_merges);
/* Frees merges and cache, but not the vocabulary. */
void ls_bpe_fini(ls_bpe *bpe);
/* Adds a merge of the pair to token `id`; the last one counts if a pair is added twice. Ranks count from 0. */
void ls_bpe_add(ls_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id);

/* Appends the ids of a piece, which is not empty, to `out`. LS_ERR_INPUT if the vocabulary lacks one of its bytes, or
 * the piece is longer than LS_BPE_PIECE_MAX. Changes the cache, so one thread at a time. */
ls_status ls_bpe_encode(ls_bpe *bpe, const uint8_t *piece, size_t bytes, ls_tokens *out);

#endif
