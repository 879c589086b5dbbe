/* gemm.cuh: GEMMs by chains: each element is summed in ascending k, one fused multiply-add after another (docs/reference/arithmetic.md,
 * "Matrix products"), for gemm.cu, gemm_any.cu and conv.cu. The kernels for tensor cores (hgmma_any.cu, mma_gemm.cu, hgmma.cuh) and
 * conv_grad.cu use parts of it: the division into tiles, the tree over slices, the epilogue.
 *
 * A block computes a tile of C, a thread some rows and columns of it, each element one chain of __fmaf_rn in a register. Shared memory is
 * double-buffered: it has two steps of LS_CUDA_GEMM_K, as [k][line], so that the next step is loaded while one is multiplied; a line is a
 * row of A or a column of B:
 *
 *     shared memory | A, two steps | B, two steps | sums that wait for their neighbour in the tree over slices |
 *
 * A sum that waits is written and read by its own thread alone. Steps follow each other across the ends of slices, so
 * that no slice begins with a wait. A step has exactly its k: one more product +0 · +0 would make +0 of −0.
 *
 * Readers, one per operand, load a step into shared memory: open() finds the thread's part, fetch() starts the loads of a step, of all its
 * k (ALL) or of `count` at the end of a slice, and keep() writes what they have left in registers, part by part, so that reading a
 * fragment never waits behind many writes. An operand whose k are neighbours in memory (along_k) is transposed on the way, its lines
 * placed so that neither writing nor reading has bank conflicts. Lines past the end are other lines or stale: their sums are not written.
 * Whether an operand is loaded by vectors is known to the compiler where speed matters: each test in a step costs a multiply-add. */
#pragma once
#include "device/cuda/common/base.cuh"
#include "device/cuda/args/gemm.h"

enum { GEMM_K = LS_CUDA_GEMM_K, KEEP_PARTS = 4 };

/* The shape of a tile: BM × BN, of which a thread computes TM × TN. */
template <int M, int N, int ROWS, int COLUMNS> struct tile_shape {
    enum { BM = M, BN = N, TM = ROWS, TN = COLUMNS, THREADS = M / ROWS * (N / COLUMNS) };
};

/* Returns the element, from the first row, with which a row on a grid (ls_gemm_grid) begins. */
LS_DEVICE size_t grid_row_at(const ls_cuda_grid_rows &g, uint32_t row) {
    uint32_t q = divide(row, g.n2), i = divide(q, g.n1);
    return i * g.step0 + (q - i * g.n1.divisor) * g.step1 + (row - q * g.n2.divisor) * g.step2;
}

/* Returns the first k of this block: of its slice if slices are computed separately (parts). */
LS_DEVICE size_t first_k(const ls_cuda_gemm &g) { return g.bounds[g.parts ? blockIdx.z : 0]; }

/* ---- readers ----------------------------------------------------------------------------------------------------- */

/* Returns the offset of k in the shared memory of a step of LINES lines. */
template <int LINES> LS_DEVICE constexpr int k_at(int k) { return k * LINES + k / 4 * LS_CUDA_GEMM_GAP; }

/* Where a thread's numbers of a step lie when k are neighbours in memory. */
template <int LINES, int THREADS> struct lines_along_k {
    enum { COUNT = LINES * GEMM_K / 4 / THREADS };
    /* A thread has numbers 4·k4() … of line(i). */
    LS_DEVICE static int k4() { return threadIdx.x % 4; }
    LS_DEVICE static int line(int i) { return threadIdx.x / 4 + i * (THREADS / 4); }
    /* Returns where the first of the thread's four numbers of line(i) lies in the step at `to`. */
    LS_DEVICE static float *place(float *to, int i) {
        return to + k_at<LINES>(4 * k4()) + line(i);
    }
};

