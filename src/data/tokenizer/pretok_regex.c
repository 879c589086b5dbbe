/* pretok_regex.c: runs the regular expressions of tokenizer.json with PCRE2 (with Unicode properties, and its JIT if
 * available). A match that needs more stack than the JIT has is repeated by the interpreter, which uses the heap; if
 * that needs too many steps, the result is an error, not an endless loop. */
#include "data/tokenizer/pretok.h"

#include <stdlib.h>

#ifdef LS_HAVE_PCRE2

#    define PCRE2_CODE_UNIT_WIDTH 8
#    include <pcre2.h>

struct ls_regex {
    pcre2_code *code;
    pcre2_match_data *match;
};

ls_status ls_regex_create(const char *name, const char *pattern, bool is_plain, ls_regex **out) {
    int error = 0;
    size_t offset = 0;
    uint32_t flags = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | (is_plain ? PCRE2_LITERAL : 0);
    if (is_plain) flags &= ~(uint32_t)(PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C); /* not allowed beside LITERAL */
    ls_regex *regex = *out = calloc(1, sizeof *regex);
    if (!regex) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for the regular expression of %s", name);
    regex->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, flags, &error, &offset, NULL);
    if (regex->code) regex->match = pcre2_match_data_create(1, NULL);
    if (!regex->match) {
        bool is_wrong = !regex->code;
        unsigned char reason[128] = "";
        pcre2_get_error_message(error, reason, sizeof reason);
        ls_regex_destroy(regex);
        *out = NULL;
        if (!is_wrong) return ls_fail(LS_ERR_RESOURCE, "out of memory for the regular expression of %s", name);
        return ls_fail(LS_ERR_INPUT, "%s: the regular expression '%.80s' cannot be used: %s, at character %zu", name,
                       pattern, (const char *)reason, offset);
    }
    (void)pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE); /* failure only makes matching slower */
    return LS_OK;
}

void ls_regex_destroy(ls_regex *regex) {
    if (!regex) return;
    pcre2_match_data_free(regex->match);
    pcre2_code_free(regex->code);
    free(regex);
}

ls_status ls_regex_find(const ls_regex *regex, const uint8_t *text, size_t bytes, size_t from, size_t *start,
                        size_t *end) {
    uint32_t flags = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int count = pcre2_match(regex->code, text, bytes, from, flags, regex->match, NULL);
    if (count == PCRE2_ERROR_JIT_STACKLIMIT)
        count = pcre2_match(regex->code, text, bytes, from, flags | PCRE2_NO_JIT, regex->match, NULL);
    *start = *end = bytes;
    if (count == PCRE2_ERROR_NOMATCH) return LS_OK;
    if (count < 0) {
        unsigned char reason[128] = "";
        pcre2_get_error_message(count, reason, sizeof reason);
        return ls_fail(LS_ERR_INPUT, "the tokenizer's regular expression gives up on the text at byte %zu: %s", from,
                       (const char *)reason);
    }
    const size_t *ends = pcre2_get_ovector_pointer(regex->match);
    *start = ends[0];
    *end = ends[1];
    /* \K can put the start behind the end; such a match is ignored. */
    if (*start < from || *end <= *start) *start = *end = bytes;
    return LS_OK;
}

#else

ls_status ls_regex_create(const char *name, const char *pattern, bool is_plain, ls_regex **out) {
    (void)is_plain;
    *out = NULL;
    return ls_fail(
        LS_ERR_INPUT,
        "%s: the pattern '%.80s' needs PCRE2, which this lockstep was built without (the patterns of GPT-2 and "
        "Llama 3 do not): install libpcre2-dev and build again",
        name, pattern);
}

void ls_regex_destroy(ls_regex *regex) { free(regex); }

ls_status ls_regex_find(const ls_regex *regex, const uint8_t *text, size_t bytes, size_t from, size_t *start,
                        size_t *end) {
    (void)regex, (void)text, (void)from;
    *start = *end = bytes;
    return LS_OK;
}

#endif
