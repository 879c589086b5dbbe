/* gather.c: packs the operands of a convolution into panels, straight from the images (im2col without the matrix). A
 * line is what becomes a row (or column) of a tile: one position of the output, or one column of the matrix of patches.
 *
 * Positions as lines (a convolution forward, and its input gradient): for each tap, or for each row of taps where their
 * pixels are neighbours in memory and none is outside, the lines of a panel are runs of values, transposed four at a
 * time. A run outside the image is one of zeros. Images with few channels go another way: halo.c.
 *
 * Columns as lines (a weight gradient): of each row of taps, whose pixels are neighbours, a panel has a stretch. It is
 * copied for the positions of a row of the image together; at the edges value by value. */
#include "device/cpu/gemm/pack.h"

#include <assert.h>
#include <string.h>

#include "device/cpu/gemm/four_floats.h"

/* Most values of a run; lines of a panel that are packed together; positions that gather_columns() takes at a time. */
enum { RUN = 256, LINES = 64, ROWS_AT_ONCE = 32 };

static const float zeros[RUN];

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

/* Returns whether 0 ≤ x < size. */
static inline bool inside(ptrdiff_t x, size_t size) { return (size_t)x < size; }

/* ---- positions as lines ------------------------------------------------------------------------------------------ */

/* The pixel of tap 0, which may be outside, and where it would lie in memory. */
typedef struct corner {
    ptrdiff_t y, x, at;
} corner;

/* The corners of some consecutive positions, which are packed together. */
typedef struct corners {
    const ls_gemm_patches *p;
    const float *images;
    size_t lines;  /* how many positions */
    bool one_row;  /* all positions are in one row of the output */
    bool inside_x; /* no tap of any position is left or right of the image */
    corner of[LINES];
} corners;

/* Computes the corners of lines `line` … line + lines − 1, at most LINES. */
static void find_corners(corners *c, const ls_gemm_patches *p, const float *images, size_t line, size_t lines) {
    size_t image = line / (p->rows_x * p->rows_y), y = line / p->rows_x % p->rows_y, x = line % p->rows_x;
    c->p = p;
    c->images = images;
    c->lines = lines;
    c->one_row = x + lines <= p->rows_x;
    c->inside_x = p->tap_x == 1;
    for (size_t l = 0; l < lines; l++) {
        corner *o = &c->of[l];
        o->y = p->first_y + (ptrdiff_t)y * p->step_y;
        o->x = p->first_x + (ptrdiff_t)x * p->step_x;
        o->at = (((ptrdiff_t)(image * p->height) + o->y) * (ptrdiff_t)p->width + o->x) * (ptrdiff_t)p->channels;
        c->inside_x = c->inside_x && o->x >= 0 && inside(o->x + (ptrdiff_t)p->taps_x - 1, p->width);
        if (++x < p->rows_x) continue;
        x = 0;
        if (++y < p->rows_y) continue;
        y = 0;
        image++;
    }
}

/* Returns the run of line l at pixel (dy, dx) from its corner, `skip` values further in memory; zeros outside the
 * image. */
static inline const float *run_of(const corners *c, size_t l, ptrdiff_t dy, ptrdiff_t dx, ptrdiff_t skip) {
    const corner *o = &c->of[l];
    if (!inside(o->y + dy, c->p->height) || !inside(o->x + dx, c->p->width)) return zeros;
    return c->images + (o->at + skip);
}

/* Packs four lines of n values each, transposed. */
static void pack_four_runs(float *to, size_t width, const float *const run[4], size_t n) {
    const float *a = run[0], *b = run[1], *c = run[2], *d = run[3];
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        transpose4(to + i * width, width, load4(a + i), load4(b + i), load4(c + i), load4(d + i));
    for (; i < n; i++) store4(to + i * width, (four){a[i], b[i], c[i], d[i]});
}

/* Packs the run of n values at pixel (dy, dx) of every line: by the ISA's transpose if all lines are at one distance
 * inside the image, else line by line. */
static void pack_runs(const ls_gemm_kernels *kernels, float *to, size_t width, const corners *c, ptrdiff_t dy,
                      ptrdiff_t dx, ptrdiff_t skip, size_t n) {
    const ls_gemm_patches *p = c->p;
    size_t l = 0, ld = (size_t)p->step_x * p->channels;
    bool all = c->one_row && inside(c->of[0].y + dy, p->height) && inside(c->of[0].x + dx, p->width) &&
               inside(c->of[c->lines - 1].x + dx, p->width);
    if (all && kernels->transpose) {
        ls_gemm_lines lines = {.along_k = true, .ld = ld};
        while (l < c->lines) {
            lines.at = run_of(c, l, dy, dx, skip);
            l += ls_gemm_pack_some(kernels, to + l, width, lines, c->lines - l, n);
        }
        return;
    }
    for (; l + 4 <= c->lines; l += 4) {
        const float *run[4] = {run_of(c, l, dy, dx, skip)};
        for (size_t i = 1; i < 4; i++) run[i] = all ? run[i - 1] + ld : run_of(c, l + i, dy, dx, skip);
        pack_four_runs(to + l, width, run, n);
    }
    for (; l < c->lines; l++) {
        const float *run = run_of(c, l, dy, dx, skip);
        for (size_t i = 0; i < n; i++) to[i * width + l] = run[i];
    }
}

