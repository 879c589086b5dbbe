/* token_writer.c: writes token files. A shard is a temporary file beside its final place; ids are buffered and written
 * in large blocks. All shards stay temporary until the end, so that an interrupted run leaves no incomplete output. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alive.h"
#include "data/text/token_layout.h"
#include "data/text/token_sums.h"

enum { SHOWN = 200, BUFFER_BYTES = 1 << 18, TEMPORARY_TRIES = 100 };

/* Every flush before the end of a shard writes whole pieces. */
_Static_assert(BUFFER_BYTES % LS_TOKEN_PIECE_BYTES == 0, "the buffer holds whole pieces");

struct ls_token_writer {
    char *prefix;
    ls_token_origin origin;
    uint64_t shard_tokens, total;
    size_t shards, begun; /* begun: temporary files that exist */
    bool finished;
    int fd;              /* of the shard being written; −1: none */
    long stamp;          /* part of the names of temporary files, beside the process number */
    ls_hash_stream *sum; /* of the ids of the shard */
    uint64_t shard_count, shard_text_bytes;
    uint64_t sums_from_bytes; /* bytes of ids from which on a shard gets sums */
    ls_token_sum_list pieces; /* sums of the shard being written */
    size_t used;
    uint8_t buffer[BUFFER_BYTES];
};

ls_path ls_token_shard_path(const char *prefix, size_t number) {
    return ls_path_format("%s_%06zu.bin", prefix, number);
}

/* Returns the temporary name of a shard (suffix "") or of its sums (".sums"). */
static ls_path temporary_path(const ls_token_writer *writer, size_t number, const char *suffix) {
    return ls_path_format("%s_%06zu.bin%s.tmp-%ld-%ld", writer->prefix, number, suffix, (long)getpid(), writer->stamp);
}

ls_status ls_token_writer_open(const char *prefix, const ls_token_origin *origin, uint64_t shard_tokens,
                               ls_token_writer **out) {
    *out = NULL;
    if (!shard_tokens || shard_tokens > LS_SHARD_TOKENS_MAX)
        return ls_fail(LS_ERR_INPUT, "a shard of %" PRIu64 " tokens is not possible; 1 to %" PRIu64 " are",
                       shard_tokens, LS_SHARD_TOKENS_MAX);
    ls_token_writer *writer = calloc(1, sizeof *writer);
    if (writer) writer->prefix = strdup(prefix);
    if (writer) writer->sum = ls_hash_stream_create();
    if (!writer || !writer->prefix || !writer->sum) {
        if (writer) ls_hash_stream_destroy(writer->sum);
        if (writer) free(writer->prefix);
        free(writer);
        return ls_fail(LS_ERR_RESOURCE, "no memory to write tokens");
    }
    writer->origin = *origin;
    writer->shard_tokens = shard_tokens;
    writer->fd = -1;
    writer->sums_from_bytes = UINT64_MAX;
    *out = writer;
    return LS_OK;
}

void ls_token_writer_keep_sums(ls_token_writer *writer, uint64_t from_bytes) {
    assert(!writer->begun);
    writer->sums_from_bytes = from_bytes;
}

/* Returns the bytes of a stored id: 2, or 4 for a large vocabulary. */
static size_t token_bytes(const ls_token_writer *writer) { return writer->origin.vocab > 65536 ? 4 : 2; }

/* Writes at offset `at` of the shard, or (−1) behind what was written last. */
static ls_status write_to_shard(const ls_token_writer *writer, const void *data, size_t bytes, off_t at) {
    if (ls_fd_write(writer->fd, data, bytes, at) == bytes) return LS_OK;
    return ls_fail_errno(LS_ERR_FAILED, "cannot write shard %zu of '%.*s' (token %" PRIu64 ")", writer->begun, SHOWN,
                         writer->prefix, writer->total);
}

/* Writes the buffer to the shard, and adds it to the hash and to the checksums of pieces. */
static ls_status flush_buffer(ls_token_writer *writer) {
    size_t bytes = writer->used;
    writer->used = 0;
    ls_hash_stream_add(writer->sum, writer->buffer, bytes);
    if (writer->sums_from_bytes < UINT64_MAX) LS_TRY(ls_token_sum_list_add(&writer->pieces, writer->buffer, bytes));
    return write_to_shard(writer, writer->buffer, bytes, -1);
}