/* The same, with the numbers in registers between fetch() and keep(). */
template <int LINES, int THREADS> struct held_along_k : lines_along_k<LINES, THREADS> {
    using base = lines_along_k<LINES, THREADS>;
    float4 held[base::COUNT];

    /* Sets all numbers to +0. */
    LS_DEVICE void clear() {
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) held[i] = make_float4(0, 0, 0, 0);
    }
    /* Writes part `part` of KEEP_PARTS to shared memory, transposed. */
    LS_DEVICE void keep(float *to, int part) {
        enum { COUNT = base::COUNT * 4 / KEEP_PARTS };
        static_assert(base::COUNT * 4 % KEEP_PARTS == 0, "parts are alike");
        LS_UNROLL for (int n = 0; n < COUNT; n++) {
            const int i = (part * COUNT + n) / 4, e = (part * COUNT + n) % 4;
            base::place(to, i)[e * LINES] = ((const float *)&held[i])[e];
        }
    }
};

/* The reader of an fp32 operand whose lines are its rows, aligned. */
template <int LINES, int THREADS, bool VECTOR> struct rows_along_k : held_along_k<LINES, THREADS> {
    using base = held_along_k<LINES, THREADS>;
    const float *at[base::COUNT];

    /* Finds the addresses of this thread's numbers in the first step, of lines from line0 on of `lines` in all. */
    LS_DEVICE void open(const ls_cuda_gemm &g, const void *matrix, size_t ld, size_t line0, size_t lines) {
        base::clear();
        LS_UNROLL for (int i = 0; i < base::COUNT; i++)
            at[i] = (const float *)matrix + min(line0 + base::line(i), lines - 1) * ld + first_k(g) + base::k4() * 4;
    }
    /* Starts to load this thread's numbers of the next step: of all its k (ALL), or of the first few. */
    template <bool ALL> LS_DEVICE void fetch(size_t, int count, float *) {
        if (ALL || base::k4() * 4 < count)
            LS_UNROLL for (int i = 0; i < base::COUNT; i++) base::held[i] = load4(at[i]);
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) at[i] += ALL ? (int)GEMM_K : count;
    }
};

/* The same for rows that are not aligned: straight to shared memory, number by number. */
template <int LINES, int THREADS> struct rows_along_k<LINES, THREADS, false> : lines_along_k<LINES, THREADS> {
    using base = lines_along_k<LINES, THREADS>;
    const float *at[base::COUNT];

    /* Finds the addresses of this thread's numbers in the first step, of lines from line0 on of `lines` in all. */
    LS_DEVICE void open(const ls_cuda_gemm &g, const void *matrix, size_t ld, size_t line0, size_t lines) {
        LS_UNROLL for (int i = 0; i < base::COUNT; i++)
            at[i] = (const float *)matrix + min(line0 + base::line(i), lines - 1) * ld + first_k(g) + base::k4() * 4;
    }
    /* Starts to load this thread's numbers of the next step: of all its k (ALL), or of the first few. */
    template <bool ALL> LS_DEVICE void fetch(size_t, int count, float *to) {
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) {
            LS_UNROLL for (int e = 0; e < 4; e++)
                if (ALL || base::k4() * 4 + e < count) copy4_async(base::place(to, i) + e * LINES, at[i] + e);
            at[i] += ALL ? (int)GEMM_K : count;
        }
    }
    /* Does nothing: fetch() copies straight to shared memory. */
    LS_DEVICE void keep(float *, int) {}
};

/* Where a thread's numbers of a step lie when lines are neighbours in memory: lines line … line+3 of k row(i). */
template <int LINES, int THREADS> struct quads_across_k {
    enum { COUNT = LINES * GEMM_K / 4 / THREADS, ROWS = THREADS / (LINES / 4) };
    LS_DEVICE static int line() { return threadIdx.x % (LINES / 4) * 4; }
    LS_DEVICE static int row(int i) { return threadIdx.x / (LINES / 4) + i * ROWS; }
    static_assert(ROWS % 4 == 0, "rows of a thread have gaps alike");
    LS_DEVICE static float *place(float *to, int i) { return to + k_at<LINES>(row(0)) + k_at<LINES>(i * ROWS) + line(); }
    /* Returns how many of the four lines exist, of `lines` in all. */
    LS_DEVICE static int lines_there(size_t line0, size_t lines) {
        size_t first = line0 + line();
        return first >= lines ? 0 : lines - first < 4 ? (int)(lines - first) : 4;
    }
};

