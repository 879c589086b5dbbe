/* token_sums.cu: gradients of parameters that are not matrices (docs/arithmetic.md, "Sums over tokens").
 *
 * First the chains of each (sequence, token slice), all at once; they go through memory, a number for each column. Then
 * a thread joins those of its columns: sequences in their order, groups by the tree. */
#include "device/cuda/args/token_sums.h"
#include "device/cuda/common/list.cuh"
#include "device/cuda/common/tree.cuh"

LS_DEVICE size_t token_of(const ls_cuda_slices &s, size_t i) {
    return s.are_listed ? size_at(s.tokens, i) : i * s.T / s.slices;
}

/* ---- chains ------------------------------------------------------------------------------------------------------ */

template <int W> struct chain_sums { pack<W> w, b; };

template <int W> struct chain_packs {
    pack<W> dy, x;
    float mean, rstd;
};

template <int KIND, int W, class T> LS_DEVICE chain_packs<W> load_token(const ls_cuda_chains &a, size_t row, size_t c) {
    chain_packs<W> in = {};
    in.dy = load_pack<W>((const T *)a.dy + row * a.dy_stride + c);
    if (KIND != LS_CUDA_CHAIN_BIAS) in.x = load_pack<W>(a.x + row * a.x_stride + c), in.rstd = a.rstd[row];
    if (KIND == LS_CUDA_CHAIN_LAYER) in.mean = a.mean[row];
    return in;
}

template <int KIND, int W> LS_DEVICE void add_token(chain_sums<W> &sums, const chain_packs<W> &in) {
#pragma unroll
    for (int k = 0; k < W; k++) {
        float dy = in.dy.v[k], d = KIND == LS_CUDA_CHAIN_LAYER ? in.x.v[k] - in.mean : in.x.v[k];
        if (KIND != LS_CUDA_CHAIN_RMS) sums.b.v[k] = sums.b.v[k] + dy;
        if (KIND != LS_CUDA_CHAIN_BIAS) sums.w.v[k] = __fmaf_rn(dy, d * in.rstd, sums.w.v[k]);
    }
}

/* The chain over rows row … end − 1. */
template <int KIND, int W, int U, class T>
LS_DEVICE chain_sums<W> chain_block(const ls_cuda_chains &a, size_t row, size_t end, size_t c) {
    chain_sums<W> sums = {};
    for (; row + U <= end; row += U) {
        chain_packs<W> in[U];
#pragma unroll
        for (int u = 0; u < U; u++) in[u] = load_token<KIND, W, T>(a, row + u, c);
#pragma unroll
        for (int u = 0; u < U; u++) add_token<KIND>(sums, in[u]);
    }
    for (; row < end; row++) add_token<KIND>(sums, load_token<KIND, W, T>(a, row, c));
    return sums;
}

template <int KIND, int W, int U, class T> LS_DEVICE void chain(const ls_cuda_chains &a, size_t number, size_t c) {
    const size_t sequence = number / a.slices.slices, slice = number % a.slices.slices;
    size_t row = sequence * a.slices.T + token_of(a.slices, slice);
    const size_t end = sequence * a.slices.T + token_of(a.slices, slice + 1);
    chain_sums<W> sums = {};
    for (bool is_first = true; row < end; is_first = false) {
        const size_t block_end = end - row < a.block ? end : row + a.block;
        chain_sums<W> block = chain_block<KIND, W, U, T>(a, row, block_end, c);
        sums.w = is_first ? block.w : add(sums.w, block.w);
        sums.b = is_first ? block.b : add(sums.b, block.b);
        row = block_end;
    }
    size_t at = number * a.rows.columns + c;
    store_pack<W>(a.out[0] + at, KIND == LS_CUDA_CHAIN_BIAS ? sums.b : sums.w);
    if (KIND == LS_CUDA_CHAIN_LAYER) store_pack<W>(a.out[1] + at, sums.b);
}

