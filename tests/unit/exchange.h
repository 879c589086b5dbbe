/* exchange.h: small models as others keep them, for tests: folders with one layer whose tensors are written out here by
 * name and shape, and whose values name their place. */
#ifndef LS_TESTS_EXCHANGE_H
#define LS_TESTS_EXCHANGE_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files.h"
#include "checkpoint/safetensors.h"
#include "../save_tensors.h"
#include "interop/weights.h"
#include "scratch.h"

typedef struct fixture_tensor {
    const char *name;
    int dims;
    int64_t shape[2];
} fixture_tensor;

/* V 11, C 6, one layer, 3 heads, T 5, hidden 10. */
static const fixture_tensor gpt2_tensors[] = {
    {"transformer.wte.weight", 2, {11, 6}},
    {"transformer.wpe.weight", 2, {5, 6}},
    {"transformer.h.0.ln_1.weight", 1, {6, 0}},
    {"transformer.h.0.ln_1.bias", 1, {6, 0}},
    {"transformer.h.0.attn.c_attn.weight", 2, {6, 18}},
    {"transformer.h.0.attn.c_attn.bias", 1, {18, 0}},
    {"transformer.h.0.attn.c_proj.weight", 2, {6, 6}},
    {"transformer.h.0.attn.c_proj.bias", 1, {6, 0}},
    {"transformer.h.0.ln_2.weight", 1, {6, 0}},
    {"transformer.h.0.ln_2.bias", 1, {6, 0}},
    {"transformer.h.0.mlp.c_fc.weight", 2, {6, 10}},
    {"transformer.h.0.mlp.c_fc.bias", 1, {10, 0}},
    {"transformer.h.0.mlp.c_proj.weight", 2, {10, 6}},
    {"transformer.h.0.mlp.c_proj.bias", 1, {6, 0}},
    {"transformer.ln_f.weight", 1, {6, 0}},
    {"transformer.ln_f.bias", 1, {6, 0}},
};
#define GPT2_CONFIG                                                                                                    \
    "{\"model_type\":\"gpt2\",\"vocab_size\":11,\"n_embd\":6,\"n_layer\":1,\"n_head\":3,\"n_positions\":5,"            \
    "\"n_inner\":10,\"eos_token_id\":10}"

/* V 11, C 6, one layer, 2 heads of 4 sharing one, hidden 7, untied. */
static const fixture_tensor llama_tensors[] = {
    {"model.embed_tokens.weight", 2, {11, 6}},
    {"model.layers.0.input_layernorm.weight", 1, {6, 0}},
    {"model.layers.0.self_attn.q_proj.weight", 2, {8, 6}},
    {"model.layers.0.self_attn.k_proj.weight", 2, {4, 6}},
    {"model.layers.0.self_attn.v_proj.weight", 2, {4, 6}},
    {"model.layers.0.self_attn.o_proj.weight", 2, {6, 8}},
    {"model.layers.0.post_attention_layernorm.weight", 1, {6, 0}},
    {"model.layers.0.mlp.gate_proj.weight", 2, {7, 6}},
    {"model.layers.0.mlp.up_proj.weight", 2, {7, 6}},
    {"model.layers.0.mlp.down_proj.weight", 2, {6, 7}},
    {"model.norm.weight", 1, {6, 0}},
    {"lm_head.weight", 2, {11, 6}},
};
#define LLAMA_CONFIG                                                                                                   \
    "{\"model_type\":\"llama\",\"vocab_size\":11,\"hidden_size\":6,\"intermediate_size\":7,\"num_hidden_layers\":1,"   \
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":4,\"max_position_embeddings\":9}"
/* The same model as a Mistral. */
#define MISTRAL_CONFIG                                                                                                 \
    "{\"model_type\":\"mistral\",\"vocab_size\":11,\"hidden_size\":6,\"intermediate_size\":7,"                         \
    "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":4,"                      \
    "\"max_position_embeddings\":9,\"sliding_window\":null}"

