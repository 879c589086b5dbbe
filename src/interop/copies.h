/* copies.h: copies the files of a tokenizer beside a model without parsing them, so that tokenizers that lockstep
 * cannot open travel with their model, too. Imports and exports call it. */
#ifndef LS_INTEROP_COPIES_H
#define LS_INTEROP_COPIES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Returns name i = 0, 1, … of the files that Hugging Face uses for tokenizers and generation; NULL behind the last. */
const char *ls_copies_name(int i);
/* Returns whether the folder has what ls_tokenizer_open() looks for: tokenizer.json, or vocab.json and merges.txt. */
bool ls_copies_has_tokenizer(const char *folder);

/* Defaults for generation (temperature, end tokens …). The file belongs to the model, whatever its tokenizer is. */
#define LS_GENERATION_CONFIG "generation_config.json"

/* Copies those of the files of ls_copies_name() that exist beside `tokenizer`, a folder or a file in it, into `folder`,
 * where they replace files of the same name. If `tokenizer` does not exist, only logs a warning, because the model is
 * of use without it. */
ls_status ls_copies_put(const char *tokenizer, const char *folder);
/* Copies the model's own LS_GENERATION_CONFIG into `folder`, if `model` is a folder that has one; does nothing
 * otherwise. Call it after ls_copies_put(), whose copy, maybe of another model, it replaces. */
ls_status ls_copies_put_generation(const char *model, const char *folder);
/* Writes a tokenizer.json that makes each byte its own id, and a tokenizer_config.json whose maximal length is
 * `positions` tokens; replaces existing ones. */
ls_status ls_copies_put_bytes(const char *folder, size_t positions);

#endif
