/* safetensors_writer.c: a safetensors file in the making.
 *
 * 1. `path` changes only by the rename at the end, of a file that is complete and on disk.
 * 2. The space of the whole file is reserved before the first byte of data, where the file system can do that.
 * 3. Sum and hashes are of the bytes in memory and run along with the writes: damage on the way to the disk is not
 *    signed. The sum (byte_sum.h) takes them in any order, hashes only as long as they come in order.
 * 4. Where several processes write, none has a page in its cache that it did not write itself: NFS would send such a
 *    page back as a whole, over what another machine has written beside it. So files are open for writing alone, and
 *    what was read of them leaves the cache. */
#include "checkpoint/safetensors_writer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/hash.h"
#include "checkpoint/byte_sum.h"
#include "checkpoint/folder.h"
#include "checkpoint/safetensors_layout.h"

enum { TEMPORARY_TRIES = 100 };

struct ls_safetensors_writer {
    ls_safetensors_layout layout;
    char *path; /* NULL for a writer that joined */
    char *temporary;
    int fd;
    bool has_temporary; /* this writer made it and removes it unless it gets its name */
    bool is_shared;
    size_t *written; /* bytes, for each tensor */
    ls_byte_sum sum; /* of what this writer has written */
    struct tensor_hash {
        bool is_known;
        ls_hash128 hash;
    } * hashes;
    ls_hash_stream *tensor_stream, *file_stream;
    int stream_tensor;                    /* the tensor that tensor_stream is in */
    size_t stream_next, file_stream_next; /* bytes of it, and of the file, that are hashed */
};

/* ---- beginning --------------------------------------------------------------------------------------------------- */

static ls_status new_writer(const ls_safetensors_plan *plan, ls_safetensors_writer **out) {
    ls_safetensors_writer *writer = calloc(1, sizeof *writer);
    *out = writer;
    if (!writer) goto no_memory;
    writer->fd = -1;
    writer->stream_tensor = -1;
    writer->is_shared = plan->is_shared;
    LS_TRY(ls_safetensors_layout_init(&writer->layout, plan));
    writer->written = calloc((size_t)plan->count + 1, sizeof *writer->written);
    writer->hashes = calloc((size_t)plan->count + 1, sizeof *writer->hashes);
    writer->tensor_stream = ls_hash_stream_create();
    writer->file_stream = ls_hash_stream_create();
    if (writer->written && writer->hashes && writer->tensor_stream && writer->file_stream) return LS_OK;
no_memory:
    return ls_fail(LS_ERR_RESOURCE, "out of memory to write a safetensors file of %d tensors", plan->count);
}

static size_t file_bytes(const ls_safetensors_writer *writer) { return writer->layout.begin[writer->layout.count]; }

static ls_status open_temporary(ls_safetensors_writer *writer, const char *path) {
    writer->path = strdup(path);
    for (int i = 0; i < TEMPORARY_TRIES && writer->path; i++) {
        free(writer->temporary);
        if (asprintf(&writer->temporary, "%s.tmp-%ld-%d", path, (long)getpid(), i) < 0) writer->temporary = NULL;
        if (!writer->temporary) break;
        writer->fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        writer->has_temporary = writer->fd >= 0;
        if (writer->has_temporary) return LS_OK;
        if (errno != EEXIST) return ls_fail_errno(LS_ERR_FAILED, "cannot create a temporary file for %s", path);
    }
    return ls_fail(LS_ERR_RESOURCE, "cannot find a name for a temporary file beside %s", path);
}

/* posix_fallocate() would write zeros where the file system cannot reserve; there the size alone is set. */
static ls_status reserve(const ls_safetensors_writer *writer) {
    int rc;
    do rc = fallocate(writer->fd, 0, 0, (off_t)file_bytes(writer));
    while (rc != 0 && errno == EINTR);
    if (rc != 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)) {
        do rc = ftruncate(writer->fd, (off_t)file_bytes(writer));
        while (rc != 0 && errno == EINTR);
    }
    if (rc == 0) return LS_OK;
    return ls_fail_errno(LS_ERR_FAILED, "cannot reserve %zu bytes for %s", file_bytes(writer), writer->path);
}

