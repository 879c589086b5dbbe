/* test_exchange_llmc.c: model files of llm.c: header, order, orientation and padding, there and back. */
#include "exchange.h"

#include "interop/hf.h"
#include "interop/llmc.h"
#include "model/model.h"
#include "model/shape_file.h"

static const char *const llmc_config = "{\"model_type\":\"gpt2\",\"vocab_size\":11,\"n_embd\":6,\"n_layer\":1,"
                                       "\"n_head\":3,\"n_positions\":5,\"n_inner\":24}";

/* The fixture with hidden = 4·C, which llm.c wants. */
static void llmc_tensors(fixture_tensor list[GPT2_COUNT]) {
    memcpy(list, gpt2_tensors, sizeof gpt2_tensors);
    list[10].shape[1] = list[11].shape[0] = list[12].shape[0] = 24;
}

static void test_llmc_round_trip(void **state) {
    (void)state;
    static const ls_dtype types[] = {LS_F32, LS_BF16};
    fixture_tensor list[GPT2_COUNT];
    llmc_tensors(list);
    ls_weights *weights = open_weights(put_model("llmc", llmc_config, list, GPT2_COUNT, LS_F32));
    for (int t = 0; t < 2; t++) {
        size_t unit = t == 0 ? 4 : 2;
        assert_int_equal(
            ls_llmc_export(in_folder("m.bin"), ls_weights_model(weights), types[t], ls_weights_read, weights), LS_OK);
        char *data;
        size_t bytes;
        assert_int_equal(ls_file_read(in_folder("m.bin"), 1 << 20, &data, &bytes), LS_OK);
        static const int32_t head[2][9] = {{20240326, 3, 5, 11, 1, 3, 6, 128, 0},
                                           {20240326, 5, 5, 11, 1, 3, 6, 128, 0}};
        assert_memory_equal(data, head[t], sizeof head[t]);
        size_t elems = 128 * 6 + 5 * 6 + 12 + 18 * 6 + 18 + 36 + 6 + 12 + 144 + 24 + 144 + 6 + 12;
        assert_int_equal(bytes, 1024 + elems * unit);
        if (t == 0) { /* attprojw is [out][in] there */
            float value;
            size_t begin = 128 * 6 + 5 * 6 + 12 + 18 * 6 + 18;
            memcpy(&value, data + 1024 + 4 * (begin + 1 * 6 + 4), 4);
            assert_true(value == value_at("transformer.h.0.attn.c_proj.weight", 4 * 6 + 1));
            memcpy(&value, data + 1024 + 4 * (128 * 6 - 1), 4);
            assert_true(value == 0);
        }
        free(data);
        ls_weights *back = open_weights(in_folder("m.bin"));
        assert_int_equal(ls_weights_kind_of(back), LS_WEIGHTS_LLMC);
        ls_hf_export_options options = {.dtype = LS_F32};
        char out[64];
        snprintf(out, sizeof out, "llmc-out%d", t);
        assert_int_equal(ls_hf_export(in_folder(out), ls_weights_model(back), &options, ls_weights_read, back), LS_OK);
        ls_weights_close(back);
        snprintf(out, sizeof out, "llmc-out%d/model.safetensors", t);
        assert_tensors(in_folder(out), list, GPT2_COUNT, LS_F32);
    }
    ls_weights_close(weights);
}

/* Every element names its parameter and place. */
static ls_status give_places(void *ctx, const ls_param *param, size_t first_row, size_t rows, float *data) {
    (void)ctx;
    for (size_t i = 0; i < rows * param->columns; i++)
        data[i] = (float)(param->number * 65536 + first_row * param->columns + i);
    return LS_OK;
}

static ls_status want_places(void *ctx, const ls_param *param, size_t first_row, size_t rows, const float *data) {
    size_t *elems = ctx;
    for (size_t i = 0; i < rows * param->columns; i++)
        assert_true(data[i] == (float)(param->number * 65536 + first_row * param->columns + i));
    *elems += rows * param->columns;
    return LS_OK;
}

static void test_llmc_with_layers(void **state) {
    (void)state;
    ls_shape shape;
    ls_model *model;
    const char *text = "{\"preset\":\"tiny\",\"vocab\":129,\"layers\":3,\"width\":16,\"positions\":7}";
    assert_int_equal(ls_shape_parse("layers.json", text, strlen(text), &shape), LS_OK);
    assert_int_equal(ls_model_create(&shape, 4, &model), LS_OK);
    assert_int_equal(ls_llmc_export(in_folder("layers.bin"), model, LS_F32, give_places, NULL), LS_OK);
    char *data;
    size_t bytes, elems = 0;
    float value;
    assert_int_equal(ls_file_read(in_folder("layers.bin"), 1 << 20, &data, &bytes), LS_OK);
    /* ln1w of layer 2 follows those of layers 0 and 1; parameters 0 and 1 are tables, and a block has twelve. */
    memcpy(&value, data + 1024 + 4 * (256 * 16 + 7 * 16 + 2 * 16 + 5), 4);
    assert_true(value == (float)((2 + 2 * 12) * 65536 + 5));
    free(data);
    ls_weights *weights = open_weights(in_folder("layers.bin"));
    assert_int_equal(ls_weights_load(weights, model, want_places, &elems), LS_OK);
    assert_int_equal(elems, ls_model_elems(model));
    ls_weights_close(weights);
    ls_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llmc_round_trip),
        cmocka_unit_test(test_llmc_with_layers),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
