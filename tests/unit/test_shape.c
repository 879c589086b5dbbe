/* test_shape.c: presets have the published number of parameters; files are read as docs/reference/models.md says;
 * whatever is wrong with one is named. */
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
#include "shapes.h"

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
        {"gpt3-6.7b", 6658404352},
        {"gpt3-13b", 12853386240},
        {"gpt3-175b", 174604259328},
        {"llama-160m", 162417408},
        {"llama-1b", 1235814400},
        {"llama-7b", 6738415616},
        {"llama-8b", 8030261248},
        {"llama-13b", 13015864320},
        {"llama-30b", 32528943616},
        {"llama-32b", 32233886720},
        {"llama-70b", 70553706496},
        {"llama-405b", 405853388800},
        {"lenet", 61706},
        {"lenet-sigmoid", 61706},
        /* and 2 · 4800 running statistics */
        {"resnet18", 11173962 + 9600},
        {"resnet18-imagenet", 11689512 - 990 * 513 + 9600},
        {"mlp", 784 * 256 + 256 + 256 * 10 + 10},
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
    assert_string_equal(
        ls_status_message(),
        "no preset is called 'xxxxxxxx'; choose one of: tiny, gpt2-124m, gpt2-355m, gpt2-774m, gpt2-1558m, "
        "gpt3-6.7b, gpt3-13b, gpt3-175b, llama-160m, llama-1b, llama-7b, llama-8b, llama-13b, llama-30b, llama-32b, "
        "llama-70b, llama-405b, lenet, "
        "lenet-sigmoid, resnet18, resnet18-imagenet, mlp");
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
    WITH(V = 0, "vocab is 0; it must be between 1 and 2147483647");
    WITH(V = (size_t)1 << 31, "vocab is 2147483648");
    WITH(C = 0, "width is 0");
    WITH(L = 0, "layers is 0");
    WITH(L = 1 << 20, "layers is 1048576; it must be between 1 and 16384");
    WITH(H = 0, "heads is 0");
    WITH(H = SIZE_MAX, "heads is");
    WITH(T = 0, "positions is 0");
    WITH(hidden = 0, "hidden is 0");
    WITH(kv_heads = 0, "kv-heads is 0");
    WITH(kv_heads = 5, "32 heads cannot be divided evenly among 5 kv-heads");
    WITH(kv_heads = 64, "32 heads cannot be divided evenly among 64 kv-heads");
    WITH(head_size = 0, "head-size is 0");
    WITH(head_size = 63, "head-size is 63; rotary embeddings (RoPE) need an even head-size");
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
    WITH(arch = LS_ARCH_GPT2, "rope-scaling applies to rotary positions only");
    WITH(arch = LS_ARCH_COUNT, "unknown architecture number 11");
    bad = good;
    bad.V = INT32_MAX;
    bad.C = bad.hidden = (size_t)1 << 24;
    bad.L = 16384;
    assert_bad(&bad, "too many parameters for any machine");
#undef WITH
}

/* The planner's formula and the list of parameters. */
static void test_the_formula_of_a_layer_is_its_list(void **state) {
    (void)state;
    for (int i = 0; ls_shape_preset_name(i); i++) {
        ls_shape shape;
        ls_model *model;
        double elems = 0;
        assert_int_equal(ls_shape_preset(ls_shape_preset_name(i), &shape), LS_OK);
        if (ls_shape_sees_images(&shape)) continue;
        assert_int_equal(ls_model_create(&shape, 1, &model), LS_OK);
        for (int p = 0; p < model->blocks[1].nparams; p++)
            if (model->blocks[1].param[p].kind == LS_PARAM_MATRIX)
                elems += (double)ls_param_elems(&model->blocks[1].param[p]);
        assert_true(elems == ls_shape_layer_matrix_elems(&shape));
        ls_model_destroy(model);
    }
}

static void test_values_by_layer(void **state) {
    (void)state;
#define LLAMA "\"preset\":\"llama-160m\""
    ls_shape one = read_text("a.json", "{" LLAMA "}"),
             two = read_text("b.json", "{" LLAMA ",\"rope-bases\":\"500,0,2.5e6\"}");
    assert_true(ls_layer(&one, 7).rotates && ls_layer(&one, 7).rope.base == 10000);
    assert_int_equal(ls_shape_rope_tables(&one), 1);
    assert_int_equal(ls_shape_rope_tables(&two), 3);
    assert_true(ls_layer(&two, 0).rope.base == 500 && !ls_layer(&two, 1).rotates &&
                ls_layer(&two, 5).rope.base == 2.5e6);
    json_t *json = ls_shape_to_json(&one);
    assert_null(json_object_get(json, "rope-bases"));
    json_decref(json);
    json = ls_shape_to_json(&two);
    assert_string_equal(json_string_value(json_object_get(json, "rope-bases")), "500,0,2500000");
    ls_shape back;
    assert_int_equal(ls_shape_from_json(json, "b.json", &back), LS_OK);
    assert_memory_equal(&two.rope_bases, &back.rope_bases, sizeof back.rope_bases);
    json_decref(json);
    refuse_text("a.json", "{\"preset\":\"tiny\",\"rope-bases\":\"1\"}", "rope-bases applies to rotary positions only");
    refuse_text("a.json", "{" LLAMA ",\"rope-bases\":\"\"}", "rope-bases is ''; it must be up to 16 numbers");
    refuse_text("a.json", "{" LLAMA ",\"rope-bases\":\"1,,2\"}", "rope-bases is '1,,2'");
    refuse_text("a.json", "{" LLAMA ",\"rope-bases\":\"1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17\"}",
                "up to 16 numbers");
    refuse_text("a.json", "{" LLAMA ",\"rope-bases\":\"10000,0.5\"}",
                "rope-bases has the value 0.5; a value must be 0 or");
#undef LLAMA
}

