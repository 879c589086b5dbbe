/* generate.h: a model's text as it comes: tokens become bytes, a stop text is held back, all workers end together. */
#ifndef LS_API_GENERATE_H
#define LS_API_GENERATE_H

#include "config/options.h"
#include "data/tokenizer/tokenizer.h"
#include "run/generate.h"

enum { LS_EOS_MAX = 256 };

typedef struct ls_text_writer {
    ls_text_fn take;
    void *ctx;
    const ls_tokenizer *tokenizer;
    ls_world *world;  /* NULL: one worker alone */
    const char *stop; /* text at which the text ends; NULL: none */
    int32_t eot;      /* −1: none */
    int32_t eos[LS_EOS_MAX];
    size_t eos_count;
    /* private */
    char *text; /* all bytes so far */
    size_t bytes, room, given, stop_bytes;
    int64_t tokens;
} ls_text_writer;

ls_generate_options ls_generate_options_from(const ls_options *options);
/* The prompt's text, and what the model makes of its ids. `T`: positions of the partition. All workers together. */
ls_status ls_text_write(ls_text_writer *writer, ls_partition *partition, size_t T, const ls_generate_options *options,
                        const char *prompt, const ls_tokens *ids, int64_t *tokens);

#endif
