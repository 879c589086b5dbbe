/* token_sums.c: see token_sums.h. */
#include "data/text/token_sums.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/alive.h"
#include "base/alive.h"
#include "base/memory.h"

enum { SHOWN = 200, VERSION = 1, HEAD_BYTES = 56, END_BYTES = 16, FLAGS_PER_WORD = 32 };
enum { VERSION_AT = 8, PIECE_AT = 12, COUNT_AT = 16, SHARD_AT = 24, IDS_AT = 40 };

static const char MAGIC[8] = {'L', 'S', 'T', 'K', 'S', 'U', 'M', 'S'};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "sums are written as they are in memory");

ls_path ls_token_sums_path(const char *shard) { return ls_path_format("%s.sums", shard); }

/* Writes a hash as stored: lo, then hi. */
static void put_hash(uint8_t *at, ls_hash128 hash) {
    memcpy(at, &hash.lo, sizeof hash.lo);
    memcpy(at + sizeof hash.lo, &hash.hi, sizeof hash.hi);
}

/* Reads a hash as put_hash() writes it. */
static ls_hash128 hash_at(const uint8_t *at) {
    ls_hash128 hash;
    memcpy(&hash.lo, at, sizeof hash.lo);
    memcpy(&hash.hi, at + sizeof hash.lo, sizeof hash.hi);
    return hash;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

ls_status ls_token_sum_list_add(ls_token_sum_list *list, const void *data, size_t bytes) {
    const uint8_t *at = data;
    while (bytes) {
        size_t piece = bytes < LS_TOKEN_PIECE_BYTES ? bytes : LS_TOKEN_PIECE_BYTES;
        uint64_t *sums = ls_list_grow(list->sums, list->count, &list->capacity, sizeof *sums);
        if (!sums) return ls_fail(LS_ERR_RESOURCE, "out of memory for the checksums of tokens");
        list->sums = sums;
        list->sums[list->count++] = XXH3_64bits(at, piece);
        at += piece;
        bytes -= piece;
    }
    return LS_OK;
}

void ls_token_sum_list_fini(ls_token_sum_list *list) {
    free(list->sums);
    *list = (ls_token_sum_list){0};
}

/* Returns the content of the file, *bytes long, which the caller frees; NULL: no memory. */
static uint8_t *encode_sums(const ls_token_sum_list *list, const ls_token_shard_sums *of, size_t *bytes) {
    const uint32_t version = VERSION, piece = LS_TOKEN_PIECE_BYTES;
    const uint64_t count = list->count;
    size_t body = HEAD_BYTES + list->count * sizeof *list->sums;
    uint8_t *data = malloc(body + END_BYTES);
    *bytes = body + END_BYTES;
    if (!data) return NULL;
    memcpy(data, MAGIC, sizeof MAGIC);
    memcpy(data + VERSION_AT, &version, sizeof version);
    memcpy(data + PIECE_AT, &piece, sizeof piece);
    memcpy(data + COUNT_AT, &count, sizeof count);
    put_hash(data + SHARD_AT, of->shard);
    put_hash(data + IDS_AT, of->ids);
    if (list->count) memcpy(data + HEAD_BYTES, list->sums, list->count * sizeof *list->sums);
    put_hash(data + body, ls_hash_bytes(data, body));
    return data;
}

ls_status ls_token_sum_list_write(const ls_token_sum_list *list, const ls_token_shard_sums *of, const char *path) {
    size_t bytes;
    ls_status status = LS_OK;
    uint8_t *data = encode_sums(list, of, &bytes);
    if (!data) return ls_fail(LS_ERR_RESOURCE, "no memory for the checksums of tokens");
    /* A file of this temporary name is stale or planted, so it is removed instead of written to. */
    (void)unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        status = ls_fail_errno(LS_ERR_INPUT, "cannot make %.*s", SHOWN, path);
    else if (ls_fd_write(fd, data, bytes, -1) < bytes)
        status = ls_fail_errno(LS_ERR_FAILED, "cannot write %.*s", SHOWN, path);
    else if (ls_fd_sync(fd) != 0)
        status = ls_fail_errno(LS_ERR_FAILED, "cannot force %.*s to disk", SHOWN, path);
    if (fd >= 0 && close(fd) != 0 && status == LS_OK)
        status = ls_fail_errno(LS_ERR_FAILED, "cannot close %.*s", SHOWN, path);
    if (fd >= 0 && status != LS_OK) (void)unlink(path);
    free(data);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

struct ls_token_sums {
    uint64_t bytes; /* of ids */
    uint8_t *file;
    _Atomic uint32_t *verified; /* one bit a piece */
};

/* Returns the number of pieces of so many bytes, the last one perhaps shorter. */
static size_t pieces_of(uint64_t bytes) {
    return (size_t)(bytes / LS_TOKEN_PIECE_BYTES + (bytes % LS_TOKEN_PIECE_BYTES != 0));
}

/* Checks that the file is undamaged and belongs to a shard with this number of pieces and this checksum. */
static ls_status check_sums_file(const char *path, const uint8_t *data, size_t bytes, size_t pieces, ls_hash128 shard) {
    size_t body = HEAD_BYTES + pieces * sizeof(uint64_t);
    uint32_t version, piece;
    uint64_t count;
    if (bytes < HEAD_BYTES + END_BYTES || memcmp(data, MAGIC, sizeof MAGIC) != 0)
        return ls_fail(LS_ERR_INPUT, "%.*s is damaged: it is no file of checksums", SHOWN, path);
    memcpy(&version, data + VERSION_AT, sizeof version);
    memcpy(&piece, data + PIECE_AT, sizeof piece);
    memcpy(&count, data + COUNT_AT, sizeof count);
    if (!ls_hash_equal(ls_hash_bytes(data, bytes - END_BYTES), hash_at(data + bytes - END_BYTES)))
        return ls_fail(LS_ERR_INPUT, "%.*s is damaged: its checksum does not match", SHOWN, path);
    if (version != VERSION || piece != LS_TOKEN_PIECE_BYTES)
        return ls_fail(LS_ERR_INPUT, "%.*s has version %u and pieces of %u bytes; only version %d with %d is known",
                       SHOWN, path, version, piece, VERSION, LS_TOKEN_PIECE_BYTES);
    if (count != pieces || bytes != body + END_BYTES || !ls_hash_equal(hash_at(data + SHARD_AT), shard))
        return ls_fail(LS_ERR_INPUT, "%.*s is of another token file than the one beside it", SHOWN, path);
    return LS_OK;
}

ls_status ls_token_sums_open(const char *path, uint64_t bytes, ls_hash128 shard, ls_hash128 *ids, ls_token_sums **out) {
    size_t pieces = pieces_of(bytes), length = 0;
    char *data = NULL;
    *out = NULL;
    if (!ls_file_exists(path)) return LS_OK;
    LS_TRY(ls_file_read(path, HEAD_BYTES + pieces * sizeof(uint64_t) + END_BYTES, &data, &length));
    ls_status status = check_sums_file(path, (const uint8_t *)data, length, pieces, shard);
    ls_token_sums *sums = status == LS_OK ? calloc(1, sizeof *sums) : NULL;
    if (sums) sums->verified = calloc(pieces / FLAGS_PER_WORD + 1, sizeof *sums->verified);
    if (status == LS_OK && (!sums || !sums->verified))
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for the checksums of tokens");
    if (status != LS_OK) {
        free(sums);
        free(data);
        return status;
    }
    sums->bytes = bytes;
    sums->file = (uint8_t *)data;
    *ids = hash_at(sums->file + IDS_AT);
    *out = sums;
    return LS_OK;
}

void ls_token_sums_close(ls_token_sums *sums) {
    if (!sums) return;
    free(sums->verified);
    free(sums->file);
    free(sums);
}

/* Returns whether the piece has the checksum that was written for it. */
static bool has_its_sum(const ls_token_sums *sums, const uint8_t *ids, uint64_t piece) {
    uint64_t begin = piece * LS_TOKEN_PIECE_BYTES, left = sums->bytes - begin, sum;
    memcpy(&sum, sums->file + HEAD_BYTES + piece * sizeof sum, sizeof sum);
    return XXH3_64bits(ids + begin, left < LS_TOKEN_PIECE_BYTES ? (size_t)left : LS_TOKEN_PIECE_BYTES) == sum;
}

/* Uses relaxed flags, because no thread writes the ids that they refer to. */
bool ls_token_sums_verify(ls_token_sums *sums, const uint8_t *ids, uint64_t begin, uint64_t end, uint64_t *wrong) {
    assert(begin <= end && end <= sums->bytes);
    uint64_t last = begin < end ? pieces_of(end) : 0;
    for (uint64_t piece = begin / LS_TOKEN_PIECE_BYTES; piece < last; piece++) {
        _Atomic uint32_t *word = &sums->verified[piece / FLAGS_PER_WORD];
        uint32_t flag = UINT32_C(1) << piece % FLAGS_PER_WORD;
        if (atomic_load_explicit(word, memory_order_relaxed) & flag) continue;
        *wrong = piece;
        if (!has_its_sum(sums, ids, piece)) return false;
        ls_alive_turn();
        (void)atomic_fetch_or_explicit(word, flag, memory_order_relaxed);
    }
    return true;
}
