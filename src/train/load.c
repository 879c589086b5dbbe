/* load.c: from a checkpoint back into a trainer. */
#include <stdlib.h>

#include "base/json.h"
#include "checkpoint/stage_tensors.h"
#include "train/save.h"

/* ---- state ------------------------------------------------------------------------------------------------------- */

ls_status ls_saved_identity(const ls_checkpoint *checkpoint, ls_identity **out) {
    json_t *state = NULL, *fields;
    LS_TRY(ls_checkpoint_load_json(checkpoint, LS_CHECKPOINT_STATE, &state));
    ls_status status = LS_OK;
    if (ls_json_get_object(state, "identity", &fields) != LS_OK)
        status = ls_fail(LS_ERR_INPUT, "%s/%s: this is no checkpoint of a run; begin from its weights with --model",
                         ls_checkpoint_path(checkpoint), LS_CHECKPOINT_STATE);
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

static ls_status load_state(ls_trainer *t, const ls_checkpoint *checkpoint) {
    json_t *state = NULL;
    LS_TRY(ls_checkpoint_load_json(checkpoint, LS_CHECKPOINT_STATE, &state));
    ls_status status = ls_json_get_i64(state, "step", &t->step);
    if (status == LS_OK) status = ls_json_get_i64(state, "updates", &t->updates);
    const char *loss = json_string_value(json_object_get(state, "loss_hex"));
    if (loss) t->last_loss = strtod(loss, NULL); /* shown again when no step follows; nothing else uses it */
    json_decref(state);
    if (status == LS_OK && (t->step < 0 || t->updates < 0 || t->updates > t->step))
        status =
            ls_fail(LS_ERR_INPUT, "%s/%s: step %lld and updates %lld do not fit together",
                    ls_checkpoint_path(checkpoint), LS_CHECKPOINT_STATE, (long long)t->step, (long long)t->updates);
    return status;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static ls_status load_file(ls_stage *stage, const ls_checkpoint *checkpoint, const char *name, ls_stage_tensor first,
                           int per_param) {
    ls_stage_tensors tensors;
    ls_safetensors *file = NULL;
    LS_TRY(ls_checkpoint_open_tensors(checkpoint, name, &file));
    ls_status status = ls_stage_tensors_open(stage, first, per_param, &tensors);
    if (status == LS_OK) {
        status = ls_stage_tensors_read(&tensors, file);
        ls_stage_tensors_close(&tensors);
    }
    ls_safetensors_close(file);
    return status;
}

ls_status ls_load_weights(ls_stage *stage, const ls_checkpoint *checkpoint) {
    return load_file(stage, checkpoint, LS_CHECKPOINT_WEIGHTS, LS_TENSOR_WEIGHT, 1);
}

ls_status ls_load(ls_trainer *t, const ls_checkpoint *checkpoint) {
    int moments = ls_optimizer_moments(&t->settings.optimizer);
    if (moments > 0 && !ls_checkpoint_has(checkpoint, LS_CHECKPOINT_OPTIMIZER))
        return ls_fail(LS_ERR_INPUT, "%s has no optimizer state; begin from its weights with --model",
                       ls_checkpoint_path(checkpoint));
    LS_TRY(ls_load_weights(t->stage, checkpoint));
    if (moments > 0) LS_TRY(load_file(t->stage, checkpoint, LS_CHECKPOINT_OPTIMIZER, LS_TENSOR_MOMENT0, moments));
    return load_state(t, checkpoint);
}
