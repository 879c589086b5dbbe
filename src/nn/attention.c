/* attention.c: the attention half of a block, forward and backward.
 *
 *     x ─ norm ─ qkv ─ (rotate q, k) ─ attention ─ heads ─ out ─ + x
 *
 * A row of qkv is cut as its weight is: slice by slice, q heads before k heads before v heads. */
#include <assert.h>

#include "nn/transformer.h"
#include "numerics/elementary.h"

/* Heads and places of one slice. */
typedef struct slice {
    size_t heads, kv_heads;
    size_t first_head; /* q heads before it */
    size_t q, k, v;    /* columns of qkv */
} slice;

static slice slice_of(const ls_nn *nn, int i) {
    const ls_shape *shape = nn->shape;
    size_t begin = ls_slice_begin(shape->kv_heads, nn->S, i), end = ls_slice_begin(shape->kv_heads, nn->S, i + 1);
    size_t group = shape->H / shape->kv_heads, d = shape->head_size;
    slice s = {.heads = (end - begin) * group, .kv_heads = end - begin, .first_head = begin * group};
    s.q = begin * (group + 2) * d;
    s.k = s.q + s.heads * d;
    s.v = s.k + s.kv_heads * d;
    return s;
}

/* ---- rotation ---------------------------------------------------------------------------------------------------- */

