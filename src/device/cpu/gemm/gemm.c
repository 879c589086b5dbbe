/* gemm.c: the loops around the tiles.
 *
 *     for each chunk of C, and of K      pack what all tasks share, in parallel
 *       tasks: a part of the chunk       taken by free threads; may pack one operand for itself
 *         for each block of mb × nb      its panels stay in the second cache
 *           for each pass of kc          its panel of B stays in the first cache
 *             for each tile mr × nr
 *
 * The operand with more lines (rows of A, columns of B) is best packed by the task that uses it: it goes through the
 * caches once. With too few lines for that, all is packed beforehand. choose_tasks() estimates which is faster.
 *
 * Tiles are not square. If fewer elements of tiles are wasted that way, A and B are exchanged (`turned`): m, n, rows
 * and columns here are then those of C transposed. A chain is the same, so no bit changes. */
#include "device/cpu/gemm/gemm.h"

#include <assert.h>
#include <pthread.h>

#include "device/cpu/gemm/k.h"
#include "device/cpu/gemm/pack.h"
#include "device/cpu/gemm/tile.h"

/* ---- kernels of the matrix units, beside those of the ISA -------------------------------------------------------- */

static ls_gemm_kernels tables[LS_UNITS], tables_f16[LS_UNITS];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

/* Fills the tables of the units that this architecture has, and of tensor cores, which it emulates. Others stay zeroed.
 */
static void fill_unit_tables(void) {
    for (int u = 0; u < LS_UNITS; u++) {
        if (!ls_unit_is_tensor_core((ls_unit)u)) continue;
        ls_gemm_kernels_fill_tensor_core(&tables[u], (ls_unit)u, LS_BF16);
        ls_gemm_kernels_fill_tensor_core(&tables_f16[u], (ls_unit)u, LS_F16);
    }
#ifdef __aarch64__
    ls_gemm_kernels_fill_bfmmla(&tables[LS_UNIT_BFMMLA]);
#endif
#ifdef __x86_64__
    ls_gemm_kernels_fill_avx512_bf16(&tables[LS_UNIT_AVX512_BF16]);
    ls_gemm_kernels_fill_amx(&tables[LS_UNIT_AMX]);
#endif
}

/* Returns the kernels of the call's unit; `chain` if that is the unit, or if the unit is not here. */
static const ls_gemm_kernels *kernels_of(const ls_gemm_kernels *chain, const ls_gemm *g) {
    if (g->unit == LS_UNIT_CHAIN || !ls_unit_is_here(g->unit)) return chain;
    (void)pthread_once(&tables_once, fill_unit_tables); /* fails only for a broken once variable */
    return g->dtype == LS_F16 ? &tables_f16[g->unit] : &tables[g->unit];
}

/* ---- chunks and tasks -------------------------------------------------------------------------------------------- */

/* Upper bounds of the bytes of packed A and B, and of a line of a chunk: enough to keep packing cheap, while scratch
 * stays small. What a task packs for itself (OWN_BYTES) should stay in its L2 cache. */
enum { CHUNK_LINE = 2048 * 4, CHUNK_A = 768 * CHUNK_LINE, CHUNK_B = 1536 * CHUNK_LINE, OWN_BYTES = 512 * 1024 };

typedef enum owned { OWN_NONE, OWN_A, OWN_B } owned;

typedef struct job {
    const ls_gemm_kernels *kernels;
    const ls_gemm *g;
    int slices;
    size_t bytes; /* of a packed element */
    size_t granule;
    bool turned; /* A and B have changed places */
    size_t all_m, all_n;
    ls_gemm_k positions;   /* of K, with padding; k0, k and kc count them */
    bool slots_in_scratch; /* chains live apart from C and outlive a task, because K has several chunks */
    size_t mc, nc, kc;     /* of a chunk at most */
    size_t m0, n0, k0, m, n, k;
    bool last_k;
    owned own;              /* what a task packs for itself */
    size_t rows, columns;   /* of a task */
    size_t panels_together; /* that one task packs beforehand */
    char *panels_a, *panels_b;
    float *slots;
} job;

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
/* Returns x rounded up to a multiple of `to`. */
static size_t up(size_t x, size_t to) { return (x + to - 1) / to * to; }
/* Returns x rounded down to a multiple of `to`, but at least `to`. */
static size_t down(size_t x, size_t to) { return x < to ? to : x / to * to; }
/* Returns into how many parts of `width` lines are cut, the last of which may be shorter. */
static size_t parts(size_t lines, size_t width) { return (lines + width - 1) / width; }

