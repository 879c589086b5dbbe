/* hf_export.c: writes a Hugging Face folder from weights. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "checkpoint/safetensors_writer.h"
#include "interop/copies.h"
#include "interop/elems.h"
#include "interop/hf.h"
#include "interop/hf_names.h"
#include "interop/out_folder.h"
#include "interop/weights_file.h"
#include "model/shape_file.h"

enum { FILE_NAME_MAX = 64 };

typedef struct export_job {
    const ls_model *model;
    const ls_hf_export_options *options;
    ls_tensor_source source;
    void *source_ctx;
    const char *folder;
    ls_hf_tensor *list;
    int count;
    int *shard; /* of each tensor; ascending */
    int shards;
} export_job;

/* Returns LS_ERR_RESOURCE. */
static ls_status fail_export_memory(void) { return ls_fail(LS_ERR_RESOURCE, "out of memory to write the model"); }

/* Returns the bytes of tensor i in the file. */
static size_t tensor_bytes(const export_job *job, int i) {
    const ls_stored *stored = &job->list[i].stored;
    return stored->rows * stored->columns * ls_dtype_bytes(job->options->dtype);
}

/* Assigns tensors to files in order; a file begins where the next tensor would exceed its limit. */
static void assign_shards(export_job *job) {
    size_t capacity = job->options->shard_bytes, used = 0;
    job->shards = 1;
    for (int i = 0; i < job->count; i++) {
        size_t bytes = tensor_bytes(job, i);
        if (capacity > 0 && used > 0 && bytes > capacity - (used < capacity ? used : capacity)) {
            job->shards++;
            used = 0;
        }
        job->shard[i] = job->shards - 1;
        used += bytes;
    }
}

