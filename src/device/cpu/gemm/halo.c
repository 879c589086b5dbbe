/* halo.c: packs patches of images with few channels.
 *
 * Runs of a few channels are too short to be gathered one by one. The rows of an image that some positions need are
 * copied with zeros around them (the halo); its columns and rows count from the first pixel that a tap reaches, inside
 * the image or not. Panels are then short copies that need no test for edges:
 *
 *     positions as lines    halo [row][channel][x]    neighbours in a row of positions are neighbours here, for each
 *                                                     tap and channel, and no value is transposed more than once
 *     columns as lines      halo [row][x][channel]    as the image; a row of taps is a stretch, step_x pixels further
 *                                                     for the next position */
#include "device/cpu/gemm/pack.h"

#include <string.h>

/* Upper bounds: of a halo, which stays in L1; of channels, because gather.c is faster for longer runs. */
enum { HALO_ELEMS = 6144, CHANNELS_MOST = 32, K_MOST = 2048 };

/* The buffer of image rows with zeros around them, and its geometry. */
typedef struct halo {
    const ls_gemm_patches *p;
    ptrdiff_t reach_y, reach_x; /* the lowest pixel of a patch, from that of tap 0; 0 or negative */
    size_t span_y, width;       /* image rows that a patch spans; pixels of a row of the halo */
    size_t rows;                /* rows of positions for which the halo has space */
    float *values;
} halo;

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

/* Returns the elements of a row of the halo, over all channels. */
static size_t row_elems(const halo *h) { return h->p->channels * h->width; }

/* Returns the lowest pixel of a patch along one side, counted from that of tap 0: 0 or negative. */
static ptrdiff_t reach(size_t taps, ptrdiff_t tap) { return tap < 0 ? (ptrdiff_t)(taps - 1) * tap : 0; }
/* Returns how many pixels a patch's last pixel is from its first. */
static size_t span_of(size_t taps, ptrdiff_t tap) { return (taps - 1) * (size_t)(tap < 0 ? -tap : tap); }

/* Prepares an empty halo. Returns false if there are more than CHANNELS_MOST channels, if a step is not positive, or if
 * HALO_ELEMS elements do not hold one row of positions. */
static bool open_halo(halo *h, const ls_gemm_patches *p, float values[HALO_ELEMS]) {
    if (p->channels > CHANNELS_MOST || p->step_x < 1 || p->step_y < 1) return false;
    h->p = p;
    h->values = values;
    h->reach_y = reach(p->taps_y, p->tap_y);
    h->reach_x = reach(p->taps_x, p->tap_x);
    h->span_y = span_of(p->taps_y, p->tap_y) + 1;
    h->width = (p->rows_x - 1) * (size_t)p->step_x + span_of(p->taps_x, p->tap_x) + 1;
    if (h->span_y > HALO_ELEMS || h->width > HALO_ELEMS || h->span_y * row_elems(h) > HALO_ELEMS) return false;
    h->rows = (HALO_ELEMS / row_elems(h) - h->span_y) / (size_t)p->step_y + 1;
    return true;
}

/* Fills one row of the halo from a row of the image, with zeros outside it; `planes`: channel by channel. */
static void fill_halo_row(const halo *h, float *to, const float *row, bool planes) {
    const ls_gemm_patches *p = h->p;
    ptrdiff_t first = p->first_x + h->reach_x, last = first + (ptrdiff_t)h->width;
    size_t before = first < 0 ? min_size((size_t)-first, h->width) : 0, from = first < 0 ? 0 : (size_t)first;
    size_t end = last < 0 ? 0 : min_size((size_t)last, p->width), there = end > from ? end - from : 0;
    size_t C = planes ? 1 : p->channels, apart = planes ? p->channels : 1;
    for (size_t c = 0; c < (planes ? p->channels : 1); c++, to += h->width) {
        const float *pixel = row + from * p->channels + c;
        for (size_t i = 0; i < before * C; i++) to[i] = 0.0f;
        for (size_t i = 0; i < there * C; i++) to[before * C + i] = pixel[i * apart];
        for (size_t i = (before + there) * C; i < h->width * C; i++) to[i] = 0.0f;
    }
}

