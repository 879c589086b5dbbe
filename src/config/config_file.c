/* config_file.c: reads the file that --config names, JSON through jansson or YAML through libyaml: one flat mapping of
 * option names to scalars. */
#include <ctype.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#ifdef LS_HAVE_YAML
#    include <yaml.h>
#endif

#include "base/files.h"
#include "base/json.h"
#include "base/status.h"
#include "config/options.h"
#include "config/saved_config.h"
#include "config/suggest.h"
#include "config/value.h"

enum { FILE_MAX = 1 << 20, NAME_MAX_CHARS = 64, KEY_MAX = 256, SHOWN = 80 };

typedef struct reader {
    const char *path, *text;
    size_t bytes; /* of the text, without its NUL */
    ls_options *options;
    ls_command command;
    bool seen[LS_OPTION_COUNT]; /* options that the file has set, to refuse a second value */
} reader;

/* Returns LS_ERR_INPUT with "run.yaml:3: " in front of the message; line 0 omits the number. */
__attribute__((format(printf, 3, 4))) static ls_status fail_at(const reader *r, int line, const char *format, ...) {
    char reason[LS_MESSAGE_MAX], number[16] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    if (line > 0) snprintf(number, sizeof number, ":%d", line);
    return ls_fail(LS_ERR_INPUT, "%.*s%s: %s", SHOWN, r->path, number, reason);
}

/* Sets the option `key`, with dashes or underscores, from the text of its value. Fails for an unknown key, a key given
 * twice, and `config`; ignores the two members that saved configs add (saved_config.h). */
