/* json.h: reads JSON, with errors that name the place. A thin layer over jansson; values are jansson's own.
 *
 * Loading refuses duplicate keys and names the place of an error as file:line:column. The getters read a field of an
 * object. If the field is absent or of another type, they return LS_ERR_INPUT with a message that names field and type,
 * and leave *out unchanged. */
#ifndef LS_BASE_JSON_H
#define LS_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Loads a file of at most `max_bytes`. The caller releases the value with json_decref(). *out is NULL on failure. */
ls_status ls_json_load_file(const char *path, size_t max_bytes, json_t **out);
/* Parses a text of `bytes` bytes; messages call it `source`. The caller releases the value with json_decref(). *out
 * is NULL on failure. */
ls_status ls_json_load_text(const char *source, const char *text, size_t bytes, json_t **out);

/* Returns whether a text that may be JSON or YAML is JSON: by the suffix of its file (.json, .yaml, .yml), else it is
 * JSON if its first character that is not white space is {. */
bool ls_json_is_format(const char *path, const char *text, size_t bytes);

/* Reads a whole number; a number with a fraction or exponent is of another type, even 1.0. */
ls_status ls_json_get_i64(const json_t *object, const char *key, int64_t *out);
/* Reads a number as a double; accepts integers too, rounded. */
ls_status ls_json_get_f64(const json_t *object, const char *key, double *out);
/* Reads true or false. */
ls_status ls_json_get_bool(const json_t *object, const char *key, bool *out);
/* Reads a string, which is borrowed from `object`. */
ls_status ls_json_get_text(const json_t *object, const char *key, const char **out);
/* Reads an object, which is borrowed from `object`. */
ls_status ls_json_get_object(const json_t *object, const char *key, json_t **out);
/* Reads an array, which is borrowed from `object`. */
ls_status ls_json_get_array(const json_t *object, const char *key, json_t **out);

#endif
