/* run_options.c: options, identity and layout of a run, as far as they are needed to explain it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "observe/run_parts.h"

enum { OPTIONS_MAX = 512 };

/* ---- options ----------------------------------------------------------------------------------------------------- */

const char *ls_run_log_option_get(const ls_run_log *run, const char *name) {
    for (size_t i = 0; i < run->option_count; i++)
        if (strcmp(run->options[i].name, name) == 0) return run->options[i].value;
    return NULL;
}

double ls_run_log_option_number(const ls_run_log *run, const char *name) {
    const char *text = ls_run_log_option_get(run, name);
    if (!text || !*text) return (double)NAN;
    char *end;
    double x = strtod(text, &end);
    return *end || !isfinite(x) ? (double)NAN : x;
}

/* A value of config.json is text; one of the identity may be a number or {"f64": "0x1p+0"}. */
static bool value_text(const json_t *value, char out[LS_RUN_TEXT_MAX]) {
    if (json_is_object(value)) value = json_object_get(value, "f64");
    if (json_is_string(value))
        ls_run_log_copy_text(out, LS_RUN_TEXT_MAX, json_string_value(value));
    else if (json_is_integer(value))
        snprintf(out, LS_RUN_TEXT_MAX, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(out, LS_RUN_TEXT_MAX, "%.17g", json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(out, LS_RUN_TEXT_MAX, "%s", json_is_true(value) ? "true" : "false");
    else
        return false;
    return true;
}

static ls_status add_members(ls_run_log *run, json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        char name[LS_RUN_NAME_MAX], text[LS_RUN_TEXT_MAX];
        ls_run_log_copy_text(name, sizeof name, key);
        if (run->option_count == OPTIONS_MAX || ls_run_log_option_get(run, name) || !value_text(value, text)) continue;
        LS_TRY(ls_run_log_make_room((void **)&run->options, &run->room[LS_ROOM_OPTIONS], run->option_count,
                                    sizeof *run->options));
        ls_run_log_option *option = &run->options[run->option_count++];
        memcpy(option->name, name, sizeof name);
        memcpy(option->value, text, sizeof text);
    }
    return LS_OK;
}

static ls_status load(const char *text, size_t bytes, json_t **out) {
    json_error_t error;
    *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!*out && json_error_code(&error) == json_error_out_of_memory)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for the options of a run");
    return LS_OK;
}

ls_status ls_run_log_add_options(ls_run_log *run, const char *text, size_t bytes) {
    json_t *json;
    ls_status status;
    LS_TRY(load(text, bytes, &json));
    json_t *fields = json_object_get(json, "fields"), *loose = json_object_get(json, "free");
    LS_TRY_OUT(add_members(run, json_is_object(fields) ? fields : json));
    if (json_is_object(loose)) LS_TRY_OUT(add_members(run, loose));
out:
    json_decref(json);
    return status;
}

/* ---- layout ------------------------------------------------------------------------------------------------------ */

static int64_t count_of(const json_t *json, const char *key) {
    const json_t *value = json_object_get(json, key);
    int64_t n = json_is_integer(value) ? (int64_t)json_integer_value(value) : 0;
    return n >= 1 && n <= LS_WORKERS_MAX ? n : 0;
}

/* "3,2,2": as many as there are rows, or none at all. */
static void read_shares(ls_run_log *run, const char *text) {
    char *end = NULL;
    for (int d = 0; d < run->dp; d++) {
        long n = text && *text >= '1' && *text <= '9' ? strtol(text, &end, 10) : 0;
        if (n < 1 || n > 1 << 16 || *end != (d + 1 < run->dp ? ',' : '\0')) {
            memset(run->share, 0, sizeof run->share);
            return;
        }
        run->share[d] = (int)n;
        text = end + 1;
    }
}

ls_status ls_run_log_add_layout(ls_run_log *run, const char *text, size_t bytes) {
    json_t *json;
    LS_TRY(load(text, bytes, &json));
    int64_t dp = count_of(json, "dp"), tp = count_of(json, "tp"), pp = count_of(json, "pp");
    if (dp && tp && pp && dp * tp * pp <= LS_WORKERS_MAX) {
        run->dp = (int)dp;
        run->tp = (int)tp;
        run->pp = (int)pp;
        read_shares(run, json_string_value(json_object_get(json, "shares")));
    }
    json_decref(json);
    return LS_OK;
}
