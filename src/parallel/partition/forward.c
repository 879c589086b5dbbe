/* forward.c: forward alone: evaluation and generation. They use slot 0 of each chunk (the activations of one
 * micro-batch in a run of blocks). */
#include <assert.h>
#include <string.h>

#include "numerics/float16.h"
#include "parallel/partition/state.h"

/* Runs one micro-batch forward through the chunks of this stage. The last chunk runs the head if `with_head`; an empty
 * micro-batch only takes part in gathering weights. */
static ls_status forward_chunks(ls_partition *partition, const ls_partition_feed *feed, size_t begin, size_t end,
                                bool with_head) {
    bool empty = begin == end;
    for (int c = 0; c < partition->stage.nchunks; c++) {
        const ls_chunk *chunk = &partition->stage.chunks[c];
        const ls_chunk_slot *slot = &chunk->slot[0];
        float *out = NULL;
        int last = chunk->has_head && !with_head ? chunk->end - 1 : chunk->end;
        if (!empty && feed) LS_TRY(ls_partition_feed_tokens(partition, chunk, feed, begin, end));
        if (!empty && !chunk->has_embedding) LS_TRY(ls_partition_receive(partition, slot->x[0], chunk->number, true));
        if (!empty && !chunk->has_head) LS_TRY(ls_partition_ring_next(&partition->stage.forward, &out));
        for (int b = chunk->first; b < last; b++) {
            ls_block *block;
            int i = b - chunk->first;
            float *y = b + 1 < chunk->end ? slot->x[i + 1] : out;
            LS_TRY(ls_partition_enter_block(partition, chunk, slot, b, b + 1 < last ? b + 1 : -1, &block));
            if (!empty) LS_TRY(block->kind->forward(block, &partition->nn, slot->x[i], y));
        }
        if (out) LS_TRY(ls_partition_send(partition, &partition->stage.forward, out, chunk->number, true));
    }
    return LS_OK;
}

/* Switches dropout and gradients off for the blocks. */
static void no_training(ls_partition *partition) {
    partition->nn.grads.nsteps = 0;
    partition->nn.dropout.p = 0;
    partition->nn.batch_norm.infers = true;
}

