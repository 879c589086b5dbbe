/* passes.c: measures passes over arrays, in the nearest caches and beyond them, in fp32 and in 16-bit forms. */
#include "lab/probe/passes.h"

#include <string.h>

#include "lab/probe/worker.h"

enum { SLICES = 8, COLUMNS = 256, HEAD = 64 };

typedef ls_probe_pass passes;

/* Makes the call of a norm over the arrays, without groups and fused parts. */
static ls_norm_call make_norm_call(const passes *p) {
    return (ls_norm_call){.rows = p->rows,
                          .C = p->columns,
                          .act = p->act,
                          .eps = 1e-5F,
                          .x = p->at[0],
                          .x_stride = p->columns,
                          .w = p->vector,
                          .b = p->vector + p->columns,
                          .y = p->at[1],
                          .y_stride = p->columns,
                          .mean = p->at[4],
                          .rstd = p->at[4] + p->rows,
                          .dy = p->at[2],
                          .dy_stride = p->columns,
                          .dx = p->at[3],
                          .dx_stride = p->columns,
                          .add = true,
                          .dw = p->vector + p->columns * (size_t)p->slices,
                          .db = p->vector + 2 * p->columns * (size_t)p->slices};
}

/* Runs a pass of a norm, or of the gradient of a bias. */
static ls_status run_norm(const passes *p, const ls_token_groups *groups) {
    const ls_ops *ops = p->device->ops;
    ls_norm_call c = make_norm_call(p);
    c.groups = groups;
    c.rms = p->which == LS_PASS_RMS || p->which == LS_PASS_RMS_BACK || p->which == LS_PASS_RMS_PARAMS ||
            p->which == LS_PASS_RMS_SUM || p->which == LS_PASS_RMS_BACK_COPY;
    if (p->which == LS_PASS_NORM_SUM || p->which == LS_PASS_RMS_SUM) {
        c.branch = p->at[2];
        c.sum = p->at[3];
    }
    if (p->which == LS_PASS_NORM_BACK_COPY || p->which == LS_PASS_RMS_BACK_COPY) c.dx_copy = p->at[5];
    switch (p->which) {
    case LS_PASS_NORM:
    case LS_PASS_RMS:
    case LS_PASS_NORM_SUM:
    case LS_PASS_RMS_SUM: return ops->norm_forward(p->device, &c);
    case LS_PASS_NORM_BACK:
    case LS_PASS_RMS_BACK:
    case LS_PASS_NORM_BACK_COPY:
    case LS_PASS_RMS_BACK_COPY: return ops->norm_backward(p->device, &c);
    case LS_PASS_NORM_PARAMS:
    case LS_PASS_RMS_PARAMS: return ops->norm_params(p->device, &c);
    default:
        return ops->bias_grad(p->device, &(ls_bias_grad_call){c.dw, p->at[0], p->act, p->columns, p->columns, groups});
    }
}

/* Runs the rotary embedding, in place. */
static ls_status run_rope(const passes *p) {
    ls_rope_call c = {
        .act = p->act, .y = p->at[0], .x = p->at[0], .rows = p->rows, .heads = p->columns / HEAD, .d = HEAD};
    c.x_row_stride = c.y_row_stride = p->columns;
    c.x_head_stride = c.y_head_stride = HEAD;
    c.cos = p->at[4];
    c.sin = p->at[5];
    c.period = p->rows < 1024 ? p->rows : 1024;
    return p->device->ops->rope_forward(p->device, &c);
}

/* Runs the gate of an MLP, forward or backward. */
static ls_status run_gated(const passes *p) {
    ls_gated_call c = {.rows = p->rows, .columns = p->columns, .act = p->act, .gate = p->at[0], .up = p->at[1]};
    c.in_stride = c.y_stride = c.dy_stride = c.din_stride = p->columns;
    c.y = p->at[2];
    c.dy = p->at[3];
    c.dgate = p->at[4];
    c.dup = p->at[5];
    return (p->which == LS_PASS_GATED ? p->device->ops->gated_forward : p->device->ops->gated_backward)(p->device, &c);
}

/* Runs dropout with the addition to the residual stream. */
static ls_status run_dropout(const passes *p) {
    ls_dropout_call c = {
        .rows = p->rows, .columns = p->columns, .x = p->at[0], .x_dtype = p->act, .residual = p->at[1]};
    c.x_stride = c.residual_stride = c.y_stride = p->columns;
    c.y = p->at[2];
    ls_drop_set_rate(&c.drop, .1);
    return p->device->ops->dropout_add(p->device, &c);
}

/* Runs bias and GELU in one pass. */
static ls_status run_bias_gelu(const passes *p) {
    ls_bias_gelu_call c = {.rows = p->rows, .columns = p->columns, .c = p->at[0], .bias = p->vector, .pre = p->at[1]};
    c.c_stride = c.pre_stride = c.y_stride = p->columns;
    c.y = p->at[2];
    return p->device->ops->bias_gelu_forward(p->device, &c);
}

