/* attention.c: the body of the attention half of a block.
 *
 *     x ─ norm ─ qkv ─ (norms of q, k) ─ (rotate q, k) ─ attention ─ heads ─ out ─ + x
 *
 * A row of qkv is cut as its weight is: slice by slice, q heads before k heads before v heads. */
#include <assert.h>

#include "nn/blocks/transformer.h"
#include "numerics/elementary.h"

enum { PURPOSE_DROPOUT = 0x4154544e }; /* and the layer behind it */

ls_head_slice ls_head_slice_of(const ls_nn *nn, int i) {
    const ls_shape *shape = nn->shape;
    size_t base = ls_slice_begin(shape->kv_heads, nn->S, nn->slice0);
    size_t begin = ls_slice_begin(shape->kv_heads, nn->S, nn->slice0 + i) - base;
    size_t end = ls_slice_begin(shape->kv_heads, nn->S, nn->slice0 + i + 1) - base;
    size_t group = shape->H / shape->kv_heads, d = shape->head_size;
    ls_head_slice s = {.heads = (end - begin) * group, .kv_heads = end - begin, .first_head = begin * group};
    s.head_in_model = (base + begin) * group;
    s.q = begin * (group + 2) * d;
    s.k = s.q + s.heads * d;
    s.v = s.k + s.kv_heads * d;
    return s;
}

/* ---- rotation ---------------------------------------------------------------------------------------------------- */

/* Rotates q and k (RoPE), or with `back` their gradients back: one call for each slice, since only its q and k heads
 * are neighbours. */
