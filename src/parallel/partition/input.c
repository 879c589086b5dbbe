/* input.c: the tokens or images of a micro-batch, from the feed of the caller to the device. */
#include <stdlib.h>

#include "parallel/partition/state.h"

ls_status ls_partition_set_tokens(ls_partition *partition, const int32_t *ids, const int32_t *targets) {
    size_t bytes = ls_nn_rows(&partition->nn) * sizeof *ids;
    partition->nn.input.ids = partition->input.ids;
    partition->nn.input.targets = targets ? partition->input.targets : NULL;
    LS_TRY(ls_device_copy_in(partition->device, partition->input.ids, ids, bytes));
    return targets ? ls_device_copy_in(partition->device, partition->input.targets, targets, bytes) : LS_OK;
}

/* Reads images begin … end − 1 into host memory, unless a prefetch or an earlier action read just these last, of a
 * batch with this number. `ahead` is B for a prefetch, else 0: the feed numbers the images of the next batch from B on.
 */
static ls_status read_images(ls_partition *partition, const ls_chunk *chunk, const ls_partition_feed *feed,
                             size_t begin, size_t end, size_t ahead) {
    ls_fed_images *fed = &partition->input.fed;
    uint64_t batch = feed->batch + (ahead > 0);
    if (feed->batch && fed->batch == batch && fed->begin == begin && fed->end == end &&
        fed->with_pixels == chunk->has_embedding)
        return LS_OK;
    *fed = (ls_fed_images){0};
    LS_TRY(feed->images(feed->ctx, ahead + begin, ahead + end,
                        chunk->has_embedding ? partition->input.host_pixels : NULL, partition->input.host_targets));
    *fed = (ls_fed_images){.batch = batch, .begin = begin, .end = end, .with_pixels = chunk->has_embedding};
    return LS_OK;
}

/* Reads images begin … end − 1 of this worker's batch, with their classes, and copies them to the device, and makes
 * them the input of the next operations. Skips the reading, and the copying, if a prefetch or an earlier action of the
 * pass has done it. `ahead`: 0, or B for a prefetch, which asks the feed for the same images of the next batch. Errors
 * are those of the feed and the device. */
static ls_status feed_images(ls_partition *partition, const ls_chunk *chunk, const ls_partition_feed *feed,
                             size_t begin, size_t end, size_t ahead) {
    size_t elems = (end - begin) * ls_extent_elems(partition->model->blocks[0].image.in);
    LS_TRY(read_images(partition, chunk, feed, begin, end, ahead));
    partition->nn.input.images = partition->input.pixels;
    partition->nn.input.targets = partition->input.targets;
    if (partition->input.fed.on_device) return LS_OK;
    if (chunk->has_embedding)
        LS_TRY(ls_device_copy_in(partition->device, partition->input.pixels, partition->input.host_pixels,
                                 elems * sizeof(float)));
    LS_TRY(ls_device_copy_in(partition->device, partition->input.targets, partition->input.host_targets,
                             (end - begin) * sizeof(int32_t)));
    partition->input.fed.on_device = true;
    partition->input.fed.is_ahead = ahead > 0;
    return LS_OK;
}

/* Prefetches into the same buffers: all work that reads the images of this step is already enqueued before the copy. */
ls_status ls_partition_prepare(ls_partition *partition, const ls_partition_feed *feed) {
    int number = partition->setup.place.pp;
    for (int i = 0;
         !partition->skip.ops && partition->input.pixels && feed->batch && i < partition->pass.schedule.count[number];
         i++) {
        const ls_action *action = &partition->pass.schedule.actions[number][i];
        const ls_chunk *chunk = &partition->stage.chunks[action->chunk];
        const ls_micro *micro = &partition->pass.micros.micro[action->micro];
        if (micro->begin < micro->end && (chunk->has_embedding || chunk->has_head))
            return feed_images(partition, chunk, feed, micro->begin, micro->end, partition->setup.B);
    }
    return LS_OK;
}

