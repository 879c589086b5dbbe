/* head.c: the last block: final norm, logits over the vocabulary, loss, and the gradient of its input.
 *
 *     x ─ norm ─ logits ─ loss
 *     dx ─────── dz (in the place of the logits)
 *
 * Logits are the largest tensor of all, so a micro-batch may run in chunks of sequences that reuse one buffer: logits,
 * losses, and the chunk's part of the gradients of table and input are done before the next chunk starts. */
#include <assert.h>

#include "nn/block.h"

/* Adds the final norm and, unless the shape is tied, the head's own table. The tied table is set by the model or the
 * partition. */
static void declare(ls_block *block, const ls_shape *shape) {
    ls_block_add(block, LS_ROLE_FINAL_NORM, ls_param_vector("norm.weight", shape->C, LS_INIT_ONES));
    if (!ls_shape_has_rms_norm(shape))
        ls_block_add(block, LS_ROLE_FINAL_NORM_BIAS, ls_param_vector("norm.bias", shape->C, LS_INIT_ZEROS));
    if (shape->tied) return;
    ls_param head = ls_param_matrix("head.weight", shape->V, shape->C, shape->init_std);
    head.split = true;
    head.grain = shape->vocabulary_grain;
    block->table = ls_block_add(block, LS_ROLE_HEAD, head);
}

/* Returns how many sequences have their logits in memory at once. */
static size_t chunk_of(const ls_nn *nn) {
    return nn->loss_chunk > 0 && nn->loss_chunk < nn->rows.B ? nn->loss_chunk : nn->rows.B;
}

/* Memory of one run of the head. */
typedef struct head_scratch {
    float *stats; /* [2][stream] of the norm */
    void *norm;   /* [stream][C] its output */
    void *dnorm;  /* [stream][C] its gradient */
    /* With tp > 1 only. Maximum, and sum of exponentials, of whole rows: */
    float *row_max; /* [rows of a chunk] */
    float *row_sum; /* [rows of a chunk] */
    float *parts; /* [max(2·tp, S)][rows of a chunk] each worker's maxima and targets' logits; then each slice's sums */
} head_scratch;

/* Takes memory from the arena for the norm, for the logits of one chunk of sequences and, in a TP group, for the
 * shared softmax. */
static void carve_scratch(const ls_block *block, void *state, ls_scratch *shared, const ls_nn *nn, bool for_backward,
                          ls_arena *arena) {
    (void)block;
    head_scratch *scratch = state;
    size_t rows = ls_nn_rows(nn), stream = ls_nn_stream_rows(nn), C = nn->shape->C, chunk = chunk_of(nn) * nn->rows.T;
    scratch->stats = ls_nn_take_f32(arena, "scratch", stream, 2);
    scratch->norm = ls_nn_take(nn, arena, "scratch", stream, C);
    bool are_wide = ls_nn_logits_dtype(nn) == LS_F32;
    shared->logits = are_wide ? ls_nn_take_f32(arena, "logits", chunk, nn->own.logits)
                              : ls_nn_take(nn, arena, "logits", chunk, nn->own.logits);
    shared->loss = ls_nn_take_f32(arena, "scratch", rows, 1);
    ls_nn_take_joins(nn, arena, shared);
    if (nn->tp.sequence_parallel) shared->rows2 = ls_nn_take(nn, arena, "scratch", rows, C);
    if (for_backward) scratch->dnorm = ls_nn_take(nn, arena, "scratch", stream, C);
    if (nn->tp.size == 1) return;
    int parts = nn->S > 2 * nn->tp.size ? nn->S : 2 * nn->tp.size;
    scratch->row_max = ls_nn_take_f32(arena, "scratch", chunk, 1);
    scratch->row_sum = ls_nn_take_f32(arena, "scratch", chunk, 1);
    scratch->parts = ls_nn_take_f32(arena, "scratch", chunk, (size_t)parts);
}

/* ---- loss -------------------------------------------------------------------------------------------------------- */

/* Returns the stride of the gradient, in its elements. It replaces the logits row by row: 16-bit rows in the place of
 * fp32 rows are twice as many elements apart. */
static size_t dz_stride(const ls_nn *nn) {
    return nn->own.logits * ls_dtype_bytes(ls_nn_logits_dtype(nn)) / ls_dtype_bytes(nn->policy.act);
}

/* Returns a call for nn's rows, and in `bounds` the ends of this worker's slices of the vocabulary, counted in its
 * columns. */
