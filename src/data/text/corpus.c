/* corpus.c: see corpus.h. */
#include "data/text/corpus.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/text/corpus_cache.h"
#include "data/text/map_file.h"
#include "data/text/not_text.h"

enum { SHOWN = 200, HASH_BLOCK = 1 << 18 };

/* A token file of the corpus. */
typedef struct part {
    ls_token_file *file;
    uint64_t begin; /* position of its first token in the corpus */
} part;

struct ls_corpus {
    part *parts;
    size_t count, capacity;
    uint64_t tokens, text_bytes;
    bool text_is_known; /* of every file so far */
    bool has_text;
    uint32_t limit;          /* ids must be below it */
    const ls_source *source; /* instead of files */
};

void ls_corpus_close(ls_corpus *corpus) {
    if (!corpus) return;
    for (size_t i = 0; i < corpus->count; i++) ls_token_file_close(corpus->parts[i].file);
    free(corpus->parts);
    free(corpus);
}

/* Logs a warning if the file was made with another tokenizer. */
static void warn_of_origin(const ls_token_file *file, const ls_corpus_options *options) {
    ls_token_origin origin = ls_token_file_origin(file);
    if (options->tokenizer && origin.vocab && !ls_hash_equal(origin.tokenizer, ls_tokenizer_hash(options->tokenizer)))
        ls_log_warn("%.*s was made with a different tokenizer than %.*s", SHOWN, ls_token_file_path(file), SHOWN,
                    ls_tokenizer_name(options->tokenizer));
}

/* Checks every id before training begins, except in a large file of the cache: its ids were checked against the
 * vocabulary in its header when it was written, and its pieces are verified when they are read. Wrong checksums were
 * already reported when the cache was opened. */
static ls_status check_file(const ls_corpus *corpus, ls_token_file *file, bool is_cached,
                            const ls_corpus_options *options) {
    bool in_pieces = false;
    if (is_cached && ls_token_file_origin(file).vocab <= corpus->limit)
        (void)ls_token_file_use_sums(file, ls_corpus_cache_pieces_from(options), &in_pieces);
    return in_pieces || options->skip_check ? LS_OK : ls_token_file_check(file, corpus->limit, NULL, NULL);
}

/* Opens a token file, checks it and appends it to the corpus. `is_cached`: it is of the cache. A file that fails the
 * check stays in the corpus, which the caller closes. */
static ls_status add_file(ls_corpus *corpus, const char *path, bool is_cached, const ls_corpus_options *options) {
    part *parts = ls_list_grow(corpus->parts, corpus->count, &corpus->capacity, sizeof *parts);
    if (!parts) return ls_fail(LS_ERR_RESOURCE, "out of memory for the list of token files");
    corpus->parts = parts;
    part *last = &parts[corpus->count];
    LS_TRY(ls_token_file_open(path, &last->file));
    last->begin = corpus->tokens;
    corpus->count++;
    warn_of_origin(last->file, options);
    LS_TRY(check_file(corpus, last->file, is_cached, options));
    corpus->tokens += ls_token_file_count(last->file);
    uint64_t text_bytes = ls_token_file_origin(last->file).text_bytes;
    corpus->text_bytes += text_bytes;
    corpus->text_is_known &= text_bytes > 0;
    return LS_OK;
}

typedef struct head {
    const char *path;
    const ls_map *text;
} head;

/* Refuses a file by its first bytes. Runs under ls_map_guard(). */
static ls_status check_head(void *ctx) {
    const head *h = ctx;
    return ls_not_text_check(h->path, h->text->data, h->text->bytes);
}

/* Refuses a file that is no text, before any error about tokenizers, because a compressed file needs another remedy. */
static ls_status check_first_bytes(const char *path) {
    ls_map text;
    LS_TRY(ls_map_open(path, &text));
    ls_status status = ls_map_guard(check_head, &(head){.path = path, .text = &text});
    ls_map_close(&text);
    return status;
}

/* Tokenizes a text into the cache, unless it is there, and adds the files of the cache. */
static ls_status add_text(ls_corpus *corpus, const char *path, const ls_corpus_options *options) {
    ls_path prefix;
    LS_TRY(check_first_bytes(path));
    if (!options->tokenizer)
        return ls_fail(LS_ERR_INPUT, "%.*s is text and this model has no tokenizer; add --tokenizer FOLDER", SHOWN,
                       path);
    if (!options->cache_dir)
        return ls_fail(LS_ERR_INPUT, "%.*s is text: turn it into tokens with `lockstep tokenize`", SHOWN, path);
    corpus->has_text = true;
    LS_TRY(ls_corpus_cache_fill(path, options, &prefix));
    for (size_t number = 1;; number++) {
        ls_path shard = ls_token_shard_path(prefix.text, number);
        if (number > 1 && !ls_file_exists(shard.text)) return LS_OK;
        LS_TRY(add_file(corpus, shard.text, true, options));
    }
}

