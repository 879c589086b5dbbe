/* shape_hf.c: Hugging Face's config.json, from a table of keys for each family.
 *
 * The rows are in the order in which config.json is written. What changes the result of a model and is not supported is
 * refused by key and value; keys about training, generation or the program that wrote the file are ignored. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "model/shape_file.h"
#include "model/shape_json.h"

enum { SHOWN = 80, LIST_BYTES = 160, DEFAULT_HIDDEN = 4 };

typedef enum key_kind {
    FIELD,    /* a field of the shape; absent: derived from others, or `absent`, or the family's usual value */
    COPY,     /* a field that another key has too; written, not read */
    TEXT,     /* must be text[0] or text[1]; absent: text[0], which is written */
    TRUTH,    /* must be `wanted`; absent: `wanted` */
    NOTHING,  /* must be null: the feature is not supported */
    CONSTANT, /* written as `absent` or `wanted`, not read */
    PAIR      /* read and written by functions */
} key_kind;

/* What one key of config.json means for a family. */
typedef struct key_row {
    const char *key;
    key_kind kind;
    ls_field_id field;
    bool is_needed, is_written, wanted; /* is_needed: FIELD that must not be absent; is_written: ls_shape_to_hf() writes
                                           it, as each with `write` */
    double absent; /* FIELD: its value where the key is absent; 0: derived from others, or the family's usual value */
    const char *text[2];
    const char *why;         /* NOTHING: what is not supported */
    const char *when_absent; /* NOTHING: the value that transformers takes for a key that is absent; NULL: null */
    ls_status (*read)(const json_t *json, ls_shape *out);
    int (*write)(json_t *json, const ls_shape *shape);
} key_row;

typedef struct hf_family {
    const char *type, *architecture; /* "model_type", and the only one of "architectures" */
    const key_row *rows;
    size_t count;
} hf_family;