/* Fills the halo for `rows` rows of positions from y on. */
static void fill_halo(const halo *h, const float *images, size_t image, size_t y, size_t rows, bool planes) {
    const ls_gemm_patches *p = h->p;
    size_t all = (rows - 1) * (size_t)p->step_y + h->span_y;
    ptrdiff_t first = p->first_y + (ptrdiff_t)y * p->step_y + h->reach_y;
    for (size_t r = 0; r < all; r++) {
        float *to = h->values + r * row_elems(h);
        size_t at = (size_t)(first + (ptrdiff_t)r); /* above the image: larger than any */
        if (at < p->height)
            fill_halo_row(h, to, images + (image * p->height + at) * p->width * p->channels, planes);
        else
            memset(to, 0, row_elems(h) * sizeof *to);
    }
}

/* Consecutive positions for which the halo is filled; the first is in column x of its row. */
typedef struct part {
    size_t x, positions;
} part;

/* Fills the halo for as many positions from `at` on as fit, at most `most`. */
static part next_part(const halo *h, const float *images, size_t at, size_t most, bool planes) {
    const ls_gemm_patches *p = h->p;
    size_t x = at % p->rows_x, row = at / p->rows_x, y = row % p->rows_y;
    size_t rows = min_size(min_size(h->rows, p->rows_y - y), (most + x - 1) / p->rows_x + 1);
    fill_halo(h, images, row / p->rows_y, y, rows, planes);
    return (part){x, min_size(rows * p->rows_x - x, most)};
}

/* Returns where position i of a part has its first tap; sets *in_row to the positions from it to the end of its row. */
static const float *position_at(const halo *h, const part *a, size_t i, size_t pixel, size_t *in_row) {
    size_t x = (a->x + i) % h->p->rows_x, y = (a->x + i) / h->p->rows_x;
    *in_row = min_size(h->p->rows_x - x, a->positions - i);
    return h->values + y * (size_t)h->p->step_y * row_elems(h) + x * pixel;
}

/* ---- positions as lines ------------------------------------------------------------------------------------------ */

/* Computes the offset in the halo of each of k values from k0 on, counted from a position's first tap. */
static void find_offsets(const halo *h, uint32_t *offset, size_t k0, size_t k) {
    const ls_gemm_patches *p = h->p;
    size_t channel = k0 % p->channels, tap = k0 / p->channels, x = tap % p->taps_x, y = tap / p->taps_x;
    for (size_t i = 0; i < k; i++) {
        ptrdiff_t row = (ptrdiff_t)y * p->tap_y - h->reach_y, column = (ptrdiff_t)x * p->tap_x - h->reach_x;
        offset[i] = (uint32_t)(((size_t)row * p->channels + channel) * h->width + (size_t)column);
        if (++channel < p->channels) continue;
        channel = 0;
        if (++x < p->taps_x) continue;
        x = 0;
        y++;
    }
}

/* Copies n neighbouring lines for all k; for a constant n each copy is a few moves. */
static inline __attribute__((always_inline)) void copy_lines(float *to, size_t width, const float *from,
                                                             const uint32_t *offset, size_t k, size_t n) {
    for (size_t i = 0; i < k; i++) memcpy(to + i * width, from + offset[i], n * sizeof *to);
}

/* Copies any number n of neighbouring lines. */
static void copy_some(float *to, size_t width, const float *from, const uint32_t *offset, size_t k, size_t n) {
    for (; n > 16; n -= 16, to += 16, from += 16) copy_lines(to, width, from, offset, k, 16);
    switch (n) {
    case 1: copy_lines(to, width, from, offset, k, 1); break;
    case 2: copy_lines(to, width, from, offset, k, 2); break;
    case 3: copy_lines(to, width, from, offset, k, 3); break;
    case 4: copy_lines(to, width, from, offset, k, 4); break;
    case 5: copy_lines(to, width, from, offset, k, 5); break;
    case 6: copy_lines(to, width, from, offset, k, 6); break;
    case 7: copy_lines(to, width, from, offset, k, 7); break;
    case 8: copy_lines(to, width, from, offset, k, 8); break;
    case 9: copy_lines(to, width, from, offset, k, 9); break;
    case 10: copy_lines(to, width, from, offset, k, 10); break;
    case 11: copy_lines(to, width, from, offset, k, 11); break;
    case 12: copy_lines(to, width, from, offset, k, 12); break;
    case 13: copy_lines(to, width, from, offset, k, 13); break;
    case 14: copy_lines(to, width, from, offset, k, 14); break;
    case 15: copy_lines(to, width, from, offset, k, 15); break;
    default: copy_lines(to, width, from, offset, k, 16); break;
    }
}

