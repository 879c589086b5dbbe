/* tile.c: runs the segments of a tile. The last one of K adds the remaining subtrees, the siblings and the bias while
 * the tile is in registers.
 *
 * Slices are joined like a binary counter: slice s, when it ends, adds from the left one subtree for each trailing one
 * bit of s and becomes the subtree of the level above. The last slice adds what is left, a subtree for each one bit of
 * its number: that is the tree of docs/reference/arithmetic.md for any number of slices.
 *
 * A C of 16 bits is rounded from a finished tile, once; rows that lie apart are copied from one, and so is a tile of C
 * transposed, whose bias is added then. */
#include "device/cpu/gemm/tile.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "device/cpu/gemm/four_floats.h"
#include "device/cpu/gemm/pack.h"

void ls_gemm_pass_cut(ls_gemm_pass *pass, int slices, const size_t *bounds, size_t base, size_t k0, size_t k1,
                      bool is_last) {
    pass->slices = slices;
    pass->segments = 0;
    for (int s = 0; s < slices; s++) {
        size_t begin = bounds[s], end = bounds[s + 1];
        bool empty_here = begin == end && begin >= k0 && (begin < k1 || (is_last && begin == k1));
        if (!empty_here && (end <= k0 || begin >= k1)) continue;
        size_t from = begin > k0 ? begin : k0, to = end < k1 ? end : k1;
        pass->segment[pass->segments++] = (ls_gemm_segment){from - base, to - from, s, from == begin, to == end};
    }
}

int ls_gemm_slots_of(int slices) {
    int levels = 0;
    while (1 << levels < slices) levels++;
    return levels + 1;
}

/* Edges: the micro-kernel always does whole tiles, so a part of one goes through a buffer. */
typedef struct edge {
    float start[LS_GEMM_TILE_ELEMS_MAX], out[LS_GEMM_TILE_ELEMS_MAX], bias[LS_GEMM_TILE_ELEMS_MAX];
    float sibling[LS_GEMM_SIBLINGS_MAX][LS_GEMM_TILE_ELEMS_MAX];
} edge;

/* Copies rows × columns floats. */
static void copy_tile(float *to, size_t ldto, const float *from, size_t ldfrom, size_t rows, size_t columns) {
    for (size_t i = 0; i < rows; i++) memcpy(to + i * ldto, from + i * ldfrom, columns * sizeof(float));
}

/* Returns the elements of `from` that belong to this tile: in place for a whole tile, else copied to `buffer`, because
 * the micro-kernel reads whole tiles. */
static ls_gemm_addend view(const ls_gemm_place *p, bool whole, const float *from, size_t ld, float *buffer, size_t nr) {
    const float *at = from + p->row * ld + p->column;
    if (whole) return (ls_gemm_addend){at, ld};
    copy_tile(buffer, nr, at, ld, p->rows, p->columns);
    return (ls_gemm_addend){buffer, nr};
}

/* Adds the siblings and the bias to the epilogue of the segment that ends K. */
static void add_rest(const ls_gemm *g, const ls_gemm_place *p, bool whole, size_t nr, ls_gemm_addend *addend,
                     ls_gemm_tile *tile, edge *e) {
    for (int i = 0; i < g->siblings; i++)
        addend[tile->addends++] = view(p, whole, g->sibling[i], g->ldsibling, e->sibling[i], nr);
    if (!g->bias || p->turned) return;
    tile->bias = g->bias + p->column;
    if (whole) return;
    memcpy(e->bias, tile->bias, p->columns * sizeof(float));
    tile->bias = e->bias;
}

/* Runs the micro-kernel on the part of the panels that the segment covers. */
static void run_micro(const ls_gemm_kernels *t, const ls_gemm_place *p, const ls_gemm_segment *s,
                      const ls_gemm_tile *tile) {
    size_t bytes = ls_gemm_packed_bytes(t);
    t->micro(s->k, p->a + s->at * t->mr * bytes, p->b + s->at * t->nr * bytes, tile);
}

