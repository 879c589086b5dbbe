/* thin.c: matmuls with few rows (or, turned over, few columns), bound by reading the other operand once.
 *
 *     wide operand, k × many           a task takes a stripe of it, over all of K
 *     narrow operand, k × rows         packed block by block, again by each task: it is small
 *     chains[row][stripe]              stay in the first cache, continued block by block
 *
 * The wide operand is read in place where the machine has a kernel for that; else, and at the edges, a block is
 * transposed or widened into a buffer in the first cache. With few columns the roles of A and B are exchanged, which
 * changes no bit, and C is written transposed. */
#include <stdint.h>
#include <string.h>

#include "device/cpu/gemm/pack.h"
#include "device/cpu/gemm/tile.h"
#include "numerics/float16.h"

enum {
    GROUP = LS_GEMM_THIN_ROWS,
    ROWS = 2 * GROUP,
    LANES = LS_GEMM_THIN_LANES,
    STORE = 8192, /* elements of chains and subtrees of a task */
    STRIPE = STORE / ROWS,
    RUN_K = 512,  /* of the narrow operand at a time */
    BLOCK_K = 64, /* with BLOCK_COLUMNS: 16 KiB of the wide operand */
    BLOCK_COLUMNS = 64,
};

/* A thin matmul. Its rows are the few lines, its columns the many, whichever of A and B they are. */
typedef struct thin {
    const ls_gemm_kernels *kernels;
    const ls_gemm *g;
    ls_gemm_lines narrow, wide;   /* the operand with few lines, and the other */
    size_t rows, columns, stripe; /* stripe: columns of a task */
    bool turned;                  /* the rows are columns of C */
    int slices;
    const size_t *bounds;   /* of the slices */
    size_t plain_bounds[2]; /* `bounds` of a matmul without slices */
} thin;

/* What a task keeps: slot 0 is the chain under way, slot 1 + i a subtree of 2^i slices (tile.h). */
typedef struct stripe {
    _Alignas(64) float store[STORE];
    _Alignas(64) float block[BLOCK_K * BLOCK_COLUMNS];
    _Alignas(64) float narrow[RUN_K * ROWS]; /* a panel for each group of rows */
    size_t column, columns, ld;              /* ld: columns, rounded up to whole vectors */
} stripe;

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
/* Returns x rounded up to a multiple of `to`. */
static size_t up(size_t x, size_t to) { return (x + to - 1) / to * to; }

/* With patches at most GROUP, because they are packed here too, so there is
 * less to be gained. */
bool ls_gemm_is_thin(const ls_gemm *g) {
    size_t most = g->patches ? GROUP : ROWS;
    return g->unit == LS_UNIT_CHAIN && (g->m <= most || g->n <= most);
}

/* Returns how many columns the kernel reads in place; the others go through the buffer. */
static size_t columns_in_place(const thin *t, size_t columns) {
    if (!ls_gemm_lines_are_stored(&t->wide)) return 0;
    if (!t->wide.along_k) return t->wide.dtype == LS_F32 ? columns / LANES * LANES : 0;
    if (!t->kernels->thin_along || t->wide.dtype == LS_F16) return 0;
    size_t unit = up(t->kernels->thin_lines, LANES);
    return columns / unit * unit;
}

/* Continues the chains of the first `columns` columns over k values from k0, with the wide operand where it is
 * stored. */
static void run_in_place(const thin *t, stripe *s, size_t k0, size_t k, size_t columns) {
    const ls_gemm_kernels *kernels = t->kernels;
    /* What the first group of rows has read is near when the second comes. */
    size_t step = t->wide.along_k ? kernels->thin_lines : columns,
           step_k = t->rows > GROUP && !t->wide.along_k ? BLOCK_K : k;
    for (size_t i = 0; i < k; i += step_k)
        for (size_t column = 0; column < columns; column += step)
            for (size_t r = 0; r < t->rows; r += GROUP) {
                size_t rows = min_size(GROUP, t->rows - r), n = min_size(step_k, k - i);
                const float *a = s->narrow + r * k + i * GROUP;
                float *c = s->store + r * s->ld + column;
                ls_gemm_lines from = ls_gemm_lines_from(t->wide, s->column + column, k0 + i);
                if (from.along_k)
                    kernels->thin_along(n, rows, a, from.at, from.dtype, from.ld, c, s->ld);
                else
                    kernels->thin(n, rows, a, from.at, from.ld, c, s->ld, columns);
            }
}

/* Packs a block of the wide operand, from value k0 + i and from `column` on, and continues its chains; the run has
 * `run` values from k0 on. */
static void run_block(const thin *t, stripe *s, size_t k0, size_t run, size_t i, size_t column) {
    size_t lines = min_size(BLOCK_COLUMNS, s->columns - column), width = up(lines, LANES),
           k = min_size(BLOCK_K, run - i);
    ls_gemm_pack(t->kernels, s->block, width, ls_gemm_lines_from(t->wide, s->column + column, k0 + i), lines, k);
    for (size_t r = 0; r < t->rows; r += GROUP)
        t->kernels->thin(k, min_size(GROUP, t->rows - r), s->narrow + r * run + i * GROUP, s->block, width,
                         s->store + r * s->ld + column, s->ld, width);
}

/* Continues all chains of the stripe over k values from k0, at most RUN_K. */
static void run_some(const thin *t, stripe *s, size_t k0, size_t k) {
    size_t direct = columns_in_place(t, s->columns);
    ls_gemm_pack(t->kernels, s->narrow, GROUP, ls_gemm_lines_from(t->narrow, 0, k0), t->rows, k);
    if (direct > 0) run_in_place(t, s, k0, k, direct);
    for (size_t i = 0; i < k; i += BLOCK_K)
        for (size_t column = direct; column < s->columns; column += BLOCK_COLUMNS) run_block(t, s, k0, k, i, column);
}

