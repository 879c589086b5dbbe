/* loss.cu: softmax cross-entropy (docs/arithmetic.md, "Softmax cross-entropy"). A block has a row.
 *
 * loss_rows keeps the row in shared memory, so that z is read once: logits, then their exponentials. The chains of
 * sum16 are few, sixteen for each slice; so that they do not stand alone, the first warps add up one stretch of every
 * slice while the others raise the next:
 *
 *     first warps         | add stretch 0 | add stretch 1 | …
 *     others   | exp of 0 | exp of 1      | exp of 2      | …
 *
 * A multiprocessor has room for one long row, and nothing is read while it computes: so a block asks for the row that
 * comes after its own, which waits in the GPU's cache then. */
#include "device/cuda/args/loss.h"
#include "device/cuda/common/list.cuh"
#include "device/cuda/common/math.cuh"
#include "device/cuda/common/tree.cuh"

enum { AT_ONCE = 4, PACKS_OF_A_STRETCH = 2 }; /* of a thread */

/* The column of a row's target, counted from that of id_begin; whether it is one of those held here. */
LS_DEVICE int64_t target_of(const ls_cuda_loss &a, size_t row) { return (int64_t)a.targets[row] - a.id_begin; }
LS_DEVICE bool is_held(const ls_cuda_loss &a, int64_t column) {
    return column >= (int64_t)a.first && column < (int64_t)(a.first + a.columns);
}

/* The largest number of the block, for all of its threads; `space` has one for each warp. */
LS_DEVICE float block_max(float most, float *space) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) most = max_of(most, __shfl_xor_sync(~0u, most, mask));
    if (threadIdx.x % 32 == 0) space[threadIdx.x / 32] = most;
    __syncthreads();
    most = space[0];
    for (unsigned w = 1; w < blockDim.x / 32; w++) most = max_of(most, space[w]);
    return most;
}

/* visit(width, i, z of i … i + width − 1) for the columns of a row, counted from the first; `z` is where they begin. */
template <int W, int LOADS, class F>
LS_DEVICE void visit_packs(const float *z, uint32_t begin, uint32_t end, const F &visit) {
    const uint32_t step = blockDim.x * W;
    uint32_t i = begin + threadIdx.x * W;
    for (; i + (LOADS - 1) * step < end; i += LOADS * step) {
        pack<W> x[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; k++) x[k] = load_pack<W>(z + (i + k * step));
#pragma unroll
        for (int k = 0; k < LOADS; k++) visit(width<W>(), i + k * step, x[k]);
    }
    for (; i < end; i += step) visit(width<W>(), i, load_pack<W>(z + i));
}

/* LOADS packs of four, or twice as many single numbers, are under way at a time. */
template <int LOADS, class F> LS_DEVICE void visit_row(const ls_cuda_loss &a, const float *z, const F &visit) {
    const uint32_t columns = (uint32_t)a.columns, whole = a.aligned ? columns / 4 * 4 : 0; /* ids have 32 bits */
    visit_packs<4, LOADS>(z, 0, whole, visit);
    visit_packs<1, 2 * LOADS>(z, whole, columns, visit);
}

template <int W> LS_DEVICE float most_of(float most, const pack<W> &x) {
#pragma unroll
    for (int k = 0; k < W; k++) most = max_of_any_zero(most, x.v[k]);
    return most;
}

/* The largest number of the row at z, of which a thread has seen `most` at most. If it is a zero, which one is looked
 * for again. */
LS_DEVICE float row_max(const ls_cuda_loss &a, const float *z, float most, float *space) {
    most = block_max(most, space);
    if (most != 0.0f) return most;
    most = -0.0f;
    for (size_t i = threadIdx.x; i < a.columns; i += blockDim.x) most = __float_as_uint(z[i]) == 0 ? 0.0f : most;
    __syncthreads();
    return block_max(most, space);
}

LS_DEVICE float value_of(float z_target, float m, float l) { return log_of(l) - (z_target - m); }
/* e: the exponential. p − 0 is p, as no exponential is −0. */
LS_DEVICE float dz_of(float e, float l, float g, bool is_target) {
    float p = __fdiv_rn(e, l);
    return (is_target ? p - 1.0f : p) * g;
}

/* ---- whole rows -------------------------------------------------------------------------------------------------- */

