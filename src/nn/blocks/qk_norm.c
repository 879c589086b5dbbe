/* qk_norm.c: the norms of q and k (QK-norm): an RMS norm of each head, before it is rotated.
 *
 * All q heads share one weight of [head size], and all k heads another. The rows of a norm lie at equal distances, but
 * the heads of qkv do not. So the q heads of a slice are copied into a block of their own, and its k heads too:
 *
 *     a row of qkv   q0 q1 k0 v0 │ q2 q3 k1 v1                              two slices
 *     blocks         q0 q1 of all rows, k0 of all rows │ q2 q3 of all rows, k1 of all rows
 *
 * Slice i makes row i of a weight's gradient, a sum over the tokens and heads of that slice (rule 4). */
#include "nn/blocks/transformer.h"

enum { QUERIES, KEYS, KINDS };

/* A block: `heads` heads of each row. */
typedef struct head_block {
    size_t heads;
    size_t column; /* of qkv */
    size_t before; /* heads of a row in the blocks before it */
} head_block;

/* Returns the block of q heads or k heads (`kind`) of one of this worker's slices. */
static head_block block_of(const ls_nn *nn, int slice, int kind) {
    ls_head_slice s = ls_head_slice_of(nn, slice);
    size_t group = nn->shape->H / nn->shape->kv_heads, before = s.first_head + s.first_head / group;
    if (kind == QUERIES) return (head_block){s.heads, s.q, before};
    return (head_block){s.kv_heads, s.k, before + s.heads};
}

/* Returns the rows of the norm in this block: one for each token and head. */
static size_t block_rows(const ls_nn *nn, head_block b) { return ls_nn_rows(nn) * b.heads; }

/* Returns how many elements are in front of the block, in a tensor of blocks. */
static size_t block_at(const ls_nn *nn, head_block b) { return ls_nn_rows(nn) * b.before * nn->shape->head_size; }

/* Returns the weight of the norm of q or of k. */
static ls_param *weight_of(ls_block *block, int kind) {
    return ls_block_param(block, kind == QUERIES ? LS_ROLE_Q_NORM : LS_ROLE_K_NORM);
}

/* Returns the call for the norm of a block; x is its input in fp32. */
static ls_norm_call head_norm_call(const ls_nn *nn, const ls_transformer_saved *saved, head_block b, const ls_param *w,
                                   const float *x) {
    ls_norm_call call = {.rows = block_rows(nn, b), .C = nn->shape->head_size, .rms = true};
    call.act = nn->policy.act;
    call.eps = (float)nn->shape->eps;
    call.x = x;
    call.w = w->w;
    call.rstd = saved->head_rstd + ls_nn_rows(nn) * b.before;
    call.x_stride = call.y_stride = call.dy_stride = call.dx_stride = call.C;
    return call;
}

/* Copies the heads of a block from qkv to `heads`, where they are one row after the other, or back (to_qkv). */
static ls_status copy_heads(const ls_nn *nn, head_block b, void *qkv, void *heads, bool to_qkv) {
    size_t unit = ls_dtype_bytes(nn->policy.act), bytes = b.heads * nn->shape->head_size * unit;
    size_t stride = nn->own.qkv * unit, rows = ls_nn_rows(nn);
    void *at = ls_nn_at(nn, qkv, b.column);
    ls_copy_rows_call call = to_qkv ? (ls_copy_rows_call){at, stride, heads, bytes, rows, bytes}
                                    : (ls_copy_rows_call){heads, bytes, at, stride, rows, bytes};
    return nn->ops->copy_rows(nn->device, &call);
}

/* Sets *x to the block before the norm, in fp32: where it is saved, or widened in scratch. */
static ls_status widen_heads(const ls_nn *nn, const ls_transformer_saved *saved, const ls_transformer_scratch *scratch,
                             head_block b, const float **x) {
    const void *raw = ls_nn_from(nn, saved->raw_heads, block_at(nn, b));
    *x = ls_policy_is_16(&nn->policy) ? scratch->wide_heads : raw;
    if (*x == raw) return LS_OK;
    size_t elems = block_rows(nn, b) * nn->shape->head_size;
    return nn->ops->convert(nn->device, &(ls_convert_call){scratch->wide_heads, LS_F32, raw, nn->policy.act, elems});
}

