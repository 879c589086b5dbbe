/* token_sums.cu: gradients of biases, norms and the position table, sums over tokens (docs/reference/arithmetic.md, "Sums over tokens");
 * launched by ops/token_sums.c, which ops/norm.c and ops/embed_grad.c call.
 *
 * A first kernel computes the chain (the sum in order) of each (sequence, token slice) in parallel and writes a number for each column to
 * scratch. Then token_join adds them, a thread for some columns: sequences in order, gradient groups by the tree. */
#include "device/cuda/args/token_sums.h"
#include "device/cuda/common/list.cuh"
#include "device/cuda/common/tree.cuh"

/* A thread's sums: w of products with the normalised x, b of dy. */
template <int W> struct chain_sums { pack<W> w, b; };

/* What a kind of sum loads of a pack of a token's row. */
template <int W> struct chain_packs {
    pack<W> dy, x;
    float mean, rstd;
};

/* Loads a pack of a row; x, mean and rstd only if the kind needs them. */
template <int KIND, int W, class T> LS_DEVICE chain_packs<W> load_token(const ls_cuda_chains &a, size_t row, size_t c) {
    chain_packs<W> in = {};
    in.dy = load_pack<W>((const T *)a.dy + row * a.dy_stride + c);
    if (KIND != LS_CUDA_CHAIN_BIAS) in.x = load_pack<W>(a.x + row * a.x_stride + c), in.rstd = a.rstd[row];
    if (KIND == LS_CUDA_CHAIN_LAYER) in.mean = a.mean[row];
    return in;
}

/* Loads tokens row after row: an address that advances needs fewer registers than one computed for each row. */
template <int KIND, int W, class T> struct chain_rows {
    const T *dy;
    const float *x, *mean, *rstd;

    LS_DEVICE chain_rows(const ls_cuda_chains &a, size_t row, size_t c)
        : dy((const T *)a.dy + row * a.dy_stride + c),
          x(KIND == LS_CUDA_CHAIN_BIAS ? nullptr : a.x + row * a.x_stride + c),
          mean(KIND == LS_CUDA_CHAIN_LAYER ? a.mean + row : nullptr),
          rstd(KIND == LS_CUDA_CHAIN_BIAS ? nullptr : a.rstd + row) {}

    /* Loads the pack of the next row, and advances. */
    LS_DEVICE chain_packs<W> load_next(const ls_cuda_chains &a) {
        chain_packs<W> in = {};
        in.dy = load_pack<W>(dy), dy += a.dy_stride;
        if (KIND != LS_CUDA_CHAIN_BIAS) in.x = load_pack<W>(x), x += a.x_stride, in.rstd = *rstd++;
        if (KIND == LS_CUDA_CHAIN_LAYER) in.mean = *mean++;
        return in;
    }
};

/* Continues the chains with one token. */
template <int KIND, int W> LS_DEVICE void add_token(chain_sums<W> &sums, const chain_packs<W> &in) {
#pragma unroll
    for (int k = 0; k < W; k++) {
        float dy = in.dy.v[k], d = KIND == LS_CUDA_CHAIN_LAYER ? in.x.v[k] - in.mean : in.x.v[k];
        if (KIND != LS_CUDA_CHAIN_RMS) sums.b.v[k] = sums.b.v[k] + dy;
        if (KIND != LS_CUDA_CHAIN_BIAS) sums.w.v[k] = __fmaf_rn(dy, d * in.rstd, sums.w.v[k]);
    }
}

