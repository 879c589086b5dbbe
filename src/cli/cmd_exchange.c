/* cmd_exchange.c: `lockstep import` and `lockstep export`: models from other programs, and for them. */
#include "cli/cli.h"
#include "cli/print.h"

/* Runs `lockstep import`: converts a Hugging Face or llm.c model to a checkpoint in --out, and prints what it was. */
ls_status ls_cmd_import(const ls_options *options) {
    ls_exchanged model;
    LS_TRY(ls_import(options, &model));
    const char *tokenizer = model.tokenizer[0] ? model.tokenizer : NULL;
    if (options->json)
        return ls_cli_print_json(json_pack("{s:s, s:s, s:I, s:o?, s:o}", "name", model.name, "from", model.from,
                                           "parameters", (json_int_t)model.parameters, "tokenizer",
                                           tokenizer ? ls_cli_json_path(tokenizer) : NULL, "out",
                                           ls_cli_json_path(options->out)));
    printf("imported %s (%s, %llu parameters, %s tokenizer) to %s\n", model.name, model.from,
           (unsigned long long)model.parameters, tokenizer ? "with its" : "without a", options->out);
    return LS_OK;
}

/* Runs `lockstep export`: writes a checkpoint as a Hugging Face folder or an llm.c file in --out, and prints what it
 * was. */
ls_status ls_cmd_export(const ls_options *options) {
    ls_exchanged model;
    LS_TRY(ls_export(options, &model));
    const char *dtype = ls_dtype_word(options->dtype);
    if (options->json)
        return ls_cli_print_json(json_pack(
            "{s:s, s:I, s:s, s:s, s:o}", "name", model.name, "parameters", (json_int_t)model.parameters, "format",
            ls_export_format_name(options->format), "dtype", dtype, "out", ls_cli_json_path(options->out)));
    printf("exported %s (%llu parameters, %s) to %s\n", model.name, (unsigned long long)model.parameters, dtype,
           options->out);
    return LS_OK;
}