static ls_loss_call loss_call(const ls_nn *nn, size_t bounds[LS_SLICES_MAX + 1]) {
    for (int i = 0; i <= nn->slices; i++)
        bounds[i] = ls_shape_first_id(nn->shape, nn->S, nn->slice0 + i) - nn->own.first_id;
    ls_loss_call call = {.rows = ls_nn_rows(nn), .z = nn->scratch.logits, .z_stride = nn->own.logits};
    call.z_dtype = ls_nn_logits_dtype(nn);
    call.bounds = bounds;
    call.slices = (size_t)nn->slices;
    call.targets = nn->input.targets;
    call.id_begin = (int32_t)nn->own.first_id;
    call.loss = nn->scratch.loss;
    if (nn->grads.nsteps > 0) {
        call.dz = nn->scratch.logits;
        call.dz_dtype = nn->policy.act;
        call.dz_stride = dz_stride(nn);
        call.g = nn->grads.loss_scale;
    }
    return call;
}

/* Gathers `elems` numbers of each worker of the TP group, one worker after the other in `parts`. */
static ls_status share_parts(const ls_nn *nn, float *parts, size_t elems) {
    size_t bytes[LS_SLICES_MAX];
    if (!nn->tp.comm) return LS_OK;
    for (int t = 0; t < nn->tp.size; t++) bytes[t] = elems * sizeof(float);
    return ls_tensor_all_gather(nn->device, nn->tp.comm, parts + (size_t)nn->tp.index * elems, parts, bytes);
}

/* Computes the maximum of whole rows of logits (in row_max) and the logit of the target (in nn's scratch.loss), over
 * the TP group. */
static ls_status shared_max(const ls_nn *nn, const head_scratch *scratch, ls_loss_call call) {
    const float *maxima[LS_SLICES_MAX], *targets[LS_SLICES_MAX];
    for (int t = 0; t < nn->tp.size; t++) {
        maxima[t] = scratch->parts + (size_t)(2 * t) * call.rows;
        targets[t] = maxima[t] + call.rows;
    }
    call.m = scratch->parts + (size_t)(2 * nn->tp.index) * call.rows;
    call.z_target = call.m + call.rows;
    LS_TRY(nn->ops->loss_max(nn->device, &call));
    LS_TRY(share_parts(nn, scratch->parts, 2 * call.rows));
    LS_TRY(nn->ops->max(nn->device, &(ls_max_call){scratch->row_max, maxima, nn->tp.size, call.rows}));
    return nn->ops->max(nn->device, &(ls_max_call){nn->scratch.loss, targets, nn->tp.size, call.rows});
}

/* Computes the sums of exponentials of whole rows in row_sum, by the tree over slices, over the TP group. */
static ls_status shared_sums(const ls_nn *nn, const head_scratch *scratch, ls_loss_call call) {
    const void *sums[LS_SLICES_MAX];
    for (int i = 0; i < nn->S; i++) sums[i] = scratch->parts + (size_t)i * call.rows;
    call.m = scratch->row_max;
    call.sums = scratch->parts + (size_t)nn->slice0 * call.rows;
    LS_TRY(nn->ops->loss_sums(nn->device, &call));
    LS_TRY(share_parts(nn, scratch->parts, (size_t)nn->slices * call.rows));
    return nn->ops->tree_sum(nn->device, &(ls_tree_sum_call){scratch->row_sum, sums, LS_F32, nn->S, call.rows});
}

