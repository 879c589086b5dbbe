/* shape_json.h: optional members of JSON objects, and fields of a shape as such members; and YAML text as JSON. For
 * this folder, and for other files of the same kind (plan/hardware/machine_file.c, run/inputs/inputs.c).
 *
 * An absent member, and one that is null, leaves *out as it is. One of another type or range is LS_ERR_INPUT, and the
 * message names the member. */
#ifndef LS_MODEL_SHAPE_JSON_H
#define LS_MODEL_SHAPE_JSON_H

#include "base/json.h"
#include "nn/shape.h"

/* Returns whether the member exists and is not null. */
bool ls_shape_json_has(const json_t *object, const char *key);

/* Reads an optional number into *out. */
ls_status ls_shape_json_number(const json_t *object, const char *key, double *out);
/* Reads an optional truth value into *out. */
ls_status ls_shape_json_bool(const json_t *object, const char *key, bool *out);
/* Sets *out to an optional text, which belongs to the object. */
ls_status ls_shape_json_text(const json_t *object, const char *key, const char **out);

/* Reads a field of the kind SIZE, NUMBER, FRACTION or TRUTH into the shape; ignores fields of other kinds. */
ls_status ls_shape_json_read(const json_t *object, const char *key, const ls_field *field, ls_shape *out);
/* Returns a new reference to the value of such a field. NULL: out of memory. */
json_t *ls_shape_json_value(const ls_field *field, const ls_shape *shape);

/* Converts YAML text to JSON values: mappings and scalars, no lists, anchors or second documents. `source` names the
 * text. LS_ERR_INPUT for a text that is not such YAML, and in a program built without libyaml. The caller releases
 * *out. */
ls_status ls_shape_yaml_load(const char *source, const char *text, size_t bytes, json_t **out);

/* Reads Hugging Face's config.json. The result is not checked (ls_shape_check()). */
ls_status ls_shape_from_hf(const json_t *json, ls_shape *out);

#endif
