/* test_exchange.c: weights of Hugging Face become ours and go back, to the byte. */
#include "exchange.h"

#include "checkpoint/store.h"
#include "interop/hf.h"
#include "interop/save.h"
#include "interop/weights.h"

/* ---- Hugging Face ------------------------------------------------------------------------------------------------ */

/* Element [row][column] of one of our parameters. */
static float our_value(ls_weights *weights, const char *name, size_t row, size_t column) {
    static float data[64];
    const ls_param *param = ls_model_find(ls_weights_model(weights), name);
    assert_non_null(param);
    assert_int_equal(ls_weights_read(weights, param, row, 1, data), LS_OK);
    return data[column];
}

static void check_gpt2_values(ls_weights *weights) {
    for (size_t r = 0; r < 18; r++) /* ours is [out][in], theirs [in][out] */
        for (size_t c = 0; c < 6; c++)
            assert_true(our_value(weights, "blocks.0.attn.qkv.weight", r, c) ==
                        value_at("transformer.h.0.attn.c_attn.weight", c * 18 + r));
    for (size_t r = 0; r < 6; r++)
        for (size_t c = 0; c < 6; c++)
            assert_true(our_value(weights, "blocks.0.attn.out.weight", r, c) ==
                        value_at("transformer.h.0.attn.c_proj.weight", r * 6 + c));
    for (size_t r = 0; r < 10; r++) {
        for (size_t c = 0; c < 6; c++) {
            assert_true(our_value(weights, "blocks.0.mlp.in.weight", r, c) ==
                        value_at("transformer.h.0.mlp.c_fc.weight", c * 10 + r));
            assert_true(our_value(weights, "blocks.0.mlp.out.weight", r, c) ==
                        value_at("transformer.h.0.mlp.c_proj.weight", r * 6 + c));
        }
        assert_true(our_value(weights, "blocks.0.mlp.in.bias", r, 0) == value_at("transformer.h.0.mlp.c_fc.bias", r));
    }
    assert_true(our_value(weights, "positions.weight", 4, 5) == value_at("transformer.wpe.weight", 29));
    assert_true(our_value(weights, "norm.bias", 3, 0) == value_at("transformer.ln_f.bias", 3));
}

static void test_gpt2_is_read_and_turned(void **state) {
    (void)state;
    static const ls_dtype types[] = {LS_F32, LS_BF16, LS_F16};
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "gpt2-%d", i);
        ls_weights *weights = open_weights(put_model(name, GPT2_CONFIG, gpt2_tensors, GPT2_COUNT, types[i]));
        assert_int_equal(ls_weights_kind_of(weights), LS_WEIGHTS_HF);
        assert_string_equal(ls_weights_shape(weights)->name, name);
        assert_null(ls_weights_tokenizer(weights));
        check_gpt2_values(weights);
        ls_weights_close(weights);
    }
}

