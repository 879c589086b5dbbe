/* safetensors.c: opens a safetensors file, finds its tensors and reads them. The header is not trusted:
 *
 * 1. Every number is checked before it is used: the length of the header against the file, products for overflow,
 *    offsets against the data.
 * 2. Sorted by offset, each tensor begins where the one before ended, the first at 0, and the last ends with the file.
 *    So nothing overlaps and no byte is hidden.
 * 3. Nothing is mapped: a file that another process truncates gives a read error, never SIGBUS. */
#include "checkpoint/safetensors.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/memory.h"
#include "checkpoint/safetensors_file.h"

enum { LENGTH_BYTES = 8, JSON_MEMORY_FACTOR = 24, SHAPE_TEXT_BYTES = 96 };

/* Types of the format. */
typedef struct type {
    const char *name;
    unsigned bits; /* of one element */
    int dtype;     /* an ls_dtype; −1: not supported */
} type;

static const type types[] = {
    {"F32", 32, LS_F32}, {"BF16", 16, LS_BF16}, {"F16", 16, LS_F16}, {"I64", 64, LS_I64},    {"U8", 8, LS_U8},
    {"BOOL", 8, -1},     {"I8", 8, -1},         {"I16", 16, -1},     {"U16", 16, -1},        {"I32", 32, -1},
    {"U32", 32, -1},     {"U64", 64, -1},       {"F64", 64, -1},     {"C64", 64, -1},        {"F8_E4M3", 8, -1},
    {"F8_E5M2", 8, -1},  {"F8_E8M0", 8, -1},    {"F4", 4, -1},       {"F8_E4M3FNUZ", 8, -1}, {"F8_E5M2FNUZ", 8, -1},
    {"F6_E2M3", 6, -1},  {"F6_E3M2", 6, -1},
};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

/* Returns the row of `types` with this name; NULL if the format has no such type. */
static const type *find_type(const char *name) {
    for (int i = 0; i < TYPE_COUNT; i++)
        if (strcmp(types[i].name, name) == 0) return &types[i];
    return NULL;
}

const char *ls_safetensors_type_name(ls_dtype dtype) {
    int i = 0;
    while (types[i].dtype != (int)dtype) i++;
    return types[i].name;
}

/* Writes "[2, 3]", cut if it is long. */
static void print_shape(int dims, const int64_t *shape, char text[SHAPE_TEXT_BYTES]) {
    size_t used = 1;
    snprintf(text, SHAPE_TEXT_BYTES, "[");
    for (int i = 0; i < dims; i++) {
        char number[32];
        int length = snprintf(number, sizeof number, "%s%" PRId64, i ? ", " : "", shape[i]);
        if (used + (size_t)length + sizeof ", …]" > SHAPE_TEXT_BYTES) {
            used += (size_t)snprintf(text + used, SHAPE_TEXT_BYTES - used, ", …");
            break;
        }
        memcpy(text + used, number, (size_t)length + 1);
        used += (size_t)length;
    }
    snprintf(text + used, SHAPE_TEXT_BYTES - used, "]");
}

/* ---- the header as JSON ------------------------------------------------------------------------------------------ */

/* Copies `bytes` bytes from file offset `offset` on, which existed when the file was opened; LS_ERR_FAILED if they no
 * longer do. */
static ls_status read_at(const ls_safetensors *file, size_t offset, void *host, size_t bytes) {
    if (file->fd < 0) {
        if (bytes > 0) memcpy(host, file->memory + offset, bytes);
        return LS_OK;
    }
    size_t got = ls_fd_read(file->fd, host, bytes, (off_t)offset);
    if (got == bytes) return LS_OK;
    if (errno == 0) return ls_fail(LS_ERR_FAILED, "%s became shorter while it was read", file->path);
    return ls_fail_errno(LS_ERR_FAILED, "cannot read %zu bytes of %s", bytes - got, file->path);
}