static void test_qwen3_has_norms_of_queries_and_keys(void **state) {
    (void)state;
#define SIZES "\"vocab\":9,\"width\":8,\"layers\":1,\"heads\":2,\"hidden\":8,\"positions\":4"
    ls_shape qwen3 = read_text("a.json", "{\"arch\":\"qwen3\"," SIZES "}");
    ls_shape llama = read_text("a.json", "{\"arch\":\"llama\"," SIZES ",\"qk-norm\":true}");
    assert_true(qwen3.qk_norm && llama.qk_norm);
    assert_true(ls_shape_qk_norm_elems(&qwen3) == 8);
    json_t *json = ls_shape_to_json(&qwen3);
    assert_null(json_object_get(json, "qk-norm")); /* the family's usual value is not written */
    json_decref(json);
    json = ls_shape_to_json(&llama);
    assert_true(json_is_true(json_object_get(json, "qk-norm")));
    json_decref(json);
    ls_model *model;
    assert_int_equal(ls_model_create(&qwen3, 2, &model), LS_OK);
    const ls_param *weight = ls_model_find(model, "blocks.0.attn.k_norm.weight");
    assert_true(weight && weight->rows == 4 && weight->of_slices && !weight->decay);
    ls_model_destroy(model);
    assert_int_equal(ls_shape_check_hf(&qwen3), LS_OK);
    assert_int_equal(ls_shape_check_hf(&llama), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "has qk-norm true, which Hugging Face's LlamaForCausalLM cannot have"));
    refuse_text("a.json", "{\"preset\":\"tiny\",\"qk-norm\":true}", "qk-norm applies to rotary positions only");
#undef SIZES
}

static void test_the_gate_may_be_gelu(void **state) {
    (void)state;
    ls_shape silu = read_text("a.json", "{\"preset\":\"llama-160m\"}"), back;
    ls_shape gelu = read_text("a.json", "{\"preset\":\"llama-160m\",\"gelu-gate\":true}");
    assert_false(silu.gelu_gate);
    assert_true(gelu.gelu_gate);
    json_t *json = ls_shape_to_json(&silu);
    assert_null(json_object_get(json, "gelu-gate")); /* models from before the field keep their identity */
    json_decref(json);
    json = ls_shape_to_json(&gelu);
    assert_int_equal(ls_shape_from_json(json, "a.json", &back), LS_OK);
    assert_true(back.gelu_gate);
    json_decref(json);
    refuse_text("a.json", "{\"preset\":\"tiny\",\"gelu-gate\":true}",
                "gelu-gate applies to gated MLPs only; this model has arch gpt2");
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
    refuse_text("a.json", "{}",
                "arch is missing; choose gpt2, llama, mistral, qwen2, qwen3, phi3, smollm3, starcoder2, lenet, "
                "resnet18 or mlp");
    refuse_text("a.json", "{\"arch\":\"gpt2\"}", "vocab is missing; set it, or name a preset");
    refuse_text("a.json", "{\"arch\":\"gpt2\",\"classes\":3," SIZES "}",
                "classes applies to image models only; this model has arch gpt2");
    refuse_text("a.json", "{\"arch\":\"lenet\",\"vocab\":3}",
                "vocab applies to transformers only; this model has arch lenet");
    refuse_text("a.json", "{\"arch\":\"lenet\",\"widths\":\"3\"}", "widths applies to mlp only");
    refuse_text("a.json", "{\"arch\":\"mlp\",\"sigmoid\":true}", "sigmoid applies to lenet only");
    refuse_text("a.json", "{\"arch\":\"mlp\",\"small\":true}", "small applies to resnet18 only");
    refuse_text("a.json", "{\"arch\":\"mlp\",\"widths\":\"3,,4\"}", "widths is '3,,4'; it must be up to 32 numbers");
    refuse_text("a.json", "{\"arch\":\"mlp\",\"widths\":\"99999999999\"}", "a hidden layer is 99999999999");
    refuse_text("a.json", "{\"arch\":\"lenet\",\"image-height\":11}", "images of 11 × 28 are too small for LeNet");
    refuse_text("a.json", "{\"arch\":\"lenet\",\"classes\":0}", "classes is 0");
    refuse_text("a.json", "{\"arch\":\"resnet18\",\"channels\":5000}", "channels is 5000");
    refuse_text("a.json", "{" SIZES "}",
                "arch is missing; choose gpt2, llama, mistral, qwen2, qwen3, phi3, smollm3, starcoder2, lenet, "
                "resnet18 or mlp");
    refuse_text("a.json", "{\"arch\":\"bert\"," SIZES "}",
                "arch is 'bert'; it must be gpt2, llama, mistral, qwen2, qwen3, phi3, smollm3, starcoder2, lenet, "
                "resnet18 or mlp");
    refuse_text("a.json", "{\"arch\":3," SIZES "}", "field \"arch\" is a whole number; it must be a string");
    refuse_text("a.json", "{\"arch\":\"llama\"," SIZES "}", "hidden is missing; a llama shape with width needs it");
    refuse_text("a.json", "{\"preset\":\"tinny\"}", "did you mean tiny?");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"arch\":\"llama\"}", "but preset");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"widht\":64}", "unknown name 'widht'; did you mean width?");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"q\":64}", "unknown name 'q'; docs/reference/models.md lists");
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
    refuse_text("a.json", "{\"preset\":\"tiny\",\"kv-heads\":3}", "8 heads cannot be divided evenly among 3 kv-heads");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"tied\":1}", "\"tied\" is a whole number; it must be true or false");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"rope-base\":10000}", "rope-base applies to rotary positions only");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"rope-scaling\":{}}", "rope-scaling applies to rotary positions only");
    refuse_text("a.json", "{\"preset\":\"llama-160m\",\"rope-scaling\":{\"factor\":2}}", "factor and original must be");
    refuse_text("a.json", "{\"preset\":\"llama-160m\",\"rope-scaling\":{\"facter\":2}}", "did you mean factor?");
    refuse_text("a.json", "{\"preset\":\"llama-160m\",\"rope-scaling\":true}", "it must be an object");
    refuse_text("a.json", "{\"preset\":\"llama-1b\",\"rope-scaling\":{\"factor\":0.5}}",
                "factor of rope-scaling is 0.5");
    refuse_text("a.json", "{\"preset\":\"llama-1b\",\"width\":1024}", "hidden is missing");
    refuse_text("a.json", "{\"preset\":\"tiny\",\"name\":\"\"}", "name has 0 bytes; it must have 1 to 63");
