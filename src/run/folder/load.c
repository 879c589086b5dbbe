/* load.c: reads a checkpoint of a run: its identity and numbers, and its tensors into a trainer or partition. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/json.h"
#include "checkpoint/partition_tensors.h"
#include "run/folder/save.h"
#include "run/folder/state_log.h"
#include "run/state_hash.h"

/* ---- state ------------------------------------------------------------------------------------------------------- */

ls_status ls_saved_identity(const ls_checkpoint *checkpoint, ls_identity **out) {
    json_t *state = NULL, *fields;
    LS_TRY(ls_checkpoint_load_json(checkpoint, LS_CHECKPOINT_STATE, &state));
    ls_status status = LS_OK;
    if (ls_json_get_object(state, "identity", &fields) != LS_OK)
        status = ls_fail(LS_ERR_INPUT, "%s/%s: not a checkpoint of a run; use --model to start from its weights",
                         ls_checkpoint_path(checkpoint), LS_CHECKPOINT_STATE);
    if (status == LS_OK) status = ls_identity_from_json(ls_checkpoint_path(checkpoint), fields, out);
    json_decref(state);
    return status;
}

/* Copies the words for precision and matrix unit from an identity; "fp32" and "chain" if it has no such fields, as that
 * of an fp32 run (settings.c). */
static void copy_precision(const ls_identity *identity, char *precision, char *unit) {
    const char *type = ls_identity_get_text(identity, "precision"), *by = ls_identity_get_text(identity, "matrix-unit");
    snprintf(precision, LS_SAVED_WORD_MAX, "%s", type ? type : "fp32");
    snprintf(unit, LS_SAVED_WORD_MAX, "%s", by ? by : "chain");
}

ls_status ls_saved_precision(const ls_checkpoint *checkpoint, char precision[LS_SAVED_WORD_MAX],
                             char unit[LS_SAVED_WORD_MAX]) {
    json_t *state = NULL, *fields;
    ls_identity *identity = NULL;
    ls_status status = LS_OK;
    precision[0] = unit[0] = '\0';
    LS_TRY(ls_checkpoint_load_json(checkpoint, LS_CHECKPOINT_STATE, &state));
    if (ls_json_get_object(state, "identity", &fields) == LS_OK)
        status = ls_identity_from_json(ls_checkpoint_path(checkpoint), fields, &identity);
    if (identity) copy_precision(identity, precision, unit);
    ls_identity_destroy(identity);
    json_decref(state);
    return status;
}