static ls_status write_fully(const ls_safetensors_writer *writer, const char *data, size_t bytes, size_t offset) {
    size_t left = bytes;
    while (left > 0) {
        ssize_t put = pwrite(writer->fd, data, left, (off_t)offset);
        if (put < 0 && errno == EINTR) continue;
        if (put == 0) errno = ENOSPC; /* nothing else could be meant */
        if (put <= 0)
            return ls_fail_errno(LS_ERR_FAILED, "cannot write %s: %zu of %zu bytes are missing from byte %zu on",
                                 writer->path ? writer->path : writer->temporary, left, bytes, offset);
        data += put;
        offset += (size_t)put;
        left -= (size_t)put;
    }
    return LS_OK;
}

static ls_status force_to_disk(const ls_safetensors_writer *writer) {
    int rc;
    do rc = fsync(writer->fd);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? LS_OK : ls_fail_errno(LS_ERR_FAILED, "cannot sync %s to disk", writer->temporary);
}

/* In the order of the file, or not at all. */
static void hash_file_bytes(ls_safetensors_writer *writer, const void *data, size_t bytes, size_t offset) {
    if (!writer->path || offset != writer->file_stream_next) return;
    ls_hash_stream_add(writer->file_stream, data, bytes);
    writer->file_stream_next += bytes;
}

ls_status ls_safetensors_create(const char *path, const ls_safetensors_plan *plan, ls_safetensors_writer **out) {
    ls_safetensors_writer *writer = NULL;
    ls_status status;
    *out = NULL;
    LS_TRY(ls_file_can_write(path));
    LS_TRY_OUT(new_writer(plan, &writer));
    LS_TRY_OUT(open_temporary(writer, path));
    LS_TRY_OUT(reserve(writer));
    ls_byte_sum_add(&writer->sum, 0, writer->layout.header, writer->layout.begin[0]);
    hash_file_bytes(writer, writer->layout.header, writer->layout.begin[0], 0);
    LS_TRY_OUT(write_fully(writer, writer->layout.header, writer->layout.begin[0], 0));
    /* Other machines see the header only when it is on disk. */
    if (writer->is_shared) LS_TRY_OUT(force_to_disk(writer));
out:
    if (status == LS_OK)
        *out = writer;
    else
        ls_safetensors_abort(writer);
    return status;
}

/* Whether the file begins with the header that this writer would give it. */
static bool has_header(const ls_safetensors_writer *writer, int fd, char *header) {
    size_t bytes = writer->layout.begin[0], used = 0;
    while (used < bytes) {
        ssize_t got = pread(fd, header + used, bytes - used, (off_t)used);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        used += (size_t)got;
    }
    return memcmp(header, writer->layout.header, bytes) == 0;
}

/* A writer that joins must mean the very same file. */
static ls_status check_joined(const ls_safetensors_writer *writer) {
    struct stat about;
    int fd = open(writer->temporary, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ls_fail_errno(LS_ERR_FAILED, "cannot open %s to write a part of it", writer->temporary);
    ls_status status = LS_OK;
    char *header = malloc(writer->layout.begin[0]);
    if (!header)
        status = ls_fail(LS_ERR_RESOURCE, "out of memory to read the header of %s", writer->temporary);
    else if (fstat(fd, &about) != 0)
        status = ls_fail_errno(LS_ERR_FAILED, "cannot stat %s", writer->temporary);
    else if ((size_t)about.st_size != file_bytes(writer) || !has_header(writer, fd, header))
        status = ls_fail(LS_ERR_INPUT,
                         "%s has the header of other tensors: the workers do not declare the same ones, or it was "
                         "damaged as it was written",
                         writer->temporary);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    (void)close(fd);
    free(header);
    return status;
}

ls_status ls_safetensors_join(const char *temporary, const ls_safetensors_plan *plan, ls_safetensors_writer **out) {
    ls_safetensors_writer *writer = NULL;
    ls_status status;
    *out = NULL;
    LS_TRY_OUT(new_writer(plan, &writer));
    writer->temporary = strdup(temporary);
    if (!writer->temporary) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory to open %s", temporary);
        goto out;
    }
    writer->is_shared = true;
    LS_TRY_OUT(check_joined(writer));
    writer->fd = open(temporary, O_WRONLY | O_CLOEXEC);
    if (writer->fd < 0) status = ls_fail_errno(LS_ERR_FAILED, "cannot open %s to write a part of it", temporary);
out:
    if (status == LS_OK)
        *out = writer;
    else
        ls_safetensors_abort(writer);
    return status;
}

