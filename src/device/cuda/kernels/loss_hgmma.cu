/* loss_hgmma.cu: softmax cross-entropy of 16-bit logits (docs/reference/arithmetic.md, "Softmax cross-entropy", with hgmma);
 * launched by ops/loss_hgmma.c.
 *
 * loss_hgmma_bf16 and …_f16: a block computes rows, one after another, and keeps one in shared memory, or what fits of it;
 * the rest is read again in each pass. A pack of eight logits is 16 bytes. Of a row:
 *
 *     | gradient of the previous row, pack by pack, each replaced by one of the next row | maximum | sums |
 *
 * Two blocks share a multiprocessor if their rows fit: one computes while the other waits for memory.
 *
 * `loss_hgmma_any`, and the passes of workers that share rows, read the row in every pass. So do rows with a largest logit
 * that is not finite or so large that its product with log2 e is far from exact: there the padding behind a row could
 * count, and gradients can be NaN. */
#include "device/cuda/common/exp2.cuh"
#include "device/cuda/common/loss.cuh"
#include "device/cuda/common/pack.cuh"

enum { LANES = LS_CUDA_LOSS_LANES, FOLD = LS_CUDA_LOSS_FOLD, FOLDED = LS_CUDA_LOSS_FOLDED, PACK = 8, THREADS = 1024 };

/* A block begins columns / 80 cycles after the one before, 37 of them within about the time of a row. The two blocks of a
 * multiprocessor, whose numbers differ by 132, are then in different phases. */
enum { LATER_BLOCKS = 37, COLUMNS_OF_A_CYCLE = 80 };

#define LOG2_E 0x1.715476p+0f
#define PLAIN 0x1p20f

/* Returns the exponential e^(z − m), computed as 2^(z·log2 e + shift). */
LS_DEVICE float weight_of(float z, float shift) { return exp2_of(__fmaf_rn(z, LOG2_E, shift)); }
/* Returns the shift of weight_of() for the largest logit m. */
LS_DEVICE float shift_of(float m) { return -(m * LOG2_E); }

/* Returns the sum of a pack, by a tree. */
LS_DEVICE float sum_of(const pack<PACK> &p) {
    return ((p.v[0] + p.v[1]) + (p.v[2] + p.v[3])) + ((p.v[4] + p.v[5]) + (p.v[6] + p.v[7]));
}

/* What the gradient of a row needs. */
struct loss_row {
    float shift, inverse, factor, g; /* of exponents; 1 / l; 1 / l · g */
    uint32_t target;                 /* its column; ~0: it is not here */
};

/* Returns what the gradient of a row needs. */
LS_DEVICE loss_row row_with(float m, float l, float g, uint32_t target) {
    const float inverse = __frcp_rn(l);
    return {shift_of(m), inverse, inverse * g, g, target};
}

/* Returns the gradient of the target's logit z. */
LS_DEVICE float at_target(const loss_row &t, float z) { return (weight_of(z, t.shift) * t.inverse - 1.0f) * t.g; }

/* Returns the gradient of eight columns from i on. */
LS_DEVICE pack<PACK> grad_of(const loss_row &t, const pack<PACK> &z, uint32_t i) {
    pack<PACK> d = map(z, [&](float x) { return weight_of(x, t.shift) * t.factor; });
    if (t.target - i < PACK) {
#pragma unroll
        for (int k = 0; k < PACK; k++)
            if (t.target == i + k) d.v[k] = at_target(t, z.v[k]);
    }
    return d;
}

/* Returns the first column of row r of the logits; grads_of(): of the gradient. */
template <class T> LS_DEVICE const T *logits_of(const ls_cuda_loss &a, size_t r) { return (const T *)a.z + r * a.z_stride + a.first; }
template <class T> LS_DEVICE T *grads_of(const ls_cuda_loss &a, size_t r) { return (T *)a.dz + r * a.dz_stride + a.first; }

