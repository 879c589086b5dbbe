/* count.cu: counts of numbers of a kind, the first bad number, sums of losses, right answers; launched by ops/count.c. Everything that
 * is added is an integer, so it does not matter which block adds first. */
#include "device/cuda/args/count.h"
#include "device/cuda/common/pack.cuh"

#define INFINITY_BITS 0x7F800000u

/* Returns the bits of |x|, which are in the order of the numbers; NaN is above infinity. */
LS_DEVICE uint32_t magnitude(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }

/* Adds the counts of a block's threads to *out by one atomic; `space`, in shared memory, has a number for each warp. All threads call
 * it. */
LS_DEVICE void add_block(unsigned long long *out, uint32_t count, uint32_t *space) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) count += __shfl_xor_sync(~0u, count, mask);
    if (threadIdx.x % 32 == 0) space[threadIdx.x / 32] = count;
    __syncthreads();
    if (threadIdx.x > 0) return;
    unsigned long long sum = 0;
    for (unsigned w = 0; w < blockDim.x / 32; w++) sum += space[w];
    if (sum) atomicAdd(out, sum);
}

/* Adds the four counts of ls_count. Counts in 32 bits per thread, which sees fewer than 2^32 elements. */
LS_KERNEL(count, ls_cuda_count, LS_CUDA_PACK_THREADS) {
    __shared__ uint32_t space[LS_CUDA_COUNTS][LS_CUDA_PACK_THREADS / 32];
    uint32_t counts[LS_CUDA_COUNTS] = {0, 0, 0, 0};
    each_elem<4, LS_CUDA_COUNT_PACKS>(
        a.flat, [&](auto w, size_t i) { return load_pack<w.n>(a.x + i); },
        [&](auto w, size_t, const auto &x) {
#pragma unroll
            for (int k = 0; k < w.n; k++) {
                uint32_t size = magnitude(x.v[k]), product = magnitude(x.v[k] * a.scale);
                counts[0] += size != 0 && product <= a.flushed;
                counts[1] += product >= a.high && product <= INFINITY_BITS;
                counts[2] += size != 0;
                counts[3] += size >= INFINITY_BITS;
            }
        });
#pragma unroll
    for (int i = 0; i < LS_CUDA_COUNTS; i++) add_block(a.out + i, counts[i], space[i]);
}

template <int W> struct difference_packs { pack<W> before, after, by; };

/* Computes before = after − before, and adds to *lost the elements that did not change although `by` is not 0. */
LS_KERNEL(difference, ls_cuda_difference, LS_CUDA_PACK_THREADS) {
    __shared__ uint32_t space[LS_CUDA_PACK_THREADS / 32];
    uint32_t lost = 0;
    each_elem<4, 1>(
        a.flat,
        [&](auto w, size_t i) {
            return difference_packs<w.n>{load_pack<w.n>(a.before + i), load_pack<w.n>(a.after + i),
                                         load_pack<w.n>(a.by + i)};
        },
        [&](auto w, size_t i, const auto &in) {
#pragma unroll
            for (int k = 0; k < w.n; k++)
                lost += magnitude(in.by.v[k]) != 0 && __float_as_uint(in.before.v[k]) == __float_as_uint(in.after.v[k]);
            store_pack<w.n>(a.before + i,
                            map(in.after, in.before, [](float after, float before) { return after - before; }));
        });
    add_block(a.lost, lost, space);
}

/* Returns whether x is infinite or NaN. */
LS_DEVICE bool is_bad(float x) { return magnitude(x) >= INFINITY_BITS; }

/* Lowers *first to the index of this thread's first element that is not finite. */
template <class T> LS_DEVICE void find(const ls_cuda_find &a) {
    unsigned long long first = ~0ull;
    each_elem<widest<T>::n, 2>(
        a.flat, [&](auto w, size_t i) { return load_pack<w.n>((const T *)a.x + i); },
        [&](auto w, size_t i, const auto &x) {
#pragma unroll
            for (int k = w.n - 1; k >= 0; k--)
                if (is_bad(x.v[k]) && i + k < first) first = i + k;
        });
    if (first != ~0ull) atomicMin(a.first, first);
}

/* Sets *first to the index of the first element that is not finite; leaves it if there is none. */
LS_KERNEL(find_bad, ls_cuda_find, LS_CUDA_PACK_THREADS) {
    LS_BY_TYPE(a.dtype, T, { find<T>(a); });
}

/* Adds losses in multiples of 2^−24, wrapping; those not finite or not below 2^31 count as bad (numerics/exact_sum.h). */
LS_KERNEL(add_losses, ls_cuda_losses, LS_CUDA_PACK_THREADS) {
    __shared__ unsigned long long sums[3];
    if (threadIdx.x < 3) sums[threadIdx.x] = 0;
    __syncthreads();
    unsigned long long total = 0, count = 0, bad = 0;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += (size_t)gridDim.x * blockDim.x) {
        if (a.context > 0 && i % a.T < a.context) continue;
        const float loss = a.loss[i];
        if (magnitude(loss) < __float_as_uint(0x1p31f)) {
            total += (unsigned long long)__double2ll_rn((double)loss * 0x1p24);
            count++;
        } else {
            bad++;
        }
    }
    if (count) atomicAdd(sums, total), atomicAdd(sums + 1, count);
    if (bad) atomicAdd(sums + 2, bad);
    __syncthreads();
    if (threadIdx.x < 3 && sums[threadIdx.x]) atomicAdd(a.sum + threadIdx.x, sums[threadIdx.x]);
}

/* Counts the rows whose largest logit, the first of equal ones, is that of the target: a row per warp. Every lane begins with column 0,
 * so that a NaN there stays the largest. */
LS_KERNEL(count_right, ls_cuda_right, LS_CUDA_PACK_THREADS) {
    __shared__ uint32_t space[LS_CUDA_PACK_THREADS / 32];
    const size_t warps = (size_t)gridDim.x * (blockDim.x / 32);
    uint32_t right = 0;
    for (size_t r = (size_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; r < a.rows; r += warps) {
        const float *z = a.z + r * a.z_stride;
        float most = z[0];
        size_t best = 0;
        for (size_t i = threadIdx.x % 32; i < a.columns; i += 32)
            if (z[i] > most) most = z[i], best = i;
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2) {
            const float other = __shfl_xor_sync(~0u, most, mask);
            const size_t at = __shfl_xor_sync(~0u, (unsigned long long)best, mask);
            if (other > most || (other == most && at < best)) most = other, best = at;
        }
        right += threadIdx.x % 32 == 0 && (int32_t)best == a.targets[r];
    }
    add_block(a.right, right, space);
}
