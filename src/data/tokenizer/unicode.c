/* unicode.c: decodes UTF-8. */
#include "data/tokenizer/unicode.h"

#include <string.h>

#include "base/alive.h"

_Static_assert(LS_CHAR_OTHER == 0 && LS_CHAR_SPACE == 3, "the numbers of the classes are those in unicode_table.c");

/* Returns whether this is a continuation byte, 10xxxxxx. */
static bool is_tail(uint8_t byte) { return (byte & 0xC0) == 0x80; }

size_t ls_utf8_decode(const uint8_t *at, const uint8_t *end, uint32_t *code) {
    size_t capacity = (size_t)(end - at);
    uint8_t lead = at[0];
    if (lead < 0x80) {
        *code = lead;
        return 1;
    }
    if (lead < 0xC2 || lead > 0xF4) return 0; /* a continuation byte, an overlong form, or too large */
    if (lead < 0xE0) {
        if (capacity < 2 || !is_tail(at[1])) return 0;
        *code = (lead & 0x1Fu) << 6 | (at[1] & 0x3Fu);
        return 2;
    }
    if (lead < 0xF0) {
        if (capacity < 3 || !is_tail(at[1]) || !is_tail(at[2])) return 0;
        *code = (lead & 0x0Fu) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu);
        return *code < 0x800 || (*code >= 0xD800 && *code < 0xE000) ? 0 : 3;
    }
    if (capacity < 4 || !is_tail(at[1]) || !is_tail(at[2]) || !is_tail(at[3])) return 0;
    *code = (lead & 0x07u) << 18 | (at[1] & 0x3Fu) << 12 | (at[2] & 0x3Fu) << 6 | (at[3] & 0x3Fu);
    return *code < 0x10000 || *code > 0x10FFFF ? 0 : 4;
}

/* Skips valid characters up to `stop`, 8 bytes at a time where they are ASCII. Returns the place of the first invalid
 * byte, or of the first character at or behind `stop`; no character is read beyond `end`. */
static const uint8_t *skip_valid(const uint8_t *at, const uint8_t *stop, const uint8_t *end) {
    while (at < stop) {
        uint64_t word;
        uint32_t code;
        if ((size_t)(end - at) >= sizeof word) {
            memcpy(&word, at, sizeof word);
            if (!(word & UINT64_C(0x8080808080808080))) {
                at += sizeof word;
                continue;
            }
        }
        size_t length = ls_utf8_decode(at, end, &code);
        if (!length) break;
        at += length;
    }
    return at;
}

size_t ls_utf8_valid_bytes(const uint8_t *text, size_t bytes) {
    const uint8_t *at = text, *end = text + bytes;
    while (at < end) {
        const uint8_t *stop = (size_t)(end - at) > LS_ALIVE_BYTES ? at + LS_ALIVE_BYTES : end;
        at = skip_valid(at, stop, end);
        if (at < stop || at == end) break;
        ls_alive_turn();
    }
    return (size_t)(at - text);
}
