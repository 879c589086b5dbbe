/* drawings.c: draws, from back to front: a sloping background, clutter, the shape, noise.
 *
 * All numbers are integers, and divisions round towards zero, as in C. The order in which random numbers are drawn is
 * part of the result. */
#include "data/images/drawings.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/rng.h"
#include "data/images/images.h"
#include "data/images/sources.h"
#include "data/images/raster.h"

enum { NOISE_BLOCK = 1 << 20, PERCENT = 100 };
/* Lengths in the picture are thousandths of its side. */
enum { SIDE = 1000 };

/* The sequence of random numbers of one drawing; `number` is the next one. */
typedef struct pen {
    ls_rng_key key;
    uint64_t number;
} pen;

/* The picture while it is painted: `level` by channel, from 0 (black) to 255 and beyond, `cover` as scratch memory
 * for strokes. */
typedef struct canvas {
    uint32_t size, channels;
    int32_t level[3][LS_DRAWINGS_SIDE_MAX * LS_DRAWINGS_SIDE_MAX];
    uint8_t cover[LS_DRAWINGS_SIDE_MAX * LS_DRAWINGS_SIDE_MAX];
    ls_raster raster;
} canvas;

/* Returns a random integer from low to high, both inclusive. */
static int32_t draw_integer(pen *p, int32_t low, int32_t high) {
    return low + (int32_t)ls_rng_below(p->key, p->number++, (uint64_t)(high - low) + 1);
}

/* Paints the background: for each channel a level and a slope in each direction. */
static void paint_background(canvas *c, pen *p) {
    int32_t size = (int32_t)c->size;
    for (uint32_t channel = 0; channel < c->channels; channel++) {
        int32_t right = draw_integer(p, -30, 30), down = draw_integer(p, -30, 30), base = draw_integer(p, 35, 95);
        int32_t row[LS_DRAWINGS_SIDE_MAX];
        for (int32_t x = 0; x < size; x++) row[x] = base + right * (2 * x - size) / (2 * size);
        for (int32_t y = 0; y < size; y++) {
            int32_t below = down * (2 * y - size) / (2 * size);
            for (int32_t x = 0; x < size; x++) c->level[channel][y * size + x] = row[x] + below;
        }
    }
}

/* Paints the raster's strokes on the canvas; `contrast` is their brightness above the background. */
static void paint_strokes(canvas *c, const int32_t contrast[3]) {
    size_t begin, end;
    ls_raster_cover(&c->raster, c->cover, &begin, &end);
    for (uint32_t channel = 0; channel < c->channels; channel++)
        for (size_t i = begin; i < end; i++) c->level[channel][i] += contrast[channel] * c->cover[i] / LS_RASTER_FULL;
}

/* Draws a contrast between the bounds at random; in colour each channel gets its own fraction of it. */
static void draw_contrast(const canvas *c, pen *p, int32_t low, int32_t high, int32_t contrast[3]) {
    int32_t common = draw_integer(p, low, high);
    contrast[0] = common;
    /* A colour: each channel has its own fraction of the common contrast. */
    for (uint32_t channel = 0; c->channels > 1 && channel < c->channels; channel++)
        contrast[channel] = common * draw_integer(p, 40, 120) / PERCENT;
}

/* Converts a coordinate or length of the picture to raster units. */
static int32_t scale_to_raster(const canvas *c, int32_t thousandths) {
    return thousandths * (int32_t)c->size * LS_RASTER_UNIT / SIDE;
}

/* Paints 2 to 5 short strokes, brighter or darker than the background. */
static void paint_clutter(canvas *c, pen *p) {
    int32_t strokes = draw_integer(p, 2, 5), contrast[3];
    for (int32_t i = 0; i < strokes; i++) {
        ls_raster_point a = {scale_to_raster(c, draw_integer(p, 0, SIDE)),
                             scale_to_raster(c, draw_integer(p, 0, SIDE))};
        ls_raster_point b = {a.x + scale_to_raster(c, draw_integer(p, -250, 250)),
                             a.y + scale_to_raster(c, draw_integer(p, -250, 250))};
        draw_contrast(c, p, -35, 60, contrast);
        ls_raster_clear(&c->raster, c->size);
        ls_raster_stroke(&c->raster, a, b, scale_to_raster(c, draw_integer(p, 20, 60)));
        paint_strokes(c, contrast);
    }
}

/* Where the shape is, in raster units, and its rotation as sine and cosine in units of LS_SINE_ONE. */
typedef struct placement {
    int32_t x, y, wide, high, sine, cosine; /* wide, high: half the extent of the shape */
} placement;

/* Scales, rotates and moves a point of the outline to raster units. */
static ls_raster_point place_point(const placement *at, ls_raster_point p) {
    int32_t x = p.x * at->wide / (16 * LS_OUTLINE_UNIT), y = p.y * at->high / (16 * LS_OUTLINE_UNIT);
    return (ls_raster_point){.x = at->x + (x * at->cosine - y * at->sine) / LS_SINE_ONE,
                             .y = at->y + (x * at->sine + y * at->cosine) / LS_SINE_ONE};
}