#define NEEDED(KEY, ID)                                                                                                \
    { KEY, FIELD, LS_FIELD_##ID, .is_needed = true, .is_written = true }
#define OPTIONAL(KEY, ...)                                                                                             \
    { KEY, FIELD, .is_written = true, .field = __VA_ARGS__ }
#define COPY_OF(KEY, ID)                                                                                               \
    { KEY, COPY, LS_FIELD_##ID, .is_written = true }
#define ONE_OF(KEY, FIRST, SECOND)                                                                                     \
    { KEY, TEXT, .text = {FIRST, SECOND}, .is_written = true }
#define MUST_BE(KEY, ...)                                                                                              \
    { KEY, TRUTH, .wanted = __VA_ARGS__ }
#define MUST_BE_NULL(KEY, ...)                                                                                         \
    { KEY, NOTHING, .why = __VA_ARGS__ }
#define ZERO(KEY)                                                                                                      \
    { KEY, CONSTANT, .is_written = true }
#define YES(KEY)                                                                                                       \
    { KEY, CONSTANT, .wanted = true, .is_written = true }

/* ---- rotary frequencies ------------------------------------------------------------------------------------------ */

/* Reads the share of a head's columns that is rotated. Only some families (is_partial) can have less than all. */
static ls_status read_share(const json_t *json, bool is_partial, ls_shape *out) {
    double share = out->rope_share == 0 ? 1 : out->rope_share;
    LS_TRY(ls_shape_json_number(json, "partial_rotary_factor", &share));
    if (!(share == 1 || (is_partial && share > 0 && share < 1)))
        return ls_fail(LS_ERR_INPUT, "\"partial_rotary_factor\" is %g; %s", share,
                       is_partial ? "it must be above 0 and at most 1" : "only 1 is supported");
    out->rope_share = share == 1 ? 0 : share;
    return LS_OK;
}

/* Reads the object that says how rotary frequencies are scaled; "type" is the older name of "rope_type". */
static ls_status read_scaling(const json_t *scaling, bool is_partial, ls_shape *out) {
    static const char *const keys[LS_SCALING_COUNT] = {
        [LS_SCALING_FACTOR] = "factor",
        [LS_SCALING_LOW] = "low_freq_factor",
        [LS_SCALING_HIGH] = "high_freq_factor",
        [LS_SCALING_ORIGINAL] = "original_max_position_embeddings",
    };
    const char *type = "default";
    if (!json_is_object(scaling)) return ls_fail(LS_ERR_INPUT, "must be null or an object");
    LS_TRY(ls_shape_json_text(scaling, "type", &type));
    LS_TRY(ls_shape_json_text(scaling, "rope_type", &type));
    LS_TRY(ls_shape_json_number(scaling, "rope_theta", &out->rope.base));
    LS_TRY(read_share(scaling, is_partial, out));
    if (strcmp(type, "default") == 0) return LS_OK;
    if (strcmp(type, "llama3") != 0)
        return ls_fail(LS_ERR_INPUT, "the RoPE type \"%.*s\" is not supported; \"llama3\" and \"default\" are", SHOWN,
                       type);
    out->rope.scaled = true;
    for (int i = 0; i < LS_SCALING_COUNT; i++) {
        if (!ls_shape_json_has(scaling, keys[i])) return ls_fail(LS_ERR_INPUT, "field \"%s\" is missing", keys[i]);
        LS_TRY(ls_shape_json_read(scaling, keys[i], &ls_scaling_fields[i], out));
    }
    return LS_OK;
}

/* Reads the rotary base and its scaling. Newer files have both in "rope_parameters". */
static ls_status read_rotation(const json_t *json, bool is_partial, ls_shape *out) {
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    LS_TRY(read_share(json, is_partial, out));
    LS_TRY(ls_shape_json_number(json, "rope_theta", &out->rope.base));
    for (int i = 0; i < 2; i++) {
        if (!ls_shape_json_has(json, keys[i])) continue;
        ls_status status = read_scaling(json_object_get(json, keys[i]), is_partial, out);
        if (status != LS_OK) return ls_fail_at(status, "\"%s\": ", keys[i]);
    }
    return LS_OK;
}

/* Reads the rotation for families whose heads are rotated whole. */
static ls_status read_rope(const json_t *json, ls_shape *out) { return read_rotation(json, false, out); }

/* Reads the rotation for families that may rotate a part of each head. */
static ls_status read_partial_rope(const json_t *json, ls_shape *out) { return read_rotation(json, true, out); }

/* Writes the rotary base and its scaling; returns non-zero if memory is short. */
static int write_rope(json_t *json, const ls_shape *shape) {
    const ls_rope_shape *rope = &shape->rope;
    json_t *scaling = rope->scaled
                          ? json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", rope->factor,
                                      "low_freq_factor", rope->low_factor, "high_freq_factor", rope->high_factor,
                                      "original_max_position_embeddings", (json_int_t)rope->original_T)
                          : json_null();
    return json_object_set_new(json, "rope_theta", json_real(rope->base)) |
           json_object_set_new(json, "rope_scaling", scaling);
}

/* Writes the rotation with the share of a head that is rotated, 1 for all; returns non-zero if memory is short. */
static int write_partial_rope(json_t *json, const ls_shape *shape) {
    return write_rope(json, shape) | json_object_set_new(json, "partial_rotary_factor",
                                                         json_real(shape->rope_share == 0 ? 1 : shape->rope_share));
}

/* Shortens a list with a value for each layer to its period. Returns false, and leaves *out, if the period is longer
 * than LS_SHAPE_LIST_MAX. */
static bool shorten_list(const double *value, size_t count, ls_layer_list *out) {
    for (size_t period = 1; period <= LS_SHAPE_LIST_MAX; period++) {
        size_t i = period;
        while (i < count && value[i] == value[i - period]) i++;
        if (i < count) continue;
        *out = (ls_layer_list){.count = period < count ? period : count};
        for (size_t at = 0; at < out->count; at++) out->value[at] = value[at];
        return true;
    }
    return false;
}

/* Reads which layers are rotated, from a list with 1 for these and 0 for the others, or from the interval of the
 * others. Row "rope_theta" comes first. */
static ls_status read_unrotated(const json_t *json, ls_shape *out) {
    const json_t *list = json_object_get(json, "no_rope_layers");
    double *value = NULL, interval = 4;
    bool is_varied = false;
    ls_status status = LS_OK;
    LS_TRY(ls_shape_json_number(json, "no_rope_layer_interval", &interval));
    if (!json_is_array(list)) list = NULL;
    if (!(interval >= 1) || out->L == 0 || out->L > (size_t)ls_fields[LS_FIELD_LAYERS].most ||
        (list && json_array_size(list) < out->L))
        return ls_fail(LS_ERR_INPUT,
                       "\"no_rope_layers\" must have an entry for each of the %zu layers, and "
                       "\"no_rope_layer_interval\" must be at least 1",
                       out->L);
    value = malloc(out->L * sizeof *value);
    if (!value) return ls_fail(LS_ERR_RESOURCE, "out of memory for a list of %zu layers", out->L);
    for (size_t i = 0; i < out->L; i++) {
        bool rotates = list ? json_number_value(json_array_get(list, i)) != 0 : (i + 1) % (size_t)interval != 0;
        value[i] = rotates ? out->rope.base : 0;
        is_varied = is_varied || !rotates;
    }
    if (is_varied && !shorten_list(value, out->L, &out->rope_bases))
        status = ls_fail(LS_ERR_INPUT,
                         "\"no_rope_layers\" repeats after more than %d layers; shorter patterns are supported",
                         LS_SHAPE_LIST_MAX);
    free(value);
    return status;
}

/* Writes 1 for each layer that is rotated and 0 for the others; returns non-zero if memory is short. */
static int write_unrotated(json_t *json, const ls_shape *shape) {
    json_t *list = json_array();
    int bad = list == NULL;
    for (size_t i = 0; i < shape->L && !bad; i++)
        bad |= json_array_append_new(list, json_integer(ls_layer(shape, i).rotates));
    return bad | json_object_set_new(json, "no_rope_layers", list);
}

/* ---- the gate of the MLP ----------------------------------------------------------------------------------------- */

/* The first name of each activation is the one that is written. */
static const char *const gates[] = {"silu", "gelu_pytorch_tanh", "swish", "gelu_new"};

/* Reads the activation of the gated MLP: SiLU or the tanh form of GELU. */
static ls_status read_gate(const json_t *json, ls_shape *out) {
    const char *found = gates[0];
    LS_TRY(ls_shape_json_text(json, "hidden_act", &found));
    for (int i = 0; i < 4; i++) {
        if (strcmp(found, gates[i]) != 0) continue;
        out->gelu_gate = i % 2 == 1;
        return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT,
                   "\"hidden_act\" is \"%.*s\"; only \"silu\" (\"swish\") and the tanh form of GELU, "
                   "\"gelu_pytorch_tanh\" (\"gelu_new\"), are supported",
                   SHOWN, found);
}

/* Writes the activation; returns non-zero if memory is short. */
static int write_gate(json_t *json, const ls_shape *shape) {
    return json_object_set_new(json, "hidden_act", json_string(gates[shape->gelu_gate]));
}

/* ---- biases ------------------------------------------------------------------------------------------------------ */

/* Reads one key for all biases. */
static ls_status read_biases(const json_t *json, ls_shape *out) {
    LS_TRY(ls_shape_json_bool(json, "use_bias", &out->attention_bias));
    out->mlp_bias = out->attention_bias;
    return LS_OK;
}

/* Writes true if attention or the MLP has biases; returns non-zero if memory is short. */
static int write_biases(json_t *json, const ls_shape *shape) {
    return json_object_set_new(json, "use_bias", json_boolean(shape->attention_bias || shape->mlp_bias));
}

/* ---- the families ------------------------------------------------------------------------------------------------ */

static const key_row gpt2_rows[] = {
    NEEDED("vocab_size", VOCAB),
    NEEDED("n_positions", POSITIONS),
    COPY_OF("n_ctx", POSITIONS),
    NEEDED("n_embd", WIDTH),
    NEEDED("n_layer", LAYERS),
    NEEDED("n_head", HEADS),
    OPTIONAL("n_inner", LS_FIELD_HIDDEN),
    ONE_OF("activation_function", "gelu_new", "gelu_pytorch_tanh"),
    OPTIONAL("layer_norm_epsilon", LS_FIELD_EPS),
    OPTIONAL("initializer_range", LS_FIELD_INIT_STD),
    OPTIONAL("tie_word_embeddings", LS_FIELD_TIED),
    MUST_BE("scale_attn_weights", true, .is_written = true),
    ZERO("attn_pdrop"),
    ZERO("embd_pdrop"),
    ZERO("resid_pdrop"),
    YES("use_cache"),
    MUST_BE("scale_attn_by_inverse_layer_idx", false),
    MUST_BE("reorder_and_upcast_attn", false),
    MUST_BE("add_cross_attention", false),
};

/* Those of every family that Llama's code has been copied for. EPSILON is that of a file without it, ROPE the pair of
 * functions for the rotation. */
#define LLAMA_ROWS(EPSILON, ROPE)                                                                                      \
    NEEDED("vocab_size", VOCAB), NEEDED("max_position_embeddings", POSITIONS), NEEDED("hidden_size", WIDTH),           \
        NEEDED("intermediate_size", HIDDEN), NEEDED("num_hidden_layers", LAYERS),                                      \
        NEEDED("num_attention_heads", HEADS), OPTIONAL("num_key_value_heads", LS_FIELD_KV_HEADS),                      \
        OPTIONAL("head_dim", LS_FIELD_HEAD_SIZE), {"hidden_act", PAIR, .read = read_gate, .write = write_gate},        \
        OPTIONAL("rms_norm_eps", LS_FIELD_EPS, .absent = (EPSILON)), OPTIONAL("initializer_range", LS_FIELD_INIT_STD), \
        {"rope_theta", PAIR, .read = read_##ROPE, .write = write_##ROPE},                                              \
        OPTIONAL("tie_word_embeddings", LS_FIELD_TIED)

static const key_row llama_rows[] = {
    LLAMA_ROWS(1e-6, rope),
    OPTIONAL("attention_bias", LS_FIELD_ATTENTION_BIAS),
    OPTIONAL("mlp_bias", LS_FIELD_MLP_BIAS),
    ZERO("attention_dropout"),
    YES("use_cache"),
    MUST_BE_NULL("sliding_window", "sliding-window attention is not supported"),
};

static const key_row mistral_rows[] = {
    LLAMA_ROWS(1e-6, rope),
    MUST_BE_NULL("sliding_window", "sliding-window attention is not supported", .when_absent = "4096",
                 .is_written = true),
    ZERO("attention_dropout"),
    YES("use_cache"),
};

static const key_row qwen2_rows[] = {
    LLAMA_ROWS(1e-6, rope),
    MUST_BE("use_sliding_window", false, .is_written = true),
    ZERO("attention_dropout"),
    YES("use_cache"),
};

static const key_row qwen3_rows[] = {
    LLAMA_ROWS(1e-6, rope),
    OPTIONAL("attention_bias", LS_FIELD_ATTENTION_BIAS),
    MUST_BE("use_sliding_window", false, .is_written = true),
    ZERO("attention_dropout"),
    YES("use_cache"),
};

static const key_row phi3_rows[] = {
    LLAMA_ROWS(1e-5, partial_rope),
    MUST_BE_NULL("sliding_window", "sliding-window attention is not supported"),
    ZERO("resid_pdrop"),
    ZERO("embd_pdrop"),
    ZERO("attention_dropout"),
    YES("use_cache"),
};

static const key_row smollm3_rows[] = {
    LLAMA_ROWS(1e-6, rope),
    {"no_rope_layers", PAIR, .read = read_unrotated, .write = write_unrotated},
    OPTIONAL("attention_bias", LS_FIELD_ATTENTION_BIAS),
    OPTIONAL("mlp_bias", LS_FIELD_MLP_BIAS),
    MUST_BE("use_sliding_window", false, .is_written = true),
    ZERO("attention_dropout"),
    YES("use_cache"),
};

static const key_row starcoder2_rows[] = {
    NEEDED("vocab_size", VOCAB),
    NEEDED("max_position_embeddings", POSITIONS),
    NEEDED("hidden_size", WIDTH),
    NEEDED("intermediate_size", HIDDEN),
    NEEDED("num_hidden_layers", LAYERS),
    NEEDED("num_attention_heads", HEADS),
    NEEDED("num_key_value_heads", KV_HEADS),
    OPTIONAL("head_dim", LS_FIELD_HEAD_SIZE),
    ONE_OF("hidden_act", "gelu_pytorch_tanh", "gelu_new"),
    OPTIONAL("norm_epsilon", LS_FIELD_EPS),
    OPTIONAL("initializer_range", LS_FIELD_INIT_STD),
    {"rope_theta", PAIR, .read = read_rope, .write = write_rope},
    {"use_bias", PAIR, .read = read_biases, .write = write_biases},
    OPTIONAL("tie_word_embeddings", LS_FIELD_TIED),
    MUST_BE_NULL("sliding_window", "sliding-window attention is not supported"),
    ZERO("attention_dropout"),
    ZERO("residual_dropout"),
    ZERO("embedding_dropout"),
    YES("use_cache"),
};

#define ROWS(rows) rows, sizeof(rows) / sizeof *(rows)
static const hf_family hf_gpt2 = {"gpt2", "GPT2LMHeadModel", ROWS(gpt2_rows)};
static const hf_family hf_llama = {"llama", "LlamaForCausalLM", ROWS(llama_rows)};
static const hf_family hf_mistral = {"mistral", "MistralForCausalLM", ROWS(mistral_rows)};
static const hf_family hf_qwen2 = {"qwen2", "Qwen2ForCausalLM", ROWS(qwen2_rows)};
static const hf_family hf_phi3 = {"phi3", "Phi3ForCausalLM", ROWS(phi3_rows)};
static const hf_family hf_smollm3 = {"smollm3", "SmolLM3ForCausalLM", ROWS(smollm3_rows)};
static const hf_family hf_starcoder2 = {"starcoder2", "Starcoder2ForCausalLM", ROWS(starcoder2_rows)};
static const hf_family hf_qwen3 = {"qwen3", "Qwen3ForCausalLM", ROWS(qwen3_rows)};
static const hf_family hf_none = {0}; /* transformers has no such model */

static const hf_family *const families[LS_ARCH_COUNT] = {
#define LS_FAMILY(ID, NAME, HF, ...) [LS_ARCH_##ID] = &hf_##HF,
#include "nn/families.def"
};

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Reads a field of the shape. If the key is absent: fails if it is needed, else sets row->absent unless that is 0. */
static ls_status read_field(const json_t *json, const key_row *row, ls_shape *out) {
    const ls_field *field = &ls_fields[row->field];
    if (ls_shape_json_has(json, row->key)) return ls_shape_json_read(json, row->key, field, out);
    if (row->is_needed) return ls_fail(LS_ERR_INPUT, "field \"%s\" is missing", row->key);
    if (row->absent != 0) *(double *)ls_field_in(field, out) = row->absent;
    return LS_OK;
}

/* Fails if the key is present with another text than the two that are supported. */
static ls_status check_text(const json_t *json, const key_row *row) {
    const char *found = row->text[0];
    LS_TRY(ls_shape_json_text(json, row->key, &found));
    if (strcmp(found, row->text[0]) == 0 || strcmp(found, row->text[1]) == 0) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "\"%s\" is \"%.*s\"; only \"%s\" and \"%s\" are supported", row->key, SHOWN, found,
                   row->text[0], row->text[1]);
}

/* Fails if the key is present with another value than the one that is supported. */
static ls_status check_truth(const json_t *json, const key_row *row) {
    bool found = row->wanted;
    LS_TRY(ls_shape_json_bool(json, row->key, &found));
    if (found == row->wanted) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "\"%s\" is %s; only %s is supported", row->key, found ? "true" : "false",
                   row->wanted ? "true" : "false");
}

