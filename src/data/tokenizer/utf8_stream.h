/* utf8_stream.h: bytes that a model makes, as text that is always valid UTF-8.
 *
 * A token may be a part of a character, so bytes are held back until the character is whole, at most three of them.
 * Bytes that cannot become a character are replaced by U+FFFD, one for each longest piece that begins a character, as
 * the Unicode standard recommends and Python's errors="replace" does. How the bytes are cut into pieces changes
 * nothing in what comes out.
 *
 * With `for_terminal` control characters other than newline and tab, which could move a terminal's cursor or make it
 * do worse, become visible: U+0000 … U+001F are U+2400 … U+241F (ESC is shown as ␛), DEL is U+2421, and U+0080 … U+009F
 * are U+FFFD. */
#ifndef LS_DATA_TOKENIZER_UTF8_STREAM_H
#define LS_DATA_TOKENIZER_UTF8_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed memory, but for `for_terminal`, is a stream at its begin. */
typedef struct ls_utf8_stream {
    bool for_terminal;
    uint8_t held[3]; /* the begin of a character */
    size_t count;
} ls_utf8_stream;

/* Bytes that the text made of so many bytes needs, whatever is held. */
static inline size_t ls_utf8_stream_room(size_t bytes) { return 3 * (bytes + 3); }
/* Takes bytes and writes the text that they complete; returns its bytes. No NUL is added. */
size_t ls_utf8_stream_add(ls_utf8_stream *stream, const void *data, size_t bytes, char *out);
/* No more bytes come: what is held becomes a U+FFFD. Writes at most 3 bytes; returns how many. */
size_t ls_utf8_stream_end(ls_utf8_stream *stream, char *out);

#endif
