/* bos.c: resolves --bos, the tokens around text, for a new run and for one that is resumed or forked. */
#include "run/inputs/inputs.h"

#include <string.h>

ls_status ls_bos_option(const ls_options *o, const ls_tokenizer *tokenizer, ls_frame *out) {
    *out = (ls_frame){0};
    return tokenizer ? ls_frame_of(tokenizer, o->bos, out) : LS_OK;
}

/* Finds the frame whose description is `was`, that of the run before; if none has it, the tokenizer's usual one, and
 * comparing the identities then fails. */
static ls_status as_before(const ls_tokenizer *tokenizer, const char *was, ls_frame *out) {
    char text[LS_FRAME_TEXT_BYTES];
    LS_TRY(ls_frame_of(tokenizer, LS_BOS_AUTO, out));
    ls_frame_describe(out, text);
    if (strcmp(text, was) == 0 || ls_frame_of(tokenizer, LS_BOS_YES, out) != LS_OK)
        return ls_frame_of(tokenizer, LS_BOS_AUTO, out);
    ls_frame_describe(out, text);
    return strcmp(text, was) == 0 ? LS_OK : ls_frame_of(tokenizer, LS_BOS_AUTO, out);
}

ls_status ls_bos_option_go_on(const ls_options *o, const ls_tokenizer *tokenizer, const ls_identity *before,
                              ls_frame *out) {
    if (!tokenizer || !before || o->bos != LS_BOS_AUTO) return ls_bos_option(o, tokenizer, out);
    const char *was = ls_identity_get_text(before, "bos");
    *out = (ls_frame){0};
    return was ? as_before(tokenizer, was, out) : LS_OK;
}

ls_status ls_bos_option_identify(const ls_frame *frame, const ls_corpus *corpus, const ls_corpus *val_corpus,
                                 ls_identity *identity) {
    char text[LS_FRAME_TEXT_BYTES];
    bool has_text = ls_corpus_has_text(corpus) || (val_corpus && ls_corpus_has_text(val_corpus));
    if (!has_text || ls_frame_is_empty(frame)) return LS_OK;
    ls_frame_describe(frame, text);
    return ls_identity_add_text(identity, "bos", text, LS_IDENTITY_FIXED);
}
