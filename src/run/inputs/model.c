/* model.c: finding out what the user's model is. */
#include "run/inputs/inputs.h"

#include <stdio.h>
#include <stdlib.h>

#include "run/folder/run_start.h"

ls_status ls_start_open(const char *model, ls_start *out) {
    *out = (ls_start){0};
    return ls_weights_resolve(model, &out->shape, &out->weights);
}

ls_status ls_start_look(const char *model, ls_start *out) {
    *out = (ls_start){0};
    return ls_weights_look(model, &out->shape, &out->weights);
}

ls_status ls_start_open_together(ls_world *world, const char *model, ls_start *start) {
    ls_start_close(start);
    return ls_run_start_model(world, model, &start->shape, &start->weights);
}

void ls_start_close(ls_start *start) {
    ls_weights_close(start->weights);
    *start = (ls_start){0};
}

ls_status ls_start_tokenizer(const ls_start *start, const char *option, ls_tokenizer **out) {
    const char *of_model = start->weights ? ls_weights_tokenizer(start->weights) : NULL;
    const char *name = option ? option : of_model ? of_model : start->shape.V == 256 ? "bytes" : NULL;
    *out = NULL;
    if (!name) return LS_OK;
    LS_TRY(ls_tokenizer_open(name, out));
    if (ls_tokenizer_vocab(*out) <= start->shape.V) return LS_OK;
    unsigned vocab = ls_tokenizer_vocab(*out);
    ls_tokenizer_close(*out);
    *out = NULL;
    return ls_fail(
        LS_ERR_INPUT,
        "the tokenizer %s has %u tokens, but the vocabulary of %s has only %zu: it is another model's tokenizer", name,
        vocab, start->shape.name, start->shape.V);
}

ls_status ls_cache_dir(char *path, size_t room) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = cache && *cache ? snprintf(path, room, "%s/lockstep", cache)
                 : home && *home ? snprintf(path, room, "%s/.cache/lockstep", home)
                                 : snprintf(path, room, ".lockstep-cache");
    if (length < 0 || (size_t)length >= room)
        return ls_fail(LS_ERR_INPUT, "the path of the token cache is too long; set XDG_CACHE_HOME to a shorter one");
    return LS_OK;
}