/* Starts to copy `count` of four neighbours, number by number. */
LS_DEVICE void copy_some(float *to, const float *from, int count) {
    LS_UNROLL for (int e = 0; e < 4; e++)
        if (e < count) copy4_async(to + e, from + e);
}

/* Starts to copy `count` of four neighbours, in one access if all four are there and aligned. */
LS_DEVICE void copy_quad(float *to, const float *from, int count, int is_vector) {
    if (is_vector && count == 4)
        copy16_async(to, from);
    else
        copy_some(to, from, count);
}

/* The reader of an fp32 operand whose lines are its columns. Vectors are whole, and so are those past the end. */
template <int LINES, int THREADS, bool VECTOR> struct columns_across_k : quads_across_k<LINES, THREADS> {
    using base = quads_across_k<LINES, THREADS>;
    const float *at;
    size_t ld;
    int count; /* of lines */

    /* Finds the addresses of this thread's numbers in the first step, of lines from line0 on of `lines` in all. */
    LS_DEVICE void open(const ls_cuda_gemm &g, const void *matrix, size_t stride, size_t line0, size_t lines) {
        ld = stride;
        count = base::lines_there(line0, lines);
        at = (const float *)matrix + (first_k(g) + base::row(0)) * ld + (count ? line0 + base::line() : 0);
    }
    /* Starts to load this thread's numbers of the next step: of all its k (ALL), or of the first few. */
    template <bool ALL> LS_DEVICE void fetch(size_t, int k_count, float *to) {
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) {
            if (!ALL && base::row(i) >= k_count) continue;
            const float *from = at + i * base::ROWS * ld;
            if (VECTOR)
                copy16_async(base::place(to, i), from);
            else
                copy_some(base::place(to, i), from, count);
        }
        at += (size_t)(ALL ? (int)GEMM_K : k_count) * ld;
    }
    /* Does nothing: fetch() copies straight to shared memory. */
    LS_DEVICE void keep(float *, int) {}
};

/* ---- a thread's part of the tile --------------------------------------------------------------------------------- */

