/* gemm.cu: GEMMs of aligned fp32 in three forms, in tiles of several sizes; GEMMs of few rows (generation); the tree over the sums of
 * slices that blocks computed separately. Launched by
 * ops/gemm.c.
 *
 * Names: the form of the GEMM (nn, nt, tn) and the tile (large … tiny, args/gemm.h); odd: rows of A are not aligned; row, rows: C has one row,
 * or up to 8. */
#include "device/cuda/kernels/gemm.cuh"

/* Computes this block's tile, of shape S, of C = A·B. A_VECTOR false: rows of A are not aligned. */
template <class S, bool A_VECTOR = true> LS_DEVICE void gemm_nn(const ls_cuda_gemm &g) {
    gemm<S, rows_along_k<S::BM, S::THREADS, A_VECTOR>, columns_across_k<S::BN, S::THREADS, true>>(g);
}
/* Computes this block's tile, of shape S, of C = A·Bᵀ. */
template <class S> LS_DEVICE void gemm_nt(const ls_cuda_gemm &g) {
    gemm<S, rows_along_k<S::BM, S::THREADS, true>, rows_along_k<S::BN, S::THREADS, true>>(g);
}
/* Computes this block's tile, of shape S, of C = Aᵀ·B. A_VECTOR false: rows of A are not aligned. */
template <class S, bool A_VECTOR = true> LS_DEVICE void gemm_tn(const ls_cuda_gemm &g) {
    gemm<S, columns_across_k<S::BM, S::THREADS, A_VECTOR>, columns_across_k<S::BN, S::THREADS, true>>(g);
}

LS_KERNEL_ALONE(gemm_nn_large, ls_cuda_gemm, large::THREADS) { gemm_nn<large>(a); }
LS_KERNEL_ALONE(gemm_nn_narrow, ls_cuda_gemm, narrow::THREADS) { gemm_nn<narrow>(a); }
LS_KERNEL_MANY(gemm_nn_flat, ls_cuda_gemm, flat::THREADS, LS_BEFORE_HOPPER ? 2 : LS_CUDA_GEMM_FLAT_TOGETHER) { gemm_nn<flat>(a); }
LS_KERNEL_ALONE(gemm_nn_small, ls_cuda_gemm, small::THREADS) { gemm_nn<small>(a); }
LS_KERNEL_ALONE(gemm_nt_large, ls_cuda_gemm, large::THREADS) { gemm_nt<large>(a); }
LS_KERNEL_ALONE(gemm_nt_narrow, ls_cuda_gemm, narrow::THREADS) { gemm_nt<narrow>(a); }
LS_KERNEL_ALONE(gemm_nt_small, ls_cuda_gemm, small::THREADS) { gemm_nt<small>(a); }
LS_KERNEL_ALONE(gemm_tn_large, ls_cuda_gemm, large::THREADS) { gemm_tn<large>(a); }
LS_KERNEL_ALONE(gemm_tn_narrow, ls_cuda_gemm, narrow::THREADS) { gemm_tn<narrow>(a); }
LS_KERNEL_MANY(gemm_tn_flat, ls_cuda_gemm, flat::THREADS, LS_CUDA_GEMM_FLAT_TOGETHER) { gemm_tn<flat>(a); }
LS_KERNEL_ALONE(gemm_tn_small, ls_cuda_gemm, small::THREADS) { gemm_tn<small>(a); }
LS_KERNEL(gemm_tn_tiny, ls_cuda_gemm, tiny::THREADS) { gemm_tn<tiny>(a); }

/* Computes gradients behind a head with an odd vocabulary: A is the gradient of the logits, whose rows are not aligned. */
LS_KERNEL_MANY(gemm_nn_odd, ls_cuda_gemm, flat::THREADS, LS_CUDA_GEMM_FLAT_TOGETHER) { gemm_nn<flat, false>(a); }
LS_KERNEL_MANY(gemm_tn_odd, ls_cuda_gemm, flat::THREADS, LS_CUDA_GEMM_FLAT_TOGETHER) { gemm_tn<flat, false>(a); }

/* A step of a GEMM of few rows, for generation, where reading B once takes the time. A thread has a column of C and all M rows; many
 * steps of B are being loaded. Of form NT (ALONG) a step is [column][k], else [k][column]. */