static void test_llama_is_joined(void **state) {
    (void)state;
    ls_weights *weights = open_weights(put_model("llama", LLAMA_CONFIG, llama_tensors, LLAMA_COUNT, LS_F32));
    float rows[16 * 6];
    const ls_param *qkv = ls_model_find(ls_weights_model(weights), "blocks.0.attn.qkv.weight");
    assert_int_equal(qkv->rows, 16);
    assert_int_equal(ls_weights_read(weights, qkv, 0, 16, rows), LS_OK);
    for (size_t i = 0; i < 96; i++) {
        const char *name = i < 48   ? "model.layers.0.self_attn.q_proj.weight"
                           : i < 72 ? "model.layers.0.self_attn.k_proj.weight"
                                    : "model.layers.0.self_attn.v_proj.weight";
        assert_true(rows[i] == value_at(name, i < 48 ? i : i < 72 ? i - 48 : i - 72));
    }
    float again[4 * 6]; /* a piece that begins in q and ends in k */
    assert_int_equal(ls_weights_read(weights, qkv, 6, 4, again), LS_OK);
    assert_memory_equal(again, rows + 36, sizeof again);
    for (size_t r = 0; r < 8; r++)
        for (size_t c = 0; c < 6; c++)
            assert_true(our_value(weights, "blocks.0.attn.out.weight", r, c) ==
                        value_at("model.layers.0.self_attn.o_proj.weight", c * 8 + r));
    for (size_t r = 0; r < 7; r++)
        for (size_t c = 0; c < 6; c++) {
            assert_true(our_value(weights, "blocks.0.mlp.in.weight", r, c) ==
                        value_at("model.layers.0.mlp.gate_proj.weight", r * 6 + c));
            assert_true(our_value(weights, "blocks.0.mlp.in.weight", r + 7, c) ==
                        value_at("model.layers.0.mlp.up_proj.weight", r * 6 + c));
            assert_true(our_value(weights, "blocks.0.mlp.out.weight", r, c) ==
                        value_at("model.layers.0.mlp.down_proj.weight", c * 7 + r));
        }
    assert_true(our_value(weights, "head.weight", 10, 5) == value_at("lm_head.weight", 65));
    assert_int_equal(ls_weights_read(weights, qkv, 10, 7, rows), LS_ERR_INPUT);
    ls_weights_close(weights);
}

static void round_trip(const char *name, const char *config, const fixture_tensor *tensors, int count, ls_dtype dtype) {
    char source[300], middle[320], out[320], file[400];
    snprintf(source, sizeof source, "%s", put_model(name, config, tensors, count, dtype));
    snprintf(middle, sizeof middle, "%s-checkpoint", source);
    snprintf(out, sizeof out, "%s-out", source);
    ls_weights *weights = open_weights(source);
    assert_int_equal(ls_weights_save(weights, middle, NULL), LS_OK);
    ls_weights_close(weights);
    weights = open_weights(middle);
    assert_int_equal(ls_weights_kind_of(weights), LS_WEIGHTS_CHECKPOINT);
    assert_int_equal(ls_weights_step(weights), 0);
    ls_hf_export_options options = {.dtype = dtype, .token_ids = ls_weights_token_ids(weights)};
    assert_int_equal(ls_hf_export(out, ls_weights_model(weights), &options, ls_weights_read, weights), LS_OK);
    ls_weights_close(weights);
    snprintf(file, sizeof file, "%s/model.safetensors", out);
    assert_tensors(file, tensors, count, dtype);
    snprintf(file, sizeof file, "%s/config.json", out);
    json_t *json;
    assert_int_equal(ls_json_load_file(file, 65536, &json), LS_OK);
    if (strstr(config, "eos_token_id"))
        assert_int_equal(json_integer_value(json_object_get(json, "eos_token_id")), 10);
    else
        assert_null(json_object_get(json, "eos_token_id"));
    json_decref(json);
}

static void test_round_trips_keep_every_byte(void **state) {
    (void)state;
    round_trip("rt-gpt2", GPT2_CONFIG, gpt2_tensors, GPT2_COUNT, LS_F32);
    round_trip("rt-gpt2-bf16", GPT2_CONFIG, gpt2_tensors, GPT2_COUNT, LS_BF16);
    round_trip("rt-gpt2-fp16", GPT2_CONFIG, gpt2_tensors, GPT2_COUNT, LS_F16);
    round_trip("rt-llama", LLAMA_CONFIG, llama_tensors, LLAMA_COUNT, LS_F32);
    round_trip("rt-mistral", MISTRAL_CONFIG, llama_tensors, LLAMA_COUNT, LS_F32);
    round_trip("rt-llama-bf16", LLAMA_CONFIG, llama_tensors, LLAMA_COUNT, LS_BF16);
}

