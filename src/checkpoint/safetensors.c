/* safetensors.c: opening a safetensors file, finding its tensors and reading them. */
#include "checkpoint/safetensors.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/safetensors_file.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static ls_status new_file(const char *path, ls_safetensors **out) {
    ls_safetensors *file = calloc(1, sizeof *file);
    *out = file;
    if (file) file->path = strdup(path);
    if (file && file->path) {
        file->fd = -1;
        return LS_OK;
    }
    free(file);
    *out = NULL;
    return ls_fail(LS_ERR_RESOURCE, "out of memory to open %s", path);
}

static ls_status map_file(ls_safetensors *file) {
    struct stat about;
    /* Opening a pipe would wait for its other end. */
    file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->fd < 0) return ls_fail_errno(LS_ERR_INPUT, "cannot open %s", file->path);
    if (fstat(file->fd, &about) != 0) return ls_fail_errno(LS_ERR_INPUT, "cannot stat %s", file->path);
    if (!S_ISREG(about.st_mode)) return ls_fail(LS_ERR_INPUT, "cannot read %s: not a regular file", file->path);
    if (about.st_size == 0) return ls_fail(LS_ERR_INPUT, "%s is empty", file->path);
    void *map = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, file->fd, 0);
    if (map == MAP_FAILED) return ls_fail_errno(LS_ERR_INPUT, "cannot map %s into memory", file->path);
    file->file = map;
    file->file_bytes = (size_t)about.st_size;
    return LS_OK;
}

ls_status ls_safetensors_open(const char *path, ls_safetensors **out) {
    LS_TRY(new_file(path, out));
    ls_status status = map_file(*out);
    if (status == LS_OK) status = ls_safetensors_parse_header(*out);
    if (status == LS_OK) return LS_OK;
    ls_safetensors_close(*out);
    *out = NULL;
    return status;
}

ls_status ls_safetensors_parse(const char *source, const void *data, size_t bytes, ls_safetensors **out) {
    LS_TRY(new_file(source, out));
    (*out)->file = data;
    (*out)->file_bytes = bytes;
    ls_status status = ls_safetensors_parse_header(*out);
    if (status == LS_OK) return LS_OK;
    ls_safetensors_close(*out);
    *out = NULL;
    return status;
}

void ls_safetensors_close(ls_safetensors *file) {
    if (!file) return;
    json_decref(file->header);
    free(file->metadata);
    free(file->by_name);
    free(file->shapes);
    free(file->tensors);
    if (file->fd >= 0) {
        if (file->file) (void)munmap((void *)(uintptr_t)file->file, file->file_bytes);
        (void)close(file->fd);
    }
    free(file->path);
    free(file);
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

const char *ls_safetensors_path(const ls_safetensors *file) { return file->path; }

int ls_safetensors_count(const ls_safetensors *file) { return file->count; }

const ls_safetensor *ls_safetensors_get(const ls_safetensors *file, int index) {
    assert(index >= 0 && index < file->count);
    return &file->tensors[index];
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(const ls_safetensor *const *)a)->name, (*(const ls_safetensor *const *)b)->name);
}

void ls_safetensors_sort(const ls_safetensor **list, int count) {
    qsort(list, (size_t)count, sizeof *list, compare_names);
}