/* Returns the size of the parts if `lines` are cut into as few equal parts of at most `most` as possible; rounded up to
 * a multiple of `unit`. */
static size_t equal_part(size_t lines, size_t most, size_t unit) {
    return lines <= most ? up(lines, unit) : up(parts(lines, parts(lines, most)), unit);
}

/* Returns whether chains live in the tile's slots between segments, not in C (tile.h). */
static bool chains_apart(const job *j) {
    return j->slices > 1 || j->g->siblings > 0 || j->g->c_dtype != LS_F32 || j->g->c_rows || j->turned;
}

/* The cost of storing a tile transposed, in values of k. */
enum { COST_TURN = 8 };

/* Returns whether C transposed wastes so much less of its tiles that storing it transposed pays. */
static bool is_better_turned(const ls_gemm_kernels *t, const ls_gemm *g) {
    if (g->slices > 1 || g->accumulate || g->siblings > 0 || g->c_dtype != LS_F32 || t->granule) return false;
    double straight = (double)up(g->m, t->mr) * (double)up(g->n, t->nr);
    double turned = (double)up(g->n, t->mr) * (double)up(g->m, t->nr);
    return turned * (double)(g->k + COST_TURN) < 0.97 * straight * (double)g->k;
}

/* Returns the floats of all slots of one tile. */
static size_t tile_slots_elems(const job *j) {
    return j->kernels->mr * j->kernels->nr * (size_t)ls_gemm_slots_of(j->slices);
}

/* Chooses the kernels, the orientation and the chunk sizes. Reads no list or tensor of the call. */
static void open_job(job *j, const ls_gemm_kernels *chain, const ls_gemm *g) {
    const ls_gemm_kernels *kernels = kernels_of(chain, g);
    *j = (job){.kernels = kernels, .g = g, .slices = g->slices > 1 ? g->slices : 1};
    assert(kernels->mr * kernels->nr <= LS_GEMM_TILE_ELEMS_MAX);
    j->bytes = ls_gemm_packed_bytes(kernels);
    j->granule = kernels->granule ? kernels->granule : 1;
    j->turned = is_better_turned(kernels, g);
    j->all_m = j->turned ? g->n : g->m;
    j->all_n = j->turned ? g->m : g->n;
    size_t most_k = ls_gemm_k_most(g, j->granule);
    j->kc = equal_part(most_k ? most_k : 1, CHUNK_LINE / j->bytes, j->granule);
    j->mc = equal_part(j->all_m, down(CHUNK_A / j->bytes / j->kc, kernels->mr), kernels->mr);
    j->nc = equal_part(j->all_n, down(CHUNK_B / j->bytes / j->kc, kernels->nr), kernels->nr);
    j->slots_in_scratch = chains_apart(j) && most_k > j->kc;
}

/* Returns the bytes of the panels of so many lines and positions. */
static size_t panels_bytes(const job *j, size_t lines, size_t k) { return up(lines * k * j->bytes, 64); }
static size_t panels_a_bytes(const job *j) { return panels_bytes(j, j->mc, j->kc); }
static size_t panels_b_bytes(const job *j) { return panels_bytes(j, j->nc, j->kc); }

size_t ls_gemm_scratch_bytes(const ls_gemm_kernels *kernels, const ls_gemm *g) {
    if (ls_gemm_is_thin(g)) return 0;
    job j;
    open_job(&j, kernels, g);
    size_t slots = j.slots_in_scratch ? j.mc / j.kernels->mr * (j.nc / j.kernels->nr) * tile_slots_elems(&j) : 0;
    return panels_a_bytes(&j) + panels_b_bytes(&j) + slots * sizeof(float);
}

/* ---- packing beforehand ------------------------------------------------------------------------------------------ */

/* Packs lines of the present chunk of K; `group` 0: widened to fp32, for chains. */
static void pack_lines(const job *j, char *to, size_t width, size_t group, ls_gemm_lines from, size_t lines) {
    void *panel = to;
    if (group)
        ls_gemm_pack_unit(j->kernels, panel, width, group, from, lines, &j->positions, j->k0, j->k);
    else
        ls_gemm_pack(j->kernels, panel, width, ls_gemm_lines_from(from, 0, j->k0), lines, j->k);
}

/* Packs rows row … row + rows − 1 of the chunk, of the operand in the place of A, over the chunk of K. */
static void pack_a(const job *j, char *to, size_t row, size_t rows) {
    ls_gemm_lines all = j->turned ? ls_gemm_lines_of_b(j->g) : ls_gemm_lines_of_a(j->g);
    ls_gemm_lines from = ls_gemm_lines_from(all, j->m0 + row, 0);
    pack_lines(j, to, j->kernels->mr, j->kernels->group_a, from, rows);
}