/* Shards of at most this size, or of one tensor; then read back through the index. */
static void test_shards(void **state) {
    (void)state;
    ls_weights *weights = open_weights(put_model("sh", LLAMA_CONFIG, llama_tensors, LLAMA_COUNT, LS_F32));
    ls_hf_export_options options = {.dtype = LS_F32, .shard_bytes = 300};
    assert_int_equal(ls_hf_export(in_folder("sh-out"), ls_weights_model(weights), &options, ls_weights_read, weights),
                     LS_OK);
    assert_false(ls_file_exists(in_folder("sh-out/model.safetensors")));
    assert_true(ls_file_exists(in_folder("sh-out/model.safetensors.index.json")));
    /* bytes 264, 24, 192, 96, 96, 192, 24, 168, 168, 168, 24, 264, so: 264+24 | 192+96 | 96+192 | 24+168 | 168 | 168+24
     * | 264 */
    assert_true(ls_file_exists(in_folder("sh-out/model-00007-of-00007.safetensors")));
    assert_tensors(in_folder("sh-out/model-00001-of-00007.safetensors"), llama_tensors, 2, LS_F32);
    assert_tensors(in_folder("sh-out/model-00002-of-00007.safetensors"), llama_tensors + 2, 2, LS_F32);
    assert_tensors(in_folder("sh-out/model-00007-of-00007.safetensors"), llama_tensors + 11, 1, LS_F32);
    ls_weights_close(weights);
    weights = open_weights(in_folder("sh-out"));
    assert_true(our_value(weights, "head.weight", 10, 5) == value_at("lm_head.weight", 65));
    ls_weights_close(weights);
}

/* Names without "transformer.", and buffers of older files. */
static void test_a_bare_model_with_buffers(void **state) {
    (void)state;
    fixture_tensor list[GPT2_COUNT + 2];
    ls_weights *weights;
    for (int i = 0; i < GPT2_COUNT; i++) {
        list[i] = gpt2_tensors[i];
        list[i].name += strlen("transformer.");
    }
    list[GPT2_COUNT] = (fixture_tensor){"h.0.attn.bias", 2, {5, 5}};
    list[GPT2_COUNT + 1] = (fixture_tensor){"h.0.attn.masked_bias", 0, {0, 0}};
    weights = open_weights(put_model("bare", GPT2_CONFIG, list, GPT2_COUNT + 1, LS_F32));
    assert_true(our_value(weights, "blocks.0.attn.qkv.weight", 17, 2) ==
                value_at("h.0.attn.c_attn.weight", 2 * 18 + 17));
    ls_weights_close(weights);
}

/* ---- tokenizers, runs, resolving --------------------------------------------------------------------------------- */

static void test_the_tokenizer_travels(void **state) {
    (void)state;
    put_model("tok", GPT2_CONFIG, gpt2_tensors, GPT2_COUNT, LS_F32);
    put_text(in_folder("tok/vocab.json"), "{\"a\":0}");
    put_text(in_folder("tok/tokenizer.model"), "of another kind");
    ls_weights *weights = open_weights(in_folder("tok"));
    assert_null(ls_weights_tokenizer(weights)); /* one file of two */
    assert_int_equal(ls_weights_save(weights, in_folder("tok-half"), NULL), LS_OK);
    assert_true(ls_file_exists(in_folder("tok-half/tokenizer.model")));
    ls_weights_close(weights);
    put_text(in_folder("tok/merges.txt"), "#version: 0.2\n");
    put_text(in_folder("tok/other.txt"), "stays");
    weights = open_weights(in_folder("tok"));
    assert_string_equal(ls_weights_tokenizer(weights), in_folder("tok"));
    assert_int_equal(ls_weights_save(weights, in_folder("tok-ck/"), NULL), LS_OK);
    ls_weights_close(weights);
    assert_true(ls_file_exists(in_folder("tok-ck/merges.txt")));
    assert_false(ls_file_exists(in_folder("tok-ck/other.txt")));
    weights = open_weights(in_folder("tok-ck"));
    assert_string_equal(ls_weights_tokenizer(weights), in_folder("tok-ck"));
    ls_hf_export_options options = {.dtype = LS_F32, .tokenizer = ls_weights_tokenizer(weights)};
    assert_int_equal(ls_hf_export(in_folder("tok-out"), ls_weights_model(weights), &options, ls_weights_read, weights),
                     LS_OK);
    assert_true(ls_file_exists(in_folder("tok-out/vocab.json")));
    assert_int_equal(ls_weights_save(weights, in_folder("tok-bytes"), "bytes"), LS_OK);
    ls_weights_close(weights);
    weights = open_weights(in_folder("tok-bytes"));
    assert_string_equal(ls_weights_tokenizer(weights), "bytes");
    options.tokenizer = "bytes";
    assert_int_equal(ls_hf_export(in_folder("tok-b"), ls_weights_model(weights), &options, ls_weights_read, weights),
                     LS_OK);
    assert_true(ls_file_exists(in_folder("tok-b/tokenizer.json")));
    ls_weights_close(weights);
}

