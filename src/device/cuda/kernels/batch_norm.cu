/* batch_norm.cu: batch norm over ghost groups, the images over which statistics are taken (docs/reference/arithmetic-images.md,
 * "Batch norm"); launched by ops/batch_norm.c.
 *
 *     chains   a thread has a channel of an image and adds its pixels in order
 *     join     a thread adds the chains of a group and channel in the order of the images, and makes a statistic of the sum
 *     maps     a block has some pixels of an image; a thread keeps its channels, with their statistics, for some pixels */
#include "device/cuda/common/base.cuh"
#include "device/cuda/args/batch_norm.h"

/* Returns the gradient of ReLU's input, from that of its result y and y itself. */
LS_DEVICE float behind_relu(float dy, float y) { return y <= 0.0f ? 0.0f : dy; }

/* Where the chain of this thread begins (`first`, in x), where its sum goes (`at`), and the statistics of its image (`stat`). */
struct chain_place {
    bool is_there; /* false: the thread has no chain, and the other fields must not be used */
    size_t at, first, stat;
    /* Computes the fields for this thread. */
    LS_DEVICE void find(const ls_cuda_batch_norm &a) {
        at = (size_t)blockIdx.x * LS_CUDA_BATCH_NORM_CHAINS + threadIdx.x;
        is_there = at < a.images * a.channels;
        size_t image = at / a.channels, channel = at - image * a.channels;
        first = image * a.pixels * a.channels + channel;
        stat = image / a.ghost * a.stat_step + channel;
    }
};

/* Adds `count` pixels to a chain, one after another: N pixels are loaded while N others are added. */
template <int N, class CHAIN> LS_DEVICE void follow(CHAIN &chain, size_t count) {
    typename CHAIN::number now[N], next[N];
    const size_t whole = count / N * N;
    if (whole) LS_UNROLL for (int e = 0; e < N; e++) now[e] = chain.load(e);
    size_t i = 0;
    for (; i + N < whole; i += N) {
        LS_UNROLL for (int e = 0; e < N; e++) next[e] = chain.load(i + N + e);
        LS_UNROLL for (int e = 0; e < N; e++) chain.add(now[e]);
        LS_UNROLL for (int e = 0; e < N; e++) now[e] = next[e];
    }
    if (whole) LS_UNROLL for (int e = 0; e < N; e++) chain.add(now[e]);
    for (i = whole; i < count; i++) chain.add(chain.load(i));
}

/* The chains that follow() runs over pixels `step` apart, of which load(i) loads pixel i and add() continues the sums: of x, of
 * (x − mean)², and of the gradient behind ReLU (`sum`) and its product with the normalised x (`dot`). */
struct sum_chain {
    typedef float number;
    const float *x;
    size_t step;
    float sum;
    LS_DEVICE float load(size_t i) const { return x[i * step]; }
    LS_DEVICE void add(float value) { sum = sum + value; }
};

struct square_chain {
    typedef float number;
    const float *x;
    size_t step;
    float mean, sum;
    LS_DEVICE float load(size_t i) const { return x[i * step]; }
    LS_DEVICE void add(float value) {
        const float d = value - mean;
        sum = __fmaf_rn(d, d, sum);
    }
};

template <bool RELU> struct grad_chain {
    struct number {
        float x, dy, y;
    };
    const float *x, *dy, *y;
    size_t step;
    float mean, rstd, sum, dot;
    LS_DEVICE number load(size_t i) const { return {x[i * step], dy[i * step], RELU ? y[i * step] : 0.0f}; }
    LS_DEVICE void add(const number &at) {
        const float g = RELU ? behind_relu(at.dy, at.y) : at.dy, h = (at.x - mean) * rstd;
        sum = sum + g;
        dot = __fmaf_rn(g, h, dot);
    }
};

/* Sums x of each image and channel into chains[0]. */
LS_KERNEL_ALONE(batch_norm_sums, ls_cuda_batch_norm, LS_CUDA_BATCH_NORM_CHAINS) {
    chain_place p;
    p.find(a);
    if (!p.is_there) return;
    sum_chain c = {a.x + p.first, a.channels, 0.0f};
    follow<16>(c, a.pixels);
    a.chains[0][p.at] = c.sum;
}

