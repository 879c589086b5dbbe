/* frame.h: the tokens that a tokenizer puts around a text, usually one beginning-of-text token (BOS) before it.
 *
 * The rule is that of Hugging Face with add_special_tokens=True. A tokenizer.json defines the tokens in its
 * post_processor, which overrides all else; a tokenizer of vocab.json and merges.txt has add_bos_token and
 * add_eos_token in tokenizer_config.json.
 *
 *     document    before · text · after · end-of-text    (the last separates documents; see text.h)
 *     prompt      before · text                          (no token after it, because it is to be continued) */
#ifndef LS_DATA_TOKENIZER_FRAME_H
#define LS_DATA_TOKENIZER_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/choices.h"
#include "data/tokenizer/tokenizer.h"

enum { LS_FRAME_MAX = 8, LS_FRAME_TEXT_BYTES = 256 };

/* The ids before and after a text. {0}: no tokens. */
typedef struct ls_frame {
    int32_t before[LS_FRAME_MAX], after[LS_FRAME_MAX];
    size_t before_count, after_count;
} ls_frame;

/* Copies the tokenizer's frame, modified by --bos (`bos`): `no` drops the tokens before a text, `yes` requires one
 * (LS_ERR_INPUT if there is no BOS). `after` is without the end-of-text token, which follows each document anyway. */
ls_status ls_frame_of(const ls_tokenizer *tokenizer, ls_bos bos, ls_frame *out);
/* Returns whether there are no tokens before or after a text. */
bool ls_frame_is_empty(const ls_frame *frame);
/* Writes the ids, "128000", or "1 text 2" if there are tokens after the text; "" for an empty frame. For identities
 * of runs and names of caches. */
void ls_frame_describe(const ls_frame *frame, char out[LS_FRAME_TEXT_BYTES]);

/* Appends the ids of a prompt with the tokens before it. If the prompt itself starts with the text of the first of
 * these tokens (and `flags` has LS_ENCODE_SPECIAL), none of them is added, because the prompt spells them out. */
ls_status ls_frame_prompt(ls_tokenizer *tokenizer, const ls_frame *frame, const char *text, size_t bytes,
                          unsigned flags, ls_tokens *out);
/* Returns whether the text itself starts with the text of the first token before it ("<s>"). */
bool ls_frame_is_spelled(const ls_tokenizer *tokenizer, const ls_frame *frame, const void *text, size_t bytes);

#endif
