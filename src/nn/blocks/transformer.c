/* transformer.c: a transformer block: attention, then the MLP. */
#include "nn/blocks/transformer.h"

#include <assert.h>
#include <stdio.h>

#include "numerics/elementary.h"

/* ---- parameters -------------------------------------------------------------------------------------------------- */

/* Returns the parameter as one that slices cut: `units` units of the `parts` parts of a fused weight, with unit_rows
 * rows each. */
static ls_param cut(ls_param param, size_t units, int parts, const size_t *unit_rows) {
    size_t row = 0;
    param.split = true;
    param.units = units;
    param.parts = parts;
    for (int p = 0; p < parts; p++) {
        param.part[p] = (ls_param_part){row, unit_rows[p]};
        row += units * unit_rows[p];
    }
    assert(row == param.rows);
    return param;
}

/* Declares attention and the norm before it; slices cut its matrices by key/value heads. */
static void declare_attention(ls_block *block, const ls_shape *shape, double out_std) {
    size_t group = shape->H / shape->kv_heads * shape->head_size, d = shape->head_size, units = shape->kv_heads;
    size_t rows = ls_shape_qkv_width(shape);
    const size_t qkv[] = {group, d, d};
    ls_block_add(block, LS_ROLE_ATTENTION_NORM, ls_param_vector("attn.norm.weight", shape->C, LS_INIT_ONES));
    if (!ls_shape_has_rms_norm(shape))
        ls_block_add(block, LS_ROLE_ATTENTION_NORM_BIAS, ls_param_vector("attn.norm.bias", shape->C, LS_INIT_ZEROS));
    ls_block_add(block, LS_ROLE_QKV,
                 cut(ls_param_matrix("attn.qkv.weight", rows, shape->C, shape->init_std), units, 3, qkv));
    if (shape->attention_bias)
        ls_block_add(block, LS_ROLE_QKV_BIAS,
                     cut(ls_param_vector("attn.qkv.bias", rows, LS_INIT_ZEROS), units, 3, qkv));
    if (shape->qk_norm) {
        ls_block_add(block, LS_ROLE_Q_NORM, ls_param_vector("attn.q_norm.weight", d, LS_INIT_ONES))->of_slices = true;
        ls_block_add(block, LS_ROLE_K_NORM, ls_param_vector("attn.k_norm.weight", d, LS_INIT_ONES))->of_slices = true;
    }
    ls_block_add(
        block, LS_ROLE_ATTENTION_OUT,
        cut(ls_param_matrix("attn.out.weight", ls_shape_query_width(shape), shape->C, out_std), units, 1, &group));
    if (shape->attention_bias && !shape->qkv_bias_only)
        ls_block_add(block, LS_ROLE_ATTENTION_OUT_BIAS, ls_param_vector("attn.out.bias", shape->C, LS_INIT_ZEROS));
}

/* Declares the MLP and the norm before it; the input matrix of a gated MLP has two parts. */
static void declare_mlp(ls_block *block, const ls_shape *shape, double out_std) {
    size_t rows = ls_shape_mlp_width(shape);
    const size_t one[] = {1, 1};
    int parts = ls_shape_family(shape)->gated ? 2 : 1;
    ls_block_add(block, LS_ROLE_MLP_NORM, ls_param_vector("mlp.norm.weight", shape->C, LS_INIT_ONES));
    if (!ls_shape_has_rms_norm(shape))
        ls_block_add(block, LS_ROLE_MLP_NORM_BIAS, ls_param_vector("mlp.norm.bias", shape->C, LS_INIT_ZEROS));
    ls_block_add(block, LS_ROLE_MLP_IN,
                 cut(ls_param_matrix("mlp.in.weight", rows, shape->C, shape->init_std), shape->hidden, parts, one));
    if (shape->mlp_bias)
        ls_block_add(block, LS_ROLE_MLP_IN_BIAS,
                     cut(ls_param_vector("mlp.in.bias", rows, LS_INIT_ZEROS), shape->hidden, parts, one));
    ls_block_add(block, LS_ROLE_MLP_OUT,
                 cut(ls_param_matrix("mlp.out.weight", shape->hidden, shape->C, out_std), shape->hidden, 1, one));
    if (shape->mlp_bias)
        ls_block_add(block, LS_ROLE_MLP_OUT_BIAS, ls_param_vector("mlp.out.bias", shape->C, LS_INIT_ZEROS));
}