/* ---- sums --------------------------------------------------------------------------------------------------------- */

/* Calls visit(slice, lane) for the partial sum of each of 512 lanes, and writes the sums of 32 lanes each to sums[slice][…]; ends with a
 * barrier. All threads of the block call it. */
template <class F> LS_DEVICE void fold_lanes(uint32_t slices, float *sums, const F &visit) {
    const uint32_t beside = blockDim.x > LANES ? blockDim.x / LANES : 1;
    for (uint32_t s = threadIdx.x / LANES; s < slices; s += beside)
        LS_NO_UNROLL for (uint32_t lane = threadIdx.x % LANES; lane < LANES; lane += blockDim.x) {
            float sum = visit(s, lane);
#pragma unroll
            for (int half = FOLD / 2; half > 0; half /= 2) sum = sum + __shfl_xor_sync(~0u, sum, half);
            if (lane % FOLD == 0) sums[s * FOLDED + lane / FOLD] = sum;
        }
    __syncthreads();
}

/* Returns the sums of slices s and s + 1: the first in lanes 0 … 15 of the warp, the second in the others. */
LS_DEVICE float fold_slices(const float *sums, uint32_t s, uint32_t slices) {
    const uint32_t lane = threadIdx.x % 32;
    float sum = s + lane / FOLDED < slices ? sums[s * FOLDED + lane] : 0.0f;
#pragma unroll
    for (int half = FOLDED / 2; half > 0; half /= 2) sum = sum + __shfl_xor_sync(~0u, sum, half);
    return sum;
}

/* Returns the sum of at most 32 slices by the tree to all lanes; lane i passes that of slice i. */
LS_DEVICE float join_lanes(float sum, uint32_t slices) {
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t step = 1; step < slices; step *= 2) {
        const float other = __shfl_down_sync(~0u, sum, step);
        if (lane % (2 * step) == 0 && lane + step < slices) sum = sum + other;
    }
    return __shfl_sync(~0u, sum, 0);
}

/* Returns the sum of the slices by the tree to all threads, from the lanes' sums that fold_lanes() wrote. */
LS_DEVICE float join_slices(const float *sums, uint32_t slices) {
    const uint32_t lane = threadIdx.x % 32;
    float low = 0.0f, high = 0.0f;
    LS_NO_UNROLL for (uint32_t s = 0; s < slices; s += 2) {
        const float both = fold_slices(sums, s, slices), sum = __shfl_sync(~0u, both, lane % 2 * FOLDED);
        if (lane / 2 == s % 32 / 2) (s < 32 ? low : high) = sum;
    }
    low = join_lanes(low, smaller(slices, 32));
    return slices > 32 ? low + join_lanes(high, slices - 32) : low;
}

/* ---- rows of any kind --------------------------------------------------------------------------------------------- */

/* Loads eight logits from column i on; −∞ from column `end` on. */
template <class T> LS_DEVICE pack<PACK> load_any(const ls_cuda_loss &a, const T *z, uint32_t i, uint32_t end) {
    if (i < (uint32_t)a.whole) return load_pack<PACK>(z + i);
    pack<PACK> x;
#pragma unroll
    for (int k = 0; k < PACK; k++) x.v[k] = i + k < end ? load(z + i + k) : __uint_as_float(0xFF800000u);
    return x;
}

/* Returns the largest logit of a row to all threads; −0 becomes +0. */
template <class T> LS_DEVICE float max_any(const ls_cuda_loss &a, const T *z, float *space) {
    const uint32_t columns = (uint32_t)a.columns;
    float most = __uint_as_float(0xFF800000u);
    for (uint32_t i = PACK * threadIdx.x; i < columns; i += PACK * blockDim.x) {
        const pack<PACK> x = load_any(a, z, i, columns);
#pragma unroll
        for (int k = 0; k < PACK; k++) most = max_of_any_zero(most, x.v[k]);
    }
    return block_max(most, space) + 0.0f;
}

