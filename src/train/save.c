/* save.c: checkpoints of a trainer. */
#include "train/save.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "model/shape_file.h"

enum { PIECE_ELEMS = 1 << 20, SUFFIX_MAX = 8, TOKENIZER_BYTES_MAX = 1 << 28, LOSS_TEXT_MAX = 64 };

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Tensor i of a file is tensor i % per_param of parameter i / per_param. */
typedef struct tensor_list {
    ls_stage *stage;
    int params, per_param;
    ls_stage_tensor first; /* which of the parameter's tensors is number 0 */
    ls_safetensors_decl *decls;
    int64_t (*shapes)[2];
    char (*names)[LS_PARAM_NAME_MAX + SUFFIX_MAX];
} tensor_list;

static void close_list(tensor_list *list) {
    free(list->decls);
    free(list->shapes);
    free(list->names);
}

static ls_status open_list(ls_stage *stage, ls_stage_tensor first, int per_param, tensor_list *list) {
    static const char *const suffix[] = {"", ".m", ".v", ".grad"};
    *list = (tensor_list){.stage = stage, .params = ls_model_params(ls_stage_model(stage)), .per_param = per_param};
    size_t count = (size_t)list->params * (size_t)per_param;
    list->first = first;
    list->decls = calloc(count, sizeof *list->decls);
    list->shapes = calloc(count, sizeof *list->shapes);
    list->names = calloc(count, sizeof *list->names);
    if (!list->decls || !list->shapes || !list->names) {
        close_list(list);
        return ls_fail(LS_ERR_RESOURCE, "out of memory for a list of %zu tensors", count);
    }
    for (size_t i = 0; i < count; i++) {
        const ls_param *param = ls_model_param(ls_stage_model(stage), (int)i / per_param);
        int which = (int)first + (int)i % per_param;
        snprintf(list->names[i], sizeof list->names[i], "%s%s", param->name, suffix[which]);
        list->shapes[i][0] = (int64_t)param->rows;
        list->shapes[i][1] = (int64_t)param->columns;
        list->decls[i] = (ls_safetensors_decl){.name = list->names[i],
                                               .dtype = LS_F32,
                                               .dims = param->kind == LS_PARAM_VECTOR ? 1 : 2,
                                               .shape = list->shapes[i]};
    }
    return LS_OK;
}

static ls_stage_tensor which_of(const tensor_list *list, int tensor) {
    return (ls_stage_tensor)((int)list->first + tensor % list->per_param);
}

static ls_status read_tensor(void *ctx, int tensor, size_t byte_offset, void *host, size_t bytes) {
    const tensor_list *list = ctx;
    const ls_param *param = ls_model_param(ls_stage_model(list->stage), tensor / list->per_param);
    return ls_stage_read(list->stage, param, which_of(list, tensor), byte_offset / sizeof(float), bytes / sizeof(float),
                         host);
}