static void test_a_run_gives_its_newest_sound_checkpoint(void **state) {
    (void)state;
    ls_weights *weights = open_weights(put_model("run-hf", GPT2_CONFIG, gpt2_tensors, GPT2_COUNT, LS_F32));
    assert_int_equal(ls_dir_make(in_folder("run/checkpoints")), LS_OK);
    assert_int_equal(ls_weights_save(weights, in_folder("run/checkpoints/step-000000000"), NULL), LS_OK);
    ls_weights_close(weights);
    weights = open_weights(in_folder("run"));
    assert_string_equal(ls_weights_path(weights), in_folder("run/checkpoints/step-000000000"));
    check_gpt2_values(weights);
    ls_weights_close(weights);
    /* One damaged byte is noticed. */
    int fd = open(in_folder("run/checkpoints/step-000000000/weights.safetensors"), O_RDWR);
    char byte;
    off_t last = lseek(fd, 0, SEEK_END) - 1;
    assert_int_equal(pread(fd, &byte, 1, last), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, last), 1);
    close(fd);
    assert_int_equal(ls_weights_open(in_folder("run/checkpoints/step-000000000"), &weights), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "is damaged"));
    assert_int_equal(ls_weights_open(in_folder("run"), &weights), LS_ERR_INPUT);
    assert_null(weights);
}

static void test_what_a_model_may_be(void **state) {
    (void)state;
    ls_shape shape;
    ls_weights *weights;
    assert_int_equal(ls_weights_resolve("gpt2-124m", &shape, &weights), LS_OK);
    assert_true(weights == NULL && shape.C == 768);
    put_model("res", GPT2_CONFIG, gpt2_tensors, GPT2_COUNT, LS_F32);
    assert_int_equal(ls_weights_resolve(in_folder("res"), &shape, &weights), LS_OK);
    assert_true(weights != NULL && shape.C == 6);
    ls_weights_close(weights);
    assert_int_equal(ls_weights_resolve(in_folder("res/config.json"), &shape, &weights), LS_OK);
    assert_true(weights == NULL && shape.C == 6);
    unlink(in_folder("res/model.safetensors"));
    assert_int_equal(ls_weights_resolve(in_folder("res"), &shape, &weights), LS_OK);
    assert_true(weights == NULL && shape.C == 6);
    put_text(in_folder("mine.json"), "{\"preset\":\"tiny\",\"layers\":9}");
    assert_int_equal(ls_weights_resolve(in_folder("mine.json"), &shape, &weights), LS_OK);
    assert_true(weights == NULL && shape.L == 9);
    assert_int_equal(ls_weights_resolve("gpt2-124n", &shape, &weights), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(),
                        "there is no file or folder 'gpt2-124n', and no preset is called 'gpt2-124n'; did "
                        "you mean gpt2-124m?");
    assert_int_equal(ls_weights_resolve(in_folder("nothing"), &shape, &weights), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "there is no file or folder"));
    assert_int_equal(ls_dir_make(in_folder("empty")), LS_OK);
    assert_int_equal(ls_weights_resolve(in_folder("empty"), &shape, &weights), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "holds no model"));
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

