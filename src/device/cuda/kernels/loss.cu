/* loss.cu: softmax cross-entropy of fp32 logits (docs/reference/arithmetic.md, "Softmax cross-entropy"); launched by ops/loss.c.
 *
 * loss_rows: a block computes rows, one after another, and keeps one in shared memory, so that z is read once: its logits,
 * then their exponentials. While the gradient of a row is written, the logits of the next are loaded to its place. A block
 * that adds exponentials does not use DRAM, so blocks begin at different times and leave it to others meanwhile.
 *
 * The chains of sum16 are few, sixteen for each slice, so they overlap other work: the first warps add one stretch of
 * every slice while the other warps compute the exponentials of the next:
 *
 *     first warps         | add stretch 0 | add stretch 1 | …
 *     others   | exp of 0 | exp of 1      | exp of 2      | …
 */
#include "device/cuda/common/loss.cuh"
#include "device/cuda/common/tree.cuh"

enum { AT_ONCE = 4, PACKS_OF_A_STRETCH = 2, GRAD_PACKS = 2 }; /* of a thread */
enum { LATER_BLOCKS = 33, LATER_CYCLES = 750 };

/* Calls visit(width, i, z of i … i + width − 1) for columns begin … end − 1 of the row at z, W at a time. */
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

/* Calls visit() for all columns of the row: by four if they are aligned, the rest one by one. LOADS packs are in flight. */
template <int LOADS, class F> LS_DEVICE void visit_row(const ls_cuda_loss &a, const float *z, const F &visit) {
    const uint32_t columns = (uint32_t)a.columns, whole = (uint32_t)a.whole; /* ids have 32 bits */
    visit_packs<4, LOADS>(z, 0, whole, visit);
    visit_packs<1, 2 * LOADS>(z, whole, columns, visit);
}

/* Returns the largest of `most` and the numbers of a pack; NaN wins, of two zeros any. */
template <int W> LS_DEVICE float most_of(float most, const pack<W> &x) {
#pragma unroll
    for (int k = 0; k < W; k++) most = max_of_any_zero(most, x.v[k]);
    return most;
}

/* Returns the largest number of the row at z to all threads; `most` is the largest that this thread saw. If it is a zero,
 * reads the row again to find its sign. */
LS_DEVICE float row_max(const ls_cuda_loss &a, const float *z, float most, float *space) {
    most = block_max(most, space);
    if (most != 0.0f) return most;
    bool has_plus = false;
    for (size_t i = threadIdx.x; i < a.columns; i += blockDim.x) has_plus = has_plus || __float_as_uint(z[i]) == 0;
    __syncthreads();
    return block_max(has_plus ? 1.0f : 0.0f, space) == 1.0f ? 0.0f : -0.0f;
}

/* Returns whether x is neither infinite nor NaN. */
LS_DEVICE bool is_finite(float x) { return abs_of(x) < __uint_as_float(0x7F800000u); }
/* Returns the gradient of a logit from its exponential e: (e / l − 1 for the target) · g. p − 0 is p, as no exponential is −0. */
LS_DEVICE float dz_of(float e, float l, float g, bool is_target) {
    float p = __fdiv_rn(e, l);
    return (is_target ? p - 1.0f : p) * g;
}

/* ---- whole rows -------------------------------------------------------------------------------------------------- */

/* Fills ends[i], in shared memory, with the column of the row where slice i begins, and with the end of the last. */
LS_DEVICE void copy_bounds(const ls_cuda_loss &a, uint32_t *ends) {
    for (size_t i = threadIdx.x; i <= a.slices; i += blockDim.x) ends[i] = (uint32_t)(size_at(a.bounds, i) - a.first);
}

/* Returns e^x for x ≤ 0 that is not NaN. */
LS_DEVICE float exp_number(float x) { return zero_if_below(exp_core(x), x, -0x1.5d589ep+6f); }

#define TINY 0x1p-90f

/* What the gradient of a row needs. */
struct loss_row {
    float m, l, inverse; /* the largest logit, the sum of exponentials, and 1 / l as it is rounded */
    uint32_t target;     /* its column */
};

