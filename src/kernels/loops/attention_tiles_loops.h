/* attention_tiles_loops.h: what the products of attention are made of: the micro-kernel of the machine's matrix
 * products, panels for it, and chains for the triangle that a causal mask leaves on the diagonal.
 *
 * Included by attention_loops.h. A panel is what gemm.h says: k rows of mr or nr values. A product reads a panel of
 * each side and leaves a tile of mr rows and nr columns, so scores that are written one tile below the other are
 * themselves a panel of nr columns, ready for the next product.
 *
 * Invariants: a chain takes its terms in ascending order and never a masked one (a masked key would add 0·V, which can
 * change −0 to +0 and infinity to NaN). Rows and columns of panels behind the last one hold numbers that nobody reads.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "kernels/gemm_pack.h"
#include "kernels/loops/part_loops.h"

typedef struct engine {
    ls_gemm_kernels gemm;
    size_t mr, nr;
    ls_gemm_tile tile; /* what all tiles have in common: no addends, no bias */
} engine;

static engine engine_make(void) {
    engine e = {.mr = 0};
    LSK_GEMM_FILL(&e.gemm);
    e.mr = e.gemm.mr;
    e.nr = e.gemm.nr;
    /* Flat loops over tiles and panels work on whole v16. */
    assert(e.mr <= LS_ATTENTION_TILE && e.nr <= LS_ATTENTION_TILE && e.nr % 4 == 0 && e.mr * e.nr % LANES == 0);
    return e;
}

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
static size_t up(size_t x, size_t to) { return (x + to - 1) / to * to; }

static const float *row_in(ls_attention_in x, size_t row, size_t head) {
    return x.at + row * x.row_stride + head * x.head_stride;
}

static float *row_out(ls_attention_out x, size_t row, size_t head) {
    return x.at + row * x.row_stride + head * x.head_stride;
}

/* A tile of the product of panels a and b, over k: from +0 or from what is in `out`. */
LSK_INLINE void product(engine *e, size_t k, const float *a, const float *b, int goes_on, float *out, size_t ld) {
    e->tile.start = goes_on ? out : NULL;
    e->tile.out = out;
    e->tile.ldstart = e->tile.ldout = ld;
    e->gemm.micro(k, a, b, &e->tile);
}

/* Panels with a column for each row of x, for chains over the d elements of a head. */
static void pack_rows(const engine *e, float *panels, size_t width, const float *x, size_t stride, size_t rows,
                      size_t d) {
    ls_gemm_pack(&e->gemm, panels, width, (ls_gemm_lines){x, LS_F32, stride, true}, rows, d);
}

/* Panels with a column for each element of a head, for chains over the rows of x. */
static void pack_elements(const engine *e, float *panels, size_t width, const float *x, size_t stride, size_t rows,
                          size_t d) {
    ls_gemm_pack(&e->gemm, panels, width, (ls_gemm_lines){x, LS_F32, stride, false}, d, rows);
}

/* to[j][i] = from[i][j], i < rows, j < columns; rows ≤ to_stride. */
static void transpose(const engine *e, float *to, size_t to_stride, const float *from, size_t from_stride, size_t rows,
                      size_t columns) {
    ls_gemm_pack(&e->gemm, to, to_stride, (ls_gemm_lines){from, LS_F32, from_stride, true}, rows, columns);
}

/* out goes on with the chain over rows 0 … n−1 of weights[row·weight_stride]·x[row]; `out` has room for whole v16. */
static void chain_row(float *out, const float *weights, size_t weight_stride, const float *x, size_t x_stride, size_t n,
                      size_t d) {
    size_t i = 0;
    for (; i + LANES <= d; i += LANES) {
        v16 sum = v16_load(out + i);
        for (size_t r = 0; r < n; r++)
            sum = v16_fma(v16_set1(weights[r * weight_stride]), v16_load(x + r * x_stride + i), sum);
        v16_store(out + i, sum);
    }
    if (i == d) return;
    v16 sum = v16_load(out + i);
    for (size_t r = 0; r < n; r++)
        sum = v16_fma(v16_set1(weights[r * weight_stride]), v16_load_n(x + r * x_stride + i, d - i, 0), sum);
    v16_store(out + i, sum);
}

/* out = factor·x */
static void scaled_row(float *out, const float *x, float factor, size_t d) {
    for (size_t i = 0; i < d; i++) out[i] = factor * x[i];
}
