/* hgmma_any.cu: matmuls by the tensor cores (docs/reference/arithmetic.md, "Matrix units"), of any shape and alignment.
 *
 * A block makes a tile of 64 × 64, a warp 32 × 32 of it, by mma.sync on 16 × 8 at a time. A granule of both operands
 * lies in shared memory as [line][k], twice, so that the next one is on its way; what a granule lacks is +0. Rows of a
 * granule are 24 numbers apart: then neither writing nor reading has bank conflicts. */
#include "device/cuda/common/mma.cuh"
#include "device/cuda/kernels/gemm.cuh"

enum { LINES = 64, PITCH = 24, STEP = LINES * PITCH, ROWS = 2, COLUMNS = 4 };

/* ---- the unit ---------------------------------------------------------------------------------------------------- */

/* add_granule_of() adds a granule to a tile of 16 × 8 sums: the products of the 16 lines at a and the 8 at b. A lane has in d rows
 * lane / 4 (d[0], d[1]) and that + 8, columns 2·(lane mod 4) and the next. The whole warp calls it. */
#ifndef LS_CUDA_ON_CPU_H
LS_DEVICE uint32_t pair_at(const uint16_t *p) { return *(const uint32_t *)p; }
template <bool IS_F16> LS_DEVICE void add_granule_of(float (&d)[4], const uint16_t *a, const uint16_t *b) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const uint16_t *row = a + g * PITCH + 2 * t, *column = b + g * PITCH + 2 * t;
    const uint32_t x[4] = {pair_at(row), pair_at(row + 8 * PITCH), pair_at(row + 8), pair_at(row + 8 * PITCH + 8)};
    const uint32_t y[2] = {pair_at(column), pair_at(column + 8)};
    mma_16x8x16<IS_F16>(d, x, y);
}
#else
template <bool IS_F16> LS_DEVICE void add_granule_of(float (&d)[4], const uint16_t *a, const uint16_t *b) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const format f = unit_format<IS_F16>();
    for (int i = 0; i < 4; i++) {
        line x, y;
        take_line(&x, a + (g + i / 2 * 8) * PITCH, f);
        take_line(&y, b + (2 * t + i % 2) * PITCH, f);
        d[i] = add_granule(&x, &y, f, d[i]);
    }
}
#endif

/* ---- operands ---------------------------------------------------------------------------------------------------- */

/* Eight neighbours, packed by twos. */
struct eight {
    uint32_t pair[4];
    /* Loads the first `count` of eight, 0 or less: none; the rest is +0. */
    LS_DEVICE void load(const uint16_t *p, int count) {
        if (count >= 8 && (size_t)p % 16 == 0) {
            const uint4 x = *(const uint4 *)p;
            pair[0] = x.x, pair[1] = x.y, pair[2] = x.z, pair[3] = x.w;
            return;
        }
        LS_UNROLL for (int i = 0; i < 4; i++) {
            const uint32_t low = 2 * i < count ? p[2 * i] : 0, high = 2 * i + 1 < count ? p[2 * i + 1] : 0;
            pair[i] = low | high << 16;
        }
    }
};

/* Returns count, at most 8. */
LS_DEVICE int limited(size_t count) { return count < 8 ? (int)count : 8; }

/* The reader of an operand whose lines are its rows: a thread has half a granule of one. */
struct hgmma_rows {
    const uint16_t *at;
    eight held;
    bool is_there;
    /* Finds this thread's line, from line0 on of `lines` in all; a line behind the last reads as +0. */
    LS_DEVICE void open(const void *matrix, size_t ld, size_t line0, size_t lines) {
        const size_t line = line0 + threadIdx.x / 2;
        is_there = line < lines;
        at = (const uint16_t *)matrix + (is_there ? line * ld : 0) + threadIdx.x % 2 * 8;
    }
    /* Loads this thread's part of the granule at k, of which `count` k exist, into registers. */
    LS_DEVICE void fetch(size_t k, int count) {
        const int mine = count - (int)(threadIdx.x % 2) * 8;
        held.load(at + k, is_there ? mine < 0 ? 0 : mine : 0);
    }
    /* Writes what fetch() loaded to the granule in shared memory at `to`. */
    LS_DEVICE void keep(uint16_t *to) const {
        *(uint4 *)(to + threadIdx.x / 2 * PITCH + threadIdx.x % 2 * 8) =
            make_uint4(held.pair[0], held.pair[1], held.pair[2], held.pair[3]);
    }
};

