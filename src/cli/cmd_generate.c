/* cmd_generate.c: `lockstep generate`: prints the prompt and its continuation by the model, token by token. */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "data/tokenizer/utf8_stream.h"
#include "run/stop.h"

typedef struct writer {
    FILE *out;
    ls_utf8_stream shown;
} writer;

/* Writes the next bytes of text, whole UTF-8 characters only; at the end (0 bytes) an unfinished one as U+FFFD. Sets
 * *stop if a signal came or the reader closed the pipe. A callback; ctx is the writer. */
static ls_status print(void *ctx, const char *text, size_t bytes, int *stop) {
    writer *w = ctx;
    char *shown = malloc(ls_utf8_stream_room(bytes));
    if (!shown) return ls_fail(LS_ERR_RESOURCE, "out of memory for a text of %zu bytes", ls_utf8_stream_room(bytes));
    size_t made = bytes > 0 ? ls_utf8_stream_add(&w->shown, text, bytes, shown) : ls_utf8_stream_end(&w->shown, shown);
    if (made > 0) fwrite(shown, 1, made, w->out);
    if (made > 0) fflush(w->out);
    free(shown);
    *stop = ls_stop_signal() != 0 || (ferror(w->out) && ls_cli_reader_is_gone());
    return LS_OK;
}

/* Generates the text of a run to w->out; sets the number of tokens and the seconds that generation took. */
static ls_status write_text(const ls_options *options, writer *w, int64_t *tokens, double *seconds) {
    ls_run *run = NULL;
    int stop;
    LS_TRY(ls_run_open(&(ls_run_setup){.options = options}, &run));
    double start = ls_clock_seconds();
    ls_status status = ls_run_generate(run, options->prompt, print, w, tokens);
    if (status == LS_OK) status = print(w, NULL, 0, &stop);
    *seconds = ls_clock_seconds() - start;
    ls_run_close(run);
    return status;
}

/* Generates to standard output, or with --json into memory and prints one object. Returns the stop status if a signal
 * ended it. */
static ls_status generate(const ls_options *options) {
    char *text = NULL;
    size_t bytes;
    int64_t tokens;
    double seconds;
    writer w = {.out = options->json ? open_memstream(&text, &bytes) : stdout,
                .shown.for_terminal = !options->json && isatty(STDOUT_FILENO)};
    if (!w.out) return ls_fail(LS_ERR_RESOURCE, "out of memory for a text");
    ls_status status = write_text(options, &w, &tokens, &seconds);
    if (options->json) fclose(w.out);
    if (status == LS_OK && options->json)
        status = ls_cli_print_json(json_pack("{s:o, s:I, s:f}", "text", json_stringn(text, bytes), "tokens",
                                             (json_int_t)tokens, "tokens_per_s", (double)tokens / seconds));
    else if (status == LS_OK)
        putchar('\n');
    free(text);
    return status == LS_OK ? ls_stop_status() : status;
}

/* Runs `lockstep generate` with handlers for signals that stop it, which are restored at the end. */
ls_status ls_cmd_generate(const ls_options *options) {
    LS_TRY(ls_stop_install());
    ls_status status = generate(options);
    ls_stop_restore();
    return status;
}