/* Reads the JSON of the header, which has `bytes` bytes, and parses it into file->header. */
static ls_status read_header_text(ls_safetensors *file, size_t bytes) {
    char *text = malloc(bytes);
    ls_status status = text ? read_at(file, LENGTH_BYTES, text, bytes)
                            : ls_fail(LS_ERR_RESOURCE, "out of memory for the header of %s", file->path);
    if (status == LS_OK && text[0] != '{')
        status = ls_fail(LS_ERR_INPUT, "%s is not a safetensors file: its header does not begin with '{'", file->path);
    else if (status == LS_OK && (status = ls_json_load_text("", text, bytes, &file->header)) != LS_OK)
        status = ls_fail_at(status, "header of %s", file->path);
    free(text);
    return status;
}

/* Reads and checks the length of the header, sets file->data_at, and parses the header. */
static ls_status load_header(ls_safetensors *file) {
    unsigned char length[LENGTH_BYTES];
    uint64_t bytes = 0;
    if (file->file_bytes < LENGTH_BYTES)
        return ls_fail(LS_ERR_INPUT,
                       "%s is not a safetensors file: it has %zu bytes, and the length of the header alone takes 8",
                       file->path, file->file_bytes);
    LS_TRY(read_at(file, 0, length, sizeof length));
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) bytes = bytes << 8 | length[i];
    if (bytes > LS_SAFETENSORS_HEADER_MAX)
        return ls_fail(LS_ERR_INPUT,
                       "%s is not a safetensors file: its header would take %" PRIu64 " bytes; at most %u are allowed",
                       file->path, bytes, LS_SAFETENSORS_HEADER_MAX);
    if (bytes > file->file_bytes - LENGTH_BYTES)
        return ls_fail(LS_ERR_INPUT, "%s is truncated: its header takes %" PRIu64 " bytes, and only %zu are there",
                       file->path, bytes, file->file_bytes - LENGTH_BYTES);
    if (bytes == 0)
        return ls_fail(LS_ERR_INPUT, "%s is not a safetensors file: its header does not begin with '{'", file->path);
    LS_TRY(ls_memory_check((size_t)bytes * JSON_MEMORY_FACTOR));
    file->data_at = LENGTH_BYTES + (size_t)bytes;
    return read_header_text(file, (size_t)bytes);
}

/* Returns the number of dimensions of all tensors together, for one allocation of all shapes. */
static size_t count_dims(json_t *header) {
    size_t dims = 0;
    const char *key;
    json_t *value;
    json_object_foreach(header, key, value) dims += json_array_size(json_object_get(value, "shape"));
    return dims;
}

/* Fails with LS_ERR_INPUT unless __metadata__, if there is one, is an object of strings. */
static ls_status check_metadata(const ls_safetensors *file) {
    json_t *metadata = json_object_get(file->header, "__metadata__"), *value;
    const char *key;
    if (!metadata) return LS_OK;
    if (!json_is_object(metadata))
        return ls_fail(LS_ERR_INPUT, "%s: __metadata__ must be an object of strings", file->path);
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return ls_fail(LS_ERR_INPUT, "%s: the metadata '%.100s' is not a string", file->path, key);
    }
    return LS_OK;
}

/* ---- one tensor -------------------------------------------------------------------------------------------------- */

/* Reads number `index` of the JSON array of `field`; LS_ERR_INPUT if it is negative or not an integer. */
static ls_status read_whole_number(const json_t *array, size_t index, const char *field, int64_t *out) {
    const json_t *value = json_array_get(array, index);
    if (!json_is_integer(value)) return ls_fail(LS_ERR_INPUT, "%s holds a value that is not a whole number", field);
    *out = json_integer_value(value);
    if (*out < 0) return ls_fail(LS_ERR_INPUT, "%s holds %" PRId64 "; it must not be negative", field, *out);
    return LS_OK;
}

/* Reads the shape into `shape`, which has room for it, and computes dims and elems; LS_ERR_INPUT if the product
 * overflows 63 bits. */
static ls_status read_shape(const json_t *entry, int64_t *shape, ls_safetensor *out) {
    json_t *array;
    LS_TRY(ls_json_get_array(entry, "shape", &array));
    out->dims = (int)json_array_size(array);
    out->shape = shape;
    out->elems = 1;
    for (int i = 0; i < out->dims; i++) {
        LS_TRY(read_whole_number(array, (size_t)i, "shape", &shape[i]));
        if (__builtin_mul_overflow(out->elems, (uint64_t)shape[i], &out->elems) || out->elems > INT64_MAX)
            return ls_fail(LS_ERR_INPUT, "the shape has more than 2^63 elements");
    }
    return LS_OK;
}