template <int KIND, int W, int U, class T> LS_DEVICE void chains(const ls_cuda_chains &a) {
    const size_t packs = a.rows.columns / W, lanes = (size_t)1 << a.rows.lanes_log2,
                 together = blockDim.x >> a.rows.lanes_log2;
    for (size_t p = blockIdx.y * lanes + (threadIdx.x & (lanes - 1)); p < packs; p += gridDim.y * lanes)
        for (size_t number = blockIdx.x * together + (threadIdx.x >> a.rows.lanes_log2); number < a.rows.rows;
             number += gridDim.x * together)
            chain<KIND, W, U, T>(a, number, p * W);
}

LS_KERNEL(bias_chains, ls_cuda_chains, LS_CUDA_CHAIN_THREADS) {
    LS_BY_TYPE(a.act, T,
               { a.rows.aligned ? chains<LS_CUDA_CHAIN_BIAS, 4, 16, T>(a) : chains<LS_CUDA_CHAIN_BIAS, 1, 32, T>(a); });
}

LS_KERNEL(layer_chains, ls_cuda_chains, LS_CUDA_CHAIN_THREADS) {
    LS_BY_TYPE(a.act, T, {
        a.rows.aligned ? chains<LS_CUDA_CHAIN_LAYER, 4, 8, T>(a) : chains<LS_CUDA_CHAIN_LAYER, 1, 16, T>(a);
    });
}

LS_KERNEL(rms_chains, ls_cuda_chains, LS_CUDA_CHAIN_THREADS) {
    LS_BY_TYPE(a.act, T,
               { a.rows.aligned ? chains<LS_CUDA_CHAIN_RMS, 4, 8, T>(a) : chains<LS_CUDA_CHAIN_RMS, 1, 16, T>(a); });
}

/* ---- joins ------------------------------------------------------------------------------------------------------- */

/* Sequences begin … end − 1 of a group, from what is in sum: −0, which leaves the first as it is, or the sum of an
 * earlier call. */
template <int W>
LS_DEVICE pack<W> join_group(const ls_cuda_token_join &a, const float *in, size_t begin, size_t end, pack<W> sum) {
    enum { AT_ONCE = 8 };
    for (size_t s = begin; s < end; s += AT_ONCE) {
        pack<W> x[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (s + k < end) x[k] = load_pack<W>(in + (s + k) * a.in_sequence);
        if (a.are_tokens) {
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) x[k] = map(x[k], [](float x) { return 0.0f + x; });
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (s + k < end) sum = add(sum, x[k]);
    }
    return sum;
}

template <int W> LS_DEVICE void join(const ls_cuda_token_join &a, const float *from, float *to) {
    walk_rows<W, 1>(
        a.rows, [&](auto, size_t, size_t) { return 0; },
        [&](auto, size_t row, size_t c, int) {
            float *out = to + row * a.rows.columns + c;
            const float *in = from + row * a.in_stride + c;
            const bool is_empty = a.slices.slices && token_of(a.slices, row) == token_of(a.slices, row + 1);
            pack<W> sum = map(pack<W>(), [](float) { return -0.0f; });
            if (a.accumulate) sum = load_pack<W>(out);
            if (!is_empty && a.groups == 1)
                sum = join_group(a, in, size_at(a.bounds, 0), size_at(a.bounds, 1), sum);
            if (!is_empty && a.groups > 1) {
                tree<W> t;
                t.begin();
                for (int g = 0; g < a.groups; g++)
                    t.push(g, join_group(a, in, size_at(a.bounds, g), size_at(a.bounds, g + 1), sum));
                t.end();
                sum = t.sum;
            }
            store_pack<W>(out, sum);
        });
}

LS_KERNEL(token_join, ls_cuda_token_join, LS_CUDA_PACK_THREADS) {
    const float *in = a.in[blockIdx.z];
    float *out = a.out[blockIdx.z];
    a.rows.aligned ? join<4>(a, in, out) : join<1>(a, in, out);
}