/* Computes to = left + to. */
static void add_left(float *to, const float *left, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = left[i] + to[i];
}

/* Ends slice 0, 1, …: merges its sum, in slot 0, with the sums of the earlier slices with which it completes a subtree,
 * as a binary counter carries (tile.c), and copies the result to slot 1 + level of the subtree. After the last slice
 * all sums are merged, and slot 0 has the total. */
static void end_slice(const thin *t, stripe *s, int slice) {
    bool is_last = slice + 1 == t->slices;
    size_t elems = t->rows * s->ld;
    int level = 0;
    for (; slice >> level; level++) {
        if (slice >> level & 1)
            add_left(s->store, s->store + (size_t)(level + 1) * elems, elems);
        else if (!is_last)
            break;
    }
    if (!is_last) memcpy(s->store + (size_t)(level + 1) * elems, s->store, elems * sizeof(float));
}

/* Returns the offset of an element of the stripe in a matrix laid out like C with stride ld. */
static size_t at(const thin *t, const stripe *s, size_t row, size_t column, size_t ld) {
    return t->turned ? (s->column + column) * ld + row : row * ld + s->column + column;
}

/* Starts the chains of a slice, from +0 or, if the call accumulates, from C. */
static void begin_slice(const thin *t, stripe *s) {
    const ls_gemm *g = t->g;
    const float *c = g->c;
    memset(s->store, 0, t->rows * s->ld * sizeof(float));
    for (size_t row = 0; g->accumulate && row < t->rows; row++)
        for (size_t column = 0; column < s->columns; column++)
            s->store[row * s->ld + column] = c[at(t, s, row, column, g->ldc)];
}

/* Stores one element of C, rounded to its type. */
static void store(const ls_gemm *g, size_t at_elem, float c) {
    switch (g->c_dtype) {
    case LS_BF16: ((uint16_t *)g->c)[at_elem] = ls_bf16_from_f32(c); break;
    case LS_F16: ((uint16_t *)g->c)[at_elem] = ls_f16_from_f32(c); break;
    default: ((float *)g->c)[at_elem] = c; break;
    }
}

/* Returns the offset of an element of the stripe in C, whose rows may be apart. */
static size_t at_c(const thin *t, const stripe *s, size_t row, size_t column) {
    const ls_gemm *g = t->g;
    if (!g->c_rows) return at(t, s, row, column, g->ldc);
    size_t c_row = t->turned ? s->column + column : row;
    return ls_gemm_grid_at(g->c_rows, c_row) + (t->turned ? row : s->column + column);
}

/* Adds siblings and bias to the finished sums, and writes them to C. */
static void write_out(const thin *t, const stripe *s) {
    const ls_gemm *g = t->g;
    for (size_t row = 0; row < t->rows; row++)
        for (size_t column = 0; column < s->columns; column++) {
            float c = s->store[row * s->ld + column];
            size_t left = at(t, s, row, column, g->ldsibling);
            for (int i = 0; i < g->siblings; i++) c = g->sibling[i][left] + c;
            if (g->bias) c = c + g->bias[t->turned ? row : s->column + column];
            store(g, at_c(t, s, row, column), c);
        }
}

/* Task: computes one stripe of columns, over all slices. */
static void stripe_task(void *context, size_t task, int thread) {
    (void)thread;
    const thin *t = context;
    stripe s; /* not cleared */
    s.column = task * t->stripe;
    s.columns = min_size(t->stripe, t->columns - s.column);
    s.ld = up(s.columns, LANES);
    for (int slice = 0; slice < t->slices; slice++) {
        begin_slice(t, &s);
        size_t end = t->bounds[slice + 1];
        for (size_t k = t->bounds[slice]; k < end; k += RUN_K) run_some(t, &s, k, min_size(RUN_K, end - k));
        end_slice(t, &s, slice);
    }
    write_out(t, &s);
}

void ls_gemm_thin_run(const ls_gemm_kernels *kernels, const ls_gemm *g, ls_pool *pool) {
    thin t = {.kernels = kernels,
              .g = g,
              .slices = g->slices > 1 ? g->slices : 1,
              .turned = g->m > ROWS || (g->patches && g->m > GROUP)};
    t.plain_bounds[1] = g->k;
    t.bounds = t.slices > 1 ? g->bounds : t.plain_bounds;
    t.narrow = t.turned ? ls_gemm_lines_of_b(g) : ls_gemm_lines_of_a(g);
    t.wide = t.turned ? ls_gemm_lines_of_a(g) : ls_gemm_lines_of_b(g);
    t.rows = t.turned ? g->n : g->m;
    t.columns = t.turned ? g->m : g->n;
    /* Several stripes for each thread, so that a slow core costs only its own share. */
    size_t threads = (size_t)ls_pool_threads(pool);
    size_t most = STORE / (t.rows * (size_t)ls_gemm_slots_of(t.slices)) / LANES * LANES;
    size_t unit = t.wide.along_k ? LANES : 4 * LANES;
    size_t fair = threads > 1 ? up(t.columns / (2 * threads) + 1, unit) : STRIPE;
    t.stripe = min_size(min_size(most, STRIPE), fair);
    ls_pool_run(pool, (t.columns + t.stripe - 1) / t.stripe, stripe_task, &t);
}
