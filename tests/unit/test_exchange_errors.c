/* test_exchange_errors.c: models that lie, shapes that others cannot hold, folders that are taken, full disks: each is
 * refused with the name of what is wrong, and nothing half-written stays. */
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "exchange.h"

#include "interop/hf.h"
#include "interop/llmc.h"
#include "interop/save.h"
#include "interop/weights.h"
#include "model/model.h"
#include "model/shape_file.h"

static void assert_says(ls_status status, ls_status wanted, const char *part) {
    if (status != wanted || !strstr(ls_status_message(), part))
        fail_msg("wanted %s '%s', got %s '%s'", ls_status_name(wanted), part, ls_status_name(status),
                 ls_status_message());
}

static void refuse_model(const char *path, const char *part) {
    ls_weights *weights;
    ls_status status = ls_weights_open(path, &weights);
    assert_null(weights);
    assert_says(status, LS_ERR_INPUT, part);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void test_missing_extra_and_misshapen_tensors(void **state) {
    (void)state;
    fixture_tensor list[GPT2_COUNT + 1];
    memcpy(list, gpt2_tensors, sizeof gpt2_tensors);
    refuse_model(put_model("miss", GPT2_CONFIG, list, GPT2_COUNT - 1, LS_F32), "no tensor 'transformer.ln_f.bias'");
    list[GPT2_COUNT] = (fixture_tensor){"transformer.h.1.ln_1.weight", 1, {6, 0}};
    refuse_model(put_model("extra", GPT2_CONFIG, list, GPT2_COUNT + 1, LS_F32),
                 "unexpected tensor 'transformer.h.1.ln_1.weight': the model in config.json has no such parameter");
    list[4].shape[0] = 18;
    list[4].shape[1] = 6; /* as Llama would have it */
    refuse_model(put_model("turned", GPT2_CONFIG, list, GPT2_COUNT, LS_F32),
                 "tensor 'transformer.h.0.attn.c_attn.weight' is [18, 6]; it must be [6, 18]");
    refuse_model(put_model("type", GPT2_CONFIG, gpt2_tensors, GPT2_COUNT, LS_U8),
                 "tensor 'transformer.wte.weight' is U8; weights must be F32, BF16 or F16");
    refuse_model(put_model("other", GPT2_CONFIG, llama_tensors, LLAMA_COUNT, LS_F32),
                 "no tensor 'transformer.wte.weight'");
    refuse_model(put_model("headless", LLAMA_CONFIG, llama_tensors, LLAMA_COUNT - 1, LS_F32),
                 "no tensor 'lm_head.weight'");
}

static void test_a_head_beside_tied_tables(void **state) {
    (void)state;
    fixture_tensor list[GPT2_COUNT + 1];
    memcpy(list, gpt2_tensors, sizeof gpt2_tensors);
    list[GPT2_COUNT] = (fixture_tensor){"lm_head.weight", 2, {11, 6}};
    refuse_model(put_model("tied", GPT2_CONFIG, list, GPT2_COUNT + 1, LS_F32),
                 "'lm_head.weight' differs from the token embedding, but config.json says that they are tied");
    list[GPT2_COUNT].shape[0] = 12;
    refuse_model(put_model("tied2", GPT2_CONFIG, list, GPT2_COUNT + 1, LS_F32), "it must be [11, 6]");
    /* All zeros are equal: U8 fixtures are zeros, but of the wrong type, so write a file whose data are cleared. */
    list[GPT2_COUNT].shape[0] = 11;
    const char *place = put_model("tied3", GPT2_CONFIG, list, GPT2_COUNT + 1, LS_F32);
    char path[600], *data;
    size_t bytes;
    uint64_t header;
    snprintf(path, sizeof path, "%s/model.safetensors", place);
    assert_int_equal(ls_file_read(path, 1 << 20, &data, &bytes), LS_OK);
    memcpy(&header, data, 8);
    memset(data + 8 + header, 0, bytes - 8 - header);
    assert_int_equal(ls_file_write_atomic(path, data, bytes), LS_OK);
    free(data);
    ls_weights *weights;
    assert_int_equal(ls_weights_open(place, &weights), LS_OK);
    ls_weights_close(weights);
}

static void test_folders_that_hold_no_model(void **state) {
    (void)state;
    refuse_model(in_folder("nowhere"), "there is no file or folder");
    assert_int_equal(ls_dir_make(in_folder("void")), LS_OK);
    refuse_model(in_folder("void"), "holds no model: it is neither a checkpoint");
    put_text(in_folder("void/config.json"), GPT2_CONFIG);
    refuse_model(in_folder("void"), "neither model.safetensors nor model.safetensors.index.json");
    put_text(in_folder("void/pytorch_model.bin"), "PK");
    refuse_model(in_folder("void"), "has its weights in pytorch_model.bin");
    refuse_model(in_folder("void"), "safe_serialization=True");
    put_text(in_folder("void/model.safetensors"), "not at all");
    refuse_model(in_folder("void"), "model.safetensors");
    put_text(in_folder("void/config.json"), "{\"model_type\":\"mamba\"}");
    refuse_model(in_folder("void"), "model type \"mamba\" is not supported");
    put_text(in_folder("void/config.json"), "{");
    refuse_model(in_folder("void"), "config.json:1");
    assert_int_equal(ls_dir_make(in_folder("half")), LS_OK);
    put_text(in_folder("half/weights.safetensors"), "x");
    refuse_model(in_folder("half"), "not a checkpoint, or one whose save did not finish");
    assert_int_equal(ls_dir_make(in_folder("young/checkpoints")), LS_OK);
    refuse_model(in_folder("young"), "checkpoint");
    put_text(in_folder("file.txt"), "hello");
    refuse_model(in_folder("file.txt"), "is not a model file of llm.c");
}

static void test_a_missing_shard_is_named(void **state) {
    (void)state;
    assert_int_equal(ls_dir_make(in_folder("shards")), LS_OK);
    put_text(in_folder("shards/config.json"), GPT2_CONFIG);
    put_tensors(in_folder("shards/model-00001-of-00002.safetensors"), gpt2_tensors, 8, LS_F32);
    char index[4096] = "{\"weight_map\":{";
    for (int i = 0; i < GPT2_COUNT; i++) {
        size_t used = strlen(index);
        snprintf(index + used, sizeof index - used, "%s\"%s\":\"model-0000%d-of-00002.safetensors\"", i ? "," : "",
                 gpt2_tensors[i].name, i < 8 ? 1 : 2);
    }
    strcat(index, "}}");
    put_text(in_folder("shards/model.safetensors.index.json"), index);
    refuse_model(in_folder("shards"), "model-00002-of-00002.safetensors");
    put_tensors(in_folder("shards/model-00002-of-00002.safetensors"), gpt2_tensors + 8, GPT2_COUNT - 8, LS_F32);
    ls_weights *weights;
    assert_int_equal(ls_weights_open(in_folder("shards"), &weights), LS_OK);
    ls_weights_close(weights);
}

static void put_llmc(const int32_t first[8], size_t bytes) {
    static char data[8192];
    int32_t header[256] = {0};
    memcpy(header, first, 8 * sizeof *first);
    memset(data, 0, sizeof data);
    memcpy(data, header, sizeof header);
    assert_int_equal(ls_file_write_atomic(in_folder("bad.bin"), data, bytes), LS_OK);
}

static void test_llmc_files_that_lie(void **state) {
    (void)state;
#define LLMC(part, bytes, ...)                                                                                         \
    do {                                                                                                               \
        put_llmc((int32_t[8]){__VA_ARGS__}, bytes);                                                                    \
        refuse_model(in_folder("bad.bin"), part);                                                                      \
    } while (0)
    LLMC("bad.bin: the file is truncated at byte 500", 500, 20240326, 3, 5, 11, 1, 3, 6, 128);
    LLMC("is version 1 of llm.c's format; lockstep reads 3 (fp32) and 5 (bf16)", 2048, 20240326, 1, 5, 11, 1, 3, 6,
         128);
    LLMC("header field 4 is 0", 2048, 20240326, 3, 5, 11, 0, 3, 6, 128);
    LLMC("header field 7 is -1", 2048, 20240326, 3, 5, 11, 1, 3, 6, -1);
    LLMC("the width 6 is not a multiple of the 4 heads", 2048, 20240326, 3, 5, 11, 1, 4, 6, 128);
    LLMC("the padded vocabulary (10) is smaller", 2048, 20240326, 3, 5, 11, 1, 3, 6, 10);
    LLMC("has 2048 bytes, but its header describes a model of", 2048, 20240326, 3, 5, 11, 1, 3, 6, 128);
    LLMC("layers is 2147483647", 2048, 20240326, 3, 5, 11, 2147483647, 3, 6, 128);
    LLMC("is not a model file of llm.c", 2048, 20240327, 3, 5, 11, 1, 3, 6, 128);
#undef LLMC
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static float constant = 1;

static ls_status give(void *ctx, const ls_param *param, size_t first_row, size_t rows, float *data) {
    (void)ctx;
    (void)first_row;
    for (size_t i = 0; i < rows * param->columns; i++) data[i] = constant;
    return LS_OK;
}

static ls_status export_text(const char *text, const char *out, ls_dtype dtype, bool llmc) {
    ls_shape shape;
    ls_model *model;
    assert_int_equal(ls_shape_parse("x.json", text, strlen(text), &shape), LS_OK);
    assert_int_equal(ls_model_create(&shape, 1, &model), LS_OK);
    ls_hf_export_options options = {.dtype = dtype};
    ls_status status = llmc ? ls_llmc_export(in_folder(out), model, dtype, give, NULL)
                            : ls_hf_export(in_folder(out), model, &options, give, NULL);
    ls_model_destroy(model);
    return status;
}

#define SMALL "\"preset\":\"tiny\",\"vocab\":16,\"layers\":1,\"width\":16,\"positions\":4"

static void test_shapes_that_others_have_not(void **state) {
    (void)state;
    assert_says(export_text("{" SMALL ",\"kv-heads\":2}", "g", LS_F32, false), LS_ERR_INPUT,
                "has kv-heads 2, which Hugging Face's GPT2LMHeadModel cannot have");
    assert_says(export_text("{" SMALL ",\"head-size\":4}", "g", LS_F32, false), LS_ERR_INPUT,
                "has head-size 4, which Hugging Face's GPT2LMHeadModel cannot have");
    assert_says(export_text("{" SMALL ",\"hidden\":30}", "g", LS_F32, true), LS_ERR_INPUT,
                "it needs a GPT-2 with tied embeddings");
    assert_says(export_text("{" SMALL ",\"tied\":false}", "g", LS_F32, true), LS_ERR_INPUT,
                "it needs a GPT-2 with tied embeddings");
    assert_says(export_text("{\"preset\":\"llama-160m\",\"layers\":1,\"vocab\":9}", "g", LS_F32, true), LS_ERR_INPUT,
                "it needs a GPT-2 with tied embeddings");
    assert_says(export_text("{" SMALL "}", "g", LS_F16, true), LS_ERR_INPUT, "llm.c files are fp32 or bf16");
    assert_false(ls_file_exists(in_folder("g")));
}

/* GPT-2 without biases is GPT-2 with biases of zero. */
static void test_missing_biases_become_zeros(void **state) {
    (void)state;
    assert_int_equal(export_text("{" SMALL ",\"attention-bias\":false,\"mlp-bias\":false}", "zero", LS_F32, false),
                     LS_OK);
    ls_safetensors *file;
    const ls_safetensor *tensor;
    float values[64] = {1};
    assert_int_equal(ls_safetensors_open(in_folder("zero/model.safetensors"), &file), LS_OK);
    int64_t shape = 48;
    assert_int_equal(ls_safetensors_need(file, "transformer.h.0.attn.c_attn.bias", 1, &shape, &tensor), LS_OK);
    assert_int_equal(ls_safetensor_read(tensor, 0, values, tensor->bytes), LS_OK);
    for (int i = 0; i < 48; i++) assert_true(values[i] == 0);
    ls_safetensors_close(file);
    ls_weights *weights;
    assert_int_equal(ls_weights_open(in_folder("zero"), &weights), LS_OK);
    ls_weights_close(weights);
}

static int names_in(const char *path, const char *part) {
    DIR *dir = opendir(path);
    int count = 0;
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) count += strstr(entry->d_name, part) != NULL;
    closedir(dir);
    return count;
}

static void test_values_that_do_not_fit(void **state) {
    (void)state;
    constant = 1e6F;
    assert_says(export_text("{" SMALL "}", "large", LS_F16, false), LS_ERR_INPUT,
                "transformer.wte.weight has values that fp16 cannot hold; use --dtype fp32 or bf16");
    assert_int_equal(names_in(folder, "large"), 0);
    assert_int_equal(export_text("{" SMALL "}", "large", LS_BF16, false), LS_OK);
    constant = 3.4e38F;
    assert_says(export_text("{" SMALL "}", "larger.bin", LS_BF16, true), LS_ERR_INPUT, "that bf16 cannot hold");
    assert_int_equal(names_in(folder, "larger"), 0);
    constant = 1;
}

static void test_a_place_that_is_taken(void **state) {
    (void)state;
    assert_int_equal(ls_dir_make(in_folder("taken")), LS_OK);
    assert_int_equal(export_text("{" SMALL "}", "taken", LS_F32, false), LS_OK); /* empty is fine */
    assert_says(export_text("{" SMALL "}", "taken", LS_F32, false), LS_ERR_INPUT, "is not empty; name another folder");
    put_text(in_folder("taken.txt"), "mine");
    assert_says(export_text("{" SMALL "}", "taken.txt", LS_F32, false), LS_ERR_INPUT, "is a file; name a new folder");
    assert_says(export_text("{" SMALL "}", "taken.txt/x", LS_F32, false), LS_ERR_INPUT, "taken.txt");
    assert_says(export_text("{" SMALL "}", "taken", LS_F32, true), LS_ERR_INPUT, "it is a folder");
    assert_int_equal(export_text("{" SMALL "}", "new/folder/inside", LS_F32, false), LS_OK);
    assert_true(ls_file_exists(in_folder("new/folder/inside/config.json")));
    assert_int_equal(names_in(folder, ".partial"), 0);
}

/* Files may have so many bytes from now on: as a disk that is full. */
static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_a_full_disk_leaves_nothing(void **state) {
    (void)state;
    ls_weights *weights;
    const char *source = put_model("full", GPT2_CONFIG, gpt2_tensors, GPT2_COUNT, LS_F32);
    assert_int_equal(ls_weights_open(source, &weights), LS_OK);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t bytes = 0; bytes < 2048; bytes += 256) {
        limit_files(bytes);
        ls_hf_export_options options = {.dtype = LS_F32};
        ls_status saved = ls_weights_save(weights, in_folder("nodisk-ck"), NULL);
        ls_status exported =
            ls_hf_export(in_folder("nodisk-hf"), ls_weights_model(weights), &options, ls_weights_read, weights);
        ls_status llmc = export_text("{" SMALL "}", "nodisk.bin", LS_F32, true);
        limit_files(RLIM_INFINITY);
        assert_int_not_equal(saved, LS_OK);
        assert_int_not_equal(exported, LS_OK);
        assert_int_not_equal(llmc, LS_OK);
        assert_int_equal(names_in(folder, "nodisk"), 0);
    }
    assert_int_equal(ls_weights_save(weights, in_folder("nodisk-ck"), NULL), LS_OK);
    ls_weights_close(weights);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_extra_and_misshapen_tensors),
        cmocka_unit_test(test_a_head_beside_tied_tables),
        cmocka_unit_test(test_folders_that_hold_no_model),
        cmocka_unit_test(test_a_missing_shard_is_named),
        cmocka_unit_test(test_llmc_files_that_lie),
        cmocka_unit_test(test_shapes_that_others_have_not),
        cmocka_unit_test(test_missing_biases_become_zeros),
        cmocka_unit_test(test_values_that_do_not_fit),
        cmocka_unit_test(test_a_place_that_is_taken),
        cmocka_unit_test(test_a_full_disk_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
