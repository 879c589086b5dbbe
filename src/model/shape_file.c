/* shape_file.c: our own shape files, and telling them from Hugging Face's (docs/reference/models.md).
 *
 * A file gives what its preset does not, or everything. What follows from other fields is filled in behind: kv-heads,
 * head-size, hidden and, by architecture, biases, eps and tied tables. */
#include "model/shape_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "config/suggest.h"
#include "model/image_blocks.h"
#include "model/shape_json.h"

enum { FILE_BYTES_MAX = 1 << 20, KEY_MAX = 32, SHOWN = 80, DEFAULT_HIDDEN = 4 };

typedef enum field_kind { SIZE, NUMBER, TRUTH, TEXT } field_kind;

/* Id, key, kind and member of ls_shape; texts, rope-scaling and widths are read by hand. */
#define FIELDS(X)                                                                                                      \
    X(PRESET, "preset", TEXT, name)                                                                                    \
    X(NAME, "name", TEXT, name)                                                                                        \
    X(ARCH, "arch", TEXT, name)                                                                                        \
    X(VOCAB, "vocab", SIZE, V)                                                                                         \
    X(WIDTH, "width", SIZE, C)                                                                                         \
    X(LAYERS, "layers", SIZE, L)                                                                                       \
    X(HEADS, "heads", SIZE, H)                                                                                         \
    X(KV_HEADS, "kv-heads", SIZE, kv_heads)                                                                            \
    X(HEAD_SIZE, "head-size", SIZE, head_size)                                                                         \
    X(HIDDEN, "hidden", SIZE, hidden)                                                                                  \
    X(POSITIONS, "positions", SIZE, T)                                                                                 \
    X(TIED, "tied", TRUTH, tied)                                                                                       \
    X(ATTENTION_BIAS, "attention-bias", TRUTH, attention_bias)                                                         \
    X(MLP_BIAS, "mlp-bias", TRUTH, mlp_bias)                                                                           \
    X(EPS, "eps", NUMBER, eps)                                                                                         \
    X(INIT_STD, "init-std", NUMBER, init_std)                                                                          \
    X(ROPE_BASE, "rope-base", NUMBER, rope.base)                                                                       \
    X(ROPE_SCALING, "rope-scaling", TEXT, name)                                                                        \
    /* from here on of image models, which have no others but preset, name, arch, eps and init-std: */                 \
    X(CLASSES, "classes", SIZE, V)                                                                                     \
    X(CHANNELS, "channels", SIZE, image.channels)                                                                      \
    X(IMAGE_HEIGHT, "image-height", SIZE, image.height)                                                                \
    X(IMAGE_WIDTH, "image-width", SIZE, image.width)                                                                   \
    X(SIGMOID, "sigmoid", TRUTH, image.sigmoid)                                                                        \
    X(SMALL, "small", TRUTH, image.small)                                                                              \
    X(WIDTHS, "widths", TEXT, name)

typedef enum field_id {
#define X(id, ...) id,
    FIELDS(X) FIELD_COUNT
#undef X
} field_id;

typedef struct field {
    const char *key;
    field_kind kind;
    size_t offset; /* in ls_shape, or in its rope */
} field;

static const field fields[FIELD_COUNT] = {
#define X(id, key, kind, member) [id] = {key, kind, offsetof(ls_shape, member)},
    FIELDS(X)
#undef X
};

enum { SCALING_COUNT = 4 };

static const field scaling_fields[SCALING_COUNT] = {
    {"factor", NUMBER, offsetof(ls_rope_shape, factor)},
    {"low", NUMBER, offsetof(ls_rope_shape, low_factor)},
    {"high", NUMBER, offsetof(ls_rope_shape, high_factor)},
    {"original", SIZE, offsetof(ls_rope_shape, original_T)},
};

/* The key of each field as the file spells it; NULL: not given. */
typedef struct given {
    const char *key[FIELD_COUNT];
} given;

/* ---- reading fields ---------------------------------------------------------------------------------------------- */

