/* weights.c: opens the weights of a model of any format, and reads them. */
#include "interop/weights.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "checkpoint/store.h"
#include "interop/copies.h"
#include "interop/elems.h"
#include "interop/hf.h"
#include "interop/weights_file.h"
#include "model/model.h"
#include "model/shape_file.h"

/* ---- making ------------------------------------------------------------------------------------------------------ */

ls_status ls_weights_begin(ls_weights *weights, const ls_shape *shape, int count) {
    LS_TRY(ls_model_create(shape, 1, &weights->model));
    if (count == 0) count = weights->model->nparams;
    weights->list = calloc((size_t)count + 1, sizeof *weights->list);
    return weights->list ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a list of %d tensors", count);
}

/* Reads bytes of a safetensors tensor: the `read` of ls_stored. */
static ls_status read_safetensor(const ls_stored *stored, size_t byte_offset, void *host, size_t bytes) {
    return ls_safetensor_read(stored->file, byte_offset, host, bytes);
}

ls_status ls_weights_add_safetensor(ls_weights *weights, const ls_safetensor *tensor, ls_stored stored) {
    if (!tensor->is_readable || !ls_elems_can(tensor->dtype))
        return ls_fail(LS_ERR_INPUT, "%s: tensor '%.100s' is %s; weights must be F32, BF16 or F16",
                       ls_safetensors_path(tensor->file), tensor->name, tensor->type);
    stored.dtype = tensor->dtype;
    stored.read = read_safetensor;
    stored.file = tensor;
    weights->list[weights->count++] = stored;
    return LS_OK;
}

/* Fills `first`. Asserts that the list has every row of every parameter, in order. */
static ls_status index_list(ls_weights *weights) {
    int params = weights->model->nparams, at = 0;
    weights->first = calloc((size_t)params + 1, sizeof *weights->first);
    if (!weights->first) return ls_fail(LS_ERR_RESOURCE, "out of memory for an index of %d tensors", params);
    for (int p = 0; p < params; p++) {
        size_t row = 0;
        weights->first[p] = at;
        for (; at < weights->count && weights->list[at].param == p; at++) {
            assert(weights->list[at].first_row == row);
            row += weights->list[at].rows;
        }
        assert(row == weights->model->params[p]->rows);
    }
    assert(at == weights->count);
    weights->first[params] = at;
    return LS_OK;
}

void ls_weights_close(ls_weights *weights) {
    if (!weights) return;
    ls_stored_cache_fini(&weights->cache);
    ls_safetensors_close(weights->file);
    if (weights->fd >= 0) (void)close(weights->fd);
    ls_model_destroy(weights->model);
    free(weights->list);
    free(weights->first);
    free(weights->tokenizer);
    json_decref(weights->token_ids);
    free(weights->path);
    free(weights);
}

typedef ls_status (*open_fn)(ls_weights *weights, const char *path);

/* Opens weights with the reader of one format, and indexes them. Leaves *out unchanged on failure. */
static ls_status open_with(open_fn open, const char *path, ls_weights **out) {
    ls_weights *weights = calloc(1, sizeof *weights);
    if (!weights) return ls_fail(LS_ERR_RESOURCE, "out of memory to open %s", path);
    weights->fd = -1;
    weights->path = strdup(path);
    ls_status status = weights->path ? open(weights, path) : ls_fail(LS_ERR_RESOURCE, "out of memory to open %s", path);
    if (status == LS_OK) status = index_list(weights);
    if (status == LS_OK)
        *out = weights;
    else
        ls_weights_close(weights);
    return status;
}

/* ---- telling what it is ------------------------------------------------------------------------------------------ */

/* Opens the newest checkpoint of a run that is sound, and logs the damaged ones. */
static ls_status open_newest_sound(const char *dir, ls_weights **out) {
    ls_store *store = NULL;
    int64_t step = -1;
    char *skipped = NULL;
    ls_status status;
    LS_TRY_OUT(ls_store_open(dir, LS_STORE_READ, &store));
    LS_TRY_OUT(ls_store_newest_sound(store, NULL, NULL, &step, &skipped));
    if (skipped && *skipped) ls_log_warn("%s: using an older checkpoint: %s", dir, skipped);
    status = open_with(ls_weights_from_checkpoint, ls_store_folder(store, step).text, out);
out:
    free(skipped);
    ls_store_close(store);
    return status;
}

