/* price.c: the operations of a device, as prices: each computes nothing, adds its predicted seconds to its kind, and
 * returns LS_OK. Operations that were not measured take the price of a measured pass that moves about as many bytes. */
#include "plan/native/price.h"

#include <stddef.h>
#include <string.h>

#include "device/dry.h"

/* A price depends on sizes and types alone: most operands are not used. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* Returns the ls_price that contains the device. */
static ls_price *price_of(ls_device *device) {
    return (ls_price *)(void *)((char *)device - offsetof(ls_price, device));
}

/* Adds the price of one pass over rows × columns elements. */
static ls_status pass(ls_device *device, ls_price_kind kind, ls_native_pass which, ls_dtype act, size_t rows,
                      size_t columns) {
    ls_price *p = price_of(device);
    p->seconds[kind] += ls_native_pass_seconds(p->rates, which, act != LS_F32, (double)rows * (double)columns);
    return LS_OK;
}

/* A copy costs two passes of setting as many bytes, since it reads and writes. */
static ls_status price_copy(ls_device *d, void *to, const void *from, size_t bytes) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_SET, LS_F32, bytes / sizeof(float), 2);
}

/* Filling bytes costs as much as setting floats. */
static ls_status price_fill(ls_device *d, void *to, unsigned char byte, size_t bytes) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_SET, LS_F32, bytes / sizeof(float), 1);
}

/* ---- matmuls and attention --------------------------------------------------------------------------------------- */

/* Returns the seconds of a matmul, from the cache if the same shape was priced lately. */
static double matmul_seconds(ls_price *p, ls_native_matmul key) {
    size_t h = key.m * 31 + key.n * 17 + key.k * 7 + (size_t)key.form * 3 + (size_t)key.slices * 5 + (size_t)key.type;
    ls_native_matmul *at = &p->cache[h % LS_PRICE_CACHE];
    bool is_it = at->seconds > 0 && at->form == key.form && at->type == key.type && at->slices == key.slices &&
                 at->m == key.m && at->n == key.n && at->k == key.k;
    if (is_it) return at->seconds;
    *at = key;
    at->seconds = ls_native_matmul_seconds(p->rates, key.form, key.type, key.m, key.n, key.k, key.slices);
    return at->seconds;
}

/* Returns whether the GPU fuses this epilogue; false on a CPU. Not a price: blocks ask it to decide what to call. */
static bool gemm_ends(ls_device *device, const ls_gemm *g) {
    ls_device *dry = price_of(device)->dry;
    return dry && dry->ops->gemm_ends && dry->ops->gemm_ends(dry, g);
}

/* Returns the seconds that an epilogue adds. If it was not measured, it costs as much as separate passes. */
static double end_seconds(const ls_native_rates *r, const ls_gemm *g) {
    double elems = (double)g->m * (double)g->n;
    bool is_16 = g->dtype != LS_F32;
    if (g->end == LS_GEMM_GATED) return ls_native_pass_seconds(r, LS_PASS_GATED, is_16, elems / 2);
    ls_native_pass whole = g->end == LS_GEMM_GELU ? LS_PASS_MATMUL_GELU : LS_PASS_MATMUL_GELU_GRAD;
    if (g->end == LS_GEMM_END_NONE) return 0;
    if (g->end != LS_GEMM_GATED_GRAD && ls_native_has_pass(r, whole, is_16))
        return ls_native_pass_seconds(r, whole, is_16, elems);
    bool gated = g->end == LS_GEMM_GATED_GRAD, forward = g->end == LS_GEMM_GELU || g->y;
    double seconds = forward ? ls_native_pass_seconds(r, gated ? LS_PASS_GATED : LS_PASS_GELU, is_16, elems) : 0;
    if (g->end == LS_GEMM_GELU) return seconds;
    return seconds + ls_native_pass_seconds(r, gated ? LS_PASS_GATED_BACK : LS_PASS_GELU_BACK, is_16, elems);
}

/* A matmul with a side as wide as the vocabulary counts as LS_PRICE_ENDS. Siblings and accumulation cost as
 * slices do. */
static ls_status price_gemm(ls_device *device, const ls_gemm *g) {
    ls_price *p = price_of(device);
    size_t wide = g->form == LS_GEMM_NT ? g->n : g->form == LS_GEMM_NN ? g->k : g->m;
    bool of_head = p->vocabulary > 0 && wide == p->vocabulary;
    int slices = (g->slices > 1 ? g->slices : 1) + g->siblings + g->accumulate;
    ls_native_matmul key = {g->form, ls_native_type_of(g->dtype, g->unit), g->m, g->n, g->k, slices, 0};
    p->seconds[of_head ? LS_PRICE_ENDS : LS_PRICE_MATMULS] += matmul_seconds(p, key) + end_seconds(p->rates, g);
    return LS_OK;
}

