/* test_shape_hf.c: Hugging Face's config.json: what is read, what is refused by name, and the way back. */
#include "shapes.h"

#define GPT2_SIZES                                                                                                     \
    "\"model_type\":\"gpt2\",\"vocab_size\":300,\"n_embd\":60,\"n_layer\":2,\"n_head\":3,\"n_positions\":17"
#define LLAMA_SIZES                                                                                                    \
    "\"model_type\":\"llama\",\"vocab_size\":300,\"hidden_size\":64,\"intermediate_size\":172,\"num_hidden_layers\":"  \
    "2,"                                                                                                               \
    "\"num_attention_heads\":4,\"max_position_embeddings\":128"
#define MISTRAL_SIZES                                                                                                  \
    "\"model_type\":\"mistral\",\"vocab_size\":300,\"hidden_size\":64,\"intermediate_size\":172,"                      \
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"max_position_embeddings\":128"

static void test_hugging_face_gpt2(void **state) {
    (void)state;
    ls_shape a = read_text("models/little/config.json", "{" GPT2_SIZES "}");
    assert_string_equal(a.name, "little");
    assert_true(a.arch == LS_ARCH_GPT2 && a.V == 300 && a.C == 60 && a.L == 2 && a.H == 3 && a.T == 17);
    assert_true(a.hidden == 240 && a.head_size == 20 && a.kv_heads == 3 && a.tied && a.attention_bias && a.mlp_bias);
    ls_shape b = read_text("config.json", "{" GPT2_SIZES ",\"n_inner\":77,\"layer_norm_epsilon\":1e-6,"
                                          "\"tie_word_embeddings\":false,\"activation_function\":\"gelu_pytorch_tanh\","
                                          "\"initializer_range\":0.01,\"resid_pdrop\":0.1,\"whatever\":[1,{}]}");
    assert_true(b.hidden == 77 && b.eps == 1e-6 && !b.tied && b.init_std == 0.01);
}

static void test_hugging_face_llama(void **state) {
    (void)state;
    ls_shape a = read_text("config.json", "{" LLAMA_SIZES "}");
    assert_true(a.arch == LS_ARCH_LLAMA && a.V == 300 && a.C == 64 && a.L == 2 && a.H == 4 && a.T == 128);
    assert_true(a.hidden == 172 && a.head_size == 16 && a.kv_heads == 4 && !a.tied && !a.attention_bias);
    assert_true(a.eps == 1e-6 && a.rope.base == 10000 && !a.rope.scaled);
    ls_shape b =
        read_text("config.json", "{" LLAMA_SIZES ",\"num_key_value_heads\":2,\"head_dim\":32,\"rms_norm_eps\":1e-5,"
                                 "\"tie_word_embeddings\":true,\"attention_bias\":true,\"mlp_bias\":true,"
                                 "\"rope_theta\":500000,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":32.0,"
                                 "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                                 "\"original_max_position_embeddings\":64}}");
    assert_true(b.kv_heads == 2 && b.head_size == 32 && b.eps == 1e-5 && b.tied && b.attention_bias && b.mlp_bias);
    assert_true(b.rope.base == 500000 && b.rope.scaled && b.rope.factor == 32 && b.rope.original_T == 64);
    ls_shape c = read_text("config.json", "{" LLAMA_SIZES ",\"rope_parameters\":{\"rope_type\":\"llama3\","
                                          "\"rope_theta\":2000.0,\"factor\":2,\"low_freq_factor\":1,"
                                          "\"high_freq_factor\":4,\"original_max_position_embeddings\":64}}");
    assert_true(c.rope.base == 2000 && c.rope.scaled && c.rope.factor == 2);
    ls_shape d = read_text("config.json", "{" LLAMA_SIZES ",\"rope_scaling\":null,\"head_dim\":null,"
                                          "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":123}}");
    assert_true(d.rope.base == 123 && !d.rope.scaled && d.head_size == 16);
    static const char *const gelus[] = {"gelu_pytorch_tanh", "gelu_new"};
    for (int i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof text, "{" LLAMA_SIZES ",\"hidden_act\":\"%s\"}", gelus[i]);
        ls_shape gelu = read_text("config.json", text);
        assert_true(gelu.gelu_gate && !a.gelu_gate);
        json_t *json = ls_shape_to_hf(&gelu);
        assert_string_equal(json_string_value(json_object_get(json, "hidden_act")), gelus[0]);
        json_decref(json);
    }
}

