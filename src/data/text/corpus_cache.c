/* corpus_cache.c: the name of a text's shards is the hash of everything that their ids depend on, so a file can be
 * damaged but never stale. The checksums of shards are verified each time; damaged shards are reported and made again.
 * Of a large shard only the header is verified here, and its pieces when they are read (data/text/token_sums.h). One
 * process tokenizes a text while the others wait for it (data/text/cache_folder.h). */
#include "data/text/corpus_cache.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "data/text/cache_folder.h"
#include "data/text/map_file.h"
#include "data/text/not_text.h"
#include "data/text/text.h"
#include "data/text/token_sums.h"

enum { SHOWN = 160, MESSAGE_BYTES = 512 };

/* To be changed if the same text and tokenizer give other files, so that old ones are not found. */
#define FORMAT "lockstep token cache 2"
#define SHARD_TOKENS (UINT64_C(1) << 30)

static const double WAIT_S = 300;

/* An entry of the cache that is looked for or made; ls_corpus_cache_fill() releases what it holds, also after a jump
 * out of ls_map_guard(). */
typedef struct filling {
    const char *path;
    const ls_corpus_options *options;
    ls_path *prefix;
    char key[LS_HASH_TEXT_BYTES];
    ls_map text;
    ls_token_writer *writer;
    ls_cache_lock lock;
} filling;

/* Passes a message to the caller's callback, or to the log. */
static void report_message(const ls_corpus_options *options, const char *message) {
    if (options->say) {
        options->say(options->say_ctx, message);
    } else {
        ls_log_info("%s", message);
    }
}

/* The callback of ls_cache_lock_take(): reports that another process makes the entry. */
static void report_wait(void *options, const char *message) { report_message(options, message); }

/* Returns the hash of everything that the ids depend on: text, tokenizer, JSONL field, frame and the version of the
 * files. */
static ls_hash128 compute_key(const filling *f) {
    const ls_corpus_options *options = f->options;
    const char *field = options->text_field ? options->text_field : "text";
    const char *kind = ls_text_is_jsonl(f->path) ? field : "";
    char frame[LS_FRAME_TEXT_BYTES];
    ls_frame_describe(&options->frame, frame);
    const ls_hash128 parts[] = {ls_hash_bytes(FORMAT, sizeof FORMAT - 1), ls_hash_long(f->text.data, f->text.bytes),
                                ls_tokenizer_hash(options->tokenizer), ls_hash_bytes(kind, strlen(kind)),
                                ls_hash_bytes(frame, strlen(frame))};
    return ls_hash_combine(parts, sizeof parts / sizeof *parts);
}

uint64_t ls_corpus_cache_pieces_from(const ls_corpus_options *options) {
    return options->pieces_from_bytes ? options->pieces_from_bytes : LS_TOKEN_SUMS_FROM_BYTES;
}

/* Returns the most tokens that a shard has. */
static uint64_t shard_tokens(const ls_corpus_options *options) {
    return options->cache_shard_tokens ? options->cache_shard_tokens : SHARD_TOKENS;
}

/* Verifies the checksum of a whole shard, unless it is large and has sound checksums of its pieces, which are
 * verified when they are read. */
static ls_status verify_shard(ls_token_file *file, const ls_corpus_options *options) {
    char why[MESSAGE_BYTES] = "";
    bool in_pieces;
    ls_status sums = ls_token_file_use_sums(file, ls_corpus_cache_pieces_from(options), &in_pieces);
    if (in_pieces) return LS_OK;
    if (sums != LS_OK) snprintf(why, sizeof why, "%s", ls_status_message());
    LS_TRY(ls_token_file_verify(file));
    if (sums != LS_OK)
        ls_log_warn("%s; %.*s was read and verified whole instead; delete both files to have them made again", why,
                    SHOWN, ls_token_file_path(file));
    return LS_OK;
}

/* Checks that a shard is complete, of this tokenizer, and has the ids that were written. Adds its tokens and the
 * bytes of its text to *tokens and *bytes. */
static ls_status check_shard(const char *path, const ls_corpus_options *options, uint64_t *tokens, uint64_t *bytes) {
    ls_token_file *file = NULL;
    LS_TRY(ls_token_file_open(path, &file));
    ls_status status = verify_shard(file, options);
    if (status == LS_OK && !ls_hash_equal(ls_token_file_origin(file).tokenizer, ls_tokenizer_hash(options->tokenizer)))
        status = ls_fail(LS_ERR_INPUT, "%.*s is damaged: it is of another tokenizer", SHOWN, path);
    *tokens += ls_token_file_count(file);
    *bytes += ls_token_file_origin(file).text_bytes;
    ls_token_file_close(file);
    return status;
}

/* Returns whether all shards exist and are sound, and counts their tokens. `tells`: logs damage as a warning. */
static bool is_filled(const filling *f, bool tells, uint64_t *tokens) {
    uint64_t bytes = 0, before = 0;
    *tokens = 0;
    for (size_t number = 1;; number++) {
        ls_path path = ls_token_shard_path(f->prefix->text, number);
        if (!ls_file_exists(path.text)) break;
        before = *tokens;
        if (check_shard(path.text, f->options, tokens, &bytes) == LS_OK) continue;
        if (tells)
            ls_log_warn("the token cache is damaged; %.*s is tokenized again: %s", SHOWN, f->path, ls_status_message());
        return false;
    }
    /* A shard may be missing. The bytes of all documents of a JSONL file are not known without reading it, so the last
     * shard must be one that is not full (one text in 2^30 has a full one and is tokenized each time). */
    if (ls_text_is_jsonl(f->path)) return *tokens > 0 && *tokens - before < shard_tokens(f->options);
    return *tokens > 0 && bytes == f->text.bytes;
}

