/* hash_stream.c: the streaming form of XXH3-128. A file is read, not mapped: a read that fails is an error, while a
 * mapping would end the process. */
#include "checkpoint/hash_stream.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

enum { PIECE_BYTES = 1 << 20 };

/* The state needs an alignment that only the library's own allocation promises. */
struct ls_hash_stream {
    XXH3_state_t *state;
};

ls_hash_stream *ls_hash_stream_create(void) {
    ls_hash_stream *stream = malloc(sizeof *stream);
    if (!stream) return NULL;
    stream->state = XXH3_createState();
    if (!stream->state) {
        free(stream);
        return NULL;
    }
    ls_hash_stream_restart(stream);
    return stream;
}

void ls_hash_stream_destroy(ls_hash_stream *stream) {
    if (!stream) return;
    (void)XXH3_freeState(stream->state);
    free(stream);
}

void ls_hash_stream_restart(ls_hash_stream *stream) {
    XXH_errorcode rc = XXH3_128bits_reset(stream->state);
    assert(rc == XXH_OK); /* fails for NULL only */
    (void)rc;
}

void ls_hash_stream_add(ls_hash_stream *stream, const void *data, size_t bytes) {
    XXH_errorcode rc = XXH3_128bits_update(stream->state, data, bytes);
    assert(rc == XXH_OK);
    (void)rc;
}

ls_hash128 ls_hash_stream_value(const ls_hash_stream *stream) {
    XXH128_hash_t hash = XXH3_128bits_digest(stream->state);
    return (ls_hash128){.lo = hash.low64, .hi = hash.high64};
}

ls_status ls_hash_file(const char *path, void (*step)(void *ctx, size_t bytes), void *ctx, ls_hash128 *hash,
                       uint64_t *bytes) {
    ls_status status = LS_OK;
    ls_hash_stream *stream = ls_hash_stream_create();
    char *piece = malloc(PIECE_BYTES);
    int fd = -1;
    *bytes = 0;
    if (!stream || !piece) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory to read %s", path);
        goto out;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        status = ls_fail_errno(LS_ERR_INPUT, "cannot open %s", path);
        goto out;
    }
    for (;;) {
        ssize_t got = read(fd, piece, PIECE_BYTES);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) status = ls_fail_errno(LS_ERR_INPUT, "cannot read %s", path);
        if (got <= 0) break;
        ls_hash_stream_add(stream, piece, (size_t)got);
        *bytes += (uint64_t)got;
        if (step) step(ctx, (size_t)got);
    }
    *hash = ls_hash_stream_value(stream);
out:
    if (fd >= 0) (void)close(fd);
    free(piece);
    ls_hash_stream_destroy(stream);
    return status;
}
