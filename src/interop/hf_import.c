/* hf_import.c: reads weights from a Hugging Face folder.
 *
 * Every tensor of the files must be a parameter of the model that config.json describes, a known buffer, or the head of
 * a model whose tables are tied, which then must equal the token table. */
#include <stdlib.h>
#include <string.h>

#include "interop/copies.h"
#include "interop/hf.h"
#include "interop/hf_names.h"
#include "interop/weights_file.h"
#include "model/shape_file.h"

enum { CONFIG_BYTES_MAX = 1 << 20 };

static const char *const pickled[] = {"pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth",
                                      "tf_model.h5", "flax_model.msgpack"};
enum { PICKLED_COUNT = sizeof pickled / sizeof *pickled };

/* Returns whether the folder has safetensors weights, in one file or with an index. */
static bool has_safetensors(const char *folder) {
    return ls_folder_has(folder, "model.safetensors") || ls_folder_has(folder, "model.safetensors.index.json");
}

bool ls_hf_has_weights(const char *folder) {
    if (has_safetensors(folder)) return true;
    for (int i = 0; i < PICKLED_COUNT; i++)
        if (ls_folder_has(folder, pickled[i])) return true;
    return false;
}

/* Checks that the weights are in safetensors files. The error for pickle files says how to convert them. */
static ls_status check_files(const char *folder) {
    if (has_safetensors(folder)) return LS_OK;
    for (int i = 0; i < PICKLED_COUNT; i++)
        if (ls_folder_has(folder, pickled[i]))
            return ls_fail(LS_ERR_INPUT,
                           "%s has its weights in %s, a pickle file, which can run code when it is loaded; convert it "
                           "to safetensors: model.save_pretrained(folder, safe_serialization=True)",
                           folder, pickled[i]);
    return ls_fail(LS_ERR_INPUT,
                   "%s has a config.json but no weights: neither model.safetensors nor model.safetensors.index.json",
                   folder);
}

/* ---- config.json ------------------------------------------------------------------------------------------------- */

