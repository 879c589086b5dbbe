/* attention_hgmma_any.cu: attention by the tensor cores (docs/reference/arithmetic.md, "With hgmma") for every head size, stride
 * and alignment, and for few queries: by mma.sync, from tiles in shared memory.
 *
 *     stats      L and D of each query: half a warp a row; wide, where rows lie at multiples of 16 bytes: two threads a
 *                row
 *     masks      which weights dropout keeps, for the kernels of attention_hgmma.cu and attention_hgmma_once.cu
 *     forward    a block has 64 queries of a head, a warp 16 of them; blocks of 128 keys pass by
 *     queries    a block has 64 queries of a head; keys pass by, 64 at a time: dQ
 *     keys       a block has 64 keys of a kv head; the queries of its heads pass by, 64 at a time: dK and dV
 *
 * Weights go from the product that makes them to the one that reads them through shared memory. Products of which
 * nothing is seen are left out. What is behind the end of a tensor is +0. */
#include "device/cuda/common/mma.cuh"
#include "device/cuda/common/pack.cuh"
#include "device/cuda/common/attention_hgmma.cuh"

enum {
    KEYS = LS_CUDA_HGMMA_KEYS,
    ROWS = LS_CUDA_HGMMA_ANY_QUERIES,
    OTHERS = LS_CUDA_HGMMA_ANY_KEYS,
    FORWARD_THREADS = LS_CUDA_HGMMA_ANY_FORWARD_THREADS,
    BACKWARD_THREADS = LS_CUDA_HGMMA_ANY_BACKWARD_THREADS,
};

/* ---- the unit ---------------------------------------------------------------------------------------------------- */

/* Lines of 16 numbers in shared memory: number k of line i is at[i·pitch + k] or, ACROSS, at[k·pitch + i]. */
template <bool ACROSS> struct lines {
    const uint16_t *at;
    int pitch;
    LS_DEVICE lines(const uint16_t *p, int step) : at(p), pitch(step) {}
    /* Returns numbers k and k + 1 of line i, the first in the low half; k is even. */
    LS_DEVICE uint32_t pair(int i, int k) const {
        if (ACROSS) return at[k * pitch + i] | (uint32_t)at[(k + 1) * pitch + i] << 16;
        return *(const uint32_t *)(at + i * pitch + k);
    }
};
using lines_along = lines<false>;
using lines_across = lines<true>;

/* Adds a granule to a tile of 16 × 8 sums: the products of 16 lines of a and 8 lines of b. A lane has in d[0], d[1] line
 * lane / 4 of a, in d[2], d[3] that + 8, each with lines 2·(lane mod 4) and the next of b. The whole warp calls it. */
template <bool IS_F16, class A, class B> LS_DEVICE void add_granule_of(float (&d)[4], A a, B b) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#ifndef LS_CUDA_ON_CPU_H
    const uint32_t x[4] = {a.pair(g, 2 * t), a.pair(g + 8, 2 * t), a.pair(g, 2 * t + 8), a.pair(g + 8, 2 * t + 8)};
    const uint32_t y[2] = {b.pair(g, 2 * t), b.pair(g, 2 * t + 8)};
    mma_16x8x16<IS_F16>(d, x, y);
#else
    const format f = unit_format<IS_F16>();
    line x[2], y[2];
    for (int i = 0; i < 2; i++) {
        uint32_t row[8], column[8];
        for (int k = 0; k < 8; k++) row[k] = a.pair(g + 8 * i, 2 * k), column[k] = b.pair(2 * t + i, 2 * k);
        take_line(&x[i], (const uint16_t *)row, f);
        take_line(&y[i], (const uint16_t *)column, f);
    }
    for (int i = 0; i < 4; i++) d[i] = add_granule(&x[i / 2], &y[i % 2], f, d[i]);
#endif
}

/* Sets the four sums of a thread to +0. */
LS_DEVICE void clear(float (&x)[4]) { LS_UNROLL for (int e = 0; e < 4; e++) x[e] = 0.0f; }

