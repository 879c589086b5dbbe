/* loss.cu: softmax cross-entropy (docs/arithmetic.md, "Softmax cross-entropy").
 *
 * loss_rows: a row lies in shared memory from when its logits come to when its gradient is written, so z is read once: its
 * logits, then their exponentials. A row has a block, or a cluster of blocks with a part of it each, so that several fit
 * into a multiprocessor, and one waits for memory while another computes. Blocks tell each other the largest logits of
 * their parts and the sums of their slices.
 *
 * The chains of sum16 are few, sixteen for each slice, and one addition waits for the other; so that nobody waits for
 * them, the first warps add up stretches of every slice that the others have raised:
 *
 *     first warps         | add stretch 0 | add stretch 1 | …
 *     others   | exp of 0 | exp of 1 | exp of 2 | …
 *
 * A slice that goes on in the next block hands over its sixteen sums.
 */
#include "device/cuda/args/loss.h"
#include "device/cuda/common/list.cuh"
#include "device/cuda/common/math.cuh"
#include "device/cuda/common/tree.cuh"

enum { AT_ONCE = 4, GRAD_PACKS = 2 }; /* of a thread */
enum { FETCHES = 8, REST = 1 };
enum { NOTE_MAX, NOTE_PLUS, NOTE_SUMS, NOTE_CARRY, NOTES }; /* what blocks of a cluster tell each other */

/* The column of a row's target, counted from that of id_begin; whether it is one of those held here. */
LS_DEVICE int64_t target_of(const ls_cuda_loss &a, size_t row) { return (int64_t)a.targets[row] - a.id_begin; }
LS_DEVICE bool is_held(const ls_cuda_loss &a, int64_t column) {
    return column >= (int64_t)a.first && column < (int64_t)(a.first + a.columns);
}

/* The largest number of 32 lanes, for all of them; of two zeros any. */
LS_DEVICE float warp_max(float most) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) most = max_of_any_zero(most, __shfl_xor_sync(~0u, most, mask));
    return most;
}

/* The largest number of the block, for all of its threads; `space` has one for each warp. */
LS_DEVICE float block_max(float most, float *space) {
    most = warp_max(most);
    if (threadIdx.x % 32 == 0) space[threadIdx.x / 32] = most;
    __syncthreads();
    most = warp_max(threadIdx.x % 32 < blockDim.x / 32 ? space[threadIdx.x % 32] : __uint_as_float(0xFF800000u));
    return quiet(most, most != most);
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
    const uint32_t columns = (uint32_t)a.columns, whole = (uint32_t)a.whole; /* ids have 32 bits */
    visit_packs<4, LOADS>(z, 0, whole, visit);
    visit_packs<1, 2 * LOADS>(z, whole, columns, visit);
}

template <int W> LS_DEVICE float most_of(float most, const pack<W> &x) {
#pragma unroll
    for (int k = 0; k < W; k++) most = max_of_any_zero(most, x.v[k]);
    return most;
}

/* Whether a +0 is among n numbers at z, for all threads of the block, as 1 or 0. */
LS_DEVICE float has_plus_zero(const float *z, size_t n, float *space) {
    bool has_plus = false;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) has_plus = has_plus || __float_as_uint(z[i]) == 0;
    __syncthreads();
    return block_max(has_plus ? 1.0f : 0.0f, space);
}

LS_DEVICE bool is_finite(float x) { return abs_of(x) < __uint_as_float(0x7F800000u); }
LS_DEVICE float value_of(float z_target, float m, float l) { return log_of(l) - (z_target - m); }
/* e: the exponential. p − 0 is p, as no exponential is −0. */
LS_DEVICE float dz_of(float e, float l, float g, bool is_target) {
    float p = __fdiv_rn(e, l);
    return (is_target ? p - 1.0f : p) * g;
}

/* ---- whole rows -------------------------------------------------------------------------------------------------- */

/* e^x for x ≤ 0. */
LS_DEVICE float exp_number(float x) { return zero_if_below(exp_core(x), x, -0x1.5d589ep+6f); }

#define TINY 0x1p-90f

/* A row of which exponentials and sums are known. */
struct loss_row {
    float m, l, inverse; /* the largest logit, the sum of exponentials, and 1 / l as it is rounded */
    uint32_t target;     /* its column, counted like those below */
    uint32_t columns;    /* that are here */
    uint32_t whole;      /* those that are accessed by packs */
};

