/* shapes.c: see images_shapes.h. Straight shapes are tables; round ones are polygons fine enough for the eye. */
#include "data/images/shapes.h"

#include <assert.h>
#include <math.h>

#include "numerics/elementary.h"

enum { FINE = 16, QUARTER = LS_TURN / 4 };

const char *const ls_drawing_names[LS_DRAWINGS_KINDS] = {"ring", "triangle", "square", "cross", "arrow",
                                                         "star", "zigzag",   "spiral", "bars",  "cup"};

int32_t ls_shape_sine(int32_t angle) {
    const double two_pi = 0x1.921fb54442d18p+2;
    return (int32_t)floor(ls_sin_f64(two_pi / LS_TURN * angle) * LS_SINE_ONE + 0.5);
}

static void add(ls_shape *shape, ls_point from, ls_point to) {
    assert(shape->count < LS_SHAPE_STROKES_MAX);
    shape->from[shape->count] = from;
    shape->to[shape->count++] = to;
}

static ls_point at(int32_t x, int32_t y) { return (ls_point){.x = FINE * x, .y = FINE * y}; }

/* A point of a circle around the middle. Shifting right instead of dividing would leave rounding below zero open. */
static ls_point around(int32_t angle, int32_t radius) {
    int32_t x = radius * FINE * ls_shape_sine(angle + QUARTER), y = radius * FINE * ls_shape_sine(angle);
    return (ls_point){.x = x / LS_SINE_ONE, .y = y / LS_SINE_ONE};
}

/* `strokes` strokes over `angle` from `begin` on, the radius going from r0 to r1. */
static void add_arc(ls_shape *shape, int32_t begin, int32_t angle, int32_t r0, int32_t r1, int32_t strokes) {
    for (int32_t i = 0; i < strokes; i++)
        add(shape, around(begin + angle * i / strokes, r0 + (r1 - r0) * i / strokes),
            around(begin + angle * (i + 1) / strokes, r0 + (r1 - r0) * (i + 1) / strokes));
}

static void add_star(ls_shape *shape) {
    for (int32_t i = 0; i < 10; i++)
        add(shape, around(LS_TURN * i / 10 - QUARTER, i % 2 ? 45 : 100),
            around(LS_TURN * (i + 1) / 10 - QUARTER, i % 2 ? 100 : 45));
}

static void add_cup(ls_shape *shape) {
    add(shape, at(-80, -80), at(-80, 0));
    add_arc(shape, 0, LS_TURN / 2, 80, 80, 10);
    add(shape, at(80, 0), at(80, -80));
}

static void add_lines(ls_shape *shape, const int8_t (*lines)[4], size_t count) {
    for (size_t i = 0; i < count; i++) add(shape, at(lines[i][0], lines[i][1]), at(lines[i][2], lines[i][3]));
}

static const int8_t triangle[][4] = {{0, -95, 85, 60}, {85, 60, -85, 60}, {-85, 60, 0, -95}};
static const int8_t square[][4] = {{-75, -75, 75, -75}, {75, -75, 75, 75}, {75, 75, -75, 75}, {-75, 75, -75, -75}};
static const int8_t cross[][4] = {{-95, 0, 95, 0}, {0, -95, 0, 95}};
static const int8_t arrow[][4] = {{-95, 0, 95, 0}, {95, 0, 30, -60}, {95, 0, 30, 60}};
static const int8_t zigzag[][4] = {{-95, -55, -48, 55}, {-48, 55, 0, -55}, {0, -55, 48, 55}, {48, 55, 95, -55}};
static const int8_t bars[][4] = {{-90, -75, 90, -75}, {-90, 0, 90, 0}, {-90, 75, 90, 75}};

#define ADD_LINES(shape, lines) add_lines(shape, lines, sizeof(lines) / sizeof *(lines))

void ls_shape_make(unsigned kind, ls_shape *out) {
    assert(kind < LS_DRAWINGS_KINDS);
    out->count = 0;
    switch (kind) {
    case 0: add_arc(out, 0, LS_TURN, 90, 90, 20); break;
    case 1: ADD_LINES(out, triangle); break;
    case 2: ADD_LINES(out, square); break;
    case 3: ADD_LINES(out, cross); break;
    case 4: ADD_LINES(out, arrow); break;
    case 5: add_star(out); break;
    case 6: ADD_LINES(out, zigzag); break;
    case 7: add_arc(out, 0, LS_TURN * 7 / 4, 10, 100, 28); break;
    case 8: ADD_LINES(out, bars); break;
    default: add_cup(out);
    }
}
