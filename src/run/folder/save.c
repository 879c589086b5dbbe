/* save.c: a checkpoint, written by all workers.
 *
 *     worker 0        begin ── create file ─┬─ write ──────────── end file ── … ── tokenizer, state, commit
 *     the others                            └─ join, write, end ─┘
 *
 * Each worker sums the bytes that it is about to write, as they are in memory; the sum of all workers is the checksum
 * of the file. Nothing is read back: what is damaged on its way to the disk shows when it is loaded.
 *
 * After each of these steps all agree that nobody has failed. Else worker 0 takes the folder away and all leave
 * together. */
#include "run/folder/save.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "checkpoint/partition_tensors.h"
#include "model/shape_file.h"
#include "run/agree.h"
#include "run/folder/state_log.h"
#include "run/state_hash.h"

enum { TOKENIZER_BYTES_MAX = 1 << 28, LOSS_TEXT_MAX = 64 };

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Worker 0's half of the beginning. */
static ls_status create_file(ls_store_save *save, const char *name, const ls_safetensors_plan *plan,
                             char path[PATH_MAX], ls_safetensors_writer **writer) {
    LS_TRY(ls_store_begin_tensors(save, name, plan, writer));
    const char *temporary = ls_safetensors_temporary(*writer);
    if (snprintf(path, PATH_MAX, "%s", temporary) < PATH_MAX) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "the path %.100s… is too long", temporary);
}

/* Every worker's part of the middle; `sum` is that of its bytes. */
static ls_status write_part(const ls_partition_tensors *tensors, ls_partition *partition,
                            const ls_safetensors_plan *plan, const char *path, bool is_first,
                            ls_safetensors_writer **writer, ls_byte_sum *sum) {
    if (!is_first) LS_TRY(ls_safetensors_join(path, plan, writer));
    LS_TRY(ls_partition_tensors_write(tensors, partition, *writer));
    *sum = *ls_safetensors_byte_sum(*writer);
    if (is_first) return LS_OK;
    ls_status status = ls_safetensors_finish(*writer, NULL);
    *writer = NULL;
    return status;
}

/* From each worker's sum to that of all. */
static ls_status add_sums(ls_partition *partition, ls_byte_sum *sum) {
    int64_t words[LS_BYTE_SUM_WORDS];
    ls_byte_sum_give(sum, words);
    LS_TRY(ls_partition_sum(partition, words, LS_BYTE_SUM_WORDS));
    ls_byte_sum_take(sum, words);
    return LS_OK;
}

/* `save` is NULL on all workers but the first; `prepared` tells whether the plan could be made. */
static ls_status put_file(ls_store_save *save, const ls_trainer *t, const char *name,
                          const ls_partition_tensors *tensors, ls_safetensors_plan plan, ls_status prepared) {
    ls_safetensors_writer *writer = NULL;
    ls_byte_sum sum = {.bytes = 0};
    char path[PATH_MAX] = "";
    plan.tensors = tensors->decls;
    plan.count = tensors->count;
    plan.is_shared = t->world != NULL;
    ls_status status = prepared;
    if (status == LS_OK && save) status = create_file(save, name, &plan, path, &writer);
    LS_TRY_OUT(ls_agree(t->world, status));
    LS_TRY_OUT(ls_agree_tell(t->world, path, sizeof path));
    LS_TRY_OUT(ls_agree(t->world, write_part(tensors, t->partition, &plan, path, save != NULL, &writer, &sum)));
    LS_TRY_OUT(add_sums(t->partition, &sum));
    if (save) {
        status = ls_store_end_tensors(save, name, writer, &sum);
        writer = NULL;
    }
    status = ls_agree(t->world, status);
out:
    ls_safetensors_abort(writer);
    return status;
}

static ls_status put_weights(ls_store_save *save, ls_trainer *t) {
    ls_partition_tensors tensors = {.count = 0};
    json_t *shape = ls_shape_to_json(&t->settings.shape);
    char *text = shape ? json_dumps(shape, JSON_COMPACT) : NULL;
    json_decref(shape);
    ls_safetensors_text metadata[] = {{"format", "lockstep"}, {"shape", text}};
    ls_safetensors_plan plan = {.metadata = metadata, .metadata_count = 2};
    ls_status status = text ? ls_partition_tensors_open(ls_partition_model(t->partition), LS_TENSOR_WEIGHT, 1, &tensors)
                            : ls_fail(LS_ERR_RESOURCE, "out of memory for the shape of the model");
    status = put_file(save, t, LS_CHECKPOINT_WEIGHTS, &tensors, plan, status);
    ls_partition_tensors_close(&tensors);
    free(text);
    return status;
}

