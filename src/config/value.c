/* value.c: parses one value. Numbers are scanned here before the C library converts them, so that blanks, hexadecimal
 * numbers, "nan" and "inf" are refused. */
#include "config/value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"

enum { NUMBER_MAX = 64 };

/* A unit of sizes or of times; the other field is unused. */
typedef struct unit {
    const char *suffix;
    double seconds;
    size_t bytes;
} unit;

/* Returns LS_ERR_INPUT with the message for an empty text. */
static ls_status fail_empty(void) { return ls_fail(LS_ERR_INPUT, "must not be empty"); }

ls_status ls_value_parse_bool(const char *text, bool *out) {
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
            *out = strcasecmp(text, yes[i]) == 0;
            return LS_OK;
        }
    }
    return *text ? ls_fail(LS_ERR_INPUT, "must be true or false") : fail_empty();
}

ls_status ls_value_parse_int(const char *text, int64_t *out) {
    const char *digits = text + (*text == '-' || *text == '+');
    size_t count = strspn(digits, "0123456789");
    if (!*text) return fail_empty();
    if (!count || digits[count]) return ls_fail(LS_ERR_INPUT, "must be a whole number, such as 4");
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno == ERANGE) return ls_fail(LS_ERR_INPUT, "is too large");
    *out = value;
    return LS_OK;
}

/* Returns the length of the decimal number (sign, fraction, exponent) at the start of `text`; 0 if it does not begin
 * with one. */
static size_t number_length(const char *text) {
    const char *at = text + (*text == '-' || *text == '+');
    size_t whole = strspn(at, "0123456789"), fraction = 0;
    at += whole;
    if (*at == '.') {
        fraction = strspn(at + 1, "0123456789");
        at += 1 + fraction;
    }
    if (whole + fraction == 0) return 0;
    if (*at == 'e' || *at == 'E') {
        const char *exponent = at + 1 + (at[1] == '-' || at[1] == '+');
        size_t count = strspn(exponent, "0123456789");
        if (count) at = exponent + count;
    }
    return (size_t)(at - text);
}

/* Converts the first `length` characters of `text`, which must be a number. Fails from 64 characters on, or if the
 * number overflows a double. */
static ls_status convert_number(const char *text, size_t length, double *out) {
    char number[NUMBER_MAX];
    if (length >= sizeof number) return ls_fail(LS_ERR_INPUT, "has too many digits");
    memcpy(number, text, length);
    number[length] = '\0';
    double value = strtod(number, NULL);
    if (!isfinite(value)) return ls_fail(LS_ERR_INPUT, "is too large");
    *out = value;
    return LS_OK;
}

ls_status ls_value_parse_float(const char *text, double *out) {
    size_t length = number_length(text);
    if (!*text) return fail_empty();
    if (!length || text[length]) return ls_fail(LS_ERR_INPUT, "must be a number, such as 0.5 or 3e-4");
    return convert_number(text, length, out);
}

/* Returns the unit with exactly this suffix, in exact case; NULL: none. A NULL suffix ends the list. */
static const unit *find_unit(const unit *units, const char *suffix) {
    for (; units->suffix; units++) {
        if (strcmp(units->suffix, suffix) == 0) return units;
    }
    return NULL;
}

ls_status ls_value_parse_size(const char *text, size_t *out) {
    static const unit units[] = {{.suffix = "", .bytes = 1},
                                 {.suffix = "B", .bytes = 1},
                                 {.suffix = "KiB", .bytes = (size_t)1 << 10},
                                 {.suffix = "MiB", .bytes = (size_t)1 << 20},
                                 {.suffix = "GiB", .bytes = (size_t)1 << 30},
                                 {.suffix = "TiB", .bytes = (size_t)1 << 40},
                                 {.suffix = NULL}};
    if (!*text) return fail_empty();
    size_t count = strspn(text, "0123456789");
    const unit *scale = find_unit(units, text + count);
    if (!count || !scale) {
        return ls_fail(LS_ERR_INPUT, "must be a whole number of bytes, or of KiB, MiB, GiB or TiB, such as 64KiB");
    }
    errno = 0;
    size_t value = strtoull(text, NULL, 10);
    if (errno == ERANGE || __builtin_mul_overflow(value, scale->bytes, &value))
        return ls_fail(LS_ERR_INPUT, "is too large");
    *out = value;
    return LS_OK;
}

ls_status ls_value_parse_time(const char *text, double *seconds) {
    static const unit units[] = {{.suffix = "", .seconds = 1},
                                 {.suffix = "ms", .seconds = 1e-3},
                                 {.suffix = "s", .seconds = 1},
                                 {.suffix = "min", .seconds = 60},
                                 {.suffix = "h", .seconds = 3600},
                                 {.suffix = "day", .seconds = 86400},
                                 {.suffix = NULL}};
    if (!*text) return fail_empty();
    size_t length = number_length(text);
    const unit *scale = length ? find_unit(units, text + length) : NULL;
    if (!scale) return ls_fail(LS_ERR_INPUT, "must be seconds, or a time in ms, s, min, h or day, such as 5s or 500ms");
    double number = 0;
    LS_TRY(convert_number(text, length, &number));
    double value = number * scale->seconds;
    if (!isfinite(value)) return ls_fail(LS_ERR_INPUT, "is too large");
    *seconds = value;
    return LS_OK;
}

void ls_value_format_real(double number, char text[LS_VALUE_REAL_MAX]) {
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, LS_VALUE_REAL_MAX, "%.*g", digits, number);
        if (strtod(text, NULL) == number) return;
    }
}

bool ls_value_next_word(const char **words, char *word, size_t room) {
    const char *start = *words ? *words + strspn(*words, " ") : "";
    size_t length = strcspn(start, " ");
    if (!length) return false;
    size_t kept = length < room ? length : room - 1;
    memcpy(word, start, kept);
    word[kept] = '\0';
    *words = start + length;
    return true;
}

const char *ls_choice_word(const ls_option_choice *choices, int value) {
    while (choices->word && choices->value != value) choices++;
    return choices->word ? choices->word : "unknown";
}

bool ls_choice_find(const ls_option_choice *choices, const char *word, int *value) {
    while (choices->word && strcmp(choices->word, word) != 0) choices++;
    if (choices->word) *value = choices->value;
    return choices->word != NULL;
}

void ls_choice_list(const ls_option_choice *choices, char *text, size_t room) {
    size_t used = 0;
    text[0] = '\0';
    for (const ls_option_choice *c = choices; c->word && used < room; c++)
        used += (size_t)snprintf(text + used, room - used, "%s%s",
                                 c == choices ? ""
                                 : c[1].word  ? ", "
                                              : " or ",
                                 c->word);
}

ls_status ls_value_parse_choice(const char *text, const ls_option_choice *choices, int *out) {
    char list[256];
    if (!*text) return fail_empty();
    if (ls_choice_find(choices, text, out)) return LS_OK;
    ls_choice_list(choices, list, sizeof list);
    return ls_fail(LS_ERR_INPUT, "must be %s", list);
}
