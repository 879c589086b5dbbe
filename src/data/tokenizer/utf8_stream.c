/* utf8_stream.c: see utf8_stream.h. */
#include "data/tokenizer/utf8_stream.h"

#include <string.h>

/* ---- one character ----------------------------------------------------------------------------------------------- */

/* Returns the length of a character with this first byte; 0: not a first byte. */
static size_t length_by_lead(uint8_t lead) {
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* Returns whether `byte` can be byte number `i` ≥ 1 of a character with first byte `lead`. RFC 3629 restricts the
 * second. */
static bool can_follow(uint8_t lead, size_t i, uint8_t byte) {
    uint8_t low = 0x80, high = 0xBF;
    if (i == 1 && lead == 0xE0) low = 0xA0;  /* overlong */
    if (i == 1 && lead == 0xED) high = 0x9F; /* surrogates */
    if (i == 1 && lead == 0xF0) low = 0x90;  /* overlong */
    if (i == 1 && lead == 0xF4) high = 0x8F; /* above U+10FFFF */
    return byte >= low && byte <= high;
}

/* Copies the bytes to `out` and returns their number. */
static size_t append_bytes(char *out, const char *text, size_t bytes) {
    memcpy(out, text, bytes);
    return bytes;
}

/* Writes U+FFFD and returns its length. */
static size_t put_replacement(char *out) { return append_bytes(out, "\xEF\xBF\xBD", 3); }

/* Writes a complete character, for a terminal in its visible form. Returns the number of bytes written. */
static size_t put_character(const ls_utf8_stream *stream, const uint8_t *at, size_t bytes, char *out) {
    if (stream->for_terminal) {
        bool is_control = (at[0] < 0x20 && at[0] != '\n' && at[0] != '\t') || at[0] == 0x7F;
        char picture[3] = {(char)0xE2, (char)0x90, (char)(0x80 + (at[0] == 0x7F ? 0x21 : at[0]))};
        if (is_control) return append_bytes(out, picture, sizeof picture);
        if (at[0] == 0xC2 && at[1] < 0xA0) return put_replacement(out);
    }
    return append_bytes(out, (const char *)at, bytes);
}

/* ---- the stream -------------------------------------------------------------------------------------------------- */

size_t ls_utf8_stream_add(ls_utf8_stream *stream, const void *data, size_t bytes, char *out) {
    const uint8_t *at = data;
    size_t made = 0;
    for (size_t i = 0; i < bytes; i++) {
        uint8_t whole[4];
        if (stream->count > 0 && !can_follow(stream->held[0], stream->count, at[i])) {
            made += put_replacement(out + made);
            stream->count = 0;
        }
        memcpy(whole, stream->held, stream->count);
        whole[stream->count] = at[i];
        size_t length = length_by_lead(whole[0]);
        if (length == 0) {
            made += put_replacement(out + made);
        } else if (stream->count + 1 < length) {
            stream->held[stream->count++] = at[i];
        } else {
            made += put_character(stream, whole, length, out + made);
            stream->count = 0;
        }
    }
    return made;
}

size_t ls_utf8_stream_end(ls_utf8_stream *stream, char *out) {
    if (stream->count == 0) return 0;
    stream->count = 0;
    return put_replacement(out);
}