static ls_status rotate(const ls_nn *nn, size_t layer, void *qkv, bool back) {
    const ls_shape *shape = nn->shape;
    size_t table = layer % ls_shape_rope_tables(shape) * nn->rope.elems;
    size_t width = nn->own.qkv;
    for (int i = 0; i < nn->slices; i++) {
        ls_head_slice s = ls_head_slice_of(nn, i);
        ls_rope_call call = {.rows = ls_nn_rows(nn), .heads = s.heads + s.kv_heads, .d = ls_shape_rotated(shape)};
        call.act = nn->policy.act;
        call.x = call.y = ls_nn_at(nn, qkv, s.q);
        call.x_row_stride = call.y_row_stride = width;
        call.x_head_stride = call.y_head_stride = shape->head_size;
        call.cos = nn->rope.cos + table;
        call.sin = nn->rope.sin + table;
        call.position0 = nn->rows.first;
        call.period = nn->rows.first > 0 ? shape->T : nn->rows.T;
        LS_TRY(back ? nn->ops->rope_backward(nn->device, &call) : nn->ops->rope_forward(nn->device, &call));
    }
    return LS_OK;
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Returns a tensor of heads that attention reads: `d` elements from head to head. */
static ls_attention_in heads_in(const void *at, size_t row_stride, size_t d) {
    return (ls_attention_in){at, row_stride, d};
}

/* Returns a tensor of heads that attention writes. */
static ls_attention_out heads_out(void *at, size_t row_stride, size_t d) {
    return (ls_attention_out){at, row_stride, d};
}

/* Returns the dropout of attention weights for the heads of a slice; scale 0: none. */
static ls_attention_drop drop_of(const ls_block *block, const ls_nn *nn, const ls_head_slice *s) {
    const ls_dropout *dropout = &nn->dropout;
    if (!(dropout->p > 0)) return (ls_attention_drop){.scale = 0};
    assert(nn->rows.first == 0);
    return (ls_attention_drop){
        .key = ls_rng_key_make(dropout->seed, PURPOSE_DROPOUT + (uint32_t)block->layer, dropout->step),
        .threshold = ls_dropout_threshold(dropout->p),
        .scale = ls_dropout_scale(dropout->p),
        .head0 = dropout->first_sequence * nn->shape->H + s->head_in_model,
        .heads = nn->shape->H};
}

/* Fills one part of an attention call for each of this worker's slices, with its tensors of the forward pass. While
 * text is generated, queries begin at position rows.first, and keys at 0. */
static void describe(const ls_block *block, const ls_nn *nn, ls_attention parts[LS_SLICES_MAX]) {
    const ls_shape *shape = nn->shape;
    const ls_transformer_saved *saved = block->saved;
    size_t width = nn->own.qkv, d = shape->head_size, T = nn->rows.first + nn->rows.T;
    size_t queries = nn->rows.first * width;
    for (int i = 0; i < nn->slices; i++) {
        ls_head_slice s = ls_head_slice_of(nn, i);
        ls_attention *a = &parts[i];
        *a = (ls_attention){
            .T = T, .heads = s.heads, .kv_heads = s.kv_heads, .head_size = d, .first_query = nn->rows.first};
        a->act = nn->policy.act;
        a->unit = nn->policy.unit;
        a->scale = (float)ls_pow_f64((double)d, -0.5);
        a->drop = drop_of(block, nn, &s);
        a->q = heads_in(ls_nn_from(nn, saved->qkv, queries + s.q), width, d);
        a->k = heads_in(ls_nn_from(nn, saved->qkv, s.k), width, d);
        a->v = heads_in(ls_nn_from(nn, saved->qkv, s.v), width, d);
        a->o = heads_out(ls_nn_at(nn, saved->heads, s.first_head * d), nn->own.query, d);
        a->m = saved->m + s.first_head * nn->rows.T;
        a->l = saved->l + s.first_head * nn->rows.T;
        a->stat_stride = nn->rows.T;
    }
}

/* Returns the call that runs all parts at once. */
static ls_attention_call call_of(const ls_nn *nn, const ls_attention *parts) {
    return (ls_attention_call){.parts = parts,
                               .nparts = nn->slices,
                               .B = nn->rows.B,
                               .query_rows = nn->rows.T,
                               .key_rows = nn->rows.T,
                               .stat_elems = nn->own.heads * nn->rows.T};
}

/* Computes q, k and v (projection, norms, rotation) into saved->qkv, and attention into half->inner. While text is
 * generated, keys and values of earlier positions are in front of these rows. */
static ls_status forward(ls_block *block, ls_nn *nn, const ls_half *half, const void *norm) {
    const ls_transformer_saved *saved = block->saved;
    void *rows = ls_nn_at(nn, saved->qkv, nn->rows.first * nn->own.qkv);
    ls_attention parts[LS_SLICES_MAX];
    assert(nn->rows.first == 0 || nn->rows.B == 1);
    LS_TRY(ls_nn_project(nn, rows, norm, half->in_w, half->in_b));
    if (nn->shape->qk_norm) LS_TRY(ls_qk_norm(block, nn, rows));
    if (ls_layer(nn->shape, (size_t)block->layer).rotates) LS_TRY(rotate(nn, (size_t)block->layer, rows, false));
    describe(block, nn, parts);
    ls_attention_call call = call_of(nn, parts);
    return nn->ops->attention_forward(nn->device, &call);
}

/* Computes the gradient of qkv, before rotation and norm, in dqkv. `inner` is only compared with NULL: attention
 * keeps its output. */
static ls_status backward(ls_block *block, ls_nn *nn, const ls_half *half, const void *rows, void *dqkv, void *inner) {
    const ls_transformer_kept *kept = block->kept;
    const ls_shape *shape = nn->shape;
    size_t width = nn->own.qkv, d = shape->head_size;
    ls_attention parts[LS_SLICES_MAX];
    LS_TRY(ls_nn_project(nn, half->scratch->dheads, rows, half->out_w, NULL));
    describe(block, nn, parts);
    for (int i = 0; i < nn->slices; i++) {
        ls_head_slice s = ls_head_slice_of(nn, i);
        ls_attention *a = &parts[i];
        a->dots = half->scratch->dots + s.first_head * nn->rows.T;
        a->dout = heads_in(ls_nn_from(nn, half->scratch->dheads, s.first_head * d), nn->own.query, d);
        a->dq = heads_out(ls_nn_at(nn, dqkv, s.q), width, d);
        a->dk = heads_out(ls_nn_at(nn, dqkv, s.k), width, d);
        a->dv = heads_out(ls_nn_at(nn, dqkv, s.v), width, d);
    }
    ls_attention_call call = call_of(nn, parts);
    LS_TRY(nn->ops->attention_backward(nn->device, &call));
    if (ls_layer(shape, (size_t)block->layer).rotates) LS_TRY(rotate(nn, (size_t)block->layer, dqkv, true));
    if (!shape->qk_norm) return LS_OK;
    /* Without `inner` this is the first of two phases. */
    return ls_qk_norm_backward(block, nn, dqkv, inner ? half->scratch->dnormed : kept->dnormed);
}

/* Computes the gradients of the weights of the norms of q and k; only with QK-norm. */
static ls_status weights(ls_block *block, ls_nn *nn, const ls_half *half, const void *dqkv, ls_block_pass phase) {
    (void)dqkv; /* of q and k it has the gradients before the norm */
    const ls_transformer_kept *kept = block->kept;
    return ls_qk_norm_weights(block, nn, phase == LS_BACKWARD_BOTH ? half->scratch->dnormed : kept->dnormed);
}

ls_half ls_attention_half(ls_block *block, const ls_nn *nn) {
    const ls_transformer_saved *saved = block->saved;
    ls_half half = ls_half_open(block, 0);
    half.in_width = nn->own.qkv;
    half.inner = saved->heads;
    half.inner_width = nn->own.query;
    half.branch = ls_policy_is_16(&nn->policy) ? saved->branch : half.scratch->branch;
    half.dwide = half.scratch->dqkv;
    half.forward = forward;
    half.weights = nn->shape->qk_norm ? weights : NULL;
    half.backward = backward;
    return half;
}