/* Returns whether this worker's stage has the head of the model. */
static bool has_head(const ls_partition *partition) {
    return partition->stage.chunks[partition->stage.nchunks - 1].has_head;
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

/* Lets replicas take micro-batches in turn; each gets the same number, because they gather weights together. */
ls_status ls_partition_evaluate(ls_partition *partition, size_t count, size_t T, const ls_partition_feed *feed,
                                ls_loss_sum *loss, int64_t *right) {
    const ls_partition_setup *setup = &partition->setup;
    size_t rows = (size_t)setup->layout.dp, stride = rows * partition->micro;
    assert(T >= 1 && T <= setup->T && (feed->context == 0 || (feed->context < T && !right)));
    assert(!right || partition->nn.tp.size == 1);
    no_training(partition);
    LS_TRY(ls_partition_clear_sums(partition));
    for (size_t base = 0; base < count; base += stride) {
        size_t begin = base + (size_t)setup->place.dp * partition->micro;
        if (begin > count) begin = count;
        size_t end = count - begin < partition->micro ? count : begin + partition->micro;
        ls_nn_set_rows(&partition->nn, end - begin, T);
        LS_TRY(forward_chunks(partition, feed, begin, end, true));
        if (!has_head(partition) || begin == end) continue;
        LS_TRY(ls_partition_add_losses(partition, -1, feed->context));
        if (right) LS_TRY(ls_partition_count_right(partition));
    }
    LS_TRY(ls_partition_drain(partition));
    return has_head(partition) ? ls_partition_take_evaluation(partition, loss, right) : LS_OK;
}

/* ---- generation -------------------------------------------------------------------------------------------------- */

bool ls_partition_keeps_keys(const ls_partition *partition) { return partition->stage.kept_parts & LS_SAVE_KEYS; }

/* Copies a row of this worker's logits to `to` in fp32. 16-bit logits are copied to the second half of `to` and widened
 * from there, so that no value is overwritten before it is read. */
static ls_status copy_logits(ls_partition *partition, size_t row, float *to) {
    const ls_nn *nn = &partition->nn;
    ls_dtype type = ls_nn_logits_dtype(nn);
    size_t n = nn->own.vocabulary, bytes = n * ls_dtype_bytes(type);
    const char *at = (const char *)nn->scratch.logits + row * nn->own.logits * ls_dtype_bytes(type);
    char *end = (char *)(to + n) - bytes;
    LS_TRY(ls_device_copy_out(partition->device, end, at, bytes));
    for (size_t i = 0; type != LS_F32 && i < n; i++) {
        uint16_t half;
        memcpy(&half, end + i * sizeof half, sizeof half);
        to[i] = type == LS_BF16 ? ls_bf16_to_f32(half) : ls_f16_to_f32(half);
    }
    return LS_OK;
}

/* Sends the logits of a row from the workers of the last stage, which hold them, to every worker. */
static ls_status share_logits(ls_partition *partition, size_t row, float *logits) {
    const ls_nn *nn = &partition->nn;
    size_t bytes[LS_SLICES_MAX], V = partition->model->shape.V;
    if (has_head(partition)) LS_TRY(copy_logits(partition, row, partition->staging.f32 + nn->own.first_id));
    for (int t = 0; t < nn->tp.size; t++)
        bytes[t] = (ls_shape_first_id(nn->shape, nn->S, (t + 1) * nn->slices) -
                    ls_shape_first_id(nn->shape, nn->S, t * nn->slices)) *
                   sizeof(float);
    if (has_head(partition) && partition->comms.tp)
        LS_TRY(ls_comm_all_gather(partition->comms.tp, partition->staging.f32 + nn->own.first_id,
                                  partition->staging.f32, bytes));
    if (partition->comms.pp)
        LS_TRY(ls_comm_broadcast(partition->comms.pp, partition->setup.layout.pp - 1, partition->staging.f32,
                                 V * sizeof(float)));
    memcpy(logits, partition->staging.f32, V * sizeof(float));
    return LS_OK;
}

/* Runs the head on the last of `rows` rows only; does nothing on other stages. */
static ls_status last_row(ls_partition *partition, size_t rows) {
    const ls_chunk *chunk = &partition->stage.chunks[partition->stage.nchunks - 1];
    ls_block *block;
    int b = chunk->end - 1;
    if (!chunk->has_head) return LS_OK;
    LS_TRY(ls_partition_enter_block(partition, chunk, &chunk->slot[0], b, -1, &block));
    ls_nn_set_rows(&partition->nn, 1, 1);
    return block->kind->forward(block, &partition->nn, chunk->slot[0].x[b - chunk->first] + (rows - 1) * block->in,
                                NULL);
}

/* Runs rows first … first + rows − 1 with the cached keys before them. Sequence parallelism is off, because there are
 * few rows. */
static ls_status extend_piece(ls_partition *partition, size_t first, size_t rows, const int32_t *ids) {
    ls_nn_set_rows(&partition->nn, 1, rows);
    partition->nn.rows.first = first;
    LS_TRY(ls_partition_set_tokens(partition, ids, NULL));
    return forward_chunks(partition, NULL, 0, 1, false);
}

/* Extends with cached keys, in pieces that fit into the activations, and shares the logits of the last row. */
static ls_status extend(ls_partition *partition, size_t first, size_t rows, const int32_t *ids, float *logits) {
    size_t most = partition->micro *
                  (partition->setup.T / (size_t)(partition->nn.tp.sequence_parallel ? partition->nn.tp.size : 1));
    bool was = partition->nn.tp.sequence_parallel;
    ls_status status = LS_OK;
    size_t done = 0, piece = 0;
    partition->nn.tp.sequence_parallel = false;
    for (; status == LS_OK && done < rows; done += piece) {
        piece = rows - done < most ? rows - done : most;
        status = extend_piece(partition, first + done, piece, ids + done);
    }
    if (status == LS_OK) status = last_row(partition, piece);
    if (status == LS_OK) status = share_logits(partition, 0, logits);
    partition->nn.tp.sequence_parallel = was;
    return status;
}

/* Runs the whole sequence, because no keys are cached, and shares the logits of its last row. Rows after the end have
 * no influence on it. */
static ls_status extend_anew(ls_partition *partition, size_t rows, const int32_t *ids, float *logits) {
    size_t T = partition->setup.T;
    for (size_t i = 0; i < T; i++) partition->input.host_ids[i] = i < rows ? ids[i] : 0;
    ls_nn_set_rows(&partition->nn, 1, T);
    LS_TRY(ls_partition_set_tokens(partition, partition->input.host_ids, NULL));
    LS_TRY(forward_chunks(partition, NULL, 0, 1, true));
    return share_logits(partition, rows - 1, logits);
}

ls_status ls_partition_extend(ls_partition *partition, size_t first, size_t rows, const int32_t *ids, float *logits) {
    assert(rows >= 1 && first + rows <= partition->setup.T);
    no_training(partition);
    if (ls_partition_keeps_keys(partition))
        LS_TRY(extend(partition, first, rows, ids, logits));
    else {
        assert(first == 0);
        LS_TRY(extend_anew(partition, rows, ids, logits));
    }
    return ls_partition_drain(partition);
}
