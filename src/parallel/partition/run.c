/* run.c: the executor: a stage's list of actions, micro-batches through its chunks. */
#include <assert.h>

#include "base/alive.h"
#include "base/events.h"
#include "base/fault.h"
#include "base/meter.h"
#include "comm/world.h"
#include "device/skip.h"
#include "parallel/partition/state.h"

/* What an action works on. */
typedef struct job {
    ls_partition *partition;
    const ls_chunk *chunk;
    const ls_chunk_slot *slot;
    const ls_chunk_slot *kept; /* NULL: backward is in one phase */
    const ls_partition_feed *feed;
    const ls_micro *micro;
    int number;            /* of the micro-batch */
    bool last;             /* of the step */
    const ls_block *begun; /* the block before has done the start of this one; NULL: of none */
} job;

static bool is_empty(const job *j) { return j->micro->begin == j->micro->end; }

/* ---- rows -------------------------------------------------------------------------------------------------------- */

ls_status ls_partition_set_tokens(ls_partition *partition, const int32_t *ids, const int32_t *targets) {
    size_t bytes = ls_nn_rows(&partition->nn) * sizeof *ids;
    partition->nn.ids = partition->ids;
    partition->nn.targets = targets ? partition->targets : NULL;
    LS_TRY(ls_device_copy_in(partition->device, partition->ids, ids, bytes));
    return targets ? ls_device_copy_in(partition->device, partition->targets, targets, bytes) : LS_OK;
}

/* Reads the images of a batch, unless a prefetch has already read them. `ahead` is B for a prefetch. */
static ls_status read_images(ls_partition *partition, const ls_chunk *chunk, const ls_partition_feed *feed,
                             size_t begin, size_t end, size_t ahead) {
    ls_fed_images *fed = &partition->fed;
    uint64_t batch = feed->batch + (ahead > 0);
    if (feed->batch && fed->batch == batch && fed->begin == begin && fed->end == end &&
        fed->with_pixels == chunk->has_embedding)
        return LS_OK;
    *fed = (ls_fed_images){0};
    LS_TRY(feed->images(feed->ctx, ahead + begin, ahead + end, chunk->has_embedding ? partition->host_pixels : NULL,
                        partition->host_targets));
    *fed = (ls_fed_images){.batch = batch, .begin = begin, .end = end, .with_pixels = chunk->has_embedding};
    return LS_OK;
}

static ls_status feed_images(ls_partition *partition, const ls_chunk *chunk, const ls_partition_feed *feed,
                             size_t begin, size_t end, size_t ahead) {
    size_t elems = (end - begin) * ls_extent_elems(partition->model->blocks[0].image.in);
    LS_TRY(read_images(partition, chunk, feed, begin, end, ahead));
    partition->nn.images = partition->pixels;
    partition->nn.targets = partition->targets;
    if (partition->fed.on_device) return LS_OK;
    if (chunk->has_embedding)
        LS_TRY(ls_device_copy_in(partition->device, partition->pixels, partition->host_pixels, elems * sizeof(float)));
    LS_TRY(ls_device_copy_in(partition->device, partition->targets, partition->host_targets,
                             (end - begin) * sizeof(int32_t)));
    partition->fed.on_device = true;
    partition->fed.is_ahead = ahead > 0;
    return LS_OK;
}

/* Prefetches into the same buffers: all work that reads the images of this step is already enqueued before the copy. */
ls_status ls_partition_prepare(ls_partition *partition, const ls_partition_feed *feed) {
    int number = partition->setup.place.pp;
    for (int i = 0; !partition->ops && partition->pixels && feed->batch && i < partition->schedule.count[number]; i++) {
        const ls_action *action = &partition->schedule.actions[number][i];
        const ls_chunk *chunk = &partition->chunks[action->chunk];
        const ls_micro *micro = &partition->micros.micro[action->micro];
        if (micro->begin < micro->end && (chunk->has_embedding || chunk->has_head))
            return feed_images(partition, chunk, feed, micro->begin, micro->end, partition->setup.B);
    }
    return LS_OK;
}