/* Opens the newest checkpoint that opens, without verifying it. */
static ls_status open_newest(const char *dir, ls_weights **out) {
    ls_store *store = NULL;
    ls_store_entry *entries = NULL;
    int count = 0;
    ls_status status;
    LS_TRY_OUT(ls_store_open(dir, LS_STORE_READ, &store));
    LS_TRY_OUT(ls_store_list(store, &entries, &count));
    status = ls_fail(LS_ERR_INPUT, "%s/checkpoints has no checkpoint yet", dir);
    for (int i = count - 1; i >= 0 && status == LS_ERR_INPUT; i--)
        status = open_with(ls_weights_from_checkpoint, ls_store_folder(store, entries[i].step).text, out);
out:
    free(entries);
    ls_store_close(store);
    return status;
}

/* Verifies the checksums of all files of a checkpoint. */
static ls_status verify_checkpoint(const char *folder) {
    ls_checkpoint *checkpoint = NULL;
    LS_TRY(ls_checkpoint_open(folder, &checkpoint));
    ls_status status = ls_checkpoint_verify(checkpoint, NULL, NULL);
    ls_checkpoint_close(checkpoint);
    return status;
}

/* Returns whether the folder is a run's. */
static bool is_run(const char *path) {
    return ls_folder_has(path, "checkpoints") || ls_folder_has(path, "identity.json");
}

/* Returns whether the folder is a checkpoint, complete or not. */
static bool is_checkpoint(const char *path) {
    return ls_folder_has(path, LS_CHECKPOINT_MARKER) || ls_folder_has(path, LS_CHECKPOINT_WEIGHTS);
}

/* Opens the weights at a path by their kind. `verify`: check sums, and skip damaged checkpoints of a run. */
static ls_status open_any(const char *path, bool verify, ls_weights **out) {
    struct stat about;
    ls_path named;
    *out = NULL;
    if (ls_store_follow(path, &named)) path = named.text;
    if (stat(path, &about) != 0) return ls_file_fail_open(path);
    if (!S_ISDIR(about.st_mode)) {
        if (ls_llmc_is_model(path)) return open_with(ls_weights_from_llmc, path, out);
        return ls_fail(LS_ERR_INPUT, "%s is not a model file of llm.c; for other models, name the folder", path);
    }
    if (is_checkpoint(path)) {
        if (verify) LS_TRY(verify_checkpoint(path));
        return open_with(ls_weights_from_checkpoint, path, out);
    }
    if (is_run(path)) return (verify ? open_newest_sound : open_newest)(path, out);
    if (ls_folder_has(path, "config.json")) return open_with(ls_weights_from_hf, path, out);
    return ls_fail(LS_ERR_INPUT,
                   "%s holds no model: it is neither a checkpoint (%s), nor a run (checkpoints/), nor a Hugging Face "
                   "model (config.json)",
                   path, LS_CHECKPOINT_MARKER);
}

ls_status ls_weights_open(const char *path, ls_weights **out) { return open_any(path, true, out); }
ls_status ls_weights_open_again(const char *path, ls_weights **out) { return open_any(path, false, out); }

/* Resolves --model to a shape and, if it has weights, opens them; *weights is NULL otherwise. */
static ls_status resolve_model(const char *model, bool verify, ls_shape *shape, ls_weights **weights) {
    *weights = NULL;
    if (ls_shape_preset(model, shape) == LS_OK) return LS_OK;
    if (!ls_file_exists(model)) {
        bool is_path = strpbrk(model, "/.") != NULL;
        if (is_path) return ls_file_fail_open(model);
        ls_status status = ls_shape_preset(model, shape);
        return ls_fail_at(status, "there is no file or folder '%.64s', and ", model);
    }
    ls_path named;
    if (ls_store_follow(model, &named)) model = named.text;
    bool folder = ls_folder_exists(model);
    bool is_hf = folder && !is_checkpoint(model) && !is_run(model) && ls_folder_has(model, "config.json");
    if (is_hf || (!folder && !ls_llmc_is_model(model))) {
        LS_TRY(ls_shape_read(is_hf ? ls_path_in(model, "config.json").text : model, shape));
        if (!is_hf || !ls_hf_has_weights(model)) return LS_OK;
    }
    LS_TRY(open_any(model, verify, weights));
    *shape = (*weights)->model->shape;
    return LS_OK;
}

