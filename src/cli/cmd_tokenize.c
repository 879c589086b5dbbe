/* cmd_tokenize.c: `lockstep tokenize`: makes token files from text, and shows progress. */
#include <inttypes.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/print.h"

/* Shows progress at most every 0.2 s; a NULL t->file removes the line. A callback; ctx: a double, the time at which it
 * was last shown. */
static void show(void *ctx, const ls_tokenized *t) {
    double *shown_s = ctx, now_s = ls_clock_seconds();
    if (!t->file) ls_cli_progress_end();
    if (!t->file || now_s - *shown_s < 0.2) return;
    *shown_s = now_s;
    ls_cli_progress("%.60s: %d %%, %" PRIu64 " tokens", t->file,
                    (int)(100.0 * (double)t->file_done / (double)t->file_bytes), t->tokens);
}

/* Prints what was written, as text or JSON. */
static ls_status report(const ls_tokenized *t, bool json) {
    double rate = t->seconds > 0 ? (double)t->tokens / t->seconds : 0;
    if (json)
        return ls_cli_print_json(json_pack(
            "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:o*}", "tokens", (json_int_t)t->tokens, "val_tokens",
            (json_int_t)t->val_tokens, "bytes", (json_int_t)t->bytes, "documents", (json_int_t)t->documents,
            "invalid_bytes", (json_int_t)t->invalid_bytes, "shards", (json_int_t)t->shards, "vocab",
            (json_int_t)t->vocab, "seconds", t->seconds, "tokens_per_second", rate, "out", ls_cli_json_path(t->out),
            "val_out", t->val_out[0] ? ls_cli_json_path(t->val_out) : NULL));
    printf("tokens=%" PRIu64 " val_tokens=%" PRIu64 " bytes=%" PRIu64 " documents=%" PRIu64 " shards=%" PRIu64
           " vocab=%" PRIu32 " seconds=%.3f tok/s=%.0f out=%s_000001.bin\n",
           t->tokens, t->val_tokens, t->bytes, t->documents, t->shards, t->vocab, t->seconds, rate, t->out);
    return LS_OK;
}

/* Runs `lockstep tokenize` and prints what was written. */
ls_status ls_cmd_tokenize(const ls_options *options) {
    ls_tokenized done;
    double shown_s = ls_clock_seconds();
    ls_status status = ls_tokenize(options, show, &shown_s, &done);
    return status == LS_OK ? report(&done, options->json) : status;
}
