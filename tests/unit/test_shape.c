/* test_shape.c: presets have the published number of parameters; files are read as docs/models.md says; whatever is
 * wrong with one is named. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files.h"
#include "model/model.h"
#include "model/shape_file.h"

/* ---- presets ----------------------------------------------------------------------------------------------------- */

/* Counts as published by the makers of the models (tiny: counted by hand below). */
static void test_presets_have_the_published_size(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t elems;
    } rows[] = {
        /* tables 256·128 + 256·128; a block 2·256 + 128·384 + 384 + 128·128 + 128 + 128·512 + 512 + 512·128 + 128 */
        {"tiny", 65536 + 6 * (512 + 49536 + 16512 + 66048 + 65664) + 256},
        {"gpt2-124m", 124439808},
        {"gpt2-355m", 354823168},
        {"gpt2-774m", 774030080},
        {"gpt2-1558m", 1557611200},
        {"llama-160m", 162417408},
        {"llama-1b", 1235814400},
        {"llama-8b", 8030261248},
        {"llama-70b", 70553706496},
    };
    int count = 0;
    while (ls_shape_preset_name(count)) count++;
    assert_int_equal(count, sizeof rows / sizeof *rows);
    for (int i = 0; i < count; i++) {
        ls_shape shape;
        ls_model *model;
        assert_string_equal(ls_shape_preset_name(i), rows[i].name);
        assert_int_equal(ls_shape_preset(rows[i].name, &shape), LS_OK);
        assert_string_equal(shape.name, rows[i].name);
        assert_int_equal(ls_model_create(&shape, 1, &model), LS_OK);
        assert_int_equal(ls_model_elems(model), rows[i].elems);
        ls_model_destroy(model);
    }
    assert_null(ls_shape_preset_name(count));
    assert_null(ls_shape_preset_name(-1));
}

static void test_presets_have_the_published_numbers(void **state) {
    (void)state;
    ls_shape shape;
    assert_int_equal(ls_shape_preset("llama-1b", &shape), LS_OK);
    assert_true(shape.tied && shape.rope.scaled && shape.rope.factor == 32 && shape.rope.original_T == 8192);
    assert_true(shape.rope.base == 500000 && shape.rope.low_factor == 1 && shape.rope.high_factor == 4);
    assert_true(shape.eps == 1e-5 && shape.T == 131072 && shape.kv_heads == 8 && shape.head_size == 64);
    assert_int_equal(ls_shape_preset("llama-160m", &shape), LS_OK);
    assert_true(!shape.tied && !shape.rope.scaled && shape.rope.base == 10000 && shape.eps == 1e-6 && shape.T == 2048);
    assert_int_equal(ls_shape_preset("gpt2-1558m", &shape), LS_OK);
    assert_true(shape.tied && shape.attention_bias && shape.mlp_bias && shape.head_size == 64 && shape.T == 1024);
}