/* Writes the folded sums of exponentials of a row to `sums` (fold_lanes). */
template <class T> LS_DEVICE void sum_any(const ls_cuda_loss &a, const T *z, float m, float *sums) {
    const float shift = shift_of(m);
    fold_lanes((uint32_t)a.slices, sums, [&](uint32_t s, uint32_t lane) {
        const uint32_t end = (uint32_t)(size_at(a.bounds, s + 1) - a.first);
        float sum = 0.0f;
        for (uint32_t i = (uint32_t)(size_at(a.bounds, s) - a.first) + PACK * lane; i < end; i += PACK * LANES) {
            pack<PACK> p = map(load_any(a, z, i, end), [=](float x) { return weight_of(x, shift); });
#pragma unroll
            for (int k = 0; k < PACK; k++) p.v[k] = i + k < end ? p.v[k] : 0.0f;
            sum = sum + sum_of(p);
        }
        return sum;
    });
}

/* Writes the gradient of a row; NaNs are rounded as the contract has it. */
template <class T> LS_DEVICE void grad_any(const ls_cuda_loss &a, const T *z, T *dz, const loss_row &t) {
    const uint32_t columns = (uint32_t)a.columns;
    for (uint32_t i = PACK * threadIdx.x; i < columns; i += PACK * blockDim.x) {
        const pack<PACK> d = grad_of(t, load_any(a, z, i, columns), i);
        if (i < (uint32_t)a.whole) {
            store_pack<PACK>(dz + i, d);
        } else {
#pragma unroll
            for (int k = 0; k < PACK; k++)
                if (i + k < columns) store(dz + i + k, d.v[k]);
        }
    }
}

/* ---- whole rows --------------------------------------------------------------------------------------------------- */

/* Returns the larger of each of two packed pairs of numbers; NaN wins, of two zeros any. */
template <class T> LS_DEVICE uint32_t max_two(uint32_t a, uint32_t b);
#ifndef LS_CUDA_ON_CPU_H
template <> LS_DEVICE uint32_t max_two<bf16>(uint32_t a, uint32_t b) {
    uint32_t most;
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(most) : "r"(a), "r"(b));
    return most;
}
template <> LS_DEVICE uint32_t max_two<f16>(uint32_t a, uint32_t b) {
    uint32_t most;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(most) : "r"(a), "r"(b));
    return most;
}
#else
template <class T> LS_DEVICE uint32_t max_two(uint32_t a, uint32_t b) {
    return bits_of(T(), max_of(wide_of(T(), a & 0xFFFFu), wide_of(T(), b & 0xFFFFu))) |
           bits_of(T(), max_of(wide_of(T(), a >> 16), wide_of(T(), b >> 16))) << 16;
}
#endif

/* Returns −∞ twice, packed, in the type of the argument. */
LS_DEVICE uint32_t lowest_two(bf16) { return 0xFF80FF80u; }
/* Returns −∞ twice, packed, as fp16. */
LS_DEVICE uint32_t lowest_two(f16) { return 0xFC00FC00u; }

/* Widens the eight logits of 16 bytes. */
template <class T> LS_DEVICE pack<PACK> wide(const uint4 &z) { return load_pack<PACK>((const T *)&z); }