ls_status ls_weights_resolve(const char *model, ls_shape *shape, ls_weights **weights) {
    return resolve_model(model, true, shape, weights);
}

ls_status ls_weights_look(const char *model, ls_shape *shape, ls_weights **weights) {
    return resolve_model(model, false, shape, weights);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

ls_weights_kind ls_weights_kind_of(const ls_weights *weights) { return weights->kind; }
const char *ls_weights_format(const ls_weights *weights) {
    static const char *const names[] = {
        [LS_WEIGHTS_CHECKPOINT] = "lockstep", [LS_WEIGHTS_HF] = "Hugging Face", [LS_WEIGHTS_LLMC] = "llm.c"};
    return names[weights->kind];
}
const char *ls_weights_path(const ls_weights *weights) { return weights->path; }
const ls_shape *ls_weights_shape(const ls_weights *weights) { return &weights->model->shape; }
const ls_model *ls_weights_model(const ls_weights *weights) { return weights->model; }
const char *ls_weights_tokenizer(const ls_weights *weights) { return weights->tokenizer; }
const char *ls_weights_companions(const ls_weights *weights) {
    if (weights->tokenizer) return weights->tokenizer;
    return weights->kind == LS_WEIGHTS_LLMC ? NULL : weights->path;
}
const json_t *ls_weights_token_ids(const ls_weights *weights) { return weights->token_ids; }
int64_t ls_weights_step(const ls_weights *weights) { return weights->step; }

/* Checks that the parameter has the name and the size of that with its number in the weights. */
static ls_status check_param(const ls_weights *weights, const ls_param *param) {
    const ls_param *own = ls_model_param(weights->model, (int)param->number);
    if (!own || strcmp(own->name, param->name) != 0)
        return ls_fail(LS_ERR_INPUT, "%s does not have this model's parameter '%s': the shapes differ", weights->path,
                       param->name);
    if (own->rows != param->rows || own->columns != param->columns)
        return ls_fail(LS_ERR_INPUT, "%s: '%s' is %zu×%zu, but %zu×%zu in this model: the shapes differ", weights->path,
                       own->name, own->rows, own->columns, param->rows, param->columns);
    return LS_OK;
}

/* Fails if a weight is not finite, because every result of such a model would not be finite either. */
static ls_status check_finite(const ls_weights *weights, const ls_param *param, size_t first_row, size_t rows,
                              const float *data) {
    for (size_t i = 0; i < rows * param->columns; i++) {
        if (isfinite(data[i])) continue;
        size_t element = first_row * param->columns + i;
        return ls_fail(LS_ERR_INPUT,
                       "%s: element %zu of '%s' is %s, and weights must be finite: the file is damaged, or its "
                       "training had failed",
                       weights->path, element, param->name, isnan(data[i]) ? "NaN" : "infinite");
    }
    return LS_OK;
}

ls_status ls_weights_read(void *ctx, const ls_param *param, size_t first_row, size_t rows, float *data) {
    ls_weights *weights = ctx;
    LS_TRY(check_param(weights, param));
    if (first_row > param->rows || rows > param->rows - first_row)
        return ls_fail(LS_ERR_INPUT, "'%s' has %zu rows; %zu from row %zu on were asked for", param->name, param->rows,
                       rows, first_row);
    size_t end = first_row + rows;
    for (int i = weights->first[param->number]; i < weights->first[param->number + 1]; i++) {
        const ls_stored *stored = &weights->list[i];
        size_t begin = first_row > stored->first_row ? first_row : stored->first_row;
        size_t stop = stored->first_row + stored->rows < end ? stored->first_row + stored->rows : end;
        if (begin >= stop) continue;
        LS_TRY(
            ls_stored_read(stored, &weights->cache, begin, stop - begin, data + (begin - first_row) * param->columns));
    }
    return check_finite(weights, param, first_row, rows, data);
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* State of a load over all parameters. */
typedef struct load {
    ls_weights *weights;
    ls_tensor_sink sink;
    void *ctx;
    float *rows; /* `capacity` elements */
    size_t capacity;
} load;

/* Reads rows begin … end − 1 of a parameter, and passes them to the sink in pieces. */
static ls_status load_rows(load *l, const ls_param *param, size_t begin, size_t end) {
    size_t step = ls_stored_piece_rows(param->columns);
    if (step > param->rows) step = param->rows;
    if (l->capacity < step * param->columns) {
        free(l->rows);
        l->capacity = step * param->columns;
        l->rows = malloc(l->capacity * sizeof *l->rows);
        if (!l->rows) return ls_fail(LS_ERR_RESOURCE, "out of memory to read %s", l->weights->path);
    }
    for (size_t row = begin; row < end; row += step) {
        size_t count = end - row < step ? end - row : step;
        LS_TRY(ls_weights_read(l->weights, param, row, count, l->rows));
        LS_TRY(l->sink(l->ctx, param, row, count, l->rows));
    }
    return LS_OK;
}

/* Checks that the model has as many parameters as the weights. */
static ls_status check_count(const ls_weights *weights, const ls_model *model) {
    int own = weights->model->nparams;
    if (model->nparams == own) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s has %d parameters, but this model has %d: the shapes differ", weights->path, own,
                   model->nparams);
}

ls_status ls_weights_load(ls_weights *weights, const ls_model *model, ls_tensor_sink sink, void *ctx) {
    load l = {.weights = weights, .sink = sink, .ctx = ctx};
    LS_TRY(check_count(weights, model));
    ls_status status = LS_OK;
    for (int i = 0; i < model->nparams && status == LS_OK; i++)
        status = load_rows(&l, model->params[i], 0, model->params[i]->rows);
    free(l.rows);
    return status;
}

/* Sink that writes rows into the partition, which ignores elements that it does not store. */
static ls_status put_in_partition(void *ctx, const ls_param *param, size_t first_row, size_t rows, const float *data) {
    return ls_partition_write(ctx, param, LS_TENSOR_WEIGHT, first_row * param->columns, rows * param->columns, data);
}

/* Loads the rows of a parameter that the partition stores; also checks parameters of which it stores none. */
static ls_status load_needed(load *l, const ls_param *param, ls_partition_pieces *pieces) {
    LS_TRY(check_param(l->weights, param)); /* of those that are others' too */
    LS_TRY(ls_partition_pieces_list(l->ctx, param, LS_TENSOR_WEIGHT, pieces));
    for (size_t i = 0; i < pieces->count; i++) {
        size_t first = pieces->piece[i].first, end = first + pieces->piece[i].count, columns = param->columns;
        LS_TRY(load_rows(l, param, first / columns, (end + columns - 1) / columns));
    }
    return LS_OK;
}

ls_status ls_weights_load_partition(ls_weights *weights, ls_partition *partition) {
    load l = {.weights = weights, .sink = put_in_partition, .ctx = partition};
    const ls_model *model = ls_partition_model(partition);
    ls_partition_pieces pieces = {.count = 0};
    LS_TRY(check_count(weights, model));
    ls_status status = LS_OK;
    for (int i = 0; i < model->nparams && status == LS_OK; i++) status = load_needed(&l, model->params[i], &pieces);
    ls_partition_pieces_fini(&pieces);
    free(l.rows);
    return status;
}

/* ---- our checkpoints --------------------------------------------------------------------------------------------- */

/* Reads the shape from the metadata of a checkpoint's weights. */
static ls_status read_shape(const ls_safetensors *file, ls_shape *shape) {
    const char *format = ls_safetensors_metadata_find(file, "format");
    const char *text = ls_safetensors_metadata_find(file, "shape");
    if (!format || strcmp(format, "lockstep") != 0 || !text)
        return ls_fail(LS_ERR_INPUT, "%s was not written by lockstep: its metadata has no shape",
                       ls_safetensors_path(file));
    ls_status status = ls_shape_parse("shape.json", text, strlen(text), shape);
    return status == LS_OK ? LS_OK : ls_fail_at(status, "%s: ", ls_safetensors_path(file));
}

/* Adds every parameter of a checkpoint to the list; the file must have exactly these tensors. */
static ls_status add_tensors(ls_weights *weights) {
    int params = weights->model->nparams;
    for (int p = 0; p < params; p++) {
        const ls_param *param = weights->model->params[p];
        const ls_safetensor *tensor;
        int64_t shape[2] = {(int64_t)param->rows, (int64_t)param->columns};
        int dims = param->kind == LS_PARAM_VECTOR ? 1 : 2;
        LS_TRY(ls_safetensors_need(weights->file, param->name, dims, shape, &tensor));
        ls_stored stored = {.param = p, .rows = param->rows, .columns = param->columns};
        LS_TRY(ls_weights_add_safetensor(weights, tensor, stored));
    }
    if (ls_safetensors_count(weights->file) != params)
        return ls_fail(LS_ERR_INPUT, "%s has %d tensors, but a model of its shape has %d",
                       ls_safetensors_path(weights->file), ls_safetensors_count(weights->file), params);
    return LS_OK;
}

/* Reads tokenizer and token ids from state.json. A tokenizer in the folder itself comes before the path that the state
 * names, because the folder may have been moved. */
static ls_status read_state(ls_weights *weights, const ls_checkpoint *checkpoint, const char *folder) {
    json_t *state = NULL;
    const char *tokenizer = NULL;
    if (ls_checkpoint_has(checkpoint, LS_CHECKPOINT_STATE)) {
        LS_TRY(ls_checkpoint_load_json(checkpoint, LS_CHECKPOINT_STATE, &state));
        tokenizer = json_string_value(json_object_get(state, "tokenizer"));
        json_t *ids = json_object_get(state, "token_ids");
        if (json_is_object(ids)) weights->token_ids = json_incref(ids);
    }
    if (ls_copies_has_tokenizer(folder)) tokenizer = folder;
    if (tokenizer) weights->tokenizer = strdup(tokenizer);
    bool no_memory = tokenizer && !weights->tokenizer;
    json_decref(state);
    return no_memory ? ls_fail(LS_ERR_RESOURCE, "out of memory to open %s", folder) : LS_OK;
}

ls_status ls_weights_from_checkpoint(ls_weights *weights, const char *folder) {
    ls_checkpoint *checkpoint = NULL;
    ls_shape shape;
    ls_status status;
    weights->kind = LS_WEIGHTS_CHECKPOINT;
    LS_TRY_OUT(ls_checkpoint_open(folder, &checkpoint));
    LS_TRY_OUT(ls_checkpoint_open_tensors(checkpoint, LS_CHECKPOINT_WEIGHTS, &weights->file));
    LS_TRY_OUT(read_shape(weights->file, &shape));
    LS_TRY_OUT(ls_weights_begin(weights, &shape, 0));
    LS_TRY_OUT(add_tensors(weights));
    LS_TRY_OUT(read_state(weights, checkpoint, folder));
    weights->step = ls_checkpoint_step(checkpoint);
out:
    ls_checkpoint_close(checkpoint);
    return status;
}

/* ---- tokens that end a text -------------------------------------------------------------------------------------- */

enum { CONFIG_BYTES_MAX = 1 << 20 };

/* Appends the id if `value` is an integer below V; ignores other values, and all values once the list has `capacity`
 * ids. */
static void add_eos_id(const json_t *value, size_t V, int32_t *ids, size_t capacity, size_t *count) {
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (id >= 0 && (uint64_t)id < V && *count < capacity) ids[(*count)++] = (int32_t)id;
}

/* Reads "eos_token_id", one id or a list; ids outside the vocabulary are left out. */
static void read_eos_ids(const json_t *config, size_t V, int32_t *ids, size_t capacity, size_t *count) {
    const json_t *value = json_object_get(config, "eos_token_id");
    *count = 0;
    add_eos_id(value, V, ids, capacity, count);
    for (size_t i = 0; i < json_array_size(value); i++) add_eos_id(json_array_get(value, i), V, ids, capacity, count);
}

ls_status ls_weights_eos(const ls_weights *weights, int32_t *ids, size_t capacity, size_t *count) {
    size_t V = weights->model->shape.V;
    ls_path path = ls_path_in(weights->path, LS_GENERATION_CONFIG);
    json_t *config = NULL;
    read_eos_ids(weights->token_ids, V, ids, capacity, count);
    if (!ls_file_exists(path.text)) return LS_OK;
    LS_TRY(ls_json_load_file(path.text, CONFIG_BYTES_MAX, &config));
    if (json_object_get(config, "eos_token_id")) read_eos_ids(config, V, ids, capacity, count);
    json_decref(config);
    return LS_OK;
}