static void test_an_unknown_preset_names_the_nearest(void **state) {
    (void)state;
    ls_shape shape;
    assert_int_equal(ls_shape_preset("gpt2-124M", &shape), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "no preset is called 'gpt2-124M'; did you mean gpt2-124m?");
    assert_int_equal(ls_shape_preset("xxxxxxxx", &shape), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "no preset is called 'xxxxxxxx'; there are tiny, gpt2-124m, gpt2-355m, "
                                             "gpt2-774m, gpt2-1558m, llama-160m, llama-1b, llama-8b, llama-70b");
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static void assert_bad(const ls_shape *shape, const char *part) {
    ls_status status = ls_shape_check(shape);
    if (status != LS_ERR_INPUT || !strstr(ls_status_message(), part))
        fail_msg("%s: wanted '%s', got '%s'", ls_status_name(status), part, ls_status_message());
}

static void test_every_contradiction_is_named(void **state) {
    (void)state;
    ls_shape good, bad;
    assert_int_equal(ls_shape_preset("llama-1b", &good), LS_OK);
    assert_int_equal(ls_shape_check(&good), LS_OK);
#define WITH(change, part)                                                                                             \
    do {                                                                                                               \
        bad = good;                                                                                                    \
        bad.change;                                                                                                    \
        assert_bad(&bad, part);                                                                                        \
    } while (0)
    WITH(V = 0, "vocab is 0; it must be from 1 to 2147483647");
    WITH(V = (size_t)1 << 31, "vocab is 2147483648");
    WITH(C = 0, "width is 0");
    WITH(L = 0, "layers is 0");
    WITH(L = 1 << 20, "layers is 1048576; it must be from 1 to 16384");
    WITH(H = 0, "heads is 0");
    WITH(H = SIZE_MAX, "heads is");
    WITH(T = 0, "positions is 0");
    WITH(hidden = 0, "hidden is 0");
    WITH(kv_heads = 0, "kv-heads is 0");
    WITH(kv_heads = 5, "32 heads cannot share 5 kv-heads evenly");
    WITH(kv_heads = 64, "32 heads cannot share 64 kv-heads evenly");
    WITH(head_size = 0, "head-size is 0");
    WITH(head_size = 63, "head-size is 63; rotary positions turn pairs");
    WITH(head_size = (size_t)1 << 24, "heads × head-size is 536870912");
    WITH(eps = 0, "eps is 0");
    WITH(eps = 1, "eps is 1");
    WITH(eps = (double)NAN, "eps is nan");
    WITH(init_std = -1, "init-std is -1");
    WITH(init_std = (double)INFINITY, "init-std is inf");
    WITH(rope.base = 0, "rope-base is 0");
    WITH(rope.base = (double)NAN, "rope-base is nan");
    WITH(rope.factor = 0.5, "factor of rope-scaling is 0.5");
    WITH(rope.low_factor = 4, "low 4 and high 4");
    WITH(rope.low_factor = 0, "low 0 and high 4");
    WITH(rope.original_T = 0, "original of rope-scaling is 0");
    WITH(arch = LS_ARCH_GPT2, "rope-scaling is for llama");
    WITH(arch = LS_ARCH_COUNT, "no architecture number 2");
    bad = good;
    bad.V = INT32_MAX;
    bad.C = bad.hidden = (size_t)1 << 24;
    bad.L = 16384;
    assert_bad(&bad, "more weights than any machine holds");
#undef WITH
}

static void test_an_odd_head_size_is_fine_without_rotation(void **state) {
    (void)state;
    ls_shape shape;
    assert_int_equal(ls_shape_preset("tiny", &shape), LS_OK);
    shape.C = 120;
    shape.head_size = 15;
    assert_int_equal(ls_shape_check(&shape), LS_OK);
}

/* ---- own files --------------------------------------------------------------------------------------------------- */

static ls_shape read_text(const char *source, const char *text) {
    ls_shape shape;
    ls_status status = ls_shape_parse(source, text, strlen(text), &shape);
    if (status != LS_OK) fail_msg("%s gave '%s'", text, ls_status_message());
    return shape;
}

static void refuse_text(const char *source, const char *text, const char *part) {
    ls_shape shape = {.V = 77};
    ls_status status = ls_shape_parse(source, text, strlen(text), &shape);
    if (status != LS_ERR_INPUT || !strstr(ls_status_message(), part))
        fail_msg("%s\n%s: wanted '%s', got '%s'", text, ls_status_name(status), part, ls_status_message());
    if (strncmp(ls_status_message(), source, strlen(source)) != 0)
        fail_msg("'%s' does not name the file", ls_status_message());
    assert_int_equal(shape.V, 77);
}

static void test_a_file_alone_needs_the_sizes_and_no_more(void **state) {
    (void)state;
    ls_shape gpt = read_text(
        "a/my-model.json", "{\"arch\":\"gpt2\",\"vocab\":257,\"width\":96,\"layers\":3,\"heads\":6,\"positions\":64}");
    assert_string_equal(gpt.name, "my-model");
    assert_true(gpt.V == 257 && gpt.C == 96 && gpt.L == 3 && gpt.H == 6 && gpt.T == 64);
    assert_true(gpt.kv_heads == 6 && gpt.head_size == 16 && gpt.hidden == 384 && gpt.eps == 1e-5);
    assert_true(gpt.tied && gpt.attention_bias && gpt.mlp_bias && gpt.init_std == 0.02 && !gpt.rope.scaled);
    ls_shape llama = read_text("x.json", "{\"arch\":\"llama\",\"vocab\":257,\"width\":96,\"layers\":3,\"heads\":6,"
                                         "\"positions\":64,\"kv_heads\":2,\"hidden\":200,\"name\":\"small one\"}");
    assert_string_equal(llama.name, "small one");
    assert_true(llama.kv_heads == 2 && llama.head_size == 16 && llama.hidden == 200 && llama.rope.base == 10000);
    assert_true(!llama.tied && !llama.attention_bias && !llama.mlp_bias && !llama.rope.scaled);
}

static void test_a_preset_is_a_start(void **state) {
    (void)state;
    ls_shape a = read_text("a.json", "{\"preset\":\"gpt2-124m\",\"vocab\":50304,\"eps\":1e-6,\"tied\":false}");
    assert_true(a.V == 50304 && a.C == 768 && a.hidden == 3072 && a.head_size == 64 && a.eps == 1e-6 && !a.tied);
    assert_string_equal(a.name, "a");
    ls_shape b = read_text("b.json", "{\"preset\":\"gpt2-124m\",\"width\":1536}");
    assert_true(b.hidden == 6144 && b.head_size == 128 && b.kv_heads == 12);
    ls_shape c = read_text("c.json", "{\"preset\":\"gpt2-124m\",\"heads\":24}");
    assert_true(c.hidden == 3072 && c.head_size == 32 && c.kv_heads == 24);
    ls_shape d = read_text("d.json", "{\"preset\":\"llama-1b\",\"layers\":2,\"rope-scaling\":{\"factor\":8}}");
    assert_true(d.rope.scaled && d.rope.factor == 8 && d.rope.original_T == 8192 && d.kv_heads == 8 && d.L == 2);
    ls_shape e = read_text("e.json", "{\"preset\":\"llama-1b\",\"rope-scaling\":false,\"heads\":16}");
    assert_true(!e.rope.scaled && e.rope.base == 500000 && e.kv_heads == 8 && e.head_size == 128);
}

static void test_bad_shape_files_are_refused(void **state) {
    (void)state;
#define SIZES "\"vocab\":256,\"width\":128,\"layers\":2,\"heads\":8,\"positions\":32"
    refuse_text("a.json", "", "a.json:");
    refuse_text("a.json", "{", "a.json:1");
    refuse_text("a.json", "[1]", "must be an object");
    refuse_text("a.json", "{}", "vocab is missing; give it, or a preset");
    refuse_text("a.json", "{" SIZES "}", "arch is missing: gpt2 or llama");
    refuse_text("a.json", "{\"arch\":\"bert\"," SIZES "}", "arch is 'bert'; it must be gpt2 or llama");
    refuse_text("a.json", "{\"arch\":3," SIZES "}", "field \"arch\" is a whole number; it must be a string");
    refuse_text("a.json", "{\"arch\":\"llama\"," SIZES "}", "hidden is missing; a llama shape needs it");
    refuse_text("a.json", "{\"preset\":\"tinny\"}", "did you mean tiny?");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"arch\":\"llama\"}", "but the preset");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"widht\":64}", "unknown name 'widht'; did you mean width?");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"q\":64}", "unknown name 'q'; docs/models.md lists");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"width\":64,\"width\":65}", "duplicate");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"kv-heads\":8,\"kv_heads\":4}", "kv-heads is given twice");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"width\":null}", "width has no value");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"width\":\"64\"}", "\"width\" is a string; it must be a whole number");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"width\":64.5}", "it must be a whole number");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"width\":-64}", "\"width\" is -64; it must not be negative");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"width\":99999999999999999999}", "too big");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"width\":9223372036854775807}", "must divide width");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"width\":9223372036854775800}", "width is 9223372036854775800");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"width\":100}", "heads (8) must divide width (100)");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"heads\":0}", "heads (0) must divide width (128)");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"kv-heads\":3}", "8 heads cannot share 3 kv-heads");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"tied\":1}", "\"tied\" is a whole number; it must be true or false");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"rope-base\":10000}", "rope-base is for llama");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"rope-scaling\":{}}", "rope-scaling is for llama");
    refuse_text("a.json", "{\"preset\":\"llama-160m\",\"rope-scaling\":{\"factor\":2}}", "factor and original must be");
    refuse_text("a.json", "{\"preset\":\"llama-160m\",\"rope-scaling\":{\"facter\":2}}", "did you mean factor?");
    refuse_text("a.json", "{\"preset\":\"llama-160m\",\"rope-scaling\":true}", "it must be an object");
    refuse_text("a.json", "{\"preset\":\"llama-1b\",\"rope-scaling\":{\"factor\":0.5}}",
                "factor of rope-scaling is 0.5");
    refuse_text("a.json", "{\"preset\":\"llama-1b\",\"width\":1024}", "hidden is missing");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"name\":\"\"}", "name must have from 1 to 63 bytes");