/* Runs a pass of an activation, a bias, rope or dropout. */
static ls_status run_activation(const passes *p) {
    const ls_ops *ops = p->device->ops;
    switch (p->which) {
    case LS_PASS_GELU:
        return ops->act_forward(p->device, &(ls_act_call){LS_ACT_GELU, p->at[1], NULL, p->at[0], p->act, p->elems});
    case LS_PASS_GELU_BACK:
        return ops->act_backward(p->device,
                                 &(ls_act_call){LS_ACT_GELU, p->at[2], p->at[2], p->at[0], p->act, p->elems});
    case LS_PASS_GATED:
    case LS_PASS_GATED_BACK: return run_gated(p);
    case LS_PASS_BIAS_ADD:
        return ops->bias_add(p->device, &(ls_bias_add_call){p->at[1], p->act, p->columns, p->at[0], p->columns,
                                                            p->vector, p->rows, p->columns});
    case LS_PASS_BIAS_GELU: return run_bias_gelu(p);
    case LS_PASS_ROPE: return run_rope(p);
    default: return run_dropout(p);
    }
}

/* Makes a loss call. On a GPU rows of logits are longer, and their gradient overwrites them, as in a step. */
static ls_loss_call make_loss_call(const passes *p, size_t bounds[SLICES + 1]) {
    size_t rows = p->elems / p->vocabulary;
    for (int i = 0; i <= p->loss_slices; i++) bounds[i] = p->vocabulary * (size_t)i / (size_t)p->loss_slices;
    ls_loss_call c = {.rows = rows, .z = p->at[0], .z_dtype = p->logits, .z_stride = p->vocabulary, .bounds = bounds};
    c.slices = (size_t)p->loss_slices;
    c.targets = p->ids;
    c.m = p->at[1];
    c.l = p->at[1] + rows;
    c.loss = p->at[1] + 2 * rows;
    c.z_target = p->at[1] + 3 * rows;
    c.sums = p->at[2];
    c.dz = p->in_place ? p->at[0] : p->at[3];
    if (p->which != LS_PASS_LOSS && p->which != LS_PASS_LOSS_GRAD) c.dz = NULL;
    c.dz_dtype = p->act;
    c.dz_stride = p->vocabulary * (p->in_place ? ls_dtype_bytes(p->logits) / ls_dtype_bytes(p->act) : 1);
    c.g = 1;
    return c;
}

/* Runs a pass of embedding or loss. */
static ls_status run_ends(const passes *p, const ls_token_groups *groups) {
    const ls_ops *ops = p->device->ops;
    ls_embed_tokens tokens = {.ids = p->ids, .id_begin = 0, .id_end = p->id_end, .rows = p->rows, .C = p->columns};
    size_t bounds[SLICES + 1];
    ls_loss_call c = make_loss_call(p, bounds);
    switch (p->which) {
    case LS_PASS_EMBED:
        return ops->embed_forward(
            p->device, &(ls_embed_call){p->at[1], p->columns, p->at[0], LS_F32, p->at[2], 0, p->rows, &tokens});
    case LS_PASS_EMBED_GRAD:
        return ops->embed_token_grad(p->device, &(ls_token_grad_call){p->at[5], p->at[0], p->columns, &tokens, groups});
    case LS_PASS_LOSS: return ops->loss_rows(p->device, &c);
    case LS_PASS_LOSS_MAX: return ops->loss_max(p->device, &c);
    case LS_PASS_LOSS_SUMS: return ops->loss_sums(p->device, &c);
    default: return ops->loss_grad(p->device, &c);
    }
}

/* Runs a pass over flat vectors: optimizer, sums, conversions. */
static ls_status run_flat(const passes *p) {
    const ls_ops *ops = p->device->ops;
    /* A rate of 0 leaves the weights as they are. */
    const ls_update_step adamw = {.rule = LS_OPTIMIZER_ADAMW,
                                  .factor = 1,
                                  .beta1 = .9F,
                                  .beta1_rest = .1F,
                                  .beta2 = .95F,
                                  .beta2_rest = .05F,
                                  .root = 1,
                                  .epsilon = 1e-8F,
                                  .decay = 1};
    const ls_update_step sgd = {.rule = LS_OPTIMIZER_SGD, .factor = 1, .momentum = .9F};
    bool is_adamw = p->which == LS_PASS_ADAMW;
    switch (p->which) {
    case LS_PASS_ADAMW:
    case LS_PASS_SGD:
        return ops->update(p->device,
                           &(ls_update_call){&(ls_update_piece){.w = p->at[0],
                                                                .moment = {p->at[1], is_adamw ? p->at[2] : NULL},
                                                                .copy = p->act != LS_F32 ? p->at[4] : NULL,
                                                                .copy_dtype = LS_BF16,
                                                                .g = p->at[3],
                                                                .step = is_adamw ? &adamw : &sgd,
                                                                .n = p->elems},
                                             1});
    case LS_PASS_SQUARES:
        return ops->square_sums(
            p->device, &(ls_square_sums_call){(int64_t *)(void *)p->at[4], &(ls_square_piece){p->at[0], p->elems}, 1});
    case LS_PASS_ADD: return ops->add(p->device, &(ls_add_call){p->at[2], p->at[0], p->at[1], p->act, p->elems});
    case LS_PASS_SET: return ops->set(p->device, &(ls_set_call){p->at[2], -0.0F, p->elems});
    case LS_PASS_CONVERT:
        return ops->convert(p->device, &(ls_convert_call){p->at[1], LS_BF16, p->at[0], LS_F32, p->elems});
    default:
        return ops->hash(p->device,
                         &(ls_hash_call){(ls_hash128 *)(void *)p->at[4], p->at[0], p->elems * sizeof(float)});
    }
}

