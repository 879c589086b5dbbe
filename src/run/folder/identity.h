/* identity.h: the identity of an experiment: every value that changes the bits of a run, by name. Two runs with the
 * same identity give the same weights under every layout (docs/reference/arithmetic.md). It is stored in every
 * checkpoint and in the run directory, and is hashed. --resume compares it with what is there; verify and fork use it,
 * too.
 *
 * An identity is a list of fields, each with a name and a value: text, whole number, number or hash. As JSON:
 *
 *     {
 *       "hash": "<32 hexadecimal digits>",
 *       "fields": {
 *         "model.layers": 6,
 *         "optimizer": "adamw",
 *         "lr": {"f64": "0x1.0624dd2f1a9fcp-10"},
 *         "data": {"xxh128": "<32 hexadecimal digits>"}
 *       },
 *       "free": {"steps": 1000}
 *     }
 *
 * 1. Fields stand in the order in which they were added; their names are unique.
 * 2. The hash is XXH3-128 of the compact JSON of `fields` with the names in byte order, so the order of adding, and the
 *    fields that are free to change, have no influence on it.
 * 3. A text whose hash does not match its fields is refused. */
#ifndef LS_RUN_FOLDER_IDENTITY_H
#define LS_RUN_FOLDER_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/status.h"
#include "config/options.h"

/* Whether a field may change when a run is resumed. FREE: recorded, but neither hashed nor compared; for --steps if the
 * learning rate does not depend on it. */
typedef enum ls_identity_rule { LS_IDENTITY_FIXED, LS_IDENTITY_FREE } ls_identity_rule;

enum { LS_IDENTITY_NAME_MAX = 64, LS_IDENTITY_FIELDS_MAX = 256, LS_IDENTITY_VALUE_MAX = 1024 }; /* bytes with NUL */

typedef struct ls_identity ls_identity;

/* Creates an empty identity; NULL in *out on failure. */
ls_status ls_identity_create(ls_identity **out);
void ls_identity_destroy(ls_identity *identity);

/* Adds a field with this text, which is copied. Names consist of a–z, 0–9, '.', '-' and '_'; text is UTF-8. A name that
 * is there already, and a value that does not fit, is LS_ERR_INPUT. */
ls_status ls_identity_add_text(ls_identity *identity, const char *name, const char *value, ls_identity_rule rule);
/* Adds a field with this integer. LS_ERR_INPUT for a bad name, and for one that is there already. */
ls_status ls_identity_add_i64(ls_identity *identity, const char *name, int64_t value, ls_identity_rule rule);
/* Adds a field with this number, exactly (as a hexadecimal float); LS_ERR_INPUT also if it is not finite. */
ls_status ls_identity_add_f64(ls_identity *identity, const char *name, double value, ls_identity_rule rule);
/* Adds a field with this hash. LS_ERR_INPUT for a bad name, and for one that is there already. */
ls_status ls_identity_add_hash(ls_identity *identity, const char *name, ls_hash128 value, ls_identity_rule rule);

/* Adds the options that change the result, as config/options.def says, with the values that `options` holds, in a fixed
 * order. */
ls_status ls_identity_add_options(ls_identity *identity, const ls_options *options);

/* Gets an integer field. Returns false, with *out unchanged, if there is no integer of that name. */
bool ls_identity_get_i64(const ls_identity *identity, const char *name, int64_t *out);
/* Returns the value of a text field, borrowed; NULL if there is no text of that name. */
const char *ls_identity_get_text(const ls_identity *identity, const char *name);

/* Copies the field of that name, with its rule, from another identity, if that has it and `to` has not; otherwise
 * returns LS_OK without a change. */
ls_status ls_identity_copy(ls_identity *to, const ls_identity *from, const char *name);

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Computes the hash of the fixed fields; fails only for lack of memory. */
ls_status ls_identity_hash(const ls_identity *identity, ls_hash128 *out);
/* Makes the JSON above, to put into a larger one; the caller releases *out with json_decref(). */
ls_status ls_identity_to_json(const ls_identity *identity, json_t **out);
/* Makes the same as text with a newline at the end; the caller frees *text. *bytes is its length without the NUL. */
ls_status ls_identity_to_text(const ls_identity *identity, char **text, size_t *bytes);
/* Reads an identity, which the caller destroys; `source` names the origin in messages. LS_ERR_INPUT, and *out NULL,
 * unless it is an identity with a hash that matches its fields. */
ls_status ls_identity_from_json(const char *source, const json_t *json, ls_identity **out);
/* Reads the same from text of `bytes` bytes. */
ls_status ls_identity_from_text(const char *source, const char *text, size_t bytes, ls_identity **out);

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* A field that differs between two identities. */
typedef struct ls_identity_change {
    char name[LS_IDENTITY_NAME_MAX];
    char here[LS_IDENTITY_VALUE_MAX], there[LS_IDENTITY_VALUE_MAX]; /* in plain words: 0.001, adamw, absent */
} ls_identity_change;

/* Finds the fields that differ and are fixed in at least one of the two, in the order of `here`, then of `there`.
 * Writes the first `room` of them; returns how many there are, which may be more. */
size_t ls_identity_diff(const ls_identity *here, const ls_identity *there, ls_identity_change *changes, size_t room);

/* Returns whether both have the field with the same value, or neither has it. */
bool ls_identity_agree_on(const ls_identity *here, const ls_identity *there, const char *name);

/* Returns the value of --matrix-unit (the instructions that multiply 16-bit matrices) that `here` would need for the
 * bits of `there`; NULL if the units are equal, or if the precision differs, too. Borrowed from `there`, or
 * constant. */
const char *ls_identity_unit_of(const ls_identity *here, const ls_identity *there);

/* Returns LS_OK if no fixed field differs. Otherwise LS_ERR_INPUT with the first fields in words, "lr is 0.001 here and
 * 0.0006 in the checkpoint", and the remedy. `there_is` names the other one: "the checkpoint". */
ls_status ls_identity_check(const ls_identity *here, const ls_identity *there, const char *there_is);

#endif
