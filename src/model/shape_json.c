/* shape_json.c: fields that a file of a shape may have or not. */
#include "model/shape_json.h"

#include <inttypes.h>

bool ls_shape_json_has(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value);
}

/* Reads a whole number that is not negative; the caller has checked that the member exists. */
static ls_status read_size(const json_t *object, const char *key, size_t *out) {
    int64_t number;
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

ls_status ls_shape_json_read(const json_t *object, const char *key, const ls_field *field, ls_shape *out) {
    void *at = ls_field_in(field, out);
    if (!ls_shape_json_has(object, key)) return LS_OK;
    switch (field->kind) {
    case LS_KIND_SIZE: return read_size(object, key, at);
    case LS_KIND_NUMBER:
    case LS_KIND_FRACTION: return ls_json_get_f64(object, key, at);
    case LS_KIND_TRUTH: return ls_json_get_bool(object, key, at);
    default: return LS_OK;
    }
}

json_t *ls_shape_json_value(const ls_field *field, const ls_shape *shape) {
    const void *at = ls_field_of(field, shape);
    if (field->kind == LS_KIND_SIZE) return json_integer((json_int_t) * (const size_t *)at);
    if (field->kind == LS_KIND_TRUTH) return json_boolean(*(const bool *)at);
    return json_real(*(const double *)at);
}
