/* gemm.cuh: products by chains (docs/arithmetic.md, "Matrix products"), for gemm.cu and conv.cu.
 *
 * A block makes a tile of C, a thread some rows and columns of it, each number one chain of __fmaf_rn in a register.
 * Steps of LS_CUDA_GEMM_K lie in shared memory twice, as [k][line], so that the next step is on its way while one is
 * multiplied; a line is a row of A or a column of B:
 *
 *     shared memory | A, two steps | B, two steps | sums that wait for their neighbour in the tree over slices |
 *
 * A sum that waits is written and read by its own thread alone. Steps follow each other across the ends of slices, so
 * that no slice begins with a wait. A step has exactly its k: one more product +0 · +0 would make +0 of −0.
 *
 * Readers bring a step into shared memory. `fetch` starts its loads, `keep` writes what they have left in registers. An
 * operand whose k are neighbours in memory (along_k) is turned on the way, its lines exchanged so that neither writing
 * nor reading has bank conflicts. Lines past the end are those of others or what was there before: their sums are not
 * written. */
#pragma once
#include "device/cuda/common/base.cuh"
#include "device/cuda/args/gemm.h"

enum { GEMM_K = LS_CUDA_GEMM_K };

template <int M, int N, int ROWS, int COLUMNS> struct tile_shape {
    enum { BM = M, BN = N, TM = ROWS, TN = COLUMNS, THREADS = M / ROWS * (N / COLUMNS) };
};

LS_DEVICE size_t grid_row_at(const ls_cuda_grid_rows &g, uint32_t row) {
    uint32_t q = divide(row, g.n2), i = divide(q, g.n1);
    return i * g.step0 + (q - i * g.n1.divisor) * g.step1 + (row - q * g.n2.divisor) * g.step2;
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

/* How the lines of an operand along k are exchanged; k4 is k / 4 within the step. */
LS_DEVICE int exchanged(int line, int k4) { return line ^ k4 * 8; }

template <int LINES, int THREADS> struct held_along_k {
    enum { COUNT = LINES * GEMM_K / 4 / THREADS, IS_ALONG = 1 };
    float4 held[COUNT]; /* numbers 4·k4() … of line(i) */

    LS_DEVICE static int k4() { return threadIdx.x % 4; }
    LS_DEVICE static int line(int i) { return (threadIdx.x + i * THREADS) / 4; }
    LS_DEVICE void clear() {
        LS_UNROLL for (int i = 0; i < COUNT; i++) held[i] = make_float4(0, 0, 0, 0);
    }
    LS_DEVICE void keep(float *to) {
        LS_UNROLL for (int i = 0; i < COUNT; i++) {
            float *at = to + k4() * 4 * LINES + exchanged(line(i), k4());
            at[0] = held[i].x;
            at[LINES] = held[i].y;
            at[2 * LINES] = held[i].z;
            at[3 * LINES] = held[i].w;
        }
    }
};

/* Rows of a matrix, each a line. */
template <int LINES, int THREADS> struct rows_along_k : held_along_k<LINES, THREADS> {
    using base = held_along_k<LINES, THREADS>;
    using base::held;
    const void *from;
    int dtype, is_vector;
    size_t at[base::COUNT];

    LS_DEVICE void open(const void *matrix, size_t ld, size_t line0, size_t lines, int type, int vector) {
        from = matrix;
        dtype = type;
        is_vector = vector;
        base::clear();
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) {
            size_t line = line0 + base::line(i);
            at[i] = (line < lines ? line : lines - 1) * ld + base::k4() * 4;
        }
    }
    template <class T> LS_DEVICE void fetch_type(size_t k, size_t end) {
        size_t k0 = k + base::k4() * 4;
        if (k0 >= end) return;
        const T *p = (const T *)from + k;
        if (is_vector) {
            LS_UNROLL for (int i = 0; i < base::COUNT; i++) held[i] = load4(p + at[i]);
            return;
        }
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) {
            held[i].x = load(p + at[i]);
            if (k0 + 1 < end) held[i].y = load(p + at[i] + 1);
            if (k0 + 2 < end) held[i].z = load(p + at[i] + 2);
            if (k0 + 3 < end) held[i].w = load(p + at[i] + 3);
        }
    }
    LS_DEVICE void fetch(size_t k, size_t end, float *) {
        LS_BY_TYPE(dtype, T, { fetch_type<T>(k, end); });
    }
};

