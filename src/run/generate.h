/* generate.h: generates text with a model, token by token. Collective: all workers of the partition call it alike, from
 * one thread each, and every worker gets every token.
 *
 * Each token is drawn from the logits of the last position, on the host, in double: scaled by the temperature, cut to
 * the top-k largest and to the smallest set whose probability reaches top-p. The draw is a function of the seed and the
 * number of the token, counted from 0 behind the prompt (rule 12), so a prompt and a seed give one text on every
 * machine. Temperature 0 takes the largest logit, the lower id where two are equal. A vocabulary may be larger than the
 * tokenizer (padded to a multiple, for speed): ids that have no text are never drawn, and count neither in top-k nor in
 * top-p.
 *
 * api/generate.c and the samples of a training run (loop.c) call it. Keys and values of earlier positions stay in the
 * partition. When the model's positions are used up, the last half is kept and run again. */
#ifndef LS_RUN_GENERATE_H
#define LS_RUN_GENERATE_H

#include "data/tokenizer/tokenizer.h"
#include "parallel/partition/partition.h"

typedef struct ls_generate_options {
    double temperature; /* ≥ 0; 0: always the largest logit */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 0 < p ≤ 1 */
    uint64_t seed;
    int64_t max_tokens;            /* generated; the prompt does not count */
    bool no_cache;                 /* runs the whole sequence for each token: slow, for checking */
    const ls_tokenizer *tokenizer; /* only ids that have text there are drawn; borrowed; NULL: all */
} ls_generate_options;

/* Callback for each token, on every worker; sets *stop to end the generation. The id is −1 if the logit of an id that
 * may be drawn is not finite, or no id may be: then the model has no next token, and id 0 takes its place if the sink
 * goes on. A failure ends the generation with that status. */
typedef ls_status (*ls_generate_sink)(void *ctx, int32_t id, bool *stop);

/* Generates up to max_tokens tokens after the prompt. `T` is the number of positions of the partition. The prompt has
 * at least one token; only its last T are used. The prompt is not passed to the sink. */
ls_status ls_generate(ls_partition *partition, size_t T, const ls_generate_options *options, const int32_t *prompt,
                      size_t prompt_tokens, ls_generate_sink sink, void *ctx);

/* An id that may be drawn. */
typedef struct ls_choice {
    float logit;
    int32_t id;
} ls_choice;
/* Draws one token from V logits and returns its id; −1 if the logit of an id with text is not finite, or no id has
 * text. `position` selects the random number (ls_generate() counts generated tokens from 0), `scratch` has room for V
 * entries. Public for tests. */
int32_t ls_generate_draw(const ls_generate_options *options, const float *logits, size_t V, uint64_t position,
                         ls_choice *scratch);

#endif