/* q and k heads of a slice are neighbours. */
static ls_status rotate(const ls_nn *nn, float *qkv, bool back) {
    const ls_shape *shape = nn->shape;
    size_t width = ls_shape_qkv_width(shape);
    for (int i = 0; i < nn->S; i++) {
        slice s = slice_of(nn, i);
        ls_rope_call call = {.rows = ls_nn_rows(nn), .heads = s.heads + s.kv_heads, .d = shape->head_size};
        call.x = call.y = qkv + s.q;
        call.x_row_stride = call.y_row_stride = width;
        call.x_head_stride = call.y_head_stride = shape->head_size;
        call.cos = nn->rope_cos;
        call.sin = nn->rope_sin;
        call.position0 = nn->first;
        call.period = nn->first > 0 ? shape->T : nn->T;
        LS_TRY(back ? nn->ops->rope_backward(nn->device, &call) : nn->ops->rope_forward(nn->device, &call));
    }
    return LS_OK;
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

static ls_attention_in heads_in(const float *at, size_t row_stride, size_t d) {
    return (ls_attention_in){at, row_stride, d};
}

static ls_attention_out heads_out(float *at, size_t row_stride, size_t d) {
    return (ls_attention_out){at, row_stride, d};
}

static void describe(const ls_block *block, const ls_nn *nn, ls_attention parts[LS_SLICES_MAX]) {
    const ls_shape *shape = nn->shape;
    const ls_saved *saved = &block->saved;
    size_t width = ls_shape_qkv_width(shape), d = shape->head_size, T = nn->first + nn->T;
    const float *queries = saved->qkv + nn->first * width;
    for (int i = 0; i < nn->S; i++) {
        slice s = slice_of(nn, i);
        ls_attention *a = &parts[i];
        *a = (ls_attention){.T = T, .heads = s.heads, .kv_heads = s.kv_heads, .head_size = d, .first_query = nn->first};
        a->scale = (float)ls_pow_f64((double)d, -0.5);
        a->q = heads_in(queries + s.q, width, d);
        a->k = heads_in(saved->qkv + s.k, width, d);
        a->v = heads_in(saved->qkv + s.v, width, d);
        a->o = heads_out(saved->heads + s.first_head * d, ls_shape_query_width(shape), d);
        a->m = saved->m + s.first_head * nn->T;
        a->l = saved->l + s.first_head * nn->T;
        a->stat_stride = nn->T;
    }
}

static ls_attention_call call_of(const ls_nn *nn, const ls_attention *parts) {
    return (ls_attention_call){.parts = parts,
                               .nparts = nn->S,
                               .B = nn->B,
                               .query_rows = nn->T,
                               .key_rows = nn->T,
                               .stat_elems = nn->shape->H * nn->T};
}

ls_status ls_attention_half_forward(ls_block *block, ls_nn *nn, const float *x, float *y) {
    ls_half p = ls_attention_params(block, nn->shape);
    ls_saved *saved = &block->saved;
    ls_attention parts[LS_SLICES_MAX];
    assert(nn->first == 0 || nn->B == 1);
    LS_TRY(ls_nn_norm(nn, nn->scratch.norm, saved->norm1, x, p.norm_w, p.norm_b));
    float *rows = saved->qkv + nn->first * ls_shape_qkv_width(nn->shape);
    LS_TRY(ls_nn_project(nn, rows, nn->scratch.norm, p.in_w, p.in_b));
    if (ls_shape_is_llama(nn->shape)) LS_TRY(rotate(nn, rows, false));
    describe(block, nn, parts);
    ls_attention_call call = call_of(nn, parts);
    LS_TRY(nn->ops->attention_forward(nn->device, &call));
    LS_TRY(ls_nn_project_sliced(nn, nn->scratch.branch, saved->heads, p.out_w, p.out_b));
    return ls_nn_residual(nn, y, x, nn->scratch.branch, 2 * (uint32_t)block->layer + 1);
}

static ls_status heads_backward(ls_block *block, ls_nn *nn) {
    const ls_shape *shape = nn->shape;
    size_t width = ls_shape_qkv_width(shape), d = shape->head_size;
    ls_attention parts[LS_SLICES_MAX];
    describe(block, nn, parts);
    for (int i = 0; i < nn->S; i++) {
        slice s = slice_of(nn, i);
        ls_attention *a = &parts[i];
        a->dots = nn->scratch.dots + s.first_head * nn->T;
        a->dout = heads_in(nn->scratch.dheads + s.first_head * d, ls_shape_query_width(shape), d);
        a->dq = heads_out(nn->scratch.dqkv + s.q, width, d);
        a->dk = heads_out(nn->scratch.dqkv + s.k, width, d);
        a->dv = heads_out(nn->scratch.dqkv + s.v, width, d);
    }
    ls_attention_call call = call_of(nn, parts);
    LS_TRY(nn->ops->attention_backward(nn->device, &call));
    return ls_shape_is_llama(shape) ? rotate(nn, nn->scratch.dqkv, true) : LS_OK;
}

ls_status ls_attention_half_backward(ls_block *block, ls_nn *nn, const float *x, float *d) {
    const ls_shape *shape = nn->shape;
    ls_half p = ls_attention_params(block, shape);
    ls_saved *saved = &block->saved;
    const ls_scratch *scratch = &nn->scratch;
    const float *branch;
    size_t heads = ls_shape_query_width(shape), width = ls_shape_qkv_width(shape);
    LS_TRY(ls_nn_residual_backward(nn, d, 2 * (uint32_t)block->layer + 1, &branch));
    if (p.out_b) LS_TRY(ls_nn_grad_bias(nn, p.out_b, branch));
    LS_TRY(ls_nn_grad_matrix(nn, &p.out_w->grad, saved->heads, heads, branch, shape->C));
    LS_TRY(ls_nn_project(nn, scratch->dheads, branch, p.out_w, NULL));
    LS_TRY(heads_backward(block, nn));
    if (p.in_b) LS_TRY(ls_nn_grad_bias(nn, p.in_b, scratch->dqkv));
    LS_TRY(ls_nn_norm(nn, scratch->norm, saved->norm1, x, p.norm_w, p.norm_b));
    LS_TRY(ls_nn_grad_matrix(nn, &p.in_w->grad, scratch->dqkv, width, scratch->norm, shape->C));
    LS_TRY(ls_nn_project_sliced(nn, scratch->dnorm, scratch->dqkv, p.in_w, NULL));
    LS_TRY(ls_nn_norm_backward(nn, scratch->norm, scratch->dnorm, saved->norm1, x, p.norm_w, p.norm_b));
    return nn->ops->add(nn->device, d, d, scratch->norm, ls_nn_rows(nn) * shape->C);
}
