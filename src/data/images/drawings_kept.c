/* drawings_kept.c: drawings that were made once stay in memory.
 *
 * A drawing is made by the first thread that asks. Its state goes from none to being made to made, and only the thread
 * that took the first step writes the pixels; whoever comes in between makes the drawing for itself, so nobody waits.
 * Memory that was never asked for is never touched, so a large count costs nothing by itself. */
#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/memory.h"
#include "data/images/images.h"
#include "data/images/parts.h"

enum { COUNT_TRAIN = 60000, COUNT_TEST = 10000, COUNT_MAX = 10000000, SIZE_DEFAULT = 28, SIZE_COLOUR = 32 };
enum { NONE, BEING_MADE, MADE };

struct ls_drawings {
    ls_drawing_spec spec;
    uint64_t count;
    size_t bytes; /* of a drawing */
    uint8_t *pixels;
    atomic_uchar *states;
};

ls_status ls_drawings_create(const ls_drawing_spec *spec, uint64_t count, ls_drawings **out) {
    size_t bytes = (size_t)spec->size * spec->size * spec->channels;
    *out = NULL;
    LS_TRY(ls_memory_check((size_t)count * (bytes + 1)));
    ls_drawings *drawings = calloc(1, sizeof *drawings);
    if (drawings) {
        *drawings = (ls_drawings){.spec = *spec, .count = count, .bytes = bytes};
        drawings->pixels = calloc((size_t)count, bytes);
        drawings->states = calloc((size_t)count, sizeof *drawings->states);
    }
    if (!drawings || !drawings->pixels || !drawings->states) {
        ls_drawings_destroy(drawings);
        return ls_fail(LS_ERR_RESOURCE, "no memory for %" PRIu64 " drawings of %zu bytes", count, bytes);
    }
    *out = drawings;
    return LS_OK;
}

void ls_drawings_destroy(ls_drawings *drawings) {
    if (!drawings) return;
    free(drawings->pixels);
    free(drawings->states);
    free(drawings);
}

const ls_drawing_spec *ls_drawings_get_spec(const ls_drawings *drawings) { return &drawings->spec; }

const uint8_t *ls_drawings_get(ls_drawings *drawings, uint64_t index, uint8_t scratch[LS_DRAWINGS_BYTES_MAX]) {
    assert(index < drawings->count);
    uint8_t *kept = drawings->pixels + index * drawings->bytes;
    unsigned char state = atomic_load_explicit(&drawings->states[index], memory_order_acquire);
    if (state == MADE) return kept;
    if (state == NONE && atomic_compare_exchange_strong(&drawings->states[index], &state, BEING_MADE)) {
        ls_drawing_make(&drawings->spec, index, kept);
        atomic_store_explicit(&drawings->states[index], MADE, memory_order_release);
        return kept;
    }
    ls_drawing_make(&drawings->spec, index, scratch);
    return scratch;
}

ls_status ls_images_open_drawings(ls_images *images, const ls_images_options *options) {
    uint32_t size = options->size ? options->size : SIZE_DEFAULT;
    uint32_t channels = options->channels ? options->channels : size < SIZE_COLOUR ? 1 : 3;
    uint64_t count = options->count ? options->count : options->part == LS_IMAGES_TRAIN ? COUNT_TRAIN : COUNT_TEST;
    if (size < LS_DRAWINGS_SIDE_MIN || size > LS_DRAWINGS_SIDE_MAX)
        return ls_fail(LS_ERR_INPUT, "drawings have %d to %d pixels a side, not %" PRIu32, LS_DRAWINGS_SIDE_MIN,
                       LS_DRAWINGS_SIDE_MAX, size);
    if (channels != 1 && channels != 3)
        return ls_fail(LS_ERR_INPUT, "drawings have 1 channel (grey) or 3 (colour), not %" PRIu32, channels);
    if (count > COUNT_MAX)
        return ls_fail(LS_ERR_INPUT, "%" PRIu64 " drawings are too many: %d is the most", count, COUNT_MAX);
    images->about =
        (ls_images_about){.format = "drawings", .count = count, .channels = channels, .height = size, .width = size};
    for (uint32_t c = 0; c < channels; c++) images->about.mean[c] = 0.3, images->about.std[c] = 0.15;
    ls_drawing_spec spec = {.seed = options->seed, .part = options->part, .size = size, .channels = channels};
    LS_TRY(ls_drawings_create(&spec, count, &images->drawings));
    return ls_images_name_classes(images, LS_DRAWINGS_KINDS, ls_drawing_names);
}
