/* stored.c: reads and writes rows of parameters as files of any format store them. */
#include "interop/stored.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "interop/elems.h"

/* Side of the square of elements that is transposed at a time, so that reads and writes stay in the cache. */
enum { TILE = 64 };

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Allocates memory after checking that the machine has that much; the caller frees it. */
static ls_status take_memory(size_t bytes, void **out) {
    LS_TRY(ls_memory_check(bytes));
    *out = malloc(bytes ? bytes : 1);
    return *out ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a tensor of %zu bytes", bytes);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

void ls_stored_cache_fini(ls_stored_cache *cache) {
    free(cache->raw);
    *cache = (ls_stored_cache){NULL, NULL, 0};
}

/* Reads the whole tensor into the cache, unless it is there. */
static ls_status hold_raw_tensor(const ls_stored *stored, ls_stored_cache *cache) {
    size_t bytes = stored->rows * stored->columns * ls_dtype_bytes(stored->dtype);
    if (cache->held == stored) return LS_OK;
    cache->held = NULL;
    if (cache->capacity_bytes < bytes) {
        ls_stored_cache_fini(cache);
        LS_TRY(take_memory(bytes, &cache->raw));
        cache->capacity_bytes = bytes;
    }
    LS_TRY(stored->read(stored, 0, cache->raw, bytes));
    cache->held = stored;
    return LS_OK;
}

/* Reads rows row … row + rows − 1 of a tensor from its transposed form in memory. */
static void transpose_in(const ls_stored *stored, const unsigned char *raw, size_t row, size_t rows, float *out) {
    size_t unit = ls_dtype_bytes(stored->dtype);
    float values[TILE];
    for (size_t r = 0; r < rows; r += TILE) {
        size_t count = smaller(TILE, rows - r);
        for (size_t c = 0; c < stored->columns; c++) {
            ls_elems_to_f32(stored->dtype, raw + (c * stored->rows + row + r) * unit, count, values);
            for (size_t i = 0; i < count; i++) out[(r + i) * stored->columns + c] = values[i];
        }
    }
}

ls_status ls_stored_read(const ls_stored *stored, ls_stored_cache *cache, size_t first_row, size_t rows, float *out) {
    assert(first_row >= stored->first_row && first_row + rows <= stored->first_row + stored->rows);
    size_t row = first_row - stored->first_row, elems = rows * stored->columns, unit = ls_dtype_bytes(stored->dtype);
    if (stored->transposed) {
        LS_TRY(hold_raw_tensor(stored, cache));
        transpose_in(stored, cache->raw, row, rows, out);
        return LS_OK;
    }
    /* The raw bytes go to the end of the output, from where they are widened in place. */
    unsigned char *raw = (unsigned char *)out + elems * (sizeof(float) - unit);
    LS_TRY(stored->read(stored, row * stored->columns * unit, raw, elems * unit));
    ls_elems_to_f32(stored->dtype, raw, elems, out);
    return LS_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

typedef struct export_job {
    const ls_stored *stored;
    const char *name;
    const ls_param *param;
    ls_tensor_source source;
    void *source_ctx;
    float *values; /* a piece of rows */
    unsigned char *raw;
} export_job;

/* Gets a piece of rows, counted from the tensor's first one, from the source into job->values; zeros if there is no
 * parameter. */
static ls_status pull_rows(const export_job *job, size_t row, size_t rows) {
    size_t elems = rows * job->stored->columns;
    if (job->param) return job->source(job->source_ctx, job->param, job->stored->first_row + row, rows, job->values);
    memset(job->values, 0, elems * sizeof *job->values);
    return LS_OK;
}

/* Converts elements to the stored type; LS_ERR_INPUT if one does not fit. */
static ls_status narrow_elems(const export_job *job, const float *values, size_t elems, unsigned char *raw) {
    if (ls_elems_from_f32(job->stored->dtype, values, elems, raw)) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s has values that %s cannot hold; use --dtype fp32%s", job->name,
                   job->stored->dtype == LS_F16 ? "fp16" : "bf16", job->stored->dtype == LS_F16 ? " or bf16" : "");
}

/* Writes rows row … row + rows − 1 into the transposed form, which holds all rows. */
static ls_status transpose_out(const export_job *job, size_t row, size_t rows) {
    const ls_stored *stored = job->stored;
    size_t unit = ls_dtype_bytes(stored->dtype);
    float values[TILE];
    for (size_t r = 0; r < rows; r += TILE) {
        size_t count = smaller(TILE, rows - r);
        for (size_t c = 0; c < stored->columns; c++) {
            for (size_t i = 0; i < count; i++) values[i] = job->values[(r + i) * stored->columns + c];
            LS_TRY(narrow_elems(job, values, count, job->raw + (c * stored->rows + row + r) * unit));
        }
    }
    return LS_OK;
}

/* Converts the tensor piece by piece, and passes the bytes on; a transposed tensor is passed on at once at the end. */
static ls_status write_pieces(const export_job *job, ls_stored_write_fn write, void *ctx) {
    const ls_stored *stored = job->stored;
    size_t step = ls_stored_piece_rows(stored->columns), unit = ls_dtype_bytes(stored->dtype);
    for (size_t row = 0; row < stored->rows; row += step) {
        size_t rows = smaller(step, stored->rows - row), elems = rows * stored->columns;
        LS_TRY(pull_rows(job, row, rows));
        if (stored->transposed) {
            LS_TRY(transpose_out(job, row, rows));
        } else {
            LS_TRY(narrow_elems(job, job->values, elems, job->raw));
            LS_TRY(write(ctx, job->raw, elems * unit));
        }
    }
    return stored->transposed ? write(ctx, job->raw, stored->rows * stored->columns * unit) : LS_OK;
}

ls_status ls_stored_write(const ls_stored *stored, const char *name, const ls_param *param, ls_tensor_source source,
                          void *source_ctx, ls_stored_write_fn write, void *write_ctx) {
    size_t rows = smaller(ls_stored_piece_rows(stored->columns), stored->rows);
    size_t raw_rows = stored->transposed ? stored->rows : rows;
    void *values = NULL, *raw = NULL;
    ls_status status;
    LS_TRY_OUT(take_memory(rows * stored->columns * sizeof(float), &values));
    LS_TRY_OUT(take_memory(raw_rows * stored->columns * ls_dtype_bytes(stored->dtype), &raw));
    export_job job = {stored, name, param, source, source_ctx, values, raw};
    LS_TRY_OUT(write_pieces(&job, write, write_ctx));
out:
    free(raw);
    free(values);
    return status;
}
