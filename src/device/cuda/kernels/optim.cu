/* optim.cu: optimizer steps and squared norms (docs/arithmetic.md, "Optimizers", "Squared norm"). */
#include "device/cuda/args/optim.h"
#include "device/cuda/common/pack.cuh"

/* A 16-bit copy of the new weights, where there is one. */
template <int W> LS_DEVICE void store_copy(void *copy, int dtype, size_t i, const pack<W> &w) {
    if (!copy) return;
    if (dtype == LS_CUDA_BF16)
        store_pack<W>((bf16 *)copy + i, w);
    else
        store_pack<W>((f16 *)copy + i, w);
}

/* NaN is not below anything and stays. */
LS_DEVICE float flush(float x) { return __uint_as_float(__float_as_uint(x) & 0x7FFFFFFFu) < 0x1p-126f ? 0.0f : x; }

template <int W> struct adamw_packs { pack<W> g, m, v, w; };

LS_KERNEL(adamw, ls_cuda_adamw, LS_CUDA_PACK_THREADS) {
    each_elem<4, LS_CUDA_OPTIM_PACKS>(
        a.flat,
        [&](auto w, size_t i) {
            return adamw_packs<w.n>{load_pack<w.n>(a.g + i), load_pack<w.n>(a.m + i), load_pack<w.n>(a.v + i),
                                    load_pack<w.n>(a.w + i)};
        },
        [&](auto width, size_t i, const auto &in) {
            pack<width.n> m, v, w;
#pragma unroll
            for (int k = 0; k < width.n; k++) {
                float g = a.factor * in.g.v[k];
                m.v[k] = flush(__fmaf_rn(a.beta1, in.m.v[k], a.beta1_rest * g));
                v.v[k] = flush(__fmaf_rn(a.beta2, in.v.v[k], a.beta2_rest * (g * g)));
                float e = __fmaf_rn(__fsqrt_rn(v.v[k]), a.root, a.epsilon);
                w.v[k] = __fmaf_rn(-a.rate, __fdiv_rn(m.v[k], e), in.w.v[k] * a.decay);
            }
            store_pack<width.n>(a.m + i, m);
            store_pack<width.n>(a.v + i, v);
            store_pack<width.n>(a.w + i, w);
            store_copy(a.copy, a.copy_dtype, i, w);
        });
}

template <int W> struct sgd_packs { pack<W> g, b, w; };

LS_KERNEL(sgd, ls_cuda_sgd, LS_CUDA_PACK_THREADS) {
    each_elem<4, LS_CUDA_OPTIM_PACKS>(
        a.flat,
        [&](auto w, size_t i) {
            sgd_packs<w.n> in = {load_pack<w.n>(a.g + i), {}, load_pack<w.n>(a.w + i)};
            if (a.b) in.b = load_pack<w.n>(a.b + i);
            return in;
        },
        [&](auto width, size_t i, const auto &in) {
            pack<width.n> b, w;
#pragma unroll
            for (int k = 0; k < width.n; k++) {
                float g = __fmaf_rn(a.weight_decay, in.w.v[k], a.factor * in.g.v[k]);
                b.v[k] = __fmaf_rn(a.momentum, in.b.v[k], g);
                if (a.b) g = a.nesterov ? __fmaf_rn(a.momentum, b.v[k], g) : b.v[k];
                w.v[k] = __fmaf_rn(-a.rate, g, in.w.v[k]);
            }
            if (a.b) store_pack<width.n>(a.b + i, b);
            store_pack<width.n>(a.w + i, w);
            store_copy(a.copy, a.copy_dtype, i, w);
        });
}

/* ---- squared norms ----------------------------------------------------------------------------------------------- */

/* Adds to an exact sum: 32 bits of a fixed-point integer in each word (numerics/exact_sum.c). Integers, so the order
 * does not matter. */
LS_DEVICE void exact_add(unsigned long long *words, double x) {
    const unsigned long long bits = (unsigned long long)__double_as_longlong(x), low32 = 0xFFFFFFFFull;
    const unsigned exponent = (unsigned)(bits >> 52) & 0x7FFu, place = exponent > 0 ? exponent - 1 : 0;
    if (exponent == 0x7FFu) {
        atomicAdd(words + LS_CUDA_EXACT_WORDS - 1, 1ull);
        return;
    }
    const unsigned long long fraction = (bits & 0xFFFFFFFFFFFFFull) | (exponent > 0 ? 1ull << 52 : 0ull);
    const unsigned long long low = (fraction & low32) << place % 32, high = (fraction >> 32) << place % 32;
    const unsigned long long part[3] = {low & low32, (low >> 32) + (high & low32), high >> 32};
#pragma unroll
    for (int i = 0; i < 3; i++)
        if (part[i]) atomicAdd(words + place / 32 + i, bits >> 63 ? 0ull - part[i] : part[i]);
}

/* Half a warp has a block of elements: thread j of sixteen is lane j. */
LS_KERNEL(square_sums, ls_cuda_squares, 16 * LS_CUDA_SQUARE_BLOCKS) {
    enum { AT_ONCE = 16 };
    __shared__ unsigned long long words[LS_CUDA_EXACT_WORDS];
    for (unsigned w = threadIdx.x; w < LS_CUDA_EXACT_WORDS; w += blockDim.x) words[w] = 0;
    __syncthreads();
    for (unsigned turn = blockIdx.x, piece = 0; turn < a.first[a.count]; turn += gridDim.x) {
        while (turn >= a.first[piece + 1]) piece++;
        const size_t all = a.n[piece];
        size_t begin = ((size_t)(turn - a.first[piece]) * LS_CUDA_SQUARE_BLOCKS + threadIdx.x / 16) * LS_CUDA_SQUARE_BLOCK;
        size_t left = begin < all ? all - begin : 0;
        size_t n = left < LS_CUDA_SQUARE_BLOCK ? left : (size_t)LS_CUDA_SQUARE_BLOCK;
        const float *x = a.x[piece] + begin;
        double lane = 0.0;
        size_t i = threadIdx.x % 16;
        for (; i + 16 * (AT_ONCE - 1) < n; i += 16 * AT_ONCE) {
            float v[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) v[k] = x[i + 16 * k];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) lane = __fma_rn((double)v[k], (double)v[k], lane);
        }
        for (; i < n; i += 16) lane = __fma_rn((double)x[i], (double)x[i], lane);
        for (unsigned half = 8; half > 0; half /= 2) lane = lane + __shfl_down_sync(~0u, lane, half, 16);
        if (n > 0 && threadIdx.x % 16 == 0) exact_add(words, lane);
    }
    __syncthreads();
    for (unsigned w = threadIdx.x; w < LS_CUDA_EXACT_WORDS; w += blockDim.x)
        if (words[w]) atomicAdd(a.words + w, words[w]);
}