template <bool ALONG, int M> struct thin_step {
    enum {
        K = LS_CUDA_GEMM_THIN_K,
        N = LS_CUDA_GEMM_THIN_N,
        B_STRIDE = ALONG ? K + 4 : N,
        A_ELEMS = M * K,
        ELEMS = A_ELEMS + (ALONG ? N * B_STRIDE : K * B_STRIDE),
    };
    /* Starts to load k … k + K − 1, as far as they are below `end`, of A and of the columns from n0 on. */
    LS_DEVICE static void fetch(const ls_cuda_gemm &g, float *to, size_t n0, size_t k, size_t end) {
        const float *a = (const float *)g.a, *b = (const float *)g.b;
        for (int i = threadIdx.x; i < M * K / 4; i += N) {
            int row = i / (K / 4), k4 = i % (K / 4) * 4;
            if ((size_t)row < g.m && k + k4 < end) copy16_async(to + row * K + k4, a + row * g.lda + k + k4);
        }
        to += A_ELEMS;
        LS_UNROLL for (int i = 0; i < K / 4; i++) {
            int quad = threadIdx.x + i * N;
            if (ALONG) {
                size_t line = n0 + quad / (K / 4), k4 = quad % (K / 4) * 4;
                if (k + k4 < end)
                    copy16_async(to + quad / (K / 4) * B_STRIDE + k4, b + min(line, g.n - 1) * g.ldb + k + k4);
            } else {
                size_t row = quad / (N / 4), column = n0 + quad % (N / 4) * 4;
                if (k + row < end && column < g.n)
                    copy_quad(to + row * B_STRIDE + quad % (N / 4) * 4, b + (k + row) * g.ldb + column,
                              (int)min((size_t)4, g.n - column), true);
            }
        }
    }
    /* Continues the chains of this thread's column with the first `count` k of a step. */
    LS_DEVICE static void add(float (&sum)[M], const float *from, int count) {
        const float *b = from + A_ELEMS + (ALONG ? threadIdx.x * B_STRIDE : threadIdx.x);
        LS_UNROLL_8 for (int k = 0; k < count; k += 4) {
            float4 y = ALONG ? load4(b + k)
                             : make_float4(b[k * B_STRIDE], b[(k + 1) * B_STRIDE], b[(k + 2) * B_STRIDE],
                                           b[(k + 3) * B_STRIDE]);
            LS_UNROLL for (int i = 0; i < M; i++) {
                float4 x = load4(from + i * K + k);
                sum[i] = __fmaf_rn(x.x, y.x, sum[i]);
                sum[i] = __fmaf_rn(x.y, y.y, sum[i]);
                sum[i] = __fmaf_rn(x.z, y.z, sum[i]);
                sum[i] = __fmaf_rn(x.w, y.w, sum[i]);
            }
        }
    }
};

/* Computes M rows of 64 columns of C, or the sums of one slice of them into parts. */
template <bool ALONG, int M> LS_DEVICE void gemm_thin(const ls_cuda_gemm &g) {
    typedef thin_step<ALONG, M> step;
    enum { STEPS = LS_CUDA_GEMM_THIN_STEPS };
    LS_SHARED(float, shared);
    const int slice = g.parts ? (int)blockIdx.z : 0;
    const size_t n0 = (size_t)blockIdx.x * step::N, column = n0 + threadIdx.x, begin = g.bounds[slice],
                 end = g.bounds[slice + 1];
    const size_t steps = (end - begin + step::K - 1) / step::K;
    float sum[M];
    LS_UNROLL for (int i = 0; i < M; i++)
        sum[i] = g.accumulate && (size_t)i < g.m && column < g.n ? ((const float *)g.c)[i * g.ldc + column] : 0.0f;
    for (size_t s = 0; s < STEPS - 1; s++) {
        if (s < steps) step::fetch(g, shared + s * step::ELEMS, n0, begin + s * step::K, end);
        copy_async_commit();
    }
    for (size_t s = 0; s < steps; s++) {
        copy_async_wait<STEPS - 2>();
        __syncthreads();
        size_t next = s + STEPS - 1, k = begin + s * step::K;
        if (next < steps) step::fetch(g, shared + next % STEPS * step::ELEMS, n0, begin + next * step::K, end);
        copy_async_commit();
        step::add(sum, shared + s % STEPS * step::ELEMS, end - k < step::K ? (int)(end - k) : step::K);
    }
    if (column >= g.n) return;
    LS_UNROLL for (int i = 0; i < M; i++) {
        if ((size_t)i >= g.m) continue;
        if (g.parts)
            g.parts[(slice * g.m + i) * g.n + column] = sum[i];
        else
            finish_quad(g, i, column, make_float4(sum[i], 0, 0, 0), 1);
    }
}