/* Sets a tile of sums (add_granule_of) to the dot products, over the first `size` numbers, of 16 rows of a with 8 of b. */
template <bool IS_F16> LS_DEVICE void dots_of(float (&out)[4], const uint16_t *a, const uint16_t *b, int pitch, int size) {
    clear(out);
    LS_UNROLL_4 for (int k = 0; k < size; k += 16)
        add_granule_of<IS_F16>(out, lines_along(a + k, pitch), lines_along(b + k, pitch));
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* The place of a head of a launch. */
struct head_place {
    const ls_cuda_attention_part *part;
    uint32_t head, sequence; /* head: in its part, of keys or of queries */
    uint32_t first;          /* the number in the launch of the part's first query head, also for heads of keys */
};

/* Returns the place of head `number` of the launch, of keys if OF_KEYS, in sequence blockIdx.z. */
template <bool OF_KEYS> LS_DEVICE head_place find_head(const ls_cuda_attention_hgmma &h, uint32_t number) {
    head_place p = {h.a.parts, number, blockIdx.z, 0};
    for (;; p.part++) {
        const uint32_t here = OF_KEYS ? p.part->kv_heads : p.part->heads;
        if (p.head < here) return p;
        p.head -= here;
        p.first += p.part->heads;
    }
}

/* Loads COUNT rows of a head, from row `first` of `rows` on, to shared memory, where rows are D + 8 numbers apart. Rows
 * behind the last and numbers up to a whole granule are +0, those further on are not written. A barrier must follow. */
template <int D, int COUNT, int THREADS>
LS_DEVICE void load_rows(const ls_cuda_attention &a, uint16_t *to, const ls_cuda_heads &x, uint32_t sequence,
                         uint32_t head, int first, int rows) {
    const uint16_t *from = (const uint16_t *)x.at + head_at(x, sequence, head);
    const int fours = (a.head_size + 15) / 16 * 4;
    for (int i = threadIdx.x; i < COUNT * fours; i += THREADS) {
        const int r = i / fours, c = i % fours * 4;
        uint2 v = make_uint2(0, 0);
        if (first + r < rows && c < a.head_size) {
            const uint16_t *p = from + (size_t)(first + r) * x.row_stride + c;
            if (a.is_vector) {
                v = *(const uint2 *)p;
            } else {
                const int count = a.head_size - c;
                v.x = p[0] | (count > 1 ? (uint32_t)p[1] << 16 : 0);
                v.y = (count > 2 ? p[2] : 0) | (count > 3 ? (uint32_t)p[3] << 16 : 0);
            }
        }
        *(uint2 *)(to + r * (D + 8) + c) = v;
    }
}

/* Stores a warp's N tiles of sums (add_granule_of), rounded to 16 bits: rows from `row` on, times factor0 or, 8 rows down,
 * factor1; tile i has columns from column + 8·i on. Rows from `rows` on and columns behind the head are not written. */
template <bool IS_F16, int N>
LS_DEVICE void store_rows(const ls_cuda_attention &a, const ls_cuda_heads &to, const head_place &p, int row, int rows,
                          int column, const float (&x)[N][4], float factor0, float factor1) {
    uint16_t *at = (uint16_t *)to.at + head_at(to, p.sequence, p.head);
    const int lane = threadIdx.x % 32;
    LS_UNROLL for (int i = 0; i < N; i++)
        LS_UNROLL for (int e = 0; e < 4; e++) {
            const int r = row + lane / 4 + e / 2 * 8, c = column + i * 8 + lane % 4 * 2 + e % 2;
            const float y = x[i][e] * (e < 2 ? factor0 : factor1);
            if (r < rows && c < a.head_size) at[(size_t)r * to.row_stride + c] = IS_F16 ? to_f16(y) : to_bf16(y);
        }
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Computes o, m and l of this block's 64 queries of a head; blockIdx.x counts tiles from the last one, which sees the most
 * keys, y heads, z sequences. D: numbers of a head in shared memory. */
template <int D, bool IS_F16> LS_DEVICE void forward_tile(const ls_cuda_attention_hgmma &h) {
    enum { PITCH = D + 8, P_PITCH = KEYS + 8, SOME = LS_CUDA_HGMMA_ANY_SOME_KEYS(D) };
    LS_SHARED(uint16_t, shared);
    uint16_t *Q = shared, *KV = Q + ROWS * PITCH, *P = KV + SOME * PITCH; /* KV: some rows of K, then of V */
    const ls_cuda_attention &a = h.a;
    const head_place p = find_head<false>(h, blockIdx.y);
    const ls_cuda_attention_part &part = *p.part;
    const uint32_t kv = p.head / (part.heads / part.kv_heads);
    const float c = scale2_of(part);
    const int rows = a.T - a.first_query, row0 = (int)(gridDim.x - 1 - blockIdx.x) * ROWS; /* the longest first */
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = row0 + warp * 16;
    const int first = a.first_query + row, last = min(a.T - 1, first + 15);
    const int end = min(a.T, a.first_query + row0 + ROWS);
    const bool drops = part.drop_scale != 0.0f;
    dropout_rule rule;
    if (drops) rule.open(a, part, p.sequence, p.head);
    load_rows<D, ROWS, FORWARD_THREADS>(a, Q, part.q, p.sequence, p.head, row0, rows);
    float m[2] = {-LS_INFINITY, -LS_INFINITY}, l[2] = {0.0f, 0.0f}, o[D / 8][4];
    LS_UNROLL for (int i = 0; i < D / 8; i++) clear(o[i]);
    const uint16_t *my_q = Q + warp * 16 * PITCH;
    uint16_t *my_p = P + warp * 16 * P_PITCH;
    for (int key = 0; key < end; key += KEYS) {
        float s[KEYS / 8][4], n[2] = {m[0], m[1]}, alpha[2];
        LS_UNROLL for (int i = 0; i < KEYS / 8; i++) {
            if (i * 8 % SOME == 0) {
                __syncthreads();
                load_rows<D, SOME, FORWARD_THREADS>(a, KV, part.k, p.sequence, kv, key + i * 8, a.T);
                __syncthreads();
            }
            clear(s[i]);
            if (key + i * 8 <= last) dots_of<IS_F16>(s[i], my_q, KV + i * 8 % SOME * PITCH, PITCH, a.head_size);
            LS_UNROLL for (int e = 0; e < 4; e++) {
                const int k = key + i * 8 + lane % 4 * 2 + e % 2, query = first + lane / 4 + e / 2 * 8;
                if (k > query) s[i][e] = -LS_INFINITY;
                n[e / 2] = max_of_any_zero(n[e / 2], s[i][e]);
            }
        }
        if (key <= last) { /* a warp whose queries see none of the block only helps to load */
            LS_UNROLL for (int r = 0; r < 2; r++) {
                LS_UNROLL for (int x = 1; x < 4; x *= 2) n[r] = max_of_any_zero(n[r], __shfl_xor_sync(~0u, n[r], x));
                alpha[r] = exp2_of((m[r] - n[r]) * c);
                m[r] = n[r];
                l[r] = l[r] * alpha[r];
            }
            LS_UNROLL for (int i = 0; i < KEYS / 8; i++)
                LS_UNROLL for (int r = 0; r < 2; r++) {
                    const float shift = -(m[r] * c);
                    float x = exp2_of(__fmaf_rn(s[i][2 * r], c, shift)), y = exp2_of(__fmaf_rn(s[i][2 * r + 1], c, shift));
                    l[r] = l[r] + (x + y);
                    if (drops) {
                        const int k = key + i * 8 + lane % 4 * 2, query = first + lane / 4 + r * 8;
                        if (k <= query) x = x * rule.factor(query, k);
                        if (k + 1 <= query) y = y * rule.factor(query, k + 1);
                    }
                    *(uint32_t *)(my_p + (lane / 4 + 8 * r) * P_PITCH + i * 8 + lane % 4 * 2) = rounded_pair<IS_F16>(x, y);
                }
            __syncwarp();
            LS_UNROLL for (int i = 0; i < D / 8; i++)
                LS_UNROLL for (int e = 0; e < 4; e++) o[i][e] = o[i][e] * alpha[e / 2];
        }
        LS_NO_UNROLL for (int some = 0; some < KEYS; some += SOME) {
            __syncthreads();
            load_rows<D, SOME, FORWARD_THREADS>(a, KV, part.v, p.sequence, kv, key + some, a.T);
            __syncthreads();
            LS_NO_UNROLL for (int g = 0; g < SOME && key + some + g <= last; g += 16)
                LS_UNROLL for (int i = 0; i < D / 8; i++)
                    if (i * 8 < a.head_size)
                        add_granule_of<IS_F16>(o[i], lines_along(my_p + some + g, P_PITCH),
                                               lines_across(KV + g * PITCH + i * 8, PITCH));
        }
    }
    LS_UNROLL for (int r = 0; r < 2; r++)
        LS_UNROLL for (int x = 1; x < 4; x *= 2) l[r] = l[r] + __shfl_xor_sync(~0u, l[r], x);
    /* A sum of the unit is never −0: nothing has to be added. */
    store_rows<IS_F16>(a, part.o, p, row, rows, 0, o, __frcp_rn(l[0]), __frcp_rn(l[1]));
    const size_t stat = p.sequence * a.stat_elems + p.head * part.stat_stride;
    LS_UNROLL for (int r = 0; r < 2; r++) {
        const int mine = row + lane / 4 + 8 * r;
        if (lane % 4 == 0 && mine < rows) part.m[stat + mine] = m[r], part.l[stat + mine] = l[r];
    }
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Returns this thread's lane of sum16 of dO·O of a query: elements threadIdx.x mod 16, and every 16th from there. */
template <class T> LS_DEVICE float dot_of(const ls_cuda_attention &a, const head_place &p, int row) {
    const ls_cuda_attention_part &part = *p.part;
    const T *x = (const T *)part.dout.at + head_at(part.dout, p.sequence, p.head) + (size_t)row * part.dout.row_stride;
    const T *y = (const T *)part.o.at + head_at(part.o, p.sequence, p.head) + (size_t)row * part.o.row_stride;
    float sum = 0.0f;
    for (int d = threadIdx.x % 16; d < a.head_size; d += 16) sum = __fmaf_rn(load(x + d), load(y + d), sum);
    return sum;
}

/* Returns the index of a query in m, l and dots of its part. */
LS_DEVICE size_t stat_of(const ls_cuda_attention &a, const head_place &p, int row) {
    return p.sequence * a.stat_elems + p.head * p.part->stat_stride + (size_t)row;
}

/* Returns L, the logarithm to base 2 of a query's sum of exponentials; +∞ for a row that is no query, so that its weights
 * are +0. */
LS_DEVICE float log_sum(const ls_cuda_attention_part &part, bool is_query, float m, float l) {
    return is_query ? __fmaf_rn(m, scale2_of(part), log_of(l) * 0x1.715476p+0f) : LS_INFINITY;
}

/* Clears the counter of turns (attention_hgmma_once.cu) of the 64 queries that begin with this row, if there are counters. */
LS_DEVICE void open_turn(const ls_cuda_attention_hgmma &h, const head_place &p, int row) {
    if (h.turns && row % 64 == 0)
        h.turns[((size_t)p.sequence * h.all_heads + h.head0 + p.first + p.head) * (h.stat_rows / 64) + row / 64] = 0;
}

/* Computes L and D of each row up to stat_rows, for any alignment, and stores D as `dots`, too, and clears the counters of
 * turns: half a warp a row. blockIdx.x is a block of rows, y the head, z the sequence. */
LS_KERNEL(attention_hgmma_stats, ls_cuda_attention_hgmma, 16 * LS_CUDA_HGMMA_STATS_ROWS) {
    const head_place p = find_head<false>(a, blockIdx.y);
    const ls_cuda_attention_part &part = *p.part;
    const int row = (int)blockIdx.x * LS_CUDA_HGMMA_STATS_ROWS + (int)threadIdx.x / 16;
    const bool is_query = row < a.a.T;
    float sum = 0.0f;
    LS_BY_TYPE(a.a.act, T, { sum = dot_of<T>(a.a, p, is_query ? row : 0); }); /* an exchange needs all lanes */
    sum = join16(sum);
    if (threadIdx.x % 16) return;
    float *L = stats_of(a, p.sequence, p.first + p.head) + row;
    const size_t stat = stat_of(a.a, p, row);
    open_turn(a, p, row);
    if (is_query) part.dots[stat] = sum;
    L[a.stat_rows] = is_query ? sum : 0.0f;
    L[0] = log_sum(part, is_query, is_query ? part.m[stat] : 0.0f, is_query ? part.l[stat] : 1.0f);
}

/* Returns sum16 of dO·O of a query to two neighbouring threads. The first has lanes 0 … 7 of the sum, the second 8 … 15:
 * each reads every other 16 bytes of a row, four of each tensor before it adds. */
template <class T> LS_DEVICE float wide_dot(const ls_cuda_attention &a, const head_place &p, int row) {
    enum { PACKS = 4 };
    const ls_cuda_attention_part &part = *p.part;
    const int begin = threadIdx.x % 2 * 8;
    const T *x = (const T *)part.dout.at + head_at(part.dout, p.sequence, p.head) + (size_t)row * part.dout.row_stride;
    const T *y = (const T *)part.o.at + head_at(part.o, p.sequence, p.head) + (size_t)row * part.o.row_stride;
    float lanes[8];
    LS_UNROLL for (int j = 0; j < 8; j++) lanes[j] = 0.0f;
    LS_NO_UNROLL for (int d = begin; d < a.head_size; d += 16 * PACKS) {
        uint4 xs[PACKS], ys[PACKS];
        LS_UNROLL for (int i = 0; i < PACKS; i++)
            if (d + 16 * i < a.head_size) {
                xs[i] = *(const uint4 *)(x + d + 16 * i);
                ys[i] = *(const uint4 *)(y + d + 16 * i);
            }
        LS_UNROLL for (int i = 0; i < PACKS; i++)
            if (d + 16 * i < a.head_size) {
                const pack<8> u = packed<8>::load((const T *)&xs[i]), v = packed<8>::load((const T *)&ys[i]);
                LS_UNROLL for (int j = 0; j < 8; j++) lanes[j] = __fmaf_rn(u.v[j], v.v[j], lanes[j]);
            }
    }
    /* As join16: lane j and j + 8, then j + 4, j + 2, j + 1; the second thread's sum is the same. */
    LS_UNROLL for (int j = 0; j < 8; j++) {
        const float other = __shfl_xor_sync(~0u, lanes[j], 1);
        lanes[j] = begin ? other + lanes[j] : lanes[j] + other;
    }
    LS_UNROLL for (int n = 4; n > 0; n /= 2)
        LS_UNROLL for (int j = 0; j < n; j++) lanes[j] = lanes[j] + lanes[j + n];
    return lanes[0];
}

/* Does the same as attention_hgmma_stats for rows at multiples of 16 bytes: two threads a row. blockIdx.x is the head, y a
 * block of rows: what blocks read at the same time lies side by side. */
LS_KERNEL(attention_hgmma_stats_wide, ls_cuda_attention_hgmma, 2 * LS_CUDA_HGMMA_STATS_WIDE_ROWS) {
    const head_place p = find_head<false>(a, blockIdx.x);
    const ls_cuda_attention_part &part = *p.part;
    const int row = (int)blockIdx.y * LS_CUDA_HGMMA_STATS_WIDE_ROWS + (int)threadIdx.x / 2;
    const bool is_query = row < a.a.T;
    const size_t stat = stat_of(a.a, p, row);
    const float m = is_query ? part.m[stat] : 0.0f, l = is_query ? part.l[stat] : 1.0f;
    const int from = is_query ? row : 0; /* an exchange needs all lanes */
    const float sum = a.a.act == LS_CUDA_F16 ? wide_dot<f16>(a.a, p, from) : wide_dot<bf16>(a.a, p, from);
    float *L = stats_of(a, p.sequence, p.first + p.head) + row;
    if (threadIdx.x % 2) {
        L[0] = log_sum(part, is_query, m, l);
        open_turn(a, p, row);
    } else {
        L[a.stat_rows] = is_query ? sum : 0.0f;
        if (is_query) part.dots[stat] = sum;
    }
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

/* Transposes a 32 × 32 matrix of bits, a row in each lane: bit i of lane j becomes bit j of lane i. The whole warp calls it. */
LS_DEVICE uint32_t turned(uint32_t x) {
    const uint32_t lane = threadIdx.x % 32;
    uint32_t low = 0x0000FFFFu; /* bits whose number lacks `step` */
    LS_UNROLL for (uint32_t step = 16; step; step /= 2, low ^= low << step) {
        const uint32_t other = __shfl_xor_sync(~0u, x, (int)step);
        x = lane & step ? (x & ~low) | (other >> step & low) : (x & low) | (other & low) << step;
    }
    return x;
}

/* Returns eight bits: for each j from 0 to 3, bits 8·j + 2·i and the next of a word. */
LS_DEVICE uint32_t pairs_of(uint32_t word, int i) {
    uint32_t x = word >> 2 * i & 0x03030303u;
    x |= x >> 6;
    return (x | x >> 12) & 0xFFu;
}

/* Writes the dropout masks (ls_cuda_attention_hgmma::masks) of a tile of queries and keys, by lines of queries or, masks_across,
 * of keys; nothing for tiles above the diagonal. A warp has 32 of each at a time, a lane a query. blockIdx.x is the tile, y the
 * head, z the sequence. */
LS_KERNEL(attention_hgmma_masks, ls_cuda_attention_hgmma, LS_CUDA_HGMMA_MASK_THREADS) {
    enum { TILE = LS_CUDA_HGMMA_MASK_TILE, WORDS = TILE / 32 };
    __shared__ uint32_t words[WORDS][TILE];
    const uint32_t tiles = (uint32_t)a.stat_rows / TILE, queries = blockIdx.x / tiles, keys = blockIdx.x % tiles;
    if (keys > queries) return;
    const head_place p = find_head<false>(a, blockIdx.y);
    const uint32_t lane = threadIdx.x % 32, lines = a.masks_across ? keys : queries, others = a.masks_across ? queries : keys;
    dropout_rule rule;
    rule.open(a.a, *p.part, p.sequence, p.head);
    LS_NO_UNROLL for (uint32_t i = threadIdx.x / 32; i < WORDS * WORDS; i += LS_CUDA_HGMMA_MASK_THREADS / 32) {
        const uint32_t q = i / WORDS, k = i % WORDS;
        const uint32_t kept = rule.kept((int)(queries * TILE + q * 32 + lane), (int)(keys * TILE + k * 32));
        if (a.masks_across)
            words[q][k * 32 + lane] = turned(kept);
        else
            words[k][q * 32 + lane] = kept;
    }
    __syncthreads();
    const uint32_t line = threadIdx.x;
    if (line >= TILE) return;
    LS_UNROLL for (int half = 0; half < 2; half++) {
        const uint32_t low = words[2 * half][line], high = words[2 * half + 1][line];
        uint32_t out[4];
        LS_UNROLL for (int i = 0; i < 4; i++) out[i] = pairs_of(low, i) | pairs_of(high, i) << 8;
        uint16_t *to = masks_at(a, p.sequence, p.first + p.head, (int)(others * 2 + half), (int)(lines * TILE + line));
        *(uint2 *)to = make_uint2(out[0] | out[1] << 16, out[2] | out[3] << 16);
    }
}

/* ---- backward's tiles -------------------------------------------------------------------------------------------- */

/* A tile of 64 queries and 64 keys in shared memory: rows of Q, dO (G), K and V, and what make() computes of them for the
 * matmuls: P, the weights after dropout, and DS, the gradients of the scores, both [query][key]. */
template <int D, bool IS_F16> struct weights_tile {
    enum { PITCH = D + 8, P_PITCH = OTHERS + 8, N = 4 };
    uint16_t *Q, *G, *K, *V, *P, *DS;
    /* Places the arrays in the block's shared memory. */
    LS_DEVICE weights_tile(uint16_t *shared) {
        Q = shared, G = Q + ROWS * PITCH, K = G + ROWS * PITCH, V = K + OTHERS * PITCH;
        P = V + OTHERS * PITCH, DS = P + ROWS * P_PITCH;
    }
    /* Computes P and DS, rounded to 16 bits, of queries from query0 on and keys from key0 on: a warp has 16 queries and 32
     * keys. Both are +0 where a query does not see a key. L: of the head's query 0, with D stat_rows further; `rule` is used only if
     * the part has dropout. Barriers must come before and after. */
    LS_DEVICE void make(const ls_cuda_attention &a, const ls_cuda_attention_part &part, const dropout_rule &rule,
                        const float *L, size_t stat_rows, int query0, int key0) const {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp % 4 * 16, column = warp / 4 * 32;
        const float c = scale2_of(part);
        const bool drops = part.drop_scale != 0.0f;
        LS_NO_UNROLL for (int i = 0; i < N; i++) {
            const int k8 = column + i * 8;
            float s[4], dp[4];
            clear(s);
            clear(dp);
            if (key0 + k8 <= query0 + row + 15 && query0 + row < a.T) {
                dots_of<IS_F16>(s, Q + row * PITCH, K + k8 * PITCH, PITCH, a.head_size);
                dots_of<IS_F16>(dp, G + row * PITCH, V + k8 * PITCH, PITCH, a.head_size);
            }
            LS_UNROLL for (int r = 0; r < 2; r++) {
                const int query = row + lane / 4 + 8 * r, key = k8 + lane % 4 * 2;
                const float all = L[query0 + query], dots = L[stat_rows + query0 + query];
                float w[2], ds[2];
                LS_UNROLL for (int e = 0; e < 2; e++) {
                    const bool is_seen = key0 + key + e <= query0 + query;
                    float weight = exp2_of(__fmaf_rn(s[2 * r + e], c, -all)), gradient = dp[2 * r + e];
                    w[e] = weight;
                    if (drops) {
                        const float factor = rule.factor(query0 + query, key0 + key + e);
                        w[e] = weight * factor;
                        gradient = gradient * factor;
                    }
                    ds[e] = is_seen ? weight * (gradient - dots) : 0.0f;
                    w[e] = is_seen ? w[e] : 0.0f;
                }
                *(uint32_t *)(P + query * P_PITCH + key) = rounded_pair<IS_F16>(w[0], w[1]);
                *(uint32_t *)(DS + query * P_PITCH + key) = rounded_pair<IS_F16>(ds[0], ds[1]);
            }
        }
    }
};

/* Computes dQ of this block's 64 queries of a head; blockIdx.x counts tiles from the last one, which sees the most keys. A
 * warp has 16 rows and half the columns of the result. */
template <int D, bool IS_F16> LS_DEVICE void queries_tile(const ls_cuda_attention_hgmma &h) {
    using tile = weights_tile<D, IS_F16>;
    enum { N = D / 16 };
    LS_SHARED(uint16_t, shared);
    const tile t(shared);
    const ls_cuda_attention &a = h.a;
    const head_place p = find_head<false>(h, blockIdx.y);
    const ls_cuda_attention_part &part = *p.part;
    const uint32_t kv = p.head / (part.heads / part.kv_heads);
    const int q0 = (int)(gridDim.x - 1 - blockIdx.x) * ROWS, end = min(a.T, q0 + ROWS), warp = threadIdx.x / 32;
    const int row = warp % 4 * 16, column = warp / 4 * (D / 2);
    const float *L = stats_of(h, p.sequence, p.first + p.head);
    dropout_rule rule = {};
    if (part.drop_scale != 0.0f) rule.open(a, part, p.sequence, p.head);
    float dq[N][4];
    LS_UNROLL for (int i = 0; i < N; i++) clear(dq[i]);
    load_rows<D, ROWS, BACKWARD_THREADS>(a, t.Q, part.q, p.sequence, p.head, q0, a.T);
    load_rows<D, ROWS, BACKWARD_THREADS>(a, t.G, part.dout, p.sequence, p.head, q0, a.T);
    for (int key = 0; key < end; key += OTHERS) {
        __syncthreads();
        load_rows<D, OTHERS, BACKWARD_THREADS>(a, t.K, part.k, p.sequence, kv, key, a.T);
        load_rows<D, OTHERS, BACKWARD_THREADS>(a, t.V, part.v, p.sequence, kv, key, a.T);
        __syncthreads();
        t.make(a, part, rule, L, h.stat_rows, q0, key);
        __syncthreads();
        LS_NO_UNROLL for (int g = 0; g < OTHERS && key + g <= q0 + row + 15 && q0 + row < a.T; g += 16)
            LS_UNROLL for (int i = 0; i < N; i++)
                if (column + i * 8 < a.head_size)
                    add_granule_of<IS_F16>(dq[i], lines_along(t.DS + row * tile::P_PITCH + g, tile::P_PITCH),
                                           lines_across(t.K + g * tile::PITCH + column + i * 8, tile::PITCH));
    }
    store_rows<IS_F16>(a, part.dq, p, q0 + row, a.T, column, dq, part.scale, part.scale);
}

/* Computes dK and dV of this block's 64 keys of a kv head, over the queries of all its heads, one head after the other. A warp
 * has 16 rows and half the columns of both. */
template <int D, bool IS_F16> LS_DEVICE void keys_tile(const ls_cuda_attention_hgmma &h) {
    using tile = weights_tile<D, IS_F16>;
    enum { N = D / 16 };
    LS_SHARED(uint16_t, shared);
    const tile t(shared);
    const ls_cuda_attention &a = h.a;
    const head_place p = find_head<true>(h, blockIdx.y);
    const ls_cuda_attention_part &part = *p.part;
    const uint32_t group = part.heads / part.kv_heads;
    const int k0 = (int)blockIdx.x * OTHERS, warp = threadIdx.x / 32, row = warp % 4 * 16, column = warp / 4 * (D / 2);
    dropout_rule rule = {};
    float dk[N][4], dv[N][4];
    LS_UNROLL for (int i = 0; i < N; i++) clear(dk[i]), clear(dv[i]);
    load_rows<D, OTHERS, BACKWARD_THREADS>(a, t.K, part.k, p.sequence, p.head, k0, a.T);
    load_rows<D, OTHERS, BACKWARD_THREADS>(a, t.V, part.v, p.sequence, p.head, k0, a.T);
    for (uint32_t i = 0; i < group; i++) {
        const uint32_t head = p.head * group + i;
        const float *L = stats_of(h, p.sequence, p.first + head);
        if (part.drop_scale != 0.0f) rule.open(a, part, p.sequence, head);
        for (int query = k0 / ROWS * ROWS; query < a.T; query += ROWS) {
            __syncthreads();
            load_rows<D, ROWS, BACKWARD_THREADS>(a, t.Q, part.q, p.sequence, head, query, a.T);
            load_rows<D, ROWS, BACKWARD_THREADS>(a, t.G, part.dout, p.sequence, head, query, a.T);
            __syncthreads();
            t.make(a, part, rule, L, h.stat_rows, query, k0);
            __syncthreads();
            LS_NO_UNROLL for (int g = 0; g < ROWS && query + g < a.T && k0 + row < a.T; g += 16)
                LS_UNROLL for (int j = 0; j < N; j++)
                    if (query + g + 15 >= k0 + row && column + j * 8 < a.head_size) {
                        const int at = g * tile::P_PITCH + row, from = g * tile::PITCH + column + j * 8;
                        add_granule_of<IS_F16>(dv[j], lines_across(t.P + at, tile::P_PITCH),
                                               lines_across(t.G + from, tile::PITCH));
                        add_granule_of<IS_F16>(dk[j], lines_across(t.DS + at, tile::P_PITCH),
                                               lines_across(t.Q + from, tile::PITCH));
                    }
        }
    }
    store_rows<IS_F16>(a, part.dk, p, k0 + row, a.T, column, dk, part.scale, part.scale);
    store_rows<IS_F16>(a, part.dv, p, k0 + row, a.T, column, dv, 1.0f, 1.0f);
}

#define LS_ANY(name, body, d, threads)                                                                                 \
    LS_KERNEL_ALONE(name, ls_cuda_attention_hgmma, threads) {                                                          \
        if (a.a.act == LS_CUDA_F16)                                                                                    \
            body<d, true>(a);                                                                                          \
        else                                                                                                           \
            body<d, false>(a);                                                                                         \
    }
LS_ANY(attention_hgmma_any_forward_64, forward_tile, 64, FORWARD_THREADS)
LS_ANY(attention_hgmma_any_forward_128, forward_tile, 128, FORWARD_THREADS)
LS_ANY(attention_hgmma_any_forward_256, forward_tile, 256, FORWARD_THREADS)
LS_ANY(attention_hgmma_any_queries_64, queries_tile, 64, BACKWARD_THREADS)
LS_ANY(attention_hgmma_any_queries_128, queries_tile, 128, BACKWARD_THREADS)
LS_ANY(attention_hgmma_any_queries_256, queries_tile, 256, BACKWARD_THREADS)
LS_ANY(attention_hgmma_any_keys_64, keys_tile, 64, BACKWARD_THREADS)
LS_ANY(attention_hgmma_any_keys_128, keys_tile, 128, BACKWARD_THREADS)
LS_ANY(attention_hgmma_any_keys_256, keys_tile, 256, BACKWARD_THREADS)