static ls_status put_list(ls_store_save *save, const char *name, tensor_list *list, const ls_safetensors_text *metadata,
                          int metadata_count) {
    ls_safetensors_plan plan = {.tensors = list->decls,
                                .count = list->params * list->per_param,
                                .metadata = metadata,
                                .metadata_count = metadata_count};
    return ls_store_put_tensors(save, name, &plan, read_tensor, list);
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

static ls_status put_weights(ls_store_save *save, ls_trainer *trainer) {
    tensor_list list;
    json_t *shape = ls_shape_to_json(&trainer->settings.shape);
    char *text = shape ? json_dumps(shape, JSON_COMPACT) : NULL;
    json_decref(shape);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for the shape of the model");
    ls_safetensors_text metadata[] = {{"format", "lockstep"}, {"shape", text}};
    ls_status status = open_list(trainer->stage, LS_TENSOR_WEIGHT, 1, &list);
    if (status == LS_OK) {
        status = put_list(save, LS_CHECKPOINT_WEIGHTS, &list, metadata, 2);
        close_list(&list);
    }
    free(text);
    return status;
}

static ls_status put_moments(ls_store_save *save, ls_trainer *trainer) {
    tensor_list list;
    int moments = ls_optimizer_moments(&trainer->settings.optimizer);
    if (moments == 0) return LS_OK;
    LS_TRY(open_list(trainer->stage, LS_TENSOR_MOMENT0, moments, &list));
    ls_status status = put_list(save, LS_CHECKPOINT_OPTIMIZER, &list, NULL, 0);
    close_list(&list);
    return status;
}

/* The files of the tokenizer go along, so that a checkpoint can be moved and used alone. */
static ls_status put_tokenizer(ls_store_save *save, const ls_tokenizer *tokenizer) {
    size_t count = 0;
    const char *const *paths = tokenizer ? ls_tokenizer_files(tokenizer, &count) : NULL;
    for (size_t i = 0; i < count; i++) {
        const char *slash = strrchr(paths[i], '/');
        char *data;
        size_t bytes;
        LS_TRY(ls_file_read(paths[i], TOKENIZER_BYTES_MAX, &data, &bytes));
        ls_status status = ls_store_put_bytes(save, slash ? slash + 1 : paths[i], data, bytes);
        free(data);
        if (status != LS_OK) return status;
    }
    return LS_OK;
}

static ls_status put_state(ls_store_save *save, ls_trainer *trainer, const ls_identity *identity,
                           const char *tokenizer) {
    char hash[33], loss[LOSS_TEXT_MAX];
    json_t *fields = NULL;
    snprintf(loss, sizeof loss, "%a", trainer->last_loss);
    LS_TRY(ls_stage_hash(trainer->stage, hash));
    LS_TRY(ls_identity_to_json(identity, &fields));
    json_t *state =
        json_pack("{s:i, s:I, s:I, s:I, s:s, s:s, s:s?, s:o, s:o}", "format", 1, "step", (json_int_t)trainer->step,
                  "updates", (json_int_t)trainer->updates, "samples", (json_int_t)ls_trainer_samples(trainer),
                  "loss_hex", loss, "weights_xxh128", hash, "tokenizer", tokenizer, "shape",
                  ls_shape_to_json(&trainer->settings.shape), "identity", fields);
    char *text = state ? json_dumps(state, JSON_INDENT(2)) : NULL;
    json_decref(state);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for the state of the run");
    ls_status status = ls_store_put_bytes(save, LS_CHECKPOINT_STATE, text, strlen(text));
    free(text);
    return status;
}

ls_status ls_save(ls_store *store, ls_trainer *trainer, const ls_identity *identity, const ls_tokenizer *tokenizer) {
    ls_store_save *save = NULL;
    ls_status status = LS_OK;
    LS_TRY(ls_store_begin(store, trainer->step, &save));
    LS_TRY_OUT(put_weights(save, trainer));
    LS_TRY_OUT(put_moments(save, trainer));
    LS_TRY_OUT(put_tokenizer(save, tokenizer));
    LS_TRY_OUT(put_state(save, trainer, identity, tokenizer ? ls_tokenizer_name(tokenizer) : NULL));
    return ls_store_commit(save);
out:
    ls_store_abort(save);
    return status;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

ls_status ls_saved_identity(const ls_checkpoint *checkpoint, ls_identity **out) {
    json_t *state = NULL, *fields;
    LS_TRY(ls_checkpoint_load_json(checkpoint, LS_CHECKPOINT_STATE, &state));
    ls_status status = ls_json_get_object(state, "identity", &fields);
    if (status == LS_OK) status = ls_identity_from_json(ls_checkpoint_path(checkpoint), fields, out);
    json_decref(state);
    return status;
}

ls_status ls_saved_samples(const ls_checkpoint *checkpoint, int64_t *out) {
    json_t *state = NULL;
    LS_TRY(ls_checkpoint_load_json(checkpoint, LS_CHECKPOINT_STATE, &state));
    ls_status status = ls_json_get_i64(state, "samples", out);
    json_decref(state);
    if (status == LS_OK && *out < 0)
        status = ls_fail(LS_ERR_INPUT, "%s/%s: samples is %lld, below zero", ls_checkpoint_path(checkpoint),
                         LS_CHECKPOINT_STATE, (long long)*out);
    return status;
}

static ls_status load_tensor(const tensor_list *list, int i, const ls_safetensors *file, float *piece) {
    const ls_param *param = ls_model_param(ls_stage_model(list->stage), i / list->per_param);
    const ls_safetensor *tensor;
    size_t elems = ls_param_elems(param);
    LS_TRY(ls_safetensors_need(file, list->names[i], list->decls[i].dims, list->shapes[i], &tensor));
    if (!tensor->is_readable || tensor->dtype != LS_F32)
        return ls_fail(LS_ERR_INPUT, "%s: %s is not in fp32; save the checkpoint anew", ls_safetensors_path(file),
                       list->names[i]);
    for (size_t first = 0; first < elems; first += PIECE_ELEMS) {
        size_t count = elems - first < PIECE_ELEMS ? elems - first : PIECE_ELEMS;
        LS_TRY(ls_safetensor_read(tensor, first * sizeof(float), piece, count * sizeof(float)));
        LS_TRY(ls_stage_write(list->stage, param, which_of(list, i), first, count, piece));
    }
    return LS_OK;
}

static ls_status load_file(ls_stage *stage, const ls_checkpoint *checkpoint, const char *name, ls_stage_tensor first,
                           int per_param) {
    ls_status status = LS_OK;
    tensor_list list;
    ls_safetensors *file = NULL;
    float *piece = malloc(PIECE_ELEMS * sizeof *piece);
    if (!piece) return ls_fail(LS_ERR_RESOURCE, "out of memory for reading %s", name);
    status = open_list(stage, first, per_param, &list);
    if (status != LS_OK) {
        free(piece);
        return status;
    }
    LS_TRY_OUT(ls_checkpoint_open_tensors(checkpoint, name, &file));
    for (int i = 0; i < list.params * per_param; i++) LS_TRY_OUT(load_tensor(&list, i, file, piece));
out:
    ls_safetensors_close(file);
    close_list(&list);
    free(piece);
    return status;
}

ls_status ls_load_weights(ls_stage *stage, const ls_checkpoint *checkpoint) {
    return load_file(stage, checkpoint, LS_CHECKPOINT_WEIGHTS, LS_TENSOR_WEIGHT, 1);
}

ls_status ls_load(ls_trainer *trainer, const ls_checkpoint *checkpoint) {
    json_t *state = NULL;
    int moments = ls_optimizer_moments(&trainer->settings.optimizer);
    LS_TRY(ls_load_weights(trainer->stage, checkpoint));
    if (moments > 0 && !ls_checkpoint_has(checkpoint, LS_CHECKPOINT_OPTIMIZER))
        return ls_fail(LS_ERR_INPUT, "%s has no optimizer state; begin from its weights with --model",
                       ls_checkpoint_path(checkpoint));
    if (moments > 0) LS_TRY(load_file(trainer->stage, checkpoint, LS_CHECKPOINT_OPTIMIZER, LS_TENSOR_MOMENT0, moments));
    LS_TRY(ls_checkpoint_load_json(checkpoint, LS_CHECKPOINT_STATE, &state));
    ls_status status = ls_json_get_i64(state, "step", &trainer->step);
    if (status == LS_OK) status = ls_json_get_i64(state, "updates", &trainer->updates);
    const char *loss = json_string_value(json_object_get(state, "loss_hex"));
    if (loss) trainer->last_loss = strtod(loss, NULL); /* shown again when no step follows; nothing else uses it */
    json_decref(state);
    if (status == LS_OK && (trainer->step < 0 || trainer->updates < 0 || trainer->updates > trainer->step))
        status = ls_fail(LS_ERR_INPUT, "%s/%s: step %lld and updates %lld do not fit together",
                         ls_checkpoint_path(checkpoint), LS_CHECKPOINT_STATE, (long long)trainer->step,
                         (long long)trainer->updates);
    return status;
}
