/* tokenizer.c: decodes ids, and returns facts about a tokenizer. */
#include "data/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "data/tokenizer/inside.h"

void ls_tokenizer_close(ls_tokenizer *tokenizer) {
    if (!tokenizer) return;
    for (size_t i = 0; i < tokenizer->step_count; i++) ls_pretok_fini(&tokenizer->steps[i]);
    for (size_t i = 0; i < tokenizer->file_count; i++) free(tokenizer->files[i]);
    ls_added_fini(&tokenizer->added);
    ls_bpe_fini(&tokenizer->bpe);
    ls_vocab_fini(&tokenizer->vocab);
    free(tokenizer->name);
    free(tokenizer);
}

ls_status ls_tokenizer_token(const ls_tokenizer *tokenizer, int32_t id, const char **data, size_t *bytes) {
    if (id < 0 || (uint32_t)id >= tokenizer->vocab.size)
        return ls_fail(LS_ERR_INPUT, "token id %d is not in the vocabulary of the tokenizer '%s', whose ids are 0 … %u",
                       id, tokenizer->name, tokenizer->vocab.size - 1);
    const ls_vocab_token *token = &tokenizer->vocab.tokens[id];
    *bytes = token->is_there ? token->bytes : 0;
    *data = token->is_there ? ls_vocab_bytes(&tokenizer->vocab, (uint32_t)id) : "";
    return LS_OK;
}

bool ls_tokenizer_has_text(const ls_tokenizer *tokenizer, int32_t id) {
    return id >= 0 && (uint32_t)id < tokenizer->vocab.size && tokenizer->vocab.tokens[id].is_there;
}

ls_status ls_tokenizer_decode(const ls_tokenizer *tokenizer, const int32_t *ids, size_t count, char **text,
                              size_t *bytes) {
    const char *data = NULL;
    size_t length = 0, total = 0;
    *text = NULL;
    *bytes = 0;
    for (size_t i = 0; i < count; i++) {
        LS_TRY(ls_tokenizer_token(tokenizer, ids[i], &data, &length));
        total += length;
    }
    char *at = *text = malloc(total + 1);
    if (!at) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu bytes of decoded text", total);
    for (size_t i = 0; i < count; i++) {
        LS_TRY(ls_tokenizer_token(tokenizer, ids[i], &data, &length));
        memcpy(at, data, length);
        at += length;
    }
    *at = '\0';
    *bytes = total;
    return LS_OK;
}

uint32_t ls_tokenizer_vocab(const ls_tokenizer *tokenizer) { return tokenizer->vocab.size; }

int32_t ls_tokenizer_eot(const ls_tokenizer *tokenizer) { return tokenizer->eot; }

int32_t ls_tokenizer_bos(const ls_tokenizer *tokenizer) { return tokenizer->bos; }

const char *ls_tokenizer_name(const ls_tokenizer *tokenizer) { return tokenizer->name; }

ls_hash128 ls_tokenizer_hash(const ls_tokenizer *tokenizer) { return tokenizer->hash; }

void ls_tokenizer_identity(const ls_tokenizer *tokenizer, char hash[LS_HASH_CHARS]) {
    ls_hash_text(tokenizer->hash, hash);
}

const char *const *ls_tokenizer_files(const ls_tokenizer *tokenizer, size_t *count) {
    *count = tokenizer->file_count;
    return (const char *const *)tokenizer->files;
}