ls_status ls_qk_norm(ls_block *block, const ls_nn *nn, void *qkv) {
    const ls_transformer_saved *saved = block->saved;
    const ls_transformer_scratch *scratch = block->scratch;
    for (int i = 0; i < KINDS * nn->slices; i++) {
        head_block b = block_of(nn, i / KINDS, i % KINDS);
        const float *x;
        LS_TRY(copy_heads(nn, b, qkv, ls_nn_at(nn, saved->raw_heads, block_at(nn, b)), false));
        LS_TRY(widen_heads(nn, saved, scratch, b, &x));
        ls_norm_call call = head_norm_call(nn, saved, b, weight_of(block, i % KINDS), x);
        call.y = scratch->normed;
        LS_TRY(nn->ops->norm_forward(nn->device, &call));
        LS_TRY(copy_heads(nn, b, qkv, scratch->normed, true));
    }
    return LS_OK;
}

ls_status ls_qk_norm_backward(ls_block *block, const ls_nn *nn, void *dqkv, void *dnormed) {
    const ls_transformer_saved *saved = block->saved;
    const ls_transformer_scratch *scratch = block->scratch;
    for (int i = 0; i < KINDS * nn->slices; i++) {
        head_block b = block_of(nn, i / KINDS, i % KINDS);
        size_t columns = b.heads * nn->shape->head_size;
        void *dy = ls_nn_at(nn, dnormed, block_at(nn, b));
        const float *x;
        LS_TRY(copy_heads(nn, b, dqkv, dy, false));
        LS_TRY(widen_heads(nn, saved, scratch, b, &x));
        ls_norm_call call = head_norm_call(nn, saved, b, weight_of(block, i % KINDS), x);
        call.dy = dy;
        call.dx = scratch->normed;
        LS_TRY(nn->ops->norm_backward(nn->device, &call));
        LS_TRY(nn->ops->bias_add(nn->device,
                                 &(ls_bias_add_call){ls_nn_at(nn, dqkv, b.column), nn->policy.act, nn->own.qkv,
                                                     scratch->normed, columns, NULL, ls_nn_rows(nn), columns}));
    }
    return LS_OK;
}

/* Computes a step of the weight's gradient: a row for each slice of this worker. */
static ls_status weight_rows(ls_block *block, const ls_nn *nn, const void *dnormed, int kind,
                             const ls_grad_step *step) {
    const ls_transformer_saved *saved = block->saved;
    const ls_param *w = weight_of(block, kind);
    ls_grad_rows rows = ls_nn_grad_rows(nn, w);
    for (int i = 0; i < nn->slices; i++) {
        head_block b = block_of(nn, i, kind);
        ls_token_groups groups = ls_nn_groups(nn, step);
        groups.T *= b.heads;
        groups.slices = 1;
        const float *x;
        LS_TRY(widen_heads(nn, saved, block->scratch, b, &x));
        size_t first = step->first * groups.T;
        ls_norm_call call = head_norm_call(nn, saved, b, w, x + first * nn->shape->head_size);
        call.rows = (step->end - step->first) * groups.T;
        call.rstd += first;
        call.dy = ls_nn_from(nn, dnormed, block_at(nn, b) + first * call.C);
        call.dw = w->grad.slot[step->at] + (rows.first + (size_t)i) * rows.elems;
        call.groups = &groups;
        LS_TRY(nn->ops->norm_params(nn->device, &call));
    }
    return ls_nn_grad_end(nn, w, &w->grad, step, ls_grad_rows_elems(rows));
}

ls_status ls_qk_norm_weights(ls_block *block, const ls_nn *nn, const void *dnormed) {
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < nn->grads.nsteps; i++) LS_TRY(weight_rows(block, nn, dnormed, kind, &nn->grads.steps[i]));
    return LS_OK;
}