/* A thread's part of the tile: TM × TN sums. Its quads of rows and of columns lie far apart, so that a warp reads neighbours. */
template <class S> struct chains {
    enum { ROWS_APART = S::BM / (S::TM / 4), COLUMNS_APART = S::BN / (S::TN / 4) };
    float sum[S::TM][S::TN];
    int row, column; /* of the first quads */

    /* Sets row and column from the thread's number. A warp is eight lanes down and four across, of which lane ^ 1 or lane ^ 2
     * reads the same: so a read of 16 bytes by all takes two passes of shared memory, not four. */
    LS_DEVICE void open() {
        enum { WARPS = S::BN / S::TN / 4 };
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        column = (warp % WARPS * 4 + lane % 2 + lane / 16 * 2) * 4;
        row = (warp / WARPS * 8 + lane / 2 % 8) * 4;
    }
    /* Returns the row of the tile of sum[i][…]. */
    LS_DEVICE int row_of(int i) const { return i / 4 * ROWS_APART + row + i % 4; }
    /* Returns the column of the tile of sum[…][j]. */
    LS_DEVICE int column_of(int j) const { return j / 4 * COLUMNS_APART + column + j % 4; }
    /* Sets all numbers to +0. */
    LS_DEVICE void clear() {
        LS_UNROLL for (int i = 0; i < S::TM; i++)
            LS_UNROLL for (int j = 0; j < S::TN; j++) sum[i][j] = 0.0f;
    }
    /* Reads the fragments of A and B of one k from shared memory. */
    LS_DEVICE void read(float4 (&x)[S::TM / 4], float4 (&y)[S::TN / 4], const float *a, const float *b, int k) const {
        const float *from = a + row + k_at<S::BM>(k);
        LS_UNROLL for (int i = 0; i < S::TM / 4; i++) x[i] = *(const float4 *)(from + i * ROWS_APART);
        from = b + column + k_at<S::BN>(k);
        LS_UNROLL for (int j = 0; j < S::TN / 4; j++) y[j] = *(const float4 *)(from + j * COLUMNS_APART);
    }
    /* Continues the chains with one k. Every second row goes from right to left: a register is read again while it is still near. */
    LS_DEVICE void add(const float4 (&x)[S::TM / 4], const float4 (&y)[S::TN / 4]) {
        const float *a = (const float *)x, *b = (const float *)y;
        LS_UNROLL for (int i = 0; i < S::TM; i++)
            LS_UNROLL for (int j = 0; j < S::TN; j++) {
                const int c = i % 2 ? S::TN - 1 - j : j;
                sum[i][c] = __fmaf_rn(a[i], b[c], sum[i][c]);
            }
    }
    /* Adds the sums that wait at `waiting`, those of all threads, from the left: quad q is at [q][thread]. */
    LS_DEVICE void join(const float *waiting) {
        const float4 *left = (const float4 *)waiting + threadIdx.x;
        LS_UNROLL for (int i = 0; i < S::TM; i++)
            LS_UNROLL for (int j = 0; j < S::TN; j += 4) {
                float4 v = left[(i * S::TN + j) / 4 * S::THREADS];
                sum[i][j] = v.x + sum[i][j];
                sum[i][j + 1] = v.y + sum[i][j + 1];
                sum[i][j + 2] = v.z + sum[i][j + 2];
                sum[i][j + 3] = v.w + sum[i][j + 3];
            }
    }
    /* Writes the sums there to wait for their right neighbour in the tree. */
    LS_DEVICE void wait(float *waiting) const {
        float4 *to = (float4 *)waiting + threadIdx.x;
        LS_UNROLL for (int i = 0; i < S::TM; i++)
            LS_UNROLL for (int j = 0; j < S::TN; j += 4)
                to[(i * S::TN + j) / 4 * S::THREADS] =
                    make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
    }
};

/* Where sums wait, by the level of the tree: the lower levels, which come often, in shared memory. */
template <class S> struct waiting_sums {
    enum { ELEMS = S::BM * S::BN };
    float *near, *far;
    int near_levels;
    /* `shared`: memory of the block for the near levels. */
    LS_DEVICE waiting_sums(const ls_cuda_gemm &g, float *shared) {
        near = shared;
        near_levels = g.near_levels;
        far = g.far + (size_t)blockIdx.x * (g.far_levels * ELEMS);
    }
    /* Ends slice s: the sums in front of it in the tree that are complete now are added from the left; the result waits, and the chains
     * begin again from +0. After the last slice c has the result. */
    template <class C> LS_DEVICE void end_slice(C &c, int s, int slices) {
        unsigned complete = s + 1 == slices ? (unsigned)s : (unsigned)s & ~((unsigned)s + 1);
        for (; complete; complete &= complete - 1) {
            int level = __ffs((int)complete) - 1;
            if (level < near_levels)
                c.join(near + level * ELEMS);
            else
                c.join(far + (level - near_levels) * ELEMS);
        }
        if (s + 1 == slices) return;
        int level = __ffs(~s) - 1;
        if (level < near_levels)
            c.wait(near + level * ELEMS);
        else
            c.wait(far + (level - near_levels) * ELEMS);
        c.clear();
    }
};

/* ---- C ----------------------------------------------------------------------------------------------------------- */

