/* raster.c: see images_raster.h. */
#include "data/images/raster.h"

#include <assert.h>
#include <string.h>

enum { STEP = LS_RASTER_UNIT / LS_RASTER_SUB }; /* from point to point; the first lies STEP/2 from the edge */

void ls_raster_clear(ls_raster *raster, uint32_t size) {
    assert(size <= LS_DRAWINGS_SIDE_MAX);
    raster->size = size;
    memset(raster->points, 0, (size_t)size * size * LS_RASTER_FULL);
}

/* ⌊√n⌋, bit by bit: the library's square root would have to be asked about its rounding. */
static int32_t root(int64_t n) {
    int64_t result = 0;
    for (int64_t bit = INT64_C(1) << 30; bit; bit >>= 1) {
        if ((result + bit) * (result + bit) <= n) result += bit;
    }
    return (int32_t)result;
}

/* The first point at or right of coordinate v, held within 0 … end. */
static int32_t first_point(int32_t v, int32_t end) {
    int32_t at = (v - STEP / 2 + STEP - 1) / STEP;
    if (v <= STEP / 2) return 0;
    return at < end ? at : end;
}

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* A point is in the stroke where it is near one end, or beside the line and near it. Everything fits 32 bits: lengths
 * are below 2^13 units. */
static void mark_row(uint8_t *row, int32_t begin, int32_t end, ls_point a, ls_point b, int32_t y, int32_t radius) {
    int32_t dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy, near2 = radius * radius;
    int32_t beside = root((int64_t)near2 * length2);
    int32_t ya = y - a.y, yb = y - b.y;
    for (int32_t i = begin; i < end; i++) {
        int32_t x = i * STEP + STEP / 2, xa = x - a.x, xb = x - b.x;
        int32_t along = xa * dx + ya * dy, across = xa * dy - ya * dx;
        int32_t distance = across < 0 ? -across : across;
        int in_line = (along > 0) & (along < length2) & (distance <= beside);
        row[i] |= (uint8_t)(in_line | (xa * xa + ya * ya <= near2) | (xb * xb + yb * yb <= near2));
    }
}

void ls_raster_stroke(ls_raster *raster, ls_point a, ls_point b, int32_t radius) {
    int32_t points = (int32_t)raster->size * LS_RASTER_SUB;
    int32_t left = first_point(least(a.x, b.x) - radius, points);
    int32_t right = first_point(most(a.x, b.x) + radius + 1, points);
    int32_t top = first_point(least(a.y, b.y) - radius, points);
    int32_t bottom = first_point(most(a.y, b.y) + radius + 1, points);
    for (int32_t i = top; i < bottom; i++)
        mark_row(raster->points + (size_t)i * (size_t)points, left, right, a, b, i * STEP + STEP / 2, radius);
}

void ls_raster_cover(const ls_raster *raster, uint8_t *cover) {
    size_t size = raster->size, points = size * LS_RASTER_SUB;
    for (size_t y = 0; y < size; y++) {
        for (size_t x = 0; x < size; x++) {
            const uint8_t *corner = raster->points + y * LS_RASTER_SUB * points + x * LS_RASTER_SUB;
            unsigned sum = 0;
            for (size_t k = 0; k < LS_RASTER_FULL; k++) sum += corner[k / LS_RASTER_SUB * points + k % LS_RASTER_SUB];
            cover[y * size + x] = (uint8_t)sum;
        }
    }
}
