/* frame.c: see frame.h. */
#include "data/tokenizer/frame.h"

#include <stdio.h>
#include <string.h>

#include "data/tokenizer/inside.h"

enum { SHOWN = 200 };

ls_status ls_frame_of(const ls_tokenizer *tokenizer, ls_bos bos, ls_frame *out) {
    *out = tokenizer->frame;
    if (bos == LS_BOS_NO) out->before_count = 0;
    if (bos == LS_BOS_YES && out->before_count == 0) {
        if (tokenizer->bos < 0)
            return ls_fail(LS_ERR_INPUT,
                           "--bos yes: the tokenizer %.*s has no beginning-of-text token (no bos_token in "
                           "tokenizer_config.json, none with a usual name): use --bos no or --bos auto",
                           SHOWN, tokenizer->name);
        out->before[out->before_count++] = tokenizer->bos;
    }
    if (out->after_count > 0 && out->after[out->after_count - 1] == tokenizer->eot) out->after_count--;
    return LS_OK;
}

bool ls_frame_is_empty(const ls_frame *frame) { return frame->before_count == 0 && frame->after_count == 0; }

void ls_frame_describe(const ls_frame *frame, char out[LS_FRAME_TEXT_BYTES]) {
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < frame->before_count; i++)
        used += (size_t)snprintf(out + used, LS_FRAME_TEXT_BYTES - used, "%s%d", i ? " " : "", frame->before[i]);
    if (frame->after_count) used += (size_t)snprintf(out + used, LS_FRAME_TEXT_BYTES - used, "%stext", used ? " " : "");
    for (size_t i = 0; i < frame->after_count; i++)
        used += (size_t)snprintf(out + used, LS_FRAME_TEXT_BYTES - used, " %d", frame->after[i]);
}

_Static_assert(2 * LS_FRAME_MAX * 12 + 8 < LS_FRAME_TEXT_BYTES, "the longest description fits");

bool ls_frame_is_spelled(const ls_tokenizer *tokenizer, const ls_frame *frame, const void *text, size_t bytes) {
    const char *name;
    size_t length;
    return frame->before_count > 0 && ls_tokenizer_token(tokenizer, frame->before[0], &name, &length) == LS_OK &&
           length > 0 && length <= bytes && memcmp(text, name, length) == 0;
}

ls_status ls_frame_prompt(ls_tokenizer *tokenizer, const ls_frame *frame, const char *text, size_t bytes,
                          unsigned flags, ls_tokens *out) {
    bool is_spelled = (flags & LS_ENCODE_SPECIAL) && ls_frame_is_spelled(tokenizer, frame, text, bytes);
    for (size_t i = 0; !is_spelled && i < frame->before_count; i++) LS_TRY(ls_tokens_push(out, frame->before[i]));
    return ls_tokenizer_encode(tokenizer, text, bytes, flags, out);
}