/* Returns an element of C from its sum: siblings are added from the left, then the bias. */
LS_DEVICE float finished(const ls_cuda_gemm &g, size_t row, size_t column, float x) {
    for (int s = 0; s < g.siblings; s++) x = g.sibling[s][row * g.ldsibling + column] + x;
    return g.bias ? x + g.bias[column] : x;
}

/* Returns where an element of C lies, from the first. */
LS_DEVICE size_t c_at(const ls_cuda_gemm &g, size_t row, size_t column) {
    return (g.has_c_rows ? grid_row_at(g.c_rows, (uint32_t)row) : row * g.ldc) + column;
}

/* Stores the first `count` of four neighbours, rounded. */
template <class T> LS_DEVICE void store_some(T *to, float4 x, int count, bool is_vector) {
    if (is_vector && count >= 4) return store4(to, x);
    if (count > 0) store(to, x.x);
    if (count > 1) store(to + 1, x.y);
    if (count > 2) store(to + 2, x.z);
    if (count > 3) store(to + 3, x.w);
}

/* Applies the epilogue to `count` of four neighbours of a row of C, and stores them. */
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
    /* Sets row and column of a quad of a half, and how many of its numbers are inside C; 0: none, and nothing is read. */
    LS_DEVICE void find(const ls_cuda_gemm &g, const chains<S> &c, int half, int quad, size_t m0, size_t n0) {
        row = m0 + c.row_of(half * ROWS + quad / QUADS);
        column = n0 + c.column_of(quad % QUADS * 4);
        count = row >= g.m || column >= g.n ? 0 : g.n - column < 4 ? (int)(g.n - column) : 4;
    }
};

/* Stores an fp32 tile whose epilogue is at most a bias straight to global memory. */
template <bool VECTOR, class S>
LS_DEVICE void write_plain(const ls_cuda_gemm &g, const chains<S> &c, float *to, size_t ld, const float *bias, size_t m0,
                           size_t n0) {
    LS_UNROLL for (int j = 0; j < S::TN; j += 4) {
        const size_t column = n0 + c.column_of(j);
        const int count = column >= g.n ? 0 : (int)min(g.n - column, (size_t)4);
        float behind[4] = {0, 0, 0, 0};
        if (bias) LS_UNROLL for (int e = 0; e < 4; e++)
            if (e < count) behind[e] = bias[column + e];
        LS_UNROLL for (int i = 0; i < S::TM; i++) {
            const size_t row = m0 + c.row_of(i);
            if (row >= g.m) continue;
            float x[4], *at = to + row * ld + column;
            LS_UNROLL for (int e = 0; e < 4; e++) x[e] = bias ? c.sum[i][j + e] + behind[e] : c.sum[i][j + e];
            if (VECTOR) {
                if (count) store4(at, make_float4(x[0], x[1], x[2], x[3]));
            } else {
                LS_UNROLL for (int e = 0; e < 4; e++)
                    if (e < count) at[e] = x[e];
            }
        }
    }
}

/* Runs the epilogue of a tile and stores it to C, or stores the sums of a slice to parts. Overwrites the operands in shared memory. */
template <class S>
LS_DEVICE void write_tile(const ls_cuda_gemm &g, const chains<S> &c, float4 *shared, size_t m0, size_t n0) {
    typedef tile_half<S> part;
    part at;
    if (g.parts || (g.c_dtype == LS_CUDA_F32 && !g.has_c_rows && !g.siblings)) {
        float *to = g.parts ? g.parts + blockIdx.z * (g.m * g.n) : (float *)g.c;
        const size_t ld = g.parts ? g.n : g.ldc;
        const float *bias = g.parts ? nullptr : g.bias;
        if (g.n % 4 == 0 && (g.parts || g.c_is_vector))
            write_plain<true>(g, c, to, ld, bias, m0, n0);
        else
            write_plain<false>(g, c, to, ld, bias, m0, n0);
        return;
    }
    LS_UNROLL for (int half = 0; half < 2; half++) {
        LS_UNROLL for (int q = 0; q < part::COUNT; q++) {
            const float *x = &c.sum[half * part::ROWS + q / part::QUADS][q % part::QUADS * 4];
            shared[q * S::THREADS + threadIdx.x] = make_float4(x[0], x[1], x[2], x[3]);
        }
        LS_NO_UNROLL for (int q = 0; q < part::COUNT; q++) {
            float4 x = shared[q * S::THREADS + threadIdx.x];
            at.find(g, c, half, q, m0, n0);
            if (at.count) finish_quad(g, at.row, at.column, x, at.count);
        }
    }
}