/* The row of `key`, which may have underscores for dashes; `count`: unknown, and the message names the nearest. */
static ls_status find_field(const field *table, int count, const char *key, int *out) {
    char name[KEY_MAX] = "";
    ls_suggest suggest;
    snprintf(name, sizeof name, "%s", key);
    for (char *at = name; *at; at++)
        if (*at == '_') *at = '-';
    ls_suggest_init(&suggest, name);
    for (*out = 0; *out < count; (*out)++) {
        if (strlen(key) < sizeof name && strcmp(table[*out].key, name) == 0) return LS_OK;
        ls_suggest_offer(&suggest, table[*out].key);
    }
    if (!suggest.best)
        return ls_fail(LS_ERR_INPUT, "unknown name '%.*s'; docs/reference/models.md lists the names of a shape file",
                       SHOWN, key);
    return ls_fail(LS_ERR_INPUT, "unknown name '%.*s'; did you mean %s?", SHOWN, key, suggest.best);
}

static ls_status collect(const json_t *json, const field *table, int count, const char **keys) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)json, key, value) {
        int id;
        LS_TRY(find_field(table, count, key, &id));
        if (keys[id]) return ls_fail(LS_ERR_INPUT, "%s is given twice; keep one", table[id].key);
        if (json_is_null(value)) return ls_fail(LS_ERR_INPUT, "%s has no value; give one or omit the name", key);
        keys[id] = key;
    }
    return LS_OK;
}

static ls_status read_fields(const json_t *json, const field *table, int count, const char *const *keys, char *base) {
    for (int i = 0; i < count; i++) {
        void *at = base + table[i].offset;
        if (!keys[i]) continue;
        if (table[i].kind == SIZE) LS_TRY(ls_shape_json_size(json, keys[i], at));
        if (table[i].kind == NUMBER) LS_TRY(ls_shape_json_number(json, keys[i], at));
        if (table[i].kind == TRUTH) LS_TRY(ls_shape_json_bool(json, keys[i], at));
    }
    return LS_OK;
}

static ls_status read_arch(const json_t *json, const given *has, ls_shape *out) {
    const char *text = NULL;
    if (!has->key[ARCH])
        return has->key[PRESET] ? LS_OK
                                : ls_fail(LS_ERR_INPUT, "arch is missing; choose gpt2, llama, lenet, resnet18 or mlp");
    LS_TRY(ls_json_get_text(json, has->key[ARCH], &text));
    for (int i = 0; i < LS_ARCH_COUNT; i++) {
        if (strcmp(text, ls_families[i].name) != 0) continue;
        if (has->key[PRESET] && (int)out->arch != i)
            return ls_fail(LS_ERR_INPUT, "arch is %s, but preset %s has arch %s", text, out->name,
                           ls_shape_family(out)->name);
        out->arch = (ls_arch)i;
        return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT, "arch is '%.*s'; it must be gpt2, llama, lenet, resnet18 or mlp", SHOWN, text);
}

static ls_status read_scaling(const json_t *json, const char *key, ls_rope_shape *rope) {
    const char *keys[SCALING_COUNT] = {NULL};
    json_t *value = json_object_get(json, key);
    if (json_is_false(value)) {
        *rope = (ls_rope_shape){.base = rope->base};
        return LS_OK;
    }
    LS_TRY(ls_json_get_object(json, key, &value));
    if (!rope->scaled) *rope = (ls_rope_shape){.base = rope->base, .low_factor = 1, .high_factor = 4};
    rope->scaled = true;
    ls_status status = collect(value, scaling_fields, SCALING_COUNT, keys);
    if (status == LS_OK) status = read_fields(value, scaling_fields, SCALING_COUNT, keys, (char *)rope);
    if (status == LS_OK && (rope->factor == 0 || rope->original_T == 0))
        status = ls_fail(LS_ERR_INPUT, "factor and original must be given");
    return status == LS_OK ? LS_OK : ls_fail_at(status, "%s: ", key);
}

static ls_status read_name(const json_t *json, const given *has, ls_shape *out) {
    const char *name;
    if (!has->key[NAME]) return LS_OK;
    LS_TRY(ls_json_get_text(json, has->key[NAME], &name));
    if (strlen(name) >= sizeof out->name || *name == '\0')
        return ls_fail(LS_ERR_INPUT, "name must have from 1 to %d bytes", LS_SHAPE_NAME_MAX - 1);
    snprintf(out->name, sizeof out->name, "%s", name);
    return LS_OK;
}