/* Loads four logits from column i on; behind the last one −∞, whose exponential is 0. */
LS_DEVICE pack<4> load_four(const ls_cuda_loss &a, const float *z, uint32_t i) {
    if (i < (uint32_t)a.whole) return load_pack<4>(z + i);
    pack<4> x;
#pragma unroll
    for (int k = 0; k < 4; k++) x.v[k] = i + k < (uint32_t)a.columns ? z[i + k] : __uint_as_float(0xFF800000u);
    return x;
}

/* Returns e / l, correctly rounded, by multiplications with inverse = 1 / l rounded. From a quotient that is one of the two
 * neighbours of the true one, a step with the exact remainder gives the rounded one (Markstein); the remainder is exact
 * unless e is tiny. */
LS_DEVICE float quotient_of(float e, float l, float inverse) {
    float q = e * inverse;
    q = __fmaf_rn(__fmaf_rn(-q, l, e), inverse, q);
    return __fmaf_rn(__fmaf_rn(-q, l, e), inverse, q);
}

/* Returns e / l, correctly rounded, for an e below TINY, digit by digit: that is rare, and a division would take registers. */
LS_DEVICE float quotient_of_tiny(float e, float l) {
    const uint32_t by = (__float_as_uint(l) & 0x7FFFFFu) | 0x800000u;
    uint32_t rest = (__float_as_uint(e) & 0x7FFFFFu) | 0x800000u, q = 0;
    int exponent = (int)(__float_as_uint(e) >> 23) - (int)(__float_as_uint(l) >> 23) + 127;
    if (e == 0.0f) return 0.0f;
    if (rest < by) rest *= 2, exponent--;
    const int digits = exponent > 0 ? 24 : 23 + exponent; /* of a subnormal number fewer */
    if (digits < 0) return 0.0f;
    LS_NO_UNROLL for (int i = 0; i < digits; i++) {
        const bool is_one = rest >= by;
        q = 2 * q + is_one;
        rest = 2 * (is_one ? rest - by : rest);
    }
    q += rest > by || (rest == by && q % 2 == 1); /* half of the last digit; a tie to the even one */
    return __uint_as_float(q + ((uint32_t)(exponent > 0 ? exponent - 1 : 0) << 23));
}

/* Stores the gradient of four columns from i on, given their exponentials; none behind the last column. */
template <class T>
LS_DEVICE void grad_four(const ls_cuda_loss &a, const loss_row &t, T *dz, uint32_t i, const pack<4> &e) {
    dz += i;
    pack<4> d;
    uint32_t least = __float_as_uint(e.v[0]); /* numbers from 0 on are in the order of their bits */
#pragma unroll
    for (int k = 1; k < 4; k++) least = __float_as_uint(e.v[k]) < least ? __float_as_uint(e.v[k]) : least;
#pragma unroll
    for (int k = 0; k < 4; k++) d.v[k] = quotient_of(e.v[k], t.l, t.inverse);
    if (least < __float_as_uint(TINY)) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (e.v[k] < TINY) d.v[k] = quotient_of_tiny(e.v[k], t.l);
    }
    if (t.target - i < 4) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (t.target == i + k) d.v[k] = d.v[k] - 1.0f;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) d.v[k] = d.v[k] * a.g;
    if (i < (uint32_t)a.whole) {
        store_numbers(dz, d);
    } else {
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k < (uint32_t)a.columns) store(dz + k, d.v[k]);
    }
}

/* Starts to copy four logits to the same place of the row in shared memory. */
LS_DEVICE void copy_four_async(const ls_cuda_loss &a, float *row, const float *z, uint32_t i) {
    if (i < (uint32_t)a.whole) {
        copy16_async(row + i, z + i);
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        if (i + k < (uint32_t)a.columns)
            copy4_async(row + i + k, z + i + k);
        else
            row[i + k] = __uint_as_float(0xFF800000u); /* whose exponential is 0 */
    }
}

/* Writes the gradient of the row in shared memory to dz, and loads the row at z to its place; either may be NULL. Returns
 * the largest logit of z that this thread copied; each thread reads its copies a few packs later. */