/* Fails if the key has a value, or is absent and that means one: the feature is not supported. */
static ls_status check_null(const json_t *json, const key_row *row) {
    const json_t *value = json_object_get(json, row->key);
    if (json_is_null(value) || (!value && !row->when_absent)) return LS_OK;
    if (!value)
        return ls_fail(LS_ERR_INPUT, "\"%s\" is absent, which means %s: %s; null switches it off", row->key,
                       row->when_absent, row->why);
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    ls_status status = ls_fail(LS_ERR_INPUT, "\"%s\" is %.*s: %s", row->key, SHOWN, text ? text : "set", row->why);
    free(text);
    return status;
}

/* Reads or checks one key by the kind of its row. */
static ls_status read_row(const json_t *json, const key_row *row, ls_shape *out) {
    switch (row->kind) {
    case FIELD: return read_field(json, row, out);
    case TEXT: return check_text(json, row);
    case TRUTH: return check_truth(json, row);
    case NOTHING: return check_null(json, row);
    case PAIR: return row->read(json, out);
    default: return LS_OK;
    }
}

/* Returns the key of a field; NULL if the family has none, because the field always follows from others. */
static const char *key_of(const hf_family *family, ls_field_id field) {
    for (size_t i = 0; i < family->count; i++)
        if (family->rows[i].kind == FIELD && family->rows[i].field == field) return family->rows[i].key;
    return NULL;
}