/* Copies n 16-bit numbers without a call of memcpy(), because a row of a tile is short. */
static void copy_halves(uint16_t *to, const uint16_t *from, size_t n) {
    size_t i = 0;
    for (; i + 4 <= n; i += 4) memcpy(to + i, from + i, 4 * sizeof *to);
    for (; i < n; i++) to[i] = from[i];
}

/* Transposes four columns of `rows` values, `ld` apart, to rows `ldto` apart, and adds the bias unless it is NULL; rows
 * of the tile that do not exist are copied too. */
static inline void turn_four(float *to, size_t ldto, const float *from, size_t ld, size_t rows, const float *bias) {
    size_t i = 0;
    for (; i + 4 <= rows; i += 4) {
        const float *at = from + i * ld;
        four r0 = load4(at), r1 = load4(at + ld), r2 = load4(at + 2 * ld), r3 = load4(at + 3 * ld);
        four t0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), t1 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
        four t2 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5), t3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
        four out[4] = {__builtin_shufflevector(t0, t2, 0, 1, 4, 5), __builtin_shufflevector(t0, t2, 2, 3, 6, 7),
                       __builtin_shufflevector(t1, t3, 0, 1, 4, 5), __builtin_shufflevector(t1, t3, 2, 3, 6, 7)};
        for (size_t c = 0; c < 4; c++) store4(to + c * ldto + i, bias ? out[c] + load4(bias + i) : out[c]);
    }
    for (; i < rows; i++)
        for (size_t c = 0; c < 4; c++) to[c * ldto + i] = bias ? from[i * ld + c] + bias[i] : from[i * ld + c];
}

/* Copies a few floats without a call of memcpy(); the last four may overlap those before them. */
static inline void copy_short(float *to, const float *from, size_t n) {
    if (n < 4) {
        for (size_t i = 0; i < n; i++) to[i] = from[i];
        return;
    }
    for (size_t i = 0; i + 4 <= n; i += 4) store4(to + i, load4(from + i));
    store4(to + n - 4, load4(from + n - 4));
}

/* Writes a tile of C transposed: transposes it, adds the bias and copies its rows to C. */
static void write_turned(const ls_gemm_kernels *t, const ls_gemm *g, const ls_gemm_place *p, const float *out) {
    enum { ROWS_MAX = 32 };
    float four_rows[4 * ROWS_MAX], bias[ROWS_MAX] = {0};
    assert(t->mr <= ROWS_MAX && t->nr % 4 == 0);
    if (g->bias) copy_short(bias, g->bias + p->row, p->rows);
    for (size_t first = 0; first < p->columns; first += 4) {
        size_t some = p->columns - first < 4 ? p->columns - first : 4;
        turn_four(four_rows, ROWS_MAX, out + first, t->nr, t->mr, g->bias ? bias : NULL);
        for (size_t c = 0; c < some; c++) {
            size_t row = p->column + first + c, at = g->c_rows ? ls_gemm_grid_at(g->c_rows, row) : row * g->ldc;
            copy_short((float *)g->c + at + p->row, four_rows + c * ROWS_MAX, p->rows);
        }
    }
}

/* Writes a finished fp32 tile to C that the micro-kernel could not store there: a part of a tile, one of another type
 * or order, or rows apart. */
static void write_tile(const ls_gemm_kernels *t, const ls_gemm *g, const ls_gemm_place *p, const float *out) {
    size_t at = p->row * g->ldc + p->column, nr = t->nr;
    if (p->turned) {
        write_turned(t, g, p, out);
        return;
    }
    if (g->c_rows) {
        for (size_t i = 0; i < p->rows; i++)
            memcpy((float *)g->c + ls_gemm_grid_at(g->c_rows, p->row + i) + p->column, out + i * nr,
                   p->columns * sizeof(float));
        return;
    }
    if (g->c_dtype == LS_F32) {
        copy_tile((float *)g->c + at, g->ldc, out, nr, p->rows, p->columns);
        return;
    }
    _Alignas(64) uint16_t halves[LS_GEMM_TILE_ELEMS_MAX];
    uint16_t *c = (uint16_t *)g->c + at;
    (g->c_dtype == LS_BF16 ? t->convert.f32_to_bf16 : t->convert.f32_to_f16)(halves, out, p->rows * nr);
    for (size_t i = 0; i < p->rows; i++) copy_halves(c + i * g->ldc, halves + i * nr, p->columns);
}

