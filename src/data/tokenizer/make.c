/* make.c: fills vocabulary, merges and added tokens, for every kind of tokenizer file. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/tokenizer/inside.h"

/* Limits: bytes of a token; unused ids of a vocabulary, because each id takes memory. */
enum { TOKEN_BYTES_MAX = 4096, IDS_UNUSED_MAX = 1 << 16, SHOWN = 40 };

/* Checks the length of a token, and that its id is not far beyond the number of tokens, because every id takes
 * memory. */
static ls_status check_token(const ls_tokenizer *tokenizer, const char *text, size_t bytes, int64_t id, size_t count) {
    if (bytes > TOKEN_BYTES_MAX)
        return ls_fail(LS_ERR_INPUT, "the token '%.*s…' has %zu bytes; the most is %d", SHOWN, text, bytes,
                       TOKEN_BYTES_MAX);
    int64_t limit = (int64_t)(4 * count) + tokenizer->vocab.size + IDS_UNUSED_MAX;
    if (id < 0 || id >= limit)
        return ls_fail(LS_ERR_INPUT,
                       "the token '%.*s' has id %" PRId64 "; in a vocabulary of %zu token%s, ids must be between 0 "
                       "and %" PRId64,
                       SHOWN, text, id, count, count == 1 ? "" : "s", limit - 1);
    return LS_OK;
}

ls_status ls_tokenizer_load_vocab(ls_tokenizer *tokenizer, const json_t *vocab) {
    ls_vocab *out = &tokenizer->vocab;
    char data[TOKEN_BYTES_MAX];
    const char *text;
    json_t *value;
    size_t count = json_object_size(vocab), bytes;
    if (!count) return ls_fail(LS_ERR_INPUT, "the vocabulary is empty");
    /* Casts a const away for jansson's iteration, which changes nothing. */
    json_object_foreach((json_t *)(uintptr_t)vocab, text, value) {
        size_t length = strlen(text);
        if (!json_is_integer(value))
            return ls_fail(LS_ERR_INPUT, "the id of the token '%.*s' must be a whole number", SHOWN, text);
        int64_t id = (int64_t)json_integer_value(value);
        LS_TRY(check_token(tokenizer, text, length, id, count));
        if (id < out->size && out->tokens[id].is_there)
            return ls_fail(LS_ERR_INPUT, "two tokens have the id %" PRId64 "; one is '%.*s'", id, SHOWN, text);
        if (ls_alphabet_decode(text, length, data, &bytes)) {
            LS_TRY(ls_vocab_put(out, id, data, bytes, bytes > 0));
        } else {
            LS_TRY(ls_vocab_put(out, id, text, length, false));
        }
    }
    return LS_OK;
}

ls_status ls_tokenizer_load_merge(ls_tokenizer *tokenizer, const char *left, size_t left_bytes, const char *right,
                                  size_t right_bytes, uint32_t rank) {
    char data[2 * TOKEN_BYTES_MAX];
    size_t first, second;
    const ls_vocab *vocab = &tokenizer->vocab;
    if (left_bytes > TOKEN_BYTES_MAX || right_bytes > TOKEN_BYTES_MAX)
        return ls_fail(LS_ERR_INPUT, "merge %u: its tokens have %zu and %zu bytes; the most is %d each", rank + 1,
                       left_bytes, right_bytes, TOKEN_BYTES_MAX);
    if (!ls_alphabet_decode(left, left_bytes, data, &first) ||
        !ls_alphabet_decode(right, right_bytes, data + first, &second))
        return ls_fail(LS_ERR_INPUT, "merge %u, '%.*s %.*s': not in the alphabet of byte-level BPE", rank + 1,
                       (int)(left_bytes < SHOWN ? left_bytes : SHOWN), left,
                       (int)(right_bytes < SHOWN ? right_bytes : SHOWN), right);
    int32_t left_id = ls_vocab_find(vocab, data, first), right_id = ls_vocab_find(vocab, data + first, second);
    int32_t id = ls_vocab_find(vocab, data, first + second);
    if (left_id < 0 || right_id < 0 || id < 0)
        return ls_fail(LS_ERR_INPUT, "merge %u, '%.*s %.*s': %s is not in the vocabulary", rank + 1,
                       (int)(left_bytes < SHOWN ? left_bytes : SHOWN), left,
                       (int)(right_bytes < SHOWN ? right_bytes : SHOWN), right,
                       left_id < 0    ? "the first token"
                       : right_id < 0 ? "the second token"
                                      : "the token they give");
    ls_bpe_add(&tokenizer->bpe, left_id, right_id, rank, id);
    return LS_OK;
}

ls_status ls_tokenizer_load_added(ls_tokenizer *tokenizer, const ls_added_token *token) {
    ls_added *added = &tokenizer->added;
    LS_TRY(check_token(tokenizer, token->text, token->bytes, token->id, added->count));
    if (!token->bytes) return ls_fail(LS_ERR_INPUT, "the added token of id %d is empty", token->id);
    ls_added_token *tokens = ls_list_grow(added->tokens, added->count, &added->capacity, sizeof *tokens);
    if (tokens) added->tokens = tokens;
    ls_added_token copy = *token;
    copy.text = tokens ? strndup(token->text, token->bytes) : NULL;
    if (!copy.text) return ls_fail(LS_ERR_RESOURCE, "out of memory for the added tokens");
    added->tokens[added->count++] = copy;
    return ls_vocab_put(&tokenizer->vocab, token->id, token->text, token->bytes, false);
}

/* Returns the id of the first of the names that is an added token; −1: none. */
static int32_t find_named(const ls_added *added, const char *const names[]) {
    int32_t id = -1;
    for (; *names && id < 0; names++) id = ls_added_id(added, *names);
    return id;
}

void ls_tokenizer_complete(ls_tokenizer *tokenizer) {
    static const char *const ends[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|im_end|>", NULL};
    static const char *const begins[] = {"<|begin_of_text|>", "<s>", "<bos>", NULL};
    ls_added *added = &tokenizer->added;
    ls_added_sort(added);
    if (tokenizer->eot < 0) tokenizer->eot = find_named(added, ends);
    if (tokenizer->bos < 0) tokenizer->bos = find_named(added, begins);
}
