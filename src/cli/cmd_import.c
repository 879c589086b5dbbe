/* cmd_import.c: lockstep import: weights of others as a checkpoint that train, eval, generate and export start from. */
#include <inttypes.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "base/status.h"
#include "cli/cli.h"
#include "interop/save.h"

static void report(const ls_options *options, const ls_weights *weights, const char *tokenizer) {
    static const char *const kinds[] = {
        [LS_WEIGHTS_CHECKPOINT] = "lockstep", [LS_WEIGHTS_HF] = "Hugging Face", [LS_WEIGHTS_LLMC] = "llm.c"};
    const ls_shape *shape = ls_weights_shape(weights);
    size_t elems = ls_model_elems(ls_weights_model(weights));
    const char *kind = kinds[ls_weights_kind_of(weights)];
    if (!options->json) {
        printf("imported %s (%s, %zu parameters, %s tokenizer) to %s\n", shape->name, kind, elems,
               tokenizer ? "with its" : "without a", options->out);
        return;
    }
    json_t *json = json_pack("{s:s, s:s, s:I, s:s?, s:s}", "name", shape->name, "from", kind, "parameters",
                             (json_int_t)elems, "tokenizer", tokenizer, "out", options->out);
    if (json) json_dumpf(json, stdout, JSON_COMPACT);
    printf("\n");
    json_decref(json);
}

ls_status ls_cmd_import(const ls_options *options) {
    ls_weights *weights = NULL;
    const char *tokenizer = options->tokenizer;
    if (!options->model)
        return ls_fail(LS_ERR_INPUT, "import needs --model: a Hugging Face folder or a model file of llm.c");
    if (!options->out) return ls_fail(LS_ERR_INPUT, "import needs --out: the folder to create");
    if (tokenizer && strcmp(tokenizer, "bytes") != 0 && !ls_file_exists(tokenizer))
        return ls_options_fail(options, LS_OPT_tokenizer, "no such file or folder");
    LS_TRY(ls_weights_open(options->model, &weights));
    ls_status status = ls_weights_save(weights, options->out, tokenizer);
    if (status == LS_OK) report(options, weights, tokenizer ? tokenizer : ls_weights_tokenizer(weights));
    ls_weights_close(weights);
    return status;
}
