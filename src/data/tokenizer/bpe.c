/* bpe.c: merges pieces, and caches the results of short ones. */
#include "data/tokenizer/bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_BYTES = 48, WORD_BYTES = 22, WORD_IDS = 8, WORDS_BITS = 15, WORDS = 1 << WORDS_BITS };

/* A cached piece of at most WORD_BYTES bytes and WORD_IDS ids; a newer one replaces it in its slot. */
struct ls_word {
    uint8_t bytes, count; /* bytes 0: free */
    uint8_t text[WORD_BYTES];
    int32_t ids[WORD_IDS];
};

/* Returns a hash of two numbers, with multipliers from the golden ratio and the square root of 3. */
static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t hash = (a * UINT64_C(0x9E3779B97F4A7C15)) ^ (b * UINT64_C(0xBB67AE8584CAA73B));
    return hash ^ hash >> 29;
}

ls_status ls_bpe_init(ls_bpe *bpe, const ls_vocab *vocab, size_t merges_max, bool ignore_merges) {
    *bpe = (ls_bpe){.vocab = vocab, .ignore_merges = ignore_merges, .merges_capacity = 16};
    while (bpe->merges_capacity < 2 * merges_max) bpe->merges_capacity *= 2;
    bpe->merges = malloc(bpe->merges_capacity * sizeof *bpe->merges);
    bpe->words = calloc(WORDS, sizeof *bpe->words);
    if (!bpe->merges || !bpe->words) {
        ls_bpe_fini(bpe);
        return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu merges of the tokenizer", merges_max);
    }
    for (size_t i = 0; i < bpe->merges_capacity; i++) bpe->merges[i].left = -1;
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

/* Returns the slot of the pair, or the free slot where it belongs. */
static size_t merge_slot(const ls_bpe *bpe, int32_t left, int32_t right) {
    size_t mask = bpe->merges_capacity - 1;
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t slot = (size_t)(pair * UINT64_C(0x9E3779B97F4A7C15) >> 24) & mask;
    while (bpe->merges[slot].left >= 0 && (bpe->merges[slot].left != left || bpe->merges[slot].right != right))
        slot = (slot + 1) & mask;
    return slot;
}

void ls_bpe_add(ls_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id) {
    size_t slot = merge_slot(bpe, left, right);
    if (bpe->merges[slot].left < 0) bpe->merges_used++;
    assert(bpe->merges_used < bpe->merges_capacity);
    bpe->merges[slot] = (ls_merge){.left = left, .right = right, .rank = rank, .id = id};
}

/* Returns the merge of the pair; NULL if it is not merged. */
static const ls_merge *find_merge(const ls_bpe *bpe, int32_t left, int32_t right) {
    const ls_merge *merge = &bpe->merges[merge_slot(bpe, left, right)];
    return merge->left < 0 ? NULL : merge;
}

/* Returns the rank of the pair's merge, and sets *id to the token that it gives; UINT32_MAX: the pair is not merged. */
static uint32_t rank_of(const ls_bpe *bpe, int32_t left, int32_t right, int32_t *id) {
    const ls_merge *merge = find_merge(bpe, left, right);
    if (!merge) return UINT32_MAX;
    *id = merge->id;
    return merge->rank;
}

/* Merges a piece of at most SHORT_BYTES tokens in place, searching all pairs for each merge. Returns the number of
 * tokens left. */
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

/* ---- long pieces ------------------------------------------------------------------------------------------------- */

/* Merging a long piece. The tokens are a doubly linked list inside an array, so that indices never change. The pairs
 * that can be merged are in a binary heap, lowest rank first, then leftmost. An entry whose tokens have changed is
 * stale and is skipped when it is popped: its pair no longer gives the id that was recorded with it. */

/* A token in the list of merge_long(). */
typedef struct symbol {
    uint32_t previous, next; /* NONE at the ends */
    int32_t id;              /* −1: merged into the one before it */
} symbol;

/* A pair in the heap: its rank, the index of its left token, and the token that it becomes. */
typedef struct candidate {
    uint32_t rank, at;
    int32_t id;
} candidate;

#define NONE UINT32_MAX

/* The pairs that can be merged; items[0] is the next. */
typedef struct pair_heap {
    candidate *items;
    size_t count;
} pair_heap;

/* Returns whether pair a is merged before pair b. */
static bool is_before(const candidate *a, const candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

/* Moves item i towards the root until the heap is in order. */
static void sift_up(pair_heap *heap, size_t i) {
    candidate item = heap->items[i];
    while (i > 0 && is_before(&item, &heap->items[(i - 1) / 2])) {
        heap->items[i] = heap->items[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap->items[i] = item;
}

/* Moves item i towards the leaves until the heap is in order. */
static void sift_down(pair_heap *heap, size_t i) {
    candidate item = heap->items[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= heap->count) break;
        if (child + 1 < heap->count && is_before(&heap->items[child + 1], &heap->items[child])) child++;
        if (!is_before(&heap->items[child], &item)) break;
        heap->items[i] = heap->items[child];
        i = child;
    }
    heap->items[i] = item;
}

/* Removes and returns the next pair; the heap must not be empty. */
static candidate pop_candidate(pair_heap *heap) {
    candidate top = heap->items[0];
    heap->items[0] = heap->items[--heap->count];
    if (heap->count) sift_down(heap, 0);
    return top;
}

/* Pushes the pair that begins at `at`, if there is one and it can be merged. */
static void push_pair(const ls_bpe *bpe, const symbol *symbols, uint32_t at, pair_heap *heap) {
    uint32_t next = at == NONE ? NONE : symbols[at].next;
    if (next == NONE) return;
    const ls_merge *merge = find_merge(bpe, symbols[at].id, symbols[next].id);
    if (!merge) return;
    heap->items[heap->count] = (candidate){.rank = merge->rank, .at = at, .id = merge->id};
    sift_up(heap, heap->count++);
}

/* Returns whether the tokens of the pair have changed since it was pushed. */
static bool is_stale(const ls_bpe *bpe, const symbol *symbols, const candidate *pair) {
    if (symbols[pair->at].id < 0 || symbols[pair->at].next == NONE) return true;
    const ls_merge *merge = find_merge(bpe, symbols[pair->at].id, symbols[symbols[pair->at].next].id);
    return !merge || merge->id != pair->id;
}

/* Merges the pairs of the heap, the lowest rank first, and pushes those that arise. */
static void merge_all(const ls_bpe *bpe, symbol *symbols, pair_heap *heap) {
    while (heap->count) {
        candidate pair = pop_candidate(heap);
        if (is_stale(bpe, symbols, &pair)) continue;
        symbol *left = &symbols[pair.at], *right = &symbols[left->next];
        left->id = pair.id;
        left->next = right->next;
        right->id = -1;
        if (left->next != NONE) symbols[left->next].previous = pair.at;
        push_pair(bpe, symbols, left->previous, heap);
        push_pair(bpe, symbols, pair.at, heap);
    }
}

/* Merges a long piece in place, with a heap: *count tokens, one for each byte, become the first *count. */
static ls_status merge_long(const ls_bpe *bpe, int32_t *ids, size_t *count) {
    size_t n = *count, kept = 0;
    ls_status status = LS_OK;
    /* At most n−1 pairs at first, and each of at most n−1 merges pops one and pushes two. */
    pair_heap heap = {.items = malloc(2 * n * sizeof *heap.items)};
    symbol *symbols = malloc(n * sizeof *symbols);
    if (!symbols || !heap.items) {
        status = ls_fail(LS_ERR_RESOURCE, "no memory to tokenize a word of %zu bytes", n);
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        symbols[i] =
            (symbol){.previous = i ? (uint32_t)i - 1 : NONE, .next = i + 1 < n ? (uint32_t)i + 1 : NONE, .id = ids[i]};
    for (size_t i = 0; i < n; i++) push_pair(bpe, symbols, (uint32_t)i, &heap);
    merge_all(bpe, symbols, &heap);
    for (uint32_t at = 0; at != NONE; at = symbols[at].next) ids[kept++] = symbols[at].id;
    *count = kept;
out:
    free(symbols);
    free(heap.items);
    return status;
}

/* Writes the token of each byte; fails for a byte without one. */
static ls_status ids_of_bytes(const ls_bpe *bpe, const uint8_t *piece, size_t bytes, int32_t *ids) {
    for (size_t i = 0; i < bytes; i++) {
        ids[i] = bpe->byte_ids[piece[i]];
        if (ids[i] < 0)
            return ls_fail(LS_ERR_INPUT,
                           "the text has the byte 0x%02X, for which the tokenizer has no token; use another tokenizer",
                           piece[i]);
    }
    return LS_OK;
}

/* Appends the ids of a piece, without the cache. */
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
    LS_TRY(ids_of_bytes(bpe, piece, bytes, ids));
    if (bytes <= SHORT_BYTES) {
        count = merge_short(bpe, ids, bytes);
    } else {
        LS_TRY(merge_long(bpe, ids, &count));
    }
    out->count += count;
    return LS_OK;
}

/* Returns the slot of a piece of at most WORD_BYTES bytes. Reads up to 8 bytes singly, more as overlapping words. */
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