/* Returns whether run_norm() runs the pass. */
static bool is_norm(ls_native_pass which) {
    return which <= LS_PASS_RMS_PARAMS || which == LS_PASS_BIAS_GRAD ||
           (which >= LS_PASS_NORM_SUM && which <= LS_PASS_RMS_BACK_COPY);
}

ls_status ls_probe_pass_run(void *ctx) {
    const passes *p = ctx;
    size_t sequences = p->rows < p->T ? 1 : p->rows / p->T, bounds[SLICES + 1];
    int count = p->groups < (int)sequences ? p->groups : (int)sequences;
    for (int g = 0; g <= count; g++) bounds[g] = sequences * (size_t)g / (size_t)count;
    ls_token_groups groups = {.T = p->rows / sequences, .slices = p->slices, .groups = count, .bounds = bounds};
    groups.block = p->block;
    if (is_norm(p->which)) return run_norm(p, &groups);
    if (p->which <= LS_PASS_DROPOUT || p->which == LS_PASS_BIAS_GELU) return run_activation(p);
    if (p->which <= LS_PASS_LOSS_GRAD) return run_ends(p, &groups);
    return run_flat(p);
}

/* Knows that conversion exists only in 16 bits, and that the loss has a 16-bit gradient if that overwrites the logits,
 * and 16-bit logits with the matrix unit of GPUs. */
bool ls_probe_pass_has(ls_native_pass which, bool is_16, bool is_gpu) {
    bool both = which <= LS_PASS_DROPOUT || which == LS_PASS_ADAMW || which == LS_PASS_SGD || which == LS_PASS_ADD;
    bool of_loss = which >= LS_PASS_LOSS && which <= LS_PASS_LOSS_GRAD;
    if (which >= LS_PASS_MATMUL_GELU || (which >= LS_PASS_FUSED && !is_gpu)) return false;
    if (which == LS_PASS_CONVERT || which == LS_PASS_NORM_BACK_COPY || which == LS_PASS_RMS_BACK_COPY) return is_16;
    if (which == LS_PASS_NORM_SUM || which == LS_PASS_RMS_SUM) return true;
    return both || (is_gpu && of_loss) || !is_16;
}

/* Makes statistics and moments positive, so that passes compute with valid numbers. */
static void make_valid(passes *p) {
    for (size_t i = 0; i < LS_NATIVE_PASS_LARGE; i++) {
        p->at[2][i] = p->at[2][i] * .5F + .75F;
        p->at[4][i] = p->at[4][i] * .25F + 1;
    }
}

/* Measures a pass at both sizes. */
static ls_status fill_pass(passes *p, const ls_probe_worker *w, ls_native_pass which, bool is_16) {
    p->which = which;
    p->act = is_16 ? LS_BF16 : LS_F32;
    for (int large = 0; large < 2; large++) {
        p->elems = large ? LS_NATIVE_PASS_LARGE : LS_NATIVE_PASS_SMALL;
        p->rows = p->elems / p->columns;
        LS_TRY(ls_probe_time(w, ls_probe_pass_run, p, &w->rates->pass[which][is_16][large]));
    }
    return LS_OK;
}

ls_status ls_probe_passes(ls_probe_worker *w) {
    passes p = {.device = w->device,
                .columns = COLUMNS,
                .vocabulary = COLUMNS,
                .id_end = COLUMNS,
                .T = 256,
                .slices = SLICES,
                .groups = 1,
                .loss_slices = 1};
    float *ids;
    memset(w->rates->pass, 0, sizeof w->rates->pass);
    for (int i = 0; i < LS_PROBE_PASS_ARRAYS; i++) LS_TRY(ls_probe_alloc(w, LS_NATIVE_PASS_LARGE, &p.at[i]));
    LS_TRY(ls_probe_alloc(w, (size_t)3 * COLUMNS * SLICES, &p.vector));
    LS_TRY(ls_probe_alloc(w, LS_NATIVE_PASS_LARGE / COLUMNS, &ids));
    p.ids = (int32_t *)(void *)ids;
    for (size_t i = 0; i < LS_NATIVE_PASS_LARGE / COLUMNS; i++) p.ids[i] = (int32_t)(i * 7 % COLUMNS);
    for (int which = 0; which < LS_NATIVE_PASSES; which++)
        for (int is_16 = 0; is_16 < 2; is_16++) {
            if (!ls_probe_pass_has((ls_native_pass)which, is_16, false)) continue;
            make_valid(&p);
            LS_TRY(fill_pass(&p, w, (ls_native_pass)which, is_16));
        }
    return LS_OK;
}