/* Prices attention by its query-key pairs: only causal attention was measured, and a window has fewer. */
static ls_status price_attention(ls_device *device, const ls_attention_call *call, bool backward) {
    ls_price *p = price_of(device);
    const ls_attention *a = &call->parts[0];
    double heads = 0;
    for (int i = 0; i < call->nparts; i++) heads += (double)call->parts[i].heads;
    int type = ls_native_type_of(a->act, a->unit);
    heads *= (double)call->B;
    if (!ls_mask_is_causal(a->mask)) heads *= ls_mask_pairs(a->mask, a->T) / ls_mask_pairs(LS_MASK_CAUSAL, a->T);
    p->seconds[LS_PRICE_ATTENTION] += ls_native_attention_seconds(p->rates, backward, type, a->head_size, a->T, heads);
    if (a->drop.scale > 0)
        p->seconds[LS_PRICE_ATTENTION] += ls_native_dropped_seconds(p->rates, backward, type, a->T, heads);
    return LS_OK;
}

/* Prices attention forward. */
static ls_status price_attention_forward(ls_device *d, const ls_attention_call *call) {
    return price_attention(d, call, false);
}
/* Prices attention backward. */
static ls_status price_attention_backward(ls_device *d, const ls_attention_call *call) {
    return price_attention(d, call, true);
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* Returns whether the device does this in one fused pass. */
static bool is_one(ls_device *device, ls_native_pass which, ls_dtype act) {
    return ls_native_has_pass(price_of(device)->rates, which, act != LS_F32);
}

/* Prices the addition of a branch as a separate pass. */
static ls_status add_branch(ls_device *d, const ls_norm_call *c) {
    ls_native_pass which = c->drop.scale != 0 ? LS_PASS_DROPOUT : LS_PASS_ADD;
    return pass(d, LS_PRICE_PASSES, which, c->act, c->rows, c->C);
}

/* Prices a norm. Dropout inside it is free, because the kernel waits for memory meanwhile. */
static ls_status price_norm_forward(ls_device *d, const ls_norm_call *c) {
    ls_native_pass whole = c->rms ? LS_PASS_RMS_SUM : LS_PASS_NORM_SUM;
    if (c->branch && is_one(d, whole, c->act)) return pass(d, LS_PRICE_PASSES, whole, c->act, c->rows, c->C);
    if (c->branch) LS_TRY(add_branch(d, c));
    return pass(d, LS_PRICE_PASSES, c->rms ? LS_PASS_RMS : LS_PASS_NORM, c->act, c->rows, c->C);
}

/* Prices the gradient of a norm. On a GPU it may also write y again, which costs its bytes. */
static ls_status gradient_of_norm(ls_device *d, const ls_norm_call *c) {
    bool one = is_one(d, c->rms ? LS_PASS_RMS_SUM : LS_PASS_NORM_SUM, c->act);
    size_t copies = (size_t)c->remake * ls_dtype_bytes(c->act), bytes = 3 * sizeof(float) + ls_dtype_bytes(c->act);
    ls_native_pass which = c->rms ? LS_PASS_RMS_BACK : LS_PASS_NORM_BACK;
    if (one && c->dx_copy) {
        which = c->rms ? LS_PASS_RMS_BACK_COPY : LS_PASS_NORM_BACK_COPY;
        bytes += ls_dtype_bytes(c->act);
    }
    if (one) return pass(d, LS_PRICE_PASSES, which, c->act, c->rows * c->C * (bytes + copies) / bytes, 1);
    if (c->remake) LS_TRY(pass(d, LS_PRICE_PASSES, c->rms ? LS_PASS_RMS : LS_PASS_NORM, c->act, c->rows, c->C));
    ls_native_pass copy = c->drop.scale != 0 ? LS_PASS_DROPOUT : LS_PASS_CONVERT;
    if (c->dx_copy) LS_TRY(pass(d, LS_PRICE_PASSES, copy, LS_BF16, c->rows, c->C));
    return pass(d, LS_PRICE_PASSES, which, c->act, c->rows, c->C);
}

/* Prices the gradients of a norm's weights. */
static ls_status price_norm_params(ls_device *d, const ls_norm_call *c) {
    return pass(d, LS_PRICE_PASSES, c->rms ? LS_PASS_RMS_PARAMS : LS_PASS_NORM_PARAMS, c->act, c->rows, c->C);
}

/* Prices the backward pass of a norm as separate operations. */
static ls_status price_norm_backward(ls_device *d, const ls_norm_call *c) {
    if (c->branch) LS_TRY(add_branch(d, c));
    LS_TRY(gradient_of_norm(d, c));
    if (!c->params) return LS_OK;
    LS_TRY(price_norm_params(d, c));
    return c->dx_sums ? pass(d, LS_PRICE_PASSES, LS_PASS_BIAS_GRAD, c->act, c->rows, c->C) : LS_OK;
}

/* Only GELU is measured by itself. A gate is a SiLU and a product, and a sigmoid costs what the one in it does. */
static ls_status price_act_forward(ls_device *d, const ls_act_call *c) {
    switch (c->fn) {
    case LS_ACT_SILU:
    case LS_ACT_SIGMOID: return pass(d, LS_PRICE_PASSES, LS_PASS_GATED, c->act, c->n, 1);
    case LS_ACT_RELU: return price_copy(d, c->y, c->x, c->n * ls_dtype_bytes(c->act));
    default: return pass(d, LS_PRICE_PASSES, LS_PASS_GELU, c->act, c->n, 1);
    }
}

/* Prices backward of ReLU and the sigmoid as a sum: it reads two tensors and writes one. */
static ls_status price_act_backward(ls_device *d, const ls_act_call *c) {
    ls_native_pass which = c->fn == LS_ACT_GELU   ? LS_PASS_GELU_BACK
                           : c->fn == LS_ACT_SILU ? LS_PASS_GATED_BACK
                                                  : LS_PASS_ADD;
    return pass(d, LS_PRICE_PASSES, which, c->act, c->n, 1);
}

/* Prices a gate by the measured one, with SiLU; a gate with GELU, which moves as many bytes, costs as GELU if that
 * is slower. */
static ls_status gate(ls_device *d, const ls_gated_call *c, ls_native_pass silu, ls_native_pass gelu) {
    const ls_native_rates *r = price_of(d)->rates;
    const bool is_16 = c->act != LS_F32;
    const double elems = (double)c->rows * (double)c->columns;
    bool is_gelu = c->fn == LS_GATE_GELU &&
                   ls_native_pass_seconds(r, gelu, is_16, elems) > ls_native_pass_seconds(r, silu, is_16, elems);
    return pass(d, LS_PRICE_PASSES, is_gelu ? gelu : silu, c->act, c->rows, c->columns);
}

/* Prices an MLP's gate forward. */
static ls_status price_gated_forward(ls_device *d, const ls_gated_call *c) {
    return gate(d, c, LS_PASS_GATED, LS_PASS_GELU);
}
/* Prices an MLP's gate backward. */
static ls_status price_gated_backward(ls_device *d, const ls_gated_call *c) {
    return gate(d, c, LS_PASS_GATED_BACK, LS_PASS_GELU_BACK);
}

/* Prices bias and GELU as one pass where the device fuses them, else as GELU. */
static ls_status price_bias_gelu_forward(ls_device *d, const ls_bias_gelu_call *c) {
    ls_native_pass which = is_one(d, LS_PASS_BIAS_GELU, LS_F32) ? LS_PASS_BIAS_GELU : LS_PASS_GELU;
    return pass(d, LS_PRICE_PASSES, which, LS_F32, c->rows, c->columns);
}

/* Returns the tokens of all groups. */
static size_t rows_of(const ls_token_groups *groups) { return groups->bounds[groups->groups] * groups->T; }

/* Prices the gradient of a bias: a sum over all tokens of the groups. */
static ls_status price_bias_grad(ls_device *d, const ls_bias_grad_call *c) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_BIAS_GRAD, c->act, rows_of(c->groups), c->columns);
}

