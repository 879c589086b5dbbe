/* save_files.c: declares the tensor files of a checkpoint, and makes state.json, the state of a run as JSON. */
#include "run/folder/save_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "model/shape_file.h"
#include "run/folder/save.h"
#include "run/folder/state_log.h"
#include "run/state_hash.h"

enum { TOKENIZER_BYTES_MAX = 1 << 28, LOSS_TEXT_MAX = 64 };

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Declares a file of `per_param` tensors for each parameter, from `first` on. */
static ls_status add_file(const ls_trainer *t, const char *name, ls_partition_tensor first, int per_param,
                          ls_save_files *files) {
    int f = files->count;
    LS_TRY(ls_partition_tensors_open(ls_partition_model(t->partition), first, per_param, &files->tensors[f]));
    files->name[f] = name;
    files->list[f] = &files->tensors[f];
    files->plan[f] = (ls_safetensors_plan){.tensors = files->tensors[f].decls, .count = files->tensors[f].count};
    files->first_sum[f + 1] = files->first_sum[f] + (size_t)files->tensors[f].count + 1;
    files->count++;
    return LS_OK;
}

/* Declares all files; ls_save_files_close() cleans up after a failure. */
static ls_status add_files(const ls_trainer *t, ls_save_files *files) {
    int moments = ls_optimizer_moments(&t->settings.optimizer);
    json_t *shape = ls_shape_to_json(&t->settings.shape);
    files->shape = shape ? json_dumps(shape, JSON_COMPACT) : NULL;
    json_decref(shape);
    if (!files->shape) return ls_fail(LS_ERR_RESOURCE, "out of memory for the shape of the model");
    LS_TRY(add_file(t, LS_CHECKPOINT_WEIGHTS, LS_TENSOR_WEIGHT, 1, files));
    files->metadata[0] = (ls_safetensors_text){"format", "lockstep"};
    files->metadata[1] = (ls_safetensors_text){"shape", files->shape};
    files->plan[0].metadata = files->metadata;
    files->plan[0].metadata_count = 2;
    return moments > 0 ? add_file(t, LS_CHECKPOINT_OPTIMIZER, LS_TENSOR_MOMENT0, moments, files) : LS_OK;
}

ls_status ls_save_files_open(const ls_trainer *t, ls_save_files *out) {
    *out = (ls_save_files){.count = 0};
    ls_status status = add_files(t, out);
    if (status != LS_OK) ls_save_files_close(out);
    return status;
}

void ls_save_files_close(ls_save_files *files) {
    for (int f = 0; f < files->count; f++) ls_partition_tensors_close(&files->tensors[f]);
    free(files->shape);
    *files = (ls_save_files){.count = 0};
}

/* ---- what worker 0 adds ------------------------------------------------------------------------------------------ */

ls_status ls_save_tokenizer(ls_store_save *save, const ls_tokenizer *tokenizer) {
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

/* Sets state[name] to a list of integers. Returns false if memory is short. */
static bool put_words(json_t *state, const char *name, const int64_t *words, size_t count) {
    json_t *list = json_array();
    bool whole = list != NULL;
    for (size_t i = 0; i < count && whole; i++) whole = json_array_append_new(list, json_integer(words[i])) == 0;
    return json_object_set_new(state, name, list) == 0 && whole;
}

/* Adds the hash of the state, if that of the present step is known. Returns false if memory is short. */
static bool put_hash(json_t *state, const ls_trainer *t) {
    char text[LS_HASH_TEXT_BYTES];
    if (t->state.step != t->step) return true;
    ls_hash_text(t->state.hash, text);
    return json_object_set_new(state, LS_SAVED_STATE, json_string(text)) == 0;
}

/* Adds the values that affect later steps: the loss scale, and the history of the guards. Returns false if memory is
 * short. */
static bool put_numbers(json_t *state, const ls_trainer *t) {
    int64_t scale[LS_LOSS_SCALE_WORDS], outlier[LS_OUTLIER_WORDS], noise[LS_NOISE_WORDS];
    ls_loss_scale_save(&t->scale, scale);
    ls_noise_save(&t->guard.noise, noise);
    /* Where outliers are watched by default, nothing but words depends on it, and checkpoints are the same. */
    bool remembers = t->guard.outlier && ls_settings_wants_outliers(&t->settings);
    if (remembers) ls_outlier_save(t->guard.outlier, outlier);
    /* If the next audit finds a faulty worker, the steps since the last audit are suspect. */
    bool unseen = t->settings.options.audit > 0 && t->guard.audit.clean_step < t->step;
    return put_hash(state, t) &&
           (!unseen || json_object_set_new(state, LS_SAVED_AUDITED, json_integer(t->guard.audit.clean_step)) == 0) &&
           (t->settings.policy.act != LS_F16 || put_words(state, "loss_scale", scale, LS_LOSS_SCALE_WORDS)) &&
           (t->settings.options.numerics == 0 || put_words(state, "noise", noise, LS_NOISE_WORDS)) &&
           (!remembers || (put_words(state, "outliers", outlier, LS_TRACK_WORDS) &&
                           put_words(state, "outlier_losses", outlier + LS_TRACK_WORDS, LS_TRACK_WORDS)));
}

ls_status ls_save_state_text(const ls_trainer *t, const char *hash, const ls_identity *identity,
                             const ls_tokenizer *tokenizer, char **text) {
    char loss[LOSS_TEXT_MAX];
    json_t *fields = NULL;
    *text = NULL;
    snprintf(loss, sizeof loss, "%a", t->last_loss);
    LS_TRY(ls_identity_to_json(identity, &fields));
    json_t *state =
        json_pack("{s:i, s:I, s:I, s:I, s:s, s:s, s:s?, s:o, s:o}", "format", 1, "step", (json_int_t)t->step, "updates",
                  (json_int_t)t->updates, "samples", (json_int_t)ls_trainer_samples(t), "loss_hex", loss,
                  "weights_xxh128", hash, "tokenizer", tokenizer ? ls_tokenizer_name(tokenizer) : NULL, "shape",
                  ls_shape_to_json(&t->settings.shape), "identity", fields);
    bool whole = state && put_numbers(state, t) && ls_validation_to_json(&t->validation, state);
    if (whole) *text = json_dumps(state, JSON_INDENT(2));
    json_decref(state);
    return *text ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for the state of the run");
}