/* Computes the bytes that type and shape need; LS_ERR_INPUT if they overflow, or are no whole number (types of 4 and 6
 * bits). */
static ls_status needed_bytes(const ls_safetensor *tensor, unsigned type_bits, uint64_t *bytes) {
    uint64_t bits;
    if (__builtin_mul_overflow(tensor->elems, (uint64_t)type_bits, &bits))
        return ls_fail(LS_ERR_INPUT, "the shape has more than 2^63 bits of %s", tensor->type);
    if (bits % 8 != 0)
        return ls_fail(LS_ERR_INPUT, "%" PRIu64 " elements of %s are not a whole number of bytes", tensor->elems,
                       tensor->type);
    *bytes = bits / 8;
    return LS_OK;
}

/* Reads the tensor's data_offsets, and checks that they lie inside the file's `data_bytes` and span exactly `bytes`. */
static ls_status read_offsets(const json_t *entry, size_t data_bytes, uint64_t bytes, ls_safetensor *out) {
    json_t *array;
    int64_t begin = 0, end = 0;
    LS_TRY(ls_json_get_array(entry, "data_offsets", &array));
    if (json_array_size(array) != 2)
        return ls_fail(LS_ERR_INPUT, "data_offsets holds %zu numbers; it must hold 2", json_array_size(array));
    LS_TRY(read_whole_number(array, 0, "data_offsets", &begin));
    LS_TRY(read_whole_number(array, 1, "data_offsets", &end));
    if (begin > end)
        return ls_fail(LS_ERR_INPUT, "data_offsets end (%" PRId64 ") before they begin (%" PRId64 ")", end, begin);
    if ((uint64_t)end > data_bytes)
        return ls_fail(LS_ERR_INPUT,
                       "its bytes end at %" PRId64 ", and the file has %zu bytes of data: it is truncated", end,
                       data_bytes);
    if ((uint64_t)(end - begin) != bytes) {
        char shape[SHAPE_TEXT_BYTES];
        print_shape(out->dims, out->shape, shape);
        return ls_fail(LS_ERR_INPUT, "%s %s takes %" PRIu64 " bytes, but data_offsets span %" PRId64, out->type, shape,
                       bytes, end - begin);
    }
    out->begin = (size_t)begin;
    out->bytes = (size_t)(end - begin);
    return LS_OK;
}

/* Reads and checks one tensor's entry of the header; its shape is stored at `shape`. Refuses unknown types and
 * members. */
static ls_status read_entry(const json_t *entry, size_t data_bytes, int64_t *shape, ls_safetensor *out) {
    uint64_t bytes = 0;
    if (!json_is_object(entry)) return ls_fail(LS_ERR_INPUT, "its entry is not a JSON object");
    LS_TRY(ls_json_get_text(entry, "dtype", &out->type));
    const type *found = find_type(out->type);
    if (!found) return ls_fail(LS_ERR_INPUT, "the format has no type '%.40s'", out->type);
    out->is_readable = found->dtype >= 0;
    if (out->is_readable) out->dtype = (ls_dtype)found->dtype;
    LS_TRY(read_shape(entry, shape, out));
    LS_TRY(needed_bytes(out, found->bits, &bytes));
    LS_TRY(read_offsets(entry, data_bytes, bytes, out));
    if (json_object_size(entry) == 3) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "its entry has fields besides dtype, shape and data_offsets");
}

/* ---- all tensors ------------------------------------------------------------------------------------------------- */

