/* weights_checkpoint.c: the weights of one of our checkpoints: a tensor for each parameter, by our names. */
#include <stdlib.h>
#include <string.h>

#include "interop/copies.h"
#include "interop/weights_file.h"
#include "model/shape_file.h"

static ls_status read_shape(const ls_safetensors *file, ls_shape *shape) {
    const char *format = ls_safetensors_metadata_find(file, "format");
    const char *text = ls_safetensors_metadata_find(file, "shape");
    if (!format || strcmp(format, "lockstep") != 0 || !text)
        return ls_fail(LS_ERR_INPUT, "%s was not written by lockstep: its metadata has no shape",
                       ls_safetensors_path(file));
    ls_status status = ls_shape_parse("shape.json", text, strlen(text), shape);
    return status == LS_OK ? LS_OK : ls_fail_at(status, "%s: ", ls_safetensors_path(file));
}

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

/* The files in the folder itself come before what the state names: the folder may have been moved. */
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
