/* vocab.h: the tokens of a tokenizer's vocabulary: id to bytes, and bytes to id.
 *
 * Vocabulary files of byte-level BPE write each byte as one printable character (GPT-2's alphabet: 0x20 is Ġ). Here
 * tokens are the bytes themselves. A text with other characters, such as the name of a special token, stands for its
 * own bytes; such a token has an id but is not found by its bytes. */
#ifndef LS_DATA_TOKENIZER_VOCAB_H
#define LS_DATA_TOKENIZER_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { LS_VOCAB_MAX = 1 << 24 };

/* A token: where its bytes are in the pool; is_there: false for an unused id. */
typedef struct ls_vocab_token {
    size_t offset;
    uint32_t bytes;
    bool is_there;
} ls_vocab_token;

/* Starts as {0}. */
typedef struct ls_vocab {
    ls_vocab_token *tokens;  /* by id */
    uint32_t size, capacity; /* size: highest id + 1 */
    char *pool;              /* bytes of all tokens */
    size_t pool_used, pool_capacity;
    uint32_t *slots; /* hash table of id + 1; 0: free; a power of two */
    uint32_t slots_capacity, slots_used;
} ls_vocab;

void ls_vocab_fini(ls_vocab *vocab);
/* Sets the bytes of `id`, replacing earlier ones. `is_found`: ls_vocab_find() shall find the token; false does not
 * undo this for a token that an earlier call entered. LS_ERR_INPUT for an id outside 0 … LS_VOCAB_MAX−1. */
ls_status ls_vocab_put(ls_vocab *vocab, int64_t id, const char *data, size_t bytes, bool is_found);
/* Returns the id of the token with these bytes, among those put with `is_found`; −1: none. */
int32_t ls_vocab_find(const ls_vocab *vocab, const char *data, size_t bytes);
/* Returns the bytes of `id`, which must be there, with a NUL behind them; valid until the next put. */
static inline const char *ls_vocab_bytes(const ls_vocab *vocab, uint32_t id) {
    return vocab->pool + vocab->tokens[id].offset;
}

/* Decodes `text` from GPT-2's alphabet to bytes; `out` has space for as many bytes as the text has. Returns false if a
 * character is not in the alphabet. */
bool ls_alphabet_decode(const char *text, size_t text_bytes, char *out, size_t *bytes);

#endif
