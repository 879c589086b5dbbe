/* generate.c: ls_run_generate(): generates text and passes it to the caller token by token. An end of the text in which
 * the stop text may begin is held back, and all workers end together. */
#include <stdlib.h>
#include <string.h>

#include "api/run.h"
#include "base/fpenv.h"
#include "run/agree.h"
#include "run/generate.h"
#include "run/inputs/inputs.h"

enum { EOS_MAX = 256 };

/* A text under way. */
typedef struct writer {
    ls_text_fn take; /* the caller's, called in rank 0; NULL: none */
    void *ctx;
    const ls_tokenizer *tokenizer;
    ls_world *world;  /* NULL: one worker alone */
    const char *stop; /* text at which the text ends; NULL: none */
    size_t stop_bytes;
    int32_t eot;          /* −1: none */
    int32_t eos[EOS_MAX]; /* more tokens that end the text, as the model's files name them */
    size_t eos_count;
    char *text;                    /* all bytes so far */
    size_t bytes, capacity, given; /* in `text`; allocated; passed to the caller so far */
    size_t prompt_tokens;
    int64_t tokens; /* generated so far */
} writer;

ls_generate_options ls_generate_options_from(const ls_options *o) {
    return (ls_generate_options){.temperature = o->temperature,
                                 .top_k = o->top_k,
                                 .top_p = o->top_p,
                                 .seed = (uint64_t)o->seed,
                                 .max_tokens = o->max_tokens,
                                 .no_cache = !o->cache};
}

/* Appends bytes to w->text, and a NUL behind them. */
static ls_status append_text(writer *w, const char *data, size_t bytes) {
    if (w->bytes + bytes + 1 > w->capacity) {
        size_t capacity = 2 * (w->bytes + bytes + 1);
        char *text = realloc(w->text, capacity);
        if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for a text of %zu bytes", capacity);
        w->text = text;
        w->capacity = capacity;
    }
    memcpy(w->text + w->bytes, data, bytes);
    w->bytes += bytes;
    w->text[w->bytes] = 0;
    return LS_OK;
}

/* Passes new text to the caller, except an end in which the stop text may begin; with `final`, everything. Sets *stop
 * if the caller wants to end. */
static ls_status pass_text(writer *w, bool final, bool *stop) {
    size_t held = final || w->stop_bytes < 2 ? 0 : w->stop_bytes - 1, from = w->given;
    size_t end = w->bytes > held ? w->bytes - held : 0;
    int wants_end = 0;
    if (end <= from || !w->take) return LS_OK;
    w->given = end;
    LS_TRY(w->take(w->ctx, w->text + from, end - from, &wants_end));
    *stop |= wants_end != 0;
    return LS_OK;
}

/* Returns whether the token ends a text: the tokenizer's, or one that the model's files name (Llama 3: end of turn). */
static bool ends_text(const writer *w, int32_t id) {
    bool ends = id == w->eot;
    for (size_t i = 0; i < w->eos_count; i++) ends |= id == w->eos[i];
    return ends;
}

/* Cuts the text before the stop text and sets *stop, if the text contains it. New text begins at byte `from`. */
static void cut_at_stop(writer *w, size_t from, bool *stop) {
    size_t search = from >= w->stop_bytes ? from - w->stop_bytes : 0;
    char *found = memmem(w->text + search, w->bytes - search, w->stop, w->stop_bytes);
    if (!found) return;
    w->bytes = (size_t)(found - w->text);
    *stop = true;
}

/* Appends the token's bytes to the text, looks for the stop text, and passes on what is final. Rank 0. */
static ls_status write_token(writer *w, int32_t id, bool *stop) {
    const char *data;
    size_t bytes, from = w->bytes;
    LS_TRY(ls_tokenizer_token(w->tokenizer, id, &data, &bytes));
    LS_TRY(append_text(w, data, bytes));
    if (w->stop_bytes > 0) cut_at_stop(w, from, stop);
    return pass_text(w, false, stop);
}

/* Receives a generated token in every worker, as the callback of ls_generate(). Only rank 0 calls the caller's
 * function, and all follow its answer in *stop. A negative id means that the model's output is not finite, which fails.
 * Collective. */