/* Reports progress to the processes that wait for the lock and to the caller's callback. */
static void tell_progress(void *ctx, uint64_t done, uint64_t total) {
    filling *f = ctx;
    ls_cache_lock_tell(&f->lock);
    if (f->options->progress) f->options->progress(f->options->progress_ctx, done, total);
}

/* Tokenizes the text into the shards of the entry, and reports it. */
static ls_status fill_cache(filling *f) {
    const ls_corpus_options *options = f->options;
    ls_text_options how = {.tokenizer = options->tokenizer,
                           .frame = options->frame,
                           .text_field = options->text_field,
                           .progress = tell_progress,
                           .progress_ctx = f};
    ls_token_origin origin = {.vocab = ls_tokenizer_vocab(options->tokenizer),
                              .tokenizer = ls_tokenizer_hash(options->tokenizer)};
    ls_text_counts counts = {0};
    char message[MESSAGE_BYTES];
    double start_s = ls_clock_seconds();
    snprintf(message, sizeof message, "tokenizing %.*s (%zu bytes) with %.*s, this once; the tokens are kept in %.*s",
             SHOWN, f->path, f->text.bytes, 80, ls_tokenizer_name(options->tokenizer), SHOWN, options->cache_dir);
    report_message(options, message);
    LS_TRY(ls_token_writer_open(f->prefix->text, &origin, shard_tokens(options), &f->writer));
    ls_token_writer_keep_sums(f->writer, ls_corpus_cache_pieces_from(options));
    LS_TRY(ls_text_tokenize(f->path, &f->text, &how, f->writer, NULL, &counts));
    LS_TRY(ls_map_check(&f->text));
    LS_TRY(ls_token_writer_finish(f->writer));
    if (counts.invalid_bytes)
        ls_log_warn("%.*s has %" PRIu64 " bytes that are not UTF-8; they are kept as they are", SHOWN, f->path,
                    counts.invalid_bytes);
    snprintf(message, sizeof message, "%.*s: %" PRIu64 " tokens from %" PRIu64 " bytes in %.1f s", SHOWN, f->path,
             ls_token_writer_count(f->writer), counts.text_bytes, ls_clock_seconds() - start_s);
    report_message(options, message);
    return LS_OK;
}

/* Reports that the text was tokenized before. */
static void report_found(const filling *f, uint64_t tokens) {
    char message[MESSAGE_BYTES];
    snprintf(message, sizeof message, "%.*s: %" PRIu64 " tokens, tokenized before (%.*s)", SHOWN, f->path, tokens,
             SHOWN, f->options->cache_dir);
    report_message(f->options, message);
}

/* Finds the entry, or makes it. Locks only if there is work, because a sound entry never changes. Runs under
 * ls_map_guard(). Its first call in a process also cleans the folder. */
static ls_status find_or_fill(void *ctx) {
    static atomic_flag cleaned = ATOMIC_FLAG_INIT;
    filling *f = ctx;
    const ls_corpus_options *options = f->options;
    uint64_t tokens = 0;
    ls_hash_text(compute_key(f), f->key);
    *f->prefix = ls_path_format("%s/%s", options->cache_dir, f->key);
    if (!atomic_flag_test_and_set(&cleaned)) ls_cache_folder_clean(options->cache_dir, NULL);
    if (!is_filled(f, false, &tokens)) {
        double wait_s = options->wait_s > 0 ? options->wait_s : WAIT_S;
        /* Casts a const away; report_wait() only reads. */
        LS_TRY(ls_cache_lock_take(&f->lock, options->cache_dir, f->key, f->path, wait_s, report_wait,
                                  (void *)(uintptr_t)options));
        if (!is_filled(f, true, &tokens)) {
            if (f->lock.fd >= 0) ls_cache_folder_clean(options->cache_dir, f->key);
            ls_status status = fill_cache(f);
            return status == LS_OK ? LS_OK : ls_cache_folder_advise(status);
        }
    }
    report_found(f, tokens);
    return LS_OK;
}

ls_status ls_corpus_cache_fill(const char *path, const ls_corpus_options *options, ls_path *prefix) {
    filling f = {.path = path, .options = options, .prefix = prefix, .lock = {.fd = -1}};
    ls_status status;
    LS_TRY_OUT(ls_map_open(path, &f.text));
    if (!f.text.bytes) {
        status = ls_fail(LS_ERR_INPUT, "%.*s is empty: it has no text", SHOWN, path);
        goto out;
    }
    LS_TRY_OUT(ls_cache_folder_open(options->cache_dir));
    status = ls_map_guard(find_or_fill, &f);
out:
    ls_token_writer_close(f.writer);
    ls_cache_lock_release(&f.lock);
    ls_map_close(&f.text);
    return status;
}
