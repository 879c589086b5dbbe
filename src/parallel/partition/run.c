/* run.c: the executor: runs a stage's list of actions (forward or backward of one micro-batch on one chunk, a run of
 * blocks), and so a training step. */
#include <assert.h>

#include "base/alive.h"
#include "base/events.h"
#include "base/fault.h"
#include "base/meter.h"
#include "comm/world/world.h"
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

/* Returns whether the action's micro-batch has no sequences: it then only takes part in collectives. */
static bool is_empty(const job *j) { return j->micro->begin == j->micro->end; }

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Sets what blocks read in this action (rows, gradient steps if `with_steps`, dropout), and reads its tokens. */
static ls_status begin_action(job *j, bool with_steps) {
    ls_partition *partition = j->partition;
    ls_nn *nn = &partition->nn;
    ls_nn_set_rows(nn, j->micro->end - j->micro->begin, partition->setup.T);
    nn->grads.steps = partition->pass.steps + partition->pass.micro_steps[j->number].first;
    nn->grads.nsteps = with_steps ? partition->pass.micro_steps[j->number].count : 0;
    nn->dropout.p = partition->setup.dropout;
    nn->batch_norm.infers = false;
    nn->dropout.first_sequence = j->micro->begin;
    if (is_empty(j)) return LS_OK;
    return ls_partition_feed_tokens(partition, j->chunk, j->feed, j->micro->begin, j->micro->end);
}

