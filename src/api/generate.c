/* generate.c: from drawn tokens to the caller's function. */
#include "api/generate.h"

#include <stdlib.h>
#include <string.h>

#include "run/agree.h"

ls_generate_options ls_generate_options_from(const ls_options *o) {
    return (ls_generate_options){.temperature = o->temperature,
                                 .top_k = o->top_k,
                                 .top_p = o->top_p,
                                 .seed = (uint64_t)o->seed,
                                 .max_tokens = o->max_tokens,
                                 .no_cache = !o->cache};
}

static ls_status append(ls_text_writer *w, const char *data, size_t bytes) {
    if (w->bytes + bytes + 1 > w->room) {
        size_t room = 2 * (w->bytes + bytes + 1);
        char *text = realloc(w->text, room);
        if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for a text of %zu bytes", room);
        w->text = text;
        w->room = room;
    }
    memcpy(w->text + w->bytes, data, bytes);
    w->bytes += bytes;
    w->text[w->bytes] = 0;
    return LS_OK;
}

/* What no part of the stop text can begin in any more; at the end everything. */
static ls_status give_more(ls_text_writer *w, bool final, bool *stop) {
    size_t held = final || w->stop_bytes < 2 ? 0 : w->stop_bytes - 1, from = w->given;
    size_t end = w->bytes > held ? w->bytes - held : 0;
    int wants_end = 0;
    if (end <= from || !w->take) return LS_OK;
    w->given = end;
    LS_TRY(w->take(w->ctx, w->text + from, end - from, &wants_end));
    *stop |= wants_end != 0;
    return LS_OK;
}

/* The tokenizer's end of text, or one that the model's own files name: Llama 3 has an end of turn, too. */
static bool ends_text(const ls_text_writer *w, int32_t id) {
    bool ends = id == w->eot;
    for (size_t i = 0; i < w->eos_count; i++) ends |= id == w->eos[i];
    return ends;
}

static void cut_at_stop(ls_text_writer *w, size_t from, bool *stop) {
    size_t search = from >= w->stop_bytes ? from - w->stop_bytes : 0;
    char *found = memmem(w->text + search, w->bytes - search, w->stop, w->stop_bytes);
    if (!found) return;
    w->bytes = (size_t)(found - w->text);
    *stop = true;
}

static ls_status write_token(ls_text_writer *w, int32_t id, bool *stop) {
    const char *data;
    size_t bytes, from = w->bytes;
    LS_TRY(ls_tokenizer_token(w->tokenizer, id, &data, &bytes));
    LS_TRY(append(w, data, bytes));
    if (w->stop_bytes > 0) cut_at_stop(w, from, stop);
    return give_more(w, false, stop);
}

/* The caller is asked in the first worker, and all do as it says. */
static ls_status take_token(void *ctx, int32_t id, bool *stop) {
    ls_text_writer *w = ctx;
    bool is_first = !w->world || ls_world_rank(w->world) == 0;
    ls_status status = LS_OK;
    w->tokens++;
    *stop = ends_text(w, id);
    if (*stop) return LS_OK;
    if (is_first) status = write_token(w, id, stop);
    LS_TRY(ls_agree(w->world, status));
    return ls_agree_tell(w->world, stop, sizeof *stop);
}

ls_status ls_text_write(ls_text_writer *w, ls_partition *partition, size_t T, const ls_generate_options *options,
                        const char *prompt, const ls_tokens *ids, int64_t *tokens) {
    bool is_first = !w->world || ls_world_rank(w->world) == 0, stop = false;
    ls_status status = LS_OK;
    w->stop_bytes = w->stop ? strlen(w->stop) : 0;
    if (prompt && is_first) {
        LS_TRY_OUT(append(w, prompt, strlen(prompt)));
        LS_TRY_OUT(give_more(w, false, &stop));
    }
    LS_TRY_OUT(ls_generate(partition, T, options, ids->ids, ids->count, take_token, w));
    if (is_first) LS_TRY_OUT(give_more(w, true, &stop));
    if (tokens) *tokens = w->tokens;
out:
    free(w->text);
    return status;
}
