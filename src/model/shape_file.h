/* shape_file.h: shapes by name, from files, and what can be wrong with one. */
#ifndef LS_MODEL_SHAPE_FILE_H
#define LS_MODEL_SHAPE_FILE_H

#include <jansson.h>

#include "base/status.h"
#include "nn/shape.h"

/* Gets the preset of this name. LS_ERR_INPUT names the nearest. */
ls_status ls_shape_preset(const char *name, ls_shape *out);
/* Returns the name of preset i = 0, 1, …, or NULL after the last. */
const char *ls_shape_preset_name(int i);
/* Makes a shape of about `params` parameters with the proportions of the family, "llama" or "gpt3". LS_ERR_INPUT for
 * another family, or for a number that no such model has. */
ls_status ls_shape_of_size(const char *family, double params, ls_shape *out);

/* Checks that all numbers are there, in range and consistent: heads divide, the head size is even if heads are rotated,
 * and sizes multiply without overflow. LS_ERR_INPUT names the one that is wrong. */
ls_status ls_shape_check(const ls_shape *shape);

/* Sets every field to what a file of the shape's family means where it leaves the field out; keeps name and family. */
void ls_shape_set_usual(ls_shape *out);

/* Reads Hugging Face's config.json (it has "model_type") or a shape file of our own in JSON or YAML, see
 * docs/reference/models.md. `source` names it in messages, and the shape where the file does not; its ending (.json,
 * .yaml, .yml) or else the first character tells the format. The result is checked; on failure *out is unchanged. */
ls_status ls_shape_from_json(const json_t *json, const char *source, ls_shape *out);
ls_status ls_shape_parse(const char *source, const char *text, size_t bytes, ls_shape *out);
ls_status ls_shape_read(const char *path, ls_shape *out);

/* Return a new object with the members of a shape file, or of Hugging Face's config.json. NULL: out of memory. */
json_t *ls_shape_to_json(const ls_shape *shape);
json_t *ls_shape_to_hf(const ls_shape *shape);
/* Checks that Hugging Face's code for the shape's family can run it. LS_ERR_INPUT names the field that it cannot have.
 */
ls_status ls_shape_check_hf(const ls_shape *shape);

#endif