/* Copies the special token ids that config.json has to weights->token_ids. */
static ls_status keep_token_ids(ls_weights *weights, const json_t *config) {
    static const char *const keys[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    weights->token_ids = json_object();
    for (int i = 0; i < 3; i++) {
        json_t *value = json_object_get(config, keys[i]);
        if (value && json_object_set(weights->token_ids, keys[i], value) != 0)
            return ls_fail(LS_ERR_RESOURCE, "out of memory to read config.json");
    }
    return LS_OK;
}

/* Reads the shape and the token ids from config.json. */
static ls_status read_config(ls_weights *weights, const char *folder, ls_shape *shape) {
    ls_path path = ls_path_in(folder, "config.json");
    json_t *config = NULL;
    LS_TRY(ls_json_load_file(path.text, CONFIG_BYTES_MAX, &config));
    ls_status status = ls_shape_from_json(config, path.text, shape);
    if (status == LS_OK) status = keep_token_ids(weights, config);
    json_decref(config);
    return status;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Returns a tensor's name in the file; in files of a bare model (without head) it has no prefix. */
static const char *name_in(const ls_hf_tensor *tensor, const char *prefix, bool bare) {
    size_t skip = strlen(prefix);
    return bare && strncmp(tensor->name, prefix, skip) == 0 ? tensor->name + skip : tensor->name;
}

/* Returns whether the file's names lack the prefix, by the first tensor. */
static bool is_bare(const ls_safetensors *file, const ls_hf_tensor *first, const char *prefix) {
    return !ls_safetensors_find(file, first->name) && ls_safetensors_find(file, name_in(first, prefix, true)) != NULL;
}

/* Adds all tensors of the list, which must be in the file with their shapes. */
static ls_status add_tensors(ls_weights *weights, const ls_hf_tensor *list, int count, bool bare) {
    const char *prefix = ls_hf_prefix(&weights->model->shape);
    for (int i = 0; i < count; i++) {
        const ls_hf_tensor *t = &list[i];
        const ls_safetensor *tensor;
        LS_TRY(ls_safetensors_need(weights->file, name_in(t, prefix, bare), t->dims, t->shape, &tensor));
        LS_TRY(ls_weights_add_safetensor(weights, tensor, t->stored));
    }
    return LS_OK;
}

/* Returns whether a parameter has this name in the file. */
static bool is_known(const char *name, const ls_hf_tensor *list, int count, const char *prefix, bool bare) {
    for (int i = 0; i < count; i++)
        if (strcmp(name_in(&list[i], prefix, bare), name) == 0) return true;
    return false;
}

/* Refuses tensors that are neither parameters nor buffers nor the head of a tied model. */
static ls_status refuse_extra(const ls_weights *weights, const ls_hf_tensor *list, int count, bool bare) {
    const ls_shape *shape = &weights->model->shape;
    for (int i = 0; i < ls_safetensors_count(weights->file); i++) {
        const ls_safetensor *tensor = ls_safetensors_get(weights->file, i);
        if (is_known(tensor->name, list, count, ls_hf_prefix(shape), bare)) continue;
        if (ls_hf_is_buffer(shape, tensor->name)) continue;
        if (shape->tied && strcmp(tensor->name, LS_HF_HEAD) == 0) continue;
        return ls_fail(LS_ERR_INPUT, "%s: unexpected tensor '%.100s': the model in config.json has no such parameter",
                       ls_safetensors_path(tensor->file), tensor->name);
    }
    return LS_OK;
}

/* ---- a head beside tied tables ----------------------------------------------------------------------------------- */

/* Compares two tensors of the token table's shape, `step` rows at a time in `a` and `b`. */
static ls_status compare_rows(const ls_stored *table, const ls_stored *other, float *a, float *b, size_t step) {
    ls_stored_cache none = {NULL, NULL, 0};
    for (size_t row = 0; row < table->rows; row += step) {
        size_t rows = table->rows - row < step ? table->rows - row : step;
        LS_TRY(ls_stored_read(table, &none, row, rows, a));
        LS_TRY(ls_stored_read(other, &none, row, rows, b));
        if (memcmp(a, b, rows * table->columns * sizeof *a) != 0)
            return ls_fail(LS_ERR_INPUT,
                           "tensor '%s' differs from the token embedding, but config.json says that they are tied; set "
                           "\"tie_word_embeddings\" to false in it if the model has a separate output head",
                           LS_HF_HEAD);
    }
    return LS_OK;
}

/* Checks that the file's head, if the model is tied and the file has one, equals the token table. Leaves the list
 * unchanged. */
static ls_status check_tied_head(ls_weights *weights) {
    const ls_shape *shape = &weights->model->shape;
    const ls_safetensor *tensor;
    int64_t dims[2] = {(int64_t)shape->V, (int64_t)shape->C};
    if (!shape->tied || !ls_safetensors_find(weights->file, LS_HF_HEAD)) return LS_OK;
    LS_TRY(ls_safetensors_need(weights->file, LS_HF_HEAD, 2, dims, &tensor));
    LS_TRY(ls_weights_add_safetensor(weights, tensor, weights->list[0]));
    ls_stored other = weights->list[--weights->count]; /* only looked at */
    size_t step = ls_stored_piece_rows(shape->C);
    float *a = malloc(step * shape->C * sizeof *a), *b = malloc(step * shape->C * sizeof *b);
    ls_status status = a && b ? compare_rows(&weights->list[0], &other, a, b, step)
                              : ls_fail(LS_ERR_RESOURCE, "out of memory to compare the tables");
    free(a);
    free(b);
    return status == LS_OK ? LS_OK : ls_fail_at(status, "%s: ", ls_safetensors_path(tensor->file));
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

/* Opens the files, and fills the list of stored tensors; checks names, shapes and types of all of them. */
static ls_status read_tensors(ls_weights *weights, const char *folder, const ls_shape *shape) {
    ls_hf_tensor *list = NULL;
    int count = 0;
    ls_status status;
    LS_TRY_OUT(ls_safetensors_open_set(folder, &weights->file));
    LS_TRY_OUT(ls_weights_begin(weights, shape, 3 * (int)shape->L * LS_BLOCK_PARAMS_MAX + LS_BLOCK_PARAMS_MAX));
    LS_TRY_OUT(ls_hf_tensors(weights->model, &list, &count));
    bool bare = is_bare(weights->file, &list[0], ls_hf_prefix(shape));
    LS_TRY_OUT(add_tensors(weights, list, count, bare));
    LS_TRY_OUT(refuse_extra(weights, list, count, bare));
    LS_TRY_OUT(check_tied_head(weights));
out:
    free(list);
    return status;
}

ls_status ls_weights_from_hf(ls_weights *weights, const char *folder) {
    ls_shape shape;
    weights->kind = LS_WEIGHTS_HF;
    LS_TRY(check_files(folder));
    LS_TRY(read_config(weights, folder, &shape));
    LS_TRY(read_tensors(weights, folder, &shape));
    if (!ls_copies_has_tokenizer(folder)) return LS_OK;
    weights->tokenizer = strdup(folder);
    return weights->tokenizer ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory to open %s", folder);
}