/* Packs columns column … column + columns − 1 of the chunk, of the operand in the place of B, over the chunk of K. */
static void pack_b(const job *j, char *to, size_t column, size_t columns) {
    ls_gemm_lines all = j->turned ? ls_gemm_lines_of_a(j->g) : ls_gemm_lines_of_b(j->g);
    ls_gemm_lines from = ls_gemm_lines_from(all, j->n0 + column, 0);
    pack_lines(j, to, j->kernels->nr, j->kernels->group_b, from, columns);
}

/* A task packs several panels, so that a row of an operand that lies across them is read in one go. */
enum { PANELS_MOST = 8 };

typedef struct pack_job {
    const job *j;
    size_t tasks_a; /* tasks before these are of A, the others of B */
} pack_job;

/* Task: packs panels_together panels of A, or for task numbers from tasks_a on of B. */
static void pack_task(void *context, size_t task, int thread) {
    (void)thread;
    const pack_job *p = context;
    const job *j = p->j;
    if (task < p->tasks_a) {
        size_t most = j->panels_together * j->kernels->mr, row = task * most;
        pack_a(j, j->panels_a + row * j->k * j->bytes, row, min_size(most, j->m - row));
    } else {
        size_t most = j->panels_together * j->kernels->nr, column = (task - p->tasks_a) * most;
        pack_b(j, j->panels_b + column * j->k * j->bytes, column, min_size(most, j->n - column));
    }
}