/* Returns the deviation of initial weights of what enters the residual stream: GPT-2 divides it by √(number of
 * additions to the stream). */
static double out_std(const ls_shape *shape) {
    if (!ls_shape_family(shape)->scaled_out) return shape->init_std;
    return shape->init_std * ls_pow_f64(2.0 * (double)shape->L, -0.5);
}

/* Adds the parameters of both halves, named "blocks.N. ...". */
static void declare(ls_block *block, const ls_shape *shape) {
    snprintf(block->label, sizeof block->label, "blocks.%d", block->layer);
    declare_attention(block, shape, out_std(shape));
    declare_mlp(block, shape, out_std(shape));
}

ls_half ls_half_open(ls_block *block, int which) {
    ls_half half = {.place = 2 * (uint32_t)block->layer + 1 + (uint32_t)which};
    ls_transformer_saved *saved = block->saved;
    ls_transformer_kept *kept = block->kept;
    half.stats = saved->norm[which];
    half.kept = kept ? &kept->half[which] : NULL;
    half.scratch = block->scratch;
    half.norm_w = ls_block_param(block, which ? LS_ROLE_MLP_NORM : LS_ROLE_ATTENTION_NORM);
    half.norm_b = ls_block_param(block, which ? LS_ROLE_MLP_NORM_BIAS : LS_ROLE_ATTENTION_NORM_BIAS);
    half.in_w = ls_block_param(block, which ? LS_ROLE_MLP_IN : LS_ROLE_QKV);
    half.in_b = ls_block_param(block, which ? LS_ROLE_MLP_IN_BIAS : LS_ROLE_QKV_BIAS);
    half.out_w = ls_block_param(block, which ? LS_ROLE_MLP_OUT : LS_ROLE_ATTENTION_OUT);
    half.out_b = ls_block_param(block, which ? LS_ROLE_MLP_OUT_BIAS : LS_ROLE_ATTENTION_OUT_BIAS);
    return half;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Takes memory from the arena for the saved tensors of the classes `parts`. With 16-bit types the stream between the
 * halves is not saved, but what attention added. */
static void carve_saved(const ls_block *block, void *state, const ls_nn *nn, unsigned parts, ls_arena *arena) {
    (void)block;
    ls_transformer_saved *saved = state;
    size_t rows = ls_nn_rows(nn), stream = ls_nn_stream_rows(nn);
    bool is_16 = ls_policy_is_16(&nn->policy);
    if (parts & LS_SAVE_KEYS) saved->qkv = ls_nn_take(nn, arena, "activations", rows, nn->own.qkv);
    if (parts & LS_SAVE_ATTENTION) {
        saved->norm[0] = ls_nn_take_f32(arena, "activations", stream, 2);
        saved->heads = ls_nn_take(nn, arena, "activations", rows, nn->own.query);
        saved->m = ls_nn_take_f32(arena, "activations", rows, nn->own.heads);
        saved->l = ls_nn_take_f32(arena, "activations", rows, nn->own.heads);
        if (is_16) saved->branch = ls_nn_take(nn, arena, "activations", stream, nn->shape->C);
        if (!is_16) saved->middle = ls_nn_take_f32(arena, "activations", stream, nn->shape->C);
        saved->norm[1] = ls_nn_take_f32(arena, "activations", stream, 2);
        if (nn->shape->qk_norm) {
            saved->raw_heads =
                ls_nn_take(nn, arena, "activations", rows, ls_widths_heads(&nn->own) * nn->shape->head_size);
            saved->head_rstd = ls_nn_take_f32(arena, "activations", rows, ls_widths_heads(&nn->own));
        }
    }
    if (parts & LS_SAVE_WIDE) {
        saved->wide = ls_nn_take(nn, arena, "activations", rows, nn->own.mlp);
        saved->inner = nn->keeps_act ? ls_nn_take(nn, arena, "activations", rows, nn->own.hidden) : NULL;
    }
}

/* Takes memory from the arena for the gradients that the first phase of backward leaves for the weights. */
static void carve_kept(const ls_block *block, void *state, const ls_nn *nn, ls_arena *arena) {
    (void)block;
    ls_transformer_kept *kept = state;
    size_t rows = ls_nn_rows(nn), stream = ls_nn_stream_rows(nn), C = nn->shape->C;
    for (int i = 0; i < 2; i++) {
        kept->half[i].branch = ls_nn_take(nn, arena, "activations", stream, C);
        kept->half[i].dnorm = ls_nn_take(nn, arena, "activations", stream, C);
        kept->half[i].dwide = ls_nn_take(nn, arena, "activations", rows, i ? nn->own.mlp : nn->own.qkv);
    }
    if (nn->shape->qk_norm)
        kept->dnormed = ls_nn_take(nn, arena, "activations", rows, ls_widths_heads(&nn->own) * nn->shape->head_size);
}

/* Takes scratch memory for QK-norm from the arena. */
static void carve_heads(ls_transformer_scratch *scratch, const ls_nn *nn, bool for_backward, ls_arena *arena) {
    size_t rows = ls_nn_rows(nn), width = nn->own.query;
    if (!nn->shape->qk_norm) return;
    if (ls_policy_is_16(&nn->policy)) scratch->wide_heads = ls_nn_take_f32(arena, "scratch", rows, width);
    scratch->normed =
        for_backward ? ls_nn_take_f32(arena, "scratch", rows, width) : ls_nn_take(nn, arena, "scratch", rows, width);
    if (for_backward)
        scratch->dnormed = ls_nn_take(nn, arena, "scratch", rows, ls_widths_heads(&nn->own) * nn->shape->head_size);
}

/* Takes scratch memory from the arena. In backward the gradients inside the two halves, and the MLP's recomputed
 * activation, share one part of it; `norm`, `branch` and `dnorm` are outside of that part. */
static void carve_scratch(const ls_block *block, void *state, ls_scratch *shared, const ls_nn *nn, bool for_backward,
                          ls_arena *arena) {
    (void)block;
    ls_transformer_scratch *scratch = state;
    size_t rows = ls_nn_rows(nn), stream = ls_nn_stream_rows(nn), C = nn->shape->C;
    scratch->norm = ls_nn_take(nn, arena, "scratch", stream, C);
    scratch->branch = ls_nn_take(nn, arena, "scratch", stream, C);
    if (ls_policy_is_16(&nn->policy)) scratch->middle = ls_nn_take_f32(arena, "scratch", stream, C);
    ls_nn_take_joins(nn, arena, shared);
    if (!for_backward) {
        if (!nn->keeps_act) scratch->wide = ls_nn_take(nn, arena, "scratch", rows, nn->own.hidden);
        carve_heads(scratch, nn, false, arena);
        return;
    }
    if (nn->tp.sequence_parallel) shared->rows2 = ls_nn_take(nn, arena, "scratch", rows, C);
    scratch->dnorm = ls_nn_take(nn, arena, "scratch", stream, C);
    /* The two halves do not run at the same time. */
    ls_arena_phase_begin(arena);
    if (!nn->keeps_act) scratch->wide = ls_nn_take(nn, arena, "scratch", rows, nn->own.hidden);
    scratch->dwide = ls_nn_take(nn, arena, "scratch", rows, nn->own.mlp);
    if (ls_shape_family(nn->shape)->gated) scratch->dact = ls_nn_take(nn, arena, "scratch", rows, nn->own.hidden);
    ls_arena_phase_end(arena);
    ls_arena_phase_begin(arena);
    scratch->dheads = ls_nn_take(nn, arena, "scratch", rows, nn->own.query);
    scratch->dqkv = ls_nn_take(nn, arena, "scratch", rows, nn->own.qkv);
    scratch->dots = ls_nn_take_f32(arena, "scratch", rows, nn->own.heads);
    carve_heads(scratch, nn, true, arena);
    ls_arena_phase_end(arena);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Returns the stream between the halves. With 16-bit types it is not saved, because it is the widest tensor of all:
 * backward recomputes it from what attention added. */
static float *middle_of(const ls_block *block, const ls_nn *nn) {
    const ls_transformer_saved *saved = block->saved;
    const ls_transformer_scratch *scratch = block->scratch;
    return ls_policy_is_16(&nn->policy) ? scratch->middle : saved->middle;
}

/* Recomputes the stream between the halves in scratch, if it is not saved. */
static ls_status remake_middle(const ls_nn *nn, const ls_half *attention, const float *x) {
    if (!ls_policy_is_16(&nn->policy)) return LS_OK;
    return ls_nn_residual(nn, attention->scratch->middle, x, attention->branch, nn->policy.act, attention->place);
}

/* Computes the norm in front of attention, unless the block before this one has done so, and gathers all rows of it. */
static ls_status first_norm(ls_nn *nn, const ls_half *attention, const float *x, const void **norm) {
    if (!nn->fusion.start_is_done) return ls_half_norm(nn, attention, x, norm);
    return ls_nn_gather(nn, attention->scratch->norm, nn->policy.act, nn->scratch.rows, norm);
}

/* Computes y = middle + output of the MLP; if the executor says so, fused with the first norm of the next block. */
static ls_status last_sum(ls_nn *nn, const ls_half *mlp, const float *middle, float *y) {
    if (!nn->fusion.next) return ls_nn_residual(nn, y, middle, mlp->branch, nn->policy.act, mlp->place);
    ls_half next = ls_attention_half(nn->fusion.next, nn);
    return ls_half_sum(nn, &next, mlp, middle, y);
}

/* Computes y = x + attention + MLP, and saves what backward needs. */
static ls_status forward(ls_block *block, ls_nn *nn, const float *x, float *y) {
    ls_half attention = ls_attention_half(block, nn), mlp = ls_mlp_half(block, nn);
    float *middle = middle_of(block, nn);
    const void *norm;
    LS_TRY(first_norm(nn, &attention, x, &norm));
    LS_TRY(ls_half_branch(block, nn, &attention, norm));
    LS_TRY(ls_half_sum_norm(nn, &mlp, &attention, x, middle, &norm));
    LS_TRY(ls_half_branch(block, nn, &mlp, norm));
    return last_sum(nn, &mlp, middle, y);
}

/* Fills saved tensors in again from x: LS_SAVE_ATTENTION those of attention with q, k and v, LS_SAVE_WIDE the input
 * of the MLP's activation. LS_SAVE_KEYS has no effect of its own. */
static ls_status recompute(ls_block *block, ls_nn *nn, const float *x, unsigned parts) {
    const ls_transformer_saved *saved = block->saved;
    ls_half attention = ls_attention_half(block, nn), mlp = ls_mlp_half(block, nn);
    float *middle = middle_of(block, nn);
    const void *norm;
    if (parts & LS_SAVE_ATTENTION) {
        LS_TRY(ls_half_norm(nn, &attention, x, &norm));
        LS_TRY(ls_half_branch(block, nn, &attention, norm));
    }
    if (!(parts & LS_SAVE_WIDE))
        return parts & LS_SAVE_ATTENTION
                   ? ls_nn_residual(nn, middle, x, attention.branch, nn->policy.act, attention.place)
                   : remake_middle(nn, &attention, x);
    /* In fp32 the stream between the halves is kept. */
    if (parts & LS_SAVE_ATTENTION || ls_policy_is_16(&nn->policy))
        LS_TRY(ls_half_sum_norm(nn, &mlp, &attention, x, middle, &norm));
    else
        LS_TRY(ls_half_norm(nn, &mlp, middle, &norm));
    return ls_nn_project(nn, saved->wide, norm, mlp.in_w, mlp.in_b);
}

/* Turns d into the gradient of x and computes the weight gradients, or one of the two (`phase`): the MLP half first,
 * then attention. */
static ls_status backward(ls_block *block, ls_nn *nn, const float *x, float *d, ls_block_pass phase) {
    ls_half attention = ls_attention_half(block, nn), mlp = ls_mlp_half(block, nn);
    mlp.is_rounded = nn->fusion.start_is_done;
    if (phase == LS_BACKWARD_BOTH && ls_nn_norm_is_whole(nn))
        mlp.start = x;
    else
        LS_TRY(remake_middle(nn, &attention, x));
    LS_TRY(ls_half_backward(block, nn, &mlp, &attention, middle_of(block, nn), d, phase));
    return ls_half_backward(block, nn, &attention, NULL, x, d, phase);
}

/* Returns whether two blocks fuse: transformer blocks whose scratch is the same memory, in forward, or in backward in
 * one phase with 16-bit types. Forward, the last sum computes the next block's first norm too. Backward, the last norm
 * also leaves in scratch the rounded gradient that the next block begins with. */
static bool fuses(const ls_block *block, const ls_block *next, const ls_nn *nn, ls_block_pass pass) {
    const ls_transformer_scratch *scratch = block->scratch, *other = next->scratch;
    if (next->kind != block->kind || scratch->norm != other->norm || scratch->branch != other->branch) return false;
    return pass == LS_FORWARD || (pass == LS_BACKWARD_BOTH && ls_policy_is_16(&nn->policy));
}

/* ---- what it costs ----------------------------------------------------------------------------------------------- */

/* Counts collectives. Each half reduces what it adds to the stream, and gathers the output of its norm; backward of a
 * half gathers the gradient of the branch and the norm, and reduces the gradient of the norm. */
static ls_block_traffic traffic(const ls_block *block, ls_block_pass pass, unsigned again) {
    (void)block;
    static const ls_block_traffic of[] = {
        [LS_FORWARD] = {.joins = 2, .gathers = 2},
        [LS_BACKWARD_BOTH] = {.joins = 2, .gathers = 4},
        [LS_BACKWARD_INPUT] = {.joins = 2, .gathers = 2},
        [LS_BACKWARD_WEIGHTS] = {.gathers = 4},
    };
    ls_block_traffic sum = of[pass];
    if (again & LS_SAVE_ATTENTION) sum.joins++, sum.gathers++;
    if (again & LS_SAVE_WIDE) sum.gathers++;
    return sum;
}

/* Adds causal attention, in which a query sees (T + 1) / 2 keys on average. */
static void add_cost(const ls_block *block, const ls_shape *shape, size_t B, size_t T, ls_block_cost *cost) {
    (void)block;
    double seen = (double)B * (double)T * ((double)T + 1) / 2;
    cost->attention_flops += 4 * seen * (double)ls_shape_query_width(shape);
}

const ls_block_kind ls_block_transformer = {
    .name = "transformer",
    .saved_bytes = sizeof(ls_transformer_saved),
    .kept_bytes = sizeof(ls_transformer_kept),
    .scratch_bytes = sizeof(ls_transformer_scratch),
    .has_wide_activation = true,
    .declare = declare,
    .carve_saved = carve_saved,
    .carve_kept = carve_kept,
    .carve_scratch = carve_scratch,
    .forward = forward,
    .recompute = recompute,
    .backward = backward,
    .fuses = fuses,
    .traffic = traffic,
    .add_cost = add_cost,
};
