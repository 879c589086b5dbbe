/* cmd_generate.c: `lockstep generate`: the prompt and what the model makes of it, on standard output as it comes. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fpenv.h"
#include "cli/image_option.h"
#include "cli/bos_option.h"
#include "cli/cli.h"
#include "cli/model_option.h"
#include "cli/one_worker.h"
#include "cli/print_json.h"
#include "train/generate.h"
#include "train/stop.h"

typedef struct writer {
    const ls_options *opts;
    ls_tokenizer *tokenizer; /* NULL: ids are printed */
    char *text;              /* all bytes so far */
    size_t bytes, room, printed;
    size_t stop_bytes;
    int64_t tokens;
    int32_t eot;
} writer;

static ls_status append(writer *w, const char *data, size_t bytes) {
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

/* Up to where no part of the stop text can begin any more, and whole characters only. */
static size_t printable_end(const writer *w, bool final) {
    size_t end = w->bytes;
    if (final) return end;
    if (w->stop_bytes > 1) end = end > w->stop_bytes - 1 ? end - (w->stop_bytes - 1) : 0;
    size_t back = 0;
    while (back < 4 && back < end && ((unsigned char)w->text[end - back - 1] & 0xC0) == 0x80) back++;
    if (back < end && back < 4) {
        unsigned char lead = (unsigned char)w->text[end - back - 1];
        size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
        if (length > back + 1) end -= back + 1;
    }
    return end;
}

static void print_more(writer *w, bool final) {
    size_t end = printable_end(w, final);
    if (w->opts->json || end <= w->printed) return;
    fwrite(w->text + w->printed, 1, end - w->printed, stdout);
    fflush(stdout);
    w->printed = end;
}

static ls_status take_token(void *ctx, int32_t id, bool *stop) {
    writer *w = ctx;
    const char *data;
    char number[16];
    size_t bytes;
    w->tokens++;
    *stop = ls_stop_signal() != 0;
    if (id == w->eot) {
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
    print_more(w, *stop);
    return LS_OK;
}

static ls_status encode(writer *w, ls_tokens *prompt) {
    const char *text = w->opts->prompt;
    if (!w->tokenizer) return ls_fail(LS_ERR_INPUT, "the model comes without a tokenizer: name one with --tokenizer");
    ls_frame frame;
    LS_TRY(ls_bos_option(w->opts, w->tokenizer, &frame));
    LS_TRY(ls_frame_prompt(w->tokenizer, &frame, text ? text : "", text ? strlen(text) : 0, LS_ENCODE_SPECIAL, prompt));
    if (text) {
        LS_TRY(append(w, text, strlen(text)));
        print_more(w, false);
    }
    if (prompt->count > 0) return LS_OK;
    int32_t bos = ls_tokenizer_bos(w->tokenizer), begin = bos >= 0 ? bos : w->eot;
    return begin >= 0 ? ls_tokens_push(prompt, begin) : ls_tokenizer_encode(w->tokenizer, "\n", 1, 0, prompt);
}

/* Bytes of the UTF-8 character at `at`; 0: it is none. */
static size_t character_bytes(const unsigned char *at, size_t left) {
    size_t length = at[0] < 0x80 ? 1 : at[0] >= 0xF0 ? 4 : at[0] >= 0xE0 ? 3 : at[0] >= 0xC2 ? 2 : 0;
    if (length == 0 || length > left) return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xC0) != 0x80) return 0;
    json_t *whole = json_stringn((const char *)at, length); /* refuses what only looks like a character */
    bool good = whole != NULL;
    json_decref(whole);
    return good ? length : 0;
}

/* A model may make bytes that are no text, which JSON cannot hold: each becomes U+FFFD. */
static json_t *json_text(const writer *w) {
    char *clean = malloc(3 * w->bytes + 1);
    size_t out = 0;
    if (!clean) return NULL;
    for (size_t i = 0; i < w->bytes;) {
        size_t length = character_bytes((const unsigned char *)w->text + i, w->bytes - i);
        memcpy(clean + out, length ? w->text + i : "\xEF\xBF\xBD", length ? length : 3);
        out += length ? length : 3;
        i += length ? length : 1;
    }
    json_t *text = json_stringn(clean, out);
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
    w->stop_bytes = o->stop ? strlen(o->stop) : 0;
    LS_TRY_OUT(encode(w, &prompt));
    double start = ls_clock_seconds();
    LS_TRY_OUT(ls_generate(one->stage, one->T, &options, prompt.ids, prompt.count, take_token, w));
    print_more(w, true);
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