ls_status ls_partition_feed_tokens(ls_partition *partition, const ls_chunk *chunk, const ls_partition_feed *feed,
                                   size_t begin, size_t end) {
    if (!chunk->has_embedding && !chunk->has_head) return LS_OK;
    if (partition->skip.ops) {
        /* A device that skips its work does not read the tokens, so those of an earlier micro-batch may stay. */
        partition->nn.input.ids = partition->input.ids;
        partition->nn.input.targets = partition->input.targets;
        partition->nn.input.images = partition->input.pixels;
        partition->input.fed = (ls_fed_images){0};
        return LS_OK;
    }
    if (partition->input.pixels) return feed_images(partition, chunk, feed, begin, end, 0);
    LS_TRY(feed->read(feed->ctx, begin, end, partition->input.host_ids, partition->input.host_targets));
    return ls_partition_set_tokens(partition, partition->input.host_ids, partition->input.host_targets);
}

void ls_partition_alloc_input(ls_partition *partition) {
    size_t rows = partition->micro * partition->setup.T;
    partition->input.host_ids = ls_partition_take(partition, rows, sizeof *partition->input.host_ids);
    partition->input.host_targets = ls_partition_take(partition, rows, sizeof *partition->input.host_targets);
    if (!ls_shape_sees_images(&partition->model->shape)) return;
    size_t image = ls_extent_elems(partition->model->blocks[0].image.in);
    partition->input.host_pixels =
        ls_partition_take(partition, partition->micro * image, sizeof *partition->input.host_pixels);
}

void ls_partition_lay_input(ls_partition *partition, ls_arena *arena) {
    const ls_shape *shape = &partition->model->shape;
    size_t rows = ls_nn_rows(&partition->nn), half = ls_shape_rotated(shape) / 2, T = partition->setup.T;
    partition->input.ids = ls_arena_take_array(arena, "tokens", rows, sizeof(int32_t));
    partition->input.targets = ls_arena_take_array(arena, "tokens", rows, sizeof(int32_t));
    if (ls_shape_sees_images(shape))
        partition->input.pixels = ls_partition_take_f32(arena, "images", partition->micro,
                                                        ls_extent_elems(partition->model->blocks[0].image.in));
    if (ls_shape_rope_tables(shape) == 0) return;
    partition->input.rope_cos = ls_partition_take_f32(arena, "tables", ls_shape_rope_tables(shape) * T, half);
    partition->input.rope_sin = ls_partition_take_f32(arena, "tables", ls_shape_rope_tables(shape) * T, half);
}

ls_status ls_partition_fill_rope(ls_partition *partition) {
    const ls_shape *shape = &partition->model->shape;
    size_t count = ls_shape_rope_tables(shape), elems = partition->setup.T * (ls_shape_rotated(shape) / 2);
    ls_status status = LS_OK;
    if (count == 0) return LS_OK;
    float *tables = malloc(2 * elems * sizeof *tables);
    if (!tables)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for the rotary table of %zu positions", partition->setup.T);
    for (size_t i = 0; i < count && status == LS_OK; i++) {
        float *cos = partition->input.rope_cos + i * elems, *sin = partition->input.rope_sin + i * elems;
        if (!ls_layer(shape, i).rotates) continue;
        ls_init_rope(shape, i, partition->setup.T, tables, tables + elems);
        status = ls_device_copy_in(partition->device, cos, tables, elems * sizeof *tables);
        if (status == LS_OK) status = ls_device_copy_in(partition->device, sin, tables + elems, elems * sizeof *tables);
    }
    partition->nn.rope.cos = partition->input.rope_cos;
    partition->nn.rope.sin = partition->input.rope_sin;
    partition->nn.rope.elems = elems;
    free(tables);
    return status;
}

void ls_partition_forget_prefetch(ls_partition *partition) {
    ls_fed_images *fed = &partition->input.fed;
    fed->on_device = fed->on_device && fed->is_ahead;
    fed->is_ahead = false;
}
