/* attention.c: the attention half of a block, forward and backward.
 *
 *     x ─ norm ─ qkv ─ (rotate q, k) ─ attention ─ heads ─ out ─ + x
 *
 * A row of qkv is cut as its weight is: slice by slice, q heads before k heads before v heads. */
#include <assert.h>

#include "nn/transformer.h"
#include "numerics/elementary.h"

enum { PURPOSE_DROPOUT = 0x4154544e }; /* and the layer behind it */

static uint32_t place_of(const ls_block *block) { return 2 * (uint32_t)block->layer + 1; }

/* Heads and places of one slice. */
typedef struct slice {
    size_t heads, kv_heads;
    size_t first_head;    /* q heads before it */
    size_t head_in_model; /* the same, with the heads of earlier workers */
    size_t q, k, v;       /* columns of qkv */
} slice;

static slice slice_of(const ls_nn *nn, int i) {
    const ls_shape *shape = nn->shape;
    size_t base = ls_slice_begin(shape->kv_heads, nn->S, nn->slice0);
    size_t begin = ls_slice_begin(shape->kv_heads, nn->S, nn->slice0 + i) - base;
    size_t end = ls_slice_begin(shape->kv_heads, nn->S, nn->slice0 + i + 1) - base;
    size_t group = shape->H / shape->kv_heads, d = shape->head_size;
    slice s = {.heads = (end - begin) * group, .kv_heads = end - begin, .first_head = begin * group};
    s.head_in_model = (base + begin) * group;
    s.q = begin * (group + 2) * d;
    s.k = s.q + s.heads * d;
    s.v = s.k + s.kv_heads * d;
    return s;
}

/* ---- rotation ---------------------------------------------------------------------------------------------------- */