/* Where a thread's numbers of a step lie when lines are neighbours in memory: lines line … line+3 of k row(i). */
template <int LINES, int THREADS> struct quads_across_k {
    enum { COUNT = LINES * GEMM_K / 4 / THREADS, IS_ALONG = 0 };
    LS_DEVICE static int line() { return threadIdx.x % (LINES / 4) * 4; }
    LS_DEVICE static int row(int i) { return (threadIdx.x + i * THREADS) / (LINES / 4); }
    LS_DEVICE static float *place(float *to, int i) { return to + row(i) * LINES + line(); }
    /* How many of the four lines are there. */
    LS_DEVICE static int lines_there(size_t line0, size_t lines) {
        size_t first = line0 + line();
        return first >= lines ? 0 : lines - first < 4 ? (int)(lines - first) : 4;
    }
};

LS_DEVICE void copy_quad(float *to, const float *from, int count, int is_vector) {
    if (is_vector && count == 4)
        copy16_async(to, from);
    else
        LS_UNROLL for (int e = 0; e < 4; e++)
            if (e < count) copy4_async(to + e, from + e);
}

/* Columns of a matrix, each a line. 16-bit numbers go through registers, others straight to shared memory. */
template <int LINES, int THREADS> struct columns_across_k : quads_across_k<LINES, THREADS> {
    using base = quads_across_k<LINES, THREADS>;
    const void *from;
    size_t ld;
    int dtype, is_vector, count;
    float4 held[base::COUNT];

    LS_DEVICE void open(const void *matrix, size_t stride, size_t line0, size_t lines, int type, int vector) {
        ld = stride;
        dtype = type;
        is_vector = vector;
        count = base::lines_there(line0, lines);
        size_t first = count ? line0 + base::line() : 0;
        from = type == LS_CUDA_F32 ? (const void *)((const float *)matrix + first)
                                   : (const void *)((const bf16 *)matrix + first);
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) held[i] = make_float4(0, 0, 0, 0);
    }
    template <class T> LS_DEVICE void hold(size_t k, size_t end) {
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) {
            if (k + base::row(i) >= end) continue;
            const T *p = (const T *)from + (k + base::row(i)) * ld;
            if (is_vector && count == 4) {
                held[i] = load4(p);
                continue;
            }
            if (count > 0) held[i].x = load(p);
            if (count > 1) held[i].y = load(p + 1);
            if (count > 2) held[i].z = load(p + 2);
            if (count > 3) held[i].w = load(p + 3);
        }
    }
    LS_DEVICE void fetch(size_t k, size_t end, float *to) {
        if (dtype == LS_CUDA_BF16) return hold<bf16>(k, end);
        if (dtype == LS_CUDA_F16) return hold<f16>(k, end);
        LS_UNROLL for (int i = 0; i < base::COUNT; i++)
            if (k + base::row(i) < end)
                copy_quad(base::place(to, i), (const float *)from + (k + base::row(i)) * ld, count, is_vector);
    }
    LS_DEVICE void keep(float *to) {
        if (dtype == LS_CUDA_F32) return;
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) *(float4 *)base::place(to, i) = held[i];
    }
};

/* ---- a thread's part of the tile --------------------------------------------------------------------------------- */