/* Where slice i begins in the row, counted from the first column; the end of the last too. In shared memory, like the
 * row. */
LS_DEVICE void copy_bounds(const ls_cuda_loss &a, uint32_t *ends) {
    for (size_t i = threadIdx.x; i <= a.slices; i += blockDim.x) ends[i] = (uint32_t)(size_at(a.bounds, i) - a.first);
}

/* e^x for x ≤ 0. */
LS_DEVICE float exp_number(float x) { return x < -0x1.5d589ep+6f ? 0.0f : exp_core(x); }

/* Exponentials of packs begin … end − 1 of the row, by `threads` threads of which this is number `thread`. */
LS_DEVICE void raise(float *row, float m, unsigned begin, unsigned end, unsigned thread, unsigned threads) {
    for (unsigned p = begin + thread; p < end; p += threads) {
        float *at = row + 4 * p;
        store_pack<4>(at, map(load_pack<4>((const float *)at), [=](float x) { return exp_number(x - m); }));
    }
}

/* Goes on with lane j of a slice over elements begin … end − 1; begin is a multiple of 16. */
LS_DEVICE float add_stretch(const float *row, const uint32_t *ends, size_t slice, unsigned begin, unsigned end,
                            float sum) {
    enum { LOADS = 16 };
    const unsigned at = ends[slice], n = ends[slice + 1] - at, to = end < n ? end : n;
    unsigned i = begin + threadIdx.x % 16;
    if (i + 16 * (LOADS - 1) < to) {
        /* Numbers of the next turn are on their way while those of this one are added. */
        float x[LOADS], next[LOADS];
#pragma unroll
        for (unsigned k = 0; k < LOADS; k++) x[k] = row[at + i + 16 * k];
        for (i += 16 * LOADS; i + 16 * (LOADS - 1) < to; i += 16 * LOADS) {
#pragma unroll
            for (unsigned k = 0; k < LOADS; k++) next[k] = row[at + i + 16 * k];
#pragma unroll
            for (unsigned k = 0; k < LOADS; k++) sum = sum + x[k];
#pragma unroll
            for (unsigned k = 0; k < LOADS; k++) x[k] = next[k];
        }
#pragma unroll
        for (unsigned k = 0; k < LOADS; k++) sum = sum + x[k];
    }
    for (; i < to; i += 16) sum = sum + row[at + i];
    return sum;
}

/* The exponentials of a row in shared memory, and their sums by slices. A slice raises the packs from that of its first
 * element on; the one in which it ends, the next slice raises first of all. */
LS_DEVICE void sum_row(const ls_cuda_loss &a, float *row, float m, float *sums, const uint32_t *ends) {
    const unsigned slices = (unsigned)a.slices, chains = 16 * slices, adders = (chains + 31) / 32,
                   warps = blockDim.x / 32, packs = (ends[slices] + 3) / 4;
    if (4 * adders > warps) {
        raise(row, m, 0, packs, threadIdx.x, blockDim.x);
        __syncthreads();
        for (unsigned first = 0; first < chains; first += blockDim.x) {
            const unsigned slice = (first + threadIdx.x) / 16;
            float sum = slice < slices ? add_stretch(row, ends, slice, 0, ~0u, 0.0f) : 0.0f;
            sum = join16(sum);
            if (slice < slices && threadIdx.x % 16 == 0) sums[slice] = sum;
        }
        __syncthreads();
        return;
    }
    unsigned longest = 0;
    for (unsigned s = 0; s < slices; s++) longest = ends[s + 1] - ends[s] > longest ? ends[s + 1] - ends[s] : longest;
    /* A stretch gives every raising warp some packs, so that none waits long for another. Sums stay sixteen elements
     * behind: a slice need not begin with a pack. */
    const unsigned raisers = (warps - adders) * 32, each = raisers / slices / 4 * 4, stretch = 4 * PACKS_OF_A_STRETCH * each,
                   slice = threadIdx.x / 16, number = threadIdx.x - 32 * adders;
    float sum = 0.0f;
    for (unsigned begin = 0; begin < longest + stretch + 16; begin += stretch) {
        if (threadIdx.x >= 32 * adders) {
            const unsigned s = number / each, first = s < slices ? ends[s] / 4 : 0,
                           last = s + 1 < slices ? ends[s + 1] / 4 : packs,
                           from = first + begin / 4, to = from + stretch / 4 < last ? from + stretch / 4 : last;
            if (s < slices) raise(row, m, from, to, number % each, each);
        } else if (slice < slices && begin > 0) {
            sum = add_stretch(row, ends, slice, begin > stretch ? begin - stretch - 16 : 0, begin - 16, sum);
        }
        __syncthreads();
    }
    if (threadIdx.x < 32 * adders) {
        sum = join16(sum);
        if (slice < slices && threadIdx.x % 16 == 0) sums[slice] = sum;
    }
    __syncthreads();
}