/* Writes the file name of a shard, counted from 0; a single file has a name without numbers. */
static void format_shard_name(const export_job *job, int shard, char name[FILE_NAME_MAX]) {
    if (job->shards == 1)
        snprintf(name, FILE_NAME_MAX, "model.safetensors");
    else
        snprintf(name, FILE_NAME_MAX, "model-%05d-of-%05d.safetensors", shard + 1, job->shards);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

typedef struct tensor_out {
    ls_safetensors_writer *writer;
    int tensor;
    size_t unit, elems_done;
} tensor_out;

/* Callback of ls_stored_write(): appends bytes to the tensor in the file. */
static ls_status write_piece(void *ctx, const void *data, size_t bytes) {
    tensor_out *out = ctx;
    LS_TRY(ls_safetensors_write_at(out->writer, out->tensor, out->elems_done, data, bytes));
    out->elems_done += bytes / out->unit;
    return LS_OK;
}

/* Pulls the tensors of a shard from the source, and writes them. */
static ls_status write_tensors(const export_job *job, int first, int count, ls_safetensors_writer *writer) {
    for (int i = 0; i < count; i++) {
        const ls_hf_tensor *t = &job->list[first + i];
        ls_stored stored = t->stored;
        stored.dtype = job->options->dtype;
        tensor_out out = {writer, i, ls_dtype_bytes(stored.dtype), 0};
        LS_TRY(ls_stored_write(&stored, t->name, t->param, job->source, job->source_ctx, write_piece, &out));
    }
    return LS_OK;
}

/* Writes one safetensors file with tensors first … first + count − 1; removes it after a failure. */
static ls_status write_shard(const export_job *job, int first, int count) {
    static const ls_safetensors_text metadata = {"format", "pt"};
    char name[FILE_NAME_MAX];
    ls_safetensors_writer *writer = NULL;
    ls_status status;
    ls_safetensors_decl *decls = calloc((size_t)count, sizeof *decls);
    if (!decls) return fail_export_memory();
    for (int i = 0; i < count; i++) {
        const ls_hf_tensor *t = &job->list[first + i];
        decls[i] =
            (ls_safetensors_decl){.name = t->name, .dtype = job->options->dtype, .dims = t->dims, .shape = t->shape};
    }
    ls_safetensors_plan plan = {.tensors = decls, .count = count, .metadata = &metadata, .metadata_count = 1};
    format_shard_name(job, job->shard[first], name);
    LS_TRY_OUT(ls_safetensors_create(ls_path_in(job->folder, name).text, &plan, &writer));
    LS_TRY_OUT(write_tensors(job, first, count, writer));
    status = ls_safetensors_finish(writer, NULL);
    writer = NULL;
out:
    ls_safetensors_abort(writer);
    free(decls);
    return status;
}

/* Writes all safetensors files. */
static ls_status write_shards(const export_job *job) {
    for (int first = 0, end; first < job->count; first = end) {
        for (end = first; end < job->count && job->shard[end] == job->shard[first];) end++;
        LS_TRY(write_shard(job, first, end - first));
    }
    return LS_OK;
}

/* ---- JSON files -------------------------------------------------------------------------------------------------- */

/* Formats JSON with 15 digits if that reads back as the same numbers: 1e-05 instead of 1.0000000000000001e-05. The
 * caller frees the text. */
static char *dump_short(json_t *json) {
    char *text = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_t *back = text ? json_loads(text, 0, NULL) : NULL;
    bool same = back && json_equal(json, back);
    json_decref(back);
    if (same) return text;
    free(text);
    return json_dumps(json, JSON_INDENT(2));
}

/* Writes JSON into a file of the folder; the caller still owns it. */
static ls_status put_json(const export_job *job, const char *name, json_t *json) {
    char *text = dump_short(json);
    ls_status status =
        text ? ls_file_write_atomic(ls_path_in(job->folder, name).text, text, strlen(text)) : fail_export_memory();
    free(text);
    return status;
}

/* Writes the index, if there is more than one file. */
static ls_status write_index(const export_job *job) {
    size_t total = 0;
    json_t *map = json_object();
    int bad = map == NULL;
    if (job->shards == 1) {
        json_decref(map);
        return LS_OK;
    }
    for (int i = 0; i < job->count; i++) {
        char name[FILE_NAME_MAX];
        format_shard_name(job, job->shard[i], name);
        bad |= json_object_set_new(map, job->list[i].name, json_string(name));
        total += tensor_bytes(job, i);
    }
    json_t *index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
    ls_status status = index && !bad ? put_json(job, "model.safetensors.index.json", index) : fail_export_memory();
    json_decref(index);
    return status;
}

/* Sets the special token ids, to null if none are known. If they are missing, transformers assumes those of the
 * original GPT-2 or Llama, which this vocabulary may not have. Returns nonzero if memory is short. */
static int set_token_ids(json_t *config, const json_t *ids) {
    static const char *const keys[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    int bad = 0;
    for (int i = 0; i < 3; i++) {
        json_t *value = ids ? json_object_get(ids, keys[i]) : NULL;
        if (value)
            bad |= json_object_set(config, keys[i], value);
        else if (!ids)
            bad |= json_object_set_new(config, keys[i], json_null());
    }
    return bad;
}

/* Writes config.json, with the number type and the token ids. */
static ls_status write_config(const export_job *job) {
    static const char *const types[] = {[LS_F32] = "float32", [LS_BF16] = "bfloat16", [LS_F16] = "float16"};
    json_t *config = ls_shape_to_hf(&job->model->shape);
    int bad = config == NULL;
    bad |= json_object_set_new(config, "torch_dtype", json_string(types[job->options->dtype]));
    bad |= set_token_ids(config, job->options->token_ids);
    ls_status status = bad ? fail_export_memory() : put_json(job, "config.json", config);
    json_decref(config);
    return status;
}

/* Writes the files of the tokenizer, and the origin's generation_config.json. */
static ls_status write_copies(const export_job *job) {
    const char *tokenizer = job->options->tokenizer, *origin = job->options->origin;
    if (tokenizer && strcmp(tokenizer, "bytes") == 0)
        LS_TRY(ls_copies_put_bytes(job->folder, job->model->shape.T));
    else if (tokenizer)
        LS_TRY(ls_copies_put(tokenizer, job->folder));
    return origin ? ls_copies_put_generation(origin, job->folder) : LS_OK;
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

/* Writes all files into the partial folder; config.json comes last. */
static ls_status write_folder(export_job *job) {
    ls_status status;
    LS_TRY_OUT(ls_hf_tensors(job->model, &job->list, &job->count));
    job->shard = calloc((size_t)job->count, sizeof *job->shard);
    if (!job->shard) {
        status = fail_export_memory();
        goto out;
    }
    assign_shards(job);
    LS_TRY_OUT(write_shards(job));
    LS_TRY_OUT(write_index(job));
    LS_TRY_OUT(write_copies(job));
    LS_TRY_OUT(write_config(job));
out:
    free(job->shard);
    free(job->list);
    return status;
}

ls_status ls_hf_export(const char *folder, const ls_model *model, const ls_hf_export_options *options,
                       ls_tensor_source source, void *ctx) {
    ls_out_folder out;
    if (!ls_elems_can(options->dtype)) return ls_fail(LS_ERR_INPUT, "--dtype must be fp32, bf16 or fp16");
    LS_TRY(ls_shape_check_hf(&model->shape));
    LS_TRY(ls_out_folder_begin(folder, &out));
    export_job job = {
        .model = model, .options = options, .source = source, .source_ctx = ctx, .folder = out.partial.text};
    ls_status status = write_folder(&job);
    if (status == LS_OK) return ls_out_folder_commit(&out, out.partial.text);
    ls_out_folder_abort(&out);
    return status;
}