/* Quads of rows lie BM / (TM / 4) apart and those of columns alike, so that a warp reads neighbours. */
template <class S> struct chains {
    float sum[S::TM][S::TN];
    int row, column; /* of the first quads */

    LS_DEVICE void open() {
        enum { LANES = 4, WARPS = S::BN / S::TN / LANES };
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        column = (warp % WARPS * LANES + lane % LANES) * 4;
        row = (warp / WARPS * (32 / LANES) + lane / LANES) * 4;
    }
    LS_DEVICE int row_of(int i) const { return i / 4 * (S::BM / (S::TM / 4)) + row + i % 4; }
    LS_DEVICE int column_of(int j) const { return j / 4 * (S::BN / (S::TN / 4)) + column + j % 4; }
    LS_DEVICE void clear() {
        LS_UNROLL for (int i = 0; i < S::TM; i++)
            LS_UNROLL for (int j = 0; j < S::TN; j++) sum[i][j] = 0.0f;
    }
    template <class A, class B>
    LS_DEVICE void read(float4 (&x)[S::TM / 4], float4 (&y)[S::TN / 4], const float *a, const float *b, int k) const {
        LS_UNROLL for (int i = 0; i < S::TM / 4; i++)
            x[i] = *(const float4 *)&a[k * S::BM + (A::IS_ALONG ? exchanged(row_of(4 * i), k / 4) : row_of(4 * i))];
        LS_UNROLL for (int j = 0; j < S::TN / 4; j++)
            y[j] =
                *(const float4 *)&b[k * S::BN + (B::IS_ALONG ? exchanged(column_of(4 * j), k / 4) : column_of(4 * j))];
    }
    /* Every second row from right to left: a register is read again while it is still near. */
    LS_DEVICE void add(const float4 (&x)[S::TM / 4], const float4 (&y)[S::TN / 4]) {
        const float *a = (const float *)x, *b = (const float *)y;
        LS_UNROLL for (int i = 0; i < S::TM; i++)
            LS_UNROLL for (int j = 0; j < S::TN; j++) {
                const int c = i % 2 ? S::TN - 1 - j : j;
                sum[i][c] = __fmaf_rn(a[i], b[c], sum[i][c]);
            }
    }
    template <class A, class B> LS_DEVICE void step(const float *a, const float *b, int count) {
        float4 x[2][S::TM / 4], y[2][S::TN / 4];
        if (count == GEMM_K) {
            read<A, B>(x[0], y[0], a, b, 0);
            LS_UNROLL for (int k = 0; k < GEMM_K; k++) {
                if (k + 1 < GEMM_K) read<A, B>(x[(k + 1) % 2], y[(k + 1) % 2], a, b, k + 1);
                add(x[k % 2], y[k % 2]);
            }
            return;
        }
        LS_NO_UNROLL for (int k = 0; k < count; k++) {
            read<A, B>(x[0], y[0], a, b, k);
            add(x[0], y[0]);
        }
    }
    /* The sums of slice s: those in front of it in the tree that are complete now are added from the left; the rest
     * waits. */
    LS_DEVICE void end_slice(float *waiting, int s, int slices) {
        int waits = __popc((unsigned)s), joins = s + 1 == slices ? waits : __ffs(~s) - 1;
        for (int w = waits; w > waits - joins; w--) {
            const float4 *left = (const float4 *)waiting + (size_t)(w - 1) * (S::BM * S::BN / 4) + threadIdx.x;
            LS_UNROLL for (int i = 0; i < S::TM; i++)
                LS_UNROLL for (int j = 0; j < S::TN; j += 4) {
                    float4 v = left[(i * S::TN + j) / 4 * S::THREADS];
                    sum[i][j] = v.x + sum[i][j];
                    sum[i][j + 1] = v.y + sum[i][j + 1];
                    sum[i][j + 2] = v.z + sum[i][j + 2];
                    sum[i][j + 3] = v.w + sum[i][j + 3];
                }
        }
        if (s + 1 == slices) return;
        float4 *to = (float4 *)waiting + (size_t)(waits - joins) * (S::BM * S::BN / 4) + threadIdx.x;
        LS_UNROLL for (int i = 0; i < S::TM; i++)
            LS_UNROLL for (int j = 0; j < S::TN; j += 4)
                to[(i * S::TN + j) / 4 * S::THREADS] =
                    make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
        clear();
    }
};

/* ---- C ----------------------------------------------------------------------------------------------------------- */

