/* bpe.c: merges, the cache of words, and short pieces. */
#include "data/tokenizer/bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_BYTES = 48, WORD_BYTES = 22, WORD_IDS = 8, WORDS_BITS = 15, WORDS = 1 << WORDS_BITS };

/* One remembered piece; a newer one of the same slot takes its place. */
struct ls_word {
    uint8_t bytes, count; /* bytes 0: free */
    uint8_t text[WORD_BYTES];
    int32_t ids[WORD_IDS];
};

/* Multipliers from the golden ratio and from the fraction of the square root of 3. */
static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t hash = (a * UINT64_C(0x9E3779B97F4A7C15)) ^ (b * UINT64_C(0xBB67AE8584CAA73B));
    return hash ^ hash >> 29;
}

ls_status ls_bpe_init(ls_bpe *bpe, const ls_vocab *vocab, size_t merges_max, bool ignore_merges) {
    *bpe = (ls_bpe){.vocab = vocab, .ignore_merges = ignore_merges, .merges_room = 16};
    while (bpe->merges_room < 2 * merges_max) bpe->merges_room *= 2;
    bpe->merges = malloc(bpe->merges_room * sizeof *bpe->merges);
    bpe->words = calloc(WORDS, sizeof *bpe->words);
    if (!bpe->merges || !bpe->words) {
        ls_bpe_fini(bpe);
        return ls_fail(LS_ERR_RESOURCE, "no memory for %zu merges of the tokenizer", merges_max);
    }
    for (size_t i = 0; i < bpe->merges_room; i++) bpe->merges[i].left = -1;
    for (int byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        bpe->byte_ids[byte] = ls_vocab_find(vocab, &text, 1);
    }
    return LS_OK;
}

void ls_bpe_fini(ls_bpe *bpe) {
    free(bpe->merges);
    free(bpe->words);
    bpe->merges = NULL;
    bpe->words = NULL;
}

/* The slot of the pair, or the free one where it belongs. */
static size_t merge_slot(const ls_bpe *bpe, int32_t left, int32_t right) {
    size_t mask = bpe->merges_room - 1;
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t slot = (size_t)(pair * UINT64_C(0x9E3779B97F4A7C15) >> 24) & mask;
    while (bpe->merges[slot].left >= 0 && (bpe->merges[slot].left != left || bpe->merges[slot].right != right))
        slot = (slot + 1) & mask;
    return slot;
}

void ls_bpe_add(ls_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id) {
    size_t slot = merge_slot(bpe, left, right);
    if (bpe->merges[slot].left < 0) bpe->merges_used++;
    assert(bpe->merges_used < bpe->merges_room);
    bpe->merges[slot] = (ls_merge){.left = left, .right = right, .rank = rank, .id = id};
}

const ls_merge *ls_bpe_find(const ls_bpe *bpe, int32_t left, int32_t right) {
    const ls_merge *merge = &bpe->merges[merge_slot(bpe, left, right)];
    return merge->left < 0 ? NULL : merge;
}

static uint32_t rank_of(const ls_bpe *bpe, int32_t left, int32_t right, int32_t *id) {
    const ls_merge *merge = ls_bpe_find(bpe, left, right);
    if (!merge) return UINT32_MAX;
    *id = merge->id;
    return merge->rank;
}

/* Merges in place; returns how many are left. */
static size_t merge_short(const ls_bpe *bpe, int32_t *ids, size_t count) {
    uint32_t ranks[SHORT_BYTES];
    int32_t merged[SHORT_BYTES];
    for (size_t i = 0; i + 1 < count; i++) ranks[i] = rank_of(bpe, ids[i], ids[i + 1], &merged[i]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++) {
            if (ranks[i] < ranks[best]) best = i;
        }
        if (ranks[best] == UINT32_MAX) break;
        ids[best] = merged[best];
        size_t behind = count - best - 2; /* tokens behind the pair */
        memmove(&ids[best + 1], &ids[best + 2], behind * sizeof *ids);
        if (behind) {
            memmove(&ranks[best + 1], &ranks[best + 2], (behind - 1) * sizeof *ranks);
            memmove(&merged[best + 1], &merged[best + 2], (behind - 1) * sizeof *merged);
            ranks[best] = rank_of(bpe, ids[best], ids[best + 1], &merged[best]);
        }
        if (best) ranks[best - 1] = rank_of(bpe, ids[best - 1], ids[best], &merged[best - 1]);
        count--;
    }
    return count;
}