/* Returns whether a shard of so many ids gets a file of checksums. */
static bool has_sums(const ls_token_writer *writer, uint64_t shard_count) {
    return writer->sums_from_bytes < UINT64_MAX && shard_count * token_bytes(writer) >= writer->sums_from_bytes;
}

/* Writes the sums of a complete shard under their temporary name, if it gets any. */
static ls_status write_sums(const ls_token_writer *writer, const uint32_t header[LS_LLMC_WORDS]) {
    uint64_t halves[2];
    memcpy(halves, header + LS_LLMC_SUM_WORD, sizeof halves);
    const ls_token_shard_sums of = {.shard = {.lo = halves[0], .hi = halves[1]},
                                    .ids = ls_hash_stream_value(writer->sum)};
    if (!has_sums(writer, writer->shard_count)) return LS_OK;
    return ls_token_sum_list_write(&writer->pieces, &of, temporary_path(writer, writer->begun, ".sums").text);
}

/* Writes a 64-bit number as two words, the low one first. */
static void put_pair(uint32_t *words, uint64_t value) {
    words[0] = (uint32_t)value;
    words[1] = (uint32_t)(value >> 32);
}

/* Fills in the header for the ids of the shard so far. */
static void make_header(const ls_token_writer *writer, uint32_t header[LS_LLMC_WORDS]) {
    bool is_wide = token_bytes(writer) == 4;
    memset(header, 0, LS_LLMC_BYTES);
    header[0] = is_wide ? LS_LLMC_MAGIC_32 : LS_LLMC_MAGIC_16;
    header[1] = is_wide ? LS_LLMC_VERSION_32 : LS_LLMC_VERSION_16;
    header[2] = (uint32_t)writer->shard_count;
    header[LS_LLMC_ORIGIN_WORD] = LS_LLMC_ORIGIN_MAGIC;
    put_pair(header + 9, writer->shard_text_bytes);
    header[11] = writer->origin.vocab;
    put_pair(header + 12, writer->origin.tokenizer.lo);
    put_pair(header + 14, writer->origin.tokenizer.hi);
    ls_hash128 sum = ls_token_layout_sum(header, ls_hash_stream_value(writer->sum));
    put_pair(header + LS_LLMC_SUM_WORD, sum.lo);
    put_pair(header + LS_LLMC_SUM_WORD + 2, sum.hi);
}

/* Creates the temporary file of the next shard. O_EXCL refuses existing files and symbolic links, which an earlier
 * process with the same number may have left or an attacker may have planted. */
static ls_status make_temporary(ls_token_writer *writer) {
    ls_path path;
    for (int i = 0; i < TEMPORARY_TRIES; i++) {
        path = temporary_path(writer, writer->shards + 1, "");
        writer->fd = open(path.text, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (writer->fd >= 0) return LS_OK;
        /* All shards share the stamp, so it can change only before the first. */
        if (errno != EEXIST || writer->begun > 0) break;
        writer->stamp++;
    }
    return ls_fail_errno(LS_ERR_INPUT, "cannot make %s", path.text);
}

/* Creates the next shard, with a header that end_shard() rewrites. */
static ls_status begin_shard(ls_token_writer *writer) {
    uint32_t header[LS_LLMC_WORDS];
    LS_TRY(make_temporary(writer));
    writer->begun++;
    ls_hash_stream_restart(writer->sum);
    writer->pieces.count = 0;
    writer->shard_count = writer->shard_text_bytes = 0;
    make_header(writer, header);
    return write_to_shard(writer, header, sizeof header, -1);
}

/* Completes the temporary file of the shard: flushes, rewrites the header, syncs, closes, and writes its sums. Does not
 * rename it. */
static ls_status end_shard(ls_token_writer *writer) {
    uint32_t header[LS_LLMC_WORDS];
    LS_TRY(flush_buffer(writer));
    make_header(writer, header);
    LS_TRY(write_to_shard(writer, header, sizeof header, 0));
    if (ls_fd_sync(writer->fd) != 0)
        return ls_fail_errno(LS_ERR_FAILED, "cannot force shard %zu of '%.*s' to disk", writer->begun, SHOWN,
                             writer->prefix);
    int rc = close(writer->fd);
    writer->fd = -1;
    if (rc != 0)
        return ls_fail_errno(LS_ERR_FAILED, "cannot close shard %zu of '%.*s'", writer->begun, SHOWN, writer->prefix);
    LS_TRY(write_sums(writer, header));
    writer->shards++;
    return LS_OK;
}

/* Buffers `count` ids, for which the shard and the buffer have space. */
static ls_status put_ids(ls_token_writer *writer, const int32_t *ids, size_t count) {
    uint8_t *at = writer->buffer + writer->used;
    bool is_wide = token_bytes(writer) == 4;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= writer->origin.vocab)
            return ls_fail(LS_ERR_INPUT, "token id %d is not below %u, the size of the vocabulary", ids[i],
                           writer->origin.vocab);
        uint32_t wide = (uint32_t)ids[i];
        uint16_t narrow = (uint16_t)ids[i];
        memcpy(at, is_wide ? (const void *)&wide : (const void *)&narrow, is_wide ? 4 : 2);
        at += is_wide ? 4 : 2;
    }
    writer->used += count * token_bytes(writer);
    writer->shard_count += count;
    writer->total += count;
    return LS_OK;
}

