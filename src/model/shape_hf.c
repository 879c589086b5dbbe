/* shape_hf.c: Hugging Face's config.json. What changes the result of a model and is not supported is refused by name;
 * fields about training, generation or the program that wrote the file are passed over. */
#include <string.h>

#include "model/shape_file.h"
#include "model/shape_json.h"

enum { SHOWN = 80 };

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static ls_status need_size(const json_t *json, const char *key, size_t *out) {
    if (!ls_shape_json_has(json, key)) return ls_fail(LS_ERR_INPUT, "field \"%s\" is missing", key);
    return ls_shape_json_size(json, key, out);
}

/* Refuses a truth value other than `wanted`, which is also what an absent field means. */
static ls_status need_bool(const json_t *json, const char *key, bool wanted) {
    bool found = wanted;
    LS_TRY(ls_shape_json_bool(json, key, &found));
    if (found == wanted) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "\"%s\" is %s; only %s is supported", key, found ? "true" : "false",
                   wanted ? "true" : "false");
}

/* Refuses a text that is none of two; an absent field is the first. */
static ls_status need_text(const json_t *json, const char *key, const char *first, const char *second) {
    const char *found = first;
    LS_TRY(ls_shape_json_text(json, key, &found));
    if (strcmp(found, first) == 0 || strcmp(found, second) == 0) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "\"%s\" is \"%.*s\"; only \"%s\" and \"%s\" are supported", key, SHOWN, found, first,
                   second);
}

static ls_status refuse(const json_t *json, const char *key, const char *why) {
    if (!ls_shape_json_has(json, key)) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "\"%s\" is set: %s", key, why);
}

/* head size = width / heads, where the file has none. */
static ls_status divide_heads(const char *width_key, const char *heads_key, ls_shape *out) {
    if (out->head_size != 0) return LS_OK;
    if (out->H == 0 || out->C % out->H != 0)
        return ls_fail(LS_ERR_INPUT, "\"%s\" (%zu) must divide \"%s\" (%zu)", heads_key, out->H, width_key, out->C);
    out->head_size = out->C / out->H;
    return LS_OK;
}

static ls_status from_gpt2(const json_t *json, ls_shape *out) {
    out->arch = LS_ARCH_GPT2;
    out->tied = out->attention_bias = out->mlp_bias = true;
    out->eps = 1e-5;
    out->init_std = 0.02;
    LS_TRY(need_size(json, "vocab_size", &out->V));
    LS_TRY(need_size(json, "n_embd", &out->C));
    LS_TRY(need_size(json, "n_layer", &out->L));
    LS_TRY(need_size(json, "n_head", &out->H));
    LS_TRY(need_size(json, "n_positions", &out->T));
    out->hidden = out->C > SIZE_MAX / 4 ? 0 : 4 * out->C;
    LS_TRY(ls_shape_json_size(json, "n_inner", &out->hidden));
    LS_TRY(ls_shape_json_number(json, "layer_norm_epsilon", &out->eps));
    LS_TRY(ls_shape_json_number(json, "initializer_range", &out->init_std));
    LS_TRY(ls_shape_json_bool(json, "tie_word_embeddings", &out->tied));
    LS_TRY(need_text(json, "activation_function", "gelu_new", "gelu_pytorch_tanh"));
    LS_TRY(need_bool(json, "scale_attn_weights", true));
    LS_TRY(need_bool(json, "scale_attn_by_inverse_layer_idx", false));
    LS_TRY(need_bool(json, "reorder_and_upcast_attn", false));
    LS_TRY(need_bool(json, "add_cross_attention", false));
    out->kv_heads = out->H;
    return divide_heads("n_embd", "n_head", out);
}

/* The object that says how rotary frequencies are scaled; "type" is the older name of "rope_type". */
static ls_status read_scaling(const json_t *scaling, ls_rope_shape *rope) {
    const char *type = "default";
    double partial = 1;
    if (!json_is_object(scaling)) return ls_fail(LS_ERR_INPUT, "must be null or an object");
    LS_TRY(ls_shape_json_text(scaling, "type", &type));
    LS_TRY(ls_shape_json_text(scaling, "rope_type", &type));
    LS_TRY(ls_shape_json_number(scaling, "rope_theta", &rope->base));
    LS_TRY(ls_shape_json_number(scaling, "partial_rotary_factor", &partial));
    if (partial != 1) return ls_fail(LS_ERR_INPUT, "\"partial_rotary_factor\" is %g; only 1 is supported", partial);
    if (strcmp(type, "default") == 0) return LS_OK;
    if (strcmp(type, "llama3") != 0)
        return ls_fail(LS_ERR_INPUT, "the RoPE type \"%.*s\" is not supported; \"llama3\" and \"default\" are", SHOWN,
                       type);
    rope->scaled = true;
    LS_TRY(ls_json_get_f64(scaling, "factor", &rope->factor));
    LS_TRY(ls_json_get_f64(scaling, "low_freq_factor", &rope->low_factor));
    LS_TRY(ls_json_get_f64(scaling, "high_freq_factor", &rope->high_factor));
    return need_size(scaling, "original_max_position_embeddings", &rope->original_T);
}

