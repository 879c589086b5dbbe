/* json.c: a layout as an object of option names and values, and back; and requests out of options.
 *
 * Members are read through the table of options, so a file means what the flags of the same names mean: same ranges,
 * same aliases, same messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "config/suggest.h"
#include "parallel/layout/options.h"
#include "parallel/layout/parts.h"

enum { KEY_MAX = 64, TEXT_MAX = 32, LIST_MAX = 12 * LS_CHUNKS_MAX };

static const ls_option_id members[] = {LS_OPT_workers,
                                       LS_OPT_dp,
                                       LS_OPT_tp,
                                       LS_OPT_pp,
                                       LS_OPT_shares,
                                       LS_OPT_schedule,
                                       LS_OPT_virtual_stages,
                                       LS_OPT_stages,
                                       LS_OPT_zero,
                                       LS_OPT_recompute,
                                       LS_OPT_sequence_parallel,
                                       LS_OPT_micro_batch};

enum { MEMBERS = sizeof members / sizeof *members };

bool ls_layout_is_option(ls_option_id id) {
    for (int i = 0; i < MEMBERS; i++)
        if (members[i] == id) return true;
    return false;
}

/* ---- options to a request -------------------------------------------------------------------------------------------
 */

static ls_status recompute_parse(const char *text, int *out) {
    for (*out = 0; *out < LS_RECOMPUTE_KINDS; (*out)++)
        if (strcmp(text, ls_recompute_name((ls_recompute)*out)) == 0) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "--recompute %.*s: must be none, selective or full", LS_LAYOUT_SHOWN, text);
}

static ls_status add_member(const ls_options *o, ls_option_id id, ls_layout_request *request) {
    ls_schedule_kind kind;
    switch (id) {
    case LS_OPT_workers: request->workers = (int)o->workers; break;
    case LS_OPT_dp: request->dp = (int)o->dp; break;
    case LS_OPT_tp: request->tp = (int)o->tp; break;
    case LS_OPT_pp: request->pp = (int)o->pp; break;
    case LS_OPT_shares: request->shares = o->shares; break;
    case LS_OPT_virtual_stages: request->virtual_stages = (int)o->virtual_stages; break;
    case LS_OPT_stages: request->stages = o->stages; break;
    case LS_OPT_zero: request->zero = (int)o->zero; break;
    case LS_OPT_sequence_parallel: request->sequence_parallel = o->sequence_parallel; break;
    case LS_OPT_micro_batch: request->micro = (size_t)o->micro_batch; break;
    case LS_OPT_recompute: return recompute_parse(o->recompute, &request->recompute);
    case LS_OPT_schedule:
        LS_TRY(ls_schedule_kind_parse(o->schedule, &kind));
        request->schedule = (int)kind;
        break;
    default: break;
    }
    return LS_OK;
}

ls_status ls_layout_request_add(const ls_options *options, ls_option_origin weakest, ls_layout_request *request) {
    for (int i = 0; i < MEMBERS; i++) {
        ls_option_origin origin = options->source[members[i]].origin;
        if (origin != LS_ORIGIN_DEFAULT && origin >= weakest) LS_TRY(add_member(options, members[i], request));
    }
    return LS_OK;
}

/* ---- JSON to a request ----------------------------------------------------------------------------------------------
 */

/* The option that `key`, maybe with underscores, stands for. */
static ls_status find_member(const char *key, ls_option_id *out) {
    char name[KEY_MAX];
    ls_suggest suggest;
    snprintf(name, sizeof name, "%s", key);
    for (char *at = name; *at; at++)
        if (*at == '_') *at = '-';
    *out = strlen(key) < sizeof name ? ls_option_find(name) : LS_OPTION_COUNT;
    if (*out < LS_OPTION_COUNT && ls_layout_is_option(*out)) return LS_OK;
    if (*out < LS_OPTION_COUNT) return ls_fail(LS_ERR_INPUT, "%s is not part of a layout; omit it", name);
    ls_suggest_init(&suggest, name);
    for (int i = 0; i < MEMBERS; i++) ls_suggest_offer(&suggest, ls_option_info_get(members[i])->name);
    if (!suggest.best) return ls_fail(LS_ERR_INPUT, "unknown name '%.*s'", LS_LAYOUT_SHOWN, key);
    return ls_fail(LS_ERR_INPUT, "unknown name '%.*s'; did you mean %s?", LS_LAYOUT_SHOWN, key, suggest.best);
}

