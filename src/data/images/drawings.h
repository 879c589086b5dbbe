/* drawings.h: labelled drawings of ten kinds, generated from (seed, part, number) by integer arithmetic: the same
 * bytes on every machine, and each drawing independent of the others. A source of images (images.h) for tests and
 * first runs, which need no download.
 *
 * Drawing i shows kind i mod 10: ring, triangle, square, cross, arrow, star, zigzag, spiral, bars, cup. Position, size,
 * rotation, stretch, thickness, contrast, the slope of the background, strokes of clutter and noise come from the
 * Philox blocks of the key (seed, LS_RNG_PURPOSE_DRAWING + part, i). Strokes are drawn on a grid of 4 × 4 points a
 * pixel.
 *
 * A linear model reaches less than 60 % of them, a small convolutional one more than 98 % (docs/reference/images.md).
 *
 * Generated drawings are cached: a second request returns the stored pixels. */
#ifndef LS_DATA_IMAGES_DRAWINGS_H
#define LS_DATA_IMAGES_DRAWINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* LS_DRAWINGS_VERSION changes whenever a byte of a drawing does. */
enum { LS_DRAWINGS_VERSION = 1, LS_DRAWINGS_KINDS = 10, LS_DRAWINGS_SIDE_MIN = 16, LS_DRAWINGS_SIDE_MAX = 64 };
enum { LS_DRAWINGS_BYTES_MAX = 3 * LS_DRAWINGS_SIDE_MAX * LS_DRAWINGS_SIDE_MAX };

typedef struct ls_drawing_spec {
    uint64_t seed;
    uint32_t part, size, channels; /* size: pixels per side, within the limits above; channels 1 or 3 */
} ls_drawing_spec;

/* Names of the kinds, "ring" and so on, by class. */
extern const char *const ls_drawing_names[LS_DRAWINGS_KINDS];

/* Generates drawing number `index` < 2^48 as bytes [channels][size][size]. Its class is index mod 10. */
void ls_drawing_make(const ls_drawing_spec *spec, uint64_t index, uint8_t *out);

/* ---- cache ------------------------------------------------------------------------------------------------------- */

/* The drawings 0 … count−1 of one specification, generated when they are first requested. Any thread may get them. */
typedef struct ls_drawings ls_drawings;

/* Frees the cache; NULL does nothing. images.c destroys the cache that ls_images_open_drawings() made. */
void ls_drawings_destroy(ls_drawings *drawings);
/* Returns the specification, which belongs to the drawings. */
const ls_drawing_spec *ls_drawings_get_spec(const ls_drawings *drawings);
/* Returns the pixels of drawing `index` < count: those of the cache, valid until destroy, or `scratch` while another
 * thread generates the drawing. `scratch` may be NULL if only one thread reads. */
const uint8_t *ls_drawings_get(ls_drawings *drawings, uint64_t index, uint8_t scratch[LS_DRAWINGS_BYTES_MAX]);

#endif
