/* save.c: weights of others as one of our checkpoints. The folder is made as that of a store of a run, which writes the
 * checksums and the marker, and then moved to its place. */
#include "interop/save.h"

#include <stdlib.h>
#include <string.h>

#include "checkpoint/store.h"
#include "interop/copies.h"
#include "interop/out_folder.h"
#include "interop/weights_file.h"
#include "model/shape_file.h"

static ls_status out_of_memory(void) { return ls_fail(LS_ERR_RESOURCE, "out of memory to write the checkpoint"); }

/* ---- weights ----------------------------------------------------------------------------------------------------- */

typedef struct tensor_list {
    ls_weights *weights;
    int count;
    ls_safetensors_decl *decls;
    int64_t (*shapes)[2];
    float *row; /* pieces of others begin and end inside a row */
} tensor_list;

static void close_list(tensor_list *list) {
    free(list->decls);
    free(list->shapes);
    free(list->row);
}

static ls_status open_list(ls_weights *weights, tensor_list *list) {
    int count = weights->model->nparams;
    size_t widest = 1;
    *list = (tensor_list){.weights = weights, .count = count};
    list->decls = calloc((size_t)count, sizeof *list->decls);
    list->shapes = calloc((size_t)count, sizeof *list->shapes);
    for (int i = 0; i < count && list->decls && list->shapes; i++) {
        const ls_param *param = weights->model->params[i];
        list->shapes[i][0] = (int64_t)param->rows;
        list->shapes[i][1] = (int64_t)param->columns;
        list->decls[i] = (ls_safetensors_decl){.name = param->name,
                                               .dtype = LS_F32,
                                               .dims = param->kind == LS_PARAM_VECTOR ? 1 : 2,
                                               .shape = list->shapes[i]};
        if (param->columns > widest) widest = param->columns;
    }
    list->row = malloc(widest * sizeof *list->row);
    if (list->decls && list->shapes && list->row) return LS_OK;
    close_list(list);
    return out_of_memory();
}

/* Part of one row. */
static ls_status read_part(const tensor_list *list, const ls_param *param, size_t row, size_t column, size_t count,
                           float *out) {
    LS_TRY(ls_weights_read(list->weights, param, row, 1, list->row));
    memcpy(out, list->row + column, count * sizeof *out);
    return LS_OK;
}

static ls_status read_weights(void *ctx, int tensor, size_t byte_offset, void *host, size_t bytes) {
    const tensor_list *list = ctx;
    const ls_param *param = list->weights->model->params[tensor];
    size_t elem = byte_offset / sizeof(float), count = bytes / sizeof(float), columns = param->columns;
    float *out = host;
    while (count > 0) {
        size_t row = elem / columns, column = elem % columns, done;
        if (column == 0 && count >= columns) {
            done = count / columns * columns;
            LS_TRY(ls_weights_read(list->weights, param, row, count / columns, out));
        } else {
            done = columns - column < count ? columns - column : count;
            LS_TRY(read_part(list, param, row, column, done, out));
        }
        out += done;
        elem += done;
        count -= done;
    }
    return LS_OK;
}

static ls_status put_weights(ls_store_save *save, ls_weights *weights) {
    tensor_list list;
    json_t *shape = ls_shape_to_json(&weights->model->shape);
    char *text = shape ? json_dumps(shape, JSON_COMPACT) : NULL;
    json_decref(shape);
    if (!text) return out_of_memory();
    ls_safetensors_text metadata[] = {{"format", "lockstep"}, {"shape", text}};
    ls_status status = open_list(weights, &list);
    if (status == LS_OK) {
        ls_safetensors_plan plan = {
            .tensors = list.decls, .count = list.count, .metadata = metadata, .metadata_count = 2};
        status = ls_store_put_tensors(save, LS_CHECKPOINT_WEIGHTS, &plan, read_weights, &list);
        close_list(&list);
    }
    free(text);
    return status;
}

/* ---- state and tokenizer ----------------------------------------------------------------------------------------- */

static ls_status put_state(ls_store_save *save, const ls_weights *weights, bool bytes) {
    static const char *const kinds[] = {
        [LS_WEIGHTS_CHECKPOINT] = "lockstep", [LS_WEIGHTS_HF] = "Hugging Face", [LS_WEIGHTS_LLMC] = "llm.c"};
    json_t *state = json_pack("{s:i, s:i, s:i, s:i, s:s, s:s?, s:O?, s:o}", "format", 1, "step", 0, "updates", 0,
                              "samples", 0, "imported", kinds[weights->kind], "tokenizer", bytes ? "bytes" : NULL,
                              "token_ids", weights->token_ids, "shape", ls_shape_to_json(&weights->model->shape));
    char *text = state ? json_dumps(state, JSON_INDENT(2)) : NULL;
    json_decref(state);
    if (!text) return out_of_memory();
    ls_status status = ls_store_put_bytes(save, LS_CHECKPOINT_STATE, text, strlen(text));
    free(text);
    return status;
}

/* The files that go with the model; `tokenizer` may be NULL. */
static ls_status put_copies(ls_store_save *save, const char *model, const char *tokenizer) {
    const char *folder = ls_store_save_folder(save), *name;
    if (tokenizer) LS_TRY(ls_copies_put(tokenizer, folder));
    LS_TRY(ls_copies_put_generation(model, folder));
    for (int i = 0; (name = ls_copies_name(i)); i++)
        if (ls_folder_has(folder, name)) LS_TRY(ls_store_add_file(save, name));
    return LS_OK;
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

static ls_status fill(ls_store *store, ls_weights *weights, const char *tokenizer) {
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
    LS_TRY_OUT(fill(store, weights, tokenizer));
    status = ls_out_folder_commit(&out, ls_store_folder(store, 0).text);
out:
    ls_store_close(store);
    ls_out_folder_abort(&out);
    return status;
}