template <class T>
LS_DEVICE float exchange_rows(const ls_cuda_loss &a, const loss_row &t, float *row, T *dz, const float *z) {
    enum { LATER = 4 };
    const uint32_t packs = ((uint32_t)a.columns + 3) / 4, step = blockDim.x;
    float most = __uint_as_float(0xFF800000u);
    uint32_t seen = threadIdx.x;
    for (uint32_t p = threadIdx.x; p < packs; p += step) {
        if (dz) grad_four<T>(a, t, dz, 4 * p, load_pack<4>((const float *)row + 4 * p));
        if (!z) continue;
        copy_four_async(a, row, z, 4 * p);
        copy_async_commit();
        if (p < threadIdx.x + LATER * step) continue;
        copy_async_wait<LATER>();
        most = most_of(most, load_pack<4>((const float *)row + 4 * seen));
        seen += step;
    }
    if (!z) return most;
    copy_async_wait<0>();
    for (; seen < packs; seen += step) most = most_of(most, load_pack<4>((const float *)row + 4 * seen));
    return most;
}

/* Replaces each x in packs p, p + step … below `end` of the row by e^(x − m). */
LS_DEVICE void raise(float *row, float m, unsigned p, unsigned end, unsigned step) {
    for (; p < end; p += step) {
        float *at = row + 4 * p;
        store_pack<4>(at, map(load_pack<4>((const float *)at), [=](float x) { return exp_number(x - m); }));
    }
}

/* Returns the address that load_steps() takes from this lane, for the elements of each slice from `begin` on; `chain` is
 * the lane's. A matrix of `ldmatrix` is eight rows of 16 bytes: one step of all chains of two slices. Lanes 8·s + r have
 * row r of step s. */
LS_DEVICE const float *steps_at(const float *row, const uint32_t *ends, unsigned slices, unsigned chain, unsigned begin) {
#ifndef LS_CUDA_ON_CPU_H
    const unsigned lane = threadIdx.x % 32, r = lane % 8;
    return row + ends[smaller((chain - lane) / 16 + r / 4, slices - 1)] + begin + lane / 8 * 16 + r % 4 * 4;
#else
    return row + ends[smaller(chain / 16, slices - 1)] + begin + chain % 16;
#endif
}

/* Loads the next four elements of each lane's chain; slices begin at multiples of 16 bytes. */
LS_DEVICE void load_steps(float (&x)[4], const float *from) {
#ifndef LS_CUDA_ON_CPU_H
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(from))
                 : "memory");
#else
    for (int k = 0; k < 4; k++) x[k] = from[16 * k];
#endif
}

/* Returns the smallest number of a warp to all its lanes. */
LS_DEVICE unsigned warp_least(unsigned x) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) x = smaller(x, __shfl_xor_sync(~0u, x, mask));
    return x;
}

/* Continues the chain of a lane over elements begin … end − 1 of its slice, and returns its sum; begin is a multiple of 16.
 * All lanes of a warp call it with consecutive chains; a chain behind the last slice gets an undefined sum. */
LS_DEVICE float add_stretch(const float *row, const uint32_t *ends, unsigned slices, unsigned chain, unsigned begin,
                            unsigned end, float sum) {
    enum { SETS = 6, STEPS = 4 };
    const unsigned slice = smaller(chain / 16, slices - 1), at = ends[slice], first = begin + chain % 16,
                   to = smaller(end, ends[slice + 1] - at);
    unsigned left = to > first ? (to - first + 15) / 16 : 0;
    const unsigned turns = warp_least(at % 4 ? 0 : left) / (SETS * STEPS);
    /* While a set of numbers is added the next ones are on their way. */
    const float *from = steps_at(row, ends, slices, chain, begin);
    if (turns > 0) {
        float x[SETS][STEPS];
#pragma unroll
        for (int s = 0; s < SETS - 1; s++) load_steps(x[s], from + 16 * STEPS * s);
        LS_UNROLL_2 for (unsigned turn = 1; turn < turns; turn++) {
#pragma unroll
            for (int s = 0; s < SETS; s++) {
                load_steps(x[(s + SETS - 1) % SETS], from + 16 * STEPS * (s + SETS - 1));
#pragma unroll
                for (int k = 0; k < STEPS; k++) sum = sum + x[s][k];
            }
            from += 16 * STEPS * SETS;
        }
        load_steps(x[SETS - 1], from + 16 * STEPS * (SETS - 1));
#pragma unroll
        for (int s = 0; s < SETS; s++)
#pragma unroll
            for (int k = 0; k < STEPS; k++) sum = sum + x[s][k];
    }
    from = row + at + first + 16 * STEPS * SETS * turns;
    left -= STEPS * SETS * turns;
    LS_UNROLL_4 for (; left > 0; left--, from += 16) sum = sum + *from;
    return sum;
}

