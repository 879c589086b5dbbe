/* forward.c: forward alone: evaluation and generation. They use slot 0 of each chunk. */
#include <assert.h>
#include <string.h>

#include "parallel/partition/state.h"

/* One micro-batch, of nn's rows, through the chunks of this stage. `head` runs on the last chunk; empty micro-batches
 * only take part in gathering weights. */
static ls_status forward_chunks(ls_stage *stage, const ls_stage_feed *feed, size_t begin, size_t end, bool with_head) {
    bool empty = begin == end;
    for (int c = 0; c < stage->nchunks; c++) {
        const ls_chunk *chunk = &stage->chunks[c];
        const ls_chunk_slot *slot = &chunk->slot[0];
        float *out = NULL;
        int last = chunk->has_head && !with_head ? chunk->end - 1 : chunk->end;
        if (!empty && feed) LS_TRY(ls_stage_feed_tokens(stage, chunk, feed, begin, end));
        if (!empty && !chunk->has_embedding) LS_TRY(ls_stage_receive(stage, slot->x[0], chunk->number, true));
        if (!empty && !chunk->has_head) LS_TRY(ls_stage_ring_next(&stage->forward, &out));
        for (int b = chunk->first; b < last; b++) {
            ls_block *block;
            int i = b - chunk->first;
            float *y = b + 1 < chunk->end ? slot->x[i + 1] : out;
            LS_TRY(ls_stage_enter_block(stage, chunk, slot, b, b + 1 < last ? b + 1 : -1, &block));
            if (!empty) LS_TRY(block->kind->forward(block, &stage->nn, slot->x[i], y));
        }
        if (out) LS_TRY(ls_stage_send(stage, &stage->forward, out, chunk->number, true));
    }
    return LS_OK;
}

static void no_training(ls_stage *stage) {
    stage->nn.nsteps = 0;
    stage->nn.dropout.p = 0;
    stage->nn.infers = true;
}

static bool has_head(const ls_stage *stage) { return stage->chunks[stage->nchunks - 1].has_head; }

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

/* Rows of logits whose largest is that of the target. */
static ls_status count_right(ls_stage *stage, int64_t *right) {
    size_t V = stage->model->shape.V, at_once = stage->host_elems / V, rows = ls_nn_rows(&stage->nn);
    assert(stage->nn.tp_size == 1);
    for (size_t row = 0, n; row < rows; row += n) {
        n = rows - row < at_once ? rows - row : at_once;
        LS_TRY(
            ls_device_copy_out(stage->device, stage->host, stage->nn.scratch.logits + row * V, n * V * sizeof(float)));
        for (size_t i = 0; i < n; i++) {
            const float *z = stage->host + i * V;
            size_t best = 0;
            for (size_t c = 1; c < V; c++)
                if (z[c] > z[best]) best = c;
            *right += (int32_t)best == stage->host_targets[row + i];
        }
    }
    return LS_OK;
}

/* Rows take micro-batches in turn, all rows as many. */
ls_status ls_stage_evaluate(ls_stage *stage, size_t count, size_t T, const ls_stage_feed *feed, ls_loss_sum *loss,
                            int64_t *right) {
    const ls_stage_setup *setup = &stage->setup;
    size_t rows = (size_t)setup->layout.dp, stride = rows * stage->micro;
    assert(T >= 1 && T <= setup->T && (feed->context == 0 || (feed->context < T && !right)));
    no_training(stage);
    for (size_t base = 0; base < count; base += stride) {
        size_t begin = base + (size_t)setup->place.dp * stage->micro;
        if (begin > count) begin = count;
        size_t end = count - begin < stage->micro ? count : begin + stage->micro;
        ls_nn_set_rows(&stage->nn, end - begin, T);
        LS_TRY(forward_chunks(stage, feed, begin, end, true));
        if (!has_head(stage) || begin == end) continue;
        LS_TRY(ls_stage_add_losses(stage, -1, feed->context, loss));
        if (right) LS_TRY(count_right(stage, right));
    }
    return ls_stage_drain(stage);
}

/* ---- generation -------------------------------------------------------------------------------------------------- */

bool ls_stage_keeps_keys(const ls_stage *stage) { return stage->kept_parts & LS_SAVE_KEYS; }

