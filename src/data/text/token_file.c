/* token_file.c: reading token files. */
#include "data/text/token_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "data/text/map_file.h"
#include "data/text/token_layout.h"
#include "data/text/token_sums.h"

enum { SHOWN = 200, BLOCK = 4096, PROGRESS_BLOCKS = 2048 };

struct ls_token_file {
    char *path;
    ls_map data, index;
    ls_token_layout layout;
    ls_token_sums *sums; /* NULL: no verification by pieces */
};

/* Returns `path` with this suffix, instead of .bin or .idx if it has one. */
static ls_path with_ending(const char *path, const char *ending) {
    size_t length = strlen(path);
    if (ls_ends_with(path, ".bin") || ls_ends_with(path, ".idx")) length -= 4;
    return ls_path_format("%.*s%s", (int)length, path, ending);
}

/* Maps the file and its index, if it has one, and parses the layout. */
static ls_status open_parts(ls_token_file *file) {
    ls_path data = with_ending(file->path, ".bin"), index = with_ending(file->path, ".idx");
    /* Any file may be a token file by its first bytes; a file with an index is the .bin of a Megatron pair. */
    bool has_index = ls_file_exists(index.text) && ls_file_exists(data.text);
    LS_TRY(ls_map_open(has_index ? data.text : file->path, &file->data));
    if (has_index) LS_TRY(ls_map_open(index.text, &file->index));
    if (has_index && !file->index.bytes) return ls_fail(LS_ERR_INPUT, "%.*s is empty", SHOWN, index.text);
    return ls_token_layout_parse(file->path, file->data.data, file->data.bytes, file->index.data, file->index.bytes,
                                 &file->layout);
}

/* Calls open_parts() under ls_map_guard(). */
static ls_status open_guarded(void *file) { return open_parts(file); }

ls_status ls_token_file_open(const char *path, ls_token_file **out) {
    ls_token_file *file = *out = calloc(1, sizeof *file);
    if (file) file->path = strdup(path);
    ls_status status =
        file && file->path ? ls_map_guard(open_guarded, file) : ls_fail(LS_ERR_RESOURCE, "no memory to open %s", path);
    if (status == LS_OK) return LS_OK;
    ls_token_file_close(file);
    *out = NULL;
    return status;
}

void ls_token_file_close(ls_token_file *file) {
    if (!file) return;
    ls_map_close(&file->data);
    ls_map_close(&file->index);
    ls_token_sums_close(file->sums);
    free(file->path);
    free(file);
}

ls_status ls_token_file_detect(const char *path, bool *is_tokens) {
    char head[4];
    *is_tokens = ls_ends_with(path, ".bin") || ls_ends_with(path, ".idx") ||
                 (!ls_file_exists(path) && ls_file_exists(with_ending(path, ".idx").text));
    if (*is_tokens) return LS_OK;
    int fd;
    LS_TRY(ls_file_open_regular(path, &fd, NULL));
    *is_tokens = ls_fd_read(fd, head, sizeof head, 0) == sizeof head && ls_token_layout_is_llmc(head, sizeof head);
    (void)close(fd);
    return LS_OK;
}

uint64_t ls_token_file_count(const ls_token_file *file) { return file->layout.count; }

const char *ls_token_file_path(const ls_token_file *file) { return file->path; }

const char *ls_token_file_format(const ls_token_file *file) { return file->layout.format; }

ls_token_origin ls_token_file_origin(const ls_token_file *file) { return file->layout.origin; }

/* Returns the stored bytes of id number `at`. */
static const uint8_t *token_at(const ls_token_file *file, uint64_t at) {
    return file->layout.tokens + at * ls_token_width(file->layout.type);
}

/* Returns the first of `ids` outside 0 … limit−1, or `count`. */
static size_t find_outside(const int64_t *ids, size_t count, uint64_t limit) {
    uint64_t outside = 0;
    for (size_t i = 0; i < count; i++) outside |= (uint64_t)((uint64_t)ids[i] >= limit);
    if (!outside) return count;
    size_t i = 0;
    while ((uint64_t)ids[i] < limit) i++;
    return i;
}

