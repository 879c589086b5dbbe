/* line_scan.c: a strict, fast parser for the usual form of a metrics line. Any other line is left to the JSON parser.
 *
 * Digits that a double holds exactly, divided by a power of ten that it holds exactly, are rounded once, as strtod()
 * rounds. That covers most numbers of metrics, and a line is read in half the time that strtod() alone would take. */
#include "observe/line_scan.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 19, TEXT_MAX = 48, MANTISSA = 53, SCALE_MAX = 1024 };

static const int64_t step_max = (INT64_C(1) << 48) - 1;

static const double power_of_10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                     1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
enum { EXACT_POWERS = sizeof power_of_10 / sizeof *power_of_10 };

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static bool is_digit(const char *p, const char *end) { return p < end && *p >= '0' && *p <= '9'; }

/* A decimal number: its digits without the point, and its exponent. `whole`: it has neither fraction nor exponent. */
typedef struct decimal {
    uint64_t digits;
    int count, power; /* of ten */
    bool negative, whole;
} decimal;

/* Parses digits into *d and returns their end. More than DIGITS_MAX of them overflow `digits`; the caller checks
 * their count, which excludes leading zeros. */
static const char *take_digits(const char *p, const char *end, decimal *d) {
    if (d->digits == 0)
        while (p < end && *p == '0') p++;
    for (; is_digit(p, end); p++) {
        d->digits = d->digits * 10 + (uint64_t)(*p - '0');
        if (d->count <= DIGITS_MAX) d->count++;
    }
    return p;
}

/* Parses a JSON number into *d without rounding. Returns its end, or NULL if it is not a JSON number. */
static const char *take_decimal(const char *p, const char *end, decimal *d) {
    *d = (decimal){.whole = true};
    if (p < end && *p == '-') d->negative = true, p++;
    if (!is_digit(p, end)) return NULL;
    if (*p == '0' && is_digit(p + 1, end)) return NULL;
    p = take_digits(p, end, d);
    if (p < end && *p == '.') {
        const char *point = ++p;
        if (!is_digit(p, end)) return NULL;
        p = take_digits(p, end, d);
        d->power = (int)(point - p);
        d->whole = false;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        int exponent = 0, sign = 1;
        p++;
        if (p < end && (*p == '+' || *p == '-')) sign = *p++ == '-' ? -1 : 1;
        if (!is_digit(p, end)) return NULL;
        for (; is_digit(p, end); p++) exponent = exponent < 10000 ? exponent * 10 + (*p - '0') : exponent;
        d->power += sign * exponent;
        d->whole = false;
    }
    return p;
}

double ls_line_scan_number(const char **at, const char *end) {
    char text[TEXT_MAX];
    decimal d;
    const char *begin = *at, *p = take_decimal(begin, end, &d);
    *at = p;
    if (!p || d.count > DIGITS_MAX || (d.whole && d.count == DIGITS_MAX) || p - begin >= TEXT_MAX) {
        *at = NULL; /* too long for this parser */
        return (double)NAN;
    }
    double x;
    if (d.digits == 0) {
        x = 0;
    } else if (d.power == 0) {
        x = (double)d.digits;
    } else if (d.power < 0 && d.power > -EXACT_POWERS && d.digits >> MANTISSA == 0) {
        x = (double)d.digits / power_of_10[-d.power]; /* both operands are exact, so the quotient is rounded once */
    } else {
        memcpy(text, begin, (size_t)(p - begin));
        text[p - begin] = '\0';
        x = strtod(text, NULL);
        if (!isfinite(x)) *at = NULL;
        return x;
    }
    /* A whole −0 is the integer 0. */
    return d.negative && !(d.whole && d.digits == 0) ? -x : x;
}

/* ---- a line ------------------------------------------------------------------------------------------------------ */

typedef struct scan {
    const char *p, *end; /* p is NULL after anything unexpected */
} scan;

/* Parses a string of printable ASCII without escapes; sets *bytes to its length. Returns its text, without a NUL,
 * inside the line; sets s->p to NULL on anything else. */
static const char *take_text(scan *s, size_t *bytes) {
    const char *p = s->p;
    s->p = NULL;
    if (p >= s->end || *p != '"') return "";
    const char *text = ++p;
    while (p < s->end && *p != '"') {
        if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7F || *p == '\\') return "";
        p++;
    }
    if (p >= s->end) return "";
    *bytes = (size_t)(p - text);
    s->p = p + 1;
    return text;
}

