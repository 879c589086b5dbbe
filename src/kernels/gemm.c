/* gemm.c: the loops around the micro-kernel.
 *
 *     for each chunk of C (mc × nc)
 *       for each chunk of K            pack A and B into panels, in parallel
 *         tasks: blocks of mb × nb     handed out as threads come free
 *           for each pass of kc        its panel of B stays in the first cache
 *             for each tile mr × nr    one or more segments: the pass cut at the ends of slices
 *
 * Between passes a chain lives in C (one slice) or in the tile's own slots (several): slot 0 … levels−1 hold subtrees
 * of finished slices, as in a binary counter, slot `levels` the chain under way. The last segment of a tile adds the
 * subtrees that are left, the sibling and the bias while the tile is in registers. */
#include "kernels/gemm.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "kernels/gemm_pack.h"

/* Chunks: enough to keep packing cheap, few enough that scratch stays small. Rounded to tiles and passes. */
enum { CHUNK_M = 768, CHUNK_N = 1536, CHUNK_K = 2048, TILE_MAX = 14 * 32 };

typedef struct job {
    const ls_gemm_kernels *kernels;
    const ls_gemm *g;
    int slices, levels;
    const size_t *bounds;
    size_t plain_bounds[2];
    size_t mc, nc, kc; /* the current chunk: where it begins and how large it is */
    size_t m0, n0, k0, m, n, k;
    bool last_k;
    size_t mb, nb;          /* block of a task: the table's, or less where there would be too few tasks */
    size_t panels_together; /* that one task packs */
    float *panels_a, *panels_b, *slots;
} job;

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
static size_t up(size_t x, size_t to) { return (x + to - 1) / to * to; }
static size_t down(size_t x, size_t to) { return x < to ? to : x / to * to; }

static void choose_chunks(job *j) {
    const ls_gemm_kernels *t = j->kernels;
    j->mc = min_size(down(CHUNK_M, t->mb), up(j->g->m, t->mr));
    j->nc = min_size(down(CHUNK_N, t->nb), up(j->g->n, t->nr));
    j->kc = min_size(down(CHUNK_K, t->kc), j->g->k ? j->g->k : 1);
}

static int levels_of(int slices) {
    int levels = 0;
    while (1 << levels < slices) levels++;
    return levels;
}

static size_t slots_floats(const job *j) { return j->slices > 1 ? j->mc * j->nc * (size_t)(j->levels + 1) : 0; }

static void open_job(job *j, const ls_gemm_kernels *kernels, const ls_gemm *g) {
    *j = (job){.kernels = kernels, .g = g, .slices = g->slices > 1 ? g->slices : 1};
    assert((j->slices & (j->slices - 1)) == 0 && j->slices <= LS_GEMM_SLICES_MAX &&
           kernels->mr * kernels->nr <= TILE_MAX);
    assert(j->slices == 1 || (g->bounds && !g->accumulate));
    j->levels = levels_of(j->slices);
    j->plain_bounds[1] = g->k;
    choose_chunks(j);
}

