/* added_tokens.c: finds added tokens in text, as Hugging Face `tokenizers` does: the leftmost, of these the longest; a
 * special token that is not requested masks the tokens that overlap it; lstrip and rstrip include the blanks on that
 * side. */
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer/inside.h"
#include "data/tokenizer/unicode.h"

/* Orders by first byte, then the longest first, for qsort(). */
static int compare_added(const void *a, const void *b) {
    const ls_added_token *x = a, *y = b;
    uint8_t first_x = (uint8_t)x->text[0], first_y = (uint8_t)y->text[0];
    if (first_x != first_y) return first_x < first_y ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

void ls_added_sort(ls_added *added) {
    if (added->count) qsort(added->tokens, added->count, sizeof *added->tokens, compare_added);
    added->has_late = false;
    size_t i = 0;
    for (size_t byte = 0; byte < 256; byte++) {
        added->first[byte] = i;
        while (i < added->count && (uint8_t)added->tokens[i].text[0] == byte)
            added->has_late |= added->tokens[i++].late;
    }
    added->first[256] = i;
}

int32_t ls_added_id(const ls_added *added, const char *text) {
    for (size_t i = 0; text && i < added->count; i++)
        if (strcmp(added->tokens[i].text, text) == 0) return added->tokens[i].id;
    return -1;
}

void ls_added_fini(ls_added *added) {
    /* Casts a const away, because the list owns the texts. */
    for (size_t i = 0; i < added->count; i++) free((char *)(uintptr_t)added->tokens[i].text);
    free(added->tokens);
    *added = (ls_added){0};
}

/* Returns the longest token of this round (late or not) that the text has at `at`; NULL: none. */
static const ls_added_token *token_at(const ls_added *added, bool late, const uint8_t *at, const uint8_t *end) {
    for (size_t i = added->first[*at]; i < added->first[*at + 1]; i++) {
        const ls_added_token *token = &added->tokens[i];
        if (token->late == late && token->bytes <= (size_t)(end - at) && memcmp(at, token->text, token->bytes) == 0)
            return token;
    }
    return NULL;
}

/* Returns the start of the blanks before `at`; at least `start`. */
static const uint8_t *strip_left(const uint8_t *start, const uint8_t *at) {
    while (at > start) {
        const uint8_t *before = at - 1;
        ls_char_class kind;
        while (before > start && at - before < 4 && (*before & 0xC0) == 0x80) before--;
        if (ls_char_next(before, at, &kind) != (size_t)(at - before) || kind != LS_CHAR_SPACE) break;
        at = before;
    }
    return at;
}

/* Returns the end of the blanks at `at`. */
static const uint8_t *strip_right(const uint8_t *at, const uint8_t *end) {
    ls_char_class kind;
    while (at < end) {
        size_t bytes = ls_char_next(at, end, &kind);
        if (kind != LS_CHAR_SPACE) break;
        at += bytes;
    }
    return at;
}

ls_added_match ls_added_find(const ls_added *added, bool late, bool special, const uint8_t *at, const uint8_t *end) {
    const uint8_t *start = at;
    while (added->count && at < end) {
        const ls_added_token *token = added->first[*at] < added->first[*at + 1] ? token_at(added, late, at, end) : NULL;
        if (!token) {
            at++;
            continue;
        }
        if (token->special && !special) {
            at += token->bytes;
            continue;
        }
        return (ls_added_match){.token = token,
                                .start = token->lstrip ? strip_left(start, at) : at,
                                .end = token->rstrip ? strip_right(at + token->bytes, end) : at + token->bytes};
    }
    return (ls_added_match){.start = end, .end = end};
}
