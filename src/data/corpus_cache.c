/* corpus_cache.c: the name of a text's shards is the hash of all that their ids depend on, so that whatever lies under
 * a name is right or damaged, never out of date. A lock on the folder lets one process tokenize while the others wait
 * for it. */
#include "data/corpus_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "data/map.h"
#include "data/text.h"

enum { SHOWN = 160, MESSAGE_ROOM = 512 };

#define SHARD_TOKENS (UINT64_C(1) << 30)

static void say(const ls_corpus_options *options, const char *message) {
    if (options->say) {
        options->say(options->say_ctx, message);
    } else {
        ls_log_info("%s", message);
    }
}

static ls_hash128 key_of(const char *path, const ls_map *text, const ls_corpus_options *options) {
    const char *field = options->text_field ? options->text_field : "text";
    const char *kind = ls_text_is_jsonl(path) ? field : "";
    const ls_hash128 parts[] = {ls_hash_bytes(text->data, text->bytes), ls_tokenizer_hash(options->tokenizer),
                                ls_hash_bytes(kind, strlen(kind))};
    return ls_hash_combine(parts, sizeof parts / sizeof *parts);
}

/* Waits for the lock of the folder. Where the file system has no locks, two processes do the same work; each puts whole
 * files in place, so that is a waste and no harm: *fd is −1. */
static ls_status lock_folder(const char *folder, int *fd) {
    char path[LS_CACHE_PREFIX_ROOM];
    if (snprintf(path, sizeof path, "%s/lock", folder) >= (int)sizeof path)
        return ls_fail(LS_ERR_INPUT, "the name '%.*s…' is too long", SHOWN, folder);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd < 0) return ls_fail_errno(LS_ERR_INPUT, "cannot write to the cache of tokenized text, %s", folder);
    int rc;
    do rc = flock(*fd, LOCK_EX);
    while (rc != 0 && errno == EINTR);
    if (rc == 0) return LS_OK;
    (void)close(*fd);
    *fd = -1;
    return LS_OK;
}

/* Whether all shards are there and whole; how many tokens they have. */
static bool is_filled(const char *prefix, const ls_corpus_options *options, uint64_t *tokens) {
    char path[LS_CACHE_PREFIX_ROOM];
    *tokens = 0;
    for (size_t number = 1; ls_token_shard_path(prefix, number, path, sizeof path) == LS_OK; number++) {
        ls_token_file *file = NULL;
        if (!ls_file_exists(path)) break;
        if (ls_token_file_open(path, &file) != LS_OK) return false;
        bool is_ours = ls_hash_equal(ls_token_file_origin(file).tokenizer, ls_tokenizer_hash(options->tokenizer));
        *tokens += ls_token_file_count(file);
        ls_token_file_close(file);
        if (!is_ours) return false;
    }
    return *tokens > 0;
}

static ls_status fill(const char *path, const ls_map *text, const ls_corpus_options *options, const char *prefix) {
    ls_text_options how = {.tokenizer = options->tokenizer,
                           .text_field = options->text_field,
                           .progress = options->progress,
                           .progress_ctx = options->progress_ctx};
    ls_token_origin origin = {.vocab = ls_tokenizer_vocab(options->tokenizer),
                              .tokenizer = ls_tokenizer_hash(options->tokenizer)};
    ls_token_writer *writer = NULL;
    ls_text_counts counts = {0};
    char message[MESSAGE_ROOM];
    ls_status status;
    double start_s = ls_clock_seconds();
    snprintf(message, sizeof message, "tokenizing %.*s (%zu bytes) with %.*s, this once; the tokens are kept in %.*s",
             SHOWN, path, text->bytes, 80, ls_tokenizer_name(options->tokenizer), SHOWN, options->cache_dir);
    say(options, message);
    LS_TRY_OUT(ls_token_writer_open(prefix, &origin, SHARD_TOKENS, &writer));
    LS_TRY_OUT(ls_text_tokenize(path, text, &how, writer, NULL, &counts));
    LS_TRY_OUT(ls_token_writer_finish(writer));
    if (counts.invalid_bytes)
        ls_log_warn("%.*s has %" PRIu64 " bytes that are not UTF-8; they are kept as they are", SHOWN, path,
                    counts.invalid_bytes);
    snprintf(message, sizeof message, "%.*s: %" PRIu64 " tokens from %" PRIu64 " bytes in %.1f s", SHOWN, path,
             ls_token_writer_count(writer), counts.text_bytes, ls_clock_seconds() - start_s);
    say(options, message);
out:
    ls_token_writer_close(writer);
    return status;
}

ls_status ls_corpus_cache_fill(const char *path, const ls_corpus_options *options, char prefix[LS_CACHE_PREFIX_ROOM]) {
    char name[LS_HASH_TEXT_BYTES], message[MESSAGE_ROOM];
    ls_map text = {0};
    uint64_t tokens = 0;
    int lock = -1;
    ls_status status;
    LS_TRY_OUT(ls_map_open(path, &text));
    if (!text.bytes) {
        status = ls_fail(LS_ERR_INPUT, "%.*s is empty: there is nothing to train on", SHOWN, path);
        goto out;
    }
    LS_TRY_OUT(ls_dir_make(options->cache_dir));
    ls_hash_text(key_of(path, &text, options), name);
    if (snprintf(prefix, LS_CACHE_PREFIX_ROOM, "%s/%s", options->cache_dir, name) >= LS_CACHE_PREFIX_ROOM) {
        status = ls_fail(LS_ERR_INPUT, "the name '%.*s…' is too long", SHOWN, options->cache_dir);
        goto out;
    }
    LS_TRY_OUT(lock_folder(options->cache_dir, &lock));
    if (!is_filled(prefix, options, &tokens)) {
        status = fill(path, &text, options, prefix);
    } else {
        snprintf(message, sizeof message, "%.*s: %" PRIu64 " tokens, tokenized before (%.*s)", SHOWN, path, tokens,
                 SHOWN, options->cache_dir);
        say(options, message);
    }
out:
    if (lock >= 0) (void)close(lock);
    ls_map_close(&text);
    return status;
}