const char *ls_safetensors_temporary(const ls_safetensors_writer *writer) { return writer->temporary; }

size_t ls_safetensors_writer_bytes(const ls_safetensors_writer *writer) { return file_bytes(writer); }

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void hash_tensor_bytes(ls_safetensors_writer *writer, int tensor, const void *data, size_t bytes,
                              size_t offset) {
    if (offset == 0) {
        ls_hash_stream_restart(writer->tensor_stream);
        writer->stream_tensor = tensor;
        writer->stream_next = 0;
    }
    writer->hashes[tensor].is_known = false;
    if (writer->stream_tensor != tensor || writer->stream_next != offset) return;
    ls_hash_stream_add(writer->tensor_stream, data, bytes);
    writer->stream_next += bytes;
    if (writer->stream_next != ls_safetensors_layout_bytes(&writer->layout, tensor)) return;
    writer->hashes[tensor].is_known = true;
    writer->hashes[tensor].hash = ls_hash_stream_value(writer->tensor_stream);
}

ls_status ls_safetensors_write_at(ls_safetensors_writer *writer, int tensor, size_t elem_offset, const void *data,
                                  size_t bytes) {
    const ls_safetensors_layout *layout = &writer->layout;
    if (tensor < 0 || tensor >= layout->count)
        return ls_fail(LS_ERR_INPUT, "%s has %d tensors; number %d was to be written", writer->temporary, layout->count,
                       tensor);
    size_t elem_bytes = layout->elem_bytes[tensor], room = ls_safetensors_layout_bytes(layout, tensor), offset;
    if (bytes % elem_bytes != 0 || __builtin_mul_overflow(elem_offset, elem_bytes, &offset) || offset > room ||
        bytes > room - offset)
        return ls_fail(LS_ERR_INPUT,
                       "tensor '%.100s' has %zu bytes in elements of %zu; %zu from element %zu on do not fit",
                       layout->names[tensor], room, elem_bytes, bytes, elem_offset);
    if (bytes == 0) return LS_OK;
    ls_byte_sum_add(&writer->sum, layout->begin[tensor] + offset, data, bytes);
    hash_tensor_bytes(writer, tensor, data, bytes, offset);
    hash_file_bytes(writer, data, bytes, layout->begin[tensor] + offset);
    LS_TRY(write_fully(writer, data, bytes, layout->begin[tensor] + offset));
    writer->written[tensor] += bytes;
    return LS_OK;
}