/* A row: packs below `kept` lie in shared memory, the others are read from z. */
template <class T> struct row_place {
    uint4 *row;
    const T *z;
    uint32_t kept, packs, columns;

    /* Loads a pack from global memory; the last of a row is filled up with −∞. */
    LS_DEVICE uint4 read(const T *from, uint32_t p) const {
        if (PACK * p + PACK <= columns) return *(const uint4 *)(from + PACK * p);
        uint32_t two[PACK / 2];
#pragma unroll
        for (int k = 0; k < PACK / 2; k++) {
            const uint32_t i = PACK * p + 2 * k;
            two[k] = lowest_two(T());
            if (i < columns) two[k] = (two[k] & 0xFFFF0000u) | from[i].bits;
            if (i + 1 < columns) two[k] = (two[k] & 0xFFFFu) | (uint32_t)from[i + 1].bits << 16;
        }
        return make_uint4(two[0], two[1], two[2], two[3]);
    }

    /* Calls use(p, pack) for packs p, p + step … below `end`. */
    template <class F> LS_DEVICE void visit(uint32_t p, uint32_t end, uint32_t step, const F &use) const {
        const uint32_t near = smaller(end, kept);
        LS_UNROLL_2 for (; p < near; p += step) use(p, row[p]);
        LS_NO_UNROLL for (; p < end; p += step) use(p, read(z, p));
    }
};

/* Rounds and stores eight numbers, none of which is NaN. */
template <class T> LS_DEVICE void store_eight(T *dz, const pack<PACK> &d) {
#ifndef LS_CUDA_ON_CPU_H
    *(uint4 *)dz = make_uint4(rounded_two(T(), d.v[0], d.v[1]), rounded_two(T(), d.v[2], d.v[3]), rounded_two(T(), d.v[4], d.v[5]),
                              rounded_two(T(), d.v[6], d.v[7]));
#else
    store_pack<PACK>(dz, d);
#endif
}

/* Returns the gradient of eight columns, the target not among them. */
template <class T> LS_DEVICE pack<PACK> beside_target(const loss_row &t, const uint4 &z) {
    return map(wide<T>(z), [&](float x) { return weight_of(x, t.shift) * t.factor; });
}

/* Writes this thread's share of the gradient of whole packs in shared memory, and starts to copy the next row to their
 * places. Returns the first pack of this thread that is left. */
template <bool HAS_GRAD, bool HAS_NEXT, class T>
LS_DEVICE uint32_t exchange_packs(const row_place<T> &at, const loss_row &t, T *dz, const T *next) {
    const uint32_t whole = smaller(at.kept, at.columns / PACK);
    uint32_t p = threadIdx.x;
    LS_NO_UNROLL for (; p < whole; p += blockDim.x) {
        if (HAS_GRAD) store_eight(dz + PACK * p, beside_target<T>(t, at.row[p]));
        if (HAS_NEXT) copy16_async(at.row + p, next + PACK * p);
    }
    return p;
}

/* Writes the gradient of the row to dz, and loads the row at `next` to its place; either may be NULL. A thread then sees its
 * own copies only. The target is last: the thread of its pack overwrites what it wrote, from z_target. */
template <class T> LS_DEVICE void exchange_rows(const row_place<T> &at, const loss_row &t, float z_target, T *dz, const T *next) {
    uint32_t p = !dz    ? exchange_packs<false, true>(at, t, dz, next)
                 : next ? exchange_packs<true, true>(at, t, dz, next)
                        : exchange_packs<true, false>(at, t, dz, next);
    copy_async_commit();
    LS_NO_UNROLL for (; p < at.packs; p += blockDim.x) {
        const bool is_kept = p < at.kept;
        if (dz) {
            const pack<PACK> d = beside_target<T>(t, is_kept ? at.row[p] : at.read(at.z, p));
            if (PACK * p + PACK <= at.columns) {
                store_eight(dz + PACK * p, d);
            } else {
#pragma unroll
                for (int k = 0; k < PACK; k++)
                    if (PACK * p + k < at.columns) store(dz + PACK * p + k, d.v[k]);
            }
        }
        if (next && is_kept) at.row[p] = at.read(next, p);
    }
    if (dz && t.target / PACK % blockDim.x == threadIdx.x) store(dz + t.target, at_target(t, z_target));
    copy_async_wait<0>();
}

