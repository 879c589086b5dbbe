/* save_tensors.h: a whole safetensors file from a function that gives the bytes of its tensors. */
#ifndef LS_TESTS_SAVE_TENSORS_H
#define LS_TESTS_SAVE_TENSORS_H

#include <stdlib.h>

#include "checkpoint/safetensors_writer.h"

/* Copies bytes byte_offset … byte_offset + bytes − 1 of a declared tensor to the host. */
typedef ls_status (*tensor_reader)(void *ctx, int tensor, size_t byte_offset, void *host, size_t bytes);

enum { SAVE_PIECE_BYTES = 4 << 20 };

/* file_hash may be NULL. */
static inline ls_status save_tensors(const char *path, const ls_safetensors_plan *plan, tensor_reader read, void *ctx,
                                     ls_hash128 *file_hash) {
    ls_safetensors_writer *writer;
    LS_TRY(ls_safetensors_create(path, plan, &writer));
    ls_status status = LS_OK;
    char *piece = malloc(SAVE_PIECE_BYTES);
    if (!piece) status = ls_fail(LS_ERR_RESOURCE, "out of memory to write %s", path);
    for (int i = 0; i < plan->count && status == LS_OK; i++) {
        const ls_safetensors_decl *decl = &plan->tensors[i];
        size_t elem_bytes = ls_dtype_bytes(decl->dtype), total = elem_bytes;
        for (int d = 0; d < decl->dims; d++) total *= (size_t)decl->shape[d];
        for (size_t done = 0; done < total && status == LS_OK;) {
            size_t bytes = total - done < SAVE_PIECE_BYTES ? total - done : SAVE_PIECE_BYTES;
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

#endif
