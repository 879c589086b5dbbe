/* stage.c: the chunks (runs of blocks) of this worker's pipeline stage, the activations of their blocks in slots (one
 * for each micro-batch in flight), and what is sent to other stages. */
#include <string.h>

#include "comm/movers/tensors.h"
#include "parallel/partition/state.h"

/* ---- structs ------------------------------------------------------------------------------------------------------
 */

typedef enum state_of { SAVED, KEPT, SCRATCH } state_of;

/* Returns the size of a struct of this kind of block; 0: it has none. */
static size_t state_bytes(const ls_block_kind *kind, state_of which) {
    return which == SAVED ? kind->saved_bytes : which == KEPT ? kind->kept_bytes : kind->scratch_bytes;
}

/* Returns the structs of blocks first … first + count − 1; NULL for a kind of block without such a struct. */
static void **take_states(ls_partition *partition, int first, int count, state_of which) {
    void **states = ls_partition_take(partition, (size_t)count, sizeof *states);
    for (int i = 0; states && i < count; i++) {
        size_t bytes = state_bytes(partition->model->blocks[first + i].kind, which);
        if (bytes > 0) states[i] = ls_partition_take(partition, 1, bytes);
    }
    return states;
}

/* Returns `count` slots for a chunk's blocks, without device memory. */
static ls_chunk_slot *make_slots(ls_partition *partition, int count, const ls_chunk *chunk) {
    int blocks = chunk->end - chunk->first;
    ls_chunk_slot *slots = ls_partition_take(partition, (size_t)count + 1, sizeof *slots);
    for (int s = 0; slots && s < count; s++) {
        slots[s].x = ls_partition_take(partition, (size_t)blocks, sizeof *slots[s].x);
        slots[s].saved = take_states(partition, chunk->first, blocks, SAVED);
        slots[s].kept = take_states(partition, chunk->first, blocks, KEPT);
    }
    return slots;
}

/* Fills in chunk c of this stage. */
static void make_chunk(ls_partition *partition, int c) {
    const ls_layout *layout = &partition->setup.layout;
    int stage_number = partition->setup.place.pp;
    ls_chunk *chunk = &partition->stage.chunks[c];
    chunk->number = c * layout->pp + stage_number;
    chunk->first = layout->chunk_first[chunk->number];
    chunk->end = layout->chunk_first[chunk->number + 1];
    chunk->has_embedding = chunk->first == 0;
    chunk->has_head = chunk->end == partition->model->nblocks;
    chunk->slots = partition->setup.train ? ls_schedule_slots(&partition->pass.schedule, stage_number, c) : 1;
    chunk->kept_slots = partition->setup.train ? ls_schedule_kept(&partition->pass.schedule, stage_number, c) : 0;
    chunk->slot = make_slots(partition, chunk->slots, chunk);
    chunk->kept = make_slots(partition, chunk->kept_slots, chunk);
}

/* Makes a ring of `count` send buffers, without device memory. */
static void make_ring(ls_partition *partition, ls_send_ring *ring, int count) {
    ring->count = count;
    ring->buffer = ls_partition_take(partition, (size_t)count + 1, sizeof *ring->buffer);
    ring->request = ls_partition_take(partition, (size_t)count + 1, sizeof *ring->request);
}