/* Sums (x − mean)² of each image and channel into chains[0]. */
LS_KERNEL_ALONE(batch_norm_squares, ls_cuda_batch_norm, LS_CUDA_BATCH_NORM_CHAINS) {
    chain_place p;
    p.find(a);
    if (!p.is_there) return;
    square_chain c = {a.x + p.first, a.channels, a.mean[p.stat], 0.0f};
    follow<16>(c, a.pixels);
    a.chains[0][p.at] = c.sum;
}

/* Sums dy (behind ReLU) into chains[0], and its products with the normalised x into chains[1]. */
template <bool RELU> LS_DEVICE void grad_sums(const ls_cuda_batch_norm &a) {
    chain_place p;
    p.find(a);
    if (!p.is_there) return;
    grad_chain<RELU> c = {a.x + p.first, a.dy + p.first, RELU ? a.y + p.first : nullptr, a.channels, a.mean[p.stat],
                          a.rstd[p.stat], 0.0f, 0.0f};
    follow<8>(c, a.pixels);
    a.chains[0][p.at] = c.sum;
    a.chains[1][p.at] = c.dot;
}

/* Sums dy (behind ReLU) of each image and channel into chains[0], and its products with the normalised x into chains[1]. */
LS_KERNEL_ALONE(batch_norm_grad_sums, ls_cuda_batch_norm, LS_CUDA_BATCH_NORM_CHAINS) {
    a.relu ? grad_sums<true>(a) : grad_sums<false>(a);
}

/* Writes rstd, and var if it is not NULL, of statistic `at` from its sum of squares. */
LS_DEVICE void make_rstd(const ls_cuda_batch_norm &a, size_t at, float sum) {
    float var = __fdiv_rn(sum, a.count);
    if (a.var) a.var[at] = var;
    a.rstd[at] = __fdiv_rn(1.0f, __fsqrt_rn(var + a.eps));
}

/* Returns the sum of a group's images in their order. */
LS_DEVICE float joined_sum(const ls_cuda_batch_norm &a, const float *chains, size_t group, size_t channel) {
    const float *first = chains + group * a.ghost * a.channels + channel;
    sum_chain c = {first + a.channels, a.channels, first[0]};
    follow<16>(c, a.ghost - 1);
    return c.sum;
}

/* Joins the chains by groups, and writes the sum, the mean or rstd and var, as a.kind says; chains[1] always as a sum. */
LS_KERNEL_ALONE(batch_norm_join, ls_cuda_batch_norm, LS_CUDA_BATCH_NORM_CHAINS) {
    size_t at = (size_t)blockIdx.x * LS_CUDA_BATCH_NORM_CHAINS + threadIdx.x, group = at / a.channels,
           channel = at - group * a.channels;
    if (group >= a.images / a.ghost) return;
    float sum = joined_sum(a, a.chains[0], group, channel);
    if (a.kind == LS_CUDA_BATCH_NORM_MEAN)
        a.mean[at] = __fdiv_rn(sum, a.count);
    else if (a.kind == LS_CUDA_BATCH_NORM_RSTD)
        make_rstd(a, at, sum);
    else
        a.joined[0][at] = sum;
    if (a.joined[1]) a.joined[1][at] = joined_sum(a, a.chains[1], group, channel);
}

/* Writes the mean, or rstd and var, of sums that workers have joined. */
LS_KERNEL(batch_norm_stats, ls_cuda_batch_norm, LS_CUDA_BATCH_NORM_THREADS) {
    size_t at = (size_t)blockIdx.x * LS_CUDA_BATCH_NORM_THREADS + threadIdx.x;
    if (at >= a.stats) return;
    if (a.kind == LS_CUDA_BATCH_NORM_MEAN)
        a.mean[at] = __fdiv_rn(a.sums[at], a.count);
    else
        make_rstd(a, at, a.sums[at]);
}

/* V neighbouring channels. */
template <int V> struct channels {
    float x[V];
    LS_DEVICE void load(const float *p) {
        if constexpr (V == 4) {
            float4 v = load4(p);
            x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
        } else {
            x[0] = *p;
        }
    }
    LS_DEVICE void store(float *p) const {
        if constexpr (V == 4)
            store4(p, make_float4(x[0], x[1], x[2], x[3]));
        else
            *p = x[0];
    }
};

/* This thread's pixels begin … end−1 in steps of `step`, and its first group of channels; further ones are `across`
 * groups on. */