/* e / l of a row, with `inverse`, 1 / l as it is rounded. With a quotient that is one of the two neighbours of the true
 * one, a step with the exact remainder gives the rounded one (Markstein); the remainder is exact where e is not tiny. */
LS_DEVICE float quotient_of(float e, float l, float inverse) {
    float q = e * inverse;
    q = __fmaf_rn(__fmaf_rn(-q, l, e), inverse, q);
    return __fmaf_rn(__fmaf_rn(-q, l, e), inverse, q);
}

template <class T> LS_DEVICE void grad_row(const ls_cuda_loss &a, const float *row, T *dz, float l, int64_t target) {
    const float inverse = __frcp_rn(l);
    visit_row<2>(a, row, [&](auto w, uint32_t i, const auto &e) {
        pack<w.n> d;
        uint32_t least = __float_as_uint(e.v[0]); /* numbers from 0 on are in the order of their bits */
#pragma unroll
        for (int k = 1; k < w.n; k++) least = __float_as_uint(e.v[k]) < least ? __float_as_uint(e.v[k]) : least;
        if (least >= __float_as_uint(0x1p-90f)) {
#pragma unroll
            for (int k = 0; k < w.n; k++) d.v[k] = quotient_of(e.v[k], l, inverse) * a.g;
        } else {
#pragma unroll
            for (int k = 0; k < w.n; k++) d.v[k] = __fdiv_rn(e.v[k], l) * a.g;
        }
        store_pack<w.n>(dz + i, d);
    });
    __syncthreads();
    if (threadIdx.x == 0) store(dz + target, dz_of(row[target], l, a.g, true));
}

/* Where the largest logit is not finite, nothing is: it is itself, or the difference to it. */
template <class T> LS_DEVICE void fill_row(const ls_cuda_loss &a, T *dz, float value) {
    for (size_t i = threadIdx.x; i < a.columns; i += blockDim.x) store(dz + i, value);
}

LS_KERNEL(loss_rows, ls_cuda_loss, LS_CUDA_LOSS_THREADS) {
    __shared__ float space[LS_CUDA_LOSS_THREADS / 32], sum;
    LS_SHARED(float, row); /* columns of it, then the sums of slices and where these end */
    float *sums = row + (a.columns + 3) / 4 * 4;
    uint32_t *ends = (uint32_t *)(sums + a.slices);
    const size_t r = blockIdx.x;
    const float *z = a.z + r * a.z_stride + a.first;
    const int64_t target = target_of(a, r) - (int64_t)a.first; /* all lie in the columns */
    const float z_target = z[target];
    float m = __uint_as_float(0xFF800000u);
    copy_bounds(a, ends);
    visit_row<4>(a, z, [&](auto w, size_t i, const auto &x) {
        store_pack<w.n>(row + i, x);
        m = most_of(m, x);
    });
    m = row_max(a, row, m, space); /* waits for the row too */
    if (r + a.ahead < a.rows)
        for (size_t i = (size_t)threadIdx.x * 32; i < a.columns; i += (size_t)blockDim.x * 32)
            prefetch(z + a.ahead * a.z_stride + i);
    const bool is_finite = abs_of(m) < __uint_as_float(0x7F800000u);
    if (is_finite) sum_row(a, row, m, sums, ends);
    if (threadIdx.x == 0) {
        tree<1> t;
        t.begin();
        for (size_t i = 0; i < a.slices && is_finite; i++) t.push((int)i, pack<1>{{sums[i]}});
        t.end();
        sum = is_finite ? t.sum.v[0] : __uint_as_float(LS_NAN_BITS);
        a.loss[r] = value_of(z_target, m, sum);
        if (a.m) a.m[r] = m;
        if (a.l) a.l[r] = sum;
    }
    if (!a.dz) return;
    __syncthreads();
    LS_BY_TYPE(a.dz_dtype, T, {
        T *dz = (T *)a.dz + r * a.dz_stride + a.first;
        if (is_finite)
            grad_row(a, row, dz, sum, target);
        else
            fill_row(a, dz, sum);
    });
}