/* Returns whether the text of `bytes` bytes, without a NUL, equals `word`. */
static bool is_text(const char *text, size_t bytes, const char *word) {
    return strlen(word) == bytes && memcmp(text, word, bytes) == 0;
}

/* Parses a number, or one of the strings "nan", "inf" and "-inf", which stand for values that JSON cannot express. */
static double take_number(scan *s) {
    size_t bytes = 0;
    if (s->p < s->end && *s->p != '"') return ls_line_scan_number(&s->p, s->end);
    const char *text = take_text(s, &bytes);
    if (s->p && is_text(text, bytes, "nan")) return (double)NAN;
    if (s->p && is_text(text, bytes, "inf")) return HUGE_VAL;
    if (s->p && is_text(text, bytes, "-inf")) return -HUGE_VAL;
    s->p = NULL;
    return (double)NAN;
}

/* Parses an integer without fraction or exponent. Sets s->p to NULL if it is not one, or is outside low ... high. */
static int64_t take_whole(scan *s, int64_t low, int64_t high) {
    decimal d;
    s->p = take_decimal(s->p, s->end, &d);
    if (!s->p || !d.whole || d.count >= DIGITS_MAX) {
        s->p = NULL;
        return 0;
    }
    int64_t n = d.negative ? -(int64_t)d.digits : (int64_t)d.digits;
    if (n < low || n > high) s->p = NULL;
    return n;
}

/* Skips `word`, or sets s->p to NULL if the line continues differently. */
static void take_word(scan *s, const char *word) {
    size_t bytes = strlen(word);
    s->p = (size_t)(s->end - s->p) >= bytes && memcmp(s->p, word, bytes) == 0 ? s->p + bytes : NULL;
}

const char *const ls_line_usage_names[LS_USAGE_KINDS] = {"busy_ms",  "wait_ms",   "net_ms",
                                                         "input_ms", "queued_ms", "cpu_ms"};

/* The members of a step's line, in the order in which metrics are written. */
typedef enum member {
    STEP,
    LOSS,
    LOSS_HEX,
    NORM,
    LR,
    MS,
    TOKENS,
    MFU,
    GPU_WAIT,
    MEMORY,
    GPU_MEMORY,
    TIMES, /* the first of LS_USAGE_KINDS */
    SCALE = TIMES + LS_USAGE_KINDS,
    SKIPPED,
    AUDITED,
    STATE,
    UNIX,
    CHECKSUM,
    MEMBERS
} member;

static const struct {
    const char *text; /* with its quotes and colon */
    size_t bytes;
} names[MEMBERS] = {
#define NAME(text)                                                                                                     \
    { "\"" text "\":", sizeof text + 2 }
    [STEP] = NAME("step"),
    [LOSS] = NAME("loss"),
    [LOSS_HEX] = NAME("loss_hex"),
    [NORM] = NAME("norm"),
    [LR] = NAME("lr"),
    [MS] = NAME("ms"),
    [TOKENS] = NAME("tokens_per_s"),
    [MFU] = NAME("mfu"),
    [GPU_WAIT] = NAME("gpu_wait_ms"),
    [MEMORY] = NAME("memory_bytes"),
    [GPU_MEMORY] = NAME("gpu_memory_bytes"),
    [TIMES + LS_USAGE_BUSY] = NAME("busy_ms"),
    [TIMES + LS_USAGE_WAIT] = NAME("wait_ms"),
    [TIMES + LS_USAGE_NET] = NAME("net_ms"),
    [TIMES + LS_USAGE_INPUT] = NAME("input_ms"),
    [TIMES + LS_USAGE_QUEUED] = NAME("queued_ms"),
    [TIMES + LS_USAGE_CPU] = NAME("cpu_ms"),
    [SCALE] = NAME("scale"),
    [SKIPPED] = NAME("skipped"),
    [AUDITED] = NAME("audited"),
    [STATE] = NAME("state_before"),
    [UNIX] = NAME("unix_ms"),
    [CHECKSUM] = NAME("checksum"),
#undef NAME
};

/* Returns the member whose name is next and skips the name; MEMBERS if it is none of them. Members usually come in
 * the order of the list, so `guess`, the one after the previous member, is tried first. */