/* Four logits from column i on; behind the last one −∞, whose exponential is 0. */
LS_DEVICE pack<4> load_four(const ls_cuda_loss &a, const float *z, uint32_t i) {
    if (i < (uint32_t)a.whole) return load_pack<4>(z + i);
    pack<4> x;
#pragma unroll
    for (int k = 0; k < 4; k++) x.v[k] = i + k < (uint32_t)a.columns ? z[i + k] : __uint_as_float(0xFF800000u);
    return x;
}

/* e / l of a row, with `inverse`, 1 / l as it is rounded. With a quotient that is one of the two neighbours of the true
 * one, a step with the exact remainder gives the rounded one (Markstein); the remainder is exact where e is not tiny. */
LS_DEVICE float quotient_of(float e, float l, float inverse) {
    float q = e * inverse;
    q = __fmaf_rn(__fmaf_rn(-q, l, e), inverse, q);
    return __fmaf_rn(__fmaf_rn(-q, l, e), inverse, q);
}

/* The same for an e below TINY, digit by digit: it is rare, and a division would take registers. */
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

/* The gradient of four columns from i on, whose exponentials these are. */
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
    if (i < t.whole) {
        store_numbers(dz, d);
    } else {
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k < t.columns) store(dz + k, d.v[k]);
    }
}

/* Logits on their way to the same place of a row in shared memory. */
LS_DEVICE void copy_four_async(const loss_row &t, float *row, const float *z, uint32_t i) {
    if (i < t.whole) {
        copy16_async(row + i, z + i);
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        if (i + k < t.columns)
            copy4_async(row + i + k, z + i + k);
        else
            row[i + k] = __uint_as_float(0xFF800000u); /* whose exponential is 0 */
    }
}

/* The logits at z come into shared memory, by the copy engine where it can. Gives the largest that this thread saw: each
 * looks at some as they come. */
LS_DEVICE float fetch_row(const loss_row &t, float *row, const float *z, uint64_t *barriers) {
    enum { LATER = 8 };
    const uint32_t packs = (t.columns + 3) / 4, step = blockDim.x, whole = t.whole / 4;
    const uint32_t piece = (whole + FETCHES - 1) / FETCHES;
    float most = __uint_as_float(0xFF800000u);
    uint32_t seen = threadIdx.x;
    if (LS_HAS_BULK && t.whole > 0) {
        for (uint32_t i = 0; threadIdx.x == 0 && i * piece < whole; i++)
            bulk_copy(row + 4 * i * piece, z + 4 * i * piece, 16 * (whole - i * piece < piece ? whole - i * piece : piece),
                      barriers + i);
        if (whole < packs && threadIdx.x < 4) {
            const uint32_t i = t.whole + threadIdx.x;
            row[i] = i < t.columns ? z[i] : __uint_as_float(0xFF800000u); /* whose exponential is 0 */
            most = max_of_any_zero(most, row[i]);
        }
        __syncthreads();
        for (uint32_t i = 0; i * piece < whole; i++) {
            const uint32_t end = (i + 1) * piece < whole ? (i + 1) * piece : whole;
            bulk_wait(barriers + i);
            LS_UNROLL_2 for (; seen < end; seen += step) most = most_of(most, load_pack<4>((const float *)row + 4 * seen));
        }
        return most;
    }
    for (uint32_t p = threadIdx.x; p < packs; p += step) {
        copy_four_async(t, row, z, 4 * p);
        copy_async_commit();
        if (p < threadIdx.x + LATER * step) continue;
        copy_async_wait<LATER>();
        most = most_of(most, load_pack<4>((const float *)row + 4 * seen));
        seen += step;
    }
    copy_async_wait<0>();
    for (; seen < packs; seen += step) most = most_of(most, load_pack<4>((const float *)row + 4 * seen));
    return most;
}

/* Exponentials of packs p, p + step … below `end` of the row. */
LS_DEVICE void raise(float *row, float m, unsigned p, unsigned end, unsigned step) {
    for (; p < end; p += step) {
        float *at = row + 4 * p;
        store_pack<4>(at, map(load_pack<4>((const float *)at), [=](float x) { return exp_number(x - m); }));
    }
}

/* Goes on with lane j of a slice over elements begin … end − 1; begin is a multiple of 16. All threads of a warp come;
 * those whose slice is not here add nothing that counts. */
