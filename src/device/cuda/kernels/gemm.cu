/* gemm.cu: matrix products of three forms in tiles of three sizes; the tree over slices that were made apart. */
#include "device/cuda/kernels/gemm.cuh"

template <class S> LS_DEVICE void gemm_nn(const ls_cuda_gemm &g) {
    size_t m0, n0;
    find_tile<S>(g, m0, n0);
    rows_along_k<S::BM, S::THREADS> a;
    columns_across_k<S::BN, S::THREADS> b;
    a.open(g.a, g.lda, m0, g.m, g.dtype, g.a_is_vector);
    b.open(g.b, g.ldb, n0, g.n, g.dtype, g.b_is_vector);
    multiply<S>(g, a, b, m0, n0);
}

template <class S> LS_DEVICE void gemm_nt(const ls_cuda_gemm &g) {
    size_t m0, n0;
    find_tile<S>(g, m0, n0);
    rows_along_k<S::BM, S::THREADS> a;
    rows_along_k<S::BN, S::THREADS> b;
    a.open(g.a, g.lda, m0, g.m, g.dtype, g.a_is_vector);
    b.open(g.b, g.ldb, n0, g.n, g.dtype, g.b_is_vector);
    multiply<S>(g, a, b, m0, n0);
}

template <class S> LS_DEVICE void gemm_tn(const ls_cuda_gemm &g) {
    size_t m0, n0;
    find_tile<S>(g, m0, n0);
    columns_across_k<S::BM, S::THREADS> a;
    columns_across_k<S::BN, S::THREADS> b;
    a.open(g.a, g.lda, m0, g.m, g.dtype, g.a_is_vector);
    b.open(g.b, g.ldb, n0, g.n, g.dtype, g.b_is_vector);
    multiply<S>(g, a, b, m0, n0);
}

typedef tile_shape<LS_CUDA_GEMM_LARGE> large;
typedef tile_shape<LS_CUDA_GEMM_NARROW> narrow;
typedef tile_shape<LS_CUDA_GEMM_SMALL> small;

LS_KERNEL_ALONE(gemm_nn_large, ls_cuda_gemm, large::THREADS) { gemm_nn<large>(a); }
LS_KERNEL_ALONE(gemm_nn_narrow, ls_cuda_gemm, narrow::THREADS) { gemm_nn<narrow>(a); }
LS_KERNEL_ALONE(gemm_nn_small, ls_cuda_gemm, small::THREADS) { gemm_nn<small>(a); }
LS_KERNEL_ALONE(gemm_nt_large, ls_cuda_gemm, large::THREADS) { gemm_nt<large>(a); }
LS_KERNEL_ALONE(gemm_nt_narrow, ls_cuda_gemm, narrow::THREADS) { gemm_nt<narrow>(a); }
LS_KERNEL_ALONE(gemm_nt_small, ls_cuda_gemm, small::THREADS) { gemm_nt<small>(a); }
LS_KERNEL_ALONE(gemm_tn_large, ls_cuda_gemm, large::THREADS) { gemm_tn<large>(a); }
LS_KERNEL_ALONE(gemm_tn_narrow, ls_cuda_gemm, narrow::THREADS) { gemm_tn<narrow>(a); }
LS_KERNEL_ALONE(gemm_tn_small, ls_cuda_gemm, small::THREADS) { gemm_tn<small>(a); }

/* ---- slices that were made apart ----------------------------------------------------------------------------------- */

enum { LEVELS = 7 }; /* of the tree over up to 64 slices */

LS_DEVICE float4 plus(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

template <bool VECTOR> LS_DEVICE float4 part_at(const float *p) {
    return VECTOR ? load4(p) : make_float4(*p, 0, 0, 0);
}

/* Of neighbours of one row: a sum of 2^l slices waits in wait[l]; indices are known to the compiler, so these are registers. */
template <bool VECTOR> LS_DEVICE float4 tree_of(const ls_cuda_gemm &g, size_t at) {
    float4 wait[LEVELS];
    LS_UNROLL for (int l = 0; l < LEVELS; l++) wait[l] = make_float4(0, 0, 0, 0);
    for (int s = 0; s < g.slices; s++) {
        float4 x = part_at<VECTOR>(g.parts + s * (g.m * g.n) + at);
        bool carries = true;
        LS_UNROLL for (int l = 0; l < LEVELS; l++) {
            if (!carries) continue;
            if (s >> l & 1) {
                x = plus(wait[l], x);
            } else {
                wait[l] = x;
                carries = false;
            }
        }
    }
    float4 sum = make_float4(0, 0, 0, 0);
    bool is_first = true;
    LS_UNROLL for (int l = 0; l < LEVELS; l++)
        if (g.slices >> l & 1) {
            sum = is_first ? wait[l] : plus(wait[l], sum);
            is_first = false;
        }
    return sum;
}

template <bool VECTOR> LS_DEVICE void join_slices(const ls_cuda_gemm &g) {
    size_t column = ((size_t)blockIdx.x * LS_CUDA_GEMM_JOIN_THREADS + threadIdx.x) * (VECTOR ? 4 : 1);
    if (column >= g.n) return;
    for (size_t row = blockIdx.y; row < g.m; row += gridDim.y)
        finish_quad(g, row, column, tree_of<VECTOR>(g, row * g.n + column), VECTOR ? 4 : 1);
}

LS_KERNEL(gemm_join, ls_cuda_gemm, LS_CUDA_GEMM_JOIN_THREADS) { a.n % 4 == 0 ? join_slices<true>(a) : join_slices<false>(a); }
