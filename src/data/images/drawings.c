/* drawings.c: see images_drawings.h. From back to front: a sloping background, clutter, the shape, noise.
 *
 * Every number is an integer, and every division of one that may be negative is C's, towards zero. The order in which
 * numbers are drawn is part of the result. */
#include "data/images/drawings.h"

#include <assert.h>

#include "base/rng.h"
#include "data/images/images.h"
#include "data/images/raster.h"
#include "data/images/shapes.h"

enum { NOISE_BLOCK = 1 << 20, PERCENT = 100 };
/* Lengths of the picture are thousandths of its side. */
enum { SIDE = 1000 };

typedef struct pen {
    ls_rng_key key;
    uint64_t number;
} pen;

typedef struct canvas {
    uint32_t size, channels;
    int32_t level[3][LS_DRAWINGS_SIDE_MAX * LS_DRAWINGS_SIDE_MAX];
    uint8_t cover[LS_DRAWINGS_SIDE_MAX * LS_DRAWINGS_SIDE_MAX];
    ls_raster raster;
} canvas;

/* A random whole number from low to high, both included. */
static int32_t draw(pen *p, int32_t low, int32_t high) {
    return low + (int32_t)ls_rng_below(p->key, p->number++, (uint64_t)(high - low) + 1);
}

/* The background: a level and a slope in each direction, of each channel. */
static void paint_background(canvas *c, pen *p) {
    int32_t size = (int32_t)c->size;
    for (uint32_t channel = 0; channel < c->channels; channel++) {
        int32_t right = draw(p, -30, 30), down = draw(p, -30, 30), base = draw(p, 35, 95);
        for (int32_t y = 0; y < size; y++)
            for (int32_t x = 0; x < size; x++)
                c->level[channel][y * size + x] =
                    base + right * (2 * x - size) / (2 * size) + down * (2 * y - size) / (2 * size);
    }
}

/* Puts what the raster holds on the canvas, `contrast` brighter than the background. */
static void paint(canvas *c, const int32_t contrast[3]) {
    ls_raster_cover(&c->raster, c->cover);
    for (uint32_t channel = 0; channel < c->channels; channel++)
        for (size_t i = 0; i < (size_t)c->size * c->size; i++)
            c->level[channel][i] += contrast[channel] * c->cover[i] / LS_RASTER_FULL;
}

static void draw_contrast(const canvas *c, pen *p, int32_t low, int32_t high, int32_t contrast[3]) {
    int32_t common = draw(p, low, high);
    contrast[0] = common;
    /* A colour: each channel has its own part of the common contrast. */
    for (uint32_t channel = 0; c->channels > 1 && channel < c->channels; channel++)
        contrast[channel] = common * draw(p, 40, 120) / PERCENT;
}

/* A coordinate or length of the picture in units of the raster. */
static int32_t scaled(const canvas *c, int32_t thousandths) {
    return thousandths * (int32_t)c->size * LS_RASTER_UNIT / SIDE;
}

static void paint_clutter(canvas *c, pen *p) {
    int32_t strokes = draw(p, 2, 5), contrast[3];
    for (int32_t i = 0; i < strokes; i++) {
        ls_point a = {scaled(c, draw(p, 0, SIDE)), scaled(c, draw(p, 0, SIDE))};
        ls_point b = {a.x + scaled(c, draw(p, -250, 250)), a.y + scaled(c, draw(p, -250, 250))};
        draw_contrast(c, p, -35, 60, contrast);
        ls_raster_clear(&c->raster, c->size);
        ls_raster_stroke(&c->raster, a, b, scaled(c, draw(p, 20, 60)));
        paint(c, contrast);
    }
}

typedef struct placement {
    int32_t x, y, wide, high, sine, cosine; /* wide, high: half the extent of the shape */
} placement;

static ls_point place(const placement *at, ls_point p) {
    int32_t x = p.x * at->wide / (16 * LS_SHAPE_UNIT), y = p.y * at->high / (16 * LS_SHAPE_UNIT);
    return (ls_point){.x = at->x + (x * at->cosine - y * at->sine) / LS_SINE_ONE,
                      .y = at->y + (x * at->sine + y * at->cosine) / LS_SINE_ONE};
}

static void paint_shape(canvas *c, pen *p, unsigned kind) {
    ls_shape shape;
    placement at;
    int32_t contrast[3], radius = draw(p, 240, 340), angle = draw(p, -LS_TURN / 12, LS_TURN / 12);
    ls_shape_make(kind, &shape);
    at.wide = scaled(c, radius * draw(p, 80, 100) / PERCENT);
    at.high = scaled(c, radius * draw(p, 80, 100) / PERCENT);
    at.sine = ls_shape_sine(angle);
    at.cosine = ls_shape_sine(angle + LS_TURN / 4);
    at.x = scaled(c, draw(p, radius + 60, SIDE - radius - 60));
    at.y = scaled(c, draw(p, radius + 60, SIDE - radius - 60));
    int32_t thickness = scaled(c, draw(p, 26, 50));
    draw_contrast(c, p, 80, 150, contrast);
    ls_raster_clear(&c->raster, c->size);
    for (size_t i = 0; i < shape.count; i++)
        ls_raster_stroke(&c->raster, place(&at, shape.from[i]), place(&at, shape.to[i]), thickness);
    paint(c, contrast);
}

/* Adds the sum of two uniform numbers, of a height that is the drawing's own, and cuts at 0 and 255. */
static void finish(const canvas *c, pen *p, uint8_t *out) {
    int32_t height = draw(p, 5, 40);
    size_t pixels = (size_t)c->size * c->size;
    for (size_t i = 0; i < pixels * c->channels; i += 8) {
        uint32_t words[4];
        ls_rng_u32x4(p->key, NOISE_BLOCK + i / 8, words);
        for (size_t k = 0; k < 8 && i + k < pixels * c->channels; k++) {
            uint32_t bits = words[k / 2] >> (k % 2 ? 16 : 0);
            int32_t noise = ((int32_t)(bits & 255) + (int32_t)(bits >> 8 & 255) - 255) * height / 256;
            int32_t level = c->level[(i + k) / pixels][(i + k) % pixels] + noise;
            out[i + k] = (uint8_t)(level < 0 ? 0 : level > 255 ? 255 : level);
        }
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
    finish(&c, &p, out);
}