/* ---- rows that workers share, and rows that shared memory does not hold ------------------------------------------ */

LS_KERNEL(loss_max, ls_cuda_loss, LS_CUDA_LOSS_THREADS) {
    __shared__ float space[LS_CUDA_LOSS_THREADS / 32];
    const size_t r = blockIdx.x;
    const float *z = a.z + r * a.z_stride;
    float m = __uint_as_float(0xFF800000u);
    visit_row<4>(a, z + a.first, [&](auto, size_t, const auto &x) { m = most_of(m, x); });
    m = row_max(a, z + a.first, m, space);
    if (threadIdx.x > 0) return;
    const int64_t target = target_of(a, r);
    a.m[r] = m;
    a.z_target[r] = is_held(a, target) ? z[target] : __uint_as_float(0xFF800000u);
}

/* Half a warp has a slice of a row: thread j of sixteen is lane j. */
LS_KERNEL(loss_sums, ls_cuda_loss, 16 * LS_CUDA_LOSS_SUMS) {
    enum { LOADS = 16 };
    size_t unit = (size_t)blockIdx.x * LS_CUDA_LOSS_SUMS + threadIdx.x / 16;
    const bool is_in = unit < a.rows * a.slices;
    if (!is_in) unit = 0;
    const size_t r = unit / a.slices, slice = unit % a.slices, end = size_at(a.bounds, slice + 1);
    const float *z = a.z + r * a.z_stride, m = a.m[r];
    size_t i = size_at(a.bounds, slice) + threadIdx.x % 16;
    float sum = 0.0f;
    for (; i + 16 * (LOADS - 1) < end; i += 16 * LOADS) {
        float x[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; k++) x[k] = z[i + 16 * k];
#pragma unroll
        for (int k = 0; k < LOADS; k++) sum = sum + exp_of(x[k] - m);
    }
    for (; i < end; i += 16) sum = sum + exp_of(z[i] - m);
    sum = join16(sum);
    if (is_in && threadIdx.x % 16 == 0) a.sums[slice * a.rows + r] = sum;
}

LS_KERNEL(loss_values, ls_cuda_loss, LS_CUDA_LOSS_VALUES) {
    size_t r = (size_t)blockIdx.x * LS_CUDA_LOSS_VALUES + threadIdx.x;
    if (r < a.rows) a.loss[r] = value_of(a.z_target[r], a.m[r], a.l[r]);
}

/* A 16-bit dz over z: its elements are half as wide, so the block reads a stretch whole before it writes it. */
template <class T>
LS_DEVICE void grad_over(const ls_cuda_loss &a, const float *z, T *dz, float m, float l, int64_t target) {
    for (size_t first = 0; first < a.columns; first += AT_ONCE * (size_t)blockDim.x) {
        float x[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            size_t i = first + k * blockDim.x + threadIdx.x;
            x[k] = i < a.columns ? z[i] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            size_t i = first + k * blockDim.x + threadIdx.x;
            if (i < a.columns) store(dz + i, dz_of(exp_of(x[k] - m), l, a.g, (int64_t)i == target));
        }
        __syncthreads();
    }
}

LS_KERNEL(loss_grad, ls_cuda_loss, LS_CUDA_LOSS_THREADS) {
    const size_t r = blockIdx.x;
    const float *z = a.z + r * a.z_stride + a.first, m = a.m[r], l = a.l[r];
    const int64_t target = target_of(a, r) - (int64_t)a.first;
    LS_BY_TYPE(a.dz_dtype, T, {
        T *dz = (T *)a.dz + r * a.dz_stride + a.first;
        if (a.over)
            grad_over(a, z, dz, m, l, target);
        else
            visit_row<2>(a, z, [&](auto w, size_t i, const auto &x) {
                pack<w.n> d;
                for (int k = 0; k < w.n; k++) d.v[k] = dz_of(exp_of(x.v[k] - m), l, a.g, (int64_t)(i + k) == target);
                store_pack<w.n>(dz + i, d);
            });
    });
}
