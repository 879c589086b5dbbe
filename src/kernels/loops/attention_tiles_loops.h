/* attention_tiles_loops.h: the two products that attention is made of, over v16.
 *
 * Included by attention_loops.h. `dots` makes scores: sixteen packed rows of one side (a lane each) against gathered
 * rows of the other side, as scores[row][16]. `chains` multiplies such scores with gathered rows, a chain for each lane
 * and element of a head.
 *
 * Invariants: a chain takes its rows in ascending order and never a masked one (a masked key would add 0·V, which can
 * change −0 to +0 and infinity to NaN). LSK_ATTENTION_ROWS accumulators of a tile fit the registers of the machine. */
#include <stddef.h>

#include "kernels/attention.h"

enum { LANES = 16, CHUNK = 64, TILE = LSK_ATTENTION_ROWS };

/* Sums that are indexed by a loop counter stay in registers only when that loop is gone. */
#ifdef __clang__
#    define UNROLL_4 _Pragma("clang loop unroll_count(4)")
#    define UNROLL_ALL _Pragma("clang loop unroll(full)")
#else
#    define UNROLL_4 _Pragma("GCC unroll 4")
#    define UNROLL_ALL _Pragma("GCC unroll 8")
#endif

/* Lane j takes rows begin + j … end + j − 1, as far as there are such rows. */
typedef struct span {
    ptrdiff_t begin, end;
} span;

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

static size_t clamp_row(ptrdiff_t row, size_t rows) { return row < 0 ? 0 : (size_t)row > rows ? rows : (size_t)row; }

static const float *row_in(ls_attention_in x, size_t row, size_t head) {
    return x.at + row * x.row_stride + head * x.head_stride;
}

/* Rows of d elements in scratch are padded with +0 to whole v16. */
static size_t padded(size_t d) { return (d + LANES - 1) / LANES * LANES; }

/* packed[i][lane] = element i of row `lane`; lanes without a row are 0. */
static void pack(float *packed, const float *x, size_t stride, size_t rows, size_t d) {
    for (size_t i = 0; i < d; i++)
        for (size_t lane = 0; lane < LANES; lane++) packed[i * LANES + lane] = lane < rows ? x[lane * stride + i] : 0;
}

/* Copies `rows` rows, at most a chunk, next to each other: rows of a fused buffer are so far apart that they throw each
 * other out of the cache. Of the next chunk `ahead` rows are fetched already. */
static void gather(float *to, const float *x, size_t stride, size_t rows, size_t ahead, size_t d) {
    for (size_t r = 0; r < rows; r++, to += padded(d), x += stride) {
        if (r < ahead)
            for (size_t i = 0; i < d; i += LANES) __builtin_prefetch(x + CHUNK * stride + i);
        size_t i = 0;
        for (; i + LANES <= d; i += LANES) v16_store(to + i, v16_load(x + i));
        if (i < d) v16_store(to + i, v16_load_n(x + i, d - i, 0));
    }
}

/* Gathers the chunk that starts at row `row` of `end`; returns its rows. */
static size_t gather_chunk(float *to, ls_attention_in x, size_t row, size_t end, size_t head, size_t d) {
    size_t rows = min_size(CHUNK, end - row);
    gather(to, row_in(x, row, head), x.row_stride, rows, end - row - rows, d);
    return rows;
}

/* out[row] = scale·(chain over i of x[row][i]·packed[i]), n rows, n a constant. */
LSK_INLINE void dots_tile(float *out, const float *packed, const float *x, size_t d, float scale, size_t n) {
    size_t stride = padded(d);
    v16 sums[TILE];
    UNROLL_ALL
    for (size_t r = 0; r < n; r++) sums[r] = v16_set1(0);
    UNROLL_4
    for (size_t i = 0; i < d; i++) {
        v16 lanes = v16_load(packed + i * LANES);
        UNROLL_ALL
        for (size_t r = 0; r < n; r++) sums[r] = v16_fma(v16_set1(x[r * stride + i]), lanes, sums[r]);
    }
    UNROLL_ALL
    for (size_t r = 0; r < n; r++) v16_store(out + r * LANES, v16_mul(v16_set1(scale), sums[r]));
}