#undef SIZES
}

static void assert_same(const ls_shape *a, const ls_shape *b) {
    assert_string_equal(a->name, b->name);
    assert_true(a->arch == b->arch && a->V == b->V && a->C == b->C && a->L == b->L && a->H == b->H && a->T == b->T);
    assert_true(a->kv_heads == b->kv_heads && a->head_size == b->head_size && a->hidden == b->hidden);
    assert_true(a->tied == b->tied && a->attention_bias == b->attention_bias && a->mlp_bias == b->mlp_bias);
    assert_true(a->eps == b->eps && a->init_std == b->init_std && a->rope.base == b->rope.base);
    assert_true(a->rope.scaled == b->rope.scaled && a->rope.factor == b->rope.factor);
    assert_true(a->rope.low_factor == b->rope.low_factor && a->rope.high_factor == b->rope.high_factor);
    assert_int_equal(a->rope.original_T, b->rope.original_T);
}

static void test_our_own_form_reads_back(void **state) {
    (void)state;
    for (int i = 0; ls_shape_preset_name(i); i++) {
        ls_shape shape, back;
        assert_int_equal(ls_shape_preset(ls_shape_preset_name(i), &shape), LS_OK);
        shape.eps = 0.1 + 0.2 * 1e-9; /* a number without a short form */
        json_t *json = ls_shape_to_json(&shape);
        char *text = json_dumps(json, 0);
        assert_int_equal(ls_shape_parse("back.json", text, strlen(text), &back), LS_OK);
        assert_same(&shape, &back);
        free(text);
        json_decref(json);
    }
}