template <int V> struct map_place {
    size_t image, stats, begin, end, step;
    uint32_t first, across;
    /* Computes the fields for this thread; end is 0, no pixels, for threads that are left over. */
    LS_DEVICE void find(const ls_cuda_batch_norm &a) {
        size_t groups = a.channels / V, piece;
        across = (uint32_t)min(groups, (size_t)LS_CUDA_BATCH_NORM_THREADS);
        uint32_t rows = LS_CUDA_BATCH_NORM_THREADS / across, row = threadIdx.x / across;
        first = threadIdx.x - row * across;
        image = blockIdx.x / a.pieces;
        piece = blockIdx.x - image * a.pieces;
        stats = image / a.ghost * a.stat_step;
        begin = a.pixels * piece / a.pieces + row;
        end = row < rows ? a.pixels * (piece + 1) / a.pieces : 0;
        step = rows;
    }
};

/* Computes y of a part of an image. A thread loads before it stores the same numbers, so outputs may be inputs. */
template <int V, bool RESIDUAL> LS_DEVICE void apply_map(const ls_cuda_batch_norm &a) {
    map_place<V> p;
    p.find(a);
    for (size_t c = (size_t)p.first * V; c < a.channels; c += (size_t)p.across * V) {
        channels<V> mean, rstd, w, b;
        mean.load(a.mean + p.stats + c);
        rstd.load(a.rstd + p.stats + c);
        w.load(a.w + c);
        b.load(a.b + c);
        LS_UNROLL_4 for (size_t i = p.begin; i < p.end; i += p.step) {
            size_t at = (p.image * a.pixels + i) * a.channels + c;
            channels<V> x, r;
            x.load(a.x + at);
            if (RESIDUAL) r.load(a.residual + at);
            LS_UNROLL for (int e = 0; e < V; e++) {
                float y = __fmaf_rn((x.x[e] - mean.x[e]) * rstd.x[e], w.x[e], b.x[e]);
                if (RESIDUAL) y = y + r.x[e];
                x.x[e] = a.relu && y <= 0.0f ? 0.0f : y;
            }
            x.store(a.y + at);
        }
    }
}

/* Computes y from x, mean and rstd, with residual and ReLU if the call has them. */
LS_KERNEL(batch_norm_apply, ls_cuda_batch_norm, LS_CUDA_BATCH_NORM_THREADS) {
    if (a.is_vector)
        a.residual ? apply_map<4, true>(a) : apply_map<4, false>(a);
    else
        a.residual ? apply_map<1, true>(a) : apply_map<1, false>(a);
}

/* Computes dx, and dresidual if it is not NULL, of a part of an image. A thread loads before it stores the same numbers. */
template <int V, bool RELU> LS_DEVICE void input_grad_map(const ls_cuda_batch_norm &a) {
    map_place<V> p;
    p.find(a);
    for (size_t c = (size_t)p.first * V; c < a.channels; c += (size_t)p.across * V) {
        channels<V> mean, rstd, w, s, t;
        mean.load(a.mean + p.stats + c);
        rstd.load(a.rstd + p.stats + c);
        w.load(a.w + c);
        s.load(a.sum + p.stats + c);
        t.load(a.dot + p.stats + c);
        LS_UNROLL for (int e = 0; e < V; e++) {
            s.x[e] = __fdiv_rn(s.x[e], a.count);
            t.x[e] = __fdiv_rn(t.x[e], a.count);
            w.x[e] = w.x[e] * rstd.x[e];
        }
        LS_UNROLL_4 for (size_t i = p.begin; i < p.end; i += p.step) {
            size_t at = (p.image * a.pixels + i) * a.channels + c;
            channels<V> x, g, y;
            x.load(a.x + at);
            g.load(a.dy + at);
            if (RELU) y.load(a.y + at);
            LS_UNROLL for (int e = 0; e < V; e++) {
                if (RELU) g.x[e] = behind_relu(g.x[e], y.x[e]);
                float h = (x.x[e] - mean.x[e]) * rstd.x[e];
                x.x[e] = w.x[e] * __fmaf_rn(-h, t.x[e], g.x[e] - s.x[e]);
            }
            if (a.dresidual) g.store(a.dresidual + at);
            x.store(a.dx + at);
        }
    }
}

/* Computes dx, and dresidual if it is not NULL, from dy and the sums of grad_sums. */
LS_KERNEL(batch_norm_input_grad, ls_cuda_batch_norm, LS_CUDA_BATCH_NORM_THREADS) {
    if (a.is_vector)
        a.relu ? input_grad_map<4, true>(a) : input_grad_map<4, false>(a);
    else
        a.relu ? input_grad_map<1, true>(a) : input_grad_map<1, false>(a);
}
