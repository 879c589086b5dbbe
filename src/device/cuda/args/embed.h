/* embed.h: the arguments of the kernels of embed.cu (token embeddings, rotary embeddings), which ops/embed.c fills
 * in. */
#ifndef LS_DEVICE_CUDA_ARGS_EMBED_H
#define LS_DEVICE_CUDA_ARGS_EMBED_H

#include "device/cuda/common/divider.h"
#include "device/cuda/common/pack.h"

enum { LS_CUDA_EMBED_ROWS = 2 }; /* that a thread loads before it stores */

/* As ls_embed_call with its tokens: y = the token's row of the table + that of its position; rows of tokens
 * outside id_begin … id_end − 1 are left alone. */
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

/* As ls_rope_call. A thread has a pack of pairs (i, i + d/2) of a head; packs are counted through a row, head
 * after head, and all of a launch in 31 bits. */
typedef struct ls_cuda_rope {
    int act, back, aligned;               /* ls_dtype; rotate gradients back; packs of 16 bytes, else single pairs */
    size_t rows, half;                    /* half: d/2, the pairs of a head */
    ls_cuda_divider units, packs, period; /* divisors: packs of a row; packs of a head; positions of the table */
    void *y;
    size_t y_row_stride, y_head_stride;
    const void *x;
    size_t x_row_stride, x_head_stride;
    const float *cos, *sin;
    uint32_t position0; /* of the first row, below the period */
} ls_cuda_rope;

#endif