ls_status ls_token_writer_add(ls_token_writer *writer, const int32_t *ids, size_t count, uint64_t text_bytes) {
    assert(!writer->finished);
    ls_alive_turn();
    while (count) {
        if (writer->fd < 0) LS_TRY(begin_shard(writer));
        writer->shard_text_bytes += text_bytes;
        text_bytes = 0;
        uint64_t capacity = (BUFFER_BYTES - writer->used) / token_bytes(writer);
        if (capacity > writer->shard_tokens - writer->shard_count)
            capacity = writer->shard_tokens - writer->shard_count;
        size_t part = count < capacity ? count : (size_t)capacity;
        LS_TRY(put_ids(writer, ids, part));
        ids += part;
        count -= part;
        if (BUFFER_BYTES - writer->used < token_bytes(writer)) LS_TRY(flush_buffer(writer));
        if (writer->shard_count == writer->shard_tokens) LS_TRY(end_shard(writer));
    }
    return LS_OK;
}

/* Renames a file to its final name. */
static ls_status rename_file(ls_path from, ls_path to) {
    if (rename(from.text, to.text) == 0) return LS_OK;
    return ls_fail_errno(LS_ERR_FAILED, "cannot put %.*s in place", SHOWN, to.text);
}

/* Renames a shard to its final name, after its sums, so that a large shard never exists without them. */
static ls_status name_shard(const ls_token_writer *writer, size_t number) {
    ls_path to = ls_token_shard_path(writer->prefix, number);
    uint64_t before = (uint64_t)(number - 1) * writer->shard_tokens, left = writer->total - before;
    if (has_sums(writer, left < writer->shard_tokens ? left : writer->shard_tokens))
        LS_TRY(rename_file(temporary_path(writer, number, ".sums"), ls_token_sums_path(to.text)));
    return rename_file(temporary_path(writer, number, ""), to);
}

/* Renames all shards to their final names, the last one first; on failure removes those that were renamed. */
static ls_status name_shards(const ls_token_writer *writer) {
    ls_status status = LS_OK;
    size_t number = writer->shards;
    while (number > 0 && (status = name_shard(writer, number)) == LS_OK) number--;
    while (status != LS_OK && ++number <= writer->shards) {
        ls_path name = ls_token_shard_path(writer->prefix, number);
        (void)unlink(name.text);
        (void)unlink(ls_token_sums_path(name.text).text);
    }
    return status;
}

ls_status ls_token_writer_finish(ls_token_writer *writer) {
    if (writer->fd >= 0) LS_TRY(end_shard(writer));
    if (!writer->shards) return ls_fail(LS_ERR_INPUT, "there are no tokens to write to '%.*s'", SHOWN, writer->prefix);
    LS_TRY(name_shards(writer));
    writer->finished = true;
    return ls_folder_sync_parent(writer->prefix);
}

uint64_t ls_token_writer_count(const ls_token_writer *writer) { return writer->total; }

size_t ls_token_writer_shards(const ls_token_writer *writer) { return writer->shards; }

void ls_token_writer_close(ls_token_writer *writer) {
    if (!writer) return;
    if (writer->fd >= 0) (void)close(writer->fd);
    for (size_t number = 1; !writer->finished && number <= writer->begun; number++) {
        (void)unlink(temporary_path(writer, number, "").text);
        (void)unlink(temporary_path(writer, number, ".sums").text);
    }
    ls_hash_stream_destroy(writer->sum);
    ls_token_sum_list_fini(&writer->pieces);
    free(writer->prefix);
    free(writer);
}