/* GEMMs of few rows: a thread has a column of C. */
LS_KERNEL(gemm_nn_row, ls_cuda_gemm, LS_CUDA_GEMM_THIN_N) { gemm_thin<false, 1>(a); }
LS_KERNEL(gemm_nn_rows, ls_cuda_gemm, LS_CUDA_GEMM_THIN_N) { gemm_thin<false, LS_CUDA_GEMM_THIN_M>(a); }
LS_KERNEL(gemm_nt_row, ls_cuda_gemm, LS_CUDA_GEMM_THIN_N) { gemm_thin<true, 1>(a); }
LS_KERNEL(gemm_nt_rows, ls_cuda_gemm, LS_CUDA_GEMM_THIN_N) { gemm_thin<true, LS_CUDA_GEMM_THIN_M>(a); }

enum { LEVELS = 7 }; /* of the tree over up to 64 slices */

/* Returns a + b, element by element. */
LS_DEVICE float4 plus(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

/* Loads four neighbours of a slice's sums, or one. */
template <bool VECTOR> LS_DEVICE float4 part_at(const float *p) { return VECTOR ? load4(p) : make_float4(*p, 0, 0, 0); }

/* Returns the sum of 2^LEVEL slices, `part` elements apart, by the tree. Loads all before it adds, to use the memory bandwidth. */
template <bool VECTOR, int LEVEL> LS_DEVICE float4 node_of(const float *at, size_t part) {
    float4 x[1 << LEVEL];
    LS_UNROLL for (int i = 0; i < 1 << LEVEL; i++) x[i] = part_at<VECTOR>(at + i * part);
    LS_UNROLL for (int l = 0; l < LEVEL; l++)
        LS_UNROLL for (int i = 0; i < 1 << LEVEL; i += 2 << l) x[i] = plus(x[i], x[i + (1 << l)]);
    return x[0];
}

/* Returns the tree over all slices of element `at` of C. A sum of 2^l slices waits in wait[l]; indices are constants, so these are
 * registers. */
template <bool VECTOR> LS_DEVICE float4 tree_of(const ls_cuda_gemm &g, size_t at) {
    enum { TOGETHER = 3 }; /* the level of nodes that are read at once */
    float4 wait[LEVELS];
    LS_UNROLL for (int l = 0; l < LEVELS; l++) wait[l] = make_float4(0, 0, 0, 0);
    const size_t part = g.m * g.n;
    const float *from = g.parts + at;
    for (int s = 0; s < g.slices >> TOGETHER; s++) {
        float4 x = node_of<VECTOR, TOGETHER>(from, part);
        bool carries = true;
        LS_UNROLL for (int l = TOGETHER; l < LEVELS; l++) {
            if (!carries) continue;
            if (s >> (l - TOGETHER) & 1) {
                x = plus(wait[l], x);
            } else {
                wait[l] = x;
                carries = false;
            }
        }
        from += part << TOGETHER;
    }
    if (g.slices & 4) wait[2] = node_of<VECTOR, 2>(from, part), from += part * 4;
    if (g.slices & 2) wait[1] = node_of<VECTOR, 1>(from, part), from += part * 2;
    if (g.slices & 1) wait[0] = part_at<VECTOR>(from);
    float4 sum = make_float4(0, 0, 0, 0);
    bool is_first = true;
    LS_UNROLL for (int l = 0; l < LEVELS; l++)
        if (g.slices >> l & 1) {
            sum = is_first ? wait[l] : plus(wait[l], sum);
            is_first = false;
        }
    return sum;
}

/* Joins the slices of this block's elements of C and runs the epilogue. */
template <bool VECTOR> LS_DEVICE void join_slices(const ls_cuda_gemm &g) {
    size_t column = ((size_t)blockIdx.x * LS_CUDA_GEMM_JOIN_THREADS + threadIdx.x) * (VECTOR ? 4 : 1);
    if (column >= g.n) return;
    for (size_t row = blockIdx.y; row < g.m; row += gridDim.y)
        finish_quad(g, row, column, tree_of<VECTOR>(g, row * g.n + column), VECTOR ? 4 : 1);
}

/* Adds the sums of slices in a.parts by the tree, and runs the epilogue: the second kernel of split-K. */
LS_KERNEL(gemm_join, ls_cuda_gemm, LS_CUDA_GEMM_JOIN_THREADS) {
    a.n % 4 == 0 ? join_slices<true>(a) : join_slices<false>(a);
}
