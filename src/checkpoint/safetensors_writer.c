/* safetensors_writer.c: lays out and writes a safetensors file.
 *
 * 1. `path` changes only by the rename at the end, of a file that is complete and on disk. (A shared file has its name
 *    from the start; its folder is renamed at the end.)
 * 2. The space of the whole file is reserved before the first byte of data, if the file system supports it.
 * 3. Sum and hash are computed from the bytes in memory as they are written, so corruption on the way to the disk is
 *    detected later. The sum (byte_sum.h) accepts any order, the hash only ascending order.
 * 4. If several processes write, no process has a page in its cache that it did not write itself, because NFS would
 *    write the whole page back over the bytes of another machine. So files are opened write-only. */
#include "checkpoint/safetensors_writer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/hash.h"
#include "checkpoint/byte_sum.h"
#include "checkpoint/safetensors_file.h"

enum { LENGTH_BYTES = 8, DATA_ALIGN = 64 };

/* ---- where everything lies --------------------------------------------------------------------------------------- */

/*     |length| JSON header, spaces |tensor 0|tensor 1| … |
 *     0      8                     begin[0] begin[1]     begin[count] = the whole file; begin[0] is a multiple of 64
 *
 * Tensors lie in the declared order, without gaps, as the format requires. begin[] counts from the start of the data
 * until the header's length is known, then from the start of the file. */
typedef struct layout {
    char *header; /* begin[0] bytes, including the length */
    size_t *begin;
    unsigned char *elem_bytes; /* bytes of one element, by tensor */
    char **names;
    int count;
} layout;

/* Returns the bytes of a tensor. */
static size_t bytes_of(const layout *l, int tensor) { return l->begin[tensor + 1] - l->begin[tensor]; }

/* Fails with LS_ERR_RESOURCE: out of memory. */
static ls_status fail_layout_memory(void) {
    return ls_fail(LS_ERR_RESOURCE, "out of memory to lay out a safetensors file");
}

/* Computes the bytes of a declared tensor; LS_ERR_INPUT for an unknown type, a negative dimension, or more than 2^63
 * bytes. */
static ls_status tensor_bytes(const ls_safetensors_decl *decl, size_t *bytes) {
    if ((unsigned)decl->dtype >= LS_DTYPE_COUNT)
        return ls_fail(LS_ERR_INPUT, "tensor '%.100s': %d is not an element type", decl->name, (int)decl->dtype);
    *bytes = ls_dtype_bytes(decl->dtype);
    for (int i = 0; i < decl->dims; i++) {
        if (decl->shape[i] < 0)
            return ls_fail(LS_ERR_INPUT, "tensor '%.100s': dimension %d is %" PRId64, decl->name, i, decl->shape[i]);
        if (__builtin_mul_overflow(*bytes, (size_t)decl->shape[i], bytes) || *bytes > INT64_MAX)
            return ls_fail(LS_ERR_INPUT, "tensor '%.100s' is too large: it has more than 2^63 bytes", decl->name);
    }
    return LS_OK;
}

/* Places tensor i behind the one before it: sets begin[i + 1], elem_bytes and a copy of the name. begin[i] is set. */
static ls_status place_tensor(layout *l, const ls_safetensors_decl *decl, int i) {
    size_t bytes = 0;
    LS_TRY(tensor_bytes(decl, &bytes));
    if (__builtin_add_overflow(l->begin[i], bytes, &l->begin[i + 1]) || l->begin[i + 1] > INT64_MAX)
        return ls_fail(LS_ERR_INPUT, "the tensors up to '%.100s' have more than 2^63 bytes", decl->name);
    l->elem_bytes[i] = (unsigned char)ls_dtype_bytes(decl->dtype);
    l->names[i] = strdup(decl->name);
    return l->names[i] ? LS_OK : fail_layout_memory();
}