/* Only the first and the last chunk read tokens. */
ls_status ls_partition_feed_tokens(ls_partition *partition, const ls_chunk *chunk, const ls_partition_feed *feed,
                                   size_t begin, size_t end) {
    if (!chunk->has_embedding && !chunk->has_head) return LS_OK;
    if (partition->ops) {
        /* A device that skips its work does not read the tokens, so those of an earlier micro-batch may stay. */
        partition->nn.ids = partition->ids;
        partition->nn.targets = partition->targets;
        partition->nn.images = partition->pixels;
        partition->fed = (ls_fed_images){0};
        return LS_OK;
    }
    if (partition->pixels) return feed_images(partition, chunk, feed, begin, end, 0);
    LS_TRY(feed->read(feed->ctx, begin, end, partition->host_ids, partition->host_targets));
    return ls_partition_set_tokens(partition, partition->host_ids, partition->host_targets);
}

static ls_status begin_action(job *j, bool with_steps) {
    ls_partition *partition = j->partition;
    ls_nn *nn = &partition->nn;
    ls_nn_set_rows(nn, j->micro->end - j->micro->begin, partition->setup.T);
    nn->steps = partition->steps + partition->micro_steps[j->number].first;
    nn->nsteps = with_steps ? partition->micro_steps[j->number].count : 0;
    nn->dropout.p = partition->setup.dropout;
    nn->infers = false;
    nn->dropout.first_sequence = j->micro->begin;
    if (is_empty(j)) return LS_OK;
    return ls_partition_feed_tokens(partition, j->chunk, j->feed, j->micro->begin, j->micro->end);
}

/* ---- between stages ---------------------------------------------------------------------------------------------- */

/* Returns the elements of the stream before block b. */
static size_t elems_before(const ls_partition *partition, int b) {
    return ls_nn_stream_rows(&partition->nn) * partition->model->blocks[b].in;
}
static size_t elems_after(const ls_partition *partition, int b) {
    return ls_nn_stream_rows(&partition->nn) * partition->model->blocks[b].out;
}
/* Returns the bytes that cross the boundary before a chunk, forward or backward. */
static size_t seam_bytes(const ls_partition *partition, int chunk) {
    return elems_before(partition, partition->setup.layout.chunk_first[chunk]) * sizeof(float);
}

/* Returns the next buffer of the ring, after its previous send is complete. */
ls_status ls_partition_ring_next(ls_send_ring *ring, float **buffer) {
    int i = ring->next;
    ls_request *request = ring->request[i];
    ring->next = (i + 1) % ring->count;
    ring->request[i] = NULL;
    *buffer = ring->buffer[i];
    return ls_request_wait(request);
}

static int ring_index(const ls_send_ring *ring, const float *buffer) {
    int i = 0;
    while (ring->buffer[i] != buffer) i++;
    return i;
}

ls_status ls_partition_send(ls_partition *partition, ls_send_ring *ring, const float *buffer, int chunk, bool forward) {
    int pp = partition->setup.layout.pp, to = (forward ? chunk + 1 : chunk + pp - 1) % pp;
    int tag = forward ? LS_TAG_FORWARD + chunk + 1 : LS_TAG_BACKWARD + chunk - 1;
    if (!partition->pp) return LS_OK;
    return ls_tensor_send_start(partition->device, partition->pp, to, tag, buffer,
                                seam_bytes(partition, forward ? chunk + 1 : chunk),
                                &ring->request[ring_index(ring, buffer)]);
}

ls_status ls_partition_receive(ls_partition *partition, float *buffer, int chunk, bool forward) {
    int pp = partition->setup.layout.pp, from = (forward ? chunk + pp - 1 : chunk + 1) % pp;
    int tag = forward ? LS_TAG_FORWARD + chunk : LS_TAG_BACKWARD + chunk;
    if (!partition->pp) return LS_OK;
    return ls_tensor_recv(partition->device, partition->pp, from, tag, buffer,
                          seam_bytes(partition, forward ? chunk : chunk + 1));
}

static ls_status drain(ls_send_ring *ring) {
    for (int i = 0; i < ring->count; i++) {
        ls_request *request = ring->request[i];
        ring->request[i] = NULL;
        LS_TRY(ls_request_wait(request));
    }
    ring->next = 0;
    return LS_OK;
}

