/* shape_file.h: shapes of models (the sizes and options of an architecture, nn/shape.h) by preset name and from
 * files, their checks, and their conversion to Hugging Face's config.json. Commands, runs and conversions call it. */
#ifndef LS_MODEL_SHAPE_FILE_H
#define LS_MODEL_SHAPE_FILE_H

#include <jansson.h>

#include "base/status.h"
#include "nn/shape.h"

/* Copies the preset of this name. LS_ERR_INPUT if there is none; the message names a similar one, or else all. */
ls_status ls_shape_preset(const char *name, ls_shape *out);
/* Returns the name of preset i = 0, 1, …, or NULL after the last. */
const char *ls_shape_preset_name(int i);
/* Makes a shape of about `params` parameters with the proportions of the family, "llama" or "gpt3", for planning.
 * LS_ERR_INPUT for another family, or for fewer than 100M or more than 20T parameters. */
ls_status ls_shape_of_size(const char *family, double params, ls_shape *out);

/* Checks that all numbers are there, in range and consistent: heads divide, an even number of columns of a head is
 * rotated, and the parameters are not too many for any machine; of an image model, that the family can have its images.
 * LS_ERR_INPUT names the one that is wrong. */
ls_status ls_shape_check(const ls_shape *shape);

/* Sets every field to what a file of the shape's family means where it leaves the field out; keeps name and family. */
void ls_shape_set_usual(ls_shape *out);

/* Makes a shape from a parsed object: Hugging Face's config.json (it has "model_type" or "architectures") or a shape
 * file of our own, see docs/reference/models.md. `source` names it in messages, and the shape if the object does not.
 * The result is checked; on failure *out is unchanged. */
ls_status ls_shape_from_json(const json_t *json, const char *source, ls_shape *out);
/* Makes a shape from a text in JSON or YAML, as ls_shape_from_json() does: the suffix of `source` (.json, .yaml,
 * .yml) or else the first character decides the format. */
ls_status ls_shape_parse(const char *source, const char *text, size_t bytes, ls_shape *out);
/* Makes a shape from a file of at most 1 MiB, as ls_shape_parse() does. */
ls_status ls_shape_read(const char *path, ls_shape *out);

/* Returns a new object with the members of a shape file, which the caller releases. NULL: out of memory. */
json_t *ls_shape_to_json(const ls_shape *shape);
/* Returns a new object with the members of Hugging Face's config.json, which the caller releases. Only for families
 * that Hugging Face has. NULL: out of memory. */
json_t *ls_shape_to_hf(const ls_shape *shape);
/* Checks that Hugging Face's code for the shape's family can run it: that no field but the name changes when the shape
 * is written as config.json and read back. Only for families that Hugging Face has. LS_ERR_INPUT names the field that
 * it cannot have. */
ls_status ls_shape_check_hf(const ls_shape *shape);

#endif