bool ls_gemm_halo_positions(float *panel, size_t width, const ls_gemm_lines *from, size_t lines, size_t k) {
    float values[HALO_ELEMS];
    uint32_t offset[K_MOST];
    halo h;
    if (from->patches->step_x != 1 || k > K_MOST || !open_halo(&h, from->patches, values)) return false;
    find_offsets(&h, offset, from->k, k);
    for (size_t l = 0; l < lines;) {
        part a = next_part(&h, from->at, from->line + l, lines - l, true);
        for (size_t i = 0, n; i < a.positions; i += n, l += n) {
            size_t inner = l % width;
            const float *line = position_at(&h, &a, i, 1, &n);
            n = min_size(n, width - inner);
            copy_some(panel + (l - inner) * k + inner, width, line, offset, k, n);
        }
    }
    return true;
}

/* ---- columns as lines -------------------------------------------------------------------------------------------- */

/* Copies n columns of `rows` positions, whose first taps are `step` values apart; n is constant where it is called. */
static inline __attribute__((always_inline)) void copy_rows(float *to, size_t width, const float *from, size_t step,
                                                            size_t rows, size_t n) {
    for (size_t i = 0; i < rows; i++) memcpy(to + i * width, from + i * step, n * sizeof *to);
}

/* Copies any number n of columns of `rows` positions. */
static void copy_columns(float *to, size_t width, const float *from, size_t step, size_t rows, size_t n) {
    for (; n > 16; n -= 16, to += 16, from += 16) copy_rows(to, width, from, step, rows, 16);
    switch (n) {
    case 1: copy_rows(to, width, from, step, rows, 1); break;
    case 2: copy_rows(to, width, from, step, rows, 2); break;
    case 3: copy_rows(to, width, from, step, rows, 3); break;
    case 4: copy_rows(to, width, from, step, rows, 4); break;
    case 5: copy_rows(to, width, from, step, rows, 5); break;
    case 6: copy_rows(to, width, from, step, rows, 6); break;
    case 7: copy_rows(to, width, from, step, rows, 7); break;
    case 8: copy_rows(to, width, from, step, rows, 8); break;
    case 9: copy_rows(to, width, from, step, rows, 9); break;
    case 10: copy_rows(to, width, from, step, rows, 10); break;
    case 11: copy_rows(to, width, from, step, rows, 11); break;
    case 12: copy_rows(to, width, from, step, rows, 12); break;
    case 13: copy_rows(to, width, from, step, rows, 13); break;
    case 14: copy_rows(to, width, from, step, rows, 14); break;
    case 15: copy_rows(to, width, from, step, rows, 15); break;
    default: copy_rows(to, width, from, step, rows, 16); break;
    }
}

bool ls_gemm_halo_columns(float *panel, size_t width, const ls_gemm_lines *from, size_t lines, size_t k) {
    const ls_gemm_patches *p = from->patches;
    float values[HALO_ELEMS];
    halo h;
    if (p->tap_x != 1 || p->tap_y != 1 || !open_halo(&h, p, values)) return false;
    size_t across = p->taps_x * p->channels, step = (size_t)p->step_x * p->channels;
    for (size_t at = 0; at < k;) {
        part a = next_part(&h, from->at, from->k + at, k - at, false);
        for (size_t i = 0, rows; i < a.positions; i += rows, at += rows) {
            const float *first = position_at(&h, &a, i, step, &rows);
            size_t tap = from->line / across, column = from->line % across;
            for (size_t l = 0, n; l < lines; l += n) {
                size_t inner = l % width;
                n = min_size(min_size(width - inner, across - column), lines - l);
                copy_columns(panel + (l - inner) * k + at * width + inner, width, first + tap * row_elems(&h) + column,
                             step, rows, n);
                column += n;
                if (column < across) continue;
                column = 0;
                tap++;
            }
        }
    }
    return true;
}