LS_DEVICE float add_stretch(const float *row, const uint32_t *ends, unsigned slice, bool is_here, unsigned begin,
                            unsigned end, float sum) {
    enum { LOADS = LS_BEFORE_HOPPER ? 8 : 16 };
    const unsigned at = is_here ? ends[slice] : 0, n = is_here ? ends[slice + 1] - at : 0, to = end < n ? end : n;
    /* Both halves of the warp go together where both begin with packs. */
    unsigned steps = !is_here ? ~0u : at % 4 != 0 || to < begin ? 0 : (to - begin) / 16;
    const unsigned other = __shfl_xor_sync(~0u, steps, 16);
    steps = other < steps ? other : steps;
    if (steps == ~0u) return sum;
    const float *from = lanes_at(row + (is_here ? at + begin : 0));
    unsigned k = 0;
    if (steps >= LOADS) {
        /* Numbers of the next turn are on their way while those of this one are added. */
        float x[LOADS], next[LOADS];
#pragma unroll
        for (unsigned i = 0; i < LOADS; i += 4) load_lanes(from + 16 * i, x + i);
        for (k = LOADS; k + LOADS <= steps; k += LOADS) {
#pragma unroll
            for (unsigned i = 0; i < LOADS; i += 4) load_lanes(from + 16 * (k + i), next + i);
#pragma unroll
            for (unsigned i = 0; i < LOADS; i++) sum = sum + x[i];
#pragma unroll
            for (unsigned i = 0; i < LOADS; i++) x[i] = next[i];
        }
#pragma unroll
        for (unsigned i = 0; i < LOADS; i++) sum = sum + x[i];
    }
    for (; k + 4 <= steps; k += 4) {
        float x[4];
        load_lanes(from + 16 * k, x);
#pragma unroll
        for (unsigned i = 0; i < 4; i++) sum = sum + x[i];
    }
    for (unsigned i = begin + 16 * k + threadIdx.x % 16; i < to; i += 16) sum = sum + row[at + i];
    return sum;
}

/* What a block has of a row. */
struct loss_part {
    unsigned rank, blocks;  /* of the cluster */
    unsigned first, slices; /* those that are here, the first and the last perhaps in part */
    unsigned packs;
    bool goes_on;         /* the last slice does in the next block */
    float *row;           /* in shared memory, as all that follows */
    const uint32_t *ends; /* where the slices begin, and where the last one ends */
    float *sums;          /* of all slices of the row */
    float *carry;         /* sixteen sums of the first slice, by the block before this one */
    uint64_t *notes;
};

/* A slice's sixteen sums, of neighbours, go where they are waited for. */
LS_DEVICE void hand_over(const loss_part &p, unsigned slice, float sum) {
    const bool is_here = slice < p.slices, goes_on = p.goes_on && slice + 1 == p.slices;
    const unsigned lane = threadIdx.x % 16;
    const float joined = join16(sum);
    if (is_here && goes_on)
        note_send(p.carry + lane, p.notes + NOTE_CARRY, p.rank + 1, sum);
    else if (is_here && p.blocks > 1 && lane < p.blocks)
        note_send(p.sums + p.first + slice, p.notes + NOTE_SUMS, lane, joined);
    else if (is_here && p.blocks == 1 && lane == 0)
        p.sums[slice] = joined;
}

/* All exponentials are there. */
LS_DEVICE void sum_part(const loss_part &p, bool has_carry) {
    const unsigned chains = 16 * p.slices;
    for (unsigned first = 0; first < chains; first += blockDim.x) {
        const unsigned slice = (first + threadIdx.x) / 16;
        float sum = has_carry && slice == 0 ? p.carry[threadIdx.x] : 0.0f;
        sum = add_stretch(p.row, p.ends, slice, slice < p.slices, 0, ~0u, sum);
        hand_over(p, slice, sum);
    }
}

/* Exponentials, and their sums behind them. A slice has the packs from that of its first element on; the one in which it
 * ends, the next slice raises first of all. Sums stay sixteen elements behind: a slice need not begin with a pack. */