/* Newer files have all of it in "rope_parameters". */
static ls_status read_rope(const json_t *json, ls_rope_shape *rope) {
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    LS_TRY(ls_shape_json_number(json, "rope_theta", &rope->base));
    for (int i = 0; i < 2; i++) {
        if (!ls_shape_json_has(json, keys[i])) continue;
        ls_status status = read_scaling(json_object_get(json, keys[i]), rope);
        if (status != LS_OK) return ls_fail_at(status, "\"%s\": ", keys[i]);
    }
    return LS_OK;
}

static ls_status from_llama(const json_t *json, ls_shape *out) {
    double partial = 1;
    out->arch = LS_ARCH_LLAMA;
    out->eps = 1e-6;
    out->init_std = 0.02;
    out->rope.base = 10000;
    LS_TRY(need_size(json, "vocab_size", &out->V));
    LS_TRY(need_size(json, "hidden_size", &out->C));
    LS_TRY(need_size(json, "num_hidden_layers", &out->L));
    LS_TRY(need_size(json, "num_attention_heads", &out->H));
    LS_TRY(need_size(json, "intermediate_size", &out->hidden));
    LS_TRY(need_size(json, "max_position_embeddings", &out->T));
    out->kv_heads = out->H;
    LS_TRY(ls_shape_json_size(json, "num_key_value_heads", &out->kv_heads));
    LS_TRY(ls_shape_json_size(json, "head_dim", &out->head_size));
    LS_TRY(ls_shape_json_number(json, "rms_norm_eps", &out->eps));
    LS_TRY(ls_shape_json_number(json, "initializer_range", &out->init_std));
    LS_TRY(ls_shape_json_bool(json, "tie_word_embeddings", &out->tied));
    LS_TRY(ls_shape_json_bool(json, "attention_bias", &out->attention_bias));
    LS_TRY(ls_shape_json_bool(json, "mlp_bias", &out->mlp_bias));
    LS_TRY(need_text(json, "hidden_act", "silu", "swish"));
    LS_TRY(refuse(json, "sliding_window", "sliding-window attention is not supported"));
    LS_TRY(ls_shape_json_number(json, "partial_rotary_factor", &partial));
    if (partial != 1) return ls_fail(LS_ERR_INPUT, "\"partial_rotary_factor\" is %g; only 1 is supported", partial);
    LS_TRY(read_rope(json, &out->rope));
    return divide_heads("hidden_size", "num_attention_heads", out);
}

ls_status ls_shape_from_hf(const json_t *json, ls_shape *out) {
    const char *type;
    LS_TRY(ls_json_get_text(json, "model_type", &type));
    LS_TRY(refuse(json, "quantization_config", "quantized weights are not supported; use the unquantized model"));
    if (strcmp(type, "gpt2") == 0) return from_gpt2(json, out);
    if (strcmp(type, "llama") == 0) return from_llama(json, out);
    return ls_fail(LS_ERR_INPUT, "model type \"%.*s\" is not supported; \"gpt2\" and \"llama\" are", SHOWN, type);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static json_t *gpt2_to_hf(const ls_shape *shape) {
    return json_pack("{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:b, s:b, s:f, s:f, s:f, s:b}",
                     "architectures", "GPT2LMHeadModel", "model_type", "gpt2", /* */
                     "vocab_size", (json_int_t)shape->V, "n_positions", (json_int_t)shape->T, "n_ctx",
                     (json_int_t)shape->T, "n_embd", (json_int_t)shape->C, "n_layer", (json_int_t)shape->L, "n_head",
                     (json_int_t)shape->H, "n_inner", (json_int_t)shape->hidden, "activation_function", "gelu_new",
                     "layer_norm_epsilon", shape->eps, "initializer_range", shape->init_std, "tie_word_embeddings",
                     (int)shape->tied, "scale_attn_weights", 1, "attn_pdrop", 0.0, "embd_pdrop", 0.0, "resid_pdrop",
                     0.0, "use_cache", 1);
}

static json_t *scaling_to_hf(const ls_rope_shape *rope) {
    if (!rope->scaled) return json_null();
    return json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", rope->factor, "low_freq_factor",
                     rope->low_factor, "high_freq_factor", rope->high_factor, "original_max_position_embeddings",
                     (json_int_t)rope->original_T);
}

static json_t *llama_to_hf(const ls_shape *shape) {
    return json_pack(
        "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:o, s:b, s:b, s:b, s:f, s:b}",
        "architectures", "LlamaForCausalLM", "model_type", "llama", /* */
        "vocab_size", (json_int_t)shape->V, "max_position_embeddings", (json_int_t)shape->T, "hidden_size",
        (json_int_t)shape->C, "intermediate_size", (json_int_t)shape->hidden, "num_hidden_layers", (json_int_t)shape->L,
        "num_attention_heads", (json_int_t)shape->H, "num_key_value_heads", (json_int_t)shape->kv_heads, "head_dim",
        (json_int_t)shape->head_size, "hidden_act", "silu", "rms_norm_eps", shape->eps, "initializer_range",
        shape->init_std, "rope_theta", shape->rope.base, "rope_scaling", scaling_to_hf(&shape->rope),
        "tie_word_embeddings", (int)shape->tied, "attention_bias", (int)shape->attention_bias, "mlp_bias",
        (int)shape->mlp_bias, "attention_dropout", 0.0, "use_cache", 1);
}

json_t *ls_shape_to_hf(const ls_shape *shape) {
    return shape->arch == LS_ARCH_LLAMA ? llama_to_hf(shape) : gpt2_to_hf(shape);
}