const ls_safetensor *ls_safetensors_search(const ls_safetensor *const *sorted, int count, const char *name) {
    int low = 0, high = count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = strcmp(name, sorted[middle]->name);
        if (order == 0) return sorted[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const ls_safetensor *ls_safetensors_find(const ls_safetensors *file, const char *name) {
    return ls_safetensors_search(file->by_name, file->count, name);
}

void ls_safetensors_shape_text(int dims, const int64_t *shape, char text[LS_SHAPE_TEXT_BYTES]) {
    size_t used = 1;
    snprintf(text, LS_SHAPE_TEXT_BYTES, "[");
    for (int i = 0; i < dims; i++) {
        char number[32];
        int length = snprintf(number, sizeof number, "%s%" PRId64, i ? ", " : "", shape[i]);
        if (used + (size_t)length + sizeof ", …]" > LS_SHAPE_TEXT_BYTES) {
            used += (size_t)snprintf(text + used, LS_SHAPE_TEXT_BYTES - used, ", …");
            break;
        }
        memcpy(text + used, number, (size_t)length + 1);
        used += (size_t)length;
    }
    snprintf(text + used, LS_SHAPE_TEXT_BYTES - used, "]");
}

ls_status ls_safetensor_check_shape(const ls_safetensor *tensor, int dims, const int64_t *shape) {
    bool is_same = tensor->dims == dims;
    for (int i = 0; i < dims && is_same; i++) is_same = tensor->shape[i] == shape[i];
    if (is_same) return LS_OK;
    char have[LS_SHAPE_TEXT_BYTES], want[LS_SHAPE_TEXT_BYTES];
    ls_safetensors_shape_text(tensor->dims, tensor->shape, have);
    ls_safetensors_shape_text(dims, shape, want);
    return ls_fail(LS_ERR_INPUT, "%s: tensor '%.100s' is %s; it must be %s", tensor->file->path, tensor->name, have,
                   want);
}

ls_status ls_safetensors_accept(const char *place, const char *name, const ls_safetensor *found, int dims,
                                const int64_t *shape, const ls_safetensor **out) {
    *out = NULL;
    if (!found) return ls_fail(LS_ERR_INPUT, "%s has no tensor '%.100s'", place, name);
    LS_TRY(ls_safetensor_check_shape(found, dims, shape));
    *out = found;
    return LS_OK;
}

ls_status ls_safetensors_need(const ls_safetensors *file, const char *name, int dims, const int64_t *shape,
                              const ls_safetensor **out) {
    return ls_safetensors_accept(file->path, name, ls_safetensors_find(file, name), dims, shape, out);
}

int ls_safetensors_metadata_count(const ls_safetensors *file) { return file->metadata_count; }

void ls_safetensors_metadata_get(const ls_safetensors *file, int index, const char **key, const char **value) {
    assert(index >= 0 && index < file->metadata_count);
    *key = file->metadata[index].key;
    *value = file->metadata[index].value;
}

const char *ls_safetensors_metadata_find(const ls_safetensors *file, const char *key) {
    for (int i = 0; i < file->metadata_count; i++)
        if (strcmp(file->metadata[i].key, key) == 0) return file->metadata[i].value;
    return NULL;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static ls_status check_readable(const ls_safetensor *tensor) {
    if (tensor->is_readable) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "%s: tensor '%.100s' is %s, which lockstep cannot read; convert it to F32, BF16 or F16",
                   tensor->file->path, tensor->name, tensor->type);
}

ls_status ls_safetensor_view(const ls_safetensor *tensor, const void **data) {
    LS_TRY(check_readable(tensor));
    *data = tensor->file->file + tensor->file->data_at + tensor->begin;
    return LS_OK;
}

static ls_status read_at(const ls_safetensors *file, size_t offset, char *host, size_t bytes) {
    while (bytes > 0) {
        ssize_t got = pread(file->fd, host, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return ls_fail_errno(LS_ERR_FAILED, "cannot read %zu bytes of %s", bytes, file->path);
        if (got == 0) return ls_fail(LS_ERR_FAILED, "%s became shorter while it was read", file->path);
        host += got;
        offset += (size_t)got;
        bytes -= (size_t)got;
    }
    return LS_OK;
}

ls_status ls_safetensor_read(const ls_safetensor *tensor, size_t byte_offset, void *host, size_t bytes) {
    const ls_safetensors *file = tensor->file;
    LS_TRY(check_readable(tensor));
    if (byte_offset > tensor->bytes || bytes > tensor->bytes - byte_offset)
        return ls_fail(LS_ERR_INPUT, "%s: tensor '%.100s' has %zu bytes; cannot read %zu from byte %zu on", file->path,
                       tensor->name, tensor->bytes, bytes, byte_offset);
    size_t offset = file->data_at + tensor->begin + byte_offset;
    if (file->fd >= 0) return read_at(file, offset, host, bytes);
    if (bytes > 0) memcpy(host, file->file + offset, bytes);
    return LS_OK;
}