/* The reader of an operand whose lines are its columns: a thread has one k of eight lines, and keep() transposes them. */
struct hgmma_columns {
    const uint16_t *at;
    size_t ld;
    eight held;
    int lines_there;
    LS_DEVICE void open(const void *matrix, size_t stride, size_t line0, size_t lines) {
        const size_t first = line0 + threadIdx.x % 8 * 8;
        lines_there = first < lines ? limited(lines - first) : 0;
        ld = stride;
        at = (const uint16_t *)matrix + (threadIdx.x / 8) * ld + (lines_there ? first : 0);
    }
    LS_DEVICE void fetch(size_t k, int count) { held.load(at + k * ld, (int)(threadIdx.x / 8) < count ? lines_there : 0); }
    LS_DEVICE void keep(uint16_t *to) const {
        uint16_t *first = to + threadIdx.x % 8 * 8 * PITCH + threadIdx.x / 8;
        LS_UNROLL for (int i = 0; i < 4; i++) {
            first[2 * i * PITCH] = (uint16_t)held.pair[i];
            first[(2 * i + 1) * PITCH] = (uint16_t)(held.pair[i] >> 16);
        }
    }
};

/* ---- a thread's part of the tile --------------------------------------------------------------------------------- */

/* A thread's sums of its warp's 32 × 32 of the tile, as tiles of 16 × 8 (add_granule_of). */
struct hgmma_sums {
    float sum[ROWS][COLUMNS][4];
    int row, column; /* of the warp's part */

    /* Sets row and column from the number of the warp. */
    LS_DEVICE void open() {
        row = threadIdx.x / 64 * 32;
        column = threadIdx.x / 32 % 2 * 32;
    }
    /* Sets all sums to +0. */
    LS_DEVICE void clear() {
        LS_UNROLL for (int i = 0; i < ROWS; i++)
            LS_UNROLL for (int j = 0; j < COLUMNS; j++)
                LS_UNROLL for (int e = 0; e < 4; e++) sum[i][j][e] = 0.0f;
    }
    /* Adds a granule of the operands in shared memory. */
    template <bool IS_F16> LS_DEVICE void add(const uint16_t *a, const uint16_t *b) {
        LS_UNROLL for (int i = 0; i < ROWS; i++)
            LS_UNROLL for (int j = 0; j < COLUMNS; j++)
                add_granule_of<IS_F16>(sum[i][j], a + (row + 16 * i) * PITCH, b + (column + 8 * j) * PITCH);
    }
    /* Adds the sums that wait at `waiting`, those of all threads, from the left: number i is at [i][thread]. */
    LS_DEVICE void join(const float *waiting) {
        LS_UNROLL for (int i = 0; i < ROWS; i++)
            LS_UNROLL for (int j = 0; j < COLUMNS; j++)
                LS_UNROLL for (int e = 0; e < 4; e++)
                    sum[i][j][e] = waiting[((i * COLUMNS + j) * 4 + e) * 128 + threadIdx.x] + sum[i][j][e];
    }
    /* Writes the sums there to wait for their right neighbour in the tree. */
    LS_DEVICE void wait(float *waiting) const {
        LS_UNROLL for (int i = 0; i < ROWS; i++)
            LS_UNROLL for (int j = 0; j < COLUMNS; j++)
                LS_UNROLL for (int e = 0; e < 4; e++)
                    waiting[((i * COLUMNS + j) * 4 + e) * 128 + threadIdx.x] = sum[i][j][e];
    }
    /* Calls visit(number, row, column) for those that are in C. */
    template <class F> LS_DEVICE void each(const ls_cuda_gemm &g, size_t m0, size_t n0, F visit) {
        const int lane = threadIdx.x % 32;
        LS_UNROLL for (int i = 0; i < ROWS; i++)
            LS_UNROLL for (int j = 0; j < COLUMNS; j++)
                LS_UNROLL for (int e = 0; e < 4; e++) {
                    const size_t r = m0 + row + 16 * i + lane / 4 + e / 2 * 8;
                    const size_t c = n0 + column + 8 * j + lane % 4 * 2 + e % 2;
                    if (r < g.m && c < g.n) visit(sum[i][j][e], r, c);
                }
    }
};

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