static ls_status read_rope(const json_t *json, const given *has, ls_shape *out) {
    for (field_id id = ROPE_BASE; id <= ROPE_SCALING; id++)
        if (has->key[id] && !ls_shape_family(out)->rotary)
            return ls_fail(LS_ERR_INPUT, "%s applies to rotary positions only; %s has learned position embeddings",
                           fields[id].key, ls_shape_family(out)->name);
    return has->key[ROPE_SCALING] ? read_scaling(json, has->key[ROPE_SCALING], &out->rope) : LS_OK;
}

/* ---- image models ------------------------------------------------------------------------------------------------ */

/* "300,100" */
static ls_status read_widths(const json_t *json, const char *key, ls_image_shape *image) {
    const char *text = NULL;
    size_t count = 0;
    LS_TRY(ls_json_get_text(json, key, &text));
    memset(image->hidden, 0, sizeof image->hidden);
    for (const char *at = text;; at++) {
        char *end = NULL;
        unsigned long long width = *at >= '0' && *at <= '9' ? strtoull(at, &end, 10) : 0;
        if (width == 0 || (*end != ',' && *end != '\0') || count == LS_SHAPE_LAYERS_MAX)
            return ls_fail(LS_ERR_INPUT,
                           "widths is '%.*s'; it must be up to %d numbers separated by commas, e.g. 300,100", SHOWN,
                           text, LS_SHAPE_LAYERS_MAX);
        image->hidden[count++] = (size_t)width;
        at = end;
        if (*at == '\0') return LS_OK;
    }
}

static ls_status check_image_fields(const given *has, const ls_shape *out) {
    const ls_family *family = ls_shape_family(out);
    for (int id = VOCAB; id < FIELD_COUNT; id++) {
        bool for_images = id >= CLASSES, for_both = id == EPS || id == INIT_STD;
        bool fits = for_both || for_images == family->sees_images;
        if (has->key[id] && !fits)
            return ls_fail(LS_ERR_INPUT, "%s applies to %s only; this model has arch %s", fields[id].key,
                           for_images ? "image models" : "transformers", family->name);
    }
    if (has->key[WIDTHS] && !family->has_widths) return ls_fail(LS_ERR_INPUT, "widths applies to mlp only");
    if (has->key[SMALL] && !family->has_small_stem) return ls_fail(LS_ERR_INPUT, "small applies to resnet18 only");
    if (has->key[SIGMOID] && !family->has_sigmoid) return ls_fail(LS_ERR_INPUT, "sigmoid applies to lenet only");
    return LS_OK;
}

static ls_status read_image(const json_t *json, const given *has, ls_shape *out) {
    if (!has->key[PRESET]) {
        out->eps = 1e-5;
        out->V = 10;
        out->image = (ls_image_shape){.channels = 1, .height = 28, .width = 28, .hidden = {256}};
    }
    LS_TRY(read_fields(json, fields, FIELD_COUNT, has->key, (char *)out));
    if (has->key[WIDTHS]) LS_TRY(read_widths(json, has->key[WIDTHS], &out->image));
    return ls_image_shape_fill(out);
}

/* ---- what follows ------------------------------------------------------------------------------------------------ */

static ls_status start(const json_t *json, const given *has, ls_shape *out) {
    const char *preset;
    if (!has->key[PRESET]) return LS_OK;
    char name[LS_SHAPE_NAME_MAX];
    memcpy(name, out->name, sizeof name);
    LS_TRY(ls_json_get_text(json, has->key[PRESET], &preset));
    LS_TRY(ls_shape_preset(preset, out));
    memcpy(out->name, name, sizeof name);
    return LS_OK;
}

/* What an architecture has unless told otherwise; before the fields are read. */
static void set_defaults(ls_shape *out) {
    const ls_family *family = ls_shape_family(out);
    out->tied = family->tied;
    out->attention_bias = out->mlp_bias = family->biases;
    out->eps = 1e-5;
    out->init_std = 0.02;
    if (family->rotary) out->rope.base = 10000;
}