static ls_status first_ids(const ls_bpe *bpe, const uint8_t *piece, size_t bytes, int32_t *ids) {
    for (size_t i = 0; i < bytes; i++) {
        ids[i] = bpe->byte_ids[piece[i]];
        if (ids[i] < 0)
            return ls_fail(LS_ERR_INPUT,
                           "the text has the byte 0x%02X, for which the tokenizer has no token; use another tokenizer",
                           piece[i]);
    }
    return LS_OK;
}

static ls_status encode_piece(const ls_bpe *bpe, const uint8_t *piece, size_t bytes, ls_tokens *out) {
    LS_TRY(ls_tokens_reserve(out, bytes));
    int32_t *ids = out->ids + out->count;
    size_t count = bytes;
    if (bpe->ignore_merges) {
        int32_t whole = ls_vocab_find(bpe->vocab, (const char *)piece, bytes);
        if (whole >= 0) {
            *ids = whole;
            out->count++;
            return LS_OK;
        }
    }
    LS_TRY(first_ids(bpe, piece, bytes, ids));
    if (bytes <= SHORT_BYTES) {
        count = merge_short(bpe, ids, bytes);
    } else {
        LS_TRY(ls_bpe_merge_long(bpe, ids, &count));
    }
    out->count += count;
    return LS_OK;
}

/* The slot of a piece of at most WORD_BYTES bytes. Bytes are read one by one up to 8, then as words that overlap. */
static ls_word *word_slot(const ls_bpe *bpe, const uint8_t *piece, size_t bytes) {
    uint64_t head = 0, tail = 0, middle = 0;
    if (bytes >= 8) {
        memcpy(&head, piece, 8);
        memcpy(&tail, piece + bytes - 8, 8);
        if (bytes > 16) memcpy(&middle, piece + 8, 8);
    } else {
        for (size_t i = 0; i < bytes; i++) head |= (uint64_t)piece[i] << 8 * i;
    }
    return &bpe->words[mix(head ^ middle, tail + bytes) >> 20 & (WORDS - 1)];
}

ls_status ls_bpe_encode(ls_bpe *bpe, const uint8_t *piece, size_t bytes, ls_tokens *out) {
    if (bytes > LS_BPE_PIECE_MAX)
        return ls_fail(LS_ERR_INPUT, "the text has a word of %zu bytes, without anything to cut it at; the most is %zu",
                       bytes, LS_BPE_PIECE_MAX);
    if (bytes > WORD_BYTES) return encode_piece(bpe, piece, bytes, out);
    ls_word *word = word_slot(bpe, piece, bytes);
    if (word->bytes == bytes && memcmp(word->text, piece, bytes) == 0) {
        LS_TRY(ls_tokens_reserve(out, WORD_IDS));
        memcpy(out->ids + out->count, word->ids, sizeof word->ids);
        out->count += word->count;
        return LS_OK;
    }
    size_t before = out->count;
    LS_TRY(encode_piece(bpe, piece, bytes, out));
    size_t count = out->count - before;
    if (count <= WORD_IDS) {
        word->bytes = (uint8_t)bytes;
        word->count = (uint8_t)count;
        memcpy(word->text, piece, bytes);
        memcpy(word->ids, out->ids + before, count * sizeof *word->ids);
    }
    return LS_OK;
}