ls_status ls_partition_drain(ls_partition *partition) {
    LS_TRY(drain(&partition->forward));
    return drain(&partition->backward);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

void ls_partition_ask(ls_partition *partition, bool (*gives_up)(void *ctx), void *ctx) {
    partition->gives_up = gives_up;
    partition->gives_up_ctx = ctx;
}

/* Audits compare what they compute, so they end first. */
static void look_up(ls_partition *partition) {
    ls_alive_moved();
    if (!partition->gives_up || partition->ops || partition->audits) return;
    if (!partition->gives_up(partition->gives_up_ctx)) return;
    partition->ops = partition->device->ops;
    partition->device->ops = &ls_ops_skip;
}

bool ls_partition_end_skip(ls_partition *partition) {
    if (!partition->ops) return false;
    partition->device->ops = partition->ops;
    partition->ops = NULL;
    return true;
}

/* Returns block b with its activation memory of this slot. */
static ls_block *open_block(ls_partition *partition, const ls_chunk *chunk, const ls_chunk_slot *slot, int b) {
    ls_block *block = &partition->model->blocks[b];
    block->saved = slot->saved[b - chunk->first];
    block->kept = NULL;
    block->scratch = partition->own_scratch[b];
    return block;
}

/* Prepares block b with this slot's memory to run; `next` is the block after it, or −1. */
ls_status ls_partition_enter_block(ls_partition *partition, const ls_chunk *chunk, const ls_chunk_slot *slot, int b,
                                   int next, ls_block **block) {
    *block = open_block(partition, chunk, slot, b);
    look_up(partition);
    if (partition->all)
        LS_TRY(ls_world_progress(partition->setup.world)); /* reductions and sends under way move along */
    partition->nn.scratch = partition->scratch[b];
    return ls_partition_acquire(partition, b, next);
}

/* Attributes the next results to block b. A phase that only computes weight gradients is not observed, because not
 * every schedule has one. */
static void at_block(const job *j, int b, bool is_back, bool shows) {
    j->partition->at =
        (ls_partition_at){.micro = shows ? j->micro : NULL, .number = j->number, .block = b, .is_back = is_back};
}

static ls_status made_stream(const job *j, const float *y, size_t elems) {
    return ls_partition_add_result(j->partition, LS_RESULTS_MAX - 1, y, elems * sizeof(float));
}

/* Asks whether the block fuses with block `next` (−1: none), which runs after it in this pass, and keeps the answer for
 * the run of that block. A planted fault wants to see what lies between them. */
static ls_fusion fuse(job *j, const ls_block *block, int next, ls_block_pass pass) {
    ls_partition *partition = j->partition;
    ls_fusion fusion = {.start_is_done = j->begun == block};
    j->begun = NULL;
    if (next < 0 || !block->kind->fuses || partition->setup.unfused || ls_fault_spoil) return fusion;
    ls_block *other = open_block(partition, j->chunk, j->slot, next);
    if (block->kind->fuses(block, other, &partition->nn, pass)) j->begun = fusion.next = other;
    return fusion;
}

/* Runs a chunk forward. The head runs in its backward action, which computes loss and gradient at once. */
static ls_status forward(job *j) {
    ls_partition *partition = j->partition;
    const ls_chunk *chunk = j->chunk;
    int end = chunk->has_head ? chunk->end - 1 : chunk->end;
    float *out = NULL;
    LS_TRY(begin_action(j, false));
    if (!is_empty(j) && !chunk->has_embedding)
        LS_TRY(ls_partition_receive(partition, j->slot->x[0], chunk->number, true));
    if (!is_empty(j) && !chunk->has_head) LS_TRY(ls_partition_ring_next(&partition->forward, &out));
    double begin = ls_fault_slow_begin();
    ls_span span = ls_span_begin("stage", "forward");
    ls_meter_mark mark = ls_meter_begin();
    for (int b = chunk->first; b < end; b++) {
        ls_block *block;
        int i = b - chunk->first;
        float *y = b + 1 < chunk->end ? j->slot->x[i + 1] : out;
        LS_TRY(ls_partition_enter_block(partition, chunk, j->slot, b, b + 1 < end ? b + 1 : -1, &block));
        if (is_empty(j)) continue;
        at_block(j, b, false, true);
        /* With zero 3 the next block's weights are still being gathered. */
        bool is_near = b + 1 < end && partition->setup.layout.zero < 3;
        partition->nn.fusion = fuse(j, block, is_near ? b + 1 : -1, LS_FORWARD);
        LS_TRY(block->kind->forward(block, &partition->nn, j->slot->x[i], y));
        partition->nn.fusion = (ls_fusion){NULL, false};
        ls_fault_at(partition->device, LS_FAULT_FORWARD, NULL, b, y, elems_after(partition, b), sizeof *y);
        LS_TRY(made_stream(j, y, elems_after(partition, b)));
        LS_TRY(ls_partition_look(partition, j->micro, j->number, b, LS_BAD_FORWARD, y, elems_after(partition, b)));
    }
    ls_fault_slow_end(begin);
    ls_meter_computed(mark);
    ls_span_end2(span, chunk->number, j->number);
    return out ? ls_partition_send(partition, &partition->forward, out, chunk->number, true) : LS_OK;
}

static ls_status head(job *j, float *d) {
    ls_partition *partition = j->partition;
    const ls_chunk *chunk = j->chunk;
    int b = chunk->end - 1;
    ls_block *block;
    LS_TRY(ls_partition_begin_grads(partition, b));
    LS_TRY(ls_partition_enter_block(partition, chunk, j->slot, b, b > chunk->first ? b - 1 : -1, &block));
    if (!is_empty(j)) {
        at_block(j, b, false, true);
        LS_TRY(block->kind->forward(block, &partition->nn, j->slot->x[b - chunk->first], d));
        ls_fault_at(partition->device, LS_FAULT_BACKWARD, NULL, b, d, elems_before(partition, b), sizeof *d);
        LS_TRY(made_stream(j, d, elems_before(partition, b)));
        LS_TRY(ls_partition_look(partition, j->micro, j->number, b, LS_BAD_LOSS, partition->nn.scratch.loss,
                                 ls_nn_rows(&partition->nn)));
        LS_TRY(ls_partition_look(partition, j->micro, j->number, b, LS_BAD_BACKWARD, d, elems_before(partition, b)));
        LS_TRY(ls_partition_look_at_grads(partition, j->micro, j->number, b));
        LS_TRY(ls_partition_add_losses(partition, (int64_t)j->micro->begin, 0));
    }
    return ls_partition_end_grads(partition, b, j->micro, j->last);
}

static ls_status backward_block(job *j, int b, float *d, ls_block_pass phase) {
    ls_partition *partition = j->partition;
    const ls_chunk *chunk = j->chunk;
    ls_block *block;
    int i = b - chunk->first;
    const float *x = j->slot->x[i];
    if (phase != LS_BACKWARD_INPUT) LS_TRY(ls_partition_begin_grads(partition, b));
    LS_TRY(ls_partition_enter_block(partition, chunk, j->slot, b, b > chunk->first ? b - 1 : -1, &block));
    if (j->kept) block->kept = j->kept->kept[i];
    partition->nn.act_counts = partition->numerics ? ls_partition_act_counts(partition, b) : NULL;
    partition->nn.act_elems = partition->numerics ? &partition->numerics[b].acts_elems : NULL;
    if (!is_empty(j)) {
        at_block(j, b, true, phase != LS_BACKWARD_WEIGHTS);
        if (partition->kept_parts != LS_SAVE_ALL && block->kind->recompute)
            LS_TRY(block->kind->recompute(block, &partition->nn, x, LS_SAVE_ALL & ~partition->kept_parts));
        partition->nn.fusion = fuse(j, block, i > 0 ? b - 1 : -1, phase);
        if (block->kind->backward) LS_TRY(block->kind->backward(block, &partition->nn, x, d, phase));
        partition->nn.fusion = (ls_fusion){NULL, false};
        if (phase != LS_BACKWARD_WEIGHTS) {
            ls_fault_at(partition->device, LS_FAULT_BACKWARD, NULL, b, d, elems_before(partition, b), sizeof *d);
            LS_TRY(made_stream(j, d, elems_before(partition, b)));
            LS_TRY(
                ls_partition_look(partition, j->micro, j->number, b, LS_BAD_BACKWARD, d, elems_before(partition, b)));
        }
        if (phase != LS_BACKWARD_INPUT) LS_TRY(ls_partition_look_at_grads(partition, j->micro, j->number, b));
    }
    return phase == LS_BACKWARD_INPUT ? LS_OK : ls_partition_end_grads(partition, b, j->micro, j->last);
}

static ls_status backward(job *j, ls_block_pass phase) {
    ls_partition *partition = j->partition;
    const ls_chunk *chunk = j->chunk;
    int last = chunk->has_head ? chunk->end - 2 : chunk->end - 1;
    float *d = NULL;
    bool sends = phase != LS_BACKWARD_WEIGHTS && !is_empty(j);
    LS_TRY(begin_action(j, true));
    if (sends) LS_TRY(ls_partition_ring_next(&partition->backward, &d));
    if (sends && !chunk->has_head) LS_TRY(ls_partition_receive(partition, d, chunk->number, false));
    double begin = ls_fault_slow_begin();
    ls_meter_mark mark = ls_meter_begin();
    ls_span span = ls_span_begin("stage", phase == LS_BACKWARD_BOTH    ? "backward"
                                          : phase == LS_BACKWARD_INPUT ? "backward-input"
                                                                       : "backward-weights");
    if (chunk->has_head && phase != LS_BACKWARD_WEIGHTS) LS_TRY(head(j, d));
    for (int b = last; b >= chunk->first; b--) LS_TRY(backward_block(j, b, d, phase));
    ls_fault_slow_end(begin);
    ls_meter_computed(mark);
    ls_span_end2(span, chunk->number, j->number);
    return sends && !chunk->has_embedding ? ls_partition_send(partition, &partition->backward, d, chunk->number, false)
                                          : LS_OK;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

ls_status ls_partition_run_action(ls_partition *partition, const ls_action *action, const ls_partition_feed *feed) {
    const ls_chunk *chunk = &partition->chunks[action->chunk];
    job j = {.partition = partition,
             .chunk = chunk,
             .slot = &chunk->slot[action->slot],
             .kept = action->kept >= 0 ? &chunk->kept[action->kept] : NULL,
             .feed = feed,
             .micro = &partition->micros.micro[action->micro],
             .number = action->micro,
             .last = action->micro == partition->micros.count - 1};
    switch (action->kind) {
    case LS_ACTION_FORWARD: return forward(&j);
    case LS_ACTION_BACKWARD: return backward(&j, LS_BACKWARD_BOTH);
    case LS_ACTION_BACKWARD_INPUT: return backward(&j, LS_BACKWARD_INPUT);
    default: return backward(&j, LS_BACKWARD_WEIGHTS);
    }
}

const ls_schedule *ls_partition_schedule(const ls_partition *partition) { return &partition->schedule; }

ls_status ls_partition_run_lists(ls_partition *partition, uint64_t step, float start, const ls_partition_feed *feed) {
    int number = partition->setup.place.pp;
    assert(partition->setup.train);
    partition->nn.loss_scale = start;
    partition->nn.dropout.seed = partition->setup.seed;
    partition->nn.dropout.step = step;
    /* A pass that is made again takes nothing from the one before. */
    partition->fed.on_device = partition->fed.on_device && partition->fed.is_ahead;
    partition->fed.is_ahead = false;
    for (int i = 0; i < partition->schedule.count[number]; i++)
        LS_TRY(ls_partition_run_action(partition, &partition->schedule.actions[number][i], feed));
    return ls_partition_drain(partition);
}

ls_status ls_partition_step(ls_partition *partition, uint64_t step, float start, const ls_partition_feed *feed) {
    LS_TRY(ls_partition_clear_sums(partition));
    LS_TRY(ls_partition_run_lists(partition, step, start, feed));
    return ls_partition_finish_grads(partition);
}
