/* cmd_generate.c: `lockstep generate`: the prompt and what the model makes of it, on standard output as it comes. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "run/inputs/image.h"
#include "run/inputs/bos.h"
#include "cli/cli.h"
#include "run/inputs/model.h"
#include "cli/one_worker.h"
#include "cli/print_json.h"
#include "data/tokenizer/utf8_stream.h"
#include "run/generate.h"
#include "run/stop.h"

enum { EOS_MAX = 256 };

typedef struct writer {
    const ls_options *opts;
    ls_tokenizer *tokenizer; /* NULL: ids are printed */
    char *text;              /* all bytes so far */
    size_t bytes, room, printed;
    ls_utf8_stream shown;
    size_t stop_bytes;
    int64_t tokens;
    int32_t eot; /* −1: none */
    int32_t eos[EOS_MAX];
    size_t eos_count;
} writer;

static ls_status out_of_memory(size_t bytes) {
    return ls_fail(LS_ERR_RESOURCE, "out of memory for a text of %zu bytes", bytes);
}

static ls_status append(writer *w, const char *data, size_t bytes) {
    if (w->bytes + bytes + 1 > w->room) {
        size_t room = 2 * (w->bytes + bytes + 1);
        char *text = realloc(w->text, room);
        if (!text) return out_of_memory(room);
        w->text = text;
        w->room = room;
    }
    memcpy(w->text + w->bytes, data, bytes);
    w->bytes += bytes;
    w->text[w->bytes] = 0;
    return LS_OK;
}

/* Up to where no part of the stop text can begin any more. */
static size_t printable_end(const writer *w, bool final) {
    if (final || w->stop_bytes < 2) return w->bytes;
    return w->bytes > w->stop_bytes - 1 ? w->bytes - (w->stop_bytes - 1) : 0;
}

/* Whole characters only; at the end an unfinished one is U+FFFD. */
static ls_status print_more(writer *w, bool final) {
    size_t end = printable_end(w, final), made = 0;
    if (w->opts->json) return LS_OK;
    char *shown = malloc(ls_utf8_stream_room(w->bytes - w->printed));
    if (!shown) return out_of_memory(ls_utf8_stream_room(w->bytes - w->printed));
    if (end > w->printed) made = ls_utf8_stream_add(&w->shown, w->text + w->printed, end - w->printed, shown);
    if (end > w->printed) w->printed = end;
    if (final) made += ls_utf8_stream_end(&w->shown, shown + made);
    if (made > 0) {
        fwrite(shown, 1, made, stdout);
        fflush(stdout);
    }
    free(shown);
    return LS_OK;
}

/* The tokenizer's end of text, or one that the model's own files name: Llama 3 has an end of turn, too. */
static bool ends_text(const writer *w, int32_t id) {
    bool ends = id == w->eot;
    for (size_t i = 0; i < w->eos_count; i++) ends |= id == w->eos[i];
    return ends;
}

static ls_status take_token(void *ctx, int32_t id, bool *stop) {
    writer *w = ctx;
    const char *data;
    char number[16];
    size_t bytes;
    w->tokens++;
    *stop = ls_stop_signal() != 0;
    if (ends_text(w, id)) {
        *stop = true;
        return LS_OK;
    }
    if (w->tokenizer) {
        LS_TRY(ls_tokenizer_token(w->tokenizer, id, &data, &bytes));
    } else {
        bytes = (size_t)snprintf(number, sizeof number, "%d ", id);
        data = number;
    }
    size_t from = w->bytes;
    LS_TRY(append(w, data, bytes));
    if (w->stop_bytes > 0) {
        size_t search = from >= w->stop_bytes ? from - w->stop_bytes : 0;
        char *found = memmem(w->text + search, w->bytes - search, w->opts->stop, w->stop_bytes);
        if (found) {
            w->bytes = (size_t)(found - w->text);
            *stop = true;
        }
    }
    return print_more(w, false);
}

static ls_status encode(writer *w, ls_tokens *prompt) {
    const char *text = w->opts->prompt;
    if (!w->tokenizer) return ls_fail(LS_ERR_INPUT, "this model has no tokenizer; add --tokenizer FOLDER");
    ls_frame frame;
    LS_TRY(ls_bos_option(w->opts, w->tokenizer, &frame));
    LS_TRY(ls_frame_prompt(w->tokenizer, &frame, text ? text : "", text ? strlen(text) : 0, LS_ENCODE_SPECIAL, prompt));
    if (text) {
        LS_TRY(append(w, text, strlen(text)));
        LS_TRY(print_more(w, false));
    }
    if (prompt->count > 0) return LS_OK;
    int32_t bos = ls_tokenizer_bos(w->tokenizer), begin = bos >= 0 ? bos : w->eot;
    return begin >= 0 ? ls_tokens_push(prompt, begin) : ls_tokenizer_encode(w->tokenizer, "\n", 1, 0, prompt);
}

static json_t *json_text(const writer *w) {
    ls_utf8_stream stream = {0};
    char *clean = malloc(ls_utf8_stream_room(w->bytes));
    if (!clean) return NULL;
    size_t made = ls_utf8_stream_add(&stream, w->text, w->bytes, clean);
    made += ls_utf8_stream_end(&stream, clean + made);
    json_t *text = json_stringn(clean, made);
    free(clean);
    return text;
}

static ls_status print_json(const writer *w, double seconds) {
    json_t *object = json_pack("{s:o, s:I, s:f}", "text", json_text(w), "tokens", (json_int_t)w->tokens, "tokens_per_s",
                               (double)w->tokens / seconds);
    return ls_cli_print_json(object);
}

static ls_status run(writer *w, ls_one_worker *one) {
    const ls_options *o = w->opts;
    ls_tokens prompt = {0};
    ls_status status = LS_OK;
    ls_generate_options options = {.temperature = o->temperature,
                                   .top_k = o->top_k,
                                   .top_p = o->top_p,
                                   .seed = (uint64_t)o->seed,
                                   .max_tokens = o->max_tokens,
                                   .no_cache = !o->cache};
    w->tokenizer = one->tokenizer;
    w->eot = w->tokenizer ? ls_tokenizer_eot(w->tokenizer) : -1;
    LS_TRY(ls_weights_eos(one->start.weights, w->eos, EOS_MAX, &w->eos_count));
    w->stop_bytes = o->stop ? strlen(o->stop) : 0;
    w->shown.for_terminal = isatty(STDOUT_FILENO);
    LS_TRY_OUT(encode(w, &prompt));
    double start = ls_clock_seconds();
    LS_TRY_OUT(ls_generate(one->partition, one->T, &options, prompt.ids, prompt.count, take_token, w));
    LS_TRY_OUT(print_more(w, true));
    if (o->json)
        LS_TRY_OUT(print_json(w, ls_clock_seconds() - start));
    else
        putchar('\n');
    status = ls_stop_status();
out:
    ls_tokens_fini(&prompt);
    return status;
}

ls_status ls_cmd_generate(const ls_options *opts) {
    ls_one_worker one;
    writer w = {.opts = opts};
    ls_fpenv_set();
    LS_TRY(ls_stop_install());
    ls_status status = ls_one_worker_open(opts, 0, 1, &one);
    if (status == LS_OK) {
        status = ls_image_option_refuse(&one.start.shape, "generate");
        if (status == LS_OK) status = run(&w, &one);
        ls_one_worker_close(&one);
    }
    free(w.text);
    ls_stop_restore();
    return status;
}