enum { GPT2_COUNT = sizeof gpt2_tensors / sizeof *gpt2_tensors };
enum { LLAMA_COUNT = sizeof llama_tensors / sizeof *llama_tensors };

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static void put_text(const char *path, const char *text) {
    assert_int_equal(ls_file_write_atomic(path, text, strlen(text)), LS_OK);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static uint32_t name_seed(const char *name) {
    uint32_t seed = 5381;
    for (; *name; name++) seed = seed * 33 + (unsigned char)*name;
    return seed;
}

/* Element i of the tensor: a value that no other has, and that bf16 and fp16 hold exactly. */
static float value_at(const char *name, size_t i) {
    return (float)((int)(name_seed(name) % 8) - 4) + (float)(i % 16) / 16 + (float)(i / 16) / 8;
}

static size_t elems_of(const fixture_tensor *tensor) {
    return (size_t)(tensor->dims == 2 ? tensor->shape[0] * tensor->shape[1] : tensor->shape[0]);
}

static void fill_raw(const fixture_tensor *tensor, ls_dtype dtype, unsigned char *raw) {
    for (size_t i = 0; i < elems_of(tensor); i++) {
        float value = value_at(tensor->name, i);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (dtype == LS_F32) memcpy(raw + 4 * i, &bits, 4);
        uint16_t half = (uint16_t)(bits >> 16); /* bf16 */
        if (dtype == LS_F16)
            half = value == 0
                       ? 0
                       : (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 1023));
        if (dtype != LS_F32) memcpy(raw + 2 * i, &half, 2);
    }
}

typedef struct fixture_file {
    const fixture_tensor *tensors;
    ls_dtype dtype;
} fixture_file;

static ls_status read_fixture(void *ctx, int tensor, size_t byte_offset, void *host, size_t bytes) {
    const fixture_file *file = ctx;
    static unsigned char raw[4096];
    memset(raw, 0, sizeof raw);
    if (file->dtype <= LS_F16) fill_raw(&file->tensors[tensor], file->dtype, raw);
    memcpy(host, raw + byte_offset, bytes);
    return LS_OK;
}

static void put_tensors(const char *path, const fixture_tensor *tensors, int count, ls_dtype dtype) {
    ls_safetensors_decl decls[32];
    fixture_file file = {tensors, dtype};
    for (int i = 0; i < count; i++)
        decls[i] = (ls_safetensors_decl){tensors[i].name, dtype, tensors[i].dims, tensors[i].shape};
    ls_safetensors_plan plan = {.tensors = decls, .count = count};
    assert_int_equal(save_tensors(path, &plan, read_fixture, &file, NULL), LS_OK);
}

/* A folder of that name with config.json and model.safetensors. */
static const char *put_model(const char *name, const char *config, const fixture_tensor *tensors, int count,
                             ls_dtype dtype) {
    char file[300];
    const char *place = in_folder(name);
    assert_int_equal(ls_dir_make(place), LS_OK);
    snprintf(file, sizeof file, "%s/config.json", place);
    put_text(file, config);
    snprintf(file, sizeof file, "%s/model.safetensors", place);
    put_tensors(file, tensors, count, dtype);
    return place;
}

/* That the file holds exactly these tensors, byte by byte. */
static inline void assert_tensors(const char *path, const fixture_tensor *tensors, int count, ls_dtype dtype) {
    ls_safetensors *file;
    static unsigned char want[4096], have[4096];
    assert_int_equal(ls_safetensors_open(path, &file), LS_OK);
    assert_int_equal(ls_safetensors_count(file), count);
    for (int i = 0; i < count; i++) {
        const ls_safetensor *tensor;
        assert_int_equal(ls_safetensors_need(file, tensors[i].name, tensors[i].dims, tensors[i].shape, &tensor), LS_OK);
        assert_int_equal(tensor->dtype, dtype);
        fill_raw(&tensors[i], dtype, want);
        assert_int_equal(ls_safetensor_read(tensor, 0, have, tensor->bytes), LS_OK);
        if (memcmp(want, have, tensor->bytes) != 0) fail_msg("%s: %s differs", path, tensors[i].name);
    }
    ls_safetensors_close(file);
}

static inline ls_weights *open_weights(const char *path) {
    ls_weights *weights;
    ls_status status = ls_weights_open(path, &weights);
    if (status != LS_OK) fail_msg("%s: %s", path, ls_status_message());
    return weights;
}

#endif
