/* identity.c: adds and reads the fields of an identity, converts it to JSON and back, and compares two identities. */
#include "run/folder/identity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/value.h"

enum { NUMBER_MAX = 40, HASH_DIGITS = LS_HASH_TEXT_BYTES - 1, SHOWN = 40, LIST_MAX = 330 };

/* A field; its value is stored as JSON, so that hashing, writing and comparing use the same form. */
typedef struct field {
    char name[LS_IDENTITY_NAME_MAX];
    ls_identity_rule rule;
    json_t *value;
} field;

struct ls_identity {
    size_t count;
    field fields[LS_IDENTITY_FIELDS_MAX];
};

/* ---- fields ------------------------------------------------------------------------------------------------------ */

/* Fails with LS_ERR_RESOURCE: out of memory. */
static ls_status fail_identity_memory(void) {
    return ls_fail(LS_ERR_RESOURCE, "out of memory for the identity of a run");
}

ls_status ls_identity_create(ls_identity **out) {
    *out = calloc(1, sizeof **out);
    return *out ? LS_OK : fail_identity_memory();
}

void ls_identity_destroy(ls_identity *identity) {
    for (size_t i = 0; identity && i < identity->count; i++) json_decref(identity->fields[i].value);
    free(identity);
}

/* Returns the field of this name; NULL: none. */
static const field *find_identity_field(const ls_identity *identity, const char *name) {
    for (size_t i = 0; i < identity->count; i++)
        if (strcmp(identity->fields[i].name, name) == 0) return &identity->fields[i];
    return NULL;
}

/* Fails with LS_ERR_INPUT if a field of this name cannot be added: bad characters, there already, or too many
 * fields. */
static ls_status check_name(const ls_identity *identity, const char *name) {
    size_t length = strlen(name);
    if (length == 0 || length >= LS_IDENTITY_NAME_MAX ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != length)
        return ls_fail(LS_ERR_INPUT, "'%.*s' cannot be a field of an identity: names have 1 to %d of a-z 0-9 . - _",
                       LS_IDENTITY_NAME_MAX, name, LS_IDENTITY_NAME_MAX - 1);
    if (find_identity_field(identity, name)) return ls_fail(LS_ERR_INPUT, "the identity has the field %s twice", name);
    if (identity->count == LS_IDENTITY_FIELDS_MAX)
        return ls_fail(LS_ERR_INPUT, "the identity has more than %d fields", LS_IDENTITY_FIELDS_MAX);
    return LS_OK;
}

/* Adds a field and takes ownership of `value`, also on failure. If `value` is NULL, reports that memory ran out. */
static ls_status add_identity_field(ls_identity *identity, const char *name, json_t *value, ls_identity_rule rule) {
    ls_status status = value ? check_name(identity, name) : fail_identity_memory();
    if (status != LS_OK) {
        json_decref(value);
        return status;
    }
    field *place = &identity->fields[identity->count++];
    *place = (field){.rule = rule, .value = value};
    snprintf(place->name, sizeof place->name, "%s", name);
    return LS_OK;
}

ls_status ls_identity_add_text(ls_identity *identity, const char *name, const char *value, ls_identity_rule rule) {
    if (strlen(value) >= LS_IDENTITY_VALUE_MAX)
        return ls_fail(LS_ERR_INPUT, "the field %s of the identity has %zu bytes of text; %d is the most", name,
                       strlen(value), LS_IDENTITY_VALUE_MAX - 1);
    json_t *text = json_string(value);
    if (!text) return ls_fail(LS_ERR_INPUT, "the field %s of the identity holds text that is not UTF-8", name);
    return add_identity_field(identity, name, text, rule);
}

ls_status ls_identity_add_i64(ls_identity *identity, const char *name, int64_t value, ls_identity_rule rule) {
    return add_identity_field(identity, name, json_integer(value), rule);
}

ls_status ls_identity_add_f64(ls_identity *identity, const char *name, double value, ls_identity_rule rule) {
    char text[NUMBER_MAX];
    if (!isfinite(value))
        return ls_fail(LS_ERR_INPUT, "the field %s of the identity is %g, which is no number", name, value);
    snprintf(text, sizeof text, "%a", value);
    return add_identity_field(identity, name, json_pack("{s:s}", "f64", text), rule);
}

ls_status ls_identity_add_hash(ls_identity *identity, const char *name, ls_hash128 value, ls_identity_rule rule) {
    char text[LS_HASH_TEXT_BYTES];
    ls_hash_text(value, text);
    return add_identity_field(identity, name, json_pack("{s:s}", "xxh128", text), rule);
}

