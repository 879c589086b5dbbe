/* raster.h: draws strokes with round ends on a grid of points, in integers, and has the outlines of the ten kinds of
 * drawings. For drawings.c.
 *
 * A pixel has LS_RASTER_SUB × LS_RASTER_SUB points. Coordinates are in 1/LS_RASTER_UNIT of a pixel from the upper
 * left corner. They may be outside the picture by at most its size. */
#ifndef LS_DATA_IMAGES_RASTER_H
#define LS_DATA_IMAGES_RASTER_H

#include <stddef.h>
#include <stdint.h>

#include "data/images/drawings.h"

enum { LS_RASTER_SUB = 4, LS_RASTER_UNIT = 64, LS_RASTER_FULL = LS_RASTER_SUB * LS_RASTER_SUB };
enum { LS_RASTER_POINTS_MAX = LS_RASTER_SUB * LS_DRAWINGS_SIDE_MAX };

typedef struct ls_raster_point {
    int32_t x, y;
} ls_raster_point;

typedef struct ls_raster {
    uint32_t size;                                               /* pixels per side */
    uint32_t top, bottom;                                        /* rows of points top … bottom−1 have strokes */
    uint8_t points[LS_RASTER_POINTS_MAX * LS_RASTER_POINTS_MAX]; /* 1 in a stroke; rows of size·LS_RASTER_SUB points */
} ls_raster;

/* Removes all strokes and sets the size, at most LS_DRAWINGS_SIDE_MAX. */
void ls_raster_clear(ls_raster *raster, uint32_t size);
/* Marks all points within `radius` of the line from a to b. */
void ls_raster_stroke(ls_raster *raster, ls_raster_point a, ls_raster_point b, int32_t radius);
/* Counts the marked points of each pixel, 0 … LS_RASTER_FULL, in cover[size][size]. Writes only pixels *begin … *end −
 * 1; the others have none. */
void ls_raster_cover(const ls_raster *raster, uint8_t *cover, size_t *begin, size_t *end);

/* ---- outlines of the ten kinds of drawings, as strokes between points of a square of ±100 ------------------------ */

enum { LS_OUTLINE_STROKES_MAX = 32, LS_OUTLINE_UNIT = 100, LS_SINE_ONE = 1 << 14, LS_TURN = 1 << 16 };

typedef struct ls_outline {
    size_t count;
    ls_raster_point from[LS_OUTLINE_STROKES_MAX], to[LS_OUTLINE_STROKES_MAX];
} ls_outline;

/* Makes the outline of a kind (0 … 9, as ls_drawing_names), as strokes from[i] to to[i] with coordinates in 1/16 of a
 * point: ±1600. y grows downwards. */
void ls_outline_make(unsigned kind, ls_outline *out);
/* Returns LS_SINE_ONE · sin(2π·angle/LS_TURN), rounded to nearest: LS_TURN is a full turn. */
int32_t ls_outline_sine(int32_t angle);

#endif