ls_status ls_saved_weights(const ls_checkpoint *checkpoint, char hash[LS_SAVED_HASH_MAX]) {
    json_t *state = NULL;
    LS_TRY(ls_checkpoint_load_json(checkpoint, LS_CHECKPOINT_STATE, &state));
    const char *text = json_string_value(json_object_get(state, "weights_xxh128"));
    snprintf(hash, LS_SAVED_HASH_MAX, "%s", text ? text : "");
    json_decref(state);
    return LS_OK;
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

/* Reads a list of exactly `count` integers. Returns false if there is no such list. */
static bool get_words(const json_t *state, const char *name, int64_t *words, size_t count) {
    const json_t *list = json_object_get(state, name);
    if (json_array_size(list) != count) return false;
    for (size_t i = 0; i < count; i++) {
        const json_t *word = json_array_get(list, i);
        if (!json_is_integer(word)) return false;
        words[i] = json_integer_value(word);
    }
    return true;
}

/* Restores what affects later steps from state.json: history of the guards, and the loss scale. Guards that the saved
 * run did not have start empty. The loss scale of a fork starts again if its settings do not allow the saved one. */
static ls_status load_numbers(ls_trainer *t, const json_t *state, const char *path, bool is_fork) {
    int64_t scale[LS_LOSS_SCALE_WORDS], outlier[LS_OUTLIER_WORDS] = {0}, noise[LS_NOISE_WORDS];
    if (get_words(state, "noise", noise, LS_NOISE_WORDS)) LS_TRY(ls_noise_restore(&t->guard.noise, noise));
    if (t->guard.outlier && get_words(state, "outliers", outlier, LS_TRACK_WORDS)) {
        /* Runs of older versions have no losses of groups. */
        if (!get_words(state, "outlier_losses", outlier + LS_TRACK_WORDS, LS_TRACK_WORDS))
            memset(outlier + LS_TRACK_WORDS, 0, LS_TRACK_WORDS * sizeof *outlier);
        ls_status status = ls_outlier_restore(t->guard.outlier, outlier);
        if (status != LS_OK) return ls_fail_at(status, "%s/%s", path, LS_CHECKPOINT_STATE);
    }
    if (t->settings.policy.act != LS_F16) return LS_OK;
    if (get_words(state, "loss_scale", scale, LS_LOSS_SCALE_WORDS)) {
        ls_status status = ls_loss_scale_restore(&t->scale, &t->settings.loss_scale, scale);
        return is_fork ? LS_OK : status;
    }
    if (!json_object_get(state, "loss_scale")) return LS_OK; /* a fork from another precision */
    return ls_fail(LS_ERR_INPUT, "%s/%s: the loss scale is damaged", path, LS_CHECKPOINT_STATE);
}

/* Sets the last step whose audits passed. A checkpoint without this field has no unaudited steps, or belongs to a run
 * without audits; a fork starts clean. */
static void load_audited(ls_trainer *t, const json_t *state, bool is_fork) {
    const json_t *step = json_object_get(state, LS_SAVED_AUDITED);
    int64_t clean = json_is_integer(step) && !is_fork ? (int64_t)json_integer_value(step) : t->step;
    t->guard.audit.clean_step = clean >= 0 && clean < t->step ? clean : t->step;
}

/* Reads state.json into the trainer: step, updates, loss, guards, evaluations; LS_ERR_INPUT if it contradicts
 * itself. */
static ls_status load_state(ls_trainer *t, const ls_checkpoint *checkpoint, bool is_fork) {
    json_t *state = NULL;
    LS_TRY(ls_checkpoint_load_json(checkpoint, LS_CHECKPOINT_STATE, &state));
    ls_status status = ls_json_get_i64(state, "step", &t->step);
    if (status == LS_OK) status = ls_json_get_i64(state, "updates", &t->updates);
    const char *loss = json_string_value(json_object_get(state, "loss_hex"));
    if (loss) t->last_loss = strtod(loss, NULL); /* shown again when no step follows; nothing else uses it */
    if (status == LS_OK) status = load_numbers(t, state, ls_checkpoint_path(checkpoint), is_fork);
    if (status == LS_OK) load_audited(t, state, is_fork);
    /* A fork may have other validation data, so its best evaluation is not that of the parent. */
    if (status == LS_OK && !is_fork && ls_validation_from_json(&t->validation, state) != LS_OK)
        status = ls_fail_at(LS_ERR_INPUT, "%s/%s: ", ls_checkpoint_path(checkpoint), LS_CHECKPOINT_STATE);
    json_decref(state);
    if (status == LS_OK && (t->step < 0 || t->updates < 0 || t->updates > t->step))
        status =
            ls_fail(LS_ERR_INPUT, "%s/%s: step %lld and updates %lld contradict each other",
                    ls_checkpoint_path(checkpoint), LS_CHECKPOINT_STATE, (long long)t->step, (long long)t->updates);
    return status;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Reads `per_param` tensors of each parameter, from `first` on, from one file of the checkpoint into the partition. */
static ls_status load_file(ls_partition *partition, const ls_checkpoint *checkpoint, const char *name,
                           ls_partition_tensor first, int per_param) {
    ls_partition_tensors tensors;
    ls_safetensors *file = NULL;
    LS_TRY(ls_checkpoint_open_tensors(checkpoint, name, &file));
    ls_status status = ls_partition_tensors_open(ls_partition_model(partition), first, per_param, &tensors);
    if (status == LS_OK) {
        status = ls_partition_tensors_read(&tensors, partition, file);
        ls_partition_tensors_close(&tensors);
    }
    ls_safetensors_close(file);
    return status;
}

ls_status ls_load_weights(ls_partition *partition, const ls_checkpoint *checkpoint) {
    return load_file(partition, checkpoint, LS_CHECKPOINT_WEIGHTS, LS_TENSOR_WEIGHT, 1);
}

/* Compares the hash of the state that was loaded with the saved one, to detect damage on any way between them. LS_OK if
 * there is none to compare. Collective. */
static ls_status compare_hash(ls_trainer *t, const ls_checkpoint *checkpoint) {
    json_t *state = NULL;
    char saved[LS_HASH_TEXT_BYTES] = "", loaded[LS_HASH_TEXT_BYTES];
    LS_TRY(ls_checkpoint_load_json(checkpoint, LS_CHECKPOINT_STATE, &state));
    const char *text = json_string_value(json_object_get(state, LS_SAVED_STATE));
    snprintf(saved, sizeof saved, "%s", text ? text : "");
    json_decref(state);
    if (!saved[0] || !ls_trainer_has_state_hash(t)) return LS_OK;
    LS_TRY(ls_trainer_state_written(t));
    LS_TRY(ls_trainer_know_state(t));
    ls_hash_text(t->state.hash, loaded);
    if (strcmp(saved, loaded) == 0) return LS_OK;
    return ls_fail(
        LS_ERR_INPUT,
        "%s: weights and optimizer state have the hash %s, but %s was saved; use an older checkpoint (--resume "
        "RUN@STEP), and look for bad memory or a bad disk",
        ls_checkpoint_path(checkpoint), loaded, saved);
}

/* Loads tensors and numbers; a fork's state hash is not compared, because its numbers may differ. */
static ls_status load_checkpoint_state(ls_trainer *t, const ls_checkpoint *checkpoint, bool is_fork) {
    int moments = ls_optimizer_moments(&t->settings.optimizer);
    if (moments > 0 && !ls_checkpoint_has(checkpoint, LS_CHECKPOINT_OPTIMIZER))
        return ls_fail(LS_ERR_INPUT, "%s has no optimizer state; use --model to start from its weights",
                       ls_checkpoint_path(checkpoint));
    LS_TRY(ls_load_weights(t->partition, checkpoint));
    ls_fault_point(LS_POINT_LOAD);
    if (moments > 0) LS_TRY(load_file(t->partition, checkpoint, LS_CHECKPOINT_OPTIMIZER, LS_TENSOR_MOMENT0, moments));
    LS_TRY(load_state(t, checkpoint, is_fork));
    return is_fork ? LS_OK : compare_hash(t, checkpoint);
}

ls_status ls_load(ls_trainer *t, const ls_checkpoint *checkpoint) {
    return load_checkpoint_state(t, checkpoint, false);
}
ls_status ls_load_fork(ls_trainer *t, const ls_checkpoint *checkpoint) {
    return load_checkpoint_state(t, checkpoint, true);
}