static ls_status add_entry(reader *r, const char *key, const char *text, int line) {
    char name[NAME_MAX_CHARS];
    snprintf(name, sizeof name, "%s", key);
    for (char *at = name; *at; at++) {
        if (*at == '_') *at = '-';
    }
    if (strcmp(name, LS_CONFIG_STARTED_IN) == 0 || strcmp(name, LS_CONFIG_CHECKSUM) == 0) return LS_OK;
    ls_option_id id = strlen(key) < sizeof name ? ls_option_find_of(r->command, name) : LS_OPTION_COUNT;
    if (id == LS_OPTION_COUNT) {
        char answer[LS_FOREIGN_ANSWER_MAX];
        bool known = ls_foreign_answer(r->command, key, LS_ORIGIN_FILE, answer);
        return fail_at(r, line, "unknown option '%.*s'%s%s", SHOWN, key, known ? "; " : "", known ? answer : "");
    }
    if (id == LS_OPT_config) return fail_at(r, line, "config: a config file cannot name another one");
    if (r->seen[id]) return fail_at(r, line, "%s is given twice; keep one", name);
    r->seen[id] = true;
    return ls_options_put(r->options, id, text, LS_ORIGIN_FILE, line);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Returns the line of the first `"key" :`; 0 if the file writes the key with escapes. In a flat object a text value
 * cannot be taken for a key, because no colon follows it. */
static int line_of_key(const reader *r, const char *key) {
    size_t length = strlen(key);
    const char *end = r->text + r->bytes;
    int line = 1;
    for (const char *at = r->text; (size_t)(end - at) >= length + 2; at++) {
        line += *at == '\n';
        if (*at != '"' || memcmp(at + 1, key, length) != 0 || at[length + 1] != '"') continue;
        const char *behind = at + length + 2;
        while (behind < end && isspace((unsigned char)*behind)) behind++;
        if (behind < end && *behind == ':') return line;
    }
    return 0;
}

/* Sets the option `key` from a JSON text, number or boolean; fails for null, a list or an object. */
static ls_status read_entry(reader *r, const char *key, const json_t *value) {
    char number[LS_VALUE_REAL_MAX];
    int line = line_of_key(r, key);
    switch (json_typeof(value)) {
    case JSON_STRING: return add_entry(r, key, json_string_value(value), line);
    case JSON_TRUE: return add_entry(r, key, "true", line);
    case JSON_FALSE: return add_entry(r, key, "false", line);
    case JSON_INTEGER:
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return add_entry(r, key, number, line);
    case JSON_REAL: ls_value_format_real(json_real_value(value), number); return add_entry(r, key, number, line);
    case JSON_NULL: return fail_at(r, line, "%.*s: null is not a value; leave the entry out", SHOWN, key);
    default: return fail_at(r, line, "%.*s: must be one value, not a list or an object", SHOWN, key);
    }
}

/* Reads the text as one JSON object; a key that is given twice fails. */
static ls_status read_json(reader *r) {
    ls_status status = LS_OK;
    json_error_t error;
    const char *key;
    json_t *value, *root = json_loadb(r->text, r->bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!root && json_error_code(&error) == json_error_duplicate_key) {
        return fail_at(r, error.line, "an option is given twice; keep one: %s", error.text);
    }
    if (!root) return fail_at(r, error.line, "is not JSON: %s", error.text);
    if (!json_is_object(root)) {
        status = fail_at(r, 1, "must be an object of option names and values, as in {\"workers\": 4}");
        goto out;
    }
    json_object_foreach(root, key, value) LS_TRY_OUT(read_entry(r, key, value));
out:
    json_decref(root);
    return status;
}

/* ---- YAML -------------------------------------------------------------------------------------------------------- */

#ifdef LS_HAVE_YAML

/* The parser's position in the document. */
typedef struct place {
    bool had_document, in_mapping, has_key;
    char key[KEY_MAX];
    int line; /* of the key */
} place;

/* Handles a YAML event inside the mapping, where keys and values alternate: remembers a key in `at`, or sets an option
 * by a value. */
static ls_status take_entry(reader *r, const yaml_event_t *event, place *at) {
    const char *text = event->type == YAML_SCALAR_EVENT ? (const char *)event->data.scalar.value : NULL;
    at->has_key = !at->has_key;
    if (at->has_key) {
        at->line = (int)event->start_mark.line + 1;
        if (!text) return fail_at(r, at->line, "option names must be plain text");
        snprintf(at->key, sizeof at->key, "%s", text);
        return LS_OK;
    }
    if (!text)
        return fail_at(r, at->line, "%.*s: must be one value, not a list, a mapping or an alias", SHOWN, at->key);
    if (strlen(text) != event->data.scalar.length)
        return fail_at(r, at->line, "%.*s: contains a NUL byte", SHOWN, at->key);
    return add_entry(r, at->key, text, at->line);
}

/* Handles one YAML event. Refuses files that are not one document with a flat mapping, or an empty document. */
static ls_status take_event(reader *r, const yaml_event_t *event, place *at) {
    int line = (int)event->start_mark.line + 1;
    yaml_event_type_t type = event->type;
    bool is_start = type == YAML_MAPPING_START_EVENT, is_end = type == YAML_MAPPING_END_EVENT;
    if (at->in_mapping && !is_end) return take_entry(r, event, at);
    if (is_start || is_end) at->in_mapping = is_start;
    if (type == YAML_DOCUMENT_START_EVENT && at->had_document)
        return fail_at(r, line, "has a second document; keep one");
    at->had_document |= type == YAML_DOCUMENT_START_EVENT;
    if (type == YAML_SEQUENCE_START_EVENT || (type == YAML_SCALAR_EVENT && event->data.scalar.length > 0))
        return fail_at(r, line, "must be lines of option names and values, as in 'workers: 4'");
    return LS_OK;
}

/* Returns the parser's error with its line: LS_ERR_RESOURCE for lack of memory, else LS_ERR_INPUT. */
static ls_status fail_yaml(const reader *r, const yaml_parser_t *parser) {
    if (parser->error == YAML_MEMORY_ERROR) return ls_fail(LS_ERR_RESOURCE, "no memory to read %s", r->path);
    bool scanned = parser->error == YAML_SCANNER_ERROR || parser->error == YAML_PARSER_ERROR;
    return fail_at(r, scanned ? (int)parser->problem_mark.line + 1 : 0, "is not YAML: %s",
                   parser->problem ? parser->problem : "cannot be read");
}

/* Reads the text as YAML, event by event, until its end or the first error. */
static ls_status read_yaml(reader *r) {
    ls_status status = LS_OK;
    place at = {.had_document = false};
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) return ls_fail(LS_ERR_RESOURCE, "no memory to read %s", r->path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)r->text, r->bytes);
    for (bool is_over = false; status == LS_OK && !is_over;) {
        yaml_event_t event = {.type = YAML_NO_EVENT};
        status = yaml_parser_parse(&parser, &event) ? take_event(r, &event, &at) : fail_yaml(r, &parser);
        is_over = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return status;
}

#else

/* Fails, because this build has no libyaml. */
static ls_status read_yaml(reader *r) {
    return fail_at(r, 0,
                   "this lockstep was built without libyaml; give a JSON file, or install libyaml and build again");
}

#endif

/* ---- either ------------------------------------------------------------------------------------------------------ */

ls_status ls_options_read_text(ls_options *options, ls_command command, const char *path, const char *text,
                               size_t bytes) {
    reader r = {.path = path, .text = text, .bytes = bytes, .options = options, .command = command};
    if (strspn(text, " \t\r\n") == bytes) return LS_OK;
    return ls_json_is_format(path, text, bytes) ? read_json(&r) : read_yaml(&r);
}

ls_status ls_options_read_file(ls_options *options, ls_command command) {
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_options_blame(options, LS_OPT_config, ls_file_read(options->config, FILE_MAX, &text, &bytes)));
    ls_status status = ls_options_read_text(options, command, options->config, text, bytes);
    free(text);
    return status;
}
