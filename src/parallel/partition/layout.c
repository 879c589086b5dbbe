/* layout.c: where everything of a stage lies in its one block of memory. */
#include "parallel/partition/state.h"

static float *take(ls_arena *arena, const char *kind, size_t rows, size_t columns) {
    return ls_arena_take_array(arena, kind, rows, columns * sizeof(float));
}

static uint16_t *take16(ls_arena *arena, const char *kind, size_t elems) {
    return ls_arena_take_array(arena, kind, elems, sizeof(uint16_t));
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static void want_room(ls_rooms *rooms, int count, size_t elems) {
    rooms->count = count;
    if (elems > rooms->elems) rooms->elems = elems;
}

static void lay_rooms(ls_arena *arena, ls_rooms *rooms, const char *kind, size_t bytes) {
    for (int i = 0; i < rooms->count; i++) rooms->memory[i] = ls_arena_take_array(arena, kind, rooms->elems, bytes);
}

/* With zero 3 only own elements stay; the rest is gathered when it is needed. */
static void lay_gathered(ls_stage *stage, ls_bucket *bucket) {
    bool table = bucket->kind == LS_BUCKET_TABLE;
    want_room(table ? &stage->table_weights : &stage->block_weights, table ? 1 : LS_STAGE_ROOMS, bucket->elems);
}

static void lay_plain(ls_stage *stage, ls_bucket *bucket, ls_arena *arena) {
    if (stage->setup.layout.zero < 3 || !ls_bucket_is_matrix(bucket)) {
        bucket->w = take(arena, "parameters", bucket->elems, 1);
        return;
    }
    bucket->shard_w = take(arena, "parameters", ls_bucket_own_elems(bucket), 1);
    lay_gathered(stage, bucket);
}

/* fp32 is for whoever updates it: own elements, and none of a copy or without training. */
static void lay_rounded(ls_stage *stage, ls_bucket *bucket, ls_arena *arena) {
    size_t own = ls_bucket_own_elems(bucket);
    bool updates = stage->setup.train && bucket->param[0] != stage->copy;
    if (updates && stage->setup.layout.zero == 0)
        bucket->w = take(arena, "parameters", bucket->elems, 1);
    else if (updates)
        bucket->shard_w = take(arena, "parameters", own, 1);
    if (stage->setup.layout.zero < 3) {
        bucket->w16 = take16(arena, "16-bit parameters", bucket->elems);
        return;
    }
    bucket->shard_w16 = take16(arena, "16-bit parameters", own);
    lay_gathered(stage, bucket);
}

static void lay_weights(ls_stage *stage, ls_arena *arena) {
    size_t bytes = ls_dtype_bytes(stage->setup.policy.act);
    stage->block_weights.elems = stage->table_weights.elems = 0;
    for (int i = 0; i < stage->nbuckets; i++) {
        ls_bucket *bucket = &stage->buckets[i];
        if (bucket->kind == LS_BUCKET_LOOKUP) continue;
        if (ls_stage_is_16(stage, bucket))
            lay_rounded(stage, bucket, arena);
        else
            lay_plain(stage, bucket, arena);
        ls_bucket_point_weights(bucket);
    }
    lay_rooms(arena, &stage->block_weights, "gathered parameters", bytes);
    lay_rooms(arena, &stage->table_weights, "gathered parameters", bytes);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static void lay_stack(ls_stage *stage, ls_bucket *bucket, ls_arena *arena) {
    bool summed = bucket->kind == LS_BUCKET_VECTORS || bucket->kind == LS_BUCKET_POSITIONS || stage->nn.leaves;
    bool travels = ls_stage_wire(stage) != LS_F32 && stage->setup.layout.dp > 1;
    bucket->slots = summed ? stage->slots.sum : stage->slots.product;
    stage->audit_slot = stage->slots.sum > stage->slots.product ? stage->slots.sum : stage->slots.product;
    if (stage->setup.audits) bucket->slots = stage->audit_slot + 1;
    for (int s = 0; s < bucket->slots; s++) bucket->slot[s] = take(arena, "gradients", bucket->grad_elems, 1);
    for (int s = 0; travels && s < stage->slots.parts; s++)
        if (stage->part_is_leaf[s]) bucket->wire[s] = take16(arena, "communication", bucket->grad_elems);
}

static void lay_rounds(ls_stage *stage, ls_bucket *bucket, ls_arena *arena) {
    bool table = bucket->kind == LS_BUCKET_TABLE || bucket->kind == LS_BUCKET_LOOKUP;
    bucket->slots = 1;
    if (!stage->leaves_pass || (!table && !ls_bucket_is_matrix(bucket))) {
        bucket->slot[0] = take(arena, "gradients", bucket->grad_elems, 1);
        if (ls_stage_wire(stage) != LS_F32) bucket->wire[0] = take16(arena, "communication", bucket->grad_elems);
    } else {
        want_room(table ? &stage->table_leaves : &stage->block_leaves, table ? 1 : LS_STAGE_ROOMS, bucket->grad_elems);
    }
    bucket->own_slots = stage->rounds.own_slots;
    for (int s = 0; s < bucket->own_slots; s++)
        bucket->own_slot[s] = take(arena, "gradients", ls_bucket_own_elems(bucket), 1);
}

static void lay_leaf_rooms(ls_stage *stage, ls_rooms *rooms, ls_arena *arena) {
    lay_rooms(arena, rooms, "gradients", sizeof(float));
    for (int i = 0; ls_stage_wire(stage) != LS_F32 && i < rooms->count; i++)
        rooms->wire[i] = take16(arena, "communication", rooms->elems);
}

static void lay_grads(ls_stage *stage, ls_arena *arena) {
    bool rounds = ls_stage_rounds(stage);
    stage->block_leaves.elems = stage->table_leaves.elems = 0;
    for (int i = 0; i < stage->nbuckets; i++) {
        ls_bucket *bucket = &stage->buckets[i];
        if (rounds)
            lay_rounds(stage, bucket, arena);
        else
            lay_stack(stage, bucket, arena);
        ls_bucket_point_grads(bucket, stage->model->S);
    }
    lay_leaf_rooms(stage, &stage->block_leaves, arena);
    lay_leaf_rooms(stage, &stage->table_leaves, arena);
}

static void lay_moments(ls_stage *stage, ls_arena *arena) {
    for (int i = 0; i < stage->nbuckets; i++) {
        ls_bucket *bucket = &stage->buckets[i];
        for (int p = 0; p < bucket->nparams && bucket->kind != LS_BUCKET_LOOKUP; p++) {
            ls_param *param = bucket->param[p];
            int moments = param == stage->copy ? 0 : stage->setup.moments;
            for (int m = 0; m < 2; m++)
                param->moment[m] =
                    m < moments ? take(arena, "optimizer state", ls_param_range_elems(param->own), 1) : NULL;
        }
    }
}

/* The table's other use comes from the last stage. */
static void lay_tied(ls_stage *stage, ls_arena *arena) {
    const ls_stage_setup *setup = &stage->setup;
    bool first = setup->train && stage->model->shape.tied && setup->layout.pp > 1 && setup->place.pp == 0;
    const ls_param *table = &stage->model->blocks[0].param[0];
    stage->tied = first ? take(arena, "communication", ls_param_range_elems(table->own), 1) : NULL;
    stage->has_tied = first;
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

/* Columns of the widest stream before or after one of a chunk's blocks. */
static size_t widest(const ls_stage *stage, const ls_chunk *chunk) {
    size_t most = 0;
    for (int b = chunk->first; b < chunk->end; b++) {
        const ls_block *block = &stage->model->blocks[b];
        if (block->in > most) most = block->in;
        if (block->out > most) most = block->out;
    }
    return most;
}

static void lay_slot(ls_stage *stage, const ls_chunk *chunk, ls_chunk_slot *slot, ls_arena *arena) {
    size_t stream = ls_nn_stream_rows(&stage->nn);
    bool train = stage->setup.train;
    for (int i = 0; i < chunk->end - chunk->first; i++) {
        ls_block *block = &stage->model->blocks[chunk->first + i];
        int before = chunk->has_embedding ? i - 1 : i; /* inputs that are there; forward alone two take turns */
        if (before < 0)
            slot->x[i] = NULL;
        else if (train || before < 2)
            slot->x[i] = take(arena, "activations", stream, train ? block->in : widest(stage, chunk));
        else
            slot->x[i] = slot->x[i - 2];
        slot->saved[i] = stage->shared[chunk->first + i];
        block->kind->carve_saved(block, &slot->saved[i], &stage->nn, stage->kept_parts, arena);
    }
}

/* What is not kept is needed while a block runs: one place, as large as the block needs that needs most. */
static void lay_shared(ls_stage *stage, ls_arena *arena) {
    unsigned parts = LS_SAVE_ALL & ~stage->kept_parts;
    size_t bytes = 0;
    for (int pass = 0; pass < 2; pass++) {
        void *place = pass && bytes ? ls_arena_take(arena, "activations", bytes) : NULL;
        for (int c = 0; c < stage->nchunks; c++)
            for (int b = stage->chunks[c].first; b < stage->chunks[c].end; b++) {
                ls_arena part;
                ls_arena_measure(&part);
                if (place) ls_arena_carve(&part, place, bytes);
                stage->shared[b] = (ls_saved){0};
                const ls_block *block = &stage->model->blocks[b];
                block->kind->carve_saved(block, &stage->shared[b], &stage->nn, parts, &part);
                if (part.peak > bytes) bytes = part.peak;
            }
    }
}

static void lay_activations(ls_stage *stage, ls_arena *arena) {
    lay_shared(stage, arena);
    for (int c = 0; c < stage->nchunks; c++) {
        ls_chunk *chunk = &stage->chunks[c];
        for (int s = 0; s < chunk->slots; s++) lay_slot(stage, chunk, &chunk->slot[s], arena);
        for (int s = 0; s < chunk->kept_slots; s++)
            for (int b = chunk->first; b < chunk->end; b++) {
                const ls_block *block = &stage->model->blocks[b];
                block->kind->carve_kept(block, &chunk->kept[s].kept[b - chunk->first], &stage->nn, arena);
            }
    }
}

static void lay_rings(ls_stage *stage, ls_arena *arena) {
    size_t stream = ls_nn_stream_rows(&stage->nn), out = 0, any = 0;
    const char *kind = stage->setup.layout.pp > 1 ? "communication" : "activations";
    for (int c = 0; c < stage->nchunks; c++) {
        const ls_chunk *chunk = &stage->chunks[c];
        size_t last = stage->model->blocks[chunk->end - 1].out, wide = widest(stage, chunk);
        if (last > out) out = last;
        if (wide > any) any = wide;
    }
    for (int i = 0; i < stage->forward.count; i++) stage->forward.buffer[i] = take(arena, kind, stream, out);
    for (int i = 0; i < stage->backward.count; i++) stage->backward.buffer[i] = take(arena, kind, stream, any);
}

static void lay_scratch(ls_stage *stage, ls_arena *arena) {
    for (int c = 0; c < stage->nchunks; c++)
        for (int b = stage->chunks[c].first; b < stage->chunks[c].end; b++) {
            ls_arena_phase_begin(arena);
            const ls_block *block = &stage->model->blocks[b];
            block->kind->carve_scratch(block, &stage->scratch[b], &stage->nn, stage->setup.train, arena);
            ls_arena_phase_end(arena);
        }
}

ls_status ls_stage_layout(ls_arena *arena, void *ctx) {
    ls_stage *stage = ctx;
    const ls_stage_setup *setup = &stage->setup;
    const ls_shape *shape = &stage->model->shape;
    size_t half = shape->head_size / 2;
    lay_weights(stage, arena);
    if (setup->train) lay_grads(stage, arena);
    for (int i = 0; i < stage->nbuckets; i++)
        ls_bucket_point_own(&stage->buckets[i], stage->model->S, ls_stage_rounds(stage));
    lay_moments(stage, arena);
    lay_tied(stage, arena);
    ls_nn_set_rows(&stage->nn, stage->micro, setup->T);
    lay_activations(stage, arena);
    lay_rings(stage, arena);
    stage->ids = ls_arena_take_array(arena, "tokens", ls_nn_rows(&stage->nn), sizeof(int32_t));
    stage->targets = ls_arena_take_array(arena, "tokens", ls_nn_rows(&stage->nn), sizeof(int32_t));
    if (ls_shape_sees_images(shape))
        stage->pixels = take(arena, "images", stage->micro, ls_extent_elems(stage->model->blocks[0].image.in));
    if (ls_shape_is_llama(shape)) {
        stage->rope_cos = take(arena, "tables", setup->T, half);
        stage->rope_sin = take(arena, "tables", setup->T, half);
    }
    stage->aside = setup->numerics ? take(arena, "scratch", LS_NUMERICS_PIECE, 1) : NULL;
    if (setup->train) stage->squares = ls_arena_take_array(arena, "scratch", stage->squares_elems, sizeof(double));
    lay_scratch(stage, arena);
    return LS_OK;
}
