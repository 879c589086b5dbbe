/* shape_file.c: reads shape files, and distinguishes them from Hugging Face's config.json (docs/reference/models.md).
 *
 * A file overrides fields of its preset, or gives all fields. Fields that follow from others are computed last:
 * kv-heads, head-size and hidden. */
#include "model/shape_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "config/suggest.h"
#include "config/value.h"
#include "model/image_blocks.h"
#include "model/shape_json.h"

enum { FILE_BYTES_MAX = 1 << 20, KEY_MAX = 32, SHOWN = 80, DEFAULT_HIDDEN = 4, LIST_BYTES = 160 };

/* Keys of a file that are not fields of the shape; their numbers follow those of the fields. */
enum { PRESET = LS_FIELD_COUNT, NAME, ARCH, KEY_COUNT };

/* Each key as the file spells it; NULL: not given. */
typedef struct given {
    const char *key[KEY_COUNT];
} given;

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* Returns key i of a shape file: those of fields, then preset, name and arch. */
static const char *own_key(int i) {
    static const char *const others[] = {"preset", "name", "arch"};
    return i < LS_FIELD_COUNT ? ls_fields[i].key : others[i - LS_FIELD_COUNT];
}

/* Returns key i inside "rope-scaling". */
static const char *scaling_key(int i) { return ls_scaling_fields[i].key; }

/* Sets *out to the index of `key`, in which underscores count as dashes. LS_ERR_INPUT names the nearest key. */
static ls_status find_key(const char *(*key_at)(int i), int count, const char *key, int *out) {
    char name[KEY_MAX] = "";
    ls_suggest suggest;
    snprintf(name, sizeof name, "%s", key);
    for (char *at = name; *at; at++)
        if (*at == '_') *at = '-';
    ls_suggest_init(&suggest, name);
    for (*out = 0; *out < count; (*out)++) {
        if (strlen(key) < sizeof name && strcmp(key_at(*out), name) == 0) return LS_OK;
        ls_suggest_offer(&suggest, key_at(*out));
    }
    if (!suggest.best)
        return ls_fail(LS_ERR_INPUT, "unknown name '%.*s'; docs/reference/models.md lists the names of a shape file",
                       SHOWN, key);
    return ls_fail(LS_ERR_INPUT, "unknown name '%.*s'; did you mean %s?", SHOWN, key, suggest.best);
}

/* Sets keys[i] to the spelling in the file of each key that it has; fails for unknown, repeated and empty ones. */
static ls_status collect_keys(const json_t *json, const char *(*key_at)(int i), int count, const char **keys) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)json, key, value) {
        int id;
        LS_TRY(find_key(key_at, count, key, &id));
        if (keys[id]) return ls_fail(LS_ERR_INPUT, "%s is given twice; keep one", key_at(id));
        if (json_is_null(value)) return ls_fail(LS_ERR_INPUT, "%s has no value; give one or omit the name", key);
        keys[id] = key;
    }
    return LS_OK;
}

/* ---- values of fields -------------------------------------------------------------------------------------------- */

/* Reads "rope-scaling": false switches it off; missing members keep those of the preset if that is scaled. Else low is
 * 1 and high 4 where they are missing, and factor and original must be given. */
static ls_status read_scaling(const json_t *json, const char *key, ls_shape *out) {
    const char *keys[LS_SCALING_COUNT] = {NULL};
    ls_rope_shape *rope = &out->rope;
    json_t *value = json_object_get(json, key);
    if (json_is_false(value)) {
        *rope = (ls_rope_shape){.base = rope->base};
        return LS_OK;
    }
    LS_TRY(ls_json_get_object(json, key, &value));
    if (!rope->scaled) *rope = (ls_rope_shape){.base = rope->base, .low_factor = 1, .high_factor = 4};
    rope->scaled = true;
    ls_status status = collect_keys(value, scaling_key, LS_SCALING_COUNT, keys);
    for (int i = 0; status == LS_OK && i < LS_SCALING_COUNT; i++)
        if (keys[i]) status = ls_shape_json_read(value, keys[i], &ls_scaling_fields[i], out);
    if (status == LS_OK && (rope->factor == 0 || rope->original_T == 0))
        status = ls_fail(LS_ERR_INPUT, "factor and original must be given");
    return status == LS_OK ? LS_OK : ls_fail_at(status, "%s: ", key);
}