/* ---- checking ---------------------------------------------------------------------------------------------------- */

/* Arguments of the functions that run under ls_map_guard(). `vocab` 0: ids are not checked. */
typedef struct reading {
    const ls_token_file *file;
    uint32_t vocab;
    ls_data_progress progress;
    void *progress_ctx;
    ls_hash_stream *stream; /* of the ids; NULL: the checksum is not verified */
    const char *remedy;     /* advice for a wrong checksum */
    uint64_t begin;
    size_t count;
    int32_t *out;
} reading;

/* Returns whether lockstep wrote a checksum into the file. */
static bool has_sum(const ls_token_file *file) { return file->layout.sum.lo || file->layout.sum.hi; }

/* Compares the checksum of header and hashed ids with that in the header. */
static ls_status check_sum(const ls_token_file *file, const reading *r) {
    ls_hash128 found = ls_token_layout_sum(file->data.data, ls_hash_stream_value(r->stream));
    if (ls_hash_equal(found, file->layout.sum)) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%.*s is damaged: its tokens do not have the checksum that was written with them%s",
                   SHOWN, file->path, r->remedy);
}

/* Checks ids and computes their hash, in blocks that stay in the cache while both are done. Fails at the first id
 * that is not below the vocabulary. */
static ls_status check_guarded(void *ctx) {
    const reading *r = ctx;
    const ls_token_file *file = r->file;
    int64_t ids[BLOCK];
    uint64_t total = file->layout.count, blocks = 0;
    for (uint64_t at = 0; at < total; at += BLOCK, blocks++) {
        size_t count = total - at < BLOCK ? (size_t)(total - at) : BLOCK;
        if (r->stream) ls_hash_stream_add(r->stream, token_at(file, at), count * ls_token_width(file->layout.type));
        if (r->vocab) ls_token_load(file->layout.type, token_at(file, at), count, ids);
        size_t wrong = r->vocab ? find_outside(ids, count, r->vocab) : count;
        if (wrong < count)
            return ls_fail(LS_ERR_INPUT,
                           "%.*s: token %" PRIu64 " has id %" PRId64
                           ", but the vocabulary has %u (ids 0 … %u): the file was made with another tokenizer, or is "
                           "no token file (it was read as %s's)",
                           SHOWN, file->path, at + wrong, ids[wrong], r->vocab, r->vocab - 1, file->layout.format);
        if (blocks % PROGRESS_BLOCKS != 0) continue;
        ls_alive_turn();
        if (r->progress) r->progress(r->progress_ctx, at, total);
    }
    if (r->progress) r->progress(r->progress_ctx, total, total);
    return r->stream ? check_sum(file, r) : LS_OK;
}

/* Runs check_guarded() under a guard, with a hash of the ids if the checksum is wanted. */
static ls_status check_tokens(reading *r, bool wants_sum) {
    if (wants_sum) {
        r->stream = ls_hash_stream_create();
        if (!r->stream) return ls_fail(LS_ERR_RESOURCE, "no memory to check %.*s", SHOWN, r->file->path);
        ls_hash_stream_restart(r->stream);
    }
    ls_status status = ls_map_guard(check_guarded, r);
    ls_hash_stream_destroy(r->stream);
    return status == LS_OK ? ls_map_check(&r->file->data) : status;
}

ls_status ls_token_file_check(const ls_token_file *file, uint32_t vocab, ls_data_progress progress, void *ctx) {
    reading r = {.file = file,
                 .vocab = vocab,
                 .progress = progress,
                 .progress_ctx = ctx,
                 .remedy = "; delete it and make it again with `lockstep tokenize`"};
    return check_tokens(&r, has_sum(file));
}

ls_status ls_token_file_verify(const ls_token_file *file) {
    reading r = {.file = file, .remedy = ""};
    if (!has_sum(file)) return ls_fail(LS_ERR_INPUT, "%.*s has no checksum", SHOWN, file->path);
    return check_tokens(&r, true);
}