/* What comes behind the tree, in its order. */
LS_DEVICE float finished(const ls_cuda_gemm &g, size_t row, size_t column, float x) {
    for (int s = 0; s < g.siblings; s++) x = g.sibling[s][row * g.ldsibling + column] + x;
    return g.bias ? x + g.bias[column] : x;
}

LS_DEVICE size_t c_at(const ls_cuda_gemm &g, size_t row, size_t column) {
    return (g.has_c_rows ? grid_row_at(g.c_rows, (uint32_t)row) : row * g.ldc) + column;
}

template <class T> LS_DEVICE void store_some(T *to, float4 x, int count, bool is_vector) {
    if (is_vector && count >= 4) return store4(to, x);
    if (count > 0) store(to, x.x);
    if (count > 1) store(to + 1, x.y);
    if (count > 2) store(to + 2, x.z);
    if (count > 3) store(to + 3, x.w);
}

/* Up to four neighbours of a row, of which `count` are there. */
LS_DEVICE void finish_quad(const ls_cuda_gemm &g, size_t row, size_t column, float4 x, int count) {
    if (g.siblings || g.bias) {
        if (count > 0) x.x = finished(g, row, column, x.x);
        if (count > 1) x.y = finished(g, row, column + 1, x.y);
        if (count > 2) x.z = finished(g, row, column + 2, x.z);
        if (count > 3) x.w = finished(g, row, column + 3, x.w);
    }
    LS_BY_TYPE(g.c_dtype, T, { store_some((T *)g.c + c_at(g, row, column), x, count, g.c_is_vector); });
}

/* A thread's numbers go to and from C through shared memory, half of them at a time, quad q at [q][thread]: so their
 * numbers need not be known to the compiler, and what is done with a quad is compiled twice, not once for each. */
template <class S> struct tile_half {
    enum { ROWS = S::TM / 2, QUADS = S::TN / 4, COUNT = ROWS * QUADS };
    static_assert(COUNT * 4 * S::THREADS <= 2 * GEMM_K * (S::BM + S::BN), "what held the operands holds half a tile");
    size_t row, column;
    int count; /* of the quad's numbers that are there */
    LS_DEVICE void find(const ls_cuda_gemm &g, const chains<S> &c, int half, int quad, size_t m0, size_t n0) {
        row = m0 + c.row_of(half * ROWS + quad / QUADS);
        column = n0 + c.column_of(quad % QUADS * 4);
        count = row >= g.m || column >= g.n ? 0 : g.n - column < 4 ? (int)(g.n - column) : 4;
    }
};

template <class S>
LS_DEVICE void write_tile(const ls_cuda_gemm &g, const chains<S> &c, float4 *shared, size_t m0, size_t n0) {
    typedef tile_half<S> part;
    float *apart = g.parts ? g.parts + blockIdx.z * (g.m * g.n) : nullptr;
    part at;
    LS_UNROLL for (int half = 0; half < 2; half++) {
        LS_UNROLL for (int q = 0; q < part::COUNT; q++) {
            const float *x = &c.sum[half * part::ROWS + q / part::QUADS][q % part::QUADS * 4];
            shared[q * S::THREADS + threadIdx.x] = make_float4(x[0], x[1], x[2], x[3]);
        }
        LS_NO_UNROLL for (int q = 0; q < part::COUNT; q++) {
            float4 x = shared[q * S::THREADS + threadIdx.x];
            at.find(g, c, half, q, m0, n0);
            if (!at.count) continue;
            if (apart)
                store_some(apart + at.row * g.n + at.column, x, at.count, g.n % 4 == 0);
            else
                finish_quad(g, at.row, at.column, x, at.count);
        }
    }
}