ls_status ls_corpus_open(const char *list, const ls_corpus_options *options, ls_corpus **out) {
    ls_paths paths = {0};
    ls_status status;
    bool is_tokens = false;
    ls_corpus *corpus = *out = calloc(1, sizeof *corpus);
    if (!corpus) return ls_fail(LS_ERR_RESOURCE, "out of memory for the list of token files");
    corpus->text_is_known = true;
    corpus->limit = options->vocab       ? options->vocab
                    : options->tokenizer ? ls_tokenizer_vocab(options->tokenizer)
                                         : INT32_MAX;
    LS_TRY_OUT(ls_paths_expand(list, options->split, &paths));
    for (size_t i = 0; i < paths.count; i++) {
        LS_TRY_OUT(ls_token_file_detect(paths.names[i], &is_tokens));
        LS_TRY_OUT(is_tokens ? add_file(corpus, paths.names[i], false, options)
                             : add_text(corpus, paths.names[i], options));
    }
out:
    ls_paths_fini(&paths);
    if (status != LS_OK) {
        ls_corpus_close(corpus);
        *out = NULL;
    }
    return status;
}

ls_status ls_corpus_open_source(const ls_source *source, uint32_t vocab, ls_corpus **out) {
    *out = NULL;
    if (!source->identity || !*source->identity || !source->tokens || source->count == 0)
        return ls_fail(LS_ERR_INPUT,
                       "own data for a language model needs an identity, a count and the function tokens");
    *out = calloc(1, sizeof **out);
    if (!*out) return ls_fail(LS_ERR_RESOURCE, "out of memory for a source of tokens");
    **out = (ls_corpus){.tokens = source->count, .limit = vocab, .source = source};
    return LS_OK;
}

uint64_t ls_corpus_count(const ls_corpus *corpus) { return corpus->tokens; }

uint64_t ls_corpus_text_bytes(const ls_corpus *corpus) { return corpus->text_is_known ? corpus->text_bytes : 0; }

size_t ls_corpus_files(const ls_corpus *corpus) { return corpus->count; }

bool ls_corpus_has_text(const ls_corpus *corpus) { return corpus->has_text; }

/* Returns the index of the part that contains token `at`. */
static size_t find_part(const ls_corpus *corpus, uint64_t at) {
    size_t low = 0, high = corpus->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (corpus->parts[middle].begin <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Fails if an id is not below corpus->limit. Checked again after reading, because a file may change, and an id
 * without an embedding would crash a kernel. `begin`: position of the first, in the file `from` or (NULL) in the
 * caller's own data. */
static ls_status check_ids(const ls_corpus *corpus, const part *from, uint64_t begin, const int32_t *ids,
                           size_t count) {
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++) largest = (uint32_t)ids[i] > largest ? (uint32_t)ids[i] : largest;
    if (largest < corpus->limit) return LS_OK;
    size_t at = 0;
    while ((uint32_t)ids[at] < corpus->limit) at++;
    if (!from)
        return ls_fail(LS_ERR_INPUT,
                       "the caller's data: token %" PRIu64 " has id %" PRId32 ", but the vocabulary has %u", begin + at,
                       ids[at], corpus->limit);
    return ls_fail(LS_ERR_INPUT,
                   "%.*s: token %" PRIu64 " has id %" PRId32
                   ", but the vocabulary has %u: the file was changed while it was being read",
                   SHOWN, ls_token_file_path(from->file), begin + at, ids[at], corpus->limit);
}

ls_status ls_corpus_read(const ls_corpus *corpus, uint64_t begin, size_t count, int32_t *out) {
    if (begin > corpus->tokens || count > corpus->tokens - begin)
        return ls_fail(LS_ERR_INPUT, "the data has %" PRIu64 " tokens; %zu from %" PRIu64 " on are not there",
                       corpus->tokens, count, begin);
    if (corpus->source) {
        LS_TRY(corpus->source->tokens(corpus->source->ctx, begin, count, out));
        return check_ids(corpus, NULL, begin, out, count);
    }
    for (size_t i = find_part(corpus, begin); count; i++) {
        const part *from = &corpus->parts[i];
        uint64_t inside = begin - from->begin, left = ls_token_file_count(from->file) - inside;
        size_t size = count < left ? count : (size_t)left;
        LS_TRY(ls_token_file_read(from->file, inside, size, out));
        LS_TRY(check_ids(corpus, from, inside, out, size));
        begin += size;
        out += size;
        count -= size;
    }
    return LS_OK;
}

/* Hashes blocks by position in the corpus, so that the division into files does not matter. */
ls_status ls_corpus_hash(const ls_corpus *corpus, ls_hash128 *out) {
    size_t blocks = (size_t)((corpus->tokens + HASH_BLOCK - 1) / HASH_BLOCK);
    ls_hash128 *hashes = malloc(blocks * sizeof *hashes);
    int32_t *ids = malloc(HASH_BLOCK * sizeof *ids);
    ls_status status = LS_OK;
    if (!hashes || !ids) {
        status = ls_fail(LS_ERR_RESOURCE, "no memory to hash %" PRIu64 " tokens", corpus->tokens);
        goto out;
    }
    for (size_t i = 0; i < blocks; i++) {
        uint64_t begin = (uint64_t)i * HASH_BLOCK, left = corpus->tokens - begin;
        size_t count = left < HASH_BLOCK ? (size_t)left : HASH_BLOCK;
        LS_TRY_OUT(ls_corpus_read(corpus, begin, count, ids));
        hashes[i] = ls_hash_bytes(ids, count * sizeof *ids);
    }
    *out = ls_hash_combine(hashes, blocks);
out:
    free(hashes);
    free(ids);
    return status;
}