/* q and k heads of a slice are neighbours. */
static ls_status rotate(const ls_nn *nn, void *qkv, bool back) {
    const ls_shape *shape = nn->shape;
    size_t width = nn->own.qkv;
    for (int i = 0; i < nn->slices; i++) {
        slice s = slice_of(nn, i);
        ls_rope_call call = {.rows = ls_nn_rows(nn), .heads = s.heads + s.kv_heads, .d = shape->head_size};
        call.act = nn->policy.act;
        call.x = call.y = ls_nn_at(nn, qkv, s.q);
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

static ls_attention_in heads_in(const void *at, size_t row_stride, size_t d) {
    return (ls_attention_in){at, row_stride, d};
}

static ls_attention_out heads_out(void *at, size_t row_stride, size_t d) {
    return (ls_attention_out){at, row_stride, d};
}

static ls_attention_drop drop_of(const ls_block *block, const ls_nn *nn, const slice *s) {
    const ls_dropout *dropout = &nn->dropout;
    if (!(dropout->p > 0)) return (ls_attention_drop){.scale = 0};
    assert(nn->first == 0);
    return (ls_attention_drop){
        .key = ls_rng_key_make(dropout->seed, PURPOSE_DROPOUT + (uint32_t)block->layer, dropout->step),
        .threshold = ls_dropout_threshold(dropout->p),
        .scale = ls_dropout_scale(dropout->p),
        .head0 = dropout->first_sequence * nn->shape->H + s->head_in_model,
        .heads = nn->shape->H};
}

static void describe(const ls_block *block, const ls_nn *nn, ls_attention parts[LS_SLICES_MAX]) {
    const ls_shape *shape = nn->shape;
    const ls_saved *saved = &block->saved;
    size_t width = nn->own.qkv, d = shape->head_size, T = nn->first + nn->T;
    size_t queries = nn->first * width;
    for (int i = 0; i < nn->slices; i++) {
        slice s = slice_of(nn, i);
        ls_attention *a = &parts[i];
        *a = (ls_attention){.T = T, .heads = s.heads, .kv_heads = s.kv_heads, .head_size = d, .first_query = nn->first};
        a->act = nn->policy.act;
        a->unit = nn->policy.unit;
        a->scale = (float)ls_pow_f64((double)d, -0.5);
        a->drop = drop_of(block, nn, &s);
        a->q = heads_in(ls_nn_from(nn, saved->qkv, queries + s.q), width, d);
        a->k = heads_in(ls_nn_from(nn, saved->qkv, s.k), width, d);
        a->v = heads_in(ls_nn_from(nn, saved->qkv, s.v), width, d);
        a->o = heads_out(ls_nn_at(nn, saved->heads, s.first_head * d), nn->own.query, d);
        a->m = saved->m + s.first_head * nn->T;
        a->l = saved->l + s.first_head * nn->T;
        a->stat_stride = nn->T;
    }
}

static ls_attention_call call_of(const ls_nn *nn, const ls_attention *parts) {
    return (ls_attention_call){.parts = parts,
                               .nparts = nn->slices,
                               .B = nn->B,
                               .query_rows = nn->T,
                               .key_rows = nn->T,
                               .stat_elems = nn->own.heads * nn->T};
}

ls_status ls_attention_half_forward(ls_block *block, ls_nn *nn, const float *x, float *y) {
    ls_half p = ls_attention_params(block, nn->shape);
    ls_saved *saved = &block->saved;
    ls_attention parts[LS_SLICES_MAX];
    const void *norm;
    void *branch = ls_policy_is_16(&nn->policy) ? saved->branch : nn->scratch.branch;
    assert(nn->first == 0 || nn->B == 1);
    LS_TRY(ls_nn_norm(nn, nn->scratch.norm, saved->norm1, x, p.norm_w, p.norm_b));
    LS_TRY(ls_nn_gather(nn, nn->scratch.norm, nn->policy.act, nn->scratch.rows, &norm));
    void *rows = ls_nn_at(nn, saved->qkv, nn->first * nn->own.qkv);
    LS_TRY(ls_nn_project(nn, rows, norm, p.in_w, p.in_b));
    if (ls_shape_is_llama(nn->shape)) LS_TRY(rotate(nn, rows, false));
    describe(block, nn, parts);
    ls_attention_call call = call_of(nn, parts);
    LS_TRY(nn->ops->attention_forward(nn->device, &call));
    LS_TRY(ls_nn_project_sliced(nn, branch, saved->heads, p.out_w, p.out_b));
    return ls_nn_residual(nn, y, x, branch, nn->policy.act, place_of(block));
}

ls_status ls_attention_half_middle(const ls_block *block, const ls_nn *nn, const float *x, float *y) {
    return ls_nn_residual(nn, y, x, block->saved.branch, nn->policy.act, place_of(block));
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* dqkv from the gradient of the heads in scratch. */
static ls_status heads_backward(ls_block *block, ls_nn *nn, void *dqkv) {
    const ls_shape *shape = nn->shape;
    size_t width = nn->own.qkv, d = shape->head_size;
    ls_attention parts[LS_SLICES_MAX];
    describe(block, nn, parts);
    for (int i = 0; i < nn->slices; i++) {
        slice s = slice_of(nn, i);
        ls_attention *a = &parts[i];
        a->dots = nn->scratch.dots + s.first_head * nn->T;
        a->dout = heads_in(ls_nn_from(nn, nn->scratch.dheads, s.first_head * d), nn->own.query, d);
        a->dq = heads_out(ls_nn_at(nn, dqkv, s.q), width, d);
        a->dk = heads_out(ls_nn_at(nn, dqkv, s.k), width, d);
        a->dv = heads_out(ls_nn_at(nn, dqkv, s.v), width, d);
    }
    ls_attention_call call = call_of(nn, parts);
    LS_TRY(nn->ops->attention_backward(nn->device, &call));
    return ls_shape_is_llama(shape) ? rotate(nn, dqkv, true) : LS_OK;
}

/* `rows` is the branch's gradient for all rows. */
static ls_status weights(ls_block *block, ls_nn *nn, const ls_half *p, const ls_half_grads *g, const float *x,
                         const void *rows) {
    ls_saved *saved = &block->saved;
    const void *norm;
    if (p->out_b) LS_TRY(ls_nn_grad_stream_bias(nn, p->out_b, g->branch));
    LS_TRY(ls_nn_grad_matrix(nn, p->out_w, saved->heads, nn->own.query, nn->own.query, rows, nn->shape->C));
    if (p->in_b) LS_TRY(ls_nn_grad_bias(nn, p->in_b, g->wide));
    LS_TRY(ls_nn_norm(nn, nn->scratch.norm, saved->norm1, x, p->norm_w, p->norm_b));
    LS_TRY(ls_nn_gather(nn, nn->scratch.norm, nn->policy.act, nn->scratch.rows, &norm));
    LS_TRY(ls_nn_grad_matrix(nn, p->in_w, g->wide, nn->own.qkv, nn->own.qkv, norm, nn->shape->C));
    return ls_nn_norm_params(nn, g->dnorm, saved->norm1, x, p->norm_w, p->norm_b);
}

ls_status ls_attention_half_backward(ls_block *block, ls_nn *nn, const float *x, float *d, ls_backward_phase phase) {
    ls_half p = ls_attention_params(block, nn->shape);
    ls_scratch *scratch = &nn->scratch;
    bool both = phase == LS_BACKWARD_BOTH;
    ls_half_grads g = {block->kept.branch1, both ? scratch->dqkv : block->kept.dqkv,
                       both ? scratch->dnorm : block->kept.dnorm1};
    const void *rows;
    if (phase != LS_BACKWARD_WEIGHTS)
        LS_TRY(ls_nn_residual_backward(nn, d, nn->policy.act, place_of(block), both ? NULL : block->kept.branch1,
                                       &g.branch));
    LS_TRY(ls_nn_gather(nn, g.branch, nn->policy.act, scratch->rows2, &rows));
    if (phase != LS_BACKWARD_WEIGHTS) {
        LS_TRY(ls_nn_project(nn, scratch->dheads, rows, p.out_w, NULL));
        LS_TRY(heads_backward(block, nn, g.wide));
        LS_TRY(ls_nn_project_sliced(nn, g.dnorm, g.wide, p.in_w, NULL));
    }
    if (phase != LS_BACKWARD_INPUT) LS_TRY(weights(block, nn, &p, &g, x, rows));
    if (phase == LS_BACKWARD_WEIGHTS) return LS_OK;
    return ls_nn_norm_backward(nn, d, true, g.dnorm, block->saved.norm1, x, p.norm_w);
}
