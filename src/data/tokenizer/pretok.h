/* pretok.h: splits text into the pieces that BPE encodes one by one (pre-tokenization).
 *
 * A tokenizer has one or more steps; each splits the pieces of the previous step. Every byte belongs to exactly one
 * piece: text between two matches of a regular expression is a piece too. The well-known patterns are implemented in C;
 * others need PCRE2. */
#ifndef LS_DATA_TOKENIZER_PRETOK_H
#define LS_DATA_TOKENIZER_PRETOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* GPT-2's pattern, which is also that of "ByteLevel" in tokenizer.json. */
#define LS_PATTERN_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/* Llama 3's pattern; between these two parts stands the number of digits in a piece: \p{N}{1,3}; in Qwen's pattern
 * \p{N}. */
#define LS_PATTERN_LLAMA3_HEAD "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
#define LS_PATTERN_LLAMA3_TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

typedef struct ls_regex ls_regex;

typedef enum ls_pretok_kind { LS_PRETOK_GPT2, LS_PRETOK_LLAMA3, LS_PRETOK_DIGITS, LS_PRETOK_REGEX } ls_pretok_kind;

/* One step: a well-known pattern, runs of digits, or a regular expression. */
typedef struct ls_pretok {
    ls_pretok_kind kind;
    size_t digits_max; /* for LLAMA3 and DIGITS: length of the longest piece of digits */
    ls_regex *regex;   /* for REGEX; owned */
} ls_pretok;

/* Makes the step of a regular expression, or of a plain text to search for: one of the well-known patterns in C, any
 * other in PCRE2. LS_ERR_INPUT if PCRE2 refuses it or is not built in. `name` is for messages. */
ls_status ls_pretok_init(ls_pretok *step, const char *name, const char *pattern, bool is_plain);
/* Frees the regular expression, if the step has one. */
void ls_pretok_fini(ls_pretok *step);

/* The pieces of one text by one step:
 *     ls_pieces pieces = ls_pieces_begin(step, text, text + bytes);
 *     while (pieces.at < pieces.end) { const uint8_t *start = pieces.at; LS_TRY(ls_pieces_next(&pieces)); … } */
typedef struct ls_pieces {
    const ls_pretok *step;
    const uint8_t *at, *end;
    const uint8_t *run, *run_end; /* REGEX: the run of valid UTF-8 that contains `at` */
} ls_pieces;

/* Begins the pieces of `text`; the first call of ls_pieces_next() finds the first. */
static inline ls_pieces ls_pieces_begin(const ls_pretok *step, const uint8_t *text, const uint8_t *end) {
    return (ls_pieces){.step = step, .at = text, .end = end, .run = text, .run_end = text};
}
/* Moves `at`, which is before `end`, to the end of the piece that begins there. Fails only for a regular expression,
 * with LS_ERR_INPUT, if PCRE2 gives up on the text. */
ls_status ls_pieces_next(ls_pieces *pieces);

/* ---- regular expressions (pretok_regex.c) ------------------------------------------------------------------------ */

/* Compiles a regular expression, or a plain text (`is_plain`). LS_ERR_INPUT if it is wrong or PCRE2 is not built in. */
ls_status ls_regex_create(const char *name, const char *pattern, bool is_plain, ls_regex **out);
void ls_regex_destroy(ls_regex *regex);
/* Finds the first non-empty match in text[from … bytes), where `text` must be valid UTF-8 and may be looked at before
 * `from`; *start = bytes: there is none. LS_ERR_INPUT if PCRE2 gives up. One thread at a time, because matching uses
 * memory of `regex`. */
ls_status ls_regex_find(const ls_regex *regex, const uint8_t *text, size_t bytes, size_t from, size_t *start,
                        size_t *end);

#endif