/* Replaces the row in shared memory, whose largest number is m, by its exponentials, and writes their sums by slices. A
 * slice has the packs from that of its first element on; the next slice computes first the pack in which it ends. */
LS_DEVICE void sum_row(const ls_cuda_loss &a, float *row, float m, float *sums, const uint32_t *ends) {
    const unsigned slices = (unsigned)a.slices, chains = 16 * slices, warps = blockDim.x / 32, packs = (ends[slices] + 3) / 4;
    /* With many slices all threads first compute exponentials, and then add. */
    const bool are_many = (chains + 31) / 32 * 4 > warps;
    /* If one warp adds, the other warps of its scheduler, every fourth, stay idle, so that it is always issued. */
    const bool is_lonely = !are_many && chains <= 32 && warps % 4 == 0;
    const unsigned adders = are_many ? 0 : (chains + 31) / 32 * 32, warp = threadIdx.x / 32,
                   others = is_lonely ? blockDim.x / 4 * 3 : blockDim.x - adders;
    unsigned longest = are_many ? ends[slices] : 0;
    for (unsigned s = 0; s < slices && !are_many; s++)
        longest = ends[s + 1] - ends[s] > longest ? ends[s + 1] - ends[s] : longest;
    /* A stretch gives every warp some packs, so that none waits long for another. Sums are sixteen elements behind, because
     * a slice need not begin with a pack. */
    const unsigned each = are_many ? others : others / slices / 4 * 4, stretch = are_many ? longest / 4 * 4 + 4 : 4 * PACKS_OF_A_STRETCH * each,
                   number = is_lonely ? 32 * (warp - warp / 4 - 1) + threadIdx.x % 32 : threadIdx.x - adders,
                   s = number / each;
    const bool adds = threadIdx.x < adders;
    unsigned from = 0, last = 0;
    if (are_many)
        from = number, last = packs;
    else if (!adds && s < slices && !(is_lonely && warp % 4 == 0))
        from = ends[s] / 4 + number % each, last = s + 1 < slices ? ends[s + 1] / 4 : packs;
    float sum = 0.0f;
    for (unsigned begin = 0; begin < longest + (are_many ? 1 : stretch + 16); begin += stretch, from += stretch / 4) {
        if (!adds)
            raise(row, m, from, from + stretch / 4 < last ? from + stretch / 4 : last, each);
        else if (begin > 0)
            sum = add_stretch(row, ends, slices, threadIdx.x, begin > stretch ? begin - stretch - 16 : 0, begin - 16, sum);
        __syncthreads();
    }
    for (unsigned first = 0; first < chains; first += adders ? adders : blockDim.x) {
        const unsigned of = (first + threadIdx.x) / 16;
        if (adders && !adds) break;
        if (are_many) sum = add_stretch(row, ends, slices, first + threadIdx.x, 0, ~0u, 0.0f);
        sum = join16(sum);
        if (of < slices && threadIdx.x % 16 == 0) sums[of] = sum;
    }
    __syncthreads();
}

/* Returns the sum of the slices by the tree to all threads of the block, which all call it. Overwrites `sums` if there are more than 32. */
LS_DEVICE float join_slices(float *sums, unsigned slices) {
    if (slices <= 32) {
        const unsigned lane = threadIdx.x % 32;
        float sum = lane < slices ? sums[lane] : 0.0f;
        for (unsigned step = 1; step < slices; step *= 2) {
            const float other = __shfl_down_sync(~0u, sum, step);
            if (lane % (2 * step) == 0 && lane + step < slices) sum = sum + other;
        }
        return __shfl_sync(~0u, sum, 0);
    }
    for (unsigned step = 1; step < slices; step *= 2) {
        for (unsigned i = 2 * step * threadIdx.x; i + step < slices; i += 2 * step * blockDim.x)
            sums[i] = sums[i] + sums[i + step];
        __syncthreads();
    }
    return sums[0];
}

