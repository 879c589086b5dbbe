/* json.c: calls jansson's parser and turns its errors into messages. */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"

_Static_assert(sizeof(json_int_t) == sizeof(int64_t), "whole numbers in JSON have 64 bits");

ls_status ls_json_load_text(const char *source, const char *text, size_t bytes, json_t **out) {
    json_error_t error;
    *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (*out) return LS_OK;
    if (json_error_code(&error) == json_error_out_of_memory)
        return ls_fail(LS_ERR_RESOURCE, "out of memory to parse %s (%zu bytes)", source, bytes);
    return ls_fail(LS_ERR_INPUT, "%s:%d:%d: %s", source, error.line, error.column, error.text);
}

ls_status ls_json_load_file(const char *path, size_t max_bytes, json_t **out) {
    char *text = NULL;
    size_t bytes = 0;
    *out = NULL;
    LS_TRY(ls_file_read(path, max_bytes, &text, &bytes));
    ls_status status = ls_json_load_text(path, text, bytes, out);
    free(text);
    return status;
}

bool ls_json_is_format(const char *path, const char *text, size_t bytes) {
    size_t blank = 0;
    while (blank < bytes && text[blank] && strchr(" \t\r\n", text[blank])) blank++;
    if (ls_file_has_suffix(path, ".yaml") || ls_file_has_suffix(path, ".yml")) return false;
    return ls_file_has_suffix(path, ".json") || (blank < bytes && text[blank] == '{');
}

/* Returns the type of a value for messages: "an object". */
static const char *type_text(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "a whole number";
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "true or false";
    case JSON_NULL: return "null";
    }
    return "an unknown type";
}

#define TYPE(type) (1u << (type))

/* Sets *out to the field, borrowed from the object. Fails unless it has one of these types, a mask of TYPE();
 * `wanted` names them. */
static ls_status get_field(const json_t *object, const char *key, unsigned types, const char *wanted, json_t **out) {
    if (!json_is_object(object))
        return ls_fail(LS_ERR_INPUT, "field \"%s\" was requested from a value that is not an object", key);
    json_t *value = json_object_get(object, key);
    if (!value) return ls_fail(LS_ERR_INPUT, "field \"%s\" is missing", key);
    if (!(types & TYPE(json_typeof(value))))
        return ls_fail(LS_ERR_INPUT, "field \"%s\" is %s; it must be %s", key, type_text(value), wanted);
    *out = value;
    return LS_OK;
}

ls_status ls_json_get_i64(const json_t *object, const char *key, int64_t *out) {
    json_t *value = NULL;
    LS_TRY(get_field(object, key, TYPE(JSON_INTEGER), "a whole number", &value));
    *out = (int64_t)json_integer_value(value);
    return LS_OK;
}

ls_status ls_json_get_f64(const json_t *object, const char *key, double *out) {
    json_t *value = NULL;
    LS_TRY(get_field(object, key, TYPE(JSON_INTEGER) | TYPE(JSON_REAL), "a number", &value));
    *out = json_number_value(value);
    return LS_OK;
}

ls_status ls_json_get_bool(const json_t *object, const char *key, bool *out) {
    json_t *value = NULL;
    LS_TRY(get_field(object, key, TYPE(JSON_TRUE) | TYPE(JSON_FALSE), "true or false", &value));
    *out = json_is_true(value);
    return LS_OK;
}

ls_status ls_json_get_text(const json_t *object, const char *key, const char **out) {
    json_t *value = NULL;
    LS_TRY(get_field(object, key, TYPE(JSON_STRING), "a string", &value));
    *out = json_string_value(value);
    return LS_OK;
}

ls_status ls_json_get_object(const json_t *object, const char *key, json_t **out) {
    return get_field(object, key, TYPE(JSON_OBJECT), "an object", out);
}

ls_status ls_json_get_array(const json_t *object, const char *key, json_t **out) {
    return get_field(object, key, TYPE(JSON_ARRAY), "an array", out);
}