typedef struct seen {
    uint32_t next; /* parameter */
    size_t row, rows;
    double sum;
} seen;

static ls_status take(void *ctx, const ls_param *param, size_t first_row, size_t rows, const float *data) {
    seen *all = ctx;
    if (first_row == 0) {
        assert_int_equal(param->number, all->next++);
        all->row = 0;
    }
    assert_int_equal(first_row, all->row);
    all->row += rows;
    all->rows += rows;
    for (size_t i = 0; i < rows * param->columns; i++) all->sum += (double)data[i];
    return LS_OK;
}

/* The tensors of a Llama, and the norms of q and k behind the projections to q, k and v. */
static void test_qwen3_has_norms_of_heads(void **state) {
    (void)state;
    enum { BEFORE = 5, COUNT = LLAMA_COUNT + 2 };
    static const char config[] = "{\"model_type\":\"qwen3\",\"vocab_size\":11,\"hidden_size\":6,\"head_dim\":4,"
                                 "\"intermediate_size\":7,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
                                 "\"num_key_value_heads\":1,\"max_position_embeddings\":9}";
    static const char q_norm[] = "model.layers.0.self_attn.q_norm.weight",
                      k_norm[] = "model.layers.0.self_attn.k_norm.weight";
    fixture_tensor tensors[COUNT] = {[BEFORE] = {q_norm, 1, {4, 0}}, {k_norm, 1, {4, 0}}};
    memcpy(tensors, llama_tensors, BEFORE * sizeof *tensors);
    memcpy(tensors + BEFORE + 2, llama_tensors + BEFORE, (LLAMA_COUNT - BEFORE) * sizeof *tensors);
    ls_weights *weights = open_weights(put_model("qwen3", config, tensors, COUNT, LS_F32));
    for (size_t i = 0; i < 4; i++) {
        assert_true(our_value(weights, "blocks.0.attn.q_norm.weight", i, 0) == value_at(q_norm, i));
        assert_true(our_value(weights, "blocks.0.attn.k_norm.weight", i, 0) == value_at(k_norm, i));
    }
    ls_weights_close(weights);
    round_trip("rt-qwen3", config, tensors, COUNT, LS_F32);
    round_trip("rt-qwen3-bf16", config, tensors, COUNT, LS_BF16);
}

static void test_loading_gives_every_row_once_and_in_order(void **state) {
    (void)state;
    ls_weights *weights = open_weights(put_model("load", LLAMA_CONFIG, llama_tensors, LLAMA_COUNT, LS_F32));
    seen all = {0};
    double want = 0;
    for (int t = 0; t < LLAMA_COUNT; t++)
        for (size_t i = 0; i < elems_of(&llama_tensors[t]); i++) want += (double)value_at(llama_tensors[t].name, i);
    assert_int_equal(ls_weights_load(weights, ls_weights_model(weights), take, &all), LS_OK);
    assert_int_equal(all.next, ls_model_params(ls_weights_model(weights)));
    assert_int_equal(all.rows, 11 + 6 + 16 + 8 + 6 + 14 + 7 + 6 + 11);
    assert_true(all.sum == want); /* sixteenths: exact */
    ls_weights *other = open_weights(put_model("load2", GPT2_CONFIG, gpt2_tensors, GPT2_COUNT, LS_F32));
    assert_int_equal(ls_weights_load(weights, ls_weights_model(other), take, &all), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "the shapes differ"));
    ls_weights_close(other);
    ls_weights_close(weights);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2_is_read_and_turned),
        cmocka_unit_test(test_llama_is_joined),
        cmocka_unit_test(test_round_trips_keep_every_byte),
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_a_bare_model_with_buffers),
        cmocka_unit_test(test_the_tokenizer_travels),
        cmocka_unit_test(test_a_run_gives_its_newest_sound_checkpoint),
        cmocka_unit_test(test_what_a_model_may_be),
        cmocka_unit_test(test_qwen3_has_norms_of_heads),
        cmocka_unit_test(test_loading_gives_every_row_once_and_in_order),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
