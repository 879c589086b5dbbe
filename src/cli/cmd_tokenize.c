/* cmd_tokenize.c: `lockstep tokenize` turns text and JSONL into token files in llm.c's format. All of the output
 * appears at the end, or none of it. */
#include "cli/cli.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/status.h"
#include "run/inputs/inputs.h"
#include "data/text/map_file.h"
#include "data/text/paths.h"
#include "data/text/text.h"
#include "data/text/token_file.h"
#include "data/tokenizer/tokenizer.h"

enum { PREFIX_ROOM = 3072, SHOWN = 200 };

static const double PROGRESS_S = 0.2; /* between two lines */

typedef struct tokenize {
    const ls_options *opts;
    double val_fraction; /* 0: no split */
    ls_tokenizer *tokenizer;
    ls_frame frame;
    ls_paths paths;
    char train_prefix[PREFIX_ROOM], val_prefix[PREFIX_ROOM];
    ls_token_writer *train, *val;
    ls_text_counts counts;
    const char *file; /* being read */
    double start_s, told_s;
    bool told;
} tokenize;

/* A line on the terminal that the next one replaces. */
static void tell_progress(void *ctx, uint64_t done, uint64_t total) {
    tokenize *t = ctx;
    double now_s = ls_clock_seconds();
    if (now_s - t->told_s < PROGRESS_S || !isatty(STDERR_FILENO)) return;
    t->told_s = now_s;
    t->told = true;
    fprintf(stderr, "\r\033[K%.*s: %d %%, %" PRIu64 " tokens", 60, t->file, (int)(100.0 * (double)done / (double)total),
            ls_token_writer_count(t->train) + (t->val ? ls_token_writer_count(t->val) : 0));
    fflush(stderr);
}

static void end_progress(tokenize *t) {
    if (t->told) fprintf(stderr, "\r\033[K");
    t->told = false;
}

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

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

static ls_status set_prefixes(tokenize *t) {
    const char *out = t->opts->out, *slash = ls_ends_with(out, "/") ? "" : "/";
    struct stat about;
    bool is_folder = !*slash || (stat(out, &about) == 0 && S_ISDIR(about.st_mode));
    int a, b;
    if (is_folder) {
        LS_TRY(ls_dir_make(out));
        a = snprintf(t->train_prefix, PREFIX_ROOM, "%s%strain", out, slash);
        b = snprintf(t->val_prefix, PREFIX_ROOM, "%s%sval", out, slash);
    } else {
        const char *last = strrchr(out, '/');
        char folder[PREFIX_ROOM];
        if (last && last > out && snprintf(folder, sizeof folder, "%.*s", (int)(last - out), out) < PREFIX_ROOM)
            LS_TRY(ls_dir_make(folder));
        a = snprintf(t->train_prefix, PREFIX_ROOM, "%s%s", out, t->val_fraction > 0 ? "_train" : "");
        b = snprintf(t->val_prefix, PREFIX_ROOM, "%s_val", out);
    }
    return a < PREFIX_ROOM && b < PREFIX_ROOM ? LS_OK : ls_options_fail(t->opts, LS_OPT_out, "the path is too long");
}

static ls_status open_writer(const tokenize *t, const char *prefix, ls_token_writer **out) {
    ls_path path = ls_token_shard_path(prefix, 1);
    ls_token_origin origin = {.vocab = ls_tokenizer_vocab(t->tokenizer), .tokenizer = ls_tokenizer_hash(t->tokenizer)};
    if (ls_file_exists(path.text))
        return ls_options_fail(t->opts, LS_OPT_out, "%.*s exists already: remove it, or choose another --out", SHOWN,
                               path.text);
    LS_TRY(ls_file_can_write(path.text));
    return ls_token_writer_open(prefix, &origin, (uint64_t)t->opts->shard_tokens, out);
}

static ls_status setup(tokenize *t) {
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
    LS_TRY(open_writer(t, t->train_prefix, &t->train));
    return t->val_fraction > 0 ? open_writer(t, t->val_prefix, &t->val) : LS_OK;
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

typedef struct file_job {
    tokenize *t;
    const char *path;
    ls_map text;
} file_job;

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

static ls_status tokenize_file(tokenize *t, const char *path) {
    file_job job = {.t = t, .path = path};
    uint64_t invalid = t->counts.invalid_bytes;
    t->file = path;
    LS_TRY(ls_map_open(path, &job.text));
    ls_status status = ls_map_guard(tokenize_guarded, &job);
    ls_map_close(&job.text);
    end_progress(t);
    invalid = t->counts.invalid_bytes - invalid;
    if (status == LS_OK && invalid)
        ls_log_warn("%.*s has %" PRIu64 " bytes that are not UTF-8; they are kept as they are", SHOWN, path, invalid);
    return status;
}

static void report(const tokenize *t, double elapsed_s) {
    uint64_t val = t->val ? ls_token_writer_count(t->val) : 0, tokens = ls_token_writer_count(t->train) + val;
    size_t shards = ls_token_writer_shards(t->train) + (t->val ? ls_token_writer_shards(t->val) : 0);
    double rate = elapsed_s > 0 ? (double)tokens / elapsed_s : 0;
    if (!t->opts->json) {
        printf("tokens=%" PRIu64 " val_tokens=%" PRIu64 " bytes=%" PRIu64 " documents=%" PRIu64
               " shards=%zu vocab=%u seconds=%.3f tok/s=%.0f out=%s_000001.bin\n",
               tokens, val, t->counts.text_bytes, t->counts.documents, shards, ls_tokenizer_vocab(t->tokenizer),
               elapsed_s, rate, t->train_prefix);
        return;
    }
    json_t *line =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s, s:s*}", "tokens", (json_int_t)tokens,
                  "val_tokens", (json_int_t)val, "bytes", (json_int_t)t->counts.text_bytes, "documents",
                  (json_int_t)t->counts.documents, "invalid_bytes", (json_int_t)t->counts.invalid_bytes, "shards",
                  (json_int_t)shards, "vocab", (json_int_t)ls_tokenizer_vocab(t->tokenizer), "seconds", elapsed_s,
                  "tokens_per_second", rate, "out", t->train_prefix, "val_out", t->val ? t->val_prefix : NULL);
    if (!line || json_dumpf(line, stdout, JSON_COMPACT) != 0) ls_log_warn("cannot write the summary as JSON");
    printf("\n");
    json_decref(line);
}

static ls_status run(tokenize *t) {
    LS_TRY(setup(t));
    t->start_s = t->told_s = ls_clock_seconds();
    for (size_t i = 0; i < t->paths.count; i++) LS_TRY(tokenize_file(t, t->paths.names[i]));
    if (t->counts.documents > 1 && ls_tokenizer_eot(t->tokenizer) < 0)
        ls_log_warn("the tokenizer has no end-of-text token: nothing separates the documents");
    /* The validation files first: where those for training are, all is there. */
    if (t->val) LS_TRY(ls_token_writer_finish(t->val));
    LS_TRY(ls_token_writer_finish(t->train));
    report(t, ls_clock_seconds() - t->start_s);
    return LS_OK;
}

ls_status ls_cmd_tokenize(const ls_options *options) {
    tokenize t = {.opts = options};
    ls_status status = run(&t);
    end_progress(&t);
    ls_token_writer_close(t.train);
    ls_token_writer_close(t.val);
    ls_tokenizer_close(t.tokenizer);
    ls_paths_fini(&t.paths);
    return status;
}
