/* save.c: writes imported weights as a checkpoint of lockstep. The folder is made as one of a run's store, which writes
 * the checksums and the marker, and is then moved to its place. */
#include "interop/save.h"

#include <stdlib.h>
#include <string.h>

#include "checkpoint/partition_tensors.h"
#include "checkpoint/store.h"
#include "interop/copies.h"
#include "interop/out_folder.h"
#include "interop/weights_file.h"
#include "model/shape_file.h"

/* Returns LS_ERR_RESOURCE. */
static ls_status fail_save_memory(void) { return ls_fail(LS_ERR_RESOURCE, "out of memory to write the checkpoint"); }

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Sink of ls_weights_load(): writes rows of a parameter to the safetensors writer. */
static ls_status write_rows(void *ctx, const ls_param *param, size_t first_row, size_t rows, const float *data) {
    return ls_safetensors_write_at(ctx, (int)param->number, first_row * param->columns, data,
                                   rows * param->columns * sizeof *data);
}

/* Writes all weights into the checkpoint's weights.safetensors. */
static ls_status put_tensors(ls_store_save *save, ls_weights *weights, const ls_safetensors_plan *plan) {
    ls_safetensors_writer *writer;
    LS_TRY(ls_store_begin_tensors(save, LS_CHECKPOINT_WEIGHTS, plan, &writer));
    ls_status status = ls_weights_load(weights, weights->model, write_rows, writer);
    if (status == LS_OK) return ls_store_end_tensors(save, LS_CHECKPOINT_WEIGHTS, plan, writer);
    ls_safetensors_abort(writer);
    return status;
}

/* Describes the tensors and the shape, and writes the weights. */
static ls_status put_weights(ls_store_save *save, ls_weights *weights) {
    ls_partition_tensors tensors;
    json_t *shape = ls_shape_to_json(&weights->model->shape);
    char *text = shape ? json_dumps(shape, JSON_COMPACT) : NULL;
    json_decref(shape);
    if (!text) return fail_save_memory();
    ls_safetensors_text metadata[] = {{"format", "lockstep"}, {"shape", text}};
    ls_status status = ls_partition_tensors_open(weights->model, LS_TENSOR_WEIGHT, 1, &tensors);
    if (status == LS_OK) {
        ls_safetensors_plan plan = {
            .tensors = tensors.decls, .count = tensors.count, .metadata = metadata, .metadata_count = 2};
        status = put_tensors(save, weights, &plan);
        ls_partition_tensors_close(&tensors);
    }
    free(text);
    return status;
}

/* ---- state and tokenizer ----------------------------------------------------------------------------------------- */

/* Writes state.json: step 0, where the weights come from, tokenizer and token ids. */
static ls_status put_state(ls_store_save *save, const ls_weights *weights, bool bytes) {
    json_t *state = json_pack("{s:i, s:i, s:i, s:i, s:s, s:s?, s:O?, s:o}", "format", 1, "step", 0, "updates", 0,
                              "samples", 0, "imported", ls_weights_format(weights), "tokenizer", bytes ? "bytes" : NULL,
                              "token_ids", weights->token_ids, "shape", ls_shape_to_json(&weights->model->shape));
    char *text = state ? json_dumps(state, JSON_INDENT(2)) : NULL;
    json_decref(state);
    if (!text) return fail_save_memory();
    ls_status status = ls_store_put_bytes(save, LS_CHECKPOINT_STATE, text, strlen(text));
    free(text);
    return status;
}

/* Adds the files that belong to the model, and registers them with the checkpoint; `tokenizer` may be NULL. */
static ls_status put_copies(ls_store_save *save, const char *model, const char *tokenizer) {
    const char *folder = ls_store_save_folder(save), *name;
    if (tokenizer) LS_TRY(ls_copies_put(tokenizer, folder));
    LS_TRY(ls_copies_put_generation(model, folder));
    for (int i = 0; (name = ls_copies_name(i)); i++)
        if (ls_folder_has(folder, name)) LS_TRY(ls_store_add_file(save, name));
    return LS_OK;
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

/* Saves a checkpoint of step 0 with weights, state and copies. */
static ls_status fill_store(ls_store *store, ls_weights *weights, const char *tokenizer) {
    ls_store_save *save = NULL;
    ls_status status;
    bool bytes = tokenizer && strcmp(tokenizer, "bytes") == 0;
    LS_TRY(ls_store_begin(store, 0, &save));
    LS_TRY_OUT(put_weights(save, weights));
    LS_TRY_OUT(put_state(save, weights, bytes));
    LS_TRY_OUT(put_copies(save, weights->path, bytes ? NULL : tokenizer));
    return ls_store_commit(save);
out:
    ls_store_abort(save);
    return status;
}

ls_status ls_weights_save(ls_weights *weights, const char *folder, const char *tokenizer) {
    ls_out_folder out;
    ls_store *store = NULL;
    ls_status status;
    if (!tokenizer) tokenizer = ls_weights_companions(weights);
    LS_TRY(ls_out_folder_begin(folder, &out));
    LS_TRY_OUT(ls_store_open(out.partial.text, LS_STORE_WRITE, &store));
    LS_TRY_OUT(fill_store(store, weights, tokenizer));
    status = ls_out_folder_commit(&out, ls_store_folder(store, 0).text);
out:
    ls_store_close(store);
    ls_out_folder_abort(&out);
    return status;
}