/* Allocates the lists and places all tensors, counted from the start of the data. */
static ls_status place_tensors(layout *l, const ls_safetensors_plan *plan) {
    size_t capacity = (size_t)plan->count + 1;
    l->begin = calloc(capacity, sizeof *l->begin);
    l->elem_bytes = calloc(capacity, sizeof *l->elem_bytes);
    l->names = calloc(capacity, sizeof *l->names);
    if (!l->begin || !l->elem_bytes || !l->names) return fail_layout_memory();
    l->count = plan->count;
    for (int i = 0; i < plan->count; i++) LS_TRY(place_tensor(l, &plan->tensors[i], i));
    return LS_OK;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Fails with LS_ERR_INPUT unless a text is UTF-8, because jansson refuses others. After that only lack of memory can
 * fail. */
static ls_status check_text(const char *what, int index, const char *text) {
    json_t *value = json_string(text);
    if (!value) return ls_fail(LS_ERR_INPUT, "the %s of number %d is not UTF-8: '%.100s'", what, index, text);
    json_decref(value);
    return LS_OK;
}

/* Adds __metadata__ to the header, if the plan has any; LS_ERR_INPUT for a key that is declared twice. */
static ls_status add_metadata(json_t *root, const ls_safetensors_plan *plan) {
    if (plan->metadata_count == 0) return LS_OK;
    json_t *metadata = json_object();
    if (json_object_set_new(root, "__metadata__", metadata) != 0) return fail_layout_memory();
    for (int i = 0; i < plan->metadata_count; i++) {
        const ls_safetensors_text *text = &plan->metadata[i];
        LS_TRY(check_text("metadata key", i, text->key));
        LS_TRY(check_text("metadata value", i, text->value));
        if (json_object_get(metadata, text->key))
            return ls_fail(LS_ERR_INPUT, "the metadata '%.100s' is declared twice", text->key);
        if (json_object_set_new(metadata, text->key, json_string(text->value)) != 0) return fail_layout_memory();
    }
    return LS_OK;
}

/* Adds the entry of one tensor, whose data have offsets begin … end − 1, to the header; LS_ERR_INPUT for a bad or
 * repeated name. */
static ls_status add_tensor(json_t *root, const ls_safetensors_decl *decl, int index, size_t begin, size_t end) {
    LS_TRY(check_text("tensor name", index, decl->name));
    if (strcmp(decl->name, "__metadata__") == 0)
        return ls_fail(LS_ERR_INPUT, "a tensor cannot be called __metadata__: the format uses that name");
    if (json_object_get(root, decl->name))
        return ls_fail(LS_ERR_INPUT, "tensor '%.100s' is declared twice", decl->name);
    json_t *entry = json_object(), *shape = json_array();
    bool is_made = json_object_set_new(root, decl->name, entry) == 0;
    for (int i = 0; i < decl->dims && is_made; i++)
        is_made = json_array_append_new(shape, json_integer(decl->shape[i])) == 0;
    if (!is_made) {
        json_decref(shape);
        return fail_layout_memory();
    }
    is_made = json_object_set_new(entry, "dtype", json_string(ls_safetensors_type_name(decl->dtype))) == 0;
    is_made &= json_object_set_new(entry, "shape", shape) == 0;
    json_t *offsets = json_pack("[I,I]", (json_int_t)begin, (json_int_t)end);
    is_made &= json_object_set_new(entry, "data_offsets", offsets) == 0;
    return is_made ? LS_OK : fail_layout_memory();
}

/* Makes the JSON text of the header, without padding; the caller frees *text. */
static ls_status make_text(const layout *l, const ls_safetensors_plan *plan, char **text) {
    json_t *root = json_object();
    ls_status status = root ? add_metadata(root, plan) : fail_layout_memory();
    for (int i = 0; i < plan->count && status == LS_OK; i++)
        status = add_tensor(root, &plan->tensors[i], i, l->begin[i], l->begin[i + 1]);
    if (status == LS_OK) {
        *text = json_dumps(root, JSON_COMPACT);
        if (!*text) status = fail_layout_memory();
    }
    json_decref(root);
    return status;
}

/* Builds the header of length, text and spaces, and makes begin[] count from the start of the file. */
static ls_status make_header(layout *l, const char *text) {
    size_t used = strlen(text);
    size_t bytes = (LENGTH_BYTES + used + DATA_ALIGN - 1) / DATA_ALIGN * DATA_ALIGN;
    if (bytes - LENGTH_BYTES > LS_SAFETENSORS_HEADER_MAX)
        return ls_fail(LS_ERR_INPUT, "the header of %d tensors takes %zu bytes; the format allows %u", l->count, used,
                       LS_SAFETENSORS_HEADER_MAX);
    if (l->begin[l->count] > (size_t)INT64_MAX - bytes)
        return ls_fail(LS_ERR_INPUT, "header and tensors have more than 2^63 bytes");
    l->header = malloc(bytes);
    if (!l->header) return fail_layout_memory();
    for (int i = 0; i < LENGTH_BYTES; i++) l->header[i] = (char)(((uint64_t)(bytes - LENGTH_BYTES) >> 8 * i) & 255);
    memcpy(l->header + LENGTH_BYTES, text, used);
    memset(l->header + LENGTH_BYTES + used, ' ', bytes - LENGTH_BYTES - used);
    for (int i = 0; i <= l->count; i++) l->begin[i] += bytes;
    return LS_OK;
}

/* Frees what the layout points to and zeroes it. */
static void free_layout(layout *l) {
    for (int i = 0; i < l->count; i++) free(l->names[i]);
    free(l->names);
    free(l->elem_bytes);
    free(l->begin);
    free(l->header);
    *l = (layout){.count = 0};
}

/* Lays out the plan: places of all tensors, and the header; LS_ERR_INPUT if it is invalid. On failure there is nothing
 * to release. */
static ls_status init_layout(layout *l, const ls_safetensors_plan *plan) {
    char *text = NULL;
    ls_status status;
    *l = (layout){.count = 0};
    LS_TRY_OUT(place_tensors(l, plan));
    LS_TRY_OUT(make_text(l, plan, &text));
    LS_TRY_OUT(make_header(l, text));
out:
    free(text);
    if (status != LS_OK) free_layout(l);
    return status;
}

/* ---- beginning --------------------------------------------------------------------------------------------------- */

struct ls_safetensors_writer {
    layout layout;
    ls_new_file file; /* a shared file has no temporary file */
    bool is_shared;
    ls_byte_sum *sums;           /* of the bytes that this writer has written: header, tensors */
    ls_hash_stream *file_stream; /* XXH3 of the file's first file_stream_next bytes */
    size_t file_stream_next;     /* bytes that were written in ascending order without a gap, and hashed */
};

/* Allocates a writer without a file. On failure *out must still be aborted. */
static ls_status new_writer(const ls_safetensors_plan *plan, ls_safetensors_writer **out) {
    ls_safetensors_writer *writer = calloc(1, sizeof *writer);
    *out = writer;
    if (!writer) goto no_memory;
    writer->file.fd = -1;
    LS_TRY(init_layout(&writer->layout, plan));
    writer->sums = calloc((size_t)plan->count + 1, sizeof *writer->sums);
    writer->file_stream = ls_hash_stream_create();
    if (writer->sums && writer->file_stream) return LS_OK;
no_memory:
    return ls_fail(LS_ERR_RESOURCE, "out of memory to write a safetensors file of %d tensors", plan->count);
}

/* Returns the bytes of the whole file, header included. */
static size_t file_bytes(const ls_safetensors_writer *writer) { return writer->layout.begin[writer->layout.count]; }

/* Reserves the space of the file, so that a full disk is an error now. On a file system that cannot, only sets the
 * size: posix_fallocate() would write zeros. */
static ls_status reserve_space(const ls_safetensors_writer *writer) {
    int rc;
    do rc = fallocate(writer->file.fd, 0, 0, (off_t)file_bytes(writer));
    while (rc != 0 && errno == EINTR);
    if (rc != 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)) {
        do rc = ftruncate(writer->file.fd, (off_t)file_bytes(writer));
        while (rc != 0 && errno == EINTR);
    }
    if (rc == 0) return LS_OK;
    return ls_fail_errno(LS_ERR_FAILED, "cannot reserve %zu bytes for %s", file_bytes(writer), writer->file.path.text);
}

