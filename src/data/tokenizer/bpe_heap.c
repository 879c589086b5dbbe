/* bpe_heap.c: merging a long piece. The tokens are a doubly linked list inside an array, so that places never move; the
 * pairs that may be merged are a binary heap, lowest rank first, then leftmost. An entry of the heap whose tokens have
 * changed meanwhile is stale and is skipped when it comes up: its pair no longer gives the id it was entered with. */
#include "data/tokenizer/bpe.h"

#include <stdlib.h>

typedef struct symbol {
    uint32_t previous, next; /* NONE at the ends */
    int32_t id;              /* −1: merged into the one before it */
} symbol;

typedef struct candidate {
    uint32_t rank, at;
    int32_t id;
} candidate;

#define NONE UINT32_MAX

typedef struct pair_heap {
    candidate *items;
    size_t count;
} pair_heap;

static bool is_before(const candidate *a, const candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void sift_up(pair_heap *heap, size_t i) {
    candidate item = heap->items[i];
    while (i > 0 && is_before(&item, &heap->items[(i - 1) / 2])) {
        heap->items[i] = heap->items[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap->items[i] = item;
}

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

static candidate pop(pair_heap *heap) {
    candidate top = heap->items[0];
    heap->items[0] = heap->items[--heap->count];
    if (heap->count) sift_down(heap, 0);
    return top;
}

/* Enters the pair that begins at `at`, if there is one and it may be merged. */
static void offer(const ls_bpe *bpe, const symbol *symbols, uint32_t at, pair_heap *heap) {
    uint32_t next = at == NONE ? NONE : symbols[at].next;
    if (next == NONE) return;
    const ls_merge *merge = ls_bpe_find(bpe, symbols[at].id, symbols[next].id);
    if (!merge) return;
    heap->items[heap->count] = (candidate){.rank = merge->rank, .at = at, .id = merge->id};
    sift_up(heap, heap->count++);
}

static bool is_stale(const ls_bpe *bpe, const symbol *symbols, const candidate *pair) {
    if (symbols[pair->at].id < 0 || symbols[pair->at].next == NONE) return true;
    const ls_merge *merge = ls_bpe_find(bpe, symbols[pair->at].id, symbols[symbols[pair->at].next].id);
    return !merge || merge->id != pair->id;
}

static void merge_all(const ls_bpe *bpe, symbol *symbols, pair_heap *heap) {
    while (heap->count) {
        candidate pair = pop(heap);
        if (is_stale(bpe, symbols, &pair)) continue;
        symbol *left = &symbols[pair.at], *right = &symbols[left->next];
        left->id = pair.id;
        left->next = right->next;
        right->id = -1;
        if (left->next != NONE) symbols[left->next].previous = pair.at;
        offer(bpe, symbols, left->previous, heap);
        offer(bpe, symbols, pair.at, heap);
    }
}

ls_status ls_bpe_merge_long(const ls_bpe *bpe, int32_t *ids, size_t *count) {
    size_t n = *count, kept = 0;
    ls_status status = LS_OK;
    /* At most n−1 pairs at first, and each of at most n−1 merges takes one out and enters two. */
    pair_heap heap = {.items = malloc(2 * n * sizeof *heap.items)};
    symbol *symbols = malloc(n * sizeof *symbols);
    if (!symbols || !heap.items) {
        status = ls_fail(LS_ERR_RESOURCE, "no memory to tokenize a word of %zu bytes", n);
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        symbols[i] =
            (symbol){.previous = i ? (uint32_t)i - 1 : NONE, .next = i + 1 < n ? (uint32_t)i + 1 : NONE, .id = ids[i]};
    for (size_t i = 0; i < n; i++) offer(bpe, symbols, (uint32_t)i, &heap);
    merge_all(bpe, symbols, &heap);
    for (uint32_t at = 0; at != NONE; at = symbols[at].next) ids[kept++] = symbols[at].id;
    *count = kept;
out:
    free(symbols);
    free(heap.items);
    return status;
}
