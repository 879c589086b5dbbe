/* frame.h: the tokens that a tokenizer puts around a text: most often one beginning-of-text token (BOS) in front.
 *
 * The rule is Hugging Face's with add_special_tokens=True. A tokenizer.json says it in its post_processor, which alone
 * counts where it is there; a tokenizer of vocab.json and merges.txt has add_bos_token and add_eos_token in
 * tokenizer_config.json.
 *
 *     document    before · text · after · end-of-text    (the last is lockstep's mark between documents; see text.h)
 *     prompt      before · text                          (it is to be continued, so nothing comes behind it) */
#ifndef LS_DATA_TOKENIZER_FRAME_H
#define LS_DATA_TOKENIZER_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/choices.h"
#include "data/tokenizer/tokenizer.h"

enum { LS_FRAME_MAX = 8, LS_FRAME_TEXT_BYTES = 256 };

/* {0}: nothing around it. */
typedef struct ls_frame {
    int32_t before[LS_FRAME_MAX], after[LS_FRAME_MAX];
    size_t before_count, after_count;
} ls_frame;

/* `bos` is what --bos says; `after` ends without the end-of-text token, which comes behind each document anyway. */
ls_status ls_frame_of(const ls_tokenizer *tokenizer, ls_bos bos, ls_frame *out);
bool ls_frame_is_empty(const ls_frame *frame);
/* "128000", or "1 text 2" where tokens come behind the text too; for identities and names of caches. */
void ls_frame_describe(const ls_frame *frame, char out[LS_FRAME_TEXT_BYTES]);

/* Appends the ids of a prompt with what comes before it. A prompt that spells the first of these tokens out (`flags`
 * has LS_ENCODE_SPECIAL) has it once. */
ls_status ls_frame_prompt(ls_tokenizer *tokenizer, const ls_frame *frame, const char *text, size_t bytes,
                          unsigned flags, ls_tokens *out);
/* Whether the text spells out the token that comes before it. */
bool ls_frame_is_spelled(const ls_tokenizer *tokenizer, const ls_frame *frame, const void *text, size_t bytes);

#endif