static ls_status take_token(void *ctx, int32_t id, bool *stop) {
    writer *w = ctx;
    bool is_first = !w->world || ls_world_rank(w->world) == 0;
    ls_status status = LS_OK;
    if (id < 0)
        return ls_agree(w->world, ls_fail(LS_ERR_FAILED,
                                          "the model's output after token %zu of the text is not finite (NaN or "
                                          "infinity): its weights are ruined; use an earlier checkpoint",
                                          w->prompt_tokens + (size_t)w->tokens));
    w->tokens++;
    *stop = ends_text(w, id);
    if (*stop) return LS_OK;
    if (is_first) status = write_token(w, id, stop);
    LS_TRY(ls_agree(w->world, status));
    return ls_agree_tell(w->world, stop, sizeof *stop);
}

/* Passes the prompt's text to the caller, then generates from its ids until the end. Collective. */
static ls_status write_text(writer *w, const ls_run *r, const char *prompt, const ls_tokens *ids) {
    bool is_first = !w->world || ls_world_rank(w->world) == 0, stop = false;
    ls_generate_options options = ls_generate_options_from(&r->options);
    if (prompt && is_first) {
        LS_TRY(append_text(w, prompt, strlen(prompt)));
        LS_TRY(pass_text(w, false, &stop));
    }
    options.tokenizer = w->tokenizer;
    w->prompt_tokens = ids->count;
    ls_partition *partition = ls_run_is_loaded(r) ? r->loaded.partition : r->trainer->partition;
    size_t T = ls_run_is_loaded(r) ? r->loaded.T : r->settings.T;
    LS_TRY(ls_generate(partition, T, &options, ids->ids, ids->count, take_token, w));
    return is_first ? pass_text(w, true, &stop) : LS_OK;
}

ls_status ls_run_encode(const ls_run *r, const char *text, ls_tokens *out) {
    /* Samples of a training run begin with the frame of its documents, like the texts from which the model learns. */
    bool is_loaded = ls_run_is_loaded(r);
    ls_frame frame = r->frame;
    if (!text) text = "";
    if (is_loaded || !ls_corpus_has_text(r->data.corpus)) LS_TRY(ls_bos_option(&r->options, r->tokenizer, &frame));
    LS_TRY(ls_frame_prompt(r->tokenizer, &frame, text, strlen(text), is_loaded ? LS_ENCODE_SPECIAL : 0, out));
    if (out->count > 0) return LS_OK;
    int32_t begin = is_loaded ? ls_tokenizer_bos(r->tokenizer) : -1;
    if (begin < 0) begin = ls_tokenizer_eot(r->tokenizer);
    return begin >= 0 ? ls_tokens_push(out, begin) : ls_tokenizer_encode(r->tokenizer, "\n", 1, 0, out);
}

/* Sets tokenizer, stop text and the tokens that end a text: for a loaded model also those that its files name, in a
 * training run the tokenizer's. LS_ERR_INPUT if this run cannot generate. */
static ls_status prepare_writer(const ls_run *r, writer *w) {
    if (ls_run_is_loaded(r)) {
        ls_fpenv_set();
        if (r->options.command != LS_COMMAND_GENERATE)
            return ls_fail(LS_ERR_INPUT, "this run was opened to evaluate: generating takes the options of generate");
        LS_TRY(ls_weights_eos(r->start.weights, w->eos, EOS_MAX, &w->eos_count));
        w->stop = r->options.stop;
        w->stop_bytes = w->stop ? strlen(w->stop) : 0;
    } else {
        LS_TRY(ls_run_check_works(r));
        w->world = r->trainer->world;
    }
    if (!r->tokenizer) return ls_fail(LS_ERR_INPUT, "this model has no tokenizer; add --tokenizer FOLDER");
    w->tokenizer = r->tokenizer;
    w->eot = ls_tokenizer_eot(r->tokenizer);
    return LS_OK;
}

ls_status ls_run_generate(ls_run *r, const char *prompt, ls_text_fn take, void *ctx, int64_t *tokens) {
    writer w = {.take = take, .ctx = ctx};
    ls_tokens ids = {0};
    LS_TRY(prepare_writer(r, &w));
    ls_status status = ls_run_encode(r, prompt, &ids);
    if (status == LS_OK) status = write_text(&w, r, prompt, &ids);
    if (status == LS_OK && tokens) *tokens = w.tokens;
    ls_tokens_fini(&ids);
    free(w.text);
    return status;
}