bool ls_identity_get_i64(const ls_identity *identity, const char *name, int64_t *out) {
    const field *f = find_identity_field(identity, name);
    if (!f || !json_is_integer(f->value)) return false;
    *out = json_integer_value(f->value);
    return true;
}

const char *ls_identity_get_text(const ls_identity *identity, const char *name) {
    const field *f = find_identity_field(identity, name);
    return f ? json_string_value(f->value) : NULL;
}

ls_status ls_identity_copy(ls_identity *to, const ls_identity *from, const char *name) {
    const field *f = find_identity_field(to, name) ? NULL : find_identity_field(from, name);
    return f ? add_identity_field(to, name, json_incref(f->value), f->rule) : LS_OK;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* Adds the value of an option as the field of its name, in the form that options.def asks for. */
static ls_status add_value(ls_identity *identity, const ls_options *o, ls_option_id id, ls_identity_rule rule) {
    const ls_option_info *info = ls_option_info_get(id);
    const void *value = ls_options_field(o, id);
    if (info->identity.as == LS_AS_YES_NO)
        return ls_identity_add_text(identity, info->name, *(const bool *)value ? "yes" : "no", rule);
    if (info->identity.as == LS_AS_EXPONENT)
        return ls_identity_add_i64(identity, info->name, ilogb(*(const double *)value), rule);
    switch (info->kind) {
    case LS_OPTION_BOOL: return ls_identity_add_i64(identity, info->name, *(const bool *)value, rule);
    case LS_OPTION_INT: return ls_identity_add_i64(identity, info->name, *(const int64_t *)value, rule);
    case LS_OPTION_SIZE: return ls_identity_add_i64(identity, info->name, (int64_t) * (const size_t *)value, rule);
    case LS_OPTION_FLOAT:
    case LS_OPTION_TIME: return ls_identity_add_f64(identity, info->name, *(const double *)value, rule);
    case LS_OPTION_STRING: return ls_identity_add_text(identity, info->name, *(const char *const *)value, rule);
    case LS_OPTION_CHOICE:
        return ls_identity_add_text(identity, info->name, ls_choice_word(info->choices, *(const int *)value), rule);
    }
    return ls_fail(LS_ERR_FAILED, "the option table has a row of unknown kind");
}

/* Adds an option, if it has an effect with the other options, and the number of its arithmetic rule as NAME-rule, if it
 * has one and is not the default. */
static ls_status add_option(ls_identity *identity, const ls_options *o, ls_option_id id) {
    const ls_option_info *info = ls_option_info_get(id);
    const ls_option_identity *as = &info->identity;
    bool is_free = as->free.values && ls_options_hold(o, as->free);
    char name[LS_IDENTITY_NAME_MAX];
    if (as->as == LS_AS_DATA || !ls_options_hold(o, info->with)) return LS_OK;
    if (as->absent && ls_options_is_value(o, id, as->absent)) return LS_OK;
    LS_TRY(add_value(identity, o, id, is_free ? LS_IDENTITY_FREE : LS_IDENTITY_FIXED));
    if (!as->rule || ls_options_is_value(o, id, info->value)) return LS_OK;
    snprintf(name, sizeof name, "%s-rule", info->name);
    return ls_identity_add_i64(identity, name, as->rule, LS_IDENTITY_FIXED);
}

ls_status ls_identity_add_options(ls_identity *identity, const ls_options *options) {
    for (int place = 1; place <= LS_OPTION_COUNT; place++)
        for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++)
            if (ls_option_info_get(id)->identity.place == place) LS_TRY(add_option(identity, options, id));
    return LS_OK;
}

/* ---- to JSON ----------------------------------------------------------------------------------------------------- */

/* Fails with LS_ERR_RESOURCE: out of memory for JSON. */
static ls_status no_text(void) { return ls_fail(LS_ERR_RESOURCE, "out of memory for the text of an identity"); }

/* Returns an object of the fields with this rule: a new reference; NULL if out of memory. */
static json_t *fields_json(const ls_identity *identity, ls_identity_rule rule) {
    json_t *object = json_object();
    for (size_t i = 0; object && i < identity->count; i++) {
        const field *f = &identity->fields[i];
        if (f->rule != rule || json_object_set(object, f->name, f->value) == 0) continue;
        json_decref(object);
        object = NULL;
    }
    return object;
}

