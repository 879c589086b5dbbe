/* pretok.c: the well-known patterns, each as a function that finds the end of the piece at a place. The tests are in
 * the order of the pattern's alternatives. Where a regular expression would backtrack from a greedy repeat, the code
 * cuts the repeat itself, so that every text takes one pass. */
#include "data/tokenizer/pretok.h"

#include <string.h>

#include "data/tokenizer/unicode.h"

/* A position in the text. Functions with (at, end) look at the text from `at` on, which is before `end`. */
typedef const uint8_t *place;

/* Returns the end of the run of characters of this class, at most `most` of them. */
static place skip_class(place at, place end, ls_char_class wanted, size_t most) {
    ls_char_class kind;
    while (at < end && most-- > 0) {
        size_t bytes = ls_char_next(at, end, &kind);
        if (kind != wanted) break;
        at += bytes;
    }
    return at;
}

static bool is_line_end(uint8_t byte) { return byte == '\r' || byte == '\n'; }

/* Returns the bytes of 's, 't, 're, 've, 'm, 'll or 'd at `at`, which is an apostrophe; 0: none of them. */
static size_t match_contraction(place at, place end, bool any_case) {
    size_t capacity = (size_t)(end - at);
    if (capacity < 2) return 0;
    uint8_t fold = any_case ? 0x20 : 0, first = at[1] | fold;
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if (capacity < 3) return 0;
    uint8_t second = at[2] | fold;
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return 3;
    /* Without case, s also matches the long s, U+017F. */
    return any_case && at[1] == 0xC5 && at[2] == 0xBF ? 3 : 0;
}

/* Matches \s+(?!\S)|\s+ at a space: returns the end of the run, without its last character if something follows. */
static place match_blanks(place at, place end) {
    place last = at;
    ls_char_class kind = LS_CHAR_SPACE;
    place next = at;
    while (next < end) {
        size_t bytes = ls_char_next(next, end, &kind);
        if (kind != LS_CHAR_SPACE) break;
        last = next;
        next += bytes;
    }
    return next == end || last == at ? next : last;
}

/* Returns the end of the piece that begins at `at` in GPT-2's pattern. */
static place next_gpt2(place at, place end) {
    ls_char_class kind;
    size_t bytes;
    if (*at == '\'' && (bytes = match_contraction(at, end, false))) return at + bytes;
    place start = at + (*at == ' ' && at + 1 < end);
    bytes = ls_char_next(start, end, &kind);
    if (kind != LS_CHAR_SPACE) return skip_class(start + bytes, end, kind, SIZE_MAX);
    return match_blanks(at, end);
}

/* Matches \s*[\r\n]+ at a space: returns the place after the last line end of the run; `at` if it has none. */
static place match_blank_lines(place at, place end) {
    place behind = at;
    ls_char_class kind;
    while (at < end) {
        size_t bytes = ls_char_next(at, end, &kind);
        if (kind != LS_CHAR_SPACE) break;
        if (is_line_end(*at)) behind = at + 1;
        at += bytes;
    }
    return behind;
}

/* Returns the end of the piece that begins at `at` in Llama 3's pattern. */
static place next_llama3(place at, place end, size_t digits_max) {
    ls_char_class kind, following = LS_CHAR_OTHER;
    size_t bytes;
    if (*at == '\'' && (bytes = match_contraction(at, end, true))) return at + bytes;
    bytes = ls_char_next(at, end, &kind);
    if (kind == LS_CHAR_LETTER) return skip_class(at + bytes, end, LS_CHAR_LETTER, SIZE_MAX);
    if (kind == LS_CHAR_NUMBER) return skip_class(at + bytes, end, LS_CHAR_NUMBER, digits_max - 1);
    bool more = at + bytes < end;
    if (more) ls_char_next(at + bytes, end, &following);
    if (more && following == LS_CHAR_LETTER && !is_line_end(*at))
        return skip_class(at + bytes, end, LS_CHAR_LETTER, SIZE_MAX);
    if (kind == LS_CHAR_OTHER || (*at == ' ' && more && following == LS_CHAR_OTHER)) {
        at = skip_class(at + (*at == ' '), end, LS_CHAR_OTHER, SIZE_MAX);
        while (at < end && is_line_end(*at)) at++;
        return at;
    }
    place behind = match_blank_lines(at, end);
    return behind > at ? behind : match_blanks(at, end);
}

/* Returns the end of a run of at most `digits_max` digits, or of the text before the next digit. */
static place next_digits(place at, place end, size_t digits_max) {
    ls_char_class kind;
    place next = skip_class(at, end, LS_CHAR_NUMBER, digits_max);
    if (next > at) return next;
    do next += ls_char_next(next, end, &kind);
    while (next < end && (ls_char_next(next, end, &kind), kind != LS_CHAR_NUMBER));
    return next;
}

/* Moves to the end of the next piece of a regular expression. Matches in runs of valid UTF-8; the bytes between two
 * runs are one piece. */
static ls_status next_regex(ls_pieces *pieces) {
    if (pieces->at == pieces->run_end) {
        pieces->run = pieces->at;
        pieces->run_end = pieces->at + ls_utf8_valid_bytes(pieces->at, (size_t)(pieces->end - pieces->at));
        if (pieces->run == pieces->run_end) {
            uint32_t code;
            do pieces->at++;
            while (pieces->at < pieces->end && !ls_utf8_decode(pieces->at, pieces->end, &code));
            pieces->run_end = pieces->at;
            return LS_OK;
        }
    }
    size_t start, end, from = (size_t)(pieces->at - pieces->run);
    LS_TRY(
        ls_regex_find(pieces->step->regex, pieces->run, (size_t)(pieces->run_end - pieces->run), from, &start, &end));
    pieces->at = pieces->run + (start > from ? start : end);
    return LS_OK;
}

ls_status ls_pieces_next(ls_pieces *pieces) {
    const ls_pretok *step = pieces->step;
    switch (step->kind) {
    case LS_PRETOK_GPT2: pieces->at = next_gpt2(pieces->at, pieces->end); break;
    case LS_PRETOK_LLAMA3: pieces->at = next_llama3(pieces->at, pieces->end, step->digits_max); break;
    case LS_PRETOK_DIGITS: pieces->at = next_digits(pieces->at, pieces->end, step->digits_max); break;
    case LS_PRETOK_REGEX: return next_regex(pieces);
    }
    return LS_OK;
}

ls_status ls_pretok_init(ls_pretok *step, const char *name, const char *pattern, bool is_plain) {
    *step = (ls_pretok){.kind = LS_PRETOK_REGEX};
    if (!is_plain && strcmp(pattern, LS_PATTERN_GPT2) == 0) {
        step->kind = LS_PRETOK_GPT2;
    } else if (!is_plain && strcmp(pattern, LS_PATTERN_LLAMA3_HEAD "{1,3}" LS_PATTERN_LLAMA3_TAIL) == 0) {
        *step = (ls_pretok){.kind = LS_PRETOK_LLAMA3, .digits_max = 3};
    } else if (!is_plain && strcmp(pattern, LS_PATTERN_LLAMA3_HEAD LS_PATTERN_LLAMA3_TAIL) == 0) {
        *step = (ls_pretok){.kind = LS_PRETOK_LLAMA3, .digits_max = 1};
    } else {
        return ls_regex_create(name, pattern, is_plain, &step->regex);
    }
    return LS_OK;
}

void ls_pretok_fini(ls_pretok *step) {
    ls_regex_destroy(step->regex);
    *step = (ls_pretok){0};
}