ls_status ls_safetensors_tensor_hash(const ls_safetensors_writer *writer, int tensor, ls_hash128 *out) {
    assert(tensor >= 0 && tensor < writer->layout.count);
    if (ls_safetensors_layout_bytes(&writer->layout, tensor) == 0)
        *out = ls_hash_bytes("", 0);
    else if (writer->hashes[tensor].is_known)
        *out = writer->hashes[tensor].hash;
    else
        return ls_fail(LS_ERR_FAILED, "tensor '%.100s' has no hash: it was not written from first to last byte",
                       writer->layout.names[tensor]);
    return LS_OK;
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */

static ls_status check_written(const ls_safetensors_writer *writer) {
    for (int i = 0; i < writer->layout.count; i++) {
        size_t bytes = ls_safetensors_layout_bytes(&writer->layout, i);
        if (writer->written[i] != bytes)
            return ls_fail(LS_ERR_FAILED, "%s: %zu bytes of tensor '%.100s' were written; it has %zu", writer->path,
                           writer->written[i], writer->layout.names[i], bytes);
    }
    return LS_OK;
}

static ls_status close_file(ls_safetensors_writer *writer) {
    LS_TRY(force_to_disk(writer));
    int rc = close(writer->fd);
    writer->fd = -1;
    return rc == 0 ? LS_OK : ls_fail_errno(LS_ERR_FAILED, "cannot close %s", writer->temporary);
}

const ls_byte_sum *ls_safetensors_byte_sum(const ls_safetensors_writer *writer) { return &writer->sum; }

/* Of the temporary file, so that a failure still leaves `path` alone. */
static ls_status take_file_hash(const ls_safetensors_writer *writer, ls_hash128 *hash) {
    uint64_t bytes;
    bool is_ordered = writer->file_stream_next == file_bytes(writer) && !writer->is_shared;
    if (!is_ordered) return ls_hash_file(writer->temporary, NULL, NULL, hash, &bytes);
    *hash = ls_hash_stream_value(writer->file_stream);
    return LS_OK;
}

ls_status ls_safetensors_finish(ls_safetensors_writer *writer, ls_hash128 *file_hash) {
    ls_status status;
    bool is_owner = writer->path;
    assert(is_owner || !file_hash);
    if (!writer->is_shared) LS_TRY_OUT(check_written(writer));
    LS_TRY_OUT(close_file(writer));
    if (!is_owner) goto out;
    if (file_hash) LS_TRY_OUT(take_file_hash(writer, file_hash));
    if (rename(writer->temporary, writer->path) != 0) {
        status = ls_fail_errno(LS_ERR_FAILED, "cannot put the new %s in place", writer->path);
        goto out;
    }
    writer->has_temporary = false;
    status = ls_folder_sync_parent(writer->path);
out:
    ls_safetensors_abort(writer);
    return status;
}

void ls_safetensors_abort(ls_safetensors_writer *writer) {
    if (!writer) return;
    if (writer->has_temporary) (void)unlink(writer->temporary);
    if (writer->fd >= 0) (void)close(writer->fd);
    ls_hash_stream_destroy(writer->tensor_stream);
    ls_hash_stream_destroy(writer->file_stream);
    free(writer->hashes);
    free(writer->written);
    free(writer->temporary);
    free(writer->path);
    ls_safetensors_layout_fini(&writer->layout);
    free(writer);
}

ls_status ls_safetensors_save(const char *path, const ls_safetensors_plan *plan, ls_safetensors_read_fn read, void *ctx,
                              ls_hash128 *file_hash) {
    ls_safetensors_writer *writer;
    LS_TRY(ls_safetensors_create(path, plan, &writer));
    ls_status status = LS_OK;
    char *piece = malloc(LS_SAFETENSORS_PIECE_BYTES);
    if (!piece) status = ls_fail(LS_ERR_RESOURCE, "out of memory to write %s", path);
    for (int i = 0; i < plan->count && status == LS_OK; i++) {
        size_t total = ls_safetensors_layout_bytes(&writer->layout, i), elem_bytes = writer->layout.elem_bytes[i];
        for (size_t done = 0; done < total && status == LS_OK;) {
            size_t bytes = total - done < LS_SAFETENSORS_PIECE_BYTES ? total - done : LS_SAFETENSORS_PIECE_BYTES;
            status = read(ctx, i, done, piece, bytes);
            if (status == LS_OK) status = ls_safetensors_write_at(writer, i, done / elem_bytes, piece, bytes);
            done += bytes;
        }
    }
    free(piece);
    if (status == LS_OK) return ls_safetensors_finish(writer, file_hash);
    ls_safetensors_abort(writer);
    return status;
}