/* Prices the addition of a bias to all rows. */
static ls_status price_bias_add(ls_device *d, const ls_bias_add_call *c) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_BIAS_ADD, c->act, c->rows, c->columns);
}

/* Prices dropout with the addition to the residual stream. */
static ls_status price_dropout_add(ls_device *d, const ls_dropout_call *c) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_DROPOUT, c->x_dtype, c->rows, c->columns);
}

/* Prices the rotary embedding; forward and backward cost the same. */
static ls_status price_rope(ls_device *d, const ls_rope_call *c) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_ROPE, c->act, c->rows, c->heads * c->d);
}

/* Prices the gathering of embeddings. */
static ls_status price_embed_forward(ls_device *d, const ls_embed_call *c) {
    return pass(d, LS_PRICE_ENDS, LS_PASS_EMBED, c->token_dtype, c->tokens->rows, c->tokens->C);
}

/* Prices the gradient of the token table, by tokens. */
static ls_status price_embed_token_grad(ls_device *d, const ls_token_grad_call *c) {
    return pass(d, LS_PRICE_ENDS, LS_PASS_EMBED_GRAD, LS_F32, c->tokens->rows, c->tokens->C);
}

/* Gradients of positions cost as an addition over all tokens. */
static ls_status price_embed_position_grad(ls_device *d, const ls_position_grad_call *c) {
    return pass(d, LS_PRICE_ENDS, LS_PASS_ADD, LS_F32, rows_of(c->groups), c->C);
}