LS_DEVICE void raise_and_sum_part(const loss_part &p, float m) {
    enum { BARRIERS = 15 };
    const unsigned adders = (16 * p.slices + 31) / 32 * 32, warp = threadIdx.x / 32;
    /* A lonely warp that adds shall not wait for its turn among others: those of its scheduler, every fourth, rest. */
    const bool is_lonely = REST && adders == 32 && blockDim.x % 128 == 0;
    const unsigned others = is_lonely ? blockDim.x / 4 * 3 : blockDim.x - adders, each = others / p.slices / 4 * 4;
    unsigned longest = 0;
    for (unsigned s = 0; s < p.slices; s++) longest = p.ends[s + 1] - p.ends[s] > longest ? p.ends[s + 1] - p.ends[s] : longest;
    /* A slice lies in two packs more than it fills at most. */
    const unsigned turns = (longest / 4 + 1) / each + 1, packs = (turns + BARRIERS - 1) / BARRIERS * each;
    const unsigned stretches = (longest / 4 + 1) / packs + 1;
    if (threadIdx.x >= adders) {
        if (is_lonely && warp % 4 == 0) return;
        const unsigned number = is_lonely ? threadIdx.x - 32 * (warp / 4 + 1) : threadIdx.x - adders, s = number / each;
        unsigned from = 0, last = 0;
        if (s < p.slices) from = p.ends[s] / 4, last = s + 1 < p.slices ? p.ends[s + 1] / 4 : p.packs;
        for (unsigned k = 0; k < stretches; k++, from += packs) {
            raise(p.row, m, from + number % each, from + packs < last ? from + packs : last, each);
            barrier_arrive(1 + k, adders + others);
        }
    } else {
        const unsigned slice = threadIdx.x / 16;
        float sum = 0.0f;
        for (unsigned k = 0, done = 0; k < stretches; k++) {
            const unsigned to = k + 1 < stretches ? 4 * packs * (k + 1) - 16 : ~0u;
            barrier_wait(1 + k, adders + others);
            sum = add_stretch(p.row, p.ends, slice, slice < p.slices, done, to, sum);
            done = to;
        }
        hand_over(p, slice, sum);
    }
}

/* The tree over slices, for all threads of the block. */
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

/* Row r of the logits, counted from the first column. */
LS_DEVICE const float *logits_of(const ls_cuda_loss &a, size_t r) { return a.z + r * a.z_stride + a.first; }

/* The largest of what the blocks of the cluster have. */
template <int N> LS_DEVICE float cluster_max(float most, unsigned rank, float *space, uint64_t *note) {
    if (N == 1) return most;
    if (threadIdx.x < N) note_send(space + rank, note, threadIdx.x, most);
    note_wait(note);
#pragma unroll
    for (int i = 0; i < N; i++) most = max_of_any_zero(most, space[i]);
    return quiet(most, most != most);
}

#define SMALL 0x1p-64f

/* The gradient of packs whose exponentials these are, less that of the target. g is a power of two, so its product with
 * a quotient is the quotient by l/g; no number on the way is subnormal. `l` and `inverse` are l/g and g/l. */
template <class T, int N>
LS_DEVICE void grad_packs(const ls_cuda_loss &a, const loss_row &t, float l, float inverse, const pack<4> (&e)[N], T *dz,
                          uint32_t step) {
    pack<4> d[N];
    uint32_t least = ~0u; /* numbers from 0 on are in the order of their bits */
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int k = 0; k < 4; k++) {
            least = __float_as_uint(e[i].v[k]) < least ? __float_as_uint(e[i].v[k]) : least;
            d[i].v[k] = quotient_of(e[i].v[k], l, inverse);
        }
    if (least < __float_as_uint(SMALL)) {
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (e[i].v[k] < SMALL) d[i].v[k] = quotient_of_tiny(e[i].v[k], t.l) * a.g;
    }
#pragma unroll
    for (int i = 0; i < N; i++) store_numbers(dz + i * step, d[i]);
}

