/* gzip.c: decompresses gzip files with zlib. Memory grows with the output, never by a size in the header. */
#include <stdlib.h>

#include "base/memory.h"
#include "data/images/sources.h"

bool ls_gzip_is(const uint8_t *data, size_t bytes) { return bytes >= 2 && data[0] == 0x1f && data[1] == 0x8b; }

#ifdef LS_HAVE_ZLIB

#    define ZLIB_CONST
#    include <zlib.h>

enum { GZIP_WINDOW = 15 + 16, FIRST_CAPACITY = 1 << 16, CHUNK_MAX = 1 << 30 };

/* The output so far, and the most bytes that it may have. */
typedef struct expansion {
    uint8_t *data;
    size_t used, capacity, max;
} expansion;

/* Doubles the memory of the output, up to one byte above the limit, which shows that the file is too long; then
 * LS_ERR_INPUT. */
static ls_status grow_output(expansion *out, const char *path) {
    size_t capacity = out->capacity ? 2 * out->capacity : FIRST_CAPACITY;
    /* One byte above the limit, to detect a file that is too long. */
    if (capacity > out->max + 1) capacity = out->max + 1;
    if (capacity == out->capacity)
        return ls_fail(LS_ERR_INPUT, "%.*s holds more than %zu bytes: no file of images", LS_IMAGES_SHOWN, path,
                       out->max);
    LS_TRY(ls_memory_check(capacity - out->capacity));
    uint8_t *data = realloc(out->data, capacity);
    if (!data) return ls_fail(LS_ERR_RESOURCE, "no memory to expand %.*s", LS_IMAGES_SHOWN, path);
    out->data = data;
    out->capacity = capacity;
    return LS_OK;
}

/* Returns the number of bytes for one call of zlib, whose lengths have 32 bits. */
static uInt at_most(size_t bytes) { return (uInt)(bytes < CHUNK_MAX ? bytes : CHUNK_MAX); }

/* Decompresses all members of the file, one after the other, into `out`. */
static ls_status inflate_members(const char *path, const uint8_t *data, size_t bytes, z_stream *z, expansion *out) {
    size_t taken = 0;
    for (int rc = Z_OK; rc != Z_STREAM_END || taken < bytes;) {
        if (rc == Z_STREAM_END && inflateReset(z) != Z_OK)
            return ls_fail(LS_ERR_FAILED, "zlib cannot go on with %.*s", LS_IMAGES_SHOWN, path);
        if (out->used == out->capacity) LS_TRY(grow_output(out, path));
        uInt in = at_most(bytes - taken), capacity = at_most(out->capacity - out->used);
        z->next_in = data + taken;
        z->avail_in = in;
        z->next_out = out->data + out->used;
        z->avail_out = capacity;
        rc = inflate(z, Z_NO_FLUSH);
        taken += in - z->avail_in;
        out->used += capacity - z->avail_out;
        if (rc == Z_MEM_ERROR) return ls_fail(LS_ERR_RESOURCE, "no memory to expand %.*s", LS_IMAGES_SHOWN, path);
        if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
            return ls_fail(LS_ERR_INPUT, "%.*s is damaged: no gzip data at byte %zu (%s)", LS_IMAGES_SHOWN, path, taken,
                           z->msg ? z->msg : "zlib gives no reason");
        if (rc != Z_STREAM_END && taken == bytes && z->avail_out)
            return ls_fail(LS_ERR_INPUT, "%.*s is truncated: its gzip data do not end after %zu bytes", LS_IMAGES_SHOWN,
                           path, bytes);
    }
    return out->used <= out->max ? LS_OK : grow_output(out, path);
}

ls_status ls_gzip_expand(const char *path, const uint8_t *data, size_t bytes, size_t max_bytes, ls_map *out) {
    expansion result = {.max = max_bytes};
    z_stream z = {0};
    *out = (ls_map){0};
    if (inflateInit2(&z, GZIP_WINDOW) != Z_OK) return ls_fail(LS_ERR_RESOURCE, "zlib does not start");
    ls_status status = inflate_members(path, data, bytes, &z, &result);
    (void)inflateEnd(&z);
    if (status != LS_OK) {
        free(result.data);
        return status;
    }
    *out = (ls_map){.data = result.data, .bytes = result.used};
    return LS_OK;
}

#else

ls_status ls_gzip_expand(const char *path, const uint8_t *data, size_t bytes, size_t max_bytes, ls_map *out) {
    (void)data, (void)bytes, (void)max_bytes;
    *out = (ls_map){0};
    return ls_fail(LS_ERR_INPUT,
                   "%.*s is a gzip file, and this lockstep was built without zlib: expand it (gunzip), or "
                   "install zlib1g-dev and build again",
                   LS_IMAGES_SHOWN, path);
}

#endif