static member take_name(scan *s, member guess) {
    size_t left = (size_t)(s->end - s->p);
    for (int i = 0; i < MEMBERS; i++) {
        member m = (member)((guess + i) % MEMBERS);
        if (names[m].bytes >= left || s->p[1] != names[m].text[1]) continue;
        if (memcmp(names[m].text, s->p, names[m].bytes) != 0) continue;
        s->p += names[m].bytes;
        return m;
    }
    return MEMBERS;
}

/* Copies a string of 32 lower-case hexadecimal digits to `out`; sets s->p to NULL if the text is anything else. */
static void take_state(scan *s, char out[33]) {
    const char *p = s->p;
    s->p = NULL;
    if (s->end - p < 34 || p[0] != '"' || p[33] != '"') return;
    memcpy(out, p + 1, 32);
    out[32] = '\0';
    unsigned other = 0;
    for (int i = 0; i < 32; i++) {
        unsigned char c = (unsigned char)out[i];
        other |= !((unsigned)(c - '0') < 10) & !((unsigned)(c - 'a') < 6);
    }
    if (!other) s->p = p + 34;
}

/* Parses a list of 1 to LS_WORKERS_MAX times. If s->p is at anything else, sets s->p to NULL and leaves *count
 * unchanged; `ms` may be overwritten. */
static void take_list(scan *s, float *ms, int *count) {
    int n = 0;
    if (*s->p++ != '[' || s->p >= s->end || *s->p == ']') goto unexpected;
    for (;;) {
        if (n == LS_WORKERS_MAX) goto unexpected;
        ms[n++] = ls_line_ms(ls_line_scan_number(&s->p, s->end));
        if (!s->p || s->p >= s->end || (*s->p != ',' && *s->p != ']')) goto unexpected;
        if (*s->p++ == ']') break;
    }
    *count = n;
    return;
unexpected:
    s->p = NULL;
}

/* Parses the value of member `m` into its field of *out or *usage. Sets s->p to NULL if the value has an unexpected
 * form. */
static void take_member(scan *s, member m, ls_run_log_step *out, ls_line_usage *usage) {
    size_t bytes;
    if (m >= TIMES && m < SCALE) {
        take_list(s, usage->ms[m - TIMES], &usage->count[m - TIMES]);
        return;
    }
    switch (m) {
    case STEP: out->step = take_whole(s, 0, step_max); break;
    case LOSS: out->loss = take_number(s); break;
    case LOSS_HEX:
    case CHECKSUM: (void)take_text(s, &bytes); break; /* ls_run_log_add_line() has verified it */
    case NORM:
        out->norm = take_number(s);
        out->has_norm = true;
        break;
    case LR: out->lr = take_number(s); break;
    case MS: out->ms = take_number(s); break;
    case TOKENS: out->tokens_s = take_number(s); break;
    case MFU: out->mfu = take_number(s); break;
    case GPU_WAIT: out->gpu_wait_ms = take_number(s); break;
    case MEMORY: out->memory = take_number(s); break;
    case GPU_MEMORY: out->gpu_memory = take_number(s); break;
    case UNIX: out->unix_ms = take_whole(s, 0, INT64_MAX); break;
    case SCALE: out->scale = (int)take_whole(s, -SCALE_MAX, SCALE_MAX); break;
    case SKIPPED:
        take_word(s, "true");
        out->skipped = true;
        break;
    case AUDITED: out->audited = (int)take_whole(s, 0, INT_MAX); break;
    case STATE: take_state(s, out->state_before); break;
    default: s->p = NULL; break;
    }
}

bool ls_line_scan_step(const char *line, size_t bytes, ls_run_log_step *out, ls_line_usage *usage) {
    scan s = {line, line + bytes};
    unsigned seen = 0;
    member m = STEP;
    if (bytes < 2 || line[0] != '{' || line[bytes - 1] != '}') return false;
    ls_run_log_step_init(out);
    memset(usage->count, 0, sizeof usage->count);
    s.end--;
    while (s.p && s.p < s.end) {
        s.p++; /* the brace, or a comma */
        if (s.p >= s.end) return false;
        m = take_name(&s, m);
        if (m == MEMBERS || (seen & 1U << m)) return false;
        seen |= 1U << m;
        take_member(&s, m, out, usage);
        if (s.p && s.p < s.end && *s.p != ',') return false;
        m = (member)((m + 1) % MEMBERS);
    }
    return s.p == s.end && (seen & 1U << STEP) && (seen & 1U << LOSS);
}