template <class T> LS_DEVICE void write_grad(const ls_cuda_loss &a, const loss_row &t, const float *row, T *dz) {
    const bool is_plain = (__float_as_uint(a.g) & 0x807FFFFFu) == 0 && a.g >= 0x1p-30f && a.g <= 0x1p30f && t.l < 0x1p24f;
    const uint32_t packs = (t.columns + 3) / 4, step = blockDim.x, whole = is_plain ? t.whole / 4 : 0;
    if (!is_finite(t.m)) {
        /* Where the largest logit is not finite, nothing is: it is itself, or the difference to it. */
        for (uint32_t i = threadIdx.x; i < t.columns; i += step) store(dz + i, t.l);
        return;
    }
    const float l = t.l * (1.0f / a.g), inverse = t.inverse * a.g;
    uint32_t p = threadIdx.x;
    for (; p + step < whole; p += 2 * step) {
        const pack<4> e[2] = {load_pack<4>(row + 4 * p), load_pack<4>(row + 4 * (p + step))};
        grad_packs<T, 2>(a, t, l, inverse, e, dz + 4 * p, 4 * step);
    }
    for (; p < whole; p += step) {
        const pack<4> e[1] = {load_pack<4>(row + 4 * p)};
        grad_packs<T, 1>(a, t, l, inverse, e, dz + 4 * p, 0);
    }
    for (; p < packs; p += step) grad_four<T>(a, t, dz, 4 * p, load_pack<4>(row + 4 * p));
    /* Who has written it writes that of the target again. */
    if (t.target < 4 * whole && t.target / 4 % step == threadIdx.x) {
        const float e = row[t.target], q = e < TINY ? quotient_of_tiny(e, t.l) : quotient_of(e, t.l, t.inverse);
        store(dz + t.target, (q - 1.0f) * a.g);
    }
}

/* A row by N blocks. */
template <int N> LS_DEVICE void do_row(const ls_cuda_loss &a) {
    LS_SHARED(uint64_t, barriers);
    uint64_t *notes = barriers + FETCHES;
    float *row = (float *)(notes + NOTES), *sums = row + a.part, *carry = sums + a.slices, *maxima = carry + 16, *pluses = maxima + N, *space = pluses + N;
    uint32_t *ends = (uint32_t *)(space + 32);
    const unsigned rank = N > 1 ? blockIdx.x % N : 0;
    const size_t r = blockIdx.x / N;
    const uint32_t begin = a.cuts[rank].column, end = a.cuts[rank + 1].column, whole = (uint32_t)a.whole;
    const float *z = logits_of(a, r) + begin;
    const uint32_t target = (uint32_t)(target_of(a, r) - (int64_t)a.first); /* all lie in the columns */
    const bool is_first = rank == 0 && threadIdx.x == 0;
    const float z_target = is_first ? z[target] : 0.0f;
    const loss_part p = {rank,         N,   a.cuts[rank].slice, a.cuts[rank].slices, (end - begin + 3) / 4, a.cuts[rank].goes_on != 0,
                         row,          ends, sums, carry, notes};
    const unsigned position = a.cuts[rank].position;
    if (N > 1) {
        if (threadIdx.x == 0) {
            note_open(notes + NOTE_MAX, 4 * N);
            note_open(notes + NOTE_PLUS, 4 * N);
            note_open(notes + NOTE_SUMS, 4 * (uint32_t)a.slices);
            note_open(notes + NOTE_CARRY, position > 0 ? 4 * 16 : 0);
        }
        cluster_begin();
    }
    loss_row t = {0, __uint_as_float(LS_NAN_BITS), 0, target - begin, end - begin, 0};
    t.whole = whole > begin ? (whole < end ? whole : end) - begin : 0;
    for (unsigned i = threadIdx.x; i <= p.slices; i += blockDim.x) {
        const uint32_t at = (uint32_t)(size_at(a.bounds, p.first + i) - a.first);
        ends[i] = (at < begin ? begin : at > end ? end : at) - begin;
    }
    t.m = cluster_max<N>(block_max(fetch_row(t, row, z, barriers), space), rank, maxima, notes + NOTE_MAX); /* waits for the row too */
    if (t.m == 0.0f) t.m = cluster_max<N>(has_plus_zero(row, t.columns, space), rank, pluses, notes + NOTE_PLUS) == 1.0f ? 0.0f : -0.0f;
    /* While nothing is read, the row that comes next here goes into the GPU's cache. */
    if (r + a.ahead < a.rows) {
        const float *later = z + a.ahead * a.z_stride;
        for (uint32_t i = 32 * threadIdx.x; i < t.columns; i += 32 * blockDim.x) prefetch(later + i);
    }
    if (is_finite(t.m)) {
        const bool is_raised = position > 0 || 64 * p.slices > blockDim.x;
        if (is_raised) {
            raise(row, t.m, threadIdx.x, p.packs, blockDim.x);
            __syncthreads();
            if (position > 0) note_wait(notes + NOTE_CARRY);
            sum_part(p, position > 0);
        } else {
            raise_and_sum_part(p, t.m);
        }
        __syncthreads();
        if (N > 1) note_wait(notes + NOTE_SUMS);
        t.l = join_slices(sums, (unsigned)a.slices);
        t.inverse = __frcp_rn(t.l);
    }
    if (a.dz) LS_BY_TYPE(a.dz_dtype, T, { write_grad(a, t, row, (T *)a.dz + r * a.dz_stride + a.first + begin); });
    if (!is_first) return;
    a.loss[r] = value_of(z_target, t.m, t.l);
    if (a.m) a.m[r] = t.m;
    if (a.l) a.l[r] = t.l;
}