/* Packs up to LINES lines of one panel, columns k0 … k0+k−1. A unit is contiguous in memory: a tap, or a row of taps.
 */
static void pack_positions(const ls_gemm_kernels *kernels, float *to, size_t width, const corners *c, size_t k0,
                           size_t k) {
    const ls_gemm_patches *p = c->p;
    size_t units = c->inside_x ? 1 : p->taps_x, unit = c->inside_x ? p->taps_x * p->channels : p->channels;
    size_t row = k0 / unit / units, tap = k0 / unit % units, at = k0 % unit;
    for (size_t i = 0, n; i < k; i += n) {
        ptrdiff_t dy = (ptrdiff_t)row * p->tap_y, dx = (ptrdiff_t)tap * p->tap_x;
        ptrdiff_t skip = (dy * (ptrdiff_t)p->width + dx) * (ptrdiff_t)p->channels + (ptrdiff_t)at;
        n = min_size(min_size(unit - at, RUN), k - i);
        pack_runs(kernels, to + i * width, width, c, dy, dx, skip, n);
        at += n;
        if (at < unit) continue;
        at = 0;
        if (++tap < units) continue;
        tap = 0;
        row++;
    }
}

/* Packs lines that are positions: k columns of patches of each. */
static void gather_positions(const ls_gemm_kernels *kernels, float *panel, size_t width, const ls_gemm_lines *from,
                             size_t lines, size_t k) {
    corners c; /* not cleared */
    for (size_t l = 0, n; l < lines; l += n) {
        size_t inner = l % width;
        n = min_size(min_size(LINES, width - inner), lines - l);
        find_corners(&c, from->patches, from->at, from->line + l, n);
        float *to = panel + (l - inner) * k + inner;
        pack_positions(kernels, to, width, &c, from->k, k);
    }
}

/* ---- columns as lines -------------------------------------------------------------------------------------------- */

/* Copies n values of each row; for a constant n that is a few moves. */
static inline __attribute__((always_inline)) void copy_rows(float *to, size_t width, const float *from, ptrdiff_t ld,
                                                            size_t rows, size_t n) {
    for (size_t i = 0; i < rows; i++) memcpy(to + i * width, from + (ptrdiff_t)i * ld, n * sizeof(float));
}

/* Copies n values of each row, with constants for the most frequent n. */
static void copy_some(float *to, size_t width, const float *from, ptrdiff_t ld, size_t rows, size_t n) {
    switch (n) {
    case 1: copy_rows(to, width, from, ld, rows, 1); break;
    case 2: copy_rows(to, width, from, ld, rows, 2); break;
    case 3: copy_rows(to, width, from, ld, rows, 3); break;
    case 4: copy_rows(to, width, from, ld, rows, 4); break;
    case 5: copy_rows(to, width, from, ld, rows, 5); break;
    case 6: copy_rows(to, width, from, ld, rows, 6); break;
    case 8: copy_rows(to, width, from, ld, rows, 8); break;
    case 9: copy_rows(to, width, from, ld, rows, 9); break;
    case 12: copy_rows(to, width, from, ld, rows, 12); break;
    case 16: copy_rows(to, width, from, ld, rows, 16); break;
    case 32: copy_rows(to, width, from, ld, rows, 32); break;
    default: copy_rows(to, width, from, ld, rows, n); break;
    }
}

/* Columns of a row of taps: `n` numbers from `offset` on, counted from its first pixel. */
typedef struct stretch {
    size_t offset, n;
    ptrdiff_t pixel, last; /* that hold the first and the last number */
} stretch;

/* Copies one position's stretch value by value, with +0 outside the image. */
static void copy_edge(const ls_gemm_patches *p, float *to, const float *row, ptrdiff_t first, const stretch *s) {
    for (size_t i = 0; i < s->n; i++) {
        size_t at = s->offset + i;
        bool there = inside(first + (ptrdiff_t)(at / p->channels), p->width);
        to[i] = there ? row[first * (ptrdiff_t)p->channels + (ptrdiff_t)at] : 0.0f;
    }
}