/* Begins the chains with the numbers in C (accumulate). */
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

/* Finds the tile of this block: in bands of rows, so that blocks that run together share operands in L2. */
template <class S> LS_DEVICE void find_tile(const ls_cuda_gemm &g, size_t &m0, size_t &n0) {
    uint32_t band_tiles = LS_CUDA_GEMM_BAND * g.tiles_n, band = blockIdx.x / band_tiles, at = blockIdx.x % band_tiles;
    uint32_t first = band * LS_CUDA_GEMM_BAND, rows = min((uint32_t)LS_CUDA_GEMM_BAND, g.tiles_m - first);
    m0 = (size_t)(first + at % rows) * S::BM;
    n0 = (size_t)(at / rows) * S::BN;
}

/* A step of the walk over the slices: the first of `full` steps of GEMM_K of its slice, after which `rest` more k follow, or these.
 * Slices without k are skipped; after the last there is no step. */
struct gemm_step {
    size_t k;
    uint32_t full;
    int rest, slice;
    /* Returns whether there is a step: false behind the last. */
    LS_DEVICE bool is_there() const { return full || rest; }
    /* Advances to the next slice with k if this one has none left. */
    LS_DEVICE void settle(const ls_cuda_gemm &g, int last) {
        while (!is_there() && ++slice < last) {
            size_t count = g.bounds[slice + 1] - g.bounds[slice];
            full = (uint32_t)(count / GEMM_K);
            rest = (int)(count % GEMM_K);
        }
    }
    /* Returns the step after this one. */
    LS_DEVICE gemm_step next(const ls_cuda_gemm &g, int last) const {
        if (full > 1) return {k + GEMM_K, full - 1, rest, slice};
        gemm_step step = full ? gemm_step{k + GEMM_K, 0, rest, slice} : gemm_step{k + rest, 0, 0, slice};
        step.settle(g, last);
        return step;
    }
    /* Starts the loads of this step by both readers. */
    template <class A, class B> LS_DEVICE void fetch(A &a, B &b, float *as, float *bs) const {
        if (full) {
            a.template fetch<true>(k, GEMM_K, as);
            b.template fetch<true>(k, GEMM_K, bs);
        } else if (rest) {
            a.template fetch<false>(k, rest, as);
            b.template fetch<false>(k, rest, bs);
        }
        copy_async_commit();
    }
};

/* Writes all that the readers hold in registers to shared memory. */
template <class A, class B> LS_DEVICE void keep_all(A &a, B &b, float *as, float *bs) {
    LS_UNROLL for (int part = 0; part < KEEP_PARTS; part++) {
        a.keep(as, part);
        b.keep(bs, part);
    }
}

/* Computes a tile of C with its upper left element at (m0, n0), all slices of it or, with parts, one; `a` and `b` are opened readers.
 * Fragments of a k are read while those of the k before are multiplied, across the end of a step too: the barrier is in front of its
 * last k, whose fragments have been read by then. Behind the last step what is kept and read is stale: it is not multiplied. A step
 * followed by another full one of its slice tests nothing else. */