/* Writes all `bytes` bytes at file offset `offset`; LS_ERR_FAILED (LS_ERR_RESOURCE on a full disk) says how many are
 * missing. */
static ls_status write_fully(const ls_safetensors_writer *writer, const void *data, size_t bytes, size_t offset) {
    size_t put = ls_fd_write(writer->file.fd, data, bytes, (off_t)offset);
    if (put == bytes) return LS_OK;
    return ls_fail_errno(LS_ERR_FAILED, "cannot write %s: %zu of %zu bytes are missing from byte %zu on",
                         writer->file.path.text, bytes - put, bytes, offset + put);
}

/* Adds bytes to the file's XXH3 if they continue it; otherwise, and in a shared file, does nothing, and finish reads
 * the file back. */
static void hash_file_bytes(ls_safetensors_writer *writer, const void *data, size_t bytes, size_t offset) {
    if (writer->is_shared || offset != writer->file_stream_next) return;
    ls_hash_stream_add(writer->file_stream, data, bytes);
    writer->file_stream_next += bytes;
}

/* Reserves the space of the file and writes the header, which counts in its sum and hash. */
static ls_status begin_file(ls_safetensors_writer *writer) {
    LS_TRY(reserve_space(writer));
    ls_byte_sum_add(&writer->sums[0], 0, writer->layout.header, writer->layout.begin[0]);
    hash_file_bytes(writer, writer->layout.header, writer->layout.begin[0], 0);
    return write_fully(writer, writer->layout.header, writer->layout.begin[0], 0);
}

/* Passes the writer to the caller in *out, or aborts it if creating it has failed. Returns `status`. */
static ls_status finish_create(ls_status status, ls_safetensors_writer *writer, ls_safetensors_writer **out) {
    if (status == LS_OK)
        *out = writer;
    else
        ls_safetensors_abort(writer);
    return status;
}