/* ---- YAML -------------------------------------------------------------------------------------------------------- */

#ifdef LS_HAVE_YAML
static void test_yaml_says_the_same_as_json(void **state) {
    (void)state;
    ls_shape yaml = read_text("m.yaml", "# a comment\narch: llama\nvocab: 1000\nwidth: 64\nlayers: 2\nheads: 4\n"
                                        "kv-heads: 2\nhidden: 172\npositions: 4096\ntied: yes\neps: 1e-6\n"
                                        "rope-base: 500000.0\nrope-scaling:\n  factor: 8\n  low: 1\n  high: 4\n"
                                        "  original: 512\nname: \"m\"\n");
    ls_shape json = read_text("m", "{\"arch\":\"llama\",\"vocab\":1000,\"width\":64,\"layers\":2,\"heads\":4,"
                                   "\"kv-heads\":2,\"hidden\":172,\"positions\":4096,\"tied\":true,\"eps\":1e-6,"
                                   "\"rope-base\":500000,\"rope-scaling\":{\"factor\":8.0,\"original\":512}}");
    assert_same(&yaml, &json);
    assert_true(yaml.tied && yaml.rope.scaled && yaml.rope.original_T == 512 && yaml.rope.high_factor == 4);
    ls_shape flow = read_text("f.yaml", "{preset: tiny, layers: 2}");
    assert_int_equal(flow.L, 2);
}

static void test_bad_yaml_is_refused(void **state) {
    (void)state;
    refuse_text("a.yaml", "", "holds nothing");
    refuse_text("a.yaml", "\n# nothing\n", "holds nothing");
    refuse_text("a.yaml", "preset: tiny\nlayers: [1]\n", "a.yaml:2: a value must be plain or a mapping");
    refuse_text("a.yaml", "- tiny\n", "must be lines of names and values");
    refuse_text("a.yaml", "tiny\n", "must be lines of names and values");
    refuse_text("a.yaml", "preset: tiny\nlayers: 1\nlayers: 2\n", "a.yaml:3: layers is given twice");
    refuse_text("a.yaml", "preset: tiny\n---\npreset: tiny\n", "a.yaml:2: has a second document");
    refuse_text("a.yaml", "preset: \"tiny\n", "is not YAML");
    refuse_text("a.yaml", "preset: tiny\nlayers:\n", "layers has no value");
    refuse_text("a.yaml", "preset: tiny\nlayers: two\n", "\"layers\" is a string");
    refuse_text("a.yaml", "preset: tiny\nlayers: \"2\"\n", "\"layers\" is a string");
    refuse_text("a.yaml", "preset: &a tiny\nname: *a\n", "not a list or an alias");
    refuse_text("a.yaml", "a: {b: {c: {d: {e: 1}}}}\n", "nested too deeply");
    refuse_text("a.yaml", "? [a]\n: 1\n", "a name must be plain text");
    refuse_text("a.yaml", "preset: tiny\nname: \"a\\0b\"\n", "holds a zero byte");
}
#endif

/* ---- Hugging Face ------------------------------------------------------------------------------------------------ */

#define GPT2_SIZES                                                                                                     \
    "\"model_type\":\"gpt2\",\"vocab_size\":300,\"n_embd\":60,\"n_layer\":2,\"n_head\":3,\"n_positions\":17"
#define LLAMA_SIZES                                                                                                    \
    "\"model_type\":\"llama\",\"vocab_size\":300,\"hidden_size\":64,\"intermediate_size\":172,\"num_hidden_layers\":"  \
    "2,"                                                                                                               \
    "\"num_attention_heads\":4,\"max_position_embeddings\":128"

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
}