/* Reads the widths of an MLP, such as "300,100". */
static ls_status read_widths(const json_t *json, const char *key, ls_shape *out) {
    size_t *hidden = out->image.hidden;
    const char *text = NULL;
    size_t count = 0;
    LS_TRY(ls_json_get_text(json, key, &text));
    memset(hidden, 0, sizeof out->image.hidden);
    for (const char *at = text;; at++) {
        char *end = NULL;
        unsigned long long width = *at >= '0' && *at <= '9' ? strtoull(at, &end, 10) : 0;
        if (width == 0 || (*end != ',' && *end != '\0') || count == LS_SHAPE_LAYERS_MAX)
            return ls_fail(LS_ERR_INPUT,
                           "widths is '%.*s'; it must be up to %d numbers separated by commas, e.g. 300,100", SHOWN,
                           text, LS_SHAPE_LAYERS_MAX);
        hidden[count++] = (size_t)width;
        at = end;
        if (*at == '\0') return LS_OK;
    }
}

/* Reads a list of numbers for layers, such as "10000,500000". */
static ls_status read_list(const json_t *json, const char *key, ls_layer_list *out) {
    const char *text = NULL;
    LS_TRY(ls_json_get_text(json, key, &text));
    *out = (ls_layer_list){0};
    for (const char *at = text;; at++) {
        char number[LS_VALUE_REAL_MAX];
        size_t length = strcspn(at, ",");
        snprintf(number, sizeof number, "%.*s", (int)(length < sizeof number ? length : 0), at);
        if (out->count == LS_SHAPE_LIST_MAX || ls_value_parse_float(number, &out->value[out->count++]) != LS_OK)
            return ls_fail(LS_ERR_INPUT, "%s is '%.*s'; it must be up to %d numbers separated by commas", key, SHOWN,
                           text, LS_SHAPE_LIST_MAX);
        at += length;
        if (*at == '\0') return LS_OK;
    }
}

/* Reads the values of all fields that the file has. */
static ls_status read_fields(const json_t *json, const given *has, ls_shape *out) {
    for (int id = 0; id < LS_FIELD_COUNT; id++) {
        const char *key = has->key[id];
        if (!key) continue;
        switch (ls_fields[id].kind) {
        case LS_KIND_SCALING: LS_TRY(read_scaling(json, key, out)); break;
        case LS_KIND_WIDTHS: LS_TRY(read_widths(json, key, out)); break;
        case LS_KIND_LIST: LS_TRY(read_list(json, key, ls_field_in(&ls_fields[id], out))); break;
        default: LS_TRY(ls_shape_json_read(json, key, &ls_fields[id], out));
        }
    }
    return LS_OK;
}

/* Returns the new value of "rope-scaling"; NULL: out of memory. */
static json_t *scaling_value(const ls_shape *shape) {
    json_t *object = json_object();
    int bad = object == NULL;
    for (int i = 0; i < LS_SCALING_COUNT; i++)
        bad |= json_object_set_new(object, scaling_key(i), ls_shape_json_value(&ls_scaling_fields[i], shape));
    if (!bad) return object;
    json_decref(object);
    return NULL;
}

/* Returns the new value of "widths": "300,100". */
static json_t *widths_value(const ls_shape *shape) {
    char widths[LS_SHAPE_LAYERS_MAX * 24] = "";
    size_t used = 0;
    for (size_t i = 0; i <= shape->L; i++)
        used += (size_t)snprintf(widths + used, sizeof widths - used, "%s%zu", i ? "," : "", shape->image.hidden[i]);
    return json_string(widths);
}

