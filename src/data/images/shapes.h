/* shapes.h: the outlines of the ten kinds of drawings, as strokes between points of a square of ±100. */
#ifndef LS_DATA_IMAGES_SHAPES_H
#define LS_DATA_IMAGES_SHAPES_H

#include <stddef.h>
#include <stdint.h>

#include "data/images/raster.h"

enum { LS_SHAPE_STROKES_MAX = 32, LS_SHAPE_UNIT = 100, LS_SINE_ONE = 1 << 14, LS_TURN = 1 << 16 };

typedef struct ls_shape {
    size_t count;
    ls_point from[LS_SHAPE_STROKES_MAX], to[LS_SHAPE_STROKES_MAX];
} ls_shape;

/* In units of 1/16: ±1600. y grows downwards. */
void ls_shape_make(unsigned kind, ls_shape *out);
/* LS_SINE_ONE · sin(2π·angle/LS_TURN), rounded to the nearest. */
int32_t ls_shape_sine(int32_t angle);

#endif
