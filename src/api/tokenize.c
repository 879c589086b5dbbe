/* tokenize.c: ls_tokenize(): tokenizes text and JSONL files into token files in llm.c's format. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/options.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "comm/launch/launcher.h"
#include "data/text/map_file.h"
#include "data/text/paths.h"
#include "data/text/text.h"
#include "data/text/token_file.h"
#include "data/tokenizer/tokenizer.h"
#include "run/inputs/inputs.h"

enum { SHOWN = 200 };

typedef struct tokenize {
    const ls_options *opts;
    void (*progress)(void *ctx, const ls_tokenized *so_far);
    void *ctx;
    ls_tokenized *out;
    double val_fraction; /* 0: no split */
    ls_tokenizer *tokenizer;
    ls_frame frame; /* tokens before and after each document */
    ls_paths paths;
    ls_token_writer *train, *val; /* val NULL: no split */
    ls_text_counts counts;
    double start_s;
} tokenize;

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

/* Fails with LS_ERR_INPUT if a required option is missing or another does not apply; sets t->val_fraction, 0 unless it
 * was given. */
static ls_status check_options(tokenize *t) {
    const ls_options *opts = t->opts;
    if (!opts->tokenizer)
        return ls_fail(LS_ERR_INPUT, "tokenize needs --tokenizer: bytes, or a tokenizer's folder or file");
    if (!opts->data) return ls_fail(LS_ERR_INPUT, "tokenize needs --data: text files, JSONL files or folders");
    if (!opts->out) return ls_fail(LS_ERR_INPUT, "tokenize needs --out: a folder, or a prefix for file names");
    if (opts->workers > 1) return ls_options_fail(opts, LS_OPT_workers, "tokenize runs in one process");
    if (opts->trace) return ls_options_fail(opts, LS_OPT_trace, "tokenize writes no trace: leave it out");
    if (ls_launcher_place().size > 1)
        return ls_fail(LS_ERR_INPUT, "tokenize runs in one process: start it without mpirun or srun");
    bool is_given = opts->source[LS_OPT_val_fraction].origin != LS_ORIGIN_DEFAULT;
    t->val_fraction = is_given ? opts->val_fraction : 0;
    return LS_OK;
}

/* Chooses the prefixes of the output files and creates their folder: "train" and "val" inside --out if that is a
 * folder, else --out itself (with _train and _val if there is a split). */
static ls_status set_prefixes(tokenize *t) {
    const char *out = t->opts->out, *slash = ls_ends_with(out, "/") ? "" : "/";
    enum { ROOM = sizeof t->out->out - 32 }; /* what a shard's name adds */
    struct stat about;
    bool is_folder = !*slash || (stat(out, &about) == 0 && S_ISDIR(about.st_mode));
    int a, b = 0;
    if (is_folder) {
        LS_TRY(ls_dir_make(out));
        a = snprintf(t->out->out, ROOM, "%s%strain", out, slash);
        if (t->val_fraction > 0) b = snprintf(t->out->val_out, ROOM, "%s%sval", out, slash);
    } else {
        const char *last = strrchr(out, '/');
        char folder[ROOM];
        if (last && last > out && snprintf(folder, sizeof folder, "%.*s", (int)(last - out), out) < ROOM)
            LS_TRY(ls_dir_make(folder));
        a = snprintf(t->out->out, ROOM, "%s%s", out, t->val_fraction > 0 ? "_train" : "");
        if (t->val_fraction > 0) b = snprintf(t->out->val_out, ROOM, "%s_val", out);
    }
    return a < ROOM && b < ROOM ? LS_OK : ls_options_fail(t->opts, LS_OPT_out, "the path is too long");
}

/* Creates the writer of one output; LS_ERR_INPUT if its first shard exists already. */
static ls_status open_writer(const tokenize *t, const char *prefix, ls_token_writer **out) {
    ls_path path = ls_token_shard_path(prefix, 1);
    ls_token_origin origin = {.vocab = ls_tokenizer_vocab(t->tokenizer), .tokenizer = ls_tokenizer_hash(t->tokenizer)};
    if (ls_file_exists(path.text))
        return ls_options_fail(t->opts, LS_OPT_out, "%.*s exists already: remove it, or choose another --out", SHOWN,
                               path.text);
    LS_TRY(ls_file_can_write(path.text));
    return ls_token_writer_open(prefix, &origin, (uint64_t)t->opts->shard_tokens, out);
}

