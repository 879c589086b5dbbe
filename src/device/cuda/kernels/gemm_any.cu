/* gemm_any.cu: GEMMs by chains for operands of any type and alignment, which gemm.cu does not take; launched by ops/gemm.c. Numbers go
 * through registers, where they are widened to fp32. */
#include "device/cuda/kernels/gemm.cuh"

/* An operand of any element type. */
struct any_matrix {
    const uint8_t *begin;
    int dtype, is_vector;
    /* `vector`: rows allow loads of four elements. */
    LS_DEVICE void open(const ls_cuda_gemm &g, const void *matrix, int vector) {
        begin = (const uint8_t *)matrix;
        dtype = g.dtype;
        is_vector = vector;
    }
    /* Loads up to four neighbours, of which `count` exist; the rest of `held` is stale. */
    template <class T> LS_DEVICE void hold(float4 &held, size_t at, int count) const {
        const T *p = (const T *)begin + at;
        if (is_vector) {
            if (count > 0) held = load4(p);
            return;
        }
        if (count > 0) held.x = load(p);
        if (count > 1) held.y = load(p + 1);
        if (count > 2) held.z = load(p + 2);
        if (count > 3) held.w = load(p + 3);
    }
};

/* The reader (gemm.cuh) of an operand whose lines are its rows. */
template <int LINES, int THREADS> struct any_rows_along_k : held_along_k<LINES, THREADS> {
    using base = held_along_k<LINES, THREADS>;
    any_matrix from;
    size_t at[base::COUNT];

    /* Finds the addresses of this thread's numbers in the first step, of lines from line0 on of `lines` in all. */
    LS_DEVICE void open(const ls_cuda_gemm &g, const void *matrix, size_t ld, size_t line0, size_t lines) {
        from.open(g, matrix, g.a_is_vector && g.b_is_vector);
        base::clear();
        LS_UNROLL for (int i = 0; i < base::COUNT; i++)
            at[i] = min(line0 + base::line(i), lines - 1) * ld + first_k(g) + base::k4() * 4;
    }
    /* Starts to load this thread's numbers of the next step: of all its k (ALL), or of the first few. */
    template <bool ALL> LS_DEVICE void fetch(size_t, int count, float *) {
        LS_BY_TYPE(from.dtype, T, {
            LS_UNROLL for (int i = 0; i < base::COUNT; i++)
                from.template hold<T>(base::held[i], at[i], count - base::k4() * 4);
        });
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) at[i] += count;
    }
};

/* The reader of an operand whose lines are its columns. */
template <int LINES, int THREADS> struct any_columns_across_k : quads_across_k<LINES, THREADS> {
    using base = quads_across_k<LINES, THREADS>;
    any_matrix from;
    size_t at, ld;
    int count;
    float4 held[base::COUNT];

    /* Finds the addresses of this thread's numbers in the first step, of lines from line0 on of `lines` in all. */
    LS_DEVICE void open(const ls_cuda_gemm &g, const void *matrix, size_t stride, size_t line0, size_t lines) {
        from.open(g, matrix, g.a_is_vector && g.b_is_vector);
        ld = stride;
        count = base::lines_there(line0, lines);
        at = (first_k(g) + base::row(0)) * ld + line0 + base::line();
        LS_UNROLL for (int i = 0; i < base::COUNT; i++) held[i] = make_float4(0, 0, 0, 0);
    }
    /* Starts to load this thread's numbers of the next step: of all its k (ALL), or of the first few. */
    template <bool ALL> LS_DEVICE void fetch(size_t, int k_count, float *) {
        LS_BY_TYPE(from.dtype, T, {
            LS_UNROLL for (int i = 0; i < base::COUNT; i++)
                from.template hold<T>(held[i], at + i * base::ROWS * ld, base::row(i) < k_count ? count : 0);
        });
        at += k_count * ld;
    }
    /* Writes part `part` of KEEP_PARTS from registers to shared memory. */
    LS_DEVICE void keep(float *to, int part) {
        LS_UNROLL for (int i = part; i < base::COUNT; i += KEEP_PARTS) *(float4 *)base::place(to, i) = held[i];
    }
};

/* Computes this block's tile, of shape S, of C = A·B. */
template <class S> LS_DEVICE void any_nn(const ls_cuda_gemm &g) {
    gemm<S, any_rows_along_k<S::BM, S::THREADS>, any_columns_across_k<S::BN, S::THREADS>>(g);
}
/* Computes this block's tile, of shape S, of C = A·Bᵀ. */
template <class S> LS_DEVICE void any_nt(const ls_cuda_gemm &g) {
    gemm<S, any_rows_along_k<S::BM, S::THREADS>, any_rows_along_k<S::BN, S::THREADS>>(g);
}
/* Computes this block's tile, of shape S, of C = Aᵀ·B. */
template <class S> LS_DEVICE void any_tn(const ls_cuda_gemm &g) {
    gemm<S, any_columns_across_k<S::BM, S::THREADS>, any_columns_across_k<S::BN, S::THREADS>>(g);
}

LS_KERNEL_ALONE(any_nn_large, ls_cuda_gemm, large::THREADS) { any_nn<large>(a); }
LS_KERNEL_ALONE(any_nn_small, ls_cuda_gemm, small::THREADS) { any_nn<small>(a); }
LS_KERNEL_ALONE(any_nt_large, ls_cuda_gemm, large::THREADS) { any_nt<large>(a); }
LS_KERNEL_ALONE(any_nt_small, ls_cuda_gemm, small::THREADS) { any_nt<small>(a); }
LS_KERNEL_ALONE(any_tn_large, ls_cuda_gemm, large::THREADS) { any_tn<large>(a); }
LS_KERNEL_ALONE(any_tn_small, ls_cuda_gemm, small::THREADS) { any_tn<small>(a); }