/* Defines the price of one pass of the loss over the slices of the vocabulary that the call has. */
#define LOSS(name, which)                                                                                              \
    static ls_status name(ls_device *d, const ls_loss_call *c) {                                                       \
        ls_dtype type = c->dz ? c->dz_dtype : c->z_dtype;                                                              \
        return pass(d, LS_PRICE_ENDS, which, type, c->rows, c->bounds[c->slices] - c->bounds[0]);                      \
    }
LOSS(loss_rows, LS_PASS_LOSS)
LOSS(loss_max, LS_PASS_LOSS_MAX)
LOSS(loss_sums, LS_PASS_LOSS_SUMS)
LOSS(loss_grad, LS_PASS_LOSS_GRAD)
#undef LOSS

/* The loss of each row costs as an addition of one element a row. */
static ls_status price_loss_values(ls_device *d, const ls_loss_call *c) {
    return pass(d, LS_PRICE_ENDS, LS_PASS_ADD, LS_F32, c->rows, 1);
}

/* Prices the update of all pieces as one launch on a GPU, and one after another on a CPU; 16-bit copies
 * cost as bf16. */
static ls_status price_update(ls_device *d, const ls_update_call *c) {
    const bool is_gpu = price_of(d)->dry != NULL;
    ls_dtype type = LS_F32;
    size_t n = 0;
    for (int i = 0; i < c->count; i++) {
        const ls_update_piece *piece = &c->pieces[i];
        const ls_native_pass which = piece->step->rule == LS_OPTIMIZER_ADAMW ? LS_PASS_ADAMW : LS_PASS_SGD;
        if (piece->copy) type = LS_BF16;
        n += piece->n;
        if (is_gpu && i + 1 < c->count) continue;
        LS_TRY(pass(d, LS_PRICE_OPTIMIZER, which, type, n, 1));
        type = LS_F32;
        n = 0;
    }
    return LS_OK;
}

/* Prices the sums of squares of all pieces as one pass, as part of the optimizer. */
static ls_status price_square_sums(ls_device *d, const ls_square_sums_call *c) {
    size_t n = 0;
    for (int i = 0; i < c->count; i++) n += c->pieces[i].n;
    return pass(d, LS_PRICE_OPTIMIZER, LS_PASS_SQUARES, LS_F32, n, 1);
}

/* Sums of optimizer state cost as sums of squares do. */
static ls_status price_state_sums(ls_device *d, const ls_state_sums_call *c) {
    size_t n = 0;
    for (int i = 0; i < c->count; i++) n += c->pieces[i].n;
    return pass(d, LS_PRICE_OPTIMIZER, LS_PASS_SQUARES, LS_F32, n, 1);
}

/* Adding losses costs as an addition of one element for each token. */
static ls_status price_add_losses(ls_device *d, const ls_add_losses_call *c) {
    return pass(d, LS_PRICE_ENDS, LS_PASS_ADD, LS_F32, c->sequences * c->T, 1);
}

/* Scaling costs as setting does. */
static ls_status price_scale(ls_device *d, const ls_scale_call *c) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_SET, LS_F32, c->n, 1);
}

/* Prices a conversion, in any direction, by that of fp32 to bf16. */
static ls_status price_convert(ls_device *d, const ls_convert_call *c) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_CONVERT, LS_BF16, c->n, 1);
}

/* Rounding costs as conversion to bf16 does. */
static ls_status price_round_to(ls_device *d, const ls_round_call *c) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_CONVERT, LS_BF16, c->n, 1);
}

/* Prices the addition of two arrays. */
static ls_status price_add(ls_device *d, const ls_add_call *c) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_ADD, c->b_dtype, c->n, 1);
}