static ls_status put_moments(ls_store_save *save, ls_trainer *t) {
    ls_partition_tensors tensors = {.count = 0};
    int moments = ls_optimizer_moments(&t->settings.optimizer);
    if (moments == 0) return LS_OK;
    ls_status status =
        ls_partition_tensors_open(ls_partition_model(t->partition), LS_TENSOR_MOMENT0, moments, &tensors);
    status = put_file(save, t, LS_CHECKPOINT_OPTIMIZER, &tensors, (ls_safetensors_plan){.count = 0}, status);
    ls_partition_tensors_close(&tensors);
    return status;
}

/* ---- what worker 0 adds ------------------------------------------------------------------------------------------ */

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

static bool put_words(json_t *state, const char *name, const int64_t *words, size_t count) {
    json_t *list = json_array();
    bool whole = list != NULL;
    for (size_t i = 0; i < count && whole; i++) whole = json_array_append_new(list, json_integer(words[i])) == 0;
    return json_object_set_new(state, name, list) == 0 && whole;
}

static bool put_hash(json_t *state, const ls_trainer *t) {
    char text[LS_HASH_TEXT_BYTES];
    if (t->state.step != t->step) return true;
    ls_hash_text(t->state.hash, text);
    return json_object_set_new(state, LS_SAVED_STATE, json_string(text)) == 0;
}

/* What decides about later steps: the loss scale, and what guards remember. */
static bool put_numbers(json_t *state, const ls_trainer *t) {
    int64_t scale[LS_LOSS_SCALE_WORDS], outlier[LS_OUTLIER_WORDS], noise[LS_NOISE_WORDS];
    ls_loss_scale_save(&t->scale, scale);
    ls_noise_save(&t->guard.noise, noise);
    /* Where outliers are watched by default, nothing but words depends on it, and checkpoints are the same. */
    bool remembers = t->guard.outlier && ls_settings_wants_outliers(&t->settings);
    if (remembers) ls_outlier_save(t->guard.outlier, outlier);
    return put_hash(state, t) &&
           (t->settings.policy.act != LS_F16 || put_words(state, "loss_scale", scale, LS_LOSS_SCALE_WORDS)) &&
           (t->settings.options.numerics == 0 || put_words(state, "noise", noise, LS_NOISE_WORDS)) &&
           (!remembers || (put_words(state, "outliers", outlier, LS_TRACK_WORDS) &&
                           put_words(state, "outlier_losses", outlier + LS_TRACK_WORDS, LS_TRACK_WORDS)));
}

static ls_status put_state(ls_store_save *save, const ls_trainer *t, const char *hash, const ls_identity *identity,
                           const char *tokenizer) {
    char loss[LOSS_TEXT_MAX];
    json_t *fields = NULL;
    snprintf(loss, sizeof loss, "%a", t->last_loss);
    LS_TRY(ls_identity_to_json(identity, &fields));
    json_t *state = json_pack("{s:i, s:I, s:I, s:I, s:s, s:s, s:s?, s:o, s:o}", "format", 1, "step",
                              (json_int_t)t->step, "updates", (json_int_t)t->updates, "samples",
                              (json_int_t)ls_trainer_samples(t), "loss_hex", loss, "weights_xxh128", hash, "tokenizer",
                              tokenizer, "shape", ls_shape_to_json(&t->settings.shape), "identity", fields);
    bool whole = state && put_numbers(state, t) && ls_validation_to_json(&t->validation, state);
    char *text = whole ? json_dumps(state, JSON_INDENT(2)) : NULL;
    json_decref(state);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for the state of the run");
    ls_status status = ls_store_put_bytes(save, LS_CHECKPOINT_STATE, text, strlen(text));
    free(text);
    return status;
}

static ls_status put_rest(ls_store_save *save, const ls_trainer *t, const char *hash, const ls_identity *identity,
                          const ls_tokenizer *tokenizer) {
    LS_TRY(put_tokenizer(save, tokenizer));
    return put_state(save, t, hash, identity, tokenizer ? ls_tokenizer_name(tokenizer) : NULL);
}

ls_status ls_save(ls_store *store, ls_trainer *t, const ls_identity *identity, const ls_tokenizer *tokenizer) {
    ls_store_save *save = NULL;
    char hash[33];
    LS_TRY(ls_trainer_prove_state(t));
    LS_TRY(ls_partition_hash(t->partition, hash));
    ls_status status = t->rank == 0 ? ls_store_begin(store, t->step, &save) : LS_OK;
    LS_TRY_OUT(ls_agree(t->world, status));
    LS_TRY_OUT(put_weights(save, t));
    LS_TRY_OUT(put_moments(save, t));
    if (save) status = put_rest(save, t, hash, identity, tokenizer);
    LS_TRY_OUT(ls_agree(t->world, status));
    if (save) status = ls_store_commit(save);
    return ls_agree(t->world, status);
out:
    ls_store_abort(save);
    return ls_agree_fail(t->world, status);
}