template <class S>
LS_DEVICE void continue_from_c(const ls_cuda_gemm &g, chains<S> &c, float4 *shared, size_t m0, size_t n0) {
    typedef tile_half<S> part;
    part at;
    LS_UNROLL for (int half = 0; half < 2; half++) {
        LS_NO_UNROLL for (int q = 0; q < part::COUNT; q++) {
            float4 x = make_float4(0, 0, 0, 0);
            at.find(g, c, half, q, m0, n0);
            const float *from = (const float *)g.c + at.row * g.ldc + at.column;
            if (at.count == 4 && g.c_is_vector) {
                x = load4(from);
            } else {
                if (at.count > 0) x.x = from[0];
                if (at.count > 1) x.y = from[1];
                if (at.count > 2) x.z = from[2];
                if (at.count > 3) x.w = from[3];
            }
            shared[q * S::THREADS + threadIdx.x] = x;
        }
        LS_UNROLL for (int q = 0; q < part::COUNT; q++) {
            float4 x = shared[q * S::THREADS + threadIdx.x];
            float *to = &c.sum[half * part::ROWS + q / part::QUADS][q % part::QUADS * 4];
            to[0] = x.x;
            to[1] = x.y;
            to[2] = x.z;
            to[3] = x.w;
        }
    }
    __syncthreads();
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

/* The tile of this block: in bands of rows, so that blocks that run together share operands. */
template <class S> LS_DEVICE void find_tile(const ls_cuda_gemm &g, size_t &m0, size_t &n0) {
    uint32_t band_tiles = LS_CUDA_GEMM_BAND * g.tiles_n, band = blockIdx.x / band_tiles, at = blockIdx.x % band_tiles;
    uint32_t first = band * LS_CUDA_GEMM_BAND, rows = min((uint32_t)LS_CUDA_GEMM_BAND, g.tiles_m - first);
    m0 = (size_t)(first + at % rows) * S::BM;
    n0 = (size_t)(at / rows) * S::BN;
}

/* A step of the walk over the slices from `first` to `last`; slices without k are passed over. */
struct gemm_step {
    int slice;
    size_t k, end;
    LS_DEVICE void settle(const ls_cuda_gemm &g, int last) {
        while (k >= end && ++slice < last) {
            k = g.bounds[slice];
            end = g.bounds[slice + 1];
        }
    }
};

template <class S, class A, class B> LS_DEVICE void multiply(const ls_cuda_gemm &g, A &a, B &b, size_t m0, size_t n0) {
    enum { A_STEP = GEMM_K * S::BM, B_STEP = GEMM_K * S::BN };
    LS_SHARED(float, shared);
    float *as = shared, *bs = shared + 2 * A_STEP, *waiting = shared + 2 * (A_STEP + B_STEP);
    const int first = g.parts ? (int)blockIdx.z : 0, slices = g.parts ? 1 : g.slices, last = first + slices;
    chains<S> c;
    c.open();
    c.clear();
    if (g.accumulate) continue_from_c(g, c, (float4 *)shared, m0, n0);
    gemm_step at = {first, g.bounds[first], g.bounds[first + 1]};
    at.settle(g, last);
    if (at.slice < last) {
        a.fetch(at.k, at.end, as);
        b.fetch(at.k, at.end, bs);
        copy_async_commit();
        a.keep(as);
        b.keep(bs);
        copy_async_wait<0>();
        __syncthreads();
    }
    int ended = first;
    for (int turn = 0; at.slice < last; turn ^= 1) {
        for (; ended < at.slice; ended++) c.end_slice(waiting, ended - first, slices); /* without k: +0 */
        int count = at.end - at.k < GEMM_K ? (int)(at.end - at.k) : GEMM_K;
        gemm_step next = {at.slice, at.k + GEMM_K, at.end};
        next.settle(g, last);
        float *as_next = as + (turn ^ 1) * A_STEP, *bs_next = bs + (turn ^ 1) * B_STEP;
        if (next.slice < last) {
            a.fetch(next.k, next.end, as_next);
            b.fetch(next.k, next.end, bs_next);
            copy_async_commit();
        }
        c.template step<A, B>(as + turn * A_STEP, bs + turn * B_STEP, count);
        if (next.slice < last) {
            a.keep(as_next);
            b.keep(bs_next);
        }
        copy_async_wait<0>();
        __syncthreads();
        if (next.slice != at.slice) c.end_slice(waiting, ended++ - first, slices);
        at = next;
    }
    for (; ended < last; ended++) c.end_slice(waiting, ended - first, slices);
    write_tile(g, c, (float4 *)shared, m0, n0);
}