size_t ls_gemm_scratch_bytes(const ls_gemm_kernels *kernels, const ls_gemm *g) {
    job j;
    open_job(&j, kernels, g);
    return (up(j.mc * j.kc, 16) + up(j.nc * j.kc, 16) + slots_floats(&j)) * sizeof(float);
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* A task packs several panels, so that a row of an operand that lies across them is read in one go. */
enum { PANELS_MOST = 8 };

static void pack_some(const job *j, bool is_a, size_t task) {
    const ls_gemm *g = j->g;
    size_t width = is_a ? j->kernels->mr : j->kernels->nr, ld = is_a ? g->lda : g->ldb;
    size_t most = j->panels_together * width, line = task * most, lines = min_size(most, (is_a ? j->m : j->n) - line);
    float *to = (is_a ? j->panels_a : j->panels_b) + line * j->k;
    line += is_a ? j->m0 : j->n0;
    bool along_k = is_a ? g->form != LS_GEMM_TN : g->form == LS_GEMM_NT;
    size_t offset = along_k ? line * ld + j->k0 : j->k0 * ld + line;
    const char *source = (const char *)(is_a ? g->a : g->b) + offset * (g->dtype == LS_BF16 ? 2 : 4);
    ls_gemm_pack(to, width, source, g->dtype, ld, along_k, lines, j->k);
}

static size_t parts(size_t lines, size_t width) { return (lines + width - 1) / width; }

typedef struct pack_job {
    const job *j;
    size_t tasks_a; /* tasks before these are of A, the others of B */
} pack_job;

static void pack_task(void *context, size_t task, int thread) {
    (void)thread;
    const pack_job *p = context;
    bool is_a = task < p->tasks_a;
    pack_some(p->j, is_a, is_a ? task : task - p->tasks_a);
}

/* ---- tiles ---------------------------------------------------------------------------------------------------------
 */

/* Edges: the micro-kernel always does whole tiles, so a part of one goes through a buffer. */
typedef struct edge {
    float start[TILE_MAX], out[TILE_MAX], sibling[TILE_MAX], bias[TILE_MAX];
} edge;

static void copy_tile(float *to, size_t ldto, const float *from, size_t ldfrom, size_t rows, size_t columns) {
    for (size_t i = 0; i < rows; i++) memcpy(to + i * ldto, from + i * ldfrom, columns * sizeof(float));
}

typedef struct place {
    size_t row, column;   /* in the chunk */
    size_t rows, columns; /* of this tile that exist */
    float *slots;         /* of this tile, or NULL */
} place;

/* Chains over k0 … k1−1, positions in all of K, of slice s. */
static void run_segment(const job *j, const place *p, int s, size_t k0, size_t k1) {
    const ls_gemm *g = j->g;
    const ls_gemm_kernels *t = j->kernels;
    size_t mr = t->mr, nr = t->nr, tile_floats = mr * nr;
    bool whole = p->rows == mr && p->columns == nr, begins = k0 == j->bounds[s], ends = k1 == j->bounds[s + 1];
    bool last = ends && s + 1 == j->slices, in_c = j->slices == 1;
    float *c = g->c + (j->m0 + p->row) * g->ldc + j->n0 + p->column;
    ls_gemm_tile tile; /* not cleared: this runs once for every tile */
    edge e;
    tile.start = NULL;
    tile.ldstart = 0;
    tile.addends = 0;
    tile.bias = NULL;
    if (!begins && !in_c) {
        tile.start = p->slots + tile_floats * (size_t)j->levels;
        tile.ldstart = nr;
    } else if (!begins || (in_c && g->accumulate)) {
        tile.start = c;
        tile.ldstart = g->ldc;
        if (!whole) {
            copy_tile(e.start, nr, c, g->ldc, p->rows, p->columns);
            tile.start = e.start;
            tile.ldstart = nr;
        }
    }
    int level = 0;
    for (; ends && s >> level & 1; level++)
        tile.addend[tile.addends++] = (ls_gemm_addend){p->slots + tile_floats * (size_t)level, nr};
    bool to_c = last || in_c;
    if (last && g->sibling) {
        const float *sibling = g->sibling + (j->m0 + p->row) * g->ldsibling + j->n0 + p->column;
        if (!whole) copy_tile(e.sibling, nr, sibling, g->ldsibling, p->rows, p->columns);
        tile.addend[tile.addends++] = whole ? (ls_gemm_addend){sibling, g->ldsibling} : (ls_gemm_addend){e.sibling, nr};
    }
    if (last && g->bias) {
        tile.bias = g->bias + j->n0 + p->column;
        if (!whole) {
            memcpy(e.bias, tile.bias, p->columns * sizeof(float));
            tile.bias = e.bias;
        }
    }
    tile.out = !to_c ? p->slots + tile_floats * (size_t)(ends ? level : j->levels) : whole ? c : e.out;
    tile.ldout = to_c && whole ? g->ldc : nr;
    size_t in_chunk = k0 - j->k0;
    t->micro(k1 - k0, j->panels_a + p->row * j->k + in_chunk * mr, j->panels_b + p->column * j->k + in_chunk * nr,
             &tile);
    if (to_c && !whole) copy_tile(c, g->ldc, e.out, nr, p->rows, p->columns);
}

/* The segments of one tile in the pass k0 … k1−1. An empty slice belongs to the pass in which it lies; one at the very
 * end to the last pass. */
static void run_tile(const job *j, const place *p, size_t k0, size_t k1, bool last_pass) {
    for (int s = 0; s < j->slices; s++) {
        size_t begin = j->bounds[s], end = j->bounds[s + 1];
        bool empty_here = begin == end && begin >= k0 && (begin < k1 || (last_pass && begin == k1));
        if (!empty_here && (end <= k0 || begin >= k1)) continue;
        size_t from = begin > k0 ? begin : k0, to = end < k1 ? end : k1;
        run_segment(j, p, s, from, to);
    }
}

/* ---- tasks ---------------------------------------------------------------------------------------------------------
 */

static void finish_block(const job *j, size_t row0, size_t row1, size_t column0, size_t column1) {
    const ls_gemm *g = j->g;
    for (size_t row = row0; row < row1; row++) {
        size_t i = j->m0 + row, n = j->n0 + column0;
        g->finish(g->finish_ctx, g->c + i * g->ldc + n, i, n, column1 - column0);
    }
}

static void block_task(void *context, size_t task, int thread) {
    (void)thread;
    const job *j = context;
    const ls_gemm_kernels *t = j->kernels;
    size_t across = parts(j->n, j->nb);
    size_t row0 = task / across * j->mb, row1 = min_size(row0 + j->mb, j->m);
    size_t column0 = task % across * j->nb, column1 = min_size(column0 + j->nb, j->n);
    size_t tile_floats = t->mr * t->nr * (size_t)(j->levels + 1), tiles_across = parts(j->n, t->nr);
    size_t k0 = j->k0, end = j->k0 + j->k;
    do {
        size_t k1 = min_size(k0 + t->kc, end);
        for (size_t column = column0; column < column1; column += t->nr)
            for (size_t row = row0; row < row1; row += t->mr) {
                place p = {row, column, min_size(t->mr, row1 - row), min_size(t->nr, column1 - column), NULL};
                if (j->slices > 1) p.slots = j->slots + (row / t->mr * tiles_across + column / t->nr) * tile_floats;
                run_tile(j, &p, k0, k1, j->last_k && k1 == end);
            }
        k0 = k1;
    } while (k0 < end);
    if (j->last_k && j->g->finish) finish_block(j, row0, row1, column0, column1);
}

/* Enough tasks for every thread to take several, so that a slow core costs only its own share. */
static void choose_tasks(job *j, int threads) {
    const ls_gemm_kernels *t = j->kernels;
    size_t enough = threads > 1 ? 3 * (size_t)threads : 1;
    j->mb = t->mb;
    j->nb = t->nb;
    while (parts(j->m, j->mb) * parts(j->n, j->nb) < enough && (j->nb > 2 * t->nr || j->mb > t->mr)) {
        if (j->nb > 2 * t->nr)
            j->nb = up(j->nb / 2, t->nr);
        else
            j->mb = up(j->mb / 2, t->mr);
    }
    size_t panels = parts(j->m, t->mr) + parts(j->n, t->nr);
    j->panels_together = PANELS_MOST;
    while (j->panels_together > 1 && panels / j->panels_together < enough) j->panels_together /= 2;
}

/* One chunk of C, over all of K. */
static void run_chunk(job *j, ls_pool *pool, bool *b_is_packed) {
    const ls_gemm_kernels *t = j->kernels;
    size_t all_k = j->g->k;
    choose_tasks(j, ls_pool_threads(pool));
    j->k0 = 0;
    do {
        j->k = min_size(j->kc, all_k - j->k0);
        j->last_k = j->k0 + j->k == all_k;
        pack_job p = {j, parts(j->m, t->mr * j->panels_together)};
        size_t tasks_b = *b_is_packed ? 0 : parts(j->n, t->nr * j->panels_together);
        if (j->k) ls_pool_run(pool, p.tasks_a + tasks_b, pack_task, &p);
        *b_is_packed = j->last_k && j->k0 == 0; /* still good for the next rows if it held all of K */
        ls_pool_run(pool, parts(j->m, j->mb) * parts(j->n, j->nb), block_task, j);
        j->k0 += j->k;
    } while (j->k0 < all_k);
}

void ls_gemm_run(const ls_gemm_kernels *kernels, const ls_gemm *g, ls_pool *pool, void *scratch) {
    job j;
    open_job(&j, kernels, g);
    j.bounds = j.slices > 1 ? g->bounds : j.plain_bounds;
    j.panels_a = scratch;
    j.panels_b = j.panels_a + up(j.mc * j.kc, 16);
    j.slots = j.panels_b + up(j.nc * j.kc, 16);
    for (j.n0 = 0; j.n0 < g->n; j.n0 += j.n) {
        bool b_is_packed = false;
        j.n = min_size(j.nc, g->n - j.n0);
        for (j.m0 = 0; j.m0 < g->m; j.m0 += j.m) {
            j.m = min_size(j.mc, g->m - j.m0);
            run_chunk(&j, pool, &b_is_packed);
        }
    }
}
