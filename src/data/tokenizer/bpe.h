/* bpe.h: byte-pair encoding of one piece of text.
 *
 * A piece starts as one token for each byte. Of all neighbours that may be merged the pair of the lowest rank is
 * merged, the leftmost of several, until none is left: the order of Hugging Face `tokenizers`. Short pieces are
 * searched from end to end for each merge; long ones keep their pairs in a heap, so that a piece of n bytes takes O(n
 * log n). Results of short pieces are remembered. */
#ifndef LS_DATA_TOKENIZER_BPE_H
#define LS_DATA_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/vocab.h"

/* Longer pieces are refused: nothing that is text has them, and each byte takes 40 bytes of memory. */
#define LS_BPE_PIECE_MAX ((size_t)1 << 30)

typedef struct ls_merge {
    int32_t left, right; /* left −1: a free slot */
    uint32_t rank;
    int32_t id;
} ls_merge;

typedef struct ls_word ls_word;

typedef struct ls_bpe {
    const ls_vocab *vocab;
    int32_t byte_ids[256]; /* −1: the vocabulary has no token for this byte */
    bool ignore_merges;    /* a piece that is a token is that token, whatever its merges give */
    ls_merge *merges;      /* hash table of pairs; a power of two */
    size_t merges_capacity, merges_used;
    ls_word *words; /* cache of pieces */
} ls_bpe;

/* `vocab` is complete and outlives the bpe. `merges_max`: how many will be added. */
ls_status ls_bpe_init(ls_bpe *bpe, const ls_vocab *vocab, size_t merges_max, bool ignore_merges);
void ls_bpe_fini(ls_bpe *bpe);
/* The pair gives the token `id`; of the same pair added twice the last counts. Ranks count up from 0. */
void ls_bpe_add(ls_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id);

/* Appends the ids of a piece, which is not empty. */
ls_status ls_bpe_encode(ls_bpe *bpe, const uint8_t *piece, size_t bytes, ls_tokens *out);

#endif
