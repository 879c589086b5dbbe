/* embed.c: launches token embeddings and rotary embeddings (RoPE), by rows (kernels/embed.cu). The gradients of
 * the tables are in embed_grad.c. */
#include <assert.h>

#include "device/cuda/args/embed.h"
#include "device/cuda/ops/ops.h"
#include "device/cuda/ops/pack.h"

/* WIDTH: of a pack; COUNT_MAX: threads that are counted in 31 bits, the last block included. */
enum { WIDTH = 4, COUNT_MAX = INT32_MAX - (1 << 20) };

LS_ASSERT_ARGS(ls_embed_call, 8);
LS_ASSERT_ARGS(ls_embed_tokens, 5);
/* Launches the computation of y = the table's row of each token, plus that of its position if there are positions. Rows
 * of tokens that this part of the table lacks stay as they are. */
ls_status ls_cuda_op_embed_forward(ls_device *device, const ls_embed_call *c) {
    const ls_embed_tokens *tokens = c->tokens;
    assert(!c->position || c->period > 0);
    LS_TRY(ls_check_float("an embedding table", c->token_dtype));
    ls_cuda_embed args = {.rows = {.rows = tokens->rows, .columns = tokens->C},
                          .ids = tokens->ids,
                          .id_begin = tokens->id_begin,
                          .id_end = tokens->id_end,
                          .token = c->token,
                          .token_dtype = (int)c->token_dtype,
                          .position = c->position,
                          .position0 = c->position0,
                          .period = c->period,
                          .y = c->y,
                          .y_stride = c->y_stride};
    args.rows.aligned = tokens->C % WIDTH == 0 && ls_cuda_fits(c->token, c->token_dtype, 0, WIDTH) &&
                        ls_cuda_fits(c->position, LS_F32, 0, WIDTH) && ls_cuda_fits(c->y, LS_F32, c->y_stride, WIDTH);
    return ls_cuda_launch(device, LS_CUDA_embed_forward, ls_cuda_rows_grid(&args.rows, WIDTH, LS_CUDA_EMBED_ROWS),
                          LS_CUDA_PACK_THREADS, 0, &args);
}

LS_ASSERT_ARGS(ls_rope_call, 14);
/* Launches the rotation of the heads of each row by its position, or, `back`, the inverse rotation of gradients.
 * Several launches if rows cannot be counted in 31 bits. LS_ERR_INPUT for sizes that no launch takes. */
static ls_status rotate(ls_device *device, const ls_rope_call *c, bool back) {
    assert(c->period > 0 && c->d % 2 == 0);
    LS_TRY(ls_check_float("a rotation", c->act));
    if (c->heads > 0 && c->d > INT32_MAX / c->heads)
        return ls_fail(LS_ERR_INPUT, "a rotation of %zu heads of %zu numbers: must be below 2^31 in all", c->heads,
                       c->d);
    if (c->period > COUNT_MAX / 2)
        return ls_fail(LS_ERR_INPUT, "a rotation by %zu positions: must be at most %d", c->period, COUNT_MAX / 2);
    if (c->rows == 0 || c->heads == 0 || c->d == 0) return LS_OK;
    const size_t half = c->d / 2, width = ls_cuda_widest(c->act), bytes = ls_dtype_bytes(c->act);
    bool aligned = half % width == 0 && ls_cuda_fits(c->y, c->act, c->y_row_stride, width) &&
                   c->y_head_stride % width == 0 && ls_cuda_fits(c->x, c->act, c->x_row_stride, width) &&
                   c->x_head_stride % width == 0 && ls_cuda_fits(c->cos, LS_F32, 0, WIDTH) &&
                   ls_cuda_fits(c->sin, LS_F32, 0, WIDTH);
    const size_t packs = aligned ? half / width : half, units = c->heads * packs;
    /* As many rows at a time as are counted in 31 bits, their positions too. */
    size_t most = COUNT_MAX / (units > 2 ? units : 2);
    for (size_t first = 0; first < c->rows; first += most) {
        size_t rows = c->rows - first < most ? c->rows - first : most;
        ls_cuda_rope args = {.act = (int)c->act,
                             .back = back,
                             .aligned = aligned,
                             .rows = rows,
                             .half = half,
                             .units = ls_cuda_divider_of(units),
                             .packs = ls_cuda_divider_of(packs),
                             .period = ls_cuda_divider_of(c->period),
                             .y = (char *)c->y + first * c->y_row_stride * bytes,
                             .y_row_stride = c->y_row_stride,
                             .y_head_stride = c->y_head_stride,
                             .x = (const char *)c->x + first * c->x_row_stride * bytes,
                             .x_row_stride = c->x_row_stride,
                             .x_head_stride = c->x_head_stride,
                             .cos = c->cos,
                             .sin = c->sin,
                             .position0 = (uint32_t)((c->position0 + first) % c->period)};
        ls_cuda_flat flat = {.n = rows * units};
        LS_TRY(ls_cuda_launch(device, LS_CUDA_rope, ls_cuda_flat_grid(&flat, 1, 1), LS_CUDA_PACK_THREADS, 0, &args));
    }
    return LS_OK;
}

/* Rotates by the angle of the position. */
ls_status ls_cuda_op_rope_forward(ls_device *device, const ls_rope_call *call) { return rotate(device, call, false); }

/* Rotates gradients back, by the negative angle. */
ls_status ls_cuda_op_rope_backward(ls_device *device, const ls_rope_call *call) { return rotate(device, call, true); }