ls_status ls_safetensors_create(const char *path, const ls_safetensors_plan *plan, ls_safetensors_writer **out) {
    ls_safetensors_writer *writer = NULL;
    ls_status status;
    *out = NULL;
    LS_TRY(ls_file_can_write(path));
    LS_TRY_OUT(new_writer(plan, &writer));
    LS_TRY_OUT(ls_new_file_open(path, &writer->file));
    status = begin_file(writer);
out:
    return finish_create(status, writer, out);
}

ls_status ls_safetensors_share(const char *path, const ls_safetensors_plan *plan, bool is_first,
                               ls_safetensors_writer **out) {
    ls_safetensors_writer *writer = NULL;
    ls_status status;
    *out = NULL;
    LS_TRY_OUT(new_writer(plan, &writer));
    writer->file.path = writer->file.temporary = ls_path_format("%s", path);
    writer->is_shared = true;
    writer->file.fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (writer->file.fd < 0) status = ls_fail_errno(LS_ERR_FAILED, "cannot open %s to write a part of it", path);
    if (status == LS_OK && is_first) status = begin_file(writer);
out:
    return finish_create(status, writer, out);
}

size_t ls_safetensors_writer_bytes(const ls_safetensors_writer *writer) { return file_bytes(writer); }

/* ---- writing ----------------------------------------------------------------------------------------------------- */

ls_status ls_safetensors_write_at(ls_safetensors_writer *writer, int tensor, size_t elem_offset, const void *data,
                                  size_t bytes) {
    const layout *l = &writer->layout;
    if (tensor < 0 || tensor >= l->count)
        return ls_fail(LS_ERR_INPUT, "%s has %d tensors; number %d was to be written", writer->file.temporary.text,
                       l->count, tensor);
    size_t elem_bytes = l->elem_bytes[tensor], capacity = bytes_of(l, tensor), offset;
    if (bytes % elem_bytes != 0 || __builtin_mul_overflow(elem_offset, elem_bytes, &offset) || offset > capacity ||
        bytes > capacity - offset)
        return ls_fail(LS_ERR_INPUT,
                       "tensor '%.100s' has %zu bytes in elements of %zu; %zu from element %zu on do not fit",
                       l->names[tensor], capacity, elem_bytes, bytes, elem_offset);
    if (bytes == 0) return LS_OK;
    ls_byte_sum_add(&writer->sums[tensor + 1], l->begin[tensor] + offset, data, bytes);
    hash_file_bytes(writer, data, bytes, l->begin[tensor] + offset);
    return write_fully(writer, data, bytes, l->begin[tensor] + offset);
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */

/* Fails with LS_ERR_FAILED unless as many bytes of each tensor were written as it has. */
static ls_status check_written(const ls_safetensors_writer *writer) {
    for (int i = 0; i < writer->layout.count; i++) {
        size_t bytes = bytes_of(&writer->layout, i);
        uint64_t written = writer->sums[i + 1].bytes;
        if (written != bytes)
            return ls_fail(LS_ERR_FAILED, "%s: %" PRIu64 " bytes of tensor '%.100s' were written; it has %zu",
                           writer->file.path.text, written, writer->layout.names[i], bytes);
    }
    return LS_OK;
}

const ls_byte_sum *ls_safetensors_byte_sums(const ls_safetensors_writer *writer) { return writer->sums; }

/* Gets the XXH3 of the file: as computed while writing, else by reading the temporary file, before it has its final
 * name. */
static ls_status take_file_hash(const ls_safetensors_writer *writer, ls_hash128 *hash) {
    uint64_t bytes;
    bool is_ordered = writer->file_stream_next == file_bytes(writer);
    if (!is_ordered) return ls_hash_file(writer->file.temporary.text, hash, &bytes);
    *hash = ls_hash_stream_value(writer->file_stream);
    return LS_OK;
}

ls_status ls_safetensors_finish(ls_safetensors_writer *writer, ls_hash128 *file_hash) {
    ls_status status;
    assert(!writer->is_shared || !file_hash);
    if (!writer->is_shared) LS_TRY_OUT(check_written(writer));
    LS_TRY_OUT(ls_new_file_settle(&writer->file));
    if (file_hash) LS_TRY_OUT(take_file_hash(writer, file_hash));
    if (!writer->is_shared) status = ls_new_file_commit(&writer->file);
out:
    ls_safetensors_abort(writer);
    return status;
}

void ls_safetensors_abort(ls_safetensors_writer *writer) {
    if (!writer) return;
    ls_new_file_close(&writer->file);
    ls_hash_stream_destroy(writer->file_stream);
    free(writer->sums);
    free_layout(&writer->layout);
    free(writer);
}
