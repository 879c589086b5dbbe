/* ops_embed.c: tokens and positions: embeddings and rotation, split by rows. The gradients of the tables are in
 * ops_embed_grad.c. */
#include <assert.h>

#include "kernels/cpu/cpu.h"

typedef struct embed_args {
    float *y;
    size_t y_stride;
    const float *token, *position;
    size_t position0, period;
    const ls_embed_tokens *tokens;
} embed_args;

static void embed_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const embed_args *e = args;
    ls_embed_tokens tokens = *e->tokens;
    tokens.ids += begin;
    tokens.rows = end - begin;
    kernels->embed.forward(e->y + begin * e->y_stride, e->y_stride, e->token, e->position, e->position0 + begin,
                           e->period, &tokens);
}

static ls_status embed_forward(ls_device *device, float *y, size_t y_stride, const float *token, const float *position,
                               size_t position0, size_t period, const ls_embed_tokens *tokens) {
    assert(!position || period > 0);
    ls_cpu_run(ls_cpu_enter(device), tokens->rows, ls_cpu_row_grain(tokens->C), embed_rows,
               &(embed_args){y, y_stride, token, position, position0, period, tokens});
    return LS_OK;
}

/* ---- rotation ---------------------------------------------------------------------------------------------------- */

static ls_rope_call rope_part(const ls_rope_call *whole, size_t begin, size_t end) {
    ls_rope_call part = *whole;
    part.y += begin * part.y_row_stride;
    part.x += begin * part.x_row_stride;
    part.position0 += begin;
    part.rows = end - begin;
    return part;
}

static void rope_forward_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    ls_rope_call part = rope_part(args, begin, end);
    kernels->rope.forward(&part);
}

static void rope_backward_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    ls_rope_call part = rope_part(args, begin, end);
    kernels->rope.backward(&part);
}

static ls_status rotate(ls_device *device, const ls_rope_call *call, ls_cpu_fn fn) {
    assert(call->period > 0 && call->d % 2 == 0);
    ls_cpu_run(ls_cpu_enter(device), call->rows, ls_cpu_row_grain(call->heads * call->d), fn, call);
    return LS_OK;
}

static ls_status rope_forward(ls_device *device, const ls_rope_call *call) {
    return rotate(device, call, rope_forward_rows);
}

static ls_status rope_backward(ls_device *device, const ls_rope_call *call) {
    return rotate(device, call, rope_backward_rows);
}

void ls_cpu_ops_fill_embed(ls_ops *ops) {
    ops->embed_forward = embed_forward;
    ops->rope_forward = rope_forward;
    ops->rope_backward = rope_backward;
}