/* Runs the last segment of K, or a segment of a matmul of one slice, whose chain may begin or end in C. */
static void run_segment(const ls_gemm_kernels *t, const ls_gemm *g, const ls_gemm_place *p, const ls_gemm_segment *s,
                        bool is_last) {
    size_t mr = t->mr, nr = t->nr, elems = mr * nr;
    bool whole = p->rows == mr && p->columns == nr, to_c = is_last || !p->slots;
    bool in_place = to_c && whole && !g->c_rows && !p->turned &&
                    (g->c_dtype == LS_F32 || (g->c_dtype == LS_BF16 && t->rounds_bf16));
    ls_gemm_addend addend[LS_GEMM_LEVELS_MAX + LS_GEMM_SIBLINGS_MAX];
    ls_gemm_tile tile = {.addend = addend};
    edge e; /* not cleared: this runs once for every tile */
    if (!s->begins && p->slots) {
        tile.start = p->slots;
        tile.ldstart = nr;
    } else if (!s->begins || g->accumulate) {
        ls_gemm_addend start = view(p, whole, g->c, g->ldc, e.start, nr);
        tile.start = start.at;
        tile.ldstart = start.ld;
    }
    for (int level = 0; is_last && s->slice >> level; level++)
        if (s->slice >> level & 1)
            addend[tile.addends++] = (ls_gemm_addend){p->slots + elems * (size_t)(level + 1), nr};
    if (is_last) add_rest(g, p, whole, nr, addend, &tile, &e);
    size_t at = p->row * g->ldc + p->column;
    tile.out = to_c ? e.out : p->slots;
    tile.ldout = nr;
    if (in_place && g->c_dtype == LS_F32) {
        tile.out = (float *)g->c + at;
        tile.ldout = g->ldc;
    } else if (in_place) {
        tile.halves = (uint16_t *)g->c + at;
        tile.ldhalves = g->ldc;
    }
    run_micro(t, p, s, &tile);
    if (to_c && !in_place) write_tile(t, g, p, e.out);
}

void ls_gemm_tile_run(const ls_gemm_kernels *kernels, const ls_gemm *g, const ls_gemm_pass *pass,
                      const ls_gemm_place *place) {
    size_t nr = kernels->nr, elems = kernels->mr * nr;
    ls_gemm_addend subtree[LS_GEMM_LEVELS_MAX];
    for (int i = 0; pass->slices > 1 && i < LS_GEMM_LEVELS_MAX; i++)
        subtree[i] = (ls_gemm_addend){place->slots + elems * (size_t)(i + 1), nr};
    for (int i = 0; i < pass->segments; i++) {
        const ls_gemm_segment *s = &pass->segment[i];
        bool is_last = s->ends && s->slice + 1 == pass->slices;
        if (is_last || pass->slices == 1) {
            run_segment(kernels, g, place, s, is_last);
            continue;
        }
        /* All in slots; with several slices no chain begins in C. */
        int ones = s->ends ? __builtin_ctz(~(unsigned)s->slice) : 0;
        ls_gemm_tile tile = {.start = s->begins ? NULL : place->slots,
                             .ldstart = nr,
                             .out = place->slots + (s->ends ? elems * (size_t)(ones + 1) : 0),
                             .ldout = nr,
                             .addends = ones,
                             .addend = subtree};
        run_micro(kernels, place, s, &tile);
    }
}
