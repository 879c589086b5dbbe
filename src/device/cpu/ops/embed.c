/* embed.c: tokens and positions: embeddings and rotation, split by rows. The gradients of the tables are in
 * embed_grad.c. */
#include <assert.h>

#include "device/cpu/ops/staging.h"

/* Embeds rows from a 16-bit table: widens each row to its place in y, and adds the position there. */
static void embed_half_rows(const ls_kernels *kernels, const ls_embed_call *e, size_t begin, size_t end) {
    const ls_embed_tokens *t = e->tokens;
    for (size_t r = begin; r < end; r++) {
        int32_t id = t->ids[r];
        if (id < t->id_begin || id >= t->id_end) continue;
        size_t row = (size_t)(id - t->id_begin) * t->C;
        const float *position = e->position ? e->position + (e->position0 + r) % e->period * t->C : NULL;
        for (size_t i = 0, n; i < t->C; i += n) {
            float *y = e->y + r * e->y_stride + i;
            n = ls_cpu_piece(e->token_dtype, t->C - i);
            ls_cpu_widen(kernels, y, e->token, e->token_dtype, row + i, n);
            if (position) kernels->add.add_f32(y, y, position + i, n);
        }
    }
}

/* Embeds rows begin … end−1; rows of ids outside the table are left as they are. */
static void embed_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const ls_embed_call *e = args;
    if (e->token_dtype != LS_F32) {
        embed_half_rows(kernels, e, begin, end);
        return;
    }
    ls_embed_call part = *e;
    ls_embed_tokens tokens = *e->tokens;
    tokens.ids += begin;
    tokens.rows = end - begin;
    part.tokens = &tokens;
    ls_embed_call_skip_rows(&part, begin);
    part.position0 += begin;
    kernels->embed.forward(&part);
}

/* Computes y = token row + position row for each id that this worker's part of the table has. */
ls_status ls_cpu_op_embed_forward(ls_device *device, const ls_embed_call *call) {
    assert(!call->position || call->period > 0);
    LS_TRY(ls_check_float("an embedding table", call->token_dtype));
    return ls_cpu_run(device, call->tokens->rows, ls_cpu_row_grain(call->tokens->C), embed_rows, call);
}

typedef void (*rope_kernel)(const ls_rope_call *call);

/* A rotation and the kernel for its direction. */
typedef struct rope_args {
    rope_kernel kernel;
    const ls_rope_call *call;
} rope_args;

/* A part of a 16-bit row: pairs first … first+pairs−1 of some heads. The buffer has a head of 2·pairs elements: the
 * first elements of all pairs, then the second ones. */
typedef struct rope_piece {
    size_t row, head, heads, first, pairs;
} rope_piece;

/* Widens the elements of a piece into the buffer. */
static void widen_heads(const ls_kernels *kernels, const ls_rope_call *c, float *buffer, const rope_piece *p) {
    if (2 * p->pairs == c->d && c->x_head_stride == c->d) {
        ls_cpu_widen(kernels, buffer, c->x, c->act, p->row * c->x_row_stride + p->head * c->d, p->heads * c->d);
        return;
    }
    for (size_t h = 0; h < p->heads; h++) {
        float *to = buffer + h * 2 * p->pairs;
        size_t at = p->row * c->x_row_stride + (p->head + h) * c->x_head_stride + p->first;
        ls_cpu_widen(kernels, to, c->x, c->act, at, p->pairs);
        ls_cpu_widen(kernels, to + p->pairs, c->x, c->act, at + c->d / 2, p->pairs);
    }
}

/* Rounds the elements of a piece from the buffer to y. */
static void narrow_heads(const ls_kernels *kernels, const ls_rope_call *c, const float *buffer, const rope_piece *p) {
    if (2 * p->pairs == c->d && c->y_head_stride == c->d) {
        ls_cpu_narrow(kernels, c->y, c->act, p->row * c->y_row_stride + p->head * c->d, buffer, p->heads * c->d);
        return;
    }
    for (size_t h = 0; h < p->heads; h++) {
        const float *from = buffer + h * 2 * p->pairs;
        size_t at = p->row * c->y_row_stride + (p->head + h) * c->y_head_stride + p->first;
        ls_cpu_narrow(kernels, c->y, c->act, at, from, p->pairs);
        ls_cpu_narrow(kernels, c->y, c->act, at + c->d / 2, from + p->pairs, p->pairs);
    }
}

/* Rotates a piece of a 16-bit row in an fp32 buffer. */
static void rotate_piece(const ls_kernels *kernels, const rope_args *a, const rope_piece *p) {
    const ls_rope_call *c = a->call;
    ls_cpu_buffer buffer;
    size_t d = 2 * p->pairs, table = (c->position0 + p->row) % c->period * (c->d / 2) + p->first;
    widen_heads(kernels, c, buffer.at, p);
    ls_rope_call piece = *c;
    piece.act = LS_F32;
    piece.x = piece.y = buffer.at;
    piece.x_head_stride = piece.y_head_stride = piece.d = d;
    piece.rows = 1;
    piece.heads = p->heads;
    piece.cos += table;
    piece.sin += table;
    piece.position0 = 0;
    piece.period = 1;
    a->kernel(&piece);
    narrow_heads(kernels, c, buffer.at, p);
}

/* Rotates a 16-bit row, in pieces of as many heads, or pairs of a head, as the buffer holds. */
static void rotate_half_row(const ls_kernels *kernels, const rope_args *a, size_t row) {
    const ls_rope_call *c = a->call;
    size_t half = c->d / 2, most = half < LS_CPU_STAGING / 2 ? half : LS_CPU_STAGING / 2;
    size_t together = most ? LS_CPU_STAGING / (2 * most) : 1;
    for (size_t head = 0; head < c->heads; head += together)
        for (size_t first = 0; first < half; first += most) {
            rope_piece p = {row, head, c->heads - head, first, half - first};
            if (p.heads > together) p.heads = together;
            if (p.pairs > most) p.pairs = most;
            rotate_piece(kernels, a, &p);
        }
}

/* Rotates rows begin … end−1. */
static void rope_rows(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    const rope_args *a = args;
    if (a->call->act != LS_F32) {
        for (size_t r = begin; r < end; r++) rotate_half_row(kernels, a, r);
        return;
    }
    ls_rope_call part = *a->call;
    ls_rope_call_skip_rows(&part, begin);
    part.position0 += begin;
    part.rows = end - begin;
    a->kernel(&part);
}

/* Runs the rotary embedding forward, or its gradient (the rotation back), over all rows. */
static ls_status rotate(ls_device *device, const ls_rope_call *call, bool back) {
    assert(call->period > 0 && call->d % 2 == 0);
    LS_TRY(ls_check_float("a rotation", call->act));
    const ls_rope_kernels *k = &ls_cpu_enter(device)->kernels->rope;
    rope_args args = {back ? k->backward : k->forward, call};
    return ls_cpu_run(device, call->rows, ls_cpu_row_grain(call->heads * call->d), rope_rows, &args);
}

/* Rotates each pair of elements of x by the angle of its row's position, to y. */
ls_status ls_cpu_op_rope_forward(ls_device *device, const ls_rope_call *call) { return rotate(device, call, false); }

/* Rotates back: from the gradient of rotated values (x) to that of the values before (y). */
ls_status ls_cpu_op_rope_backward(ls_device *device, const ls_rope_call *call) { return rotate(device, call, true); }