static void test_hugging_face_mistral(void **state) {
    (void)state;
    ls_shape a = read_text("config.json", "{" MISTRAL_SIZES ",\"sliding_window\":null,\"num_key_value_heads\":2,"
                                          "\"head_dim\":32,\"rope_theta\":1000000.0,\"rms_norm_eps\":1e-5}");
    assert_true(a.arch == LS_ARCH_MISTRAL && a.V == 300 && a.kv_heads == 2 && a.head_size == 32 && a.hidden == 172);
    assert_true(a.eps == 1e-5 && a.rope.base == 1e6 && !a.tied && !a.attention_bias && !a.mlp_bias);
    json_t *json = ls_shape_to_hf(&a);
    assert_true(json_is_null(json_object_get(json, "sliding_window")));
    assert_string_equal(json_string_value(json_object_get(json, "model_type")), "mistral");
    ls_shape back = a;
    assert_int_equal(ls_shape_from_json(json, "config.json", &back), LS_OK);
    assert_same(&a, &back);
    json_decref(json);
    a.attention_bias = true;
    assert_int_equal(ls_shape_check_hf(&a), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "has attention-bias true, which Hugging Face's MistralForCausalLM"));
}

static void test_hugging_face_qwen3(void **state) {
    (void)state;
    ls_shape a = read_text("m/config.json",
                           "{\"model_type\":\"qwen3\",\"vocab_size\":300,\"hidden_size\":64,\"num_hidden_layers\":2,"
                           "\"intermediate_size\":172,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
                           "\"head_dim\":32,\"max_position_embeddings\":128}");
    assert_true(a.arch == LS_ARCH_QWEN3 && a.qk_norm && a.head_size == 32 && a.kv_heads == 2 && a.eps == 1e-6);
    json_t *json = ls_shape_to_hf(&a);
    assert_string_equal(json_string_value(json_object_get(json, "model_type")), "qwen3");
    ls_shape back = a;
    assert_int_equal(ls_shape_from_json(json, "m/config.json", &back), LS_OK);
    assert_same(&a, &back);
    json_decref(json);
}

#define ROTARY_SIZES                                                                                                   \
    "\"vocab_size\":300,\"hidden_size\":64,\"num_hidden_layers\":6,\"intermediate_size\":172,"                         \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"max_position_embeddings\":128"

/* Reads a config.json, and checks that it is the same after writing. */
static ls_shape read_and_return(const char *text) {
    ls_shape a = read_text("m/config.json", text), back = a;
    json_t *json = ls_shape_to_hf(&a);
    assert_int_equal(ls_shape_from_json(json, "m/config.json", &back), LS_OK);
    json_decref(json);
    assert_same(&a, &back);
    assert_int_equal(ls_shape_check_hf(&a), LS_OK);
    return a;
}

static void test_hugging_face_qwen2(void **state) {
    (void)state;
    ls_shape a = read_and_return("{\"model_type\":\"qwen2\"," ROTARY_SIZES ",\"use_sliding_window\":false,"
                                 "\"sliding_window\":4096,\"max_window_layers\":28}");
    assert_true(a.arch == LS_ARCH_QWEN2 && a.attention_bias && a.qkv_bias_only && !a.mlp_bias && a.eps == 1e-6);
    a.qkv_bias_only = false;
    assert_int_equal(ls_shape_check_hf(&a), LS_ERR_INPUT);
    refuse_text("m/config.json", "{\"model_type\":\"qwen2\"," ROTARY_SIZES ",\"use_sliding_window\":true}",
                "\"use_sliding_window\" is true");
}