ls_status ls_partition_make_stage(ls_partition *partition) {
    const ls_layout *layout = &partition->setup.layout;
    bool train = partition->setup.train;
    int buffers = 1, blocks = partition->model->nblocks;
    partition->stage.scratch = ls_partition_take(partition, (size_t)blocks, sizeof *partition->stage.scratch);
    partition->stage.own_scratch = take_states(partition, 0, blocks, SCRATCH);
    partition->stage.shared = take_states(partition, 0, blocks, SAVED);
    partition->stage.nchunks = layout->virtual_stages;
    partition->stage.chunks =
        ls_partition_take(partition, (size_t)partition->stage.nchunks, sizeof *partition->stage.chunks);
    if (partition->memory.region.is_short) return ls_partition_no_memory();
    if (train)
        LS_TRY(ls_schedule_make(layout->schedule, layout->pp, layout->virtual_stages, partition->pass.micros.count,
                                &partition->pass.schedule));
    if (train) LS_TRY(ls_schedule_check(&partition->pass.schedule));
    if (train && layout->pp > 1) LS_TRY(ls_schedule_buffers(&partition->pass.schedule, &buffers));
    for (int c = 0; c < partition->stage.nchunks; c++) make_chunk(partition, c);
    make_ring(partition, &partition->stage.forward, layout->pp > 1 ? buffers : 0);
    make_ring(partition, &partition->stage.backward, train ? buffers : 0);
    return partition->memory.region.is_short ? ls_partition_no_memory() : LS_OK;
}

/* ---- memory -------------------------------------------------------------------------------------------------------
 */

/* Returns the columns of the widest stream before or after a block of a chunk. */
static size_t widest(const ls_partition *partition, const ls_chunk *chunk) {
    size_t most = 0;
    for (int b = chunk->first; b < chunk->end; b++) {
        const ls_block *block = &partition->model->blocks[b];
        if (block->in > most) most = block->in;
        if (block->out > most) most = block->out;
    }
    return most;
}

/* Assigns memory to the activations of one slot. Without training, the inputs of blocks take turns in two buffers. */
static void lay_slot(ls_partition *partition, const ls_chunk *chunk, ls_chunk_slot *slot, ls_arena *arena) {
    size_t stream = ls_nn_stream_rows(&partition->nn);
    bool train = partition->setup.train;
    for (int i = 0; i < chunk->end - chunk->first; i++) {
        ls_block *block = &partition->model->blocks[chunk->first + i];
        int before = chunk->has_embedding ? i - 1 : i; /* inputs that are there; forward alone two take turns */
        if (before < 0)
            slot->x[i] = NULL;
        else if (train || before < 2)
            slot->x[i] =
                ls_partition_take_f32(arena, "activations", stream, train ? block->in : widest(partition, chunk));
        else
            slot->x[i] = slot->x[i - 2];
        if (!block->kind->carve_saved) continue;
        memcpy(slot->saved[i], partition->stage.shared[chunk->first + i], block->kind->saved_bytes);
        block->kind->carve_saved(block, slot->saved[i], &partition->nn, partition->stage.kept_parts, arena);
    }
}

/* Lays out the activations that are not kept: one buffer of the size of the largest need of any block. */
static void lay_shared(ls_partition *partition, ls_arena *arena) {
    unsigned parts = LS_SAVE_ALL & ~partition->stage.kept_parts;
    size_t bytes = 0;
    for (int pass = 0; pass < 2; pass++) {
        void *place = pass && bytes ? ls_arena_take(arena, "activations", bytes) : NULL;
        for (int c = 0; c < partition->stage.nchunks; c++)
            for (int b = partition->stage.chunks[c].first; b < partition->stage.chunks[c].end; b++) {
                ls_arena part;
                ls_arena_measure(&part, arena->align);
                if (place) ls_arena_carve(&part, arena->align, place, bytes);
                const ls_block *block = &partition->model->blocks[b];
                if (!block->kind->carve_saved) continue;
                memset(partition->stage.shared[b], 0, block->kind->saved_bytes);
                block->kind->carve_saved(block, partition->stage.shared[b], &partition->nn, parts, &part);
                if (part.peak > bytes) bytes = part.peak;
            }
    }
}

void ls_partition_lay_activations(ls_partition *partition, ls_arena *arena) {
    lay_shared(partition, arena);
    for (int c = 0; c < partition->stage.nchunks; c++) {
        ls_chunk *chunk = &partition->stage.chunks[c];
        for (int s = 0; s < chunk->slots; s++) lay_slot(partition, chunk, &chunk->slot[s], arena);
        for (int s = 0; s < chunk->kept_slots; s++)
            for (int b = chunk->first; b < chunk->end; b++) {
                const ls_block *block = &partition->model->blocks[b];
                if (block->kind->carve_kept)
                    block->kind->carve_kept(block, chunk->kept[s].kept[b - chunk->first], &partition->nn, arena);
            }
    }
}

