/* bos.h: --bos: which tokens come around text (data/frame.h), and how a run remembers it. */
#ifndef LS_RUN_INPUTS_BOS_H
#define LS_RUN_INPUTS_BOS_H

#include "config/options.h"
#include "data/text/corpus.h"
#include "run/folder/identity.h"

/* As the option says; without a tokenizer (NULL) nothing. */
ls_status ls_bos_option(const ls_options *o, const ls_tokenizer *tokenizer, ls_frame *out);
/* The same for a run that goes on, or a fork of it: with --bos auto as it began. `before` is its identity; runs of
 * version 0.1.0 have no field "bos" there, nor do runs without such tokens. NULL: a new run. */
ls_status ls_bos_option_go_on(const ls_options *o, const ls_tokenizer *tokenizer, const ls_identity *before,
                              ls_frame *out);
/* Adds the field "bos" where text of the corpora (the second may be NULL) has tokens around it; no field: none. */
ls_status ls_bos_option_identify(const ls_frame *frame, const ls_corpus *corpus, const ls_corpus *val_corpus,
                                 ls_identity *identity);

#endif