LS_KERNEL_MANY(loss_rows, ls_cuda_loss, LS_CUDA_LOSS_THREADS, 2) { do_row<1>(a); }
LS_KERNEL_CLUSTER(loss_rows_2, ls_cuda_loss, LS_CUDA_LOSS_THREADS, 2, 2) { do_row<2>(a); }
LS_KERNEL_CLUSTER(loss_rows_4, ls_cuda_loss, LS_CUDA_LOSS_THREADS, 2, 4) { do_row<4>(a); }
LS_KERNEL_CLUSTER(loss_rows_8, ls_cuda_loss, LS_CUDA_LOSS_THREADS, 2, 8) { do_row<8>(a); }

/* ---- rows that workers share, and rows that shared memory does not hold ------------------------------------------ */

LS_KERNEL(loss_max, ls_cuda_loss, LS_CUDA_LOSS_THREADS) {
    __shared__ float space[LS_CUDA_LOSS_THREADS / 32];
    const size_t r = blockIdx.x;
    const float *z = a.z + r * a.z_stride;
    float m = __uint_as_float(0xFF800000u);
    visit_row<4>(a, z + a.first, [&](auto, size_t, const auto &x) { m = most_of(m, x); });
    m = block_max(m, space);
    if (m == 0.0f) m = has_plus_zero(z + a.first, a.columns, space) == 1.0f ? 0.0f : -0.0f;
    if (threadIdx.x > 0) return;
    const int64_t target = target_of(a, r);
    a.m[r] = m;
    a.z_target[r] = is_held(a, target) ? z[target] : __uint_as_float(0xFF800000u);
}

/* Goes on with a lane over the logits from i on: their exponentials are added. */
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

/* Half a warp has a slice of a row: thread j of sixteen is lane j. */
LS_KERNEL(loss_sums, ls_cuda_loss, 16 * LS_CUDA_LOSS_SUMS) {
    size_t unit = (size_t)blockIdx.x * LS_CUDA_LOSS_SUMS + threadIdx.x / 16;
    const bool is_in = unit < a.rows * a.slices;
    if (!is_in) unit = 0;
    const size_t r = unit / a.slices, slice = unit % a.slices, end = size_at(a.bounds, slice + 1);
    const float *z = a.z + r * a.z_stride, m = a.m[r];
    const size_t i = size_at(a.bounds, slice) + threadIdx.x % 16;
    float sum = is_finite(m) ? sum_lane(z, i, end, [=](float x) { return exp_number(x - m); })
                             : sum_lane(z, i, end, [=](float x) { return exp_of(x - m); });
    sum = join16(sum);
    if (is_in && threadIdx.x % 16 == 0) a.sums[slice * a.rows + r] = sum;
}

LS_KERNEL(loss_values, ls_cuda_loss, LS_CUDA_LOSS_VALUES) {
    size_t r = (size_t)blockIdx.x * LS_CUDA_LOSS_VALUES + threadIdx.x;
    if (r < a.rows) a.loss[r] = value_of(a.z_target[r], a.m[r], a.l[r]);
}

/* A 16-bit dz may lie over z. Its elements are half as wide, so what a stretch writes has been read where all threads have
 * read the stretch. */
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

/* With numbers that are not finite among them. */
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

LS_KERNEL(loss_grad, ls_cuda_loss, LS_CUDA_LOSS_GRAD) {
    const size_t r = blockIdx.x;
    const float m = a.m[r], l = a.l[r], *z = logits_of(a, r);
    const int64_t target = target_of(a, r) - (int64_t)a.first;
    const loss_row t = {m, l, __frcp_rn(l), (uint32_t)target, (uint32_t)a.columns, (uint32_t)a.whole};
    LS_BY_TYPE(a.dz_dtype, T, {
        T *dz = (T *)a.dz + r * a.dz_stride + a.first;
        if (is_finite(m) && l >= 1.0f && l < 0x1p32f)
            grad_numbers<T>(a, t, z, dz);
        else
            grad_any(a, z, dz, m, l, target);
    });
}