/* Returns the largest logit of the row to all threads; −0 becomes +0. Waits for the row in shared memory. */
template <class T> LS_DEVICE float max_of_row(const row_place<T> &at, float *space) {
    uint32_t low = lowest_two(T()), high = low;
    at.visit(threadIdx.x, at.packs, blockDim.x, [&](uint32_t, const uint4 &z) {
        low = max_two<T>(low, max_two<T>(z.x, z.y));
        high = max_two<T>(high, max_two<T>(z.z, z.w));
    });
    low = max_two<T>(low, high);
    return block_max(max_of_any_zero(wide_of(T(), low & 0xFFFFu), wide_of(T(), low >> 16)), space) + 0.0f;
}

/* Writes the folded sums of exponentials of the row to `sums` (fold_lanes). */
template <class T> LS_DEVICE void sum_row(const ls_cuda_loss &a, const row_place<T> &at, float m, float *sums) {
    const float shift = shift_of(m);
    fold_lanes((uint32_t)a.slices, sums, [&](uint32_t s, uint32_t lane) {
        const uint32_t begin = (uint32_t)(size_at(a.bounds, s) - a.first) / PACK,
                       end = ((uint32_t)(size_at(a.bounds, s + 1) - a.first) + PACK - 1) / PACK;
        float sum = 0.0f;
        at.visit(begin + lane, end, LANES, [&](uint32_t, const uint4 &z) {
            sum = sum + sum_of(map(wide<T>(z), [=](float x) { return weight_of(x, shift); }));
        });
        return sum;
    });
}

/* Computes loss, m, l and dz of the rows of a block. The sums of 32 lanes each follow the row in shared memory. */
template <class T> LS_DEVICE void do_rows(const ls_cuda_loss &a, uint4 *row, float *space) {
    float *sums = (float *)(row + a.kept);
    row_place<T> at = {row, nullptr, (uint32_t)a.kept, (uint32_t)(a.columns + PACK - 1) / PACK, (uint32_t)a.columns};
    loss_row t = {};
    float z_target = 0.0f;
    T *dz = nullptr; /* of the row in shared memory */
    begin_later(a.rows, LATER_BLOCKS, at.columns / COLUMNS_OF_A_CYCLE);
    uint32_t id = (uint32_t)a.targets[blockIdx.x]; /* loaded a row ahead, to hide the latency */
    for (uint32_t r = blockIdx.x, rows = (uint32_t)a.rows; r < rows; r += gridDim.x) {
        const T *z = logits_of<T>(a, r);
        const uint32_t target = id - (uint32_t)a.id_begin - (uint32_t)a.first; /* all lie in the columns */
        const float next_target = load(z + target);
        if (r + gridDim.x < rows) id = (uint32_t)a.targets[r + gridDim.x];
        exchange_rows(at, t, z_target, dz, z);
        at.z = z, z_target = next_target;
        const float m = max_of_row(at, space); /* waits for the row too */
        const bool is_plain = abs_of(m) < PLAIN;
        if (is_plain)
            sum_row(a, at, m, sums);
        else
            sum_any(a, z, m, sums);
        const float l = join_slices(sums, (uint32_t)a.slices);
        t = row_with(m, l, a.g, target);
        dz = a.dz ? grads_of<T>(a, r) : nullptr;
        if (dz && !is_plain) {
            grad_any(a, z, dz, t);
            dz = nullptr;
        }
        if (threadIdx.x > 0) continue;
        a.loss[r] = value_of(z_target, m, l);
        if (a.m) a.m[r] = m;
        if (a.l) a.l[r] = l;
    }
    if (dz) exchange_rows<T>(at, t, z_target, dz, nullptr);
}

/* Computes whole rows of bf16 logits, whose slices begin with packs. */
LS_KERNEL_ALONE(loss_hgmma_bf16, ls_cuda_loss, THREADS) {
    __shared__ float space[THREADS / 32];
    LS_SHARED(uint4, row);
    do_rows<bf16>(a, row, space);
}