ls_status ls_identity_hash(const ls_identity *identity, ls_hash128 *out) {
    json_t *fields = fields_json(identity, LS_IDENTITY_FIXED);
    char *text = fields ? json_dumps(fields, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(fields);
    if (!text) return no_text();
    *out = ls_hash_bytes(text, strlen(text));
    free(text);
    return LS_OK;
}

ls_status ls_identity_to_json(const ls_identity *identity, json_t **out) {
    char hash_text[LS_HASH_TEXT_BYTES];
    ls_hash128 hash;
    *out = NULL;
    LS_TRY(ls_identity_hash(identity, &hash));
    ls_hash_text(hash, hash_text);
    /* json_pack() takes ownership of the two objects, even if it fails. */
    *out = json_pack("{s:s, s:o, s:o}", "hash", hash_text, "fields", fields_json(identity, LS_IDENTITY_FIXED), "free",
                     fields_json(identity, LS_IDENTITY_FREE));
    return *out ? LS_OK : no_text();
}

ls_status ls_identity_to_text(const ls_identity *identity, char **text, size_t *bytes) {
    json_t *json;
    *text = NULL;
    LS_TRY(ls_identity_to_json(identity, &json));
    char *plain = json_dumps(json, JSON_INDENT(2));
    json_decref(json);
    int length = plain ? asprintf(text, "%s\n", plain) : -1;
    free(plain);
    if (length < 0) return no_text();
    *bytes = (size_t)length;
    return LS_OK;
}

/* ---- from JSON --------------------------------------------------------------------------------------------------- */

/* Returns whether a text is 32 lower-case hexadecimal digits. */
static bool is_hash(const char *text) {
    return strlen(text) == HASH_DIGITS && strspn(text, "0123456789abcdef") == HASH_DIGITS;
}

/* Parses a finite number as printf("%a") writes it; returns false for any other text. */
static bool parse_hex_float(const char *text, double *out) {
    const char *digits = text + (*text == '-');
    char *end;
    if (strlen(text) >= NUMBER_MAX || digits[0] != '0' || digits[1] != 'x') return false;
    *out = strtod(text, &end);
    return *end == '\0' && isfinite(*out);
}

/* Adds a field from the JSON of its value; LS_ERR_INPUT if that is no value of an identity. */
static ls_status add_json(ls_identity *identity, const char *name, json_t *value, ls_identity_rule rule) {
    if (json_is_integer(value)) return add_identity_field(identity, name, json_incref(value), rule);
    if (json_is_string(value)) return ls_identity_add_text(identity, name, json_string_value(value), rule);
    const char *number = json_string_value(json_object_get(value, "f64"));
    const char *digits = json_string_value(json_object_get(value, "xxh128"));
    double f64;
    if (json_object_size(value) == 1 && number && parse_hex_float(number, &f64))
        return ls_identity_add_f64(identity, name, f64, rule);
    if (json_object_size(value) == 1 && digits && is_hash(digits))
        return add_identity_field(identity, name, json_incref(value), rule);
    return ls_fail(LS_ERR_INPUT, "the field %.*s is no value of an identity", LS_IDENTITY_NAME_MAX, name);
}

/* Adds all fields of the member `key`. */
static ls_status add_object(ls_identity *identity, const json_t *json, const char *key, ls_identity_rule rule) {
    json_t *object, *value;
    const char *name;
    LS_TRY(ls_json_get_object(json, key, &object));
    json_object_foreach(object, name, value) LS_TRY(add_json(identity, name, value, rule));
    return LS_OK;
}

/* Fails with LS_ERR_INPUT unless the hash that the JSON has is that of the fields. */
static ls_status check_hash(const ls_identity *identity, const json_t *json) {
    char found[LS_HASH_TEXT_BYTES];
    const char *written;
    ls_hash128 hash;
    LS_TRY(ls_json_get_text(json, "hash", &written));
    LS_TRY(ls_identity_hash(identity, &hash));
    ls_hash_text(hash, found);
    if (strcmp(found, written) == 0) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "the fields have the hash %s, but %.*s is written: it is damaged, or was edited",
                   found, HASH_DIGITS, written);
}

ls_status ls_identity_from_json(const char *source, const json_t *json, ls_identity **out) {
    ls_status status;
    ls_identity *identity = NULL;
    *out = NULL;
    LS_TRY_OUT(ls_identity_create(&identity));
    LS_TRY_OUT(add_object(identity, json, "fields", LS_IDENTITY_FIXED));
    LS_TRY_OUT(add_object(identity, json, "free", LS_IDENTITY_FREE));
    LS_TRY_OUT(check_hash(identity, json));
    *out = identity;
    return LS_OK;
out:
    ls_identity_destroy(identity);
    return ls_fail_at(status, "%.120s: ", source);
}

