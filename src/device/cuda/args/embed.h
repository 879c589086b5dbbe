/* embed.h: what the kernels of embed.cu are started with. */
#ifndef LS_DEVICE_CUDA_ARGS_EMBED_H
#define LS_DEVICE_CUDA_ARGS_EMBED_H

#include "device/cuda/common/divider.h"
#include "device/cuda/common/pack.h"

enum { LS_CUDA_EMBED_ROWS = 2 }; /* that a thread has at a time */

typedef struct ls_cuda_embed {
    ls_cuda_rows rows;
    const int32_t *ids;
    int32_t id_begin, id_end;
    const void *token;
    int token_dtype;
    const float *position; /* NULL: none */
    size_t position0, period;
    float *y;
    size_t y_stride;
} ls_cuda_embed;

/* As ls_rope_call. A thread has a pack of pairs; these are counted through a row, head after head, in 31 bits. */
typedef struct ls_cuda_rope {
    int act, back, aligned;
    size_t rows, half;
    ls_cuda_divider units, packs, period; /* packs of a row and of a head; positions of the table */
    void *y;
    size_t y_row_stride, y_head_stride;
    const void *x;
    size_t x_row_stride, x_head_stride;
    const float *cos, *sin;
    uint32_t position0; /* below the period */
} ls_cuda_rope;

#endif