/* Returns the new value of a list by layer, with digits that read back to the same numbers. */
static json_t *list_value(const ls_layer_list *list) {
    char text[LS_SHAPE_LIST_MAX * LS_VALUE_REAL_MAX] = "";
    for (size_t i = 0; i < list->count; i++) {
        size_t used = strlen(text);
        char number[LS_VALUE_REAL_MAX];
        snprintf(number, sizeof number, "%.15g", list->value[i]);
        if (strtod(number, NULL) != list->value[i]) snprintf(number, sizeof number, "%.17g", list->value[i]);
        snprintf(text + used, sizeof text - used, "%s%s", i ? "," : "", number);
    }
    return json_string(text);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Writes the names of all families, such as "gpt2, llama or mlp". */
static void list_families(char list[LIST_BYTES]) {
    size_t used = 0;
    for (int i = 0; i < LS_ARCH_COUNT && used < LIST_BYTES; i++) {
        const char *between = i == 0 ? "" : i == LS_ARCH_COUNT - 1 ? " or " : ", ";
        used += (size_t)snprintf(list + used, LIST_BYTES - used, "%s%s", between, ls_families[i].name);
    }
}

/* Sets the family from "arch", which must be that of the preset if the file names one. */
static ls_status read_arch(const json_t *json, const given *has, ls_shape *out) {
    const char *text = NULL;
    char list[LIST_BYTES];
    list_families(list);
    if (!has->key[ARCH]) return has->key[PRESET] ? LS_OK : ls_fail(LS_ERR_INPUT, "arch is missing; choose %s", list);
    LS_TRY(ls_json_get_text(json, has->key[ARCH], &text));
    for (int i = 0; i < LS_ARCH_COUNT; i++) {
        if (strcmp(text, ls_families[i].name) != 0) continue;
        if (has->key[PRESET] && (int)out->arch != i)
            return ls_fail(LS_ERR_INPUT, "arch is %s, but preset %s has arch %s", text, out->name,
                           ls_shape_family(out)->name);
        out->arch = (ls_arch)i;
        return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT, "arch is '%.*s'; it must be %s", SHOWN, text, list);
}

/* Sets the name, if the file has one. */
static ls_status read_name(const json_t *json, const given *has, ls_shape *out) {
    const char *name;
    if (!has->key[NAME]) return LS_OK;
    LS_TRY(ls_json_get_text(json, has->key[NAME], &name));
    if (strlen(name) >= sizeof out->name || *name == '\0')
        return ls_fail(LS_ERR_INPUT, "name has %zu bytes; it must have 1 to %d", strlen(name), LS_SHAPE_NAME_MAX - 1);
    snprintf(out->name, sizeof out->name, "%s", name);
    return LS_OK;
}

/* Returns the name of a set of families (LS_OF_*), for messages. */
static const char *describe_models(unsigned models) {
    static const struct {
        unsigned models;
        const char *text;
    } texts[] = {{LS_OF_TRANSFORMERS, "transformers"},
                 {LS_OF_ROTARY, "rotary positions"},
                 {LS_OF_GATED, "gated MLPs"},
                 {LS_OF_IMAGES, "image models"},
                 {LS_OF_LENET, "lenet"},
                 {LS_OF_RESNET18, "resnet18"},
                 {LS_OF_MLP, "mlp"}};
    int i = 0;
    while (texts[i].models != models) i++;
    return texts[i].text;
}

/* Fails if the file has a field that its family lacks. init-std is allowed without effect, because shape files of image
 * models may have it. */
static ls_status check_family_has(const given *has, const ls_shape *out) {
    for (ls_field_id id = 0; id < LS_FIELD_COUNT; id++)
        if (has->key[id] && id != LS_FIELD_INIT_STD && !ls_family_has_field(ls_shape_family(out), id))
            return ls_fail(LS_ERR_INPUT, "%s applies to %s only; this model has arch %s", ls_fields[id].key,
                           describe_models(ls_fields[id].models), ls_shape_family(out)->name);
    return LS_OK;
}

/* Fails if a field is missing that a file without preset must have. */
static ls_status check_needed(const given *has, const ls_shape *out) {
    for (ls_field_id id = 0; id < LS_FIELD_COUNT; id++)
        if (!has->key[id] && ls_fields[id].rule == LS_RULE_NEEDED && ls_family_has_field(ls_shape_family(out), id))
            return ls_fail(LS_ERR_INPUT, "%s is missing; set it, or name a preset to start from", ls_fields[id].key);
    return LS_OK;
}

/* Copies the preset that the file names, if any, except its name. */
static ls_status start_from_preset(const json_t *json, const given *has, ls_shape *out) {
    const char *preset;
    ls_shape found;
    if (!has->key[PRESET]) return LS_OK;
    LS_TRY(ls_json_get_text(json, has->key[PRESET], &preset));
    LS_TRY(ls_shape_preset(preset, &found));
    memcpy(found.name, out->name, sizeof found.name);
    *out = found;
    return LS_OK;
}

void ls_shape_set_usual(ls_shape *out) {
    ls_shape usual = ls_shape_family(out)->usual;
    memcpy(usual.name, out->name, sizeof usual.name);
    usual.arch = out->arch;
    *out = usual;
}

/* Computes the fields that follow from others, unless the file gives them: kv-heads, head-size and hidden; for images
 * all sizes. In a file with a preset only those whose heads or width the file gives; kv-heads only if the preset has as
 * many as heads. A gated MLP's hidden cannot follow: it must be given with the width. */
static ls_status derive(const given *has, const ls_shape *preset, ls_shape *out) {
    bool is_new = !has->key[PRESET], has_new_heads = is_new || has->key[LS_FIELD_HEADS],
         has_new_width = is_new || has->key[LS_FIELD_WIDTH];
    if (ls_shape_sees_images(out)) return ls_image_shape_fill(out);
    if (has_new_heads && !has->key[LS_FIELD_KV_HEADS] && (is_new || preset->kv_heads == preset->H))
        out->kv_heads = out->H;
    if ((has_new_heads || has_new_width) && !has->key[LS_FIELD_HEAD_SIZE]) {
        if (out->H == 0 || out->C % out->H != 0)
            return ls_fail(LS_ERR_INPUT,
                           "heads (%zu) must divide width (%zu); change one of them, or set head-size too", out->H,
                           out->C);
        out->head_size = out->C / out->H;
    }
    if (!has_new_width || has->key[LS_FIELD_HIDDEN]) return LS_OK;
    if (ls_shape_family(out)->gated)
        return ls_fail(LS_ERR_INPUT, "hidden is missing; a %s shape with width needs it", ls_shape_family(out)->name);
    out->hidden = out->C > SIZE_MAX / DEFAULT_HIDDEN ? 0 : DEFAULT_HIDDEN * out->C;
    return LS_OK;
}

/* Reads a shape file of our own. */
static ls_status from_own(const json_t *json, ls_shape *out) {
    given has = {{NULL}};
    LS_TRY(collect_keys(json, own_key, KEY_COUNT, has.key));
    LS_TRY(start_from_preset(json, &has, out));
    ls_shape preset = *out;
    LS_TRY(read_arch(json, &has, out));
    LS_TRY(read_name(json, &has, out));
    LS_TRY(check_family_has(&has, out));
    if (!has.key[PRESET]) LS_TRY(check_needed(&has, out));
    if (!has.key[PRESET]) ls_shape_set_usual(out);
    LS_TRY(read_fields(json, &has, out));
    return derive(&has, &preset, out);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Names the shape after its file, up to the first dot, or after the folder of a config.json; "model" if there is no
 * such name, or it begins with a dot. */
static void name_from(const char *source, char name[LS_SHAPE_NAME_MAX]) {
    const char *slash = strrchr(source, '/'), *file = slash ? slash + 1 : source, *begin = file;
    size_t length = strcspn(file, ".");
    if (strcmp(file, "config.json") == 0 && slash && slash > source) {
        for (begin = slash; begin > source && begin[-1] != '/';) begin--;
        length = (size_t)(slash - begin);
    }
    if (length == 0 || begin[0] == '.')
        snprintf(name, LS_SHAPE_NAME_MAX, "model");
    else
        snprintf(name, LS_SHAPE_NAME_MAX, "%.*s", (int)(length < LS_SHAPE_NAME_MAX ? length : LS_SHAPE_NAME_MAX - 1),
                 begin);
}

ls_status ls_shape_from_json(const json_t *json, const char *source, ls_shape *out) {
    ls_shape shape = {.arch = LS_ARCH_GPT2};
    ls_status status;
    name_from(source, shape.name);
    if (!json_is_object(json))
        status = ls_fail(LS_ERR_INPUT, "must be an object of names and values, e.g. {\"preset\": \"tiny\"}");
    else if (ls_shape_json_has(json, "model_type") || ls_shape_json_has(json, "architectures"))
        status = ls_shape_from_hf(json, &shape);
    else
        status = from_own(json, &shape);
    if (status == LS_OK) status = ls_shape_check(&shape);
    if (status != LS_OK) return ls_fail_at(status, "%s: ", source);
    *out = shape;
    return LS_OK;
}

ls_status ls_shape_parse(const char *source, const char *text, size_t bytes, ls_shape *out) {
    json_t *json = NULL;
    bool is_json = ls_json_is_format(source, text, bytes);
    LS_TRY(is_json ? ls_json_load_text(source, text, bytes, &json) : ls_shape_yaml_load(source, text, bytes, &json));
    ls_status status = ls_shape_from_json(json, source, out);
    json_decref(json);
    return status;
}

ls_status ls_shape_read(const char *path, ls_shape *out) {
    char *text;
    size_t bytes;
    LS_TRY(ls_file_read(path, FILE_BYTES_MAX, &text, &bytes));
    ls_status status = ls_shape_parse(path, text, bytes, out);
    free(text);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Returns the new JSON value of a field; NULL: out of memory. */
static json_t *value_of(ls_field_id id, const ls_shape *shape) {
    switch (ls_fields[id].kind) {
    case LS_KIND_SCALING: return scaling_value(shape);
    case LS_KIND_WIDTHS: return widths_value(shape);
    case LS_KIND_LIST: return list_value(ls_field_of(&ls_fields[id], shape));
    default: return ls_shape_json_value(&ls_fields[id], shape);
    }
}

/* Returns whether a shape file has the field: its family does, and, for a field with the rule ABSENT, it differs from
 * the usual value. */
static bool is_written(ls_field_id id, const ls_shape *shape) {
    const ls_family *family = ls_shape_family(shape);
    const ls_field *field = &ls_fields[id];
    if (!ls_family_has_field(family, id)) return false;
    if (field->kind == LS_KIND_SCALING) return shape->rope.scaled;
    return field->rule != LS_RULE_ABSENT ||
           memcmp(ls_field_of(field, shape), ls_field_of(field, &family->usual), field->bytes) != 0;
}

json_t *ls_shape_to_json(const ls_shape *shape) {
    json_t *json = json_object();
    int bad = json_object_set_new(json, "name", json_string(shape->name));
    bad |= json_object_set_new(json, "arch", json_string(ls_shape_family(shape)->name));
    for (ls_field_id id = 0; id < LS_FIELD_COUNT; id++)
        if (is_written(id, shape)) bad |= json_object_set_new(json, ls_fields[id].key, value_of(id, shape));
    if (!bad) return json;
    json_decref(json);
    return NULL;
}
