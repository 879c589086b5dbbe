/* exchange.c: ls_import() makes weights of other programs a checkpoint; ls_export() makes a checkpoint a Hugging Face
 * folder or a model file of llm.c. */
#include <stdio.h>
#include <string.h>

#include "api/options.h"
#include "base/files.h"
#include "base/log.h"
#include "data/tokenizer/tokenizer.h"
#include "interop/hf.h"
#include "interop/llmc.h"
#include "interop/save.h"
#include "run/inputs/inputs.h"

/* Fails with LS_ERR_INPUT if --tokenizer names a file or folder that does not exist. */
static ls_status check_tokenizer(const ls_options *o) {
    if (!o->tokenizer || strcmp(o->tokenizer, "bytes") == 0 || ls_file_exists(o->tokenizer)) return LS_OK;
    return ls_options_fail(o, LS_OPT_tokenizer, "no such file or folder");
}

/* Returns name, format, size and tokenizer of the weights, for the caller; copies the texts. */
static ls_exchanged describe_weights(const ls_options *o, const ls_weights *weights) {
    const char *tokenizer = o->tokenizer ? o->tokenizer : ls_weights_tokenizer(weights);
    ls_exchanged e = {.from = ls_weights_format(weights), .parameters = ls_model_elems(ls_weights_model(weights))};
    snprintf(e.name, sizeof e.name, "%s", ls_weights_shape(weights)->name);
    snprintf(e.tokenizer, sizeof e.tokenizer, "%s", tokenizer ? tokenizer : "");
    return e;
}

ls_status ls_import(const ls_options *o, ls_exchanged *out) {
    ls_weights *weights = NULL;
    LS_TRY(ls_options_expect(o, LS_COMMAND_IMPORT, "ls_import"));
    if (!o->model) return ls_fail(LS_ERR_INPUT, "import needs --model: a Hugging Face folder or a model file of llm.c");
    if (!o->out) return ls_fail(LS_ERR_INPUT, "import needs --out: the folder to create");
    LS_TRY(check_tokenizer(o));
    LS_TRY(ls_weights_open(o->model, &weights));
    ls_status status = ls_weights_save(weights, o->out, o->tokenizer);
    *out = describe_weights(o, weights);
    ls_weights_close(weights);
    return status;
}

/* ---- export ------------------------------------------------------------------------------------------------------ */

/* Returns JSON with the ids of the begin and end tokens, which config.json of transformers has, for models that came
 * without one: a new reference. NULL if the tokenizer cannot be opened; it is copied nevertheless, with a warning. */
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

/* Writes the weights as a Hugging Face folder, with tokenizer and token ids: of --tokenizer if that is given, else the
 * model's own. */
static ls_status export_hf(const ls_options *o, ls_weights *weights) {
    const json_t *known = o->tokenizer ? NULL : ls_weights_token_ids(weights);
    json_t *found = known ? NULL : ids_from_tokenizer(o->tokenizer ? o->tokenizer : ls_weights_tokenizer(weights));
    ls_hf_export_options how = {.dtype = o->dtype,
                                .shard_bytes = o->shard_size,
                                .tokenizer = o->tokenizer ? o->tokenizer : ls_weights_companions(weights),
                                .origin = ls_weights_path(weights),
                                .token_ids = known ? known : found};
    ls_status status = ls_hf_export(o->out, ls_weights_model(weights), &how, ls_weights_read, weights);
    json_decref(found);
    return status;
}

ls_status ls_export(const ls_options *o, ls_exchanged *out) {
    ls_weights *weights = NULL;
    bool llmc = o->format == LS_EXPORT_LLMC;
    LS_TRY(ls_options_expect(o, LS_COMMAND_EXPORT, "ls_export"));
    if (!o->model) return ls_fail(LS_ERR_INPUT, "export needs --model: a run or a checkpoint");
    if (!o->out) return ls_fail(LS_ERR_INPUT, "export needs --out: the %s to create", llmc ? "file" : "folder");
    LS_TRY(check_tokenizer(o));
    if (llmc && ls_file_exists(o->out))
        return ls_options_fail(o, LS_OPT_out, "this file exists; name another, or remove it");
    LS_TRY(ls_weights_open(o->model, &weights));
    ls_status status = ls_image_option_refuse(ls_weights_shape(weights), "export");
    if (status == LS_OK)
        status = llmc ? ls_llmc_export(o->out, ls_weights_model(weights), o->dtype, ls_weights_read, weights)
                      : export_hf(o, weights);
    *out = describe_weights(o, weights);
    ls_weights_close(weights);
    return status;
}