/* Copies the stretch for `rows` neighbouring positions. Their first pixels are first, first + step_x, … of the image
 * row at `row`; NULL: the row is outside the image. */
static void copy_line(const ls_gemm_patches *p, float *to, size_t width, const float *row, ptrdiff_t first, size_t rows,
                      const stretch *s) {
    size_t i = 0, behind = rows;
    for (; !row && i < rows; i++) memset(to + i * width, 0, s->n * sizeof *to);
    for (; i < rows && first + (ptrdiff_t)i * p->step_x + s->pixel < 0; i++)
        copy_edge(p, to + i * width, row, first + (ptrdiff_t)i * p->step_x, s);
    while (behind > i && first + (ptrdiff_t)(behind - 1) * p->step_x + s->last >= (ptrdiff_t)p->width) behind--;
    if (behind > i) {
        ptrdiff_t at = (first + (ptrdiff_t)i * p->step_x) * (ptrdiff_t)p->channels + (ptrdiff_t)s->offset;
        copy_some(to + i * width, width, row + at, p->step_x * (ptrdiff_t)p->channels, behind - i, s->n);
    }
    for (i = behind; i < rows; i++) copy_edge(p, to + i * width, row, first + (ptrdiff_t)i * p->step_x, s);
}

/* Gathers n columns of one row of taps from `column` on, for `rows` positions from `position` on. */
static void gather_stretch(const ls_gemm_patches *p, const float *images, float *to, size_t width, size_t position,
                           size_t rows, size_t column, size_t n) {
    size_t across = p->taps_x * p->channels, offset = column % across;
    stretch s = {offset, n, (ptrdiff_t)(offset / p->channels), (ptrdiff_t)((offset + n - 1) / p->channels)};
    ptrdiff_t dy = (ptrdiff_t)(column / across) * p->tap_y;
    for (size_t i = 0, some; i < rows; i += some) {
        size_t x = (position + i) % p->rows_x, line = (position + i) / p->rows_x, image = line / p->rows_y;
        ptrdiff_t y = p->first_y + (ptrdiff_t)(line % p->rows_y) * p->step_y + dy;
        const float *row = NULL;
        if (inside(y, p->height)) row = images + (image * p->height + (size_t)y) * p->width * p->channels;
        some = min_size(p->rows_x - x, rows - i);
        copy_line(p, to + i * width, width, row, p->first_x + (ptrdiff_t)x * p->step_x, some, &s);
    }
}

/* Packs some positions at a time, so that their pixels stay in L1 while all panels are filled. */
static void gather_columns(float *panel, size_t width, const ls_gemm_lines *from, size_t lines, size_t k) {
    const ls_gemm_patches *p = from->patches;
    size_t across = p->taps_x * p->channels;
    assert(p->tap_x == 1);
    for (size_t i = 0; i < k; i += ROWS_AT_ONCE)
        for (size_t l = 0, n; l < lines; l += n) {
            size_t inner = l % width, column = from->line + l;
            n = min_size(min_size(width - inner, across - column % across), lines - l);
            gather_stretch(p, from->at, panel + (l - inner) * k + i * width + inner, width, from->k + i,
                           min_size(ROWS_AT_ONCE, k - i), column, n);
        }
}

/* ---- grids ------------------------------------------------------------------------------------------------------- */

/* Packs k rows that lie in a grid (ls_gemm_grid), such as the weights of an input gradient. */
static void gather_grid(float *panel, size_t width, const ls_gemm_lines *from, size_t lines, size_t k) {
    const ls_gemm_grid *grid = from->grid;
    for (size_t i = 0, rows; i < k; i += rows) {
        const float *at = (const float *)from->at + ls_gemm_grid_at(grid, from->k + i);
        rows = min_size(min_size(ROWS_AT_ONCE, grid->n2 - (from->k + i) % grid->n2), k - i);
        for (size_t l = 0; l < lines; l += width)
            copy_some(panel + l * k + i * width, width, at + l, (ptrdiff_t)grid->step2, rows,
                      min_size(width, lines - l));
    }
}

void ls_gemm_gather(const ls_gemm_kernels *kernels, float *panel, size_t width, ls_gemm_lines from, size_t lines,
                    size_t k) {
    if (k == 0) return; /* a phase without taps has no patches */
    if (from.grid)
        gather_grid(panel, width, &from, lines, k);
    else if (from.along_k ? ls_gemm_halo_positions(panel, width, &from, lines, k)
                          : ls_gemm_halo_columns(panel, width, &from, lines, k))
        return;
    else if (from.along_k)
        gather_positions(kernels, panel, width, &from, lines, k);
    else
        gather_columns(panel, width, &from, lines, k);
}