/* Fills the gradient of a row with one value: NaN if the largest logit is not finite, because then no probability is. */
template <class T> LS_DEVICE void fill_row(const ls_cuda_loss &a, T *dz, float value) {
    for (size_t i = threadIdx.x; i < a.columns; i += blockDim.x) store(dz + i, value);
}

/* Returns the first column of row r of the logits. */
LS_DEVICE const float *logits_of(const ls_cuda_loss &a, size_t r) { return (const float *)a.z + r * a.z_stride + a.first; }

/* Computes loss, m, l and dz of the rows of this block, each with the row in shared memory. T: type of dz. */
template <class T>
LS_DEVICE void do_rows(const ls_cuda_loss &a, float *row, float *sums, const uint32_t *ends, float *space) {
    loss_row t = {};
    T *dz = nullptr; /* of the row in shared memory */
    for (uint32_t r = blockIdx.x, rows = (uint32_t)a.rows; r < rows; r += gridDim.x) {
        const float *z = logits_of(a, r);
        const uint32_t target = (uint32_t)(target_of(a, r) - (int64_t)a.first); /* all lie in the columns */
        const float z_target = threadIdx.x == 0 ? z[target] : 0.0f;
        const float m = row_max(a, z, exchange_rows(a, t, row, dz, z), space); /* waits for the row too */
        t.m = m, t.l = __uint_as_float(LS_NAN_BITS), t.target = target;
        if (is_finite(m)) {
            sum_row(a, row, m, sums, ends);
            t.l = join_slices(sums, (unsigned)a.slices);
            t.inverse = __frcp_rn(t.l);
        } else {
            __syncthreads(); /* all have seen what is in `space` */
        }
        dz = a.dz ? (T *)a.dz + r * a.dz_stride + a.first : nullptr;
        if (dz && !is_finite(m)) {
            fill_row(a, dz, t.l);
            dz = nullptr;
        }
        if (threadIdx.x > 0) continue;
        a.loss[r] = value_of(z_target, m, t.l);
        if (a.m) a.m[r] = m;
        if (a.l) a.l[r] = t.l;
    }
    if (dz) exchange_rows<T>(a, t, row, dz, nullptr);
}

/* Computes whole rows; launched when a row fits into shared memory. */
LS_KERNEL(loss_rows, ls_cuda_loss, LS_CUDA_LOSS_THREADS) {
    __shared__ float space[LS_CUDA_LOSS_THREADS / 32];
    LS_SHARED(float, row); /* columns of it, then the sums of slices and where these end */
    float *sums = row + (a.columns + 3) / 4 * 4;
    uint32_t *ends = (uint32_t *)(sums + a.slices);
    copy_bounds(a, ends);
    begin_later(a.rows, LATER_BLOCKS, LATER_CYCLES);
    __syncthreads();
    LS_BY_TYPE(a.dz_dtype, T, { do_rows<T>(a, row, sums, ends, space); });
}

/* ---- rows that workers share, and rows that shared memory does not hold ------------------------------------------ */

/* Computes m, and z_target (−∞ if another worker holds the target), of a row per block. */
LS_KERNEL(loss_max, ls_cuda_loss, LS_CUDA_LOSS_THREADS) {
    __shared__ float space[LS_CUDA_LOSS_THREADS / 32];
    const size_t r = blockIdx.x;
    const float *z = (const float *)a.z + r * a.z_stride;
    float m = __uint_as_float(0xFF800000u);
    visit_row<4>(a, z + a.first, [&](auto, size_t, const auto &x) { m = most_of(m, x); });
    m = row_max(a, z + a.first, m, space);
    if (threadIdx.x > 0) return;
    const int64_t target = target_of(a, r);
    a.m[r] = m;
    a.z_target[r] = is_held(a, target) ? z[target] : __uint_as_float(0xFF800000u);
}