/* Computes whole rows of fp16 logits, whose slices begin with packs. */
LS_KERNEL_ALONE(loss_hgmma_f16, ls_cuda_loss, THREADS) {
    __shared__ float space[THREADS / 32];
    LS_SHARED(uint4, row);
    do_rows<f16>(a, row, space);
}

/* ---- rows that do not begin at multiples of 16 bytes, or whose slices do not --------------------------------------- */

/* Expands the body for each type of logits, T. */
#define BY_LOGITS(T, ...)                      \
    do {                                       \
        if (a.z_dtype == LS_CUDA_BF16) {       \
            typedef bf16 T;                    \
            __VA_ARGS__                        \
        } else {                               \
            typedef f16 T;                     \
            __VA_ARGS__                        \
        }                                      \
    } while (0)

/* Computes loss, m, l and dz of one row, read from global memory in every pass. */
template <class T> LS_DEVICE void do_row_any(const ls_cuda_loss &a, size_t r, float *sums, float *space) {
    const T *z = logits_of<T>(a, r);
    const uint32_t target = (uint32_t)(target_of(a, r) - (int64_t)a.first);
    const float z_target = threadIdx.x == 0 ? load(z + target) : 0.0f, m = max_any(a, z, space);
    sum_any(a, z, m, sums);
    const float l = join_slices(sums, (uint32_t)a.slices);
    if (a.dz) grad_any(a, z, grads_of<T>(a, r), row_with(m, l, a.g, target));
    if (threadIdx.x > 0) return;
    a.loss[r] = value_of(z_target, m, l);
    if (a.m) a.m[r] = m;
    if (a.l) a.l[r] = l;
}

/* Computes a whole row of any alignment per block. */
LS_KERNEL(loss_hgmma_any, ls_cuda_loss, LANES) {
    __shared__ float space[LANES / 32];
    LS_SHARED(float, sums);
    BY_LOGITS(T, { do_row_any<T>(a, blockIdx.x, sums, space); });
}

/* ---- rows that workers share -------------------------------------------------------------------------------------- */

/* Computes m, and z_target (−∞ if another worker holds the target), of a row per block. */
LS_KERNEL(loss_hgmma_max, ls_cuda_loss, LANES) {
    __shared__ float space[LANES / 32];
    const size_t r = blockIdx.x;
    BY_LOGITS(T, {
        const T *z = logits_of<T>(a, r);
        const float m = max_any(a, z, space);
        const int64_t target = target_of(a, r);
        if (threadIdx.x == 0) {
            a.m[r] = m;
            a.z_target[r] = is_held(a, target) ? load(z + (target - (int64_t)a.first)) : __uint_as_float(0xFF800000u);
        }
    });
}

/* Computes the sums of exponentials of each slice of a row per block. */
LS_KERNEL(loss_hgmma_sums, ls_cuda_loss, LANES) {
    LS_SHARED(float, sums);
    const size_t r = blockIdx.x;
    const uint32_t slices = (uint32_t)a.slices;
    BY_LOGITS(T, { sum_any(a, logits_of<T>(a, r), a.m[r], sums); });
    for (uint32_t s = threadIdx.x / 32 * 2; s < slices; s += blockDim.x / 32 * 2) {
        const float sum = fold_slices(sums, s, slices);
        const uint32_t of = s + threadIdx.x % 32 / FOLDED;
        if (threadIdx.x % FOLDED == 0 && of < slices) a.sums[of * a.rows + r] = sum;
    }
}

/* Computes dz of a row per block from z, m and l. */
LS_KERNEL(loss_hgmma_grad, ls_cuda_loss, LANES) {
    const size_t r = blockIdx.x;
    const int64_t target = target_of(a, r);
    const uint32_t column = is_held(a, target) ? (uint32_t)(target - (int64_t)a.first) : ~0u;
    BY_LOGITS(T, { grad_any(a, logits_of<T>(a, r), grads_of<T>(a, r), row_with(a.m[r], a.l[r], a.g, column)); });
}
