/* vocab.c: tokens in one pool of bytes, an array by id and a hash table by bytes. */
#include "data/tokenizer/vocab.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "data/tokenizer/unicode.h"

enum { TOKENS_MIN = 512, POOL_MIN = 4096, SLOTS_MIN = 1024 };

void ls_vocab_fini(ls_vocab *vocab) {
    free(vocab->tokens);
    free(vocab->pool);
    free(vocab->slots);
    *vocab = (ls_vocab){0};
}

/* Fails for lack of memory. */
static ls_status fail_vocab_memory(void) { return ls_fail(LS_ERR_RESOURCE, "out of memory for the vocabulary"); }

/* Returns the slot where the search for these bytes begins. */
static uint32_t slot_of(const ls_vocab *vocab, const char *data, size_t bytes) {
    return (uint32_t)XXH3_64bits(data, bytes) & (vocab->slots_capacity - 1);
}

/* Returns whether the token has these bytes. */
static bool has_bytes(const ls_vocab *vocab, uint32_t id, const char *data, size_t bytes) {
    return vocab->tokens[id].bytes == bytes && memcmp(ls_vocab_bytes(vocab, id), data, bytes) == 0;
}

/* Enters the token into the hash table, which must have a free slot. */
static void enter_id(ls_vocab *vocab, uint32_t id) {
    uint32_t slot = slot_of(vocab, ls_vocab_bytes(vocab, id), vocab->tokens[id].bytes);
    while (vocab->slots[slot]) slot = (slot + 1) & (vocab->slots_capacity - 1);
    vocab->slots[slot] = id + 1;
}

/* Doubles the hash table if it is half full. */
static ls_status grow_slots(ls_vocab *vocab) {
    uint32_t *old = vocab->slots, old_capacity = vocab->slots_capacity;
    if (vocab->slots_used < old_capacity / 2) return LS_OK;
    uint32_t capacity = old_capacity ? 2 * old_capacity : SLOTS_MIN;
    uint32_t *slots = calloc(capacity, sizeof *slots);
    if (!slots) return fail_vocab_memory();
    vocab->slots = slots;
    vocab->slots_capacity = capacity;
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (old[i]) enter_id(vocab, old[i] - 1);
    }
    free(old);
    return LS_OK;
}

/* Makes room for this id and for so many more bytes in the pool. */
static ls_status grow_vocab(ls_vocab *vocab, uint32_t id, size_t bytes) {
    if (id >= vocab->capacity) {
        uint32_t capacity = id < TOKENS_MIN / 2 ? TOKENS_MIN : 2 * (id + 1);
        ls_vocab_token *tokens = realloc(vocab->tokens, capacity * sizeof *tokens);
        if (!tokens) return fail_vocab_memory();
        memset(tokens + vocab->capacity, 0, (capacity - vocab->capacity) * sizeof *tokens);
        vocab->tokens = tokens;
        vocab->capacity = capacity;
    }
    if (vocab->pool_capacity - vocab->pool_used < bytes + 1) {
        size_t capacity = 2 * (vocab->pool_used + bytes) + POOL_MIN;
        char *pool = realloc(vocab->pool, capacity);
        if (!pool) return fail_vocab_memory();
        vocab->pool = pool;
        vocab->pool_capacity = capacity;
    }
    return LS_OK;
}

ls_status ls_vocab_put(ls_vocab *vocab, int64_t id, const char *data, size_t bytes, bool is_found) {
    if (id < 0 || id >= LS_VOCAB_MAX)
        return ls_fail(LS_ERR_INPUT, "the token '%.40s' has id %lld; ids are 0 … %d", data, (long long)id,
                       LS_VOCAB_MAX - 1);
    if (bytes >= UINT32_MAX) return ls_fail(LS_ERR_INPUT, "the token of id %lld is too long", (long long)id);
    LS_TRY(grow_vocab(vocab, (uint32_t)id, bytes));
    if (is_found) LS_TRY(grow_slots(vocab));
    ls_vocab_token *token = &vocab->tokens[id];
    *token = (ls_vocab_token){.offset = vocab->pool_used, .bytes = (uint32_t)bytes, .is_there = true};
    if (bytes) memcpy(vocab->pool + vocab->pool_used, data, bytes);
    vocab->pool[vocab->pool_used + bytes] = '\0';
    vocab->pool_used += bytes + 1;
    if ((uint32_t)id >= vocab->size) vocab->size = (uint32_t)id + 1;
    if (is_found) {
        enter_id(vocab, (uint32_t)id);
        vocab->slots_used++;
    }
    return LS_OK;
}

int32_t ls_vocab_find(const ls_vocab *vocab, const char *data, size_t bytes) {
    if (!vocab->slots_capacity) return -1;
    uint32_t slot = slot_of(vocab, data, bytes);
    for (; vocab->slots[slot]; slot = (slot + 1) & (vocab->slots_capacity - 1)) {
        uint32_t id = vocab->slots[slot] - 1;
        if (has_bytes(vocab, id, data, bytes)) return (int32_t)id;
    }
    return -1;
}

/* Returns the byte that a character of GPT-2's alphabet stands for: printable bytes are themselves, the 68 others are,
 * in order, U+0100 and up. −1: none. */
static int alphabet_byte(uint32_t code) {
    if ((code >= 0x21 && code <= 0x7E) || (code >= 0xA1 && code <= 0xFF && code != 0xAD)) return (int)code;
    if (code < 0x100 || code > 0x143) return -1;
    uint32_t i = code - 0x100;
    if (i <= 0x20) return (int)i;          /* 0x00 … 0x20 */
    if (i <= 0x42) return (int)(i + 0x5E); /* 0x7F … 0xA0 */
    return 0xAD;
}

bool ls_alphabet_decode(const char *text, size_t text_bytes, char *out, size_t *bytes) {
    const uint8_t *at = (const uint8_t *)text, *end = at + text_bytes;
    *bytes = 0;
    while (at < end) {
        uint32_t code;
        size_t length = ls_utf8_decode(at, end, &code);
        int byte = length ? alphabet_byte(code) : -1;
        if (byte < 0) return false;
        out[(*bytes)++] = (char)byte;
        at += length;
    }
    return true;
}
