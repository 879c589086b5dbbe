/* shape_json.c: fields that a file of a shape may have or not. */
#include "model/shape_json.h"

#include <inttypes.h>

bool ls_shape_json_has(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value);
}

ls_status ls_shape_json_size(const json_t *object, const char *key, size_t *out) {
    int64_t number;
    if (!ls_shape_json_has(object, key)) return LS_OK;
    LS_TRY(ls_json_get_i64(object, key, &number));
    if (number < 0) return ls_fail(LS_ERR_INPUT, "field \"%s\" is %" PRId64 "; it must not be negative", key, number);
    *out = (size_t)number;
    return LS_OK;
}

ls_status ls_shape_json_number(const json_t *object, const char *key, double *out) {
    return ls_shape_json_has(object, key) ? ls_json_get_f64(object, key, out) : LS_OK;
}

ls_status ls_shape_json_bool(const json_t *object, const char *key, bool *out) {
    return ls_shape_json_has(object, key) ? ls_json_get_bool(object, key, out) : LS_OK;
}

ls_status ls_shape_json_text(const json_t *object, const char *key, const char **out) {
    return ls_shape_json_has(object, key) ? ls_json_get_text(object, key, out) : LS_OK;
}