/* A sum of n leaves costs n − 1 additions, at least one. */
static ls_status price_tree_sum(ls_device *d, const ls_tree_sum_call *c) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_ADD, LS_F32, c->elems, (size_t)(c->leaves > 1 ? c->leaves - 1 : 1));
}

/* Likewise for the rows of all pieces. */
static ls_status price_tree_rows(ls_device *d, const ls_tree_rows_call *c) {
    size_t n = 0;
    for (int i = 0; i < c->count; i++) n += c->pieces[i].n;
    return pass(d, LS_PRICE_PASSES, LS_PASS_ADD, LS_F32, n, (size_t)(c->leaves > 1 ? c->leaves - 1 : 1));
}

/* Copies of rows cost as a copy of as many bytes. */
static ls_status price_copy_rows(ls_device *d, const ls_copy_rows_call *c) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_SET, LS_F32, c->rows * c->bytes / sizeof(float), 2);
}

/* A maximum over `count` arrays costs as so many additions. */
static ls_status price_max(ls_device *d, const ls_max_call *c) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_ADD, LS_F32, c->elems, (size_t)c->count);
}

/* Prices setting an array to a number. */
static ls_status price_set(ls_device *d, const ls_set_call *c) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_SET, LS_F32, c->n, 1);
}

/* Counting costs as an addition. */
static ls_status price_count(ls_device *d, const ls_count_call *c) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_ADD, LS_F32, c->n, 1);
}

/* Comparing two arrays costs as an addition. */
static ls_status price_difference(ls_device *d, const ls_difference_call *c) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_ADD, LS_F32, c->n, 1);
}

/* Prices the hash of an array, as part of the optimizer. */
static ls_status price_hash(ls_device *d, const ls_hash_call *c) {
    return pass(d, LS_PRICE_OPTIMIZER, LS_PASS_HASH, LS_F32, c->bytes / sizeof(float), 1);
}

/* A search for non-finite numbers costs as an addition. */
static ls_status price_find_bad(ls_device *d, const ls_find_bad_call *c) {
    return pass(d, LS_PRICE_PASSES, LS_PASS_ADD, LS_F32, c->n, 1);
}

static const ls_ops ops = {.gemm = price_gemm,
                           .gemm_ends = gemm_ends,
                           .norm_forward = price_norm_forward,
                           .norm_backward = price_norm_backward,
                           .norm_params = price_norm_params,
                           .act_forward = price_act_forward,
                           .act_backward = price_act_backward,
                           .gated_forward = price_gated_forward,
                           .gated_backward = price_gated_backward,
                           .bias_gelu_forward = price_bias_gelu_forward,
                           .bias_grad = price_bias_grad,
                           .bias_add = price_bias_add,
                           .dropout_add = price_dropout_add,
                           .rope_forward = price_rope,
                           .rope_backward = price_rope,
                           .embed_forward = price_embed_forward,
                           .embed_token_grad = price_embed_token_grad,
                           .embed_position_grad = price_embed_position_grad,
                           .loss_rows = loss_rows,
                           .loss_max = loss_max,
                           .loss_sums = loss_sums,
                           .loss_values = price_loss_values,
                           .loss_grad = loss_grad,
                           .attention_forward = price_attention_forward,
                           .attention_backward = price_attention_backward,
                           .update = price_update,
                           .square_sums = price_square_sums,
                           .state_sums = price_state_sums,
                           .add_losses = price_add_losses,
                           .scale = price_scale,
                           .convert = price_convert,
                           .round = price_round_to,
                           .add = price_add,
                           .copy_rows = price_copy_rows,
                           .tree_sum = price_tree_sum,
                           .tree_rows = price_tree_rows,
                           .max = price_max,
                           .set = price_set,
                           .count = price_count,
                           .difference = price_difference,
                           .hash = price_hash,
                           .find_bad = price_find_bad};

void ls_price_open(ls_price *price, const ls_native_rates *rates, size_t vocabulary, ls_device *dry) {
    *price = (ls_price){.device = {.name = "price", .calls = &price->calls, .ops = &ops}, .rates = rates};
    price->calls = ls_dry_calls;
    price->calls.copy = price_copy;
    price->calls.fill = price_fill;
    price->vocabulary = vocabulary;
    price->dry = dry;
}

void ls_price_clear(ls_price *price) { memset(price->seconds, 0, sizeof price->seconds); }

double ls_price_sum(const ls_price *price) {
    double sum = 0;
    for (int k = 0; k < LS_PRICE_KINDS; k++) sum += price->seconds[k];
    return sum;
}