ls_status ls_identity_from_text(const char *source, const char *text, size_t bytes, ls_identity **out) {
    json_t *json;
    *out = NULL;
    LS_TRY(ls_json_load_text(source, text, bytes, &json));
    ls_status status = ls_identity_from_json(source, json, out);
    json_decref(json);
    return status;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* Writes the value in plain words; "absent" for NULL. */
static void describe_field(const field *f, char text[LS_IDENTITY_VALUE_MAX]) {
    const json_t *number = f ? json_object_get(f->value, "f64") : NULL;
    if (!f)
        snprintf(text, LS_IDENTITY_VALUE_MAX, "absent");
    else if (json_is_string(f->value))
        snprintf(text, LS_IDENTITY_VALUE_MAX, "%s",
                 *json_string_value(f->value) ? json_string_value(f->value) : "empty");
    else if (json_is_integer(f->value))
        snprintf(text, LS_IDENTITY_VALUE_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(f->value));
    else if (number)
        ls_value_format_real(strtod(json_string_value(number), NULL), text);
    else
        snprintf(text, LS_IDENTITY_VALUE_MAX, "%s", json_string_value(json_object_get(f->value, "xxh128")));
}

/* Appends the type of a value, to distinguish values that print alike: 5 (a text), 5 (a number). */
static void append_kind(const field *f, char text[LS_IDENTITY_VALUE_MAX]) {
    const char *kind = json_is_string(f->value)           ? "a text"
                       : json_is_integer(f->value)        ? "a whole number"
                       : json_object_get(f->value, "f64") ? "a number"
                                                          : "a hash";
    size_t used = strlen(text);
    snprintf(text + used, LS_IDENTITY_VALUE_MAX - used, " (%s)", kind);
}

/* Finds the next field that differs from position *at on, where positions count the fields of `here` and then those of
 * `there`; *at is then behind it. Returns false if there is none. */
static bool next_change(const ls_identity *here, const ls_identity *there, size_t *at, ls_identity_change *change) {
    for (; *at < here->count + there->count; ++*at) {
        bool from_here = *at < here->count;
        const field *f = from_here ? &here->fields[*at] : &there->fields[*at - here->count];
        const field *other = find_identity_field(from_here ? there : here, f->name);
        if (other && !from_here) continue; /* already compared from `here` */
        if (f->rule == LS_IDENTITY_FREE && (!other || other->rule == LS_IDENTITY_FREE)) continue;
        if (other && json_equal(f->value, other->value)) continue;
        snprintf(change->name, sizeof change->name, "%s", f->name);
        describe_field(from_here ? f : NULL, change->here);
        describe_field(from_here ? other : f, change->there);
        if (other && strcmp(change->here, change->there) == 0) {
            append_kind(f, change->here);
            append_kind(other, change->there);
        }
        ++*at;
        return true;
    }
    return false;
}

size_t ls_identity_diff(const ls_identity *here, const ls_identity *there, ls_identity_change *changes, size_t room) {
    ls_identity_change change;
    size_t count = 0;
    for (size_t at = 0; next_change(here, there, &at, &change); count++)
        if (count < room) changes[count] = change;
    return count;
}

bool ls_identity_agree_on(const ls_identity *here, const ls_identity *there, const char *name) {
    const field *a = find_identity_field(here, name), *b = find_identity_field(there, name);
    return a && b ? json_equal(a->value, b->value) : a == b;
}

const char *ls_identity_unit_of(const ls_identity *here, const ls_identity *there) {
    if (!ls_identity_agree_on(here, there, "precision") || ls_identity_agree_on(here, there, "matrix-unit"))
        return NULL;
    const char *unit = ls_identity_get_text(there, "matrix-unit");
    return unit ? unit : "chain"; /* fp16 runs name their matrix unit only if it is hgmma */
}

ls_status ls_identity_check(const ls_identity *here, const ls_identity *there, const char *there_is) {
    ls_identity_change change;
    char list[LIST_MAX] = "", entry[LIST_MAX];
    int more = 0;
    for (size_t at = 0; next_change(here, there, &at, &change);) {
        size_t used = strlen(list);
        int bytes = snprintf(entry, sizeof entry, "%s%s is %.*s here and %.*s in %.40s", used ? "; " : "", change.name,
                             SHOWN, change.here, SHOWN, change.there, there_is);
        if (more || used + (size_t)bytes >= sizeof list)
            more++;
        else
            memcpy(list + used, entry, (size_t)bytes + 1);
    }
    if (!*list) return LS_OK;
    if (more) snprintf(entry, sizeof entry, "; and %d more", more);
    const char *unit = ls_identity_unit_of(here, there);
    return ls_fail(LS_ERR_INPUT,
                   "not the same experiment: %s%s. This changes the result, so --resume requires the same values; "
                   "%s%.12s%s--fork starts a new run from there",
                   list, more ? entry : "", unit ? "use --matrix-unit " : "", unit ? unit : "", unit ? "; " : "");
}
