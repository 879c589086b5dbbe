/* raster.c: draws strokes on a grid of points, and makes the outlines of the drawings. */
#include "data/images/raster.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "numerics/elementary.h"

enum { STEP = LS_RASTER_UNIT / LS_RASTER_SUB }; /* distance of points; the first lies STEP/2 from the edge */

void ls_raster_clear(ls_raster *raster, uint32_t size) {
    assert(size <= LS_DRAWINGS_SIDE_MAX);
    raster->size = size;
    raster->top = size * LS_RASTER_SUB;
    raster->bottom = 0;
    memset(raster->points, 0, (size_t)size * size * LS_RASTER_FULL);
}

/* Returns ⌊√n⌋, bit by bit, which does not depend on the rounding of a library's square root. */
static int32_t integer_root(int64_t n) {
    int64_t result = 0;
    for (int64_t bit = INT64_C(1) << 30; bit; bit >>= 1) {
        if ((result + bit) * (result + bit) <= n) result += bit;
    }
    return (int32_t)result;
}

/* Returns the index of the first point at or right of coordinate v, at most `end`. */
static int32_t first_point(int32_t v, int32_t end) {
    int32_t at = (v - STEP / 2 + STEP - 1) / STEP;
    if (v <= STEP / 2) return 0;
    return at < end ? at : end;
}

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* Marks the points begin … end−1 of a row that are within the stroke: near one of its ends, or beside its line and
 * near it. All values fit 32 bits, because lengths are below 2^13 units. */
static void mark_row(uint8_t *row, int32_t begin, int32_t end, ls_raster_point a, ls_raster_point b, int32_t y,
                     int32_t near2, int32_t length2, int32_t beside) {
    int32_t dx = b.x - a.x, dy = b.y - a.y, ya = y - a.y, yb = y - b.y;
    for (int32_t i = begin; i < end; i++) {
        int32_t x = i * STEP + STEP / 2, xa = x - a.x, xb = x - b.x;
        int32_t along = xa * dx + ya * dy, across = xa * dy - ya * dx;
        int32_t distance = across < 0 ? -across : across;
        int in_line = (along > 0) & (along < length2) & (distance <= beside);
        row[i] |= (uint8_t)(in_line | (xa * xa + ya * ya <= near2) | (xb * xb + yb * yb <= near2));
    }
}

void ls_raster_stroke(ls_raster *raster, ls_raster_point a, ls_raster_point b, int32_t radius) {
    int32_t points = (int32_t)raster->size * LS_RASTER_SUB;
    int32_t left = first_point(least(a.x, b.x) - radius, points);
    int32_t right = first_point(most(a.x, b.x) + radius + 1, points);
    int32_t top = first_point(least(a.y, b.y) - radius, points);
    int32_t bottom = first_point(most(a.y, b.y) + radius + 1, points);
    if (top < bottom && (uint32_t)top < raster->top) raster->top = (uint32_t)top;
    if (top < bottom && (uint32_t)bottom > raster->bottom) raster->bottom = (uint32_t)bottom;
    int32_t dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy, near2 = radius * radius;
    int32_t beside = integer_root((int64_t)near2 * length2);
    for (int32_t i = top; i < bottom; i++)
        mark_row(raster->points + (size_t)i * (size_t)points, left, right, a, b, i * STEP + STEP / 2, near2, length2,
                 beside);
}

void ls_raster_cover(const ls_raster *raster, uint8_t *cover, size_t *begin, size_t *end) {
    size_t size = raster->size, points = size * LS_RASTER_SUB, top = raster->top / LS_RASTER_SUB;
    size_t bottom = (raster->bottom + LS_RASTER_SUB - 1) / LS_RASTER_SUB;
    *begin = top * size;
    *end = (bottom > top ? bottom : top) * size;
    for (size_t y = top; y < bottom; y++) {
        for (size_t x = 0; x < size; x++) {
            const uint8_t *corner = raster->points + y * LS_RASTER_SUB * points + x * LS_RASTER_SUB;
            unsigned sum = 0;
            for (size_t k = 0; k < LS_RASTER_FULL; k++) sum += corner[k / LS_RASTER_SUB * points + k % LS_RASTER_SUB];
            cover[y * size + x] = (uint8_t)sum;
        }
    }
}