static void test_what_hugging_face_has_and_we_have_not(void **state) {
    (void)state;
    refuse_text("config.json", "{\"model_type\":\"bert\"}",
                "the model type \"bert\" is not supported; \"gpt2\" and \"llama\" are");
    refuse_text("config.json", "{\"architectures\":[\"X\"]}", "field \"model_type\" is missing");
    refuse_text("config.json", "{\"model_type\":\"gpt2\"}", "field \"vocab_size\" is missing");
    refuse_text("config.json", "{\"model_type\":7}", "\"model_type\" is a whole number");
    refuse_text("config.json", "{" GPT2_SIZES ",\"activation_function\":\"relu\"}",
                "\"activation_function\" is \"relu\"");
    refuse_text("config.json", "{" GPT2_SIZES ",\"activation_function\":\"gelu\"}", "supported are \"gelu_new\"");
    refuse_text("config.json", "{" GPT2_SIZES ",\"scale_attn_weights\":false}", "\"scale_attn_weights\" is false");
    refuse_text("config.json", "{" GPT2_SIZES ",\"scale_attn_by_inverse_layer_idx\":true}", "only false is supported");
    refuse_text("config.json", "{" GPT2_SIZES ",\"reorder_and_upcast_attn\":true}", "\"reorder_and_upcast_attn\"");
    refuse_text("config.json", "{" GPT2_SIZES ",\"add_cross_attention\":true}", "\"add_cross_attention\"");
    refuse_text("config.json", "{" GPT2_SIZES ",\"quantization_config\":{}}", "quantized weights are not supported");
    refuse_text("config.json",
                "{\"model_type\":\"gpt2\",\"vocab_size\":3,\"n_embd\":61,\"n_layer\":1,\"n_head\":3,\"n_positions\":1}",
                "\"n_head\" (3) must divide \"n_embd\" (61)");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"hidden_act\":\"gelu\"}", "\"hidden_act\" is \"gelu\"");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"num_key_value_heads\":3}", "4 heads cannot share 3 kv-heads");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"num_key_value_heads\":0}", "kv-heads is 0");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"head_dim\":15}", "head-size is 15");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"sliding_window\":64}", "windows of attention are not supported");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"partial_rotary_factor\":0.5}", "only 1 is supported");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
                "\"rope_scaling\": the type \"linear\" is not supported");
    refuse_text("config.json", "{" LLAMA_SIZES ",\"rope_parameters\":{\"rope_type\":\"yarn\"}}",
                "\"rope_parameters\": the type \"yarn\" is not supported");
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
        json_t *json = ls_shape_to_hf(&shape);
        char source[96];
        snprintf(source, sizeof source, "x/%s/config.json", shape.name);
        assert_int_equal(ls_shape_from_json(json, source, &back), LS_OK);
        assert_same(&shape, &back);
        json_decref(json);
    }
}

static void test_files(void **state) {
    (void)state;
    char path[] = "/tmp/test_shape-XXXXXX.json";
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    close(fd);
    const char *text = "{\"preset\": \"tiny\", \"layers\": 3}";
    assert_int_equal(ls_file_write_atomic(path, text, strlen(text)), LS_OK);
    ls_shape shape;
    assert_int_equal(ls_shape_read(path, &shape), LS_OK);
    assert_int_equal(shape.L, 3);
    unlink(path);
    assert_int_equal(ls_shape_read(path, &shape), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "cannot open"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presets_have_the_published_size),
        cmocka_unit_test(test_presets_have_the_published_numbers),
        cmocka_unit_test(test_an_unknown_preset_names_the_nearest),
        cmocka_unit_test(test_every_contradiction_is_named),
        cmocka_unit_test(test_an_odd_head_size_is_fine_without_rotation),
        cmocka_unit_test(test_a_file_alone_needs_the_sizes_and_no_more),
        cmocka_unit_test(test_a_preset_is_a_start),
        cmocka_unit_test(test_bad_shape_files_are_refused),
        cmocka_unit_test(test_our_own_form_reads_back),
#ifdef LS_HAVE_YAML
        cmocka_unit_test(test_yaml_says_the_same_as_json),
        cmocka_unit_test(test_bad_yaml_is_refused),
#endif
        cmocka_unit_test(test_hugging_face_gpt2),
        cmocka_unit_test(test_hugging_face_llama),
        cmocka_unit_test(test_what_hugging_face_has_and_we_have_not),
        cmocka_unit_test(test_hugging_face_form_reads_back),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