/* The scores of gathered rows x with sixteen packed rows. */
static void dots(float *out, const float *packed, const float *x, size_t rows, size_t d, float scale) {
    size_t r = 0;
    for (; r + TILE <= rows; r += TILE) dots_tile(out + r * LANES, packed, x + r * padded(d), d, scale, TILE);
    for (; r < rows; r++) dots_tile(out + r * LANES, packed, x + r * padded(d), d, scale, 1);
}

/* out[j] goes on with the chain over rows lo … hi−1 of weights[row][j]·x[row], for n lanes j, n a constant, and `width`
 * elements of a row. */
LSK_INLINE void chains_tile(float *out, size_t out_stride, const float *weights, const float *x, size_t x_stride,
                            size_t lo, size_t hi, size_t width, size_t n) {
    v16 sums[TILE];
    UNROLL_ALL
    for (size_t j = 0; j < n; j++)
        sums[j] = width == LANES ? v16_load(out + j * out_stride) : v16_load_n(out + j * out_stride, width, 0);
    UNROLL_4
    for (size_t r = lo; r < hi; r++) {
        v16 row = v16_load(x + r * x_stride);
        UNROLL_ALL
        for (size_t j = 0; j < n; j++) sums[j] = v16_fma(v16_set1(weights[r * LANES + j]), row, sums[j]);
    }
    UNROLL_ALL
    for (size_t j = 0; j < n; j++) {
        if (width == LANES)
            v16_store(out + j * out_stride, sums[j]);
        else
            v16_store_n(out + j * out_stride, sums[j], width);
    }
}

/* One lane: the rows where the lanes of a tile differ, and the lanes that fill no tile. */
static void chain_one(float *out, const float *weights, const float *x, size_t x_stride, size_t lo, size_t hi,
                      size_t width) {
    if (lo < hi) chains_tile(out, 0, weights, x, x_stride, lo, hi, width, 1);
}

/* TILE lanes: rows that all of them take together, and what is before and behind one by one. */
static void chains_group(float *out, size_t out_stride, const float *weights, const float *x, size_t x_stride,
                         size_t rows, size_t width, span first) {
    size_t lo = clamp_row(first.begin + TILE - 1, rows), hi = clamp_row(first.end, rows);
    if (hi < lo) hi = lo;
    for (size_t j = 0; j < TILE; j++)
        chain_one(out + j * out_stride, weights + j, x, x_stride, clamp_row(first.begin + (ptrdiff_t)j, rows), lo,
                  width);
    if (width == LANES)
        chains_tile(out, out_stride, weights, x, x_stride, lo, hi, LANES, TILE);
    else
        chains_tile(out, out_stride, weights, x, x_stride, lo, hi, width, TILE);
    for (size_t j = 0; j < TILE; j++)
        chain_one(out + j * out_stride, weights + j, x, x_stride, hi, clamp_row(first.end + (ptrdiff_t)j, rows), width);
}

/* out[j] goes on with the chains over gathered rows x, for `lanes` lanes and the d elements of a head. At most one end
 * of the span cuts rows off: then what the lanes of a tile share is one run. */
static void chains(float *out, size_t out_stride, size_t lanes, const float *weights, const float *x, size_t rows,
                   size_t d, span s) {
    for (size_t i = 0; i < d; i += LANES) {
        size_t width = min_size(LANES, d - i), j = 0;
        for (; j + TILE <= lanes; j += TILE)
            chains_group(out + j * out_stride + i, out_stride, weights + j, x + i, padded(d), rows, width,
                         (span){s.begin + (ptrdiff_t)j, s.end + (ptrdiff_t)j});
        for (; j < lanes; j++)
            chain_one(out + j * out_stride + i, weights + j, x + i, padded(d), clamp_row(s.begin + (ptrdiff_t)j, rows),
                      clamp_row(s.end + (ptrdiff_t)j, rows), width);
    }
}