/* Computes the loss of each row in nn's scratch.loss and, with steps, replaces the logits by their gradient. */
static ls_status loss(const ls_nn *nn, const head_scratch *scratch) {
    size_t bounds[LS_SLICES_MAX + 1];
    ls_loss_call call = loss_call(nn, bounds);
    if (nn->tp.size == 1) return nn->ops->loss_rows(nn->device, &call);
    LS_TRY(shared_max(nn, scratch, call));
    LS_TRY(shared_sums(nn, scratch, call));
    call.m = scratch->row_max;
    call.l = scratch->row_sum;
    call.z_target = nn->scratch.loss;
    LS_TRY(nn->ops->loss_values(nn->device, &call));
    return nn->grads.nsteps > 0 ? nn->ops->loss_grad(nn->device, &call) : LS_OK;
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

/* Returns nn restricted to sequences first … first + count − 1 of its micro-batch. */
static ls_nn part_of(const ls_nn *nn, size_t first, size_t count, ls_made_part *made) {
    ls_nn part = *nn;
    part.rows.B = count;
    part.input.targets = nn->input.targets ? nn->input.targets + first * nn->rows.T : NULL;
    part.scratch.loss += first * nn->rows.T;
    *made = (ls_made_part){first, count, 0};
    part.made.part = made;
    return part;
}

/* Computes the table's gradient from these sequences. Its sums over groups continue from chunk to chunk. */
static ls_status add_to_table(ls_nn part, ls_grad_parts *parts, size_t first, const ls_param *table, const void *norm) {
    size_t end = first + part.rows.B;
    part.grads.nsteps = 1;
    for (size_t at = first; at < end;) {
        ls_grad_step step;
        at = ls_grad_parts_next(parts, first, end, at, &step);
        part.grads.steps = &step;
        LS_TRY(ls_nn_grad_matrix(&part, table, part.scratch.logits, part.own.vocabulary, dz_stride(&part), norm,
                                 part.shape->C));
    }
    return LS_OK;
}

/* Computes the losses of a micro-batch from its norm, chunk by chunk; with steps also the gradients of table and
 * norm. Without targets leaves the logits in scratch. */
static ls_status chunks(const ls_nn *nn, const head_scratch *scratch, const ls_param *table, const void *norm) {
    ls_grad_parts parts = {.step = NULL};
    size_t most = chunk_of(nn), count;
    assert(nn->input.targets || nn->rows.B <= most); /* the caller that reads logits finds all of them */
    if (nn->grads.nsteps > 0) parts = ls_grad_parts_begin(nn->grads.steps);
    for (size_t first = 0; first < nn->rows.B; first += count) {
        count = nn->rows.B - first < most ? nn->rows.B - first : most;
        ls_made_part made;
        ls_nn part = part_of(nn, first, count, &made);
        const void *rows = ls_nn_from(nn, norm, first * nn->rows.T * nn->shape->C);
        LS_TRY(ls_nn_logits(&part, part.scratch.logits, rows, table));
        if (nn->input.targets == NULL) continue;
        LS_TRY(loss(&part, scratch));
        if (nn->grads.nsteps == 0) continue;
        LS_TRY(add_to_table(part, &parts, first, table, rows));
        void *dnorm = ls_nn_at(nn, scratch->dnorm, first * nn->rows.stream_T * nn->shape->C);
        LS_TRY(ls_nn_project_vocabulary(&part, dnorm, part.scratch.logits, dz_stride(&part), table));
    }
    return LS_OK;
}

/* Computes logits or losses and, in training, the gradients of table, norm and input (in y), because the head has no
 * backward. */
static ls_status forward(ls_block *block, ls_nn *nn, const float *x, float *y) {
    const head_scratch *scratch = block->scratch;
    ls_param *norm_w = ls_block_param(block, LS_ROLE_FINAL_NORM);
    ls_param *norm_b = ls_block_param(block, LS_ROLE_FINAL_NORM_BIAS);
    const void *norm;
    LS_TRY(ls_nn_norm(nn, scratch->norm, scratch->stats, x, norm_w, norm_b));
    LS_TRY(ls_nn_gather(nn, scratch->norm, nn->policy.act, nn->scratch.rows2, &norm));
    LS_TRY(chunks(nn, scratch, block->table, norm));
    if (nn->input.targets == NULL || nn->grads.nsteps == 0) return LS_OK;
    ls_nn_norm_more more = {.b = norm_b, .params = ls_nn_norm_is_whole(nn)};
    if (!more.params) LS_TRY(ls_nn_norm_params(nn, scratch->dnorm, scratch->stats, x, norm_w, norm_b));
    return ls_nn_norm_backward(nn, y, scratch->dnorm, scratch->stats, x, norm_w, &more);
}

/* Counts the head's collectives. In training it runs once, where backward begins. */
static ls_block_traffic traffic(const ls_block *block, ls_block_pass pass, unsigned again) {
    (void)block;
    (void)again;
    if (pass == LS_FORWARD || pass == LS_BACKWARD_WEIGHTS) return (ls_block_traffic){0};
    return (ls_block_traffic){.joins = 1, .gathers = 1, .has_loss = true};
}

const ls_block_kind ls_block_head = {
    .name = "head",
    .scratch_bytes = sizeof(head_scratch),
    .declare = declare,
    .carve_scratch = carve_scratch,
    .forward = forward,
    .traffic = traffic,
};
