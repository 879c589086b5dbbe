/* shape_yaml.c: YAML text as JSON values, through libyaml. A scalar without quotes becomes null, a boolean, an
 * integer or a real number if it has that form, and otherwise a string. */
#include "model/shape_json.h"

#ifdef LS_HAVE_YAML

#    include <string.h>
#    include <strings.h>
#    include <yaml.h>

#    include "config/value.h"

enum { DEPTH_MAX = 4, SHOWN = 80 };

typedef struct reader {
    const char *source;
    yaml_parser_t parser;
} reader;

/* Fails with "SOURCE:LINE: problem"; `line` counts from 0. */
static ls_status fail_at_line(const reader *in, size_t line, const char *problem) {
    return ls_fail(LS_ERR_INPUT, "%s:%zu: %s", in->source, line + 1, problem);
}

/* Parses the next event. The caller must delete it, also after a failure. */
static ls_status next_event(reader *in, yaml_event_t *event) {
    memset(event, 0, sizeof *event);
    if (yaml_parser_parse(&in->parser, event)) return LS_OK;
    if (in->parser.error == YAML_MEMORY_ERROR) return ls_fail(LS_ERR_RESOURCE, "out of memory to read %s", in->source);
    return ls_fail(LS_ERR_INPUT, "%s:%zu: is not YAML: %s", in->source, in->parser.problem_mark.line + 1,
                   in->parser.problem ? in->parser.problem : "it cannot be read");
}

/* Returns whether the list `words`, which ends with NULL, contains `text` in upper or lower case. */
static bool list_has_word(const char *text, const char *const *words) {
    for (; *words; words++)
        if (strcasecmp(text, *words) == 0) return true;
    return false;
}

/* Returns the new value of a scalar without quotes, by its form; NULL: out of memory. */
static json_t *plain_value(const char *text) {
    static const char *const nothing[] = {"", "~", "null", NULL};
    static const char *const yes[] = {"true", "yes", "on", NULL}, *const no[] = {"false", "no", "off", NULL};
    int64_t whole;
    double number;
    if (list_has_word(text, nothing)) return json_null();
    if (list_has_word(text, yes)) return json_true();
    if (list_has_word(text, no)) return json_false();
    if (ls_value_parse_int(text, &whole) == LS_OK) return json_integer(whole);
    if (ls_value_parse_float(text, &number) == LS_OK) return json_real(number);
    return json_string(text);
}

/* Sets *out to the value of a scalar; in quotes it is always a string. */
static ls_status scalar_value(const reader *in, const yaml_event_t *event, json_t **out) {
    const char *text = (const char *)event->data.scalar.value;
    bool is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (strlen(text) != event->data.scalar.length)
        return fail_at_line(in, event->start_mark.line, "a value contains a NUL byte");
    *out = is_plain ? plain_value(text) : json_string(text);
    return *out ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory to read %s", in->source);
}

static ls_status read_mapping(reader *in, int depth, json_t *out);

/* Reads the next value, a scalar or a mapping. The caller releases *out, also after a failure. */
static ls_status read_value(reader *in, int depth, json_t **out) {
    yaml_event_t event;
    ls_status status;
    *out = NULL;
    LS_TRY_OUT(next_event(in, &event));
    size_t line = event.start_mark.line;
    if (event.type == YAML_SCALAR_EVENT) {
        status = scalar_value(in, &event, out);
    } else if (event.type != YAML_MAPPING_START_EVENT) {
        status = fail_at_line(in, line, "a value must be a scalar or a mapping, not a list or an alias");
    } else if (depth >= DEPTH_MAX) {
        status = fail_at_line(in, line, "mappings are nested too deeply");
    } else if (!(*out = json_object())) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory to read %s", in->source);
    } else {
        status = read_mapping(in, depth + 1, *out);
    }
out:
    yaml_event_delete(&event);
    return status;
}

/* Reads the entry whose key is in `event`. */
static ls_status read_entry(reader *in, const yaml_event_t *event, int depth, json_t *object) {
    json_t *value;
    if (event->type != YAML_SCALAR_EVENT)
        return fail_at_line(in, event->start_mark.line, "a name must be a plain scalar");
    const char *key = (const char *)event->data.scalar.value;
    if (json_object_get(object, key))
        return ls_fail(LS_ERR_INPUT, "%s:%zu: %.*s is given twice; keep one", in->source, event->start_mark.line + 1,
                       SHOWN, key);
    ls_status status = read_value(in, depth, &value);
    if (status == LS_OK && json_object_set(object, key, value) != 0)
        status = ls_fail(LS_ERR_RESOURCE, "out of memory to read %s", in->source);
    json_decref(value);
    return status;
}

/* Reads the entries of a mapping whose start event has been read, up to its end. */
static ls_status read_mapping(reader *in, int depth, json_t *out) {
    for (;;) {
        yaml_event_t event;
        ls_status status = next_event(in, &event);
        bool is_end = event.type == YAML_MAPPING_END_EVENT;
        if (status == LS_OK && !is_end) status = read_entry(in, &event, depth, out);
        yaml_event_delete(&event);
        if (status != LS_OK || is_end) return status;
    }
}

/* Reads the whole text, which must have one mapping. The caller releases *out, also after a failure. */
static ls_status read_stream(reader *in, json_t **out) {
    for (;;) {
        yaml_event_t event;
        ls_status status = next_event(in, &event);
        yaml_event_type_t type = event.type;
        size_t line = event.start_mark.line;
        yaml_event_delete(&event);
        if (status != LS_OK || type == YAML_STREAM_END_EVENT) return status;
        if (type == YAML_DOCUMENT_START_EVENT && *out)
            return fail_at_line(in, line, "contains a second document; keep one");
        if (type == YAML_MAPPING_START_EVENT) {
            if (!(*out = json_object())) return ls_fail(LS_ERR_RESOURCE, "out of memory to read %s", in->source);
            LS_TRY(read_mapping(in, 1, *out));
        } else if (type == YAML_SCALAR_EVENT || type == YAML_SEQUENCE_START_EVENT || type == YAML_ALIAS_EVENT) {
            return fail_at_line(in, line, "must be lines of names and values, e.g. 'layers: 12'");
        }
    }
}

ls_status ls_shape_yaml_load(const char *source, const char *text, size_t bytes, json_t **out) {
    reader in = {.source = source};
    *out = NULL;
    if (!yaml_parser_initialize(&in.parser)) return ls_fail(LS_ERR_RESOURCE, "out of memory to read %s", source);
    yaml_parser_set_input_string(&in.parser, (const unsigned char *)text, bytes);
    ls_status status = read_stream(&in, out);
    yaml_parser_delete(&in.parser);
    if (status == LS_OK && !*out) status = ls_fail(LS_ERR_INPUT, "%s is empty", source);
    if (status == LS_OK) return LS_OK;
    json_decref(*out);
    *out = NULL;
    return status;
}

#else

ls_status ls_shape_yaml_load(const char *source, const char *text, size_t bytes, json_t **out) {
    (void)text;
    (void)bytes;
    *out = NULL;
    return ls_fail(LS_ERR_INPUT,
                   "%s: this lockstep was built without libyaml; use a JSON file, or install libyaml and build again",
                   source);
}

#endif
