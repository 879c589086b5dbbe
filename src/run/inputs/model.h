/* model.h: what --model, --preset and --fork stand for: a shape, maybe weights, maybe a tokenizer. */
#ifndef LS_RUN_INPUTS_MODEL_H
#define LS_RUN_INPUTS_MODEL_H

#include "config/options.h"
#include "data/tokenizer/tokenizer.h"
#include "interop/weights.h"

typedef struct ls_start {
    ls_shape shape;
    ls_weights *weights; /* NULL: to be made from the seed */
} ls_start;

/* `model` is a preset, a shape or anything with weights. On failure nothing is left to release. */
ls_status ls_start_open(const char *model, ls_start *out);
/* The same in two halves, for the workers of a launcher, of whom only the first one shall verify weights. Each looks
 * before there is a world, so that a mistake of the user's ends it there; then all of them open what they have seen. */
ls_status ls_start_look(const char *model, ls_start *out);
ls_status ls_start_open_together(ls_world *world, const char *model, ls_start *start);
void ls_start_close(ls_start *start);
/* That of the option, else of the model, else bytes where the vocabulary is 256; *out is NULL when there is none. */
ls_status ls_start_tokenizer(const ls_start *start, const char *option, ls_tokenizer **out);

/* Where tokenized text is kept: $XDG_CACHE_HOME/lockstep, ~/.cache/lockstep, or a folder here. */
ls_status ls_cache_dir(char *path, size_t room);

#endif