#undef SIZES
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
    refuse_text("a.yaml", "", "is empty");
    refuse_text("a.yaml", "\n# nothing\n", "is empty");
    refuse_text("a.yaml", "preset: tiny\nlayers: [1]\n", "a.yaml:2: a value must be a scalar or a mapping");
    refuse_text("a.yaml", "- tiny\n", "must be lines of names and values");
    refuse_text("a.yaml", "tiny\n", "must be lines of names and values");
    refuse_text("a.yaml", "preset: tiny\nlayers: 1\nlayers: 2\n", "a.yaml:3: layers is given twice");
    refuse_text("a.yaml", "preset: tiny\n---\npreset: tiny\n", "a.yaml:2: contains a second document");
    refuse_text("a.yaml", "preset: \"tiny\n", "is not YAML");
    refuse_text("a.yaml", "preset: tiny\nlayers:\n", "layers has no value");
    refuse_text("a.yaml", "preset: tiny\nlayers: two\n", "\"layers\" is a string");
    refuse_text("a.yaml", "preset: tiny\nlayers: \"2\"\n", "\"layers\" is a string");
    refuse_text("a.yaml", "preset: &a tiny\nname: *a\n", "not a list or an alias");
    refuse_text("a.yaml", "a: {b: {c: {d: {e: 1}}}}\n", "nested too deeply");
    refuse_text("a.yaml", "? [a]\n: 1\n", "a name must be a plain scalar");
    refuse_text("a.yaml", "preset: tiny\nname: \"a\\0b\"\n", "contains a NUL byte");
}
#endif

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
    assert_non_null(strstr(ls_status_message(), "there is no file or folder"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presets_have_the_published_size),
        cmocka_unit_test(test_presets_have_the_published_numbers),
        cmocka_unit_test(test_an_unknown_preset_names_the_nearest),
        cmocka_unit_test(test_every_contradiction_is_named),
        cmocka_unit_test(test_the_formula_of_a_layer_is_its_list),
        cmocka_unit_test(test_values_by_layer),
        cmocka_unit_test(test_qwen3_has_norms_of_queries_and_keys),
        cmocka_unit_test(test_the_gate_may_be_gelu),
        cmocka_unit_test(test_an_odd_head_size_is_fine_without_rotation),
        cmocka_unit_test(test_a_file_alone_needs_the_sizes_and_no_more),
        cmocka_unit_test(test_a_preset_is_a_start),
        cmocka_unit_test(test_bad_shape_files_are_refused),
        cmocka_unit_test(test_our_own_form_reads_back),
#ifdef LS_HAVE_YAML
        cmocka_unit_test(test_yaml_says_the_same_as_json),
        cmocka_unit_test(test_bad_yaml_is_refused),
#endif
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
