/* unicode.h: decodes UTF-8 and classifies characters as letters, numbers and spaces, for the patterns that cut text
 * into pieces (pretok.h).
 *
 * Letters are the general categories L*, numbers N*, spaces the property White_Space, in the version of Unicode that
 * Hugging Face `tokenizers` 0.23 and tiktoken 0.14 use. A byte that is not part of valid UTF-8 (RFC 3629: no overlong
 * forms, no surrogates, nothing above U+10FFFF) counts as one character of class LS_CHAR_OTHER. */
#ifndef LS_DATA_TOKENIZER_UNICODE_H
#define LS_DATA_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LS_UNICODE_VERSION "16.0.0"

typedef enum ls_char_class { LS_CHAR_OTHER, LS_CHAR_LETTER, LS_CHAR_NUMBER, LS_CHAR_SPACE } ls_char_class;

enum { LS_UNICODE_BLOCKS = 804 };
/* The table (unicode_table.c): for each block of 256 code points the row of its classes, two bits each. */
extern const uint8_t ls_unicode_index[LS_UNICODE_BLOCKS];
extern const uint64_t ls_unicode_classes[][8];

/* Returns the class of a code point; LS_CHAR_OTHER beyond the table. */
static inline ls_char_class ls_unicode_class(uint32_t code) {
    if (code >= LS_UNICODE_BLOCKS * 256u) return LS_CHAR_OTHER;
    uint64_t word = ls_unicode_classes[ls_unicode_index[code >> 8]][code >> 5 & 7];
    return (ls_char_class)(word >> 2 * (code & 31) & 3);
}

/* Decodes the character at `at` < `end` into *code. Returns the number of its bytes; 0 if they are not valid UTF-8. */
size_t ls_utf8_decode(const uint8_t *at, const uint8_t *end, uint32_t *code);

/* Returns the number of bytes of the character at `at` < `end`, and its class. An invalid byte has length 1. */
static inline size_t ls_char_next(const uint8_t *at, const uint8_t *end, ls_char_class *kind) {
    if (*at < 0x80) {
        *kind = (ls_char_class)(ls_unicode_classes[0][*at >> 5] >> 2 * (*at & 31) & 3);
        return 1;
    }
    uint32_t code;
    size_t bytes = ls_utf8_decode(at, end, &code);
    *kind = bytes ? ls_unicode_class(code) : LS_CHAR_OTHER;
    return bytes ? bytes : 1;
}

/* Returns the number of bytes of valid UTF-8 at the start of `text`. */
size_t ls_utf8_valid_bytes(const uint8_t *text, size_t bytes);

#endif
