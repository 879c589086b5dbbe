/* raster.h: strokes with round ends on a grid of points, in integers.
 *
 * A pixel has LS_RASTER_SUB × LS_RASTER_SUB points. Coordinates are in 1/LS_RASTER_UNIT of a pixel from the upper left
 * corner and may lie outside the picture, not farther away than its size. */
#ifndef LS_DATA_IMAGES_RASTER_H
#define LS_DATA_IMAGES_RASTER_H

#include <stddef.h>
#include <stdint.h>

#include "data/images/drawings.h"

enum { LS_RASTER_SUB = 4, LS_RASTER_UNIT = 64, LS_RASTER_FULL = LS_RASTER_SUB * LS_RASTER_SUB };
enum { LS_RASTER_POINTS_MAX = LS_RASTER_SUB * LS_DRAWINGS_SIDE_MAX };

typedef struct ls_point {
    int32_t x, y;
} ls_point;

typedef struct ls_raster {
    uint32_t size;                                               /* pixels a side */
    uint8_t points[LS_RASTER_POINTS_MAX * LS_RASTER_POINTS_MAX]; /* 1 where a stroke is; rows of size·LS_RASTER_SUB */
} ls_raster;

void ls_raster_clear(ls_raster *raster, uint32_t size);
/* All points within `radius` of the line from a to b. */
void ls_raster_stroke(ls_raster *raster, ls_point a, ls_point b, int32_t radius);
/* How many of the points of each pixel are covered, 0 … LS_RASTER_FULL; [size][size]. */
void ls_raster_cover(const ls_raster *raster, uint8_t *cover);

#endif