/* Fills file->tensors and file->list from the header, in its order; allocates the lists. */
static ls_status read_tensors(ls_safetensors *file) {
    size_t entries = json_object_size(file->header), next_dim = 0;
    file->tensors = calloc(entries + 1, sizeof *file->tensors);
    file->shapes = calloc(count_dims(file->header) + 1, sizeof *file->shapes);
    if (!file->tensors || !file->shapes)
        return ls_fail(LS_ERR_RESOURCE, "cannot read %s: out of memory for the list of its %zu tensors", file->path,
                       entries);
    LS_TRY(ls_safetensors_make_lists(file, entries));
    const char *name;
    json_t *entry;
    json_object_foreach(file->header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) continue;
        ls_safetensor *tensor = &file->tensors[file->count];
        *tensor = (ls_safetensor){.name = name, .file = file};
        ls_status status = read_entry(entry, file->file_bytes - file->data_at, file->shapes + next_dim, tensor);
        if (status != LS_OK) return ls_fail_at(status, "%s: tensor '%.100s': ", file->path, name);
        next_dim += (size_t)tensor->dims;
        file->list[file->count++] = tensor;
    }
    return LS_OK;
}

/* Orders by place, for qsort(): of two tensors at one place the empty one comes first. */
static int compare_places(const void *a, const void *b) {
    const ls_safetensor *x = *(const ls_safetensor *const *)a, *y = *(const ls_safetensor *const *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->bytes == y->bytes ? 0 : x->bytes < y->bytes ? -1 : 1;
}

/* Checks that tensors neither overlap nor leave gaps (invariant 2 above). Uses by_name as scratch for the list sorted
 * by offset. */
static ls_status check_places(const ls_safetensors *file) {
    const ls_safetensor **sorted = file->by_name;
    size_t end = 0, data_bytes = file->file_bytes - file->data_at;
    memcpy(sorted, file->list, (size_t)file->count * sizeof *sorted);
    qsort(sorted, (size_t)file->count, sizeof *sorted, compare_places);
    for (int i = 0; i < file->count; i++) {
        if (sorted[i]->begin < end)
            return ls_fail(LS_ERR_INPUT, "%s: tensors '%.100s' and '%.100s' overlap", file->path, sorted[i - 1]->name,
                           sorted[i]->name);
        if (sorted[i]->begin > end)
            return ls_fail(LS_ERR_INPUT, "%s: bytes %zu to %zu before tensor '%.100s' belong to no tensor", file->path,
                           end, sorted[i]->begin, sorted[i]->name);
        end += sorted[i]->bytes;
    }
    if (end == data_bytes) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s: the last %zu bytes belong to no tensor", file->path, data_bytes - end);
}

/* Reads and validates everything but the data of the tensors; data_at, tensors and lists are valid afterwards. */
static ls_status parse_header(ls_safetensors *file) {
    LS_TRY(load_header(file));
    LS_TRY(check_metadata(file));
    LS_TRY(read_tensors(file));
    LS_TRY(check_places(file));
    ls_safetensors_sort(file);
    return LS_OK;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

ls_status ls_safetensors_new(const char *path, ls_safetensors **out) {
    ls_safetensors *file = *out = calloc(1, sizeof *file);
    if (file) *file = (ls_safetensors){.path = strdup(path), .fd = -1};
    if (file && file->path) return LS_OK;
    free(file);
    *out = NULL;
    return ls_fail(LS_ERR_RESOURCE, "out of memory to open %s", path);
}

ls_status ls_safetensors_make_lists(ls_safetensors *file, size_t count) {
    file->list = calloc(count + 1, sizeof(const ls_safetensor *));
    file->by_name = calloc(count + 1, sizeof(const ls_safetensor *));
    if (file->list && file->by_name) return LS_OK;
    return ls_fail(LS_ERR_RESOURCE, "out of memory to list the %zu tensors of %s", count, file->path);
}

/* Returns `status`; if opening has failed, also closes *out and sets it to NULL. */
static ls_status finish_open(ls_status status, ls_safetensors **out) {
    if (status == LS_OK) return LS_OK;
    ls_safetensors_close(*out);
    *out = NULL;
    return status;
}

/* Opens file->path for reading and validates it; finish_open() cleans up after a failure. */
static ls_status open_file(ls_safetensors *file) {
    uint64_t bytes;
    LS_TRY(ls_file_open_regular(file->path, &file->fd, &bytes));
    if (bytes == 0) return ls_fail(LS_ERR_INPUT, "%s is empty", file->path);
    file->file_bytes = (size_t)bytes;
    return parse_header(file);
}

ls_status ls_safetensors_open(const char *path, ls_safetensors **out) {
    LS_TRY(ls_safetensors_new(path, out));
    return finish_open(open_file(*out), out);
}

ls_status ls_safetensors_parse(const char *source, const void *data, size_t bytes, ls_safetensors **out) {
    LS_TRY(ls_safetensors_new(source, out));
    (*out)->memory = data;
    (*out)->file_bytes = bytes;
    return finish_open(parse_header(*out), out);
}

void ls_safetensors_close(ls_safetensors *file) {
    if (!file) return;
    for (int i = 0; i < file->shard_count; i++) ls_safetensors_close(file->shards[i]);
    free(file->shards);
    free(file->shard_names);
    json_decref(file->header);
    free(file->list);
    free(file->by_name);
    free(file->shapes);
    free(file->tensors);
    if (file->fd >= 0) (void)close(file->fd);
    free(file->path);
    free(file);
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

const char *ls_safetensors_path(const ls_safetensors *file) { return file->path; }

size_t ls_safetensors_data_bytes(const ls_safetensors *file) { return file->file_bytes - file->data_at; }

int ls_safetensors_count(const ls_safetensors *file) { return file->count; }

const ls_safetensor *ls_safetensors_get(const ls_safetensors *file, int index) {
    assert(index >= 0 && index < file->count);
    return file->list[index];
}

/* Orders pointers to tensors by name, for qsort() and bsearch(). */
static int compare_names(const void *a, const void *b) {
    return strcmp((*(const ls_safetensor *const *)a)->name, (*(const ls_safetensor *const *)b)->name);
}

void ls_safetensors_sort(ls_safetensors *file) {
    memcpy(file->by_name, file->list, (size_t)file->count * sizeof *file->list);
    qsort(file->by_name, (size_t)file->count, sizeof *file->by_name, compare_names);
}

const ls_safetensor *ls_safetensors_find(const ls_safetensors *file, const char *name) {
    const ls_safetensor wanted = {.name = name}, *key = &wanted;
    const ls_safetensor **found =
        bsearch(&key, file->by_name, (size_t)file->count, sizeof *file->by_name, compare_names);
    return found ? *found : NULL;
}

ls_status ls_safetensor_check_shape(const ls_safetensor *tensor, int dims, const int64_t *shape) {
    bool is_same = tensor->dims == dims;
    for (int i = 0; i < dims && is_same; i++) is_same = tensor->shape[i] == shape[i];
    if (is_same) return LS_OK;
    char have[SHAPE_TEXT_BYTES], want[SHAPE_TEXT_BYTES];
    print_shape(tensor->dims, tensor->shape, have);
    print_shape(dims, shape, want);
    return ls_fail(LS_ERR_INPUT, "%s: tensor '%.100s' is %s; it must be %s", tensor->file->path, tensor->name, have,
                   want);
}

ls_status ls_safetensors_need(const ls_safetensors *file, const char *name, int dims, const int64_t *shape,
                              const ls_safetensor **out) {
    const ls_safetensor *found = ls_safetensors_find(file, name);
    *out = NULL;
    if (!found) return ls_fail(LS_ERR_INPUT, "%s has no tensor '%.100s'", file->path, name);
    LS_TRY(ls_safetensor_check_shape(found, dims, shape));
    *out = found;
    return LS_OK;
}

const char *ls_safetensors_metadata_find(const ls_safetensors *file, const char *key) {
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

ls_status ls_safetensor_read(const ls_safetensor *tensor, size_t byte_offset, void *host, size_t bytes) {
    const ls_safetensors *file = tensor->file;
    if (!tensor->is_readable)
        return ls_fail(LS_ERR_INPUT,
                       "%s: tensor '%.100s' is %s, which lockstep cannot read; convert it to F32, BF16 or F16",
                       file->path, tensor->name, tensor->type);
    if (byte_offset > tensor->bytes || bytes > tensor->bytes - byte_offset)
        return ls_fail(LS_ERR_INPUT, "%s: tensor '%.100s' has %zu bytes; cannot read %zu from byte %zu on", file->path,
                       tensor->name, tensor->bytes, bytes, byte_offset);
    return read_at(file, file->data_at + tensor->begin + byte_offset, host, bytes);
}