/* ---- outlines ---------------------------------------------------------------------------------------------------- */

enum { FINE = 16, QUARTER = LS_TURN / 4 };

const char *const ls_drawing_names[LS_DRAWINGS_KINDS] = {"ring", "triangle", "square", "cross", "arrow",
                                                         "star", "zigzag",   "spiral", "bars",  "cup"};

int32_t ls_outline_sine(int32_t angle) {
    const double two_pi = 0x1.921fb54442d18p+2;
    return (int32_t)floor(ls_sin_f64(two_pi / LS_TURN * angle) * LS_SINE_ONE + 0.5);
}

/* Appends a stroke to the outline, which must have room. */
static void add_stroke(ls_outline *shape, ls_raster_point from, ls_raster_point to) {
    assert(shape->count < LS_OUTLINE_STROKES_MAX);
    shape->from[shape->count] = from;
    shape->to[shape->count++] = to;
}

/* Returns the point of the square of ±100 in the units of an outline. */
static ls_raster_point outline_point(int32_t x, int32_t y) { return (ls_raster_point){.x = FINE * x, .y = FINE * y}; }

/* Returns the point at this angle and radius around the middle. Divides, because C does not define a right shift of
 * negative numbers. */
static ls_raster_point point_on_circle(int32_t angle, int32_t radius) {
    int32_t x = radius * FINE * ls_outline_sine(angle + QUARTER), y = radius * FINE * ls_outline_sine(angle);
    return (ls_raster_point){.x = x / LS_SINE_ONE, .y = y / LS_SINE_ONE};
}

/* Adds an arc of `strokes` strokes over `angle`, from `begin` on, with a radius from r0 to r1. */
static void add_arc(ls_outline *shape, int32_t begin, int32_t angle, int32_t r0, int32_t r1, int32_t strokes) {
    for (int32_t i = 0; i < strokes; i++)
        add_stroke(shape, point_on_circle(begin + angle * i / strokes, r0 + (r1 - r0) * i / strokes),
                   point_on_circle(begin + angle * (i + 1) / strokes, r0 + (r1 - r0) * (i + 1) / strokes));
}

/* Adds a star with five points. */
static void add_star(ls_outline *shape) {
    for (int32_t i = 0; i < 10; i++)
        add_stroke(shape, point_on_circle(LS_TURN * i / 10 - QUARTER, i % 2 ? 45 : 100),
                   point_on_circle(LS_TURN * (i + 1) / 10 - QUARTER, i % 2 ? 100 : 45));
}

/* Adds a cup: a half circle with two sides. */
static void add_cup(ls_outline *shape) {
    add_stroke(shape, outline_point(-80, -80), outline_point(-80, 0));
    add_arc(shape, 0, LS_TURN / 2, 80, 80, 10);
    add_stroke(shape, outline_point(80, 0), outline_point(80, -80));
}

/* Adds straight strokes {x, y, x, y} of the square of ±100. */
static void add_lines(ls_outline *shape, const int8_t (*lines)[4], size_t count) {
    for (size_t i = 0; i < count; i++)
        add_stroke(shape, outline_point(lines[i][0], lines[i][1]), outline_point(lines[i][2], lines[i][3]));
}

static const int8_t triangle[][4] = {{0, -95, 85, 60}, {85, 60, -85, 60}, {-85, 60, 0, -95}};
static const int8_t square[][4] = {{-75, -75, 75, -75}, {75, -75, 75, 75}, {75, 75, -75, 75}, {-75, 75, -75, -75}};
static const int8_t cross[][4] = {{-95, 0, 95, 0}, {0, -95, 0, 95}};
static const int8_t arrow[][4] = {{-95, 0, 95, 0}, {95, 0, 30, -60}, {95, 0, 30, 60}};
static const int8_t zigzag[][4] = {{-95, -55, -48, 55}, {-48, 55, 0, -55}, {0, -55, 48, 55}, {48, 55, 95, -55}};
static const int8_t bars[][4] = {{-90, -75, 90, -75}, {-90, 0, 90, 0}, {-90, 75, 90, 75}};

#define ADD_LINES(shape, lines) add_lines(shape, lines, sizeof(lines) / sizeof *(lines))

void ls_outline_make(unsigned kind, ls_outline *out) {
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