/* From the workers that hold them to everybody: `row` is where this worker's logits are, on the last stage. */
static ls_status share_logits(ls_stage *stage, const float *row, float *logits) {
    const ls_nn *nn = &stage->nn;
    size_t bytes[LS_SLICES_MAX], V = stage->model->shape.V, slices = (size_t)nn->slices;
    if (has_head(stage))
        LS_TRY(
            ls_device_copy_out(stage->device, stage->host + nn->own.first_id, row, nn->own.vocabulary * sizeof(float)));
    for (int t = 0; t < nn->tp_size; t++)
        bytes[t] = (ls_slice_begin(V, nn->S, (int)((size_t)(t + 1) * slices)) -
                    ls_slice_begin(V, nn->S, (int)((size_t)t * slices))) *
                   sizeof(float);
    if (has_head(stage) && stage->tp)
        LS_TRY(ls_comm_all_gather(stage->tp, stage->host + nn->own.first_id, stage->host, bytes));
    if (stage->pp) LS_TRY(ls_comm_broadcast(stage->pp, stage->setup.layout.pp - 1, stage->host, V * sizeof(float)));
    memcpy(logits, stage->host, V * sizeof(float));
    return LS_OK;
}

/* The head sees the last row alone. */
static ls_status last_row(ls_stage *stage, size_t rows) {
    const ls_chunk *chunk = &stage->chunks[stage->nchunks - 1];
    ls_block *block;
    int b = chunk->end - 1;
    if (!chunk->has_head) return LS_OK;
    LS_TRY(ls_stage_enter_block(stage, chunk, &chunk->slot[0], b, -1, &block));
    ls_nn_set_rows(&stage->nn, 1, 1);
    return block->kind->forward(block, &stage->nn, chunk->slot[0].x[b - chunk->first] + (rows - 1) * block->in, NULL);
}

/* Rows first … first + rows − 1 with the keys before them; sequence parallelism rests, since they are few. */
static ls_status extend_piece(ls_stage *stage, size_t first, size_t rows, const int32_t *ids) {
    ls_nn_set_rows(&stage->nn, 1, rows);
    stage->nn.first = first;
    LS_TRY(ls_stage_set_tokens(stage, ids, NULL));
    return forward_chunks(stage, NULL, 0, 1, false);
}

static ls_status extend(ls_stage *stage, size_t first, size_t rows, const int32_t *ids, float *logits) {
    size_t most = stage->micro * (stage->setup.T / (size_t)(stage->nn.sequence_parallel ? stage->nn.tp_size : 1));
    bool was = stage->nn.sequence_parallel;
    ls_status status = LS_OK;
    size_t done = 0, piece = 0;
    stage->nn.sequence_parallel = false;
    for (; status == LS_OK && done < rows; done += piece) {
        piece = rows - done < most ? rows - done : most;
        status = extend_piece(stage, first + done, piece, ids + done);
    }
    if (status == LS_OK) status = last_row(stage, piece);
    if (status == LS_OK) status = share_logits(stage, stage->nn.scratch.logits, logits);
    stage->nn.sequence_parallel = was;
    return status;
}

/* Without kept keys the whole sequence goes through; what follows its end has no influence on it. */
static ls_status extend_anew(ls_stage *stage, size_t rows, const int32_t *ids, float *logits) {
    size_t T = stage->setup.T;
    for (size_t i = 0; i < T; i++) stage->host_ids[i] = i < rows ? ids[i] : 0;
    ls_nn_set_rows(&stage->nn, 1, T);
    LS_TRY(ls_stage_set_tokens(stage, stage->host_ids, NULL));
    LS_TRY(forward_chunks(stage, NULL, 0, 1, true));
    const float *all = stage->nn.scratch.logits;
    return share_logits(stage, has_head(stage) ? all + (rows - 1) * stage->nn.own.vocabulary : NULL, logits);
}

ls_status ls_stage_extend(ls_stage *stage, size_t first, size_t rows, const int32_t *ids, float *logits) {
    assert(rows >= 1 && first + rows <= stage->setup.T);
    no_training(stage);
    if (ls_stage_keeps_keys(stage))
        LS_TRY(extend(stage, first, rows, ids, logits));
    else {
        assert(first == 0);
        LS_TRY(extend_anew(stage, rows, ids, logits));
    }
    return ls_stage_drain(stage);
}