/* ---- in pieces --------------------------------------------------------------------------------------------------- */

/* Arguments of compare_header(): `ids` is the hash from the sums; `fits` is its result. */
typedef struct pairing {
    const ls_token_file *file;
    ls_hash128 ids;
    bool fits;
} pairing;

/* Compares the checksum in the header with that of the header and the hash of the ids from the sums. */
static ls_status compare_header(void *ctx) {
    pairing *p = ctx;
    p->fits = ls_hash_equal(ls_token_layout_sum(p->file->data.data, p->ids), p->file->layout.sum);
    return LS_OK;
}

ls_status ls_token_file_use_sums(ls_token_file *file, uint64_t from_bytes, bool *used) {
    ls_path path = ls_token_sums_path(file->path);
    uint64_t bytes = file->layout.count * ls_token_width(file->layout.type);
    pairing p = {.file = file};
    *used = false;
    if (!has_sum(file) || bytes < from_bytes) return LS_OK;
    LS_TRY(ls_token_sums_open(path.text, bytes, file->layout.sum, &p.ids, &file->sums));
    if (!file->sums) return LS_OK;
    ls_status status = ls_map_guard(compare_header, &p);
    if (status == LS_OK && !p.fits)
        status = ls_fail(LS_ERR_INPUT, "%.*s is not of the token file beside it", SHOWN, path.text);
    if (status != LS_OK) {
        ls_token_sums_close(file->sums);
        file->sums = NULL;
    }
    *used = status == LS_OK;
    return status;
}

/* Verifies the checksums of the pieces that contain ids begin … end − 1. */
static ls_status verify_pieces(const ls_token_file *file, uint64_t begin, uint64_t end) {
    uint64_t width = ls_token_width(file->layout.type), wrong;
    if (ls_token_sums_verify(file->sums, file->layout.tokens, begin * width, end * width, &wrong)) return LS_OK;
    uint64_t first = wrong * (LS_TOKEN_PIECE_BYTES / width), last = first + LS_TOKEN_PIECE_BYTES / width - 1;
    if (last >= file->layout.count) last = file->layout.count - 1;
    return ls_fail(LS_ERR_INPUT,
                   "%.*s is damaged: tokens %" PRIu64 " … %" PRIu64
                   " do not have the checksum that was written with them; delete this file, and the next run tokenizes "
                   "the text again",
                   SHOWN, file->path, first, last);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Verifies the pieces, if the file has sums, and converts the ids to int32_t. */
static ls_status read_guarded(void *ctx) {
    const reading *r = ctx;
    const ls_token_file *file = r->file;
    int64_t ids[BLOCK];
    if (file->sums) LS_TRY(verify_pieces(file, r->begin, r->begin + r->count));
    for (size_t done = 0; done < r->count;) {
        size_t part = r->count - done < BLOCK ? r->count - done : BLOCK;
        ls_token_load(file->layout.type, token_at(file, r->begin + done), part, ids);
        size_t wrong = find_outside(ids, part, (uint64_t)INT32_MAX + 1);
        if (wrong < part)
            return ls_fail(LS_ERR_INPUT, "%.*s: token %" PRIu64 " has the impossible id %" PRId64, SHOWN, file->path,
                           r->begin + done + wrong, ids[wrong]);
        for (size_t i = 0; i < part; i++) r->out[done + i] = (int32_t)ids[i];
        done += part;
    }
    return LS_OK;
}

ls_status ls_token_file_read(const ls_token_file *file, uint64_t begin, size_t count, int32_t *out) {
    uint64_t total = file->layout.count;
    if (begin > total || count > total - begin)
        return ls_fail(LS_ERR_INPUT, "%.*s has %" PRIu64 " tokens; %zu from %" PRIu64 " on are not there", SHOWN,
                       file->path, total, count, begin);
    reading r = {.file = file, .begin = begin, .count = count, .out = out};
    LS_TRY(ls_map_guard(read_guarded, &r));
    return ls_map_check(&file->data);
}