static void test_hugging_face_phi3(void **state) {
    (void)state;
    ls_shape a = read_and_return("{\"model_type\":\"phi3\"," ROTARY_SIZES ",\"partial_rotary_factor\":0.75}");
    assert_true(a.arch == LS_ARCH_PHI3 && a.eps == 1e-5 && a.rope_share == 0.75 && ls_shape_rotated(&a) == 12);
    a = read_and_return("{\"model_type\":\"phi3\"," ROTARY_SIZES
                        ",\"rope_parameters\":{\"partial_rotary_factor\":1.0}}");
    assert_true(a.rope_share == 0 && ls_shape_rotated(&a) == 16);
    refuse_text("m/config.json", "{\"model_type\":\"phi3\"," ROTARY_SIZES ",\"partial_rotary_factor\":0.2}",
                "rope-share 0.2 of a head-size of 16 is 3 columns");
    refuse_text("m/config.json", "{\"model_type\":\"phi3\"," ROTARY_SIZES ",\"partial_rotary_factor\":1.5}",
                "it must be above 0 and at most 1");
    refuse_text("m/config.json", "{\"model_type\":\"phi3\"," ROTARY_SIZES ",\"sliding_window\":2047}",
                "sliding-window");
}

static void test_hugging_face_smollm3(void **state) {
    (void)state;
    ls_shape a = read_and_return("{\"model_type\":\"smollm3\"," ROTARY_SIZES ",\"rope_theta\":5e6}");
    assert_true(a.arch == LS_ARCH_SMOLLM3 && a.tied && a.rope_bases.count == 4);
    for (size_t i = 0; i < 6; i++) assert_true(ls_layer(&a, i).rotates == (i != 3));
    assert_true(ls_layer(&a, 4).rope.base == 5e6);
    a = read_and_return("{\"model_type\":\"smollm3\"," ROTARY_SIZES ",\"no_rope_layers\":[1,1,1,1,1,1]}");
    assert_true(a.rope_bases.count == 0 && ls_layer(&a, 3).rotates);
    refuse_text("m/config.json", "{\"model_type\":\"smollm3\"," ROTARY_SIZES ",\"no_rope_layers\":[1,0]}",
                "must have an entry for each of the 6 layers");
    a.rope_bases = (ls_layer_list){3, {2e6, 10000, 0}}; /* two bases: no key for that */
    a.rope.base = 2e6;
    assert_int_equal(ls_shape_check_hf(&a), LS_ERR_INPUT);
}

static void test_hugging_face_starcoder2(void **state) {
    (void)state;
    ls_shape a = read_and_return("{\"model_type\":\"starcoder2\"," ROTARY_SIZES ",\"norm_epsilon\":1e-6}");
    assert_true(a.arch == LS_ARCH_STARCODER2 && a.attention_bias && a.mlp_bias && a.tied && a.eps == 1e-6);
    a = read_and_return("{\"model_type\":\"starcoder2\"," ROTARY_SIZES ",\"use_bias\":false}");
    assert_true(!a.attention_bias && !a.mlp_bias);
    refuse_text("m/config.json", "{\"model_type\":\"starcoder2\"," ROTARY_SIZES ",\"hidden_act\":\"relu\"}",
                "\"relu\"");
}