/* Returns the chain over rows row … end − 1. */
template <int KIND, int W, int U, class T>
LS_DEVICE chain_sums<W> chain_of(const ls_cuda_chains &a, size_t row, size_t end, size_t c) {
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

/* Returns the chain over rows row … end − 1 with fewer registers, for a block of many warps. */
template <int KIND, int W, int U, class T>
LS_DEVICE chain_sums<W> chain_of_block(const ls_cuda_chains &a, size_t row, size_t end, size_t c) {
    chain_sums<W> sums = {};
    chain_rows<KIND, W, T> rows(a, row, c);
    for (; row + U <= end; row += U) {
        chain_packs<W> in[U];
#pragma unroll
        for (int u = 0; u < U; u++) in[u] = rows.load_next(a);
#pragma unroll
        for (int u = 0; u < U; u++) add_token<KIND>(sums, in[u]);
    }
    for (; row < end; row++) add_token<KIND>(sums, rows.load_next(a));
    return sums;
}

/* Writes the sums of chain `number`: out[0] gets dw, or db of a bias; out[1] db of a layer norm. */
template <int KIND, int W>
LS_DEVICE void store_chain(const ls_cuda_chains &a, size_t number, size_t c, const chain_sums<W> &sums) {
    const size_t at = number * a.rows.columns + c;
    store_pack<W>(a.out[0] + at, KIND == LS_CUDA_CHAIN_BIAS ? sums.b : sums.w);
    if (KIND == LS_CUDA_CHAIN_LAYER) store_pack<W>(a.out[1] + at, sums.b);
}

/* Sets row and end to the rows of the (sequence, slice) `number`. */
LS_DEVICE void rows_of(const ls_cuda_chains &a, size_t number, size_t &row, size_t &end) {
    const size_t sequence = number / a.slices.slices, slice = number % a.slices.slices;
    row = sequence * a.slices.T + token_of(a.slices, slice);
    end = sequence * a.slices.T + token_of(a.slices, slice + 1);
}

/* Computes slices that are one chain each, a thread for a pack of columns. */
template <int KIND, int W, int U, class T> LS_DEVICE void chains(const ls_cuda_chains &a) {
    const size_t packs = a.rows.columns / W, lanes = (size_t)1 << a.rows.lanes_log2,
                 together = blockDim.x >> a.rows.lanes_log2;
    for (size_t p = blockIdx.y * lanes + (threadIdx.x & (lanes - 1)); p < packs; p += gridDim.y * lanes)
        for (size_t number = blockIdx.x * together + (threadIdx.x >> a.rows.lanes_log2); number < a.rows.rows;
             number += gridDim.x * together) {
            size_t row, end;
            rows_of(a, number, row, end);
            store_chain<KIND, W>(a, number, p * W, chain_of<KIND, W, U, T>(a, row, end, p * W));
        }
}

/* Computes slices that are cut into blocks of tokens: each warp computes the chain of one block of tokens at a time, and the
 * first warp adds these in order. */
template <int KIND, int W, int U, class T> LS_DEVICE void block_chains(const ls_cuda_chains &a, void *space) {
    chain_sums<W>(*parts)[32] = (chain_sums<W>(*)[32])space; /* of each warp */
    const size_t packs = a.rows.columns / W, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (size_t first = 32 * (size_t)blockIdx.y; first < packs; first += 32 * (size_t)gridDim.y) {
        const size_t c = (first + lane) * W;
        const bool is_in = first + lane < packs;
        size_t row, end;
        chain_sums<W> sums = {};
        rows_of(a, blockIdx.x, row, end);
        for (bool is_first = true; row < end; row += LS_CUDA_CHAIN_WARPS * a.block) {
            const size_t begin = row + warp * a.block;
            if (is_in && begin < end)
                parts[warp][lane] =
                    chain_of_block<KIND, W, U, T>(a, begin, end - begin < a.block ? end : begin + a.block, c);
            __syncthreads();
            for (size_t w = 0; warp == 0 && w < LS_CUDA_CHAIN_WARPS && row + w * a.block < end; w++) {
                const chain_sums<W> part = parts[w][lane];
                sums.w = is_first ? part.w : add(sums.w, part.w);
                sums.b = is_first ? part.b : add(sums.b, part.b);
                is_first = false;
            }
            __syncthreads();
        }
        if (warp == 0 && is_in) store_chain<KIND, W>(a, blockIdx.x, c, sums);
    }
}

/* Defines the kernels of a kind. U: rows that a thread loads at a time; fewer if there are many warps. */
#define CHAIN_KERNELS(name, blocks, KIND, U, N)                                                                           \
    LS_KERNEL_MANY(name, ls_cuda_chains, LS_CUDA_CHAIN_THREADS, 8) {                                                      \
        LS_BY_TYPE(a.act, T, { a.rows.aligned ? chains<KIND, 4, U, T>(a) : chains<KIND, 1, 2 * U, T>(a); });           \
    }                                                                                                                  \
    LS_KERNEL_MANY(blocks, ls_cuda_chains, 32 * LS_CUDA_CHAIN_WARPS, N) {                                              \
        __shared__ float4 space[LS_CUDA_CHAIN_WARPS * 32 * 2];                                                         \
        LS_BY_TYPE(a.act, T, {                                                                                         \
            a.rows.aligned ? block_chains<KIND, 4, U / 2, T>(a, space) : block_chains<KIND, 1, U, T>(a, space);        \
        });                                                                                                            \
    }

CHAIN_KERNELS(bias_chains, bias_blocks, LS_CUDA_CHAIN_BIAS, 16, 4)
CHAIN_KERNELS(layer_chains, layer_blocks, LS_CUDA_CHAIN_LAYER, 8, 3)
CHAIN_KERNELS(rms_chains, rms_blocks, LS_CUDA_CHAIN_RMS, 8, 3)

/* Returns `sum` plus sequences begin … end − 1 of a group, in order. It starts as −0, to which adding changes no bit, or as
 * the sum of an earlier call. */
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

/* Joins one sum: each row over the sequences in order by groups, then by the tree; a slice without tokens gets −0, or what was there. */
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

/* Joins the chains of all sums; blockIdx.z is the sum. */
LS_KERNEL(token_join, ls_cuda_token_join, LS_CUDA_PACK_THREADS) {
    const float *in = a.in[blockIdx.z];
    float *out = a.out[blockIdx.z];
    a.rows.aligned ? join<4>(a, in, out) : join<1>(a, in, out);
}

/* Returns the sum of `count` numbers, at least one, `stride` apart, in order: the blocks of tokens of a slice of a sequence. */
LS_DEVICE float join_chain(const float *in, size_t stride, size_t count) {
    enum { AT_ONCE = 8 };
    float sum = *in;
    for (size_t k = 1; k < count; k += AT_ONCE) {
        float x[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (k + i < count) x[i] = in[(k + i) * stride];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (k + i < count) sum = sum + x[i];
    }
    return sum;
}

/* The sums of one column by groups, to which sequences are added in order. */
struct group_sums {
    tree<1> t;
    float start, sum; /* of a group: what it begins with, what it has */
    int group;
    size_t bound; /* sequence with which it ends */

    LS_DEVICE group_sums(const ls_cuda_token_join &a, float start)
        : start(start), sum(start), group(0), bound(size_at(a.bounds, 1)) {
        t.begin();
    }
    /* Ends a group: pushes its sum to the tree and begins the next group. */
    LS_DEVICE void end_group(const ls_cuda_token_join &a) {
        t.push(group++, {{sum}});
        sum = start;
        if (group < a.groups) bound = size_at(a.bounds, group + 1);
    }
    /* Adds what a sequence contributes; sequences ascend. */
    LS_DEVICE void take(const ls_cuda_token_join &a, size_t sequence, float x) {
        while (sequence >= bound) end_group(a);
        sum = sum + x;
    }
    /* Returns the tree over all groups. */
    LS_DEVICE float end(const ls_cuda_token_join &a) {
        while (group < a.groups) end_group(a);
        t.end();
        return t.sum.v[0];
    }
};

/* Joins the chains of few columns, or of slices cut into blocks of tokens: a thread block has 32 columns of a slice, its warps add the
 * blocks of tokens of different sequences, and the first warp joins these. blockIdx.z is the sum. */
LS_KERNEL(token_join_few, ls_cuda_token_join, 32 * LS_CUDA_JOIN_WARPS) {
    enum { TURNS = 4, SEQUENCES = TURNS * LS_CUDA_JOIN_WARPS };
    __shared__ float parts[SEQUENCES][32];
    const size_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, c = blockIdx.x * 32 + lane, columns = a.rows.columns,
                 sequences = size_at(a.bounds, a.groups);
    for (size_t row = blockIdx.y; row < a.rows.rows; row += gridDim.y) {
        const size_t tokens = token_of(a.slices, row + 1) - token_of(a.slices, row),
                     chains = a.block ? (tokens + a.block - 1) / a.block : 1;
        const float *in = a.in[blockIdx.z] + row * a.in_stride + c;
        float *out = a.out[blockIdx.z] + row * columns + c;
        group_sums sums(a, a.accumulate && c < columns ? *out : -0.0f);
        for (size_t first = 0; tokens > 0 && first < sequences; first += SEQUENCES) {
            const size_t count = sequences - first < SEQUENCES ? sequences - first : (size_t)SEQUENCES;
#pragma unroll
            for (int i = 0; i < TURNS; i++) {
                const size_t s = warp + i * LS_CUDA_JOIN_WARPS;
                if (s < count && c < columns) parts[s][lane] = join_chain(in + (first + s) * a.in_sequence, columns, chains);
            }
            __syncthreads();
            for (size_t s = 0; warp == 0 && s < count; s++) sums.take(a, first + s, parts[s][lane]);
            __syncthreads();
        }
        if (warp == 0 && c < columns) *out = tokens > 0 ? sums.end(a) : sums.start;
    }
}
