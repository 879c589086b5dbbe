/* encode.c: encodes text in three nested lazy loops, so that memory does not grow with the text: added tokens and the
 * text between them; the pieces of that text, step by step; the ids of each piece. Ids are buffered in a list, which is
 * passed to the sink whenever it is full. */
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer/inside.h"

enum { BATCH_IDS = 1 << 16 };

/* A text that is being encoded. */
typedef struct encoding {
    ls_tokenizer *tokenizer;
    unsigned flags;
    ls_tokens *out;
    ls_tokens_sink sink; /* NULL: all ids stay in `out` */
    void *ctx;
    const uint8_t *text; /* start of the whole text */
} encoding;

/* ---- lists of ids ------------------------------------------------------------------------------------------------ */

ls_status ls_tokens_reserve(ls_tokens *tokens, size_t more) {
    if (tokens->capacity - tokens->count >= more) return LS_OK;
    size_t need = tokens->count + more,
           capacity = tokens->capacity < 1024 ? 1024 : tokens->capacity + tokens->capacity / 2;
    if (need < more || need > SIZE_MAX / sizeof *tokens->ids / 2)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for so many tokens");
    if (capacity < need) capacity = need;
    int32_t *ids = realloc(tokens->ids, capacity * sizeof *ids);
    if (!ids) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu tokens", capacity);
    tokens->ids = ids;
    tokens->capacity = capacity;
    return LS_OK;
}

ls_status ls_tokens_push(ls_tokens *tokens, int32_t id) {
    LS_TRY(ls_tokens_reserve(tokens, 1));
    tokens->ids[tokens->count++] = id;
    return LS_OK;
}

void ls_tokens_fini(ls_tokens *tokens) {
    free(tokens->ids);
    *tokens = (ls_tokens){0};
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Passes the ids to the sink once a batch is full. `done` is how far the text has been read, or NULL inside a copy of
 * it, where nothing is passed. */
static ls_status flush_ids(encoding *encoder, const uint8_t *done) {
    if (!encoder->sink || !done || encoder->out->count < BATCH_IDS) return LS_OK;
    size_t count = encoder->out->count;
    encoder->out->count = 0;
    return encoder->sink(encoder->ctx, encoder->out->ids, count, (size_t)(done - encoder->text));
}

/* Splits the text by step number `step` and those after it, and encodes the pieces. */
static ls_status encode_pieces(encoding *encoder, size_t step, const uint8_t *text, const uint8_t *end, bool is_copy) {
    ls_tokenizer *tokenizer = encoder->tokenizer;
    if (step == tokenizer->step_count) {
        LS_TRY(ls_bpe_encode(&tokenizer->bpe, text, (size_t)(end - text), encoder->out));
        return flush_ids(encoder, is_copy ? NULL : end);
    }
    ls_pieces pieces = ls_pieces_begin(&tokenizer->steps[step], text, end);
    while (pieces.at < pieces.end) {
        const uint8_t *start = pieces.at;
        LS_TRY(ls_pieces_next(&pieces));
        LS_TRY(encode_pieces(encoder, step + 1, start, pieces.at, is_copy));
    }
    return LS_OK;
}

/* Encodes text without added tokens, after adding the space before it if the tokenizer requires one. */
static ls_status encode_plain(encoding *encoder, const uint8_t *text, const uint8_t *end) {
    if (text == end) return LS_OK;
    if (!encoder->tokenizer->add_prefix_space || *text == ' ') return encode_pieces(encoder, 0, text, end, false);
    size_t bytes = (size_t)(end - text);
    uint8_t *copy = malloc(bytes + 1);
    if (!copy) return ls_fail(LS_ERR_RESOURCE, "no memory to put a space in front of %zu bytes of text", bytes);
    copy[0] = ' ';
    memcpy(copy + 1, text, bytes);
    ls_status status = encode_pieces(encoder, 0, copy, copy + bytes + 1, true);
    free(copy);
    return status == LS_OK ? flush_ids(encoder, end) : status;
}

/* Encodes text: round 0 searches for the added tokens that come first, round 1, between those, for the late ones. */
static ls_status encode_round(encoding *encoder, int round, const uint8_t *text, const uint8_t *end) {
    const ls_added *added = &encoder->tokenizer->added;
    if (round == 2 || (round == 1 && !added->has_late)) return encode_plain(encoder, text, end);
    while (text < end) {
        ls_added_match match = ls_added_find(added, round == 1, encoder->flags & LS_ENCODE_SPECIAL, text, end);
        if (match.start > text) LS_TRY(encode_round(encoder, round + 1, text, match.start));
        if (match.token) LS_TRY(ls_tokens_push(encoder->out, match.token->id));
        LS_TRY(flush_ids(encoder, match.end));
        text = match.end;
    }
    return LS_OK;
}

/* Encodes text for the tokenizer "bytes": each byte is its id. */
static ls_status encode_bytes(encoding *encoder, const uint8_t *text, const uint8_t *end) {
    while (text < end) {
        size_t count = (size_t)(end - text) < BATCH_IDS ? (size_t)(end - text) : BATCH_IDS;
        LS_TRY(ls_tokens_reserve(encoder->out, count));
        for (size_t i = 0; i < count; i++) encoder->out->ids[encoder->out->count + i] = text[i];
        encoder->out->count += count;
        text += count;
        LS_TRY(flush_ids(encoder, text));
    }
    return LS_OK;
}

/* Encodes the whole text, of so many bytes, by the tokenizer's kind. */
static ls_status encode_all(encoding *encoder, size_t bytes) {
    const uint8_t *end = encoder->text + bytes;
    if (!bytes) return LS_OK;
    return encoder->tokenizer->is_bpe ? encode_round(encoder, 0, encoder->text, end)
                                      : encode_bytes(encoder, encoder->text, end);
}

ls_status ls_tokenizer_encode(ls_tokenizer *tokenizer, const void *text, size_t bytes, unsigned flags, ls_tokens *out) {
    encoding encoder = {.tokenizer = tokenizer, .flags = flags, .out = out, .text = text};
    size_t before = out->count;
    ls_status status = encode_all(&encoder, bytes);
    if (status != LS_OK) out->count = before;
    return status;
}

ls_status ls_tokenizer_encode_to(ls_tokenizer *tokenizer, const void *text, size_t bytes, unsigned flags,
                                 ls_tokens_sink sink, void *ctx) {
    ls_tokens batch = {0};
    encoding encoder = {.tokenizer = tokenizer, .flags = flags, .out = &batch, .sink = sink, .ctx = ctx, .text = text};
    ls_status status = encode_all(&encoder, bytes);
    if (status == LS_OK && batch.count) status = sink(ctx, batch.ids, batch.count, bytes);
    ls_tokens_fini(&batch);
    return status;
}