static void test_what_hugging_face_has_and_we_have_not(void **state) {
    (void)state;
    refuse_text(
        "config.json", "{\"model_type\":\"bert\"}",
        "model type \"bert\" is not supported; \"gpt2\", \"llama\", \"mistral\", \"qwen2\", \"qwen3\", \"phi3\", "
        "\"smollm3\" and \"starcoder2\" are");
    refuse_text("config.json", "{\"architectures\":[\"X\"]}", "field \"model_type\" is missing");
    refuse_text("config.json", "{\"model_type\":\"gpt2\"}", "field \"vocab_size\" is missing");
    refuse_text("config.json", "{\"model_type\":7}", "\"model_type\" is a whole number");
    refuse_text("config.json", "{" GPT2_SIZES ",\"activation_function\":\"relu\"}",
                "\"activation_function\" is \"relu\"");
    refuse_text("config.json", "{" GPT2_SIZES ",\"activation_function\":\"gelu\"}", "only \"gelu_new\"");
    refuse_text("config.json", "{" GPT2_SIZES ",\"scale_attn_weights\":false}", "\"scale_attn_weights\" is false");
    refuse_text("config.json", "{" GPT2_SIZES ",\"scale_attn_by_inverse_layer_idx\":true}", "only false is supported");
    refuse_text("config.json", "{" GPT2_SIZES ",\"reorder_and_upcast_attn\":true}", "\"reorder_and_upcast_attn\"");
    refuse_text("config.json", "{" GPT2_SIZES ",\"add_cross_attention\":true}", "\"add_cross_attention\"");
    refuse_text("config.json", "{" GPT2_SIZES ",\"quantization_config\":{}}", "quantized weights are not supported");
    refuse_text("config.json",
                "{\"model_type\":\"gpt2\",\"vocab_size\":3,\"n_embd\":61,\"n_layer\":1,\"n_head\":3,\"n_positions\":1}",
                "\"n_head\" (3) must divide \"n_embd\" (61)");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"hidden_act\":\"gelu\"}", "\"hidden_act\" is \"gelu\"");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"num_key_value_heads\":3}",
                "4 heads cannot be divided evenly among 3 kv-heads");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"num_key_value_heads\":0}", "kv-heads is 0");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"head_dim\":15}", "head-size is 15");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"sliding_window\":64}", "sliding-window attention is not supported");
    refuse_text("config.json", "{" MISTRAL_SIZES ",\"sliding_window\":4096}",
                "\"sliding_window\" is 4096: sliding-window attention is not supported");
    refuse_text("config.json", "{" MISTRAL_SIZES "}", "\"sliding_window\" is absent, which means 4096");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"partial_rotary_factor\":0.5}", "only 1 is supported");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
                "\"rope_scaling\": the RoPE type \"linear\" is not supported");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"rope_parameters\":{\"rope_type\":\"yarn\"}}",
                "\"rope_parameters\": the RoPE type \"yarn\" is not supported");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"rope_scaling\":{\"rope_type\":\"llama3\"}}",
                "\"factor\" is missing");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"rope_scaling\":[]}", "must be null or an object");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"rope_theta\":0}", "rope-base is 0");
}

static void test_hugging_face_form_reads_back(void **state) {
    (void)state;
    for (int i = 0; ls_shape_preset_name(i); i++) {
        ls_shape shape, back;
        assert_int_equal(ls_shape_preset(ls_shape_preset_name(i), &shape), LS_OK);
        if (ls_shape_sees_images(&shape)) continue;
        json_t *json = ls_shape_to_hf(&shape);
        char source[96];
        snprintf(source, sizeof source, "x/%s/config.json", shape.name);
        assert_int_equal(ls_shape_from_json(json, source, &back), LS_OK);
        assert_same(&shape, &back);
        json_decref(json);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hugging_face_gpt2),
        cmocka_unit_test(test_hugging_face_llama),
        cmocka_unit_test(test_hugging_face_mistral),
        cmocka_unit_test(test_hugging_face_qwen3),
        cmocka_unit_test(test_hugging_face_qwen2),
        cmocka_unit_test(test_hugging_face_phi3),
        cmocka_unit_test(test_hugging_face_smollm3),
        cmocka_unit_test(test_hugging_face_starcoder2),
        cmocka_unit_test(test_what_hugging_face_has_and_we_have_not),
        cmocka_unit_test(test_hugging_face_form_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
