/* json.c: a layout, the division of a run among workers, as an object of option names and values, and back; requests
 * out of options; and a layout in one line.
 *
 * Members are read through the table of options, so a file means what the flags of the same names mean: same ranges,
 * same aliases, same messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "config/suggest.h"
#include "config/value.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/make.h"

enum { KEY_MAX = 64, TEXT_MAX = 32, NUMBER_MAX = 16 };

/* The options that are members of a layout: --workers, and all knobs and lists that this program runs. */
static const ls_option_id members[] = {
    LS_OPT_workers,
#define LS_KNOB(field, KIND, name, ...) LS_OPT_##name,
#define LS_KNOB_OTHERS(...)
#define LS_KNOB_TASK(...)
#define LS_KNOB_LIST(option) LS_OPT_##option,
#include "parallel/layout/knobs.def"
};

enum { MEMBERS = sizeof members / sizeof *members };

bool ls_layout_is_option(ls_option_id id) {
    for (int i = 0; i < MEMBERS; i++)
        if (members[i] == id) return true;
    return false;
}

/* ---- options to a request ---------------------------------------------------------------------------------------- */

/* Sets the member of the request that this option stands for, as given. */
static void add_member(const ls_options *o, ls_option_id id, ls_layout_request *request) {
    if (id == LS_OPT_workers) request->workers = (int)o->workers;
#define LS_KNOB(field, KIND, name, ...)                                                                                \
    if (id == LS_OPT_##name) ls_knob_give(request, LS_KNOB_##field, (double)o->name);
#define LS_KNOB_OTHERS(...)
#define LS_KNOB_TASK(...)
#define LS_KNOB_LIST(option)                                                                                           \
    if (id == LS_OPT_##option) request->option = o->option;
#include "parallel/layout/knobs.def"
}

void ls_layout_request_add(const ls_options *options, ls_option_origin weakest, ls_layout_request *request) {
    for (int i = 0; i < MEMBERS; i++) {
        ls_option_origin origin = options->source[members[i]].origin;
        if (origin != LS_ORIGIN_DEFAULT && origin >= weakest) add_member(options, members[i], request);
    }
}

/* ---- JSON to a request ------------------------------------------------------------------------------------------- */

/* Finds the option that `key`, maybe with underscores, stands for; or, with *out LS_OPTION_COUNT, the knob that only
 * other programs have. LS_ERR_INPUT for other names, with a suggestion. */
static ls_status find_member(const char *key, ls_option_id *out, ls_knob *knob) {
    char name[KEY_MAX];
    ls_suggest suggest;
    snprintf(name, sizeof name, "%s", key);
    for (char *at = name; *at; at++)
        if (*at == '_') *at = '-';
    *out = strlen(key) < sizeof name ? ls_option_find(name) : LS_OPTION_COUNT;
    if (*out < LS_OPTION_COUNT && ls_layout_is_option(*out)) return LS_OK;
    for (*knob = 0; *knob < LS_KNOBS; (*knob)++)
        if (ls_knob_info_get(*knob)->owner == LS_KNOB_OF_OTHERS && strcmp(name, ls_knob_name(*knob)) == 0) return LS_OK;
    if (*out < LS_OPTION_COUNT) return ls_fail(LS_ERR_INPUT, "%s is not part of a layout; omit it", name);
    ls_suggest_init(&suggest, name);
    for (int i = 0; i < MEMBERS; i++) ls_suggest_offer(&suggest, ls_option_info_get(members[i])->name);
    if (!suggest.best) return ls_fail(LS_ERR_INPUT, "unknown name '%.*s'", LS_LAYOUT_SHOWN, key);
    return ls_fail(LS_ERR_INPUT, "unknown name '%.*s'; did you mean %s?", LS_LAYOUT_SHOWN, key, suggest.best);
}

/* Returns a JSON value as a user would write it behind a flag: borrowed from `value`, or in `room`. LS_ERR_INPUT: not a
 * single value of this kind. */
static ls_status value_text(const ls_option_info *info, const json_t *value, char room[TEXT_MAX], const char **out) {
    *out = json_is_string(value) ? json_string_value(value) : room;
    if (json_is_string(value)) return LS_OK;
    if (info->kind == LS_OPTION_STRING)
        return ls_fail(LS_ERR_INPUT, "%s: must be a string, quoted even where it is a single number", info->name);
    if (json_is_boolean(value)) {
        snprintf(room, TEXT_MAX, "%s", json_is_true(value) ? "true" : "false");
    } else if (json_is_integer(value)) {
        snprintf(room, TEXT_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_real(value)) {
        snprintf(room, TEXT_MAX, "%.17g", json_real_value(value));
    } else {
        return ls_fail(LS_ERR_INPUT, "%s: must be a single value, not null, a list or an object", info->name);
    }
    return LS_OK;
}

/* Reads the value of a knob that only other programs have. No option says its range, so it is here: counts from 1 on,
 * and switches. */
static ls_status read_others(ls_knob knob, const json_t *value, ls_layout_request *request) {
    bool is_count = ls_knob_info_get(knob)->kind == LS_KNOB_KIND_INT;
    json_int_t count = json_integer_value(value);
    if (is_count ? count < 1 || count > INT32_MAX : !json_is_boolean(value))
        return ls_fail(LS_ERR_INPUT, "%s: must be %s", ls_knob_name(knob), is_count ? "1 or more" : "true or false");
    ls_knob_give(request, knob, is_count ? (double)count : json_is_true(value));
    return LS_OK;
}

/* Reads one member into `options` or, for knobs of other programs, into the request. The lists in the request are
 * borrowed from `value`, because they must outlive the options they were checked in. */
static ls_status read_member(const char *where, const char *key, const json_t *value, ls_options *options,
                             ls_layout_request *out) {
    char room[TEXT_MAX];
    const char *text;
    ls_option_id id;
    ls_knob knob;
    ls_status status = find_member(key, &id, &knob);
    if (status == LS_OK && id == LS_OPTION_COUNT) status = read_others(knob, value, out);
    if (status == LS_OK && id == LS_OPTION_COUNT) return LS_OK;
    if (status == LS_OK) status = value_text(ls_option_info_get(id), value, room, &text);
    if (status == LS_OK && options->source[id].origin != LS_ORIGIN_DEFAULT)
        status = ls_fail(LS_ERR_INPUT, "%s is given twice; keep one", ls_option_info_get(id)->name);
    if (status != LS_OK) return ls_fail_at(status, "%s: ", where);
    if (id == LS_OPT_shares) out->shares = text;
    if (id == LS_OPT_stages) out->stages = text;
    return ls_options_put(options, id, text, LS_ORIGIN_FILE, 0);
}

ls_status ls_layout_request_from_json(const char *where, const json_t *json, ls_layout_request *out) {
    ls_layout_request request = ls_layout_request_none();
    ls_options options;
    ls_status status = LS_OK;
    const char *key;
    json_t *value;
    if (!json_is_object(json))
        return ls_fail(LS_ERR_INPUT, "%s: must be an object of names and values, e.g. {\"dp\": 2, \"tp\": 2}", where);
    ls_options_defaults(&options);
    options.config = where; /* what errors name */
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
        LS_TRY_OUT(read_member(where, key, value, &options, &request));
    *out = request;
    ls_layout_request_add(&options, LS_ORIGIN_FILE, out);
    out->shares = request.shares;
    out->stages = request.stages;
out:
    ls_options_fini(&options);
    return status;
}

/* ---- lists: "5,4,4" ---------------------------------------------------------------------------------------------- */

void ls_layout_list_text(const int *numbers, int count, char *text, size_t room) {
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        char number[NUMBER_MAX];
        int length = snprintf(number, sizeof number, "%s%d", i > 0 ? "," : "", numbers[i]);
        /* whole numbers only, and room for dots where some are left out */
        size_t needed = strlen(text) + (size_t)length + (i + 1 < count ? sizeof ",…" : 1);
        bool fits = needed <= room;
        strncat(text, fits ? number : ",…", room - strlen(text) - 1);
        if (!fits) return;
    }
}

ls_status ls_layout_list_parse(const char *flag, const char *text, const char *wanted, int max, int *numbers,
                               int *count) {
    const char *at = text;
    for (*count = 0;; at++) {
        char number[NUMBER_MAX];
        int64_t value = 0;
        size_t length = strcspn(at, ",");
        bool sound = length < sizeof number;
        if (sound) {
            memcpy(number, at, length);
            number[length] = '\0';
            sound = ls_value_parse_int(number, &value) == LS_OK && value >= 1 && value <= INT32_MAX;
        }
        if (!sound) return ls_fail(LS_ERR_INPUT, "%s %.*s: must be %s", flag, LS_LAYOUT_SHOWN, text, wanted);
        if (*count == max)
            return ls_fail(LS_ERR_INPUT, "%s %.*s: lists more than %d numbers", flag, LS_LAYOUT_SHOWN, text, max);
        numbers[(*count)++] = (int)value;
        at += length;
        if (!*at) return LS_OK;
    }
}

void ls_layout_blocks_text(const int *chunk_first, int chunks, char *text, size_t room) {
    int blocks[LS_CHUNKS_MAX];
    for (int c = 0; c < chunks; c++) blocks[c] = chunk_first[c + 1] - chunk_first[c];
    ls_layout_list_text(blocks, chunks, text, room);
}

/* ---- a layout in one line, and as JSON --------------------------------------------------------------------------- */

/* Returns whether replicas have different numbers of groups, so that a text must list them. */
static bool has_unequal_shares(const ls_layout *layout) {
    for (int d = 1; d < layout->dp; d++)
        if (layout->share[d] != layout->share[0]) return true;
    return false;
}

void ls_layout_text(const ls_layout *layout, char *text, size_t room) {
    char shares[LS_LAYOUT_SHOWN], blocks[LS_LAYOUT_SHOWN];
    ls_layout_list_text(layout->share, layout->dp, shares, sizeof shares);
    ls_layout_blocks_text(layout->chunk_first, ls_layout_chunks(layout), blocks, sizeof blocks);
    ls_knobs_text(&layout->knobs, LS_WORDS_LAYOUT, has_unequal_shares(layout) ? shares : NULL,
                  layout->pp > 1 ? blocks : NULL, text, room);
}

json_t *ls_layout_to_json(const ls_layout *layout) {
    char *shares = malloc(LS_LAYOUT_LIST_MAX), *stages = malloc(LS_LAYOUT_LIST_MAX);
    json_t *json = NULL;
    if (shares && stages) {
        ls_layout_list_text(layout->share, layout->dp, shares, LS_LAYOUT_LIST_MAX);
        ls_layout_blocks_text(layout->chunk_first, ls_layout_chunks(layout), stages, LS_LAYOUT_LIST_MAX);
        json = ls_knobs_to_json(&layout->knobs, shares, stages, 0);
    }
    free(shares);
    free(stages);
    return json;
}