/* Returns the elements of the stream before block b. */
static size_t elems_before(const ls_partition *partition, int b) {
    return ls_nn_stream_rows(&partition->nn) * partition->model->blocks[b].in;
}
/* Returns the elements of the stream after block b. */
static size_t elems_after(const ls_partition *partition, int b) {
    return ls_nn_stream_rows(&partition->nn) * partition->model->blocks[b].out;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

void ls_partition_ask(ls_partition *partition, bool (*gives_up)(void *ctx), void *ctx) {
    partition->skip.gives_up = gives_up;
    partition->skip.ctx = ctx;
}

/* Asks whether this worker gives up, and then lets the device skip all work. Not in audits, which compare what they
 * compute. */
static void look_up(ls_partition *partition) {
    ls_alive_moved();
    if (!partition->skip.gives_up || partition->skip.ops || partition->pass.audits) return;
    if (!partition->skip.gives_up(partition->skip.ctx)) return;
    partition->skip.ops = partition->device->ops;
    partition->device->ops = &ls_ops_skip;
}

bool ls_partition_end_skip(ls_partition *partition) {
    if (!partition->skip.ops) return false;
    partition->device->ops = partition->skip.ops;
    partition->skip.ops = NULL;
    return true;
}

/* Returns block b with its activation memory of this slot. */
static ls_block *open_block(ls_partition *partition, const ls_chunk *chunk, const ls_chunk_slot *slot, int b) {
    ls_block *block = &partition->model->blocks[b];
    block->saved = slot->saved[b - chunk->first];
    block->kept = NULL;
    block->scratch = partition->stage.own_scratch[b];
    return block;
}

ls_status ls_partition_enter_block(ls_partition *partition, const ls_chunk *chunk, const ls_chunk_slot *slot, int b,
                                   int next, ls_block **block) {
    *block = open_block(partition, chunk, slot, b);
    look_up(partition);
    if (partition->comms.all)
        LS_TRY(ls_world_progress(partition->setup.world)); /* reductions and sends under way move along */
    partition->nn.scratch = partition->stage.scratch[b];
    return ls_partition_acquire(partition, b, next);
}

/* Adds the stream after a block to the sums of results. */
static ls_status made_stream(const job *j, const float *y, size_t elems) {
    return ls_partition_add_result(j->partition, LS_RESULTS_MAX - 1, y, elems * sizeof(float));
}

/* Asks whether the block fuses with block `next` (−1: none), which runs after it in this pass, and keeps the answer for
 * the run of that block. Never fuses while a fault is planted, which must see what lies between them. */
static ls_fusion fuse(job *j, const ls_block *block, int next, ls_block_pass pass) {
    ls_partition *partition = j->partition;
    ls_fusion fusion = {.start_is_done = j->begun == block};
    j->begun = NULL;
    if (next < 0 || !block->kind->fuses || partition->setup.unfused || ls_fault_spoil) return fusion;
    ls_block *other = open_block(partition, j->chunk, j->slot, next);
    if (block->kind->fuses(block, other, &partition->nn, pass)) j->begun = fusion.next = other;
    return fusion;
}

/* Runs a chunk forward: receives its input, runs its blocks and sends the output. The head runs in its backward action,
 * which computes loss and gradient at once. */
static ls_status forward(job *j) {
    ls_partition *partition = j->partition;
    const ls_chunk *chunk = j->chunk;
    int end = chunk->has_head ? chunk->end - 1 : chunk->end;
    float *out = NULL;
    LS_TRY(begin_action(j, false));
    if (!is_empty(j) && !chunk->has_embedding)
        LS_TRY(ls_partition_receive(partition, j->slot->x[0], chunk->number, true));
    if (!is_empty(j) && !chunk->has_head) LS_TRY(ls_partition_ring_next(&partition->stage.forward, &out));
    double begin = ls_fault_slow_begin();
    ls_span span = ls_span_begin("stage", "forward");
    ls_meter_mark mark = ls_meter_begin();
    for (int b = chunk->first; b < end; b++) {
        ls_block *block;
        int i = b - chunk->first;
        float *y = b + 1 < chunk->end ? j->slot->x[i + 1] : out;
        LS_TRY(ls_partition_enter_block(partition, chunk, j->slot, b, b + 1 < end ? b + 1 : -1, &block));
        if (is_empty(j)) continue;
        ls_partition_begin_results(partition, j->micro, j->number, b, false);
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
    return out ? ls_partition_send(partition, &partition->stage.forward, out, chunk->number, true) : LS_OK;
}

/* Runs the head: loss, gradient of its input into `d`, and weight gradients at once. */
static ls_status head(job *j, float *d) {
    ls_partition *partition = j->partition;
    const ls_chunk *chunk = j->chunk;
    int b = chunk->end - 1;
    ls_block *block;
    LS_TRY(ls_partition_begin_grads(partition, b));
    LS_TRY(ls_partition_enter_block(partition, chunk, j->slot, b, b > chunk->first ? b - 1 : -1, &block));
    if (!is_empty(j)) {
        ls_partition_begin_results(partition, j->micro, j->number, b, false);
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

/* Runs one phase of backward of block b; `d` is the gradient of its output, and of its input afterwards; NULL in the
 * phase of the weights alone, which reads what the phase of the input kept. */
static ls_status backward_block(job *j, int b, float *d, ls_block_pass phase) {
    ls_partition *partition = j->partition;
    const ls_chunk *chunk = j->chunk;
    ls_block *block;
    int i = b - chunk->first;
    const float *x = j->slot->x[i];
    if (phase != LS_BACKWARD_INPUT) LS_TRY(ls_partition_begin_grads(partition, b));
    LS_TRY(ls_partition_enter_block(partition, chunk, j->slot, b, b > chunk->first ? b - 1 : -1, &block));
    if (j->kept) block->kept = j->kept->kept[i];
    partition->nn.rounded.counts = partition->numerics.blocks ? ls_partition_act_counts(partition, b) : NULL;
    partition->nn.rounded.elems = partition->numerics.blocks ? &partition->numerics.blocks[b].acts_elems : NULL;
    if (!is_empty(j)) {
        ls_partition_begin_results(partition, phase != LS_BACKWARD_WEIGHTS ? j->micro : NULL, j->number, b, true);
        if (partition->stage.kept_parts != LS_SAVE_ALL && block->kind->recompute)
            LS_TRY(block->kind->recompute(block, &partition->nn, x, LS_SAVE_ALL & ~partition->stage.kept_parts));
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

/* Runs one phase of backward of a chunk: receives the gradient of its output, and sends that of its input. */
static ls_status backward(job *j, ls_block_pass phase) {
    ls_partition *partition = j->partition;
    const ls_chunk *chunk = j->chunk;
    int last = chunk->has_head ? chunk->end - 2 : chunk->end - 1;
    float *d = NULL;
    bool sends = phase != LS_BACKWARD_WEIGHTS && !is_empty(j);
    LS_TRY(begin_action(j, true));
    if (sends) LS_TRY(ls_partition_ring_next(&partition->stage.backward, &d));
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
    return sends && !chunk->has_embedding
               ? ls_partition_send(partition, &partition->stage.backward, d, chunk->number, false)
               : LS_OK;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

ls_status ls_partition_run_action(ls_partition *partition, const ls_action *action, const ls_partition_feed *feed) {
    const ls_chunk *chunk = &partition->stage.chunks[action->chunk];
    job j = {.partition = partition,
             .chunk = chunk,
             .slot = &chunk->slot[action->slot],
             .kept = action->kept >= 0 ? &chunk->kept[action->kept] : NULL,
             .feed = feed,
             .micro = &partition->pass.micros.micro[action->micro],
             .number = action->micro,
             .last = action->micro == partition->pass.micros.count - 1};
    switch (action->kind) {
    case LS_ACTION_FORWARD: return forward(&j);
    case LS_ACTION_BACKWARD: return backward(&j, LS_BACKWARD_BOTH);
    case LS_ACTION_BACKWARD_INPUT: return backward(&j, LS_BACKWARD_INPUT);
    default: return backward(&j, LS_BACKWARD_WEIGHTS);
    }
}

const ls_schedule *ls_partition_schedule(const ls_partition *partition) { return &partition->pass.schedule; }

ls_status ls_partition_run_lists(ls_partition *partition, uint64_t step, float start, const ls_partition_feed *feed) {
    int number = partition->setup.place.pp;
    assert(partition->setup.train);
    partition->nn.grads.loss_scale = start;
    partition->nn.dropout.seed = partition->setup.seed;
    partition->nn.dropout.step = step;
    ls_partition_forget_prefetch(partition);
    for (int i = 0; i < partition->pass.schedule.count[number]; i++)
        LS_TRY(ls_partition_run_action(partition, &partition->pass.schedule.actions[number][i], feed));
    return ls_partition_drain(partition);
}

ls_status ls_partition_step(ls_partition *partition, uint64_t step, float start, const ls_partition_feed *feed) {
    LS_TRY(ls_partition_clear_sums(partition));
    LS_TRY(ls_partition_run_lists(partition, step, start, feed));
    return ls_partition_finish_grads(partition);
}