/* Returns whether config.json has the field. */
static bool is_given(const json_t *json, const hf_family *family, ls_field_id field) {
    const char *key = key_of(family, field);
    return key && ls_shape_json_has(json, key);
}

/* Computes the sizes that config.json leaves out: as many kv heads as heads, an MLP of four times the width, and heads
 * that together have the width. Fails if the heads do not divide the width then. */
static ls_status derive(const json_t *json, const hf_family *family, ls_shape *out) {
    if (!is_given(json, family, LS_FIELD_KV_HEADS)) out->kv_heads = out->H;
    if (!is_given(json, family, LS_FIELD_HIDDEN))
        out->hidden = out->C > SIZE_MAX / DEFAULT_HIDDEN ? 0 : DEFAULT_HIDDEN * out->C;
    if (out->head_size != 0) return LS_OK;
    if (out->H == 0 || out->C % out->H != 0)
        return ls_fail(LS_ERR_INPUT, "\"%s\" (%zu) must divide \"%s\" (%zu)", key_of(family, LS_FIELD_HEADS), out->H,
                       key_of(family, LS_FIELD_WIDTH), out->C);
    out->head_size = out->C / out->H;
    return LS_OK;
}

/* Fails with a list of the model types that are supported. */
static ls_status refuse_type(const char *type) {
    char list[LIST_BYTES] = "";
    const char *previous = NULL;
    for (int i = 0; i <= LS_ARCH_COUNT; i++) {
        const char *next = i < LS_ARCH_COUNT ? families[i]->type : NULL;
        if (i < LS_ARCH_COUNT && !next) continue;
        size_t used = strlen(list);
        const char *between = !used ? "" : next ? ", " : " and ";
        if (previous) snprintf(list + used, sizeof list - used, "%s\"%s\"", between, previous);
        previous = next;
    }
    return ls_fail(LS_ERR_INPUT, "model type \"%.*s\" is not supported; %s are", SHOWN, type, list);
}