typedef unit_step<GEMM_K> granule_step;

/* Computes this block's tile of C, all slices of it or, with parts, that of blockIdx.z; A and B are the readers of the operands. The
 * next granule is loaded while one is multiplied, across the ends of slices and sequences too. */
template <class A, class B, bool IS_F16> LS_DEVICE void hgmma_tile(const ls_cuda_gemm &g) {
    LS_SHARED(uint16_t, shared);
    uint16_t *as = shared, *bs = shared + 2 * STEP;
    const int first = g.parts ? (int)blockIdx.z : 0, slices = g.parts ? 1 : g.slices, last = first + slices;
    waiting_sums<small> waiting(g, (float *)shared + 2 * GEMM_K * (small::BM + small::BN));
    size_t m0, n0;
    find_tile<small>(g, m0, n0);
    A a;
    B b;
    a.open(g.a, g.lda, m0, g.m);
    b.open(g.b, g.ldb, n0, g.n);
    hgmma_sums c;
    c.open();
    c.clear();
    if (g.accumulate) c.each(g, m0, n0, [&](float &x, size_t row, size_t column) { x = ((const float *)g.c)[row * g.ldc + column]; });
    granule_step at = {g.bounds[first], 0, first};
    at.settle(g, last);
    if (at.count) {
        a.fetch(at.k, at.count);
        b.fetch(at.k, at.count);
        a.keep(as);
        b.keep(bs);
    }
    __syncthreads();
    int ended = first;
    for (int turn = 0; at.count; turn ^= 1) {
        for (; ended < at.slice; ended++) waiting.end_slice(c, ended - first, slices); /* without k: +0 */
        const granule_step next = at.next(g, last);
        if (next.count) {
            a.fetch(next.k, next.count);
            b.fetch(next.k, next.count);
        }
        c.template add<IS_F16>(as + turn * STEP, bs + turn * STEP);
        if (next.count) {
            a.keep(as + (turn ^ 1) * STEP);
            b.keep(bs + (turn ^ 1) * STEP);
        }
        __syncthreads();
        if (next.slice != at.slice) waiting.end_slice(c, ended++ - first, slices);
        at = next;
    }
    for (; ended < last; ended++) waiting.end_slice(c, ended - first, slices);
    if (g.parts) {
        float *to = g.parts + blockIdx.z * (g.m * g.n);
        c.each(g, m0, n0, [&](float &x, size_t row, size_t column) { to[row * g.n + column] = x; });
        return;
    }
    LS_BY_TYPE(g.c_dtype, T, {
        c.each(g, m0, n0, [&](float &x, size_t row, size_t column) {
            store((T *)g.c + row * g.ldc + column, finished(g, row, column, x));
        });
    });
}

/* Computes this block's tile for the type of the operands. */
template <class A, class B> LS_DEVICE void hgmma(const ls_cuda_gemm &g) {
    if (g.dtype == LS_CUDA_F16)
        hgmma_tile<A, B, true>(g);
    else
        hgmma_tile<A, B, false>(g);
}

LS_KERNEL_ALONE(hgmma_any_nn, ls_cuda_gemm, 128) { hgmma<hgmma_rows, hgmma_columns>(a); }
LS_KERNEL_ALONE(hgmma_any_nt, ls_cuda_gemm, 128) { hgmma<hgmma_rows, hgmma_rows>(a); }
LS_KERNEL_ALONE(hgmma_any_tn, ls_cuda_gemm, 128) { hgmma<hgmma_columns, hgmma_columns>(a); }
