/* request.c: parses Accept headers, query strings and event ids. */
#include "report/live/request.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

const char *const ls_live_sort_names[LS_LIVE_SORTS] = {"name",       "state", "step",  "loss",
                                                       "validation", "speed", "change"};

/* ---- queries ----------------------------------------------------------------------------------------------------- */

void ls_live_query_init(ls_live_query *q) {
    *q = (ls_live_query){.x = LS_VIEW_BY_STEP, .smooth = 1, .sort = LS_LIVE_BY_CHANGE, .falls = true};
}

/* Adds the run with this hexadecimal id, once; ignores it if it is not valid, or there are LS_RUN_PAGE_RUNS_MAX
 * already. */
static void set_run(ls_live_query *q, const char *value) {
    char *end;
    if (!isxdigit((unsigned char)*value)) return;
    uint64_t id = strtoull(value, &end, 16);
    if (*end || q->runs == LS_RUN_PAGE_RUNS_MAX) return;
    for (int i = 0; i < q->runs; i++)
        if (q->run[i] == id) return;
    q->run[q->runs++] = id;
}

void ls_live_query_set(ls_live_query *q, const char *key, const char *value) {
    if (!key || !value) return;
    if (strcmp(key, "run") == 0) set_run(q, value);
    if (strcmp(key, "x") == 0)
        for (int i = 0; i < LS_VIEW_X_KINDS; i++)
            if (strcmp(value, ls_view_x_names[i]) == 0) q->x = (ls_view_x)i;
    if (strcmp(key, "smooth") == 0 && value[0] >= '0' && value[0] < '0' + LS_VIEW_SMOOTHS && !value[1])
        q->smooth = value[0] - '0';
    if (strcmp(key, "xlog") == 0) q->x_log = strcmp(value, "1") == 0;
    if (strcmp(key, "ylog") == 0) q->y_log = strcmp(value, "1") == 0;
    if (strcmp(key, "sort") == 0)
        for (int i = 0; i < LS_LIVE_SORTS; i++)
            if (strcmp(value, ls_live_sort_names[i]) == 0) q->sort = (ls_live_sort)i;
    if (strcmp(key, "falls") == 0) q->falls = strcmp(value, "1") == 0;
    if (strcmp(key, "filter") == 0) ls_run_log_copy_text(q->filter, sizeof q->filter, value);
}

void ls_live_query_text(const ls_live_query *q, char *out, size_t room) {
    size_t used = 0;
    int n = snprintf(out, room, "x=%s&smooth=%d&xlog=%d&ylog=%d&sort=%s&falls=%d", ls_view_x_names[q->x], q->smooth,
                     q->x_log, q->y_log, ls_live_sort_names[q->sort], q->falls);
    used = n > 0 ? (size_t)n : 0;
    for (int i = 0; i < q->runs && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "&run=%016llx", (unsigned long long)q->run[i]);
    if (q->filter[0] && used < room) used += (size_t)snprintf(out + used, room - used, "&filter=");
    for (const char *at = q->filter; *at && used + 4 < room; at++)
        used += (size_t)(isalnum((unsigned char)*at) ? snprintf(out + used, room - used, "%c", *at)
                                                     : snprintf(out + used, room - used, "%%%02X", (unsigned char)*at));
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* Returns how exactly a range of types of an Accept header, `length` bytes, names `type`: 3 by itself, 2 by its major
 * type and a star, 1 by two stars, 0 not at all. */
static int match_range(const char *range, size_t length, const char *type) {
    size_t major = strcspn(type, "/") + 1;
    if (length == strlen(type) && strncasecmp(range, type, length) == 0) return 3;
    if (length == major + 1 && strncasecmp(range, type, major) == 0 && range[major] == '*') return 2;
    return length == 3 && strncmp(range, "*/*", 3) == 0;
}

/* Returns the weight "q=0.5" among the parameters of a range, which end at `end`; 1 without one. */
static double weight_of(const char *at, const char *end) {
    while ((at = memchr(at, ';', (size_t)(end - at))) != NULL) {
        at++;
        while (*at == ' ' || *at == '\t') at++;
        if (tolower((unsigned char)at[0]) != 'q' || at[1] != '=') continue;
        double weight = at[2] == '1', place = .1;
        for (const char *digit = at + 4; at[2] == '0' && at[3] == '.' && isdigit((unsigned char)*digit); digit++) {
            weight += place * (*digit - '0');
            place /= 10;
        }
        return weight;
    }
    return 1;
}

double ls_live_accepts(const char *accept, const char *type) {
    double weight = 0;
    int best = 0;
    if (!accept) return 1;
    for (const char *at = accept; *at;) {
        const char *end = at + strcspn(at, ",");
        while (*at == ' ' || *at == '\t') at++;
        int match = match_range(at, strcspn(at, ",; \t"), type);
        if (match > best) weight = weight_of(at, end);
        if (match > best) best = match;
        at = *end ? end + 1 : end;
    }
    return weight;
}

/* ---- what a page has --------------------------------------------------------------------------------------------- */

uint64_t ls_live_part(const char *name, const char *text, size_t bytes) {
    ls_hash128 of_name = ls_hash_bytes(name, strlen(name)), of_text = ls_hash_bytes(text, bytes);
    uint64_t both[2] = {of_name.lo, of_text.lo};
    return ls_hash_bytes(both, sizeof both).lo;
}

bool ls_live_has_has(const ls_live_has *has, uint64_t part) {
    for (int i = 0; i < has->count; i++)
        if (has->part[i] == part) return true;
    return false;
}

void ls_live_has_add(ls_live_has *has, uint64_t part) {
    if (has->count < LS_LIVE_PARTS_MAX) has->part[has->count++] = part;
}

bool ls_live_has_same(const ls_live_has *a, const ls_live_has *b) {
    return a->count == b->count && memcmp(a->part, b->part, (size_t)a->count * sizeof *a->part) == 0;
}

void ls_live_has_read(const char *text, ls_live_has *out) {
    *out = (ls_live_has){.count = 0};
    while (text && out->count < LS_LIVE_PARTS_MAX) {
        char digits[17] = "";
        for (int i = 0; i < 16 && isxdigit((unsigned char)text[i]); i++) digits[i] = text[i];
        if (strlen(digits) < 16 || (text[16] && text[16] != '.')) break;
        ls_live_has_add(out, strtoull(digits, NULL, 16));
        text = text[16] ? text + 17 : NULL;
    }
    if (text) out->count = 0; /* not an id of this server */
}

void ls_live_has_text(const ls_live_has *has, char out[LS_LIVE_HAS_TEXT_MAX]) {
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < has->count; i++)
        used += (size_t)snprintf(out + used, LS_LIVE_HAS_TEXT_MAX - used, "%s%016llx", i ? "." : "",
                                 (unsigned long long)has->part[i]);
}

uint64_t ls_live_run_id(const char *folder) { return ls_hash_bytes(folder, strlen(folder)).lo; }