void ls_partition_lay_rings(ls_partition *partition, ls_arena *arena) {
    size_t stream = ls_nn_stream_rows(&partition->nn), out = 0, any = 0;
    const char *kind = partition->setup.layout.pp > 1 ? "communication" : "activations";
    for (int c = 0; c < partition->stage.nchunks; c++) {
        const ls_chunk *chunk = &partition->stage.chunks[c];
        size_t last = partition->model->blocks[chunk->end - 1].out, wide = widest(partition, chunk);
        if (last > out) out = last;
        if (wide > any) any = wide;
    }
    for (int i = 0; i < partition->stage.forward.count; i++)
        partition->stage.forward.buffer[i] = ls_partition_take_f32(arena, kind, stream, out);
    for (int i = 0; i < partition->stage.backward.count; i++)
        partition->stage.backward.buffer[i] = ls_partition_take_f32(arena, kind, stream, any);
}

void ls_partition_lay_scratch(ls_partition *partition, ls_arena *arena) {
    for (int c = 0; c < partition->stage.nchunks; c++)
        for (int b = partition->stage.chunks[c].first; b < partition->stage.chunks[c].end; b++) {
            ls_arena_phase_begin(arena);
            const ls_block *block = &partition->model->blocks[b];
            block->kind->carve_scratch(block, partition->stage.own_scratch[b], &partition->stage.scratch[b],
                                       &partition->nn, partition->setup.train, arena);
            ls_arena_phase_end(arena);
        }
}

/* ---- between stages -----------------------------------------------------------------------------------------------
 */

/* Returns the bytes that cross the boundary before a chunk, forward or backward. */
static size_t seam_bytes(const ls_partition *partition, int chunk) {
    int block = partition->setup.layout.chunk_first[chunk];
    return ls_nn_stream_rows(&partition->nn) * partition->model->blocks[block].in * sizeof(float);
}

ls_status ls_partition_ring_next(ls_send_ring *ring, float **buffer) {
    int i = ring->next;
    ls_request *request = ring->request[i];
    ring->next = (i + 1) % ring->count;
    ring->request[i] = NULL;
    *buffer = ring->buffer[i];
    return ls_request_wait(request);
}

/* Returns the number of a buffer in its ring. */
static int ring_index(const ls_send_ring *ring, const float *buffer) {
    int i = 0;
    while (ring->buffer[i] != buffer) i++;
    return i;
}

ls_status ls_partition_send(ls_partition *partition, ls_send_ring *ring, const float *buffer, int chunk, bool forward) {
    int pp = partition->setup.layout.pp, to = (forward ? chunk + 1 : chunk + pp - 1) % pp;
    int tag = forward ? LS_TAG_FORWARD + chunk + 1 : LS_TAG_BACKWARD + chunk - 1;
    if (!partition->comms.pp) return LS_OK;
    return ls_tensor_send_start(partition->device, partition->comms.pp, to, tag, buffer,
                                seam_bytes(partition, forward ? chunk + 1 : chunk),
                                &ring->request[ring_index(ring, buffer)]);
}

ls_status ls_partition_receive(ls_partition *partition, float *buffer, int chunk, bool forward) {
    int pp = partition->setup.layout.pp, from = (forward ? chunk + pp - 1 : chunk + 1) % pp;
    int tag = forward ? LS_TAG_FORWARD + chunk : LS_TAG_BACKWARD + chunk;
    if (!partition->comms.pp) return LS_OK;
    return ls_tensor_recv(partition->device, partition->comms.pp, from, tag, buffer,
                          seam_bytes(partition, forward ? chunk : chunk + 1));
}

/* Waits for all sends of a ring. */
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
    LS_TRY(drain(&partition->stage.forward));
    return drain(&partition->stage.backward);
}