/* Paints the outline of the kind at a random place, size and rotation. */
static void paint_shape(canvas *c, pen *p, unsigned kind) {
    ls_outline shape;
    placement at;
    int32_t contrast[3], radius = draw_integer(p, 240, 340), angle = draw_integer(p, -LS_TURN / 12, LS_TURN / 12);
    ls_outline_make(kind, &shape);
    at.wide = scale_to_raster(c, radius * draw_integer(p, 80, 100) / PERCENT);
    at.high = scale_to_raster(c, radius * draw_integer(p, 80, 100) / PERCENT);
    at.sine = ls_outline_sine(angle);
    at.cosine = ls_outline_sine(angle + LS_TURN / 4);
    at.x = scale_to_raster(c, draw_integer(p, radius + 60, SIDE - radius - 60));
    at.y = scale_to_raster(c, draw_integer(p, radius + 60, SIDE - radius - 60));
    int32_t thickness = scale_to_raster(c, draw_integer(p, 26, 50));
    draw_contrast(c, p, 80, 150, contrast);
    ls_raster_clear(&c->raster, c->size);
    for (size_t i = 0; i < shape.count; i++)
        ls_raster_stroke(&c->raster, place_point(&at, shape.from[i]), place_point(&at, shape.to[i]), thickness);
    paint_strokes(c, contrast);
}

/* Adds noise, the sum of two uniform numbers with the drawing's own amplitude, and writes clamped bytes. */
static void apply_noise(const canvas *c, pen *p, uint8_t *out) {
    int32_t height = draw_integer(p, 5, 40);
    size_t pixels = (size_t)c->size * c->size, i = 0;
    uint32_t words[4];
    for (uint32_t channel = 0; channel < c->channels; channel++)
        for (size_t at = 0; at < pixels; at++, i++) {
            if (i % 8 == 0) ls_rng_u32x4(p->key, NOISE_BLOCK + i / 8, words);
            uint32_t bits = words[i % 8 / 2] >> (i % 2 ? 16 : 0);
            int32_t noise = ((int32_t)(bits & 255) + (int32_t)(bits >> 8 & 255) - 255) * height / 256;
            int32_t level = c->level[channel][at] + noise;
            out[i] = (uint8_t)(level < 0 ? 0 : level > 255 ? 255 : level);
        }
}

void ls_drawing_make(const ls_drawing_spec *spec, uint64_t index, uint8_t *out) {
    canvas c;
    pen p = {.key = ls_rng_key_make(spec->seed, LS_RNG_PURPOSE_DRAWING + spec->part, index)};
    assert(spec->size >= LS_DRAWINGS_SIDE_MIN && spec->size <= LS_DRAWINGS_SIDE_MAX);
    assert(spec->channels == 1 || spec->channels == 3);
    c.size = spec->size;
    c.channels = spec->channels;
    paint_background(&c, &p);
    paint_clutter(&c, &p);
    paint_shape(&c, &p, (unsigned)(index % LS_DRAWINGS_KINDS));
    apply_noise(&c, &p, out);
}

/* ---- kept in memory ---------------------------------------------------------------------------------------------- */

/* The cache of drawings.
 *
 * The first thread that requests a drawing generates it. Its state goes from none to generating to done, and only the
 * thread that took the first step writes the pixels; a thread that requests it meanwhile generates its own copy, so no
 * thread waits. Memory of other drawings is never touched, so a large count alone costs nothing. */

enum { COUNT_TRAIN = 60000, COUNT_TEST = 10000, COUNT_MAX = 10000000, SIZE_DEFAULT = 28, SIZE_COLOUR = 32 };
enum { NONE, BEING_MADE, MADE };

struct ls_drawings {
    ls_drawing_spec spec;
    uint64_t count;
    size_t bytes; /* of a drawing */
    uint8_t *pixels;
    atomic_uchar *states;
};

/* Allocates the cache; pages of drawings that are never requested cost no memory. */
static ls_status create_drawings(const ls_drawing_spec *spec, uint64_t count, ls_drawings **out) {
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
        return ls_fail(LS_ERR_RESOURCE, "out of memory for %" PRIu64 " drawings of %zu bytes", count, bytes);
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
        return ls_fail(LS_ERR_INPUT, "%" PRIu64 " drawings were requested; the most is %d", count, COUNT_MAX);
    images->about =
        (ls_images_about){.format = "drawings", .count = count, .channels = channels, .height = size, .width = size};
    for (uint32_t c = 0; c < channels; c++) images->about.mean[c] = 0.3, images->about.std[c] = 0.15;
    ls_drawing_spec spec = {.seed = options->seed, .part = options->part, .size = size, .channels = channels};
    LS_TRY(create_drawings(&spec, count, &images->drawings));
    return ls_images_name_classes(images, LS_DRAWINGS_KINDS, ls_drawing_names);
}