ls_status ls_shape_from_hf(const json_t *json, ls_shape *out) {
    static const key_row quantized =
        MUST_BE_NULL("quantization_config", "quantized weights are not supported; use the unquantized model");
    const char *type;
    int arch = 0;
    LS_TRY(ls_json_get_text(json, "model_type", &type));
    LS_TRY(check_null(json, &quantized));
    while (arch < LS_ARCH_COUNT && (!families[arch]->type || strcmp(families[arch]->type, type) != 0)) arch++;
    if (arch == LS_ARCH_COUNT) return refuse_type(type);
    out->arch = (ls_arch)arch;
    ls_shape_set_usual(out);
    for (size_t i = 0; i < families[arch]->count; i++) LS_TRY(read_row(json, &families[arch]->rows[i], out));
    return derive(json, families[arch], out);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Writes one key; returns non-zero if memory is short. */
static int write_row(json_t *json, const key_row *row, const ls_shape *shape) {
    switch (row->kind) {
    case FIELD:
    case COPY: return json_object_set_new(json, row->key, ls_shape_json_value(&ls_fields[row->field], shape));
    case TEXT: return json_object_set_new(json, row->key, json_string(row->text[0]));
    case TRUTH: return json_object_set_new(json, row->key, json_boolean(row->wanted));
    case NOTHING: return json_object_set_new(json, row->key, json_null());
    case CONSTANT: return json_object_set_new(json, row->key, row->wanted ? json_true() : json_real(row->absent));
    case PAIR: break;
    }
    return row->write(json, shape);
}

json_t *ls_shape_to_hf(const ls_shape *shape) {
    const hf_family *family = families[shape->arch];
    json_t *json = json_pack("{s:[s], s:s}", "architectures", family->architecture, "model_type", family->type);
    int bad = json == NULL;
    for (size_t i = 0; i < family->count; i++)
        if (family->rows[i].is_written || family->rows[i].write) bad |= write_row(json, &family->rows[i], shape);
    if (!bad) return json;
    json_decref(json);
    return NULL;
}

/* ---- whether transformers can run a shape ------------------------------------------------------------------------ */

/* Fails if a field has another value after conversion to config.json and back. A missing bias may differ: it is
 * written as 0 if the family always has it (interop/hf_names.c). */
static ls_status compare_field(const ls_shape *shape, const char *key, const json_t *ours, const json_t *theirs) {
    bool is_bias = strcmp(key, "attention-bias") == 0 || strcmp(key, "mlp-bias") == 0;
    if (strcmp(key, "name") == 0 || json_equal(ours, theirs) || (is_bias && json_is_false(ours))) return LS_OK;
    char *have = json_dumps(ours, JSON_ENCODE_ANY), *want = json_dumps(theirs, JSON_ENCODE_ANY);
    ls_status status = ls_fail(
        LS_ERR_INPUT, "'%s' has %s %s, which Hugging Face's %s cannot have; a model of these sizes has %s there",
        shape->name, key, have ? have : "?", families[shape->arch]->architecture, want ? want : "none");
    free(have);
    free(want);
    return status;
}

/* Copies to `back`, the shape as read back from config.json, each per-layer list of `shape` whose values are the same
 * in every layer. A list may be written with different periods ({1} or {1, 1}), so equal lists would otherwise compare
 * as different. */
static void copy_equal_lists(const ls_shape *shape, ls_shape *back) {
    for (ls_field_id id = 0; id < LS_FIELD_COUNT; id++) {
        if (ls_fields[id].kind != LS_KIND_LIST) continue;
        const ls_layer_list *ours = ls_field_of(&ls_fields[id], shape);
        ls_layer_list *theirs = ls_field_in(&ls_fields[id], back);
        bool is_equal = ours->count > 0 && theirs->count > 0;
        for (size_t i = 0; i < shape->L && is_equal; i++)
            is_equal = ours->value[i % ours->count] == theirs->value[i % theirs->count];
        if (is_equal) *theirs = *ours;
    }
}

/* Writes the shape and reads it back: a field that has no key and does not follow from others is lost. */
ls_status ls_shape_check_hf(const ls_shape *shape) {
    ls_shape back = *shape;
    json_t *hf = ls_shape_to_hf(shape), *ours = ls_shape_to_json(shape), *theirs = NULL, *value;
    const char *key;
    ls_status status = hf && ours ? ls_shape_from_hf(hf, &back) : ls_fail(LS_ERR_RESOURCE, "out of memory");
    copy_equal_lists(shape, &back);
    if (status == LS_OK) theirs = ls_shape_to_json(&back);
    json_object_foreach(ours, key, value) {
        if (status == LS_OK) status = compare_field(shape, key, value, json_object_get(theirs, key));
    }
    json_decref(hf);
    json_decref(ours);
    json_decref(theirs);
    return status;
}