/* Checks options and inputs, opens the tokenizer and the writers. */
static ls_status prepare_tokenize(tokenize *t) {
    LS_TRY(check_options(t));
    LS_TRY(ls_paths_expand(t->opts->data, LS_SPLIT_ALL, &t->paths));
    for (size_t i = 0; i < t->paths.count; i++) {
        bool is_tokens = false;
        LS_TRY(ls_token_file_detect(t->paths.names[i], &is_tokens));
        if (is_tokens) return ls_fail(LS_ERR_INPUT, "%.*s is a token file already", SHOWN, t->paths.names[i]);
    }
    LS_TRY(ls_tokenizer_open(t->opts->tokenizer, &t->tokenizer));
    LS_TRY(ls_bos_option(t->opts, t->tokenizer, &t->frame));
    LS_TRY(set_prefixes(t));
    LS_TRY(open_writer(t, t->out->out, &t->train));
    return t->val_fraction > 0 ? open_writer(t, t->out->val_out, &t->val) : LS_OK;
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

/* Updates the figures of *t->out from the writers: tokens, shards, bytes and seconds so far. */
static void count_output(tokenize *t) {
    ls_tokenized *out = t->out;
    out->val_tokens = t->val ? ls_token_writer_count(t->val) : 0;
    out->tokens = ls_token_writer_count(t->train) + out->val_tokens;
    out->shards = ls_token_writer_shards(t->train) + (t->val ? ls_token_writer_shards(t->val) : 0);
    out->bytes = t->counts.text_bytes;
    out->documents = t->counts.documents;
    out->invalid_bytes = t->counts.invalid_bytes;
    out->seconds = ls_clock_seconds() - t->start_s;
}

/* Reports `done` of `total` bytes of the present file to the caller; callback of ls_text_tokenize(). */
static void tell_progress(void *ctx, uint64_t done, uint64_t total) {
    tokenize *t = ctx;
    if (!t->progress) return;
    count_output(t);
    t->out->file_done = done;
    t->out->file_bytes = total;
    t->progress(t->ctx, t->out);
}

/* A file to tokenize; the argument of tokenize_guarded(). */
typedef struct file_job {
    tokenize *t;
    const char *path;
    ls_map text;
} file_job;

/* Tokenizes a mapped file into the writers; runs inside ls_map_guard(), which turns the SIGBUS of a file that shrinks
 * into a failure. */
static ls_status tokenize_guarded(void *ctx) {
    file_job *job = ctx;
    tokenize *t = job->t;
    ls_text_options how = {.tokenizer = t->tokenizer,
                           .frame = t->frame,
                           .text_field = t->opts->text_field,
                           .encode_flags = t->opts->special_tokens ? LS_ENCODE_SPECIAL : 0,
                           .val_fraction = t->val_fraction,
                           .progress = tell_progress,
                           .progress_ctx = t};
    LS_TRY(ls_text_tokenize(job->path, &job->text, &how, t->train, t->val, &t->counts));
    return ls_map_check(&job->text);
}

/* Maps one file, tokenizes it and reports its end; warns if it has bytes that are not UTF-8. */
static ls_status tokenize_file(tokenize *t, const char *path) {
    file_job job = {.t = t, .path = path};
    uint64_t invalid = t->counts.invalid_bytes;
    t->out->file = path;
    LS_TRY(ls_map_open(path, &job.text));
    ls_status status = ls_map_guard(tokenize_guarded, &job);
    ls_map_close(&job.text);
    t->out->file = NULL;
    if (t->progress) t->progress(t->ctx, t->out);
    invalid = t->counts.invalid_bytes - invalid;
    if (status == LS_OK && invalid)
        ls_log_warn("%.*s has %" PRIu64 " bytes that are not UTF-8; they are kept as they are", SHOWN, path, invalid);
    return status;
}

/* Does all the work; on success the output files have their names, on failure none does. */
static ls_status tokenize_texts(tokenize *t) {
    LS_TRY(prepare_tokenize(t));
    t->out->vocab = ls_tokenizer_vocab(t->tokenizer);
    t->start_s = ls_clock_seconds();
    for (size_t i = 0; i < t->paths.count; i++) LS_TRY(tokenize_file(t, t->paths.names[i]));
    if (t->counts.documents > 1 && ls_tokenizer_eot(t->tokenizer) < 0)
        ls_log_warn("the tokenizer has no end-of-text token: nothing separates the documents");
    /* The validation files first: where those for training are, all is there. */
    if (t->val) LS_TRY(ls_token_writer_finish(t->val));
    LS_TRY(ls_token_writer_finish(t->train));
    count_output(t);
    return LS_OK;
}

ls_status ls_tokenize(const ls_options *options, void (*progress)(void *ctx, const ls_tokenized *so_far), void *ctx,
                      ls_tokenized *out) {
    tokenize t = {.opts = options, .progress = progress, .ctx = ctx, .out = out};
    *out = (ls_tokenized){0};
    LS_TRY(ls_options_expect(options, LS_COMMAND_TOKENIZE, "ls_tokenize"));
    ls_status status = tokenize_texts(&t);
    ls_token_writer_close(t.train);
    ls_token_writer_close(t.val);
    ls_tokenizer_close(t.tokenizer);
    ls_paths_fini(&t.paths);
    return status;
}