/* Packs, on all threads, the operands of the chunk that tasks do not pack for themselves. */
static void pack_shared(const job *j, ls_pool *pool, bool b_is_packed) {
    const ls_gemm_kernels *t = j->kernels;
    pack_job p = {j, j->own == OWN_A ? 0 : parts(j->m, t->mr * j->panels_together)};
    size_t tasks_b = j->own == OWN_B || b_is_packed ? 0 : parts(j->n, t->nr * j->panels_together);
    if (j->k) ls_pool_run(pool, p.tasks_a + tasks_b, pack_task, &p);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

typedef struct block {
    size_t row0, row1, column0, column1; /* in the chunk */
    const char *a, *b;                   /* their panels */
} block;

/* Runs all tiles of a block over one pass. */
static void run_pass(const job *j, const block *x, const ls_gemm_pass *pass, float *slots) {
    const ls_gemm_kernels *t = j->kernels;
    size_t tiles_across = j->nc / t->nr, slots_elems = tile_slots_elems(j);
    for (size_t column = x->column0; column < x->column1; column += t->nr)
        for (size_t row = x->row0; row < x->row1; row += t->mr) {
            ls_gemm_place p = {.row = j->m0 + row,
                               .column = j->n0 + column,
                               .rows = min_size(t->mr, x->row1 - row),
                               .columns = min_size(t->nr, x->column1 - column),
                               .a = x->a + (row - x->row0) * j->k * j->bytes,
                               .b = x->b + (column - x->column0) * j->k * j->bytes,
                               .slots = slots,
                               .turned = j->turned};
            if (j->slots_in_scratch) p.slots = j->slots + (row / t->mr * tiles_across + column / t->nr) * slots_elems;
            ls_gemm_tile_run(t, j->g, pass, &p);
        }
}

/* Runs a block over the chunk of K: in one pass if chains live in slots, else in passes whose B stays in L1. */
static void run_block(const job *j, const block *x) {
    _Alignas(64) float slots[(LS_GEMM_LEVELS_MAX + 1) * LS_GEMM_TILE_ELEMS_MAX];
    bool apart = chains_apart(j);
    size_t k0 = j->k0, end = j->k0 + j->k, most = apart ? j->k : equal_part(j->k, j->kernels->kc, j->granule);
    do {
        ls_gemm_pass pass;
        size_t k1 = min_size(k0 + most, end);
        ls_gemm_pass_cut(&pass, j->slices, j->positions.bounds, j->k0, k0, k1, j->last_k && k1 == end);
        run_pass(j, x, &pass, apart ? slots : NULL);
        k0 = k1;
    } while (k0 < end);
}

/* Task: packs what the task owns and computes its part of the chunk, block by block. */
static void part_task(void *context, size_t task, int thread) {
    const job *j = context;
    const ls_gemm_kernels *t = j->kernels;
    size_t across = parts(j->n, j->columns);
    size_t row0 = task / across * j->rows, row1 = min_size(row0 + j->rows, j->m);
    size_t column0 = task % across * j->columns, column1 = min_size(column0 + j->columns, j->n);
    char *a = j->panels_a + row0 * j->k * j->bytes, *b = j->panels_b + column0 * j->k * j->bytes;
    if (j->own == OWN_A) {
        a = j->panels_a + panels_bytes(j, j->rows, j->k) * (size_t)thread;
        pack_a(j, a, row0, row1 - row0);
    } else if (j->own == OWN_B) {
        b = j->panels_b + panels_bytes(j, j->columns, j->k) * (size_t)thread;
        pack_b(j, b, column0, column1 - column0);
    }
    if (t->begin) t->begin();
    for (size_t row = row0; row < row1; row += t->mb)
        for (size_t column = column0; column < column1; column += t->nb) {
            block x = {row,
                       min_size(row + t->mb, row1),
                       column,
                       min_size(column + t->nb, column1),
                       a + (row - row0) * j->k * j->bytes,
                       b + (column - column0) * j->k * j->bytes};
            run_block(j, &x);
        }
    if (t->end) t->end();
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* Costs in multiply-adds: packing an element in the task that uses it, or for all tasks beforehand; loading an element
 * that another thread packed, the first time and again; starting a task. Measured with 16 threads on x86-64, for
 * chains; a unit multiplies faster, and its elements are half as long. */
enum { COST_PACK = 16, COST_PACK_SHARED = 40, COST_FETCH = 12, COST_AGAIN = 2, COST_TASK = 30000 };

/* Bytes that are still in a thread's caches when its next task uses them too. */
enum { NEAR_BYTES = 1024 * 1024 };

typedef struct choice {
    owned own;
    size_t rows, columns;
    double cost;
} choice;

/* Returns the lines that the thread with most work packs, if whole panels are divided among the threads. */
static size_t pack_rounds_elems(size_t lines, size_t width, size_t threads) {
    return parts(parts(lines, width), threads) * width;
}

/* Estimates the time, in multiply-adds of a chain over one k, with tasks of rows × columns, and replaces *best if it is
 * shorter; does nothing if the panels that tasks pack for themselves do not fit the scratch. cost 0 in *best: none yet.
 */
static void consider(const job *j, size_t threads, owned own, size_t rows, size_t columns, choice *best) {
    size_t k = j->kc, m = own == OWN_A ? j->all_m : min_size(j->all_m, j->mc);
    size_t n = own == OWN_B ? j->all_n : min_size(j->all_n, j->nc);
    if (own == OWN_A && panels_bytes(j, rows, k) * threads > panels_a_bytes(j)) return;
    if (own == OWN_B && panels_bytes(j, columns, k) * threads > panels_b_bytes(j)) return;
    double rate = j->kernels->rate ? (double)j->kernels->rate : 1, by_element = rate * (double)j->bytes / 4;
    double rounds = (double)parts(parts(m, rows) * parts(n, columns), threads) + 0.25;
    double task = (double)(rows * columns) + rate * (double)COST_TASK / (double)k, once = 0, lines = 0;
    if (own == OWN_NONE) {
        task += by_element * COST_FETCH * (double)(rows + columns);
    } else {
        size_t shared = own == OWN_A ? columns : rows;
        bool is_near = shared * k * j->bytes <= NEAR_BYTES;
        task += by_element * (COST_PACK * (double)(own == OWN_A ? rows : columns) +
                              (is_near ? COST_AGAIN : COST_FETCH) * (double)shared);
        if (is_near) once += by_element * COST_FETCH * (double)shared;
    }
    if (own != OWN_A) lines += (double)pack_rounds_elems(m, j->kernels->mr, threads);
    if (own != OWN_B) lines += (double)pack_rounds_elems(n, j->kernels->nr, threads);
    /* C is several chunks, the last of them not full. */
    double chunks = (double)j->all_m / (double)m * ((double)j->all_n / (double)n);
    double cost = (rounds * task + once + by_element * COST_PACK_SHARED * lines) * chunks;
    if (best->cost > 0 && cost >= best->cost) return;
    *best = (choice){own, rows, columns, cost};
}

/* Sets what a task packs and its size: for one thread, if no chains apart from C outlive a task, the larger operand and
 * the sizes of the table; else the fastest by the estimate. Also how many panels are packed together beforehand. */
static void choose_tasks(job *j, size_t threads) {
    const ls_gemm_kernels *t = j->kernels;
    size_t all_rows = up(j->all_m, t->mr), all_columns = up(j->all_n, t->nr);
    size_t some_rows = min_size(j->mc, all_rows), some_columns = min_size(j->nc, all_columns);
    size_t own_elems = (t->own_bytes ? t->own_bytes : OWN_BYTES) / j->bytes;
    size_t own_rows = min_size(min_size(t->mb, all_rows), down(own_elems / j->kc, t->mr));
    size_t own_columns = min_size(min_size(t->nb, all_columns), down(own_elems / j->kc, t->nr));
    owned large = j->all_n >= j->all_m ? OWN_B : OWN_A;
    choice best = {0};
    j->panels_together = PANELS_MOST;
    if (threads == 1 && !j->slots_in_scratch) {
        best.own = large;
        best.rows = large == OWN_A ? own_rows : some_rows;
        best.columns = large == OWN_B ? own_columns : some_columns;
    } else {
        for (size_t rows = t->mr; rows <= min_size(t->mb, all_rows); rows += t->mr) {
            for (size_t columns = t->nr; columns <= min_size(t->nb, all_columns); columns += t->nr)
                consider(j, threads, OWN_NONE, rows, columns, &best);
            for (size_t cut = 1; large == OWN_A && !j->slots_in_scratch && rows <= own_rows && cut <= 4; cut++)
                consider(j, threads, OWN_A, rows, up(parts(some_columns, cut), t->nr), &best);
        }
        for (size_t columns = t->nr; columns <= own_columns; columns += t->nr)
            for (size_t cut = 1; large == OWN_B && !j->slots_in_scratch && cut <= 4; cut++)
                consider(j, threads, OWN_B, up(parts(some_rows, cut), t->mr), columns, &best);
        size_t panels = parts(some_rows, t->mr) + parts(some_columns, t->nr);
        while (j->panels_together > 1 && panels / j->panels_together < 3 * threads) j->panels_together /= 2;
    }
    j->own = best.own;
    j->rows = best.rows;
    j->columns = best.columns;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Computes one chunk of C over all of K. *b_is_packed: B's panels of the last call hold all of K; updated. */
static void run_chunk(job *j, ls_pool *pool, bool *b_is_packed) {
    size_t all_k = j->positions.bounds[j->slices];
    j->k0 = 0;
    do {
        j->k = min_size(j->kc, all_k - j->k0);
        j->last_k = j->k0 + j->k == all_k;
        pack_shared(j, pool, *b_is_packed);
        *b_is_packed = j->last_k && j->k0 == 0; /* still good for the next rows if it held all of K */
        ls_pool_run(pool, parts(j->m, j->rows) * parts(j->n, j->columns), part_task, j);
        j->k0 += j->k;
    } while (j->k0 < all_k);
}

void ls_gemm_run(const ls_gemm_kernels *kernels, const ls_gemm *g, ls_pool *pool, void *scratch) {
    assert(g->slices <= LS_GEMM_SLICES_MAX && (g->slices <= 1 || (g->bounds && !g->accumulate)));
    assert(g->siblings >= 0 && g->siblings <= LS_GEMM_SIBLINGS_MAX);
    assert(g->c_dtype == LS_F32 || (!g->accumulate && g->siblings == 0));
    assert(!g->c_rows || (!g->accumulate && g->siblings == 0));
    assert(g->unit == LS_UNIT_CHAIN || (ls_unit_takes(g->unit, g->dtype) && ls_unit_is_here(g->unit)));
    if (g->m == 0 || g->n == 0) return;
    if (ls_gemm_is_thin(g)) {
        ls_gemm_thin_run(kernels, g, pool);
        return;
    }
    job j;
    open_job(&j, kernels, g);
    ls_gemm_k_open(&j.positions, g, j.granule);
    j.panels_a = scratch;
    j.panels_b = j.panels_a + panels_a_bytes(&j);
    j.slots = (float *)(void *)(j.panels_b + panels_b_bytes(&j));
    choose_tasks(&j, (size_t)ls_pool_threads(pool));
    size_t most_m = j.own == OWN_A ? j.all_m : j.mc, most_n = j.own == OWN_B ? j.all_n : j.nc;
    for (j.n0 = 0; j.n0 < j.all_n; j.n0 += j.n) {
        bool b_is_packed = false;
        j.n = min_size(most_n, j.all_n - j.n0);
        for (j.m0 = 0; j.m0 < j.all_m; j.m0 += j.m) {
            j.m = min_size(most_m, j.all_m - j.m0);
            run_chunk(&j, pool, &b_is_packed);
        }
    }
}