static ls_status derive(const given *has, const ls_shape *preset, ls_shape *out) {
    bool new_heads = !has->key[PRESET] || has->key[HEADS], new_width = !has->key[PRESET] || has->key[WIDTH];
    if (new_heads && !has->key[KV_HEADS] && (!has->key[PRESET] || preset->kv_heads == preset->H))
        out->kv_heads = out->H;
    if ((new_heads || new_width) && !has->key[HEAD_SIZE]) {
        if (out->H == 0 || out->C % out->H != 0)
            return ls_fail(LS_ERR_INPUT,
                           "heads (%zu) must divide width (%zu); change one of them, or set head-size too", out->H,
                           out->C);
        out->head_size = out->C / out->H;
    }
    if (!new_width || has->key[HIDDEN]) return LS_OK;
    if (ls_shape_family(out)->gated)
        return ls_fail(LS_ERR_INPUT, "hidden is missing; a %s shape with width needs it", ls_shape_family(out)->name);
    out->hidden = out->C > SIZE_MAX / DEFAULT_HIDDEN ? 0 : DEFAULT_HIDDEN * out->C;
    return LS_OK;
}

static ls_status check_given(const given *has) {
    static const field_id needed[] = {VOCAB, WIDTH, LAYERS, HEADS, POSITIONS};
    if (has->key[PRESET]) return LS_OK;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!has->key[needed[i]])
            return ls_fail(LS_ERR_INPUT, "%s is missing; set it, or name a preset to start from",
                           fields[needed[i]].key);
    return LS_OK;
}

static ls_status from_own(const json_t *json, ls_shape *out) {
    given has = {{NULL}};
    LS_TRY(collect(json, fields, FIELD_COUNT, has.key));
    LS_TRY(start(json, &has, out));
    ls_shape preset = *out;
    LS_TRY(read_arch(json, &has, out));
    LS_TRY(read_name(json, &has, out));
    LS_TRY(check_image_fields(&has, out));
    if (ls_shape_sees_images(out)) return read_image(json, &has, out);
    LS_TRY(check_given(&has));
    if (!has.key[PRESET]) set_defaults(out);
    LS_TRY(read_rope(json, &has, out));
    LS_TRY(read_fields(json, fields, FIELD_COUNT, has.key, (char *)out));
    return derive(&has, &preset, out);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* A name for the shape: that of the file without its ending, or for config.json that of its folder. */
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

static json_t *value_of(const field *row, const char *base) {
    const void *at = base + row->offset;
    if (row->kind == SIZE) return json_integer((json_int_t) * (const size_t *)at);
    if (row->kind == NUMBER) return json_real(*(const double *)at);
    return json_boolean(*(const bool *)at);
}

static int put_fields(json_t *object, const field *table, int begin, int end, const char *base) {
    int bad = 0;
    for (int i = begin; i < end; i++)
        if (table[i].kind != TEXT) bad |= json_object_set_new(object, table[i].key, value_of(&table[i], base));
    return bad;
}

static int put_image(json_t *object, const ls_shape *shape) {
    const ls_family *family = ls_shape_family(shape);
    char widths[LS_SHAPE_LAYERS_MAX * 24] = "";
    size_t used = 0;
    int bad = put_fields(object, fields, CLASSES, FIELD_COUNT, (const char *)shape);
    if (!family->has_sigmoid) bad |= json_object_del(object, fields[SIGMOID].key);
    if (!family->has_small_stem) bad |= json_object_del(object, fields[SMALL].key);
    for (size_t i = 0; family->has_widths && i <= shape->L; i++)
        used += (size_t)snprintf(widths + used, sizeof widths - used, "%s%zu", i ? "," : "", shape->image.hidden[i]);
    if (used > 0) bad |= json_object_set_new(object, fields[WIDTHS].key, json_string(widths));
    return bad | put_fields(object, fields, EPS, INIT_STD, (const char *)shape);
}

json_t *ls_shape_to_json(const ls_shape *shape) {
    json_t *json = json_object(), *scaling;
    const ls_family *family = ls_shape_family(shape);
    int bad = json_object_set_new(json, "name", json_string(shape->name));
    bad |= json_object_set_new(json, "arch", json_string(family->name));
    if (family->sees_images)
        bad |= put_image(json, shape);
    else
        bad |= put_fields(json, fields, 0, family->rotary ? CLASSES : ROPE_BASE, (const char *)shape);
    if (family->rotary && shape->rope.scaled) {
        scaling = json_object();
        bad |= put_fields(scaling, scaling_fields, 0, SCALING_COUNT, (const char *)&shape->rope);
        bad |= json_object_set_new(json, "rope-scaling", scaling);
    }
    if (!bad) return json;
    json_decref(json);
    return NULL;
}
