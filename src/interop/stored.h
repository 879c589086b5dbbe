/* stored.h: reads and writes rows of parameters in weight files of any format.
 *
 * A stored tensor holds rows first_row … first_row + rows − 1 of one parameter, as they are or transposed:
 *
 *     as they are   [rows][columns]      read in pieces
 *     transposed    [columns][rows]      read as a whole, and cached until another transposed tensor is read
 *
 * Memory is bounded by the largest transposed tensor. */
#ifndef LS_INTEROP_STORED_H
#define LS_INTEROP_STORED_H

#include "nn/param.h"

/* A callback that receives `rows` rows of a parameter, from row first_row on, as [rows][columns]. Rows count in
 * canonical order: that of files, whatever the number of slices (nn/param.h). `data` is valid during the call. */
typedef ls_status (*ls_tensor_sink)(void *ctx, const ls_param *param, size_t first_row, size_t rows, const float *data);
/* A callback that fills `data` with such rows. */
typedef ls_status (*ls_tensor_source)(void *ctx, const ls_param *param, size_t first_row, size_t rows, float *data);

/* Pieces have about this many elements, and at least one row. */
enum { LS_STORED_PIECE_ELEMS = 1 << 20 };
/* Returns the rows of a piece. */
static inline size_t ls_stored_piece_rows(size_t columns) {
    return columns < LS_STORED_PIECE_ELEMS ? LS_STORED_PIECE_ELEMS / columns : 1;
}

typedef struct ls_stored ls_stored;

struct ls_stored {
    int param;                       /* number in the model */
    size_t first_row, rows, columns; /* the rows of the parameter that it holds; of the parameter: not transposed */
    bool transposed;
    ls_dtype dtype; /* in the file */
    /* Copies bytes of the tensor to `host`; `file` and `offset` are the reader's own. */
    ls_status (*read)(const ls_stored *stored, size_t byte_offset, void *host, size_t bytes);
    const void *file;
    size_t offset;
};

/* The transposed tensor that was read last. Zeroed at first. */
typedef struct ls_stored_cache {
    const ls_stored *held; /* the tensor in `raw`; NULL: none */
    void *raw;             /* its bytes as in the file */
    size_t capacity_bytes;
} ls_stored_cache;

/* Frees the cache's memory; the cache is empty then and may be used again. */
void ls_stored_cache_fini(ls_stored_cache *cache);

/* Reads rows of the parameter, from its row first_row on, as fp32 [rows][columns]. They must lie inside the tensor. A
 * transposed tensor is read whole into the cache, unless it is there; for others the cache is not used. */
ls_status ls_stored_read(const ls_stored *stored, ls_stored_cache *cache, size_t first_row, size_t rows, float *out);

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* A callback that receives the tensor's bytes in order. */
typedef ls_status (*ls_stored_write_fn)(void *ctx, const void *data, size_t bytes);

/* Pulls the rows of a tensor from `source`, converts and transposes them as `stored` says, and passes the bytes to
 * `write`. If `param` is NULL the tensor is zeros. `name` is the tensor's name for messages. LS_ERR_INPUT if a finite
 * value is too large for the type. stored->read is not used. */
ls_status ls_stored_write(const ls_stored *stored, const char *name, const ls_param *param, ls_tensor_source source,
                          void *source_ctx, ls_stored_write_fn write, void *write_ctx);

#endif