template <class S, class A, class B> LS_DEVICE void multiply(const ls_cuda_gemm &g, A &a, B &b, size_t m0, size_t n0) {
    enum { A_STEP = LS_CUDA_GEMM_STEP(S::BM), STEP = A_STEP + LS_CUDA_GEMM_STEP(S::BN), KEEP_AT = GEMM_K - 1 - KEEP_PARTS };
    LS_SHARED(float, shared);
    const int first = g.parts ? (int)blockIdx.z : 0, slices = g.parts ? 1 : g.slices, last = first + slices;
    waiting_sums<S> waiting(g, shared + 2 * STEP);
    float4 x[2][S::TM / 4], y[2][S::TN / 4];
    chains<S> c;
    c.open();
    c.clear();
    if (g.accumulate) continue_from_c(g, c, (float4 *)shared, m0, n0);
    gemm_step at = {first_k(g), 0, 0, first - 1};
    at.settle(g, last);
    if (at.is_there()) {
        at.fetch(a, b, shared, shared + A_STEP);
        keep_all(a, b, shared, shared + A_STEP);
        copy_async_wait<0>();
        __syncthreads();
        c.read(x[0], y[0], shared, shared + A_STEP, 0);
    }
    int ended = first;
    for (; ended < at.slice; ended++) waiting.end_slice(c, ended - first, slices); /* without k: +0 */
    for (int turn = 0; at.is_there(); turn ^= 1) {
        const float *as_now = shared + turn * STEP, *bs_now = as_now + A_STEP;
        float *as_next = shared + (turn ^ 1) * STEP, *bs_next = as_next + A_STEP;
        const bool goes_on = at.full > 1;
        if (goes_on) {
            a.template fetch<true>(at.k + GEMM_K, GEMM_K, as_next);
            b.template fetch<true>(at.k + GEMM_K, GEMM_K, bs_next);
            copy_async_commit();
        } else {
            at.next(g, last).fetch(a, b, as_next, bs_next);
        }
        if (at.full) {
            LS_UNROLL for (int k = 0; k < GEMM_K; k++) {
                if (k + 1 < GEMM_K) {
                    c.read(x[(k + 1) % 2], y[(k + 1) % 2], as_now, bs_now, k + 1);
                    if (k >= KEEP_AT) {
                        a.keep(as_next, k - KEEP_AT);
                        b.keep(bs_next, k - KEEP_AT);
                    }
                } else {
                    copy_async_wait<0>();
                    __syncthreads();
                    c.read(x[0], y[0], as_next, bs_next, 0);
                }
                c.add(x[k % 2], y[k % 2]);
            }
        } else {
            LS_NO_UNROLL for (int k = 0; k < at.rest; k++) {
                c.read(x[1], y[1], as_now, bs_now, k);
                c.add(x[1], y[1]);
            }
            keep_all(a, b, as_next, bs_next);
            copy_async_wait<0>();
            __syncthreads();
            c.read(x[0], y[0], as_next, bs_next, 0);
        }
        if (goes_on) {
            at.k += GEMM_K;
            at.full--;
            continue;
        }
        at = at.next(g, last);
        for (; ended < at.slice; ended++) waiting.end_slice(c, ended - first, slices); /* its own, and those without k */
    }
    write_tile(g, c, (float4 *)shared, m0, n0);
}

/* Computes the tile of this block with A and B, the readers of the operands. */
template <class S, class A, class B> LS_DEVICE void gemm(const ls_cuda_gemm &g) {
    size_t m0, n0;
    find_tile<S>(g, m0, n0);
    A a;
    B b;
    a.open(g, g.a, g.lda, m0, g.m);
    b.open(g, g.b, g.ldb, n0, g.n);
    multiply<S>(g, a, b, m0, n0);
}

typedef tile_shape<LS_CUDA_GEMM_LARGE> large;
typedef tile_shape<LS_CUDA_GEMM_NARROW> narrow;
typedef tile_shape<LS_CUDA_GEMM_FLAT> flat;
typedef tile_shape<LS_CUDA_GEMM_SMALL> small;
typedef tile_shape<LS_CUDA_GEMM_TINY> tiny;
