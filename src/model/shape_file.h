/* shape_file.h: shapes by name, from files, and what can be wrong with one. */
#ifndef LS_MODEL_SHAPE_FILE_H
#define LS_MODEL_SHAPE_FILE_H

#include <jansson.h>

#include "base/status.h"
#include "nn/shape.h"

/* The preset of this name; LS_ERR_INPUT names the nearest. */
ls_status ls_shape_preset(const char *name, ls_shape *out);
/* Names of the presets, i = 0, 1, …; NULL behind the last. */
const char *ls_shape_preset_name(int i);
/* A shape of about so many parameters, as models of the family have it: "llama" or "gpt3". LS_ERR_INPUT. */
ls_status ls_shape_of_size(const char *family, double params, ls_shape *out);

/* Whether all numbers are there, in range and agree: heads divide, head size is even where rows are rotated, sizes
 * multiply without overflow. The message says which do not. */
ls_status ls_shape_check(const ls_shape *shape);

/* Sets every field to what a file of the shape's family means where it leaves the field out; keeps name and family. */
void ls_shape_set_usual(ls_shape *out);

/* Reads Hugging Face's config.json (it has "model_type") or a shape file of our own in JSON or YAML, see
 * docs/reference/models.md. `source` names it in messages, and the shape where the file does not; its ending (.json,
 * .yaml, .yml) or else the first character tells the format. The result is checked; on failure *out is unchanged. */
ls_status ls_shape_from_json(const json_t *json, const char *source, ls_shape *out);
ls_status ls_shape_parse(const char *source, const char *text, size_t bytes, ls_shape *out);
ls_status ls_shape_read(const char *path, ls_shape *out);

/* As our own shape file, and as Hugging Face writes it. New references. NULL: no memory. */
json_t *ls_shape_to_json(const ls_shape *shape);
json_t *ls_shape_to_hf(const ls_shape *shape);
/* LS_ERR_INPUT where Hugging Face's code for the shape's family cannot run it; the message names the field. */
ls_status ls_shape_check_hf(const ls_shape *shape);

#endif