/* Returns one lane's chain over the exponentials of logits i, i + 16, … below `end`. */
template <class F> LS_DEVICE float sum_lane(const float *z, size_t i, size_t end, const F &exp) {
    enum { LOADS = 16 };
    float sum = 0.0f;
    for (; i + 16 * (LOADS - 1) < end; i += 16 * LOADS) {
        float x[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; k++) x[k] = z[i + 16 * k];
#pragma unroll
        for (int k = 0; k < LOADS; k++) sum = sum + exp(x[k]);
    }
    for (; i < end; i += 16) sum = sum + exp(z[i]);
    return sum;
}

/* Computes the sum of exponentials of a slice of a row with half a warp: thread j of sixteen is lane j of sum16. */
LS_KERNEL(loss_sums, ls_cuda_loss, 16 * LS_CUDA_LOSS_SUMS) {
    size_t unit = (size_t)blockIdx.x * LS_CUDA_LOSS_SUMS + threadIdx.x / 16;
    const bool is_in = unit < a.rows * a.slices;
    if (!is_in) unit = 0;
    const size_t r = unit / a.slices, slice = unit % a.slices, end = size_at(a.bounds, slice + 1);
    const float *z = (const float *)a.z + r * a.z_stride, m = a.m[r];
    const size_t i = size_at(a.bounds, slice) + threadIdx.x % 16;
    float sum = is_finite(m) ? sum_lane(z, i, end, [=](float x) { return exp_number(x - m); })
                             : sum_lane(z, i, end, [=](float x) { return exp_of(x - m); });
    sum = join16(sum);
    if (is_in && threadIdx.x % 16 == 0) a.sums[slice * a.rows + r] = sum;
}

/* Computes the loss of a row per thread from z_target, m and l. */
LS_KERNEL(loss_values, ls_cuda_loss, LS_CUDA_LOSS_VALUES) {
    size_t r = (size_t)blockIdx.x * LS_CUDA_LOSS_VALUES + threadIdx.x;
    if (r < a.rows) a.loss[r] = value_of(a.z_target[r], a.m[r], a.l[r]);
}

/* Writes the gradient of a row of finite numbers. A 16-bit dz may lie over z: its elements are half as wide, so what a
 * stretch overwrites was read once all threads have read the stretch. */
template <class T> LS_DEVICE void grad_numbers(const ls_cuda_loss &a, const loss_row &t, const float *z, T *dz) {
    const uint32_t packs = ((uint32_t)a.columns + 3) / 4, step = blockDim.x;
    pack<4> x[GRAD_PACKS], ahead[GRAD_PACKS];
    auto load = [&](uint32_t first, pack<4> *to) {
#pragma unroll
        for (int k = 0; k < GRAD_PACKS; k++)
            if (first + k * step < packs) to[k] = load_four(a, z, 4 * (first + k * step));
    };
    load(threadIdx.x, x);
    for (uint32_t begin = 0; begin < packs; begin += GRAD_PACKS * step) {
        const uint32_t first = begin + threadIdx.x;
        load(first + GRAD_PACKS * step, ahead);
        if (a.over) __syncthreads();
#pragma unroll
        for (int k = 0; k < GRAD_PACKS; k++) {
            if (first + k * step < packs)
                grad_four<T>(a, t, dz, 4 * (first + k * step), map(x[k], [&](float x) { return exp_number(x - t.m); }));
            x[k] = ahead[k];
        }
    }
}

/* Writes the gradient of a row in which some numbers may not be finite. */
template <class T>
LS_DEVICE void grad_any(const ls_cuda_loss &a, const float *z, T *dz, float m, float l, int64_t target) {
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
    }
}

/* Computes dz of a row per block from z, m and l. */
LS_KERNEL(loss_grad, ls_cuda_loss, LS_CUDA_LOSS_GRAD) {
    const size_t r = blockIdx.x;
    const float m = a.m[r], l = a.l[r], *z = logits_of(a, r);
    const int64_t target = target_of(a, r) - (int64_t)a.first;
    const loss_row t = {m, l, __frcp_rn(l), (uint32_t)target};
    LS_BY_TYPE(a.dz_dtype, T, {
        T *dz = (T *)a.dz + r * a.dz_stride + a.first;
        if (is_finite(m) && l >= 1.0f && l < 0x1p32f)
            grad_numbers<T>(a, t, z, dz);
        else
            grad_any(a, z, dz, m, l, target);
    });
}
