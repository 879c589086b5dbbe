/* config_json.c: a config file in JSON, through jansson. Jansson keeps no line numbers of values, so the line of an
 * entry is found by looking for its key in the text. */
#include "config/config_file.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { NUMBER_MAX = 40, SHOWN = 80 };

/* The line of the first `"key" :`, or 0 where the file spells the key with escapes. A key in a flat object cannot be
 * taken for a text value: no colon follows one. */
static int line_of(const ls_config_reader *reader, const char *key) {
    size_t length = strlen(key);
    const char *end = reader->text + reader->bytes;
    int line = 1;
    for (const char *at = reader->text; (size_t)(end - at) >= length + 2; at++) {
        line += *at == '\n';
        if (*at != '"' || memcmp(at + 1, key, length) != 0 || at[length + 1] != '"') continue;
        const char *behind = at + length + 2;
        while (behind < end && isspace((unsigned char)*behind)) behind++;
        if (behind < end && *behind == ':') return line;
    }
    return 0;
}

/* The shortest decimal number that reads back as `number`. */
static void format_real(double number, char text[NUMBER_MAX]) {
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, NUMBER_MAX, "%.*g", digits, number);
        if (strtod(text, NULL) == number) return;
    }
}

static ls_status read_entry(ls_config_reader *reader, const char *key, const json_t *value) {
    char number[NUMBER_MAX];
    int line = line_of(reader, key);
    switch (json_typeof(value)) {
    case JSON_STRING: return ls_config_entry(reader, key, json_string_value(value), line);
    case JSON_TRUE: return ls_config_entry(reader, key, "true", line);
    case JSON_FALSE: return ls_config_entry(reader, key, "false", line);
    case JSON_INTEGER:
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return ls_config_entry(reader, key, number, line);
    case JSON_REAL: format_real(json_real_value(value), number); return ls_config_entry(reader, key, number, line);
    case JSON_NULL: return ls_config_fail(reader, line, "%.*s: null is not a value; leave the entry out", SHOWN, key);
    default: return ls_config_fail(reader, line, "%.*s: must be one value, not a list or an object", SHOWN, key);
    }
}

ls_status ls_config_read_json(ls_config_reader *reader) {
    ls_status status = LS_OK;
    json_error_t error;
    const char *key;
    json_t *value, *root = json_loadb(reader->text, reader->bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!root && json_error_code(&error) == json_error_duplicate_key) {
        return ls_config_fail(reader, error.line, "an option is given twice; keep one: %s", error.text);
    }
    if (!root) return ls_config_fail(reader, error.line, "is not JSON: %s", error.text);
    if (!json_is_object(root)) {
        status = ls_config_fail(reader, 1, "must be an object of option names and values, as in {\"workers\": 4}");
        goto out;
    }
    json_object_foreach(root, key, value) LS_TRY_OUT(read_entry(reader, key, value));
out:
    json_decref(root);
    return status;
}