/* The value as a user would write it behind a flag: borrowed, or in `room`. */
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

/* Texts in the request must outlive the options they were checked in. */
static ls_status read_member(const char *where, const char *key, const json_t *value, ls_options *options,
                             ls_layout_request *texts) {
    char room[TEXT_MAX];
    const char *text;
    ls_option_id id;
    ls_status status = find_member(key, &id);
    if (status == LS_OK) status = value_text(ls_option_info_get(id), value, room, &text);
    if (status == LS_OK && options->source[id].origin != LS_ORIGIN_DEFAULT)
        status = ls_fail(LS_ERR_INPUT, "%s is given twice; keep one", ls_option_info_get(id)->name);
    if (status != LS_OK) return ls_fail_at(status, "%s: ", where);
    if (id == LS_OPT_shares) texts->shares = text;
    if (id == LS_OPT_stages) texts->stages = text;
    return ls_options_put(options, id, text, LS_ORIGIN_FILE, 0);
}

ls_status ls_layout_request_from_json(const char *where, const json_t *json, ls_layout_request *out) {
    ls_layout_request request = ls_layout_request_none(), texts = request;
    ls_options options;
    ls_status status = LS_OK;
    const char *key;
    json_t *value;
    if (!json_is_object(json))
        return ls_fail(LS_ERR_INPUT, "%s: must be an object of names and values, e.g. {\"dp\": 2, \"tp\": 2}", where);
    ls_options_defaults(&options);
    options.config = where; /* what errors name */
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
        LS_TRY_OUT(read_member(where, key, value, &options, &texts));
    LS_TRY_OUT(ls_layout_request_add(&options, LS_ORIGIN_FILE, &request));
    request.shares = texts.shares;
    request.stages = texts.stages;
    *out = request;
out:
    ls_options_fini(&options);
    return status;
}

/* ---- a layout to JSON -------------------------------------------------------------------------------------------- */

static int put(json_t *object, ls_option_id id, json_t *value) {
    return json_object_set_new(object, ls_option_info_get(id)->name, value);
}

static int put_list(json_t *object, ls_option_id id, const int *numbers, int count) {
    char *text = malloc(LIST_MAX);
    if (!text) return -1;
    ls_layout_list_text(numbers, count, text, LIST_MAX);
    int bad = put(object, id, json_string(text));
    free(text);
    return bad;
}

json_t *ls_layout_to_json(const ls_layout *layout) {
    json_t *json = json_object();
    int blocks[LS_CHUNKS_MAX], chunks = ls_layout_chunks(layout);
    for (int c = 0; c < chunks; c++) blocks[c] = layout->chunk_first[c + 1] - layout->chunk_first[c];
    int bad = put(json, LS_OPT_dp, json_integer(layout->dp));
    bad |= put(json, LS_OPT_tp, json_integer(layout->tp));
    bad |= put(json, LS_OPT_pp, json_integer(layout->pp));
    bad |= put_list(json, LS_OPT_shares, layout->share, layout->dp);
    bad |= put(json, LS_OPT_schedule, json_string(ls_schedule_kind_name(layout->schedule)));
    bad |= put(json, LS_OPT_virtual_stages, json_integer(layout->virtual_stages));
    bad |= put_list(json, LS_OPT_stages, blocks, chunks);
    bad |= put(json, LS_OPT_zero, json_integer(layout->zero));
    bad |= put(json, LS_OPT_recompute, json_string(ls_recompute_name(layout->recompute)));
    bad |= put(json, LS_OPT_sequence_parallel, json_boolean(layout->sequence_parallel));
    if (layout->micro > 0) bad |= put(json, LS_OPT_micro_batch, json_integer((json_int_t)layout->micro));
    if (!bad) return json;
    json_decref(json);
    return NULL;
}
