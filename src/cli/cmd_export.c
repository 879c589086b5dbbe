/* cmd_export.c: lockstep export: a checkpoint as a Hugging Face folder or a model file of llm.c. */
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/status.h"
#include "run/inputs/inputs.h"
#include "cli/cli.h"
#include "data/tokenizer/tokenizer.h"
#include "interop/hf.h"
#include "interop/llmc.h"
#include "interop/weights.h"

/* The ids that transformers wants to know, from the tokenizer, where no config.json told them. A tokenizer that cannot
 * be opened is copied all the same. */
static json_t *ids_from_tokenizer(const char *path) {
    ls_tokenizer *tokenizer = NULL;
    if (!path || !ls_file_exists(path)) return NULL;
    if (ls_tokenizer_open(path, &tokenizer) != LS_OK) {
        ls_log_warn("the tokenizer is copied unread: %s", ls_status_message());
        return NULL;
    }
    int32_t bos = ls_tokenizer_bos(tokenizer), eos = ls_tokenizer_eot(tokenizer);
    ls_tokenizer_close(tokenizer);
    if (bos < 0) bos = eos;
    return json_pack("{s:o, s:o}", "bos_token_id", bos >= 0 ? json_integer(bos) : json_null(), "eos_token_id",
                     eos >= 0 ? json_integer(eos) : json_null());
}

static ls_status export_hf(const ls_options *options, ls_weights *weights) {
    const char *tokenizer = options->tokenizer;
    const json_t *known = tokenizer ? NULL : ls_weights_token_ids(weights);
    json_t *found = known ? NULL : ids_from_tokenizer(tokenizer ? tokenizer : ls_weights_tokenizer(weights));
    ls_hf_export_options how = {.dtype = options->dtype,
                                .shard_bytes = options->shard_size,
                                .tokenizer = tokenizer ? tokenizer : ls_weights_companions(weights),
                                .origin = ls_weights_path(weights),
                                .token_ids = known ? known : found};
    ls_status status = ls_hf_export(options->out, ls_weights_model(weights), &how, ls_weights_read, weights);
    json_decref(found);
    return status;
}

static ls_status export_llmc(const ls_options *options, ls_weights *weights) {
    return ls_llmc_export(options->out, ls_weights_model(weights), options->dtype, ls_weights_read, weights);
}

static void report(const ls_options *options, const ls_weights *weights) {
    size_t elems = ls_model_elems(ls_weights_model(weights));
    const char *name = ls_weights_shape(weights)->name;
    if (!options->json) {
        printf("exported %s (%zu parameters, %s) to %s\n", name, elems, ls_dtype_word(options->dtype), options->out);
        return;
    }
    json_t *json =
        json_pack("{s:s, s:I, s:s, s:s, s:s}", "name", name, "parameters", (json_int_t)elems, "format",
                  ls_export_format_name(options->format), "dtype", ls_dtype_word(options->dtype), "out", options->out);
    if (json) json_dumpf(json, stdout, JSON_COMPACT);
    printf("\n");
    json_decref(json);
}

ls_status ls_cmd_export(const ls_options *options) {
    ls_weights *weights = NULL;
    ls_status status;
    bool llmc = options->format == LS_EXPORT_LLMC;
    if (!options->model) return ls_fail(LS_ERR_INPUT, "export needs --model: a run or a checkpoint");
    if (!options->out) return ls_fail(LS_ERR_INPUT, "export needs --out: the %s to create", llmc ? "file" : "folder");
    const char *tokenizer = options->tokenizer;
    if (tokenizer && strcmp(tokenizer, "bytes") != 0 && !ls_file_exists(tokenizer))
        return ls_options_fail(options, LS_OPT_tokenizer, "no such file or folder");
    if (llmc && ls_file_exists(options->out))
        return ls_options_fail(options, LS_OPT_out, "this file exists; name another, or remove it");
    LS_TRY(ls_weights_open(options->model, &weights));
    status = ls_image_option_refuse(ls_weights_shape(weights), "export");
    if (status == LS_OK) status = llmc ? export_llmc(options, weights) : export_hf(options, weights);
    if (status == LS_OK) report(options, weights);
    ls_weights_close(weights);
    return status;
}
