/* attention.cu: causal attention by chains (docs/arithmetic.md, "Attention").
 *
 *     forward    a block has some queries of a head; keys pass by twice: once for the maximum, once for weights and O
 *     dots       D of each query: half a warp a row
 *     queries    a block has some queries of a head; keys pass by: dQ
 *     keys       a block has some keys of a kv head; the queries of its heads pass by: dK and dV
 *     few        a block has one query of a head, for generation: all its weights are in shared memory
 *
 * Tiles are fp32 in shared memory whatever the tensors are. A thread makes I × J scores, each a chain along rows, then
 * goes on with the chains of its rows and some columns of the result; weights go from the one to the other through
 * shared memory, inside a warp. A chain has exactly the keys (queries) that are seen: masked ones are left out, not
 * weighted with 0; a warp that sees nothing of a tile has only the barriers.
 *
 * A tile comes while another product is under way: each of them is read by one or two of the products, and the next
 * takes its place behind the barrier after them. */
#include "device/cuda/args/attention.h"
#include "device/cuda/common/base.cuh"
#include "device/cuda/common/math.cuh"
#include "device/cuda/common/philox.cuh"

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* The part that has this block's head, and the head in it. */
struct head_place {
    const ls_cuda_attention_part *part;
    uint32_t head, sequence;
};

LS_DEVICE head_place find_query_head(const ls_cuda_attention &a) {
    head_place p = {a.parts, blockIdx.y, blockIdx.z};
    for (; p.head >= p.part->heads; p.part++) p.head -= p.part->heads;
    return p;
}

LS_DEVICE head_place find_kv_head(const ls_cuda_attention &a) {
    head_place p = {a.parts, blockIdx.y, blockIdx.z};
    for (; p.head >= p.part->kv_heads; p.part++) p.head -= p.part->kv_heads;
    return p;
}

LS_DEVICE uint32_t kv_of(const head_place &p) { return p.head / (p.part->heads / p.part->kv_heads); }

LS_DEVICE size_t head_at(const ls_cuda_heads &x, uint32_t sequence, uint32_t head) {
    return sequence * x.sequence_stride + head * x.head_stride;
}

LS_DEVICE size_t stats_at(const ls_cuda_attention &a, const head_place &p, uint32_t head) {
    return p.sequence * a.stat_elems + head * p.part->stat_stride;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

LS_DEVICE float rounded(float x, int act) {
    return act == LS_CUDA_F32 ? x : act == LS_CUDA_BF16 ? from_bf16(to_bf16(x)) : from_f16(to_f16(x));
}

/* Up to four neighbours from element `at` on. */
LS_DEVICE float4 load_some(const ls_cuda_attention &a, const void *from, size_t at, int count) {
    float4 x = make_float4(0, 0, 0, 0);
    LS_BY_TYPE(a.act, T, {
        const T *p = (const T *)from + at;
        if (a.is_vector) return load4(p);
        x.x = load(p);
        if (count > 1) x.y = load(p + 1);
        if (count > 2) x.z = load(p + 2);
        if (count > 3) x.w = load(p + 3);
    });
    return x;
}

LS_DEVICE void store_some(const ls_cuda_attention &a, void *to, size_t at, float4 x, int count) {
    LS_BY_TYPE(a.act, T, {
        T *p = (T *)to + at;
        if (a.is_vector) return store4(p, x);
        store(p, x.x);
        if (count > 1) store(p + 1, x.y);
        if (count > 2) store(p + 2, x.z);
        if (count > 3) store(p + 3, x.w);
    });
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* Where a thread is: a block has four warps, a warp 4·I rows of the block's own, a thread I neighbours of these, J of
 * the rows that pass by and D / 8 columns of the result. Lanes with the same ty, and those with the same tx, are such
 * that a read of 16 bytes by all takes two passes of shared memory, not four: lane ^ 1 or lane ^ 2 reads the same. */
template <int D, int I, int J> struct tile {
    enum { THREADS = LS_CUDA_ATTENTION_THREADS, OWN = 16 * I, OTHER = 8 * J, COLUMNS = D / 8 };
    static_assert(J % 2 == 0 && OTHER % 32 == 0, "rows that pass by come in pairs, weights in eight quads or more");
    LS_DEVICE static int tx() { return threadIdx.x / 2 % 8; }
    LS_DEVICE static int warp() { return threadIdx.x / 32; }
    /* The first of the thread's own rows. */
    LS_DEVICE static int row() { return (warp() * 4 + threadIdx.x % 2 + threadIdx.x / 16 % 2 * 2) * I; }
    /* Its j-th row of those that pass by. Neighbours 16 apart belong to one thread: so does a lane of a sum16. */
    LS_DEVICE static int other(int j) { return 16 * (j / 2) + 2 * tx() + j % 2; }

    /* Quads of a row are exchanged so that rows of different threads, at the same quad, have no bank conflict: */
    LS_DEVICE static int own_swap(int row) { return (row / I & 1) << 2 | (row / I & 2); }
    LS_DEVICE static int other_swap(int row) { return row / 2 & 7; }
    /* Element c of a row, c a multiple of 4. As offsets are multiples of what is exchanged, (offset of element 0) ^ c
     * is that of element c. */
    LS_DEVICE static int own_at(int row, int c) { return row * D + (c ^ own_swap(row) * 4); }
    LS_DEVICE static int other_at(int row, int c) { return row * D + (c ^ other_swap(row) * 4); }
    /* A weight. */
    LS_DEVICE static int weight_at(int row, int other) {
        return row * OTHER + ((other & ~3) ^ own_swap(row) * 4) + other % 4;
    }
};

/* ROWS rows of a head from `first` on; what is not there is 0. They are there behind wait_rows() and a
 * __syncthreads(). */
template <class TILE, int D, bool OWN>
LS_DEVICE void load_rows(const ls_cuda_attention &a, float *to, const ls_cuda_heads &x, uint32_t sequence,
                         uint32_t head, int first, int rows) {
    enum { ROWS = OWN ? (int)TILE::OWN : (int)TILE::OTHER };
    size_t base = head_at(x, sequence, head);
    if (a.act == LS_CUDA_F32 && a.is_vector) {
        LS_UNROLL_4 for (int i = threadIdx.x; i < ROWS * D / 4; i += TILE::THREADS) {
            int r = i / (D / 4), c = i % (D / 4) * 4;
            bool is_there = first + r < rows && c < a.head_size;
            size_t at = is_there ? base + (size_t)(first + r) * x.row_stride + c : 0;
            copy16_async_or_zero(to + (OWN ? TILE::own_at(r, c) : TILE::other_at(r, c)), (const float *)x.at + at,
                                 is_there);
        }
        return;
    }
    LS_UNROLL_2 for (int i = threadIdx.x; i < ROWS * D / 4; i += TILE::THREADS) {
        int r = i / (D / 4), c = i % (D / 4) * 4;
        float4 v = make_float4(0, 0, 0, 0);
        if (first + r < rows && c < a.head_size)
            v = load_some(a, x.at, base + (size_t)(first + r) * x.row_stride + c, a.head_size - c);
        *(float4 *)(to + (OWN ? TILE::own_at(r, c) : TILE::other_at(r, c))) = v;
    }
}

LS_DEVICE void wait_rows() {
    copy_async_commit();
    copy_async_wait<0>();
}

/* The other way: the thread's part of a result, times a factor, through shared memory that nobody reads any more. A
 * factor of 1 changes nothing. */
template <class TILE, int D, int I, int C>
LS_DEVICE void store_rows(const ls_cuda_attention &a, const ls_cuda_heads &x, uint32_t sequence, uint32_t head,
                          float *space, const float (&result)[I][C], float factor, int first, int rows) {
    size_t base = head_at(x, sequence, head);
    LS_UNROLL for (int i = 0; i < I; i++)
        LS_UNROLL for (int j = 0; j < C; j += 4) {
            const float *r = &result[i][j];
            *(float4 *)(space + TILE::own_at(TILE::row() + i, TILE::tx() * 4 + 8 * j)) =
                make_float4(factor * r[0], factor * r[1], factor * r[2], factor * r[3]);
        }
    __syncthreads();
    LS_NO_UNROLL for (int i = threadIdx.x; i < TILE::OWN * D / 4; i += TILE::THREADS) {
        int r = i / (D / 4), c = i % (D / 4) * 4;
        if (first + r < rows && c < a.head_size)
            store_some(a, x.at, base + (size_t)(first + r) * x.row_stride + c,
                       *(const float4 *)(space + TILE::own_at(r, c)), a.head_size - c);
    }
}

/* Weights to where the products read them, rounded as these are. */
template <class TILE, int I, int J>
LS_DEVICE void put_weights(const ls_cuda_attention &a, float *weights, const float (&x)[I][J]) {
    const int row = TILE::row(), at = TILE::weight_at(row, TILE::other(0));
    LS_UNROLL for (int i = 0; i < I; i++)
        LS_UNROLL for (int j = 0; j < J; j += 2)
            *(float2 *)(weights + i * TILE::OTHER + (at ^ 8 * j)) = make_float2(x[i][j], x[i][j + 1]);
    if (a.act != LS_CUDA_F32)
        LS_NO_UNROLL for (int e = 0; e < I * J; e++) {
            float *w = weights + TILE::weight_at(row + e / J, TILE::other(e % J));
            *w = rounded(*w, a.act);
        }
    __syncwarp();
}

/* ---- dropout ----------------------------------------------------------------------------------------------------- */

/* The factors of a tile, whose own rows are queries or keys, to where its weights are: a thread makes the four numbers
 * of a block of the generator at a time. */
template <class TILE, bool OWN_QUERIES>
LS_DEVICE void make_factors(const ls_cuda_attention &a, const head_place &p, uint32_t head, int query, int key,
                            float *weights) {
    enum {
        QUERIES = OWN_QUERIES ? (int)TILE::OWN : (int)TILE::OTHER,
        KEYS = OWN_QUERIES ? (int)TILE::OTHER : (int)TILE::OWN,
        BLOCKS = KEYS / 4 + 1
    };
    const ls_cuda_attention_part &part = *p.part;
    uint64_t number = part.drop_head0 + p.sequence * part.drop_heads + head, T = (uint64_t)a.T;
    LS_NO_UNROLL for (int i = threadIdx.x; i < QUERIES * BLOCKS; i += TILE::THREADS) {
        int q = i / BLOCKS;
        uint64_t first = (number * T + (uint64_t)(query + q)) * T + (uint64_t)key,
                 block = first / 4 + (uint64_t)(i % BLOCKS);
        uint4 words = philox_block(part.drop_key, block);
        const uint32_t *word = &words.x;
        LS_UNROLL for (int e = 0; e < 4; e++) {
            int k = (int)(int64_t)(block * 4 + (uint64_t)e - first);
            if (k >= 0 && k < KEYS)
                weights[OWN_QUERIES ? TILE::weight_at(q, k) : TILE::weight_at(k, q)] =
                    word[e] < part.drop_threshold ? 0.0f : part.drop_scale;
        }
    }
}

/* x[i][j] times its factor. */
template <class TILE, int I, int J> LS_DEVICE void drop(float (&x)[I][J], const float *factors) {
    LS_UNROLL for (int i = 0; i < I; i++)
        LS_UNROLL for (int j = 0; j < J; j++)
            x[i][j] = x[i][j] * factors[TILE::weight_at(TILE::row() + i, TILE::other(j))];
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

LS_DEVICE float dot4(float4 x, float4 y, float sum) {
    sum = __fmaf_rn(x.x, y.x, sum);
    sum = __fmaf_rn(x.y, y.y, sum);
    sum = __fmaf_rn(x.z, y.z, sum);
    return __fmaf_rn(x.w, y.w, sum);
}

template <int I, int C> LS_DEVICE void clear(float (&x)[I][C]) {
    LS_UNROLL for (int i = 0; i < I; i++)
        LS_UNROLL for (int j = 0; j < C; j++) x[i][j] = 0.0f;
}

/* out[i][j] = chain over the first n numbers of the thread's i-th own row of `own` and its j-th of `other`; n is D where
 * it is EXACT. */
template <class TILE, int D, bool EXACT, int I, int J>
LS_DEVICE void dot_rows(float (&out)[I][J], const float *own, const float *other, int n) {
    const int whole = EXACT ? D : n / 4 * 4, x0 = TILE::own_at(TILE::row(), 0), y0 = TILE::other_at(TILE::other(0), 0);
    clear(out);
    LS_UNROLL_2 for (int d = 0; d < whole; d += 4) {
        const float *xs = own + (x0 ^ d), *ys = other + (y0 ^ d);
        if constexpr (I <= J) {
            float4 x[I];
            LS_UNROLL for (int i = 0; i < I; i++) x[i] = *(const float4 *)(xs + i * D);
            LS_UNROLL for (int j = 0; j < J; j++) {
                float4 y = *(const float4 *)(ys + (16 * (j / 2) + j % 2) * D);
                LS_UNROLL for (int i = 0; i < I; i++) out[i][j] = __fmaf_rn(x[i].x, y.x, out[i][j]);
                LS_UNROLL for (int i = 0; i < I; i++) out[i][j] = __fmaf_rn(x[i].y, y.y, out[i][j]);
                LS_UNROLL for (int i = 0; i < I; i++) out[i][j] = __fmaf_rn(x[i].z, y.z, out[i][j]);
                LS_UNROLL for (int i = 0; i < I; i++) out[i][j] = __fmaf_rn(x[i].w, y.w, out[i][j]);
            }
        } else {
            float4 y[J];
            LS_UNROLL for (int j = 0; j < J; j++) y[j] = *(const float4 *)(ys + (16 * (j / 2) + j % 2) * D);
            LS_UNROLL for (int i = 0; i < I; i++) {
                float4 x = *(const float4 *)(xs + i * D);
                LS_UNROLL for (int j = 0; j < J; j++) out[i][j] = __fmaf_rn(x.x, y[j].x, out[i][j]);
                LS_UNROLL for (int j = 0; j < J; j++) out[i][j] = __fmaf_rn(x.y, y[j].y, out[i][j]);
                LS_UNROLL for (int j = 0; j < J; j++) out[i][j] = __fmaf_rn(x.z, y[j].z, out[i][j]);
                LS_UNROLL for (int j = 0; j < J; j++) out[i][j] = __fmaf_rn(x.w, y[j].w, out[i][j]);
            }
        }
    }
    if constexpr (!EXACT)
        LS_NO_UNROLL for (int d = whole; d < n; d++) {
            const float *xs = own + (x0 ^ whole) + d % 4, *ys = other + (y0 ^ whole) + d % 4;
            LS_UNROLL for (int i = 0; i < I; i++)
                LS_UNROLL for (int j = 0; j < J; j++)
                    out[i][j] = __fmaf_rn(xs[i * D], ys[(16 * (j / 2) + j % 2) * D], out[i][j]);
        }
}

/* Which k a row of weights has: all, those up to edge + i, or those from edge + i on. */
enum { ALL, UP_TO, FROM };

/* sum[i][…] goes on with weight[i][k] · rows[k][the thread's columns] for those of the k from `begin` to before `end`
 * that own row i has. `begin` is a multiple of 4, and what is there up to the next one behind `end` is numbers, too. */
template <class TILE, int D, int HAS, int I, int C>
LS_DEVICE void weigh_rows(float (&sum)[I][C], const float *weights, const float *rows, int begin, int end, int edge) {
    const int w0 = TILE::weight_at(TILE::row(), 0), c0 = TILE::tx() * 4;
    LS_NO_UNROLL for (int k = begin; k < end; k += 4) {
        float4 w[I];
        LS_UNROLL for (int i = 0; i < I; i++) w[i] = *(const float4 *)(weights + i * TILE::OTHER + (w0 ^ k));
        const float *row = rows + k * D + (c0 ^ TILE::other_swap(k) * 4), *next = rows + k * D + (c0 ^ TILE::other_swap(k + 2) * 4);
        LS_UNROLL for (int u = 0; u < 4; u++) {
            float4 r[C / 4];
            LS_UNROLL for (int j = 0; j < C / 4; j++) r[j] = *(const float4 *)((u < 2 ? row : next) + u * D + j * 32);
            LS_UNROLL for (int i = 0; i < I; i++) {
                float x = u == 0 ? w[i].x : u == 1 ? w[i].y : u == 2 ? w[i].z : w[i].w;
                bool has = HAS == ALL || (HAS == UP_TO ? k + u <= edge + i : k + u >= edge + i && k + u < end);
                LS_UNROLL for (int j = 0; j < C / 4; j++) {
                    float *to = &sum[i][4 * j];
                    float s0 = __fmaf_rn(x, r[j].x, to[0]), s1 = __fmaf_rn(x, r[j].y, to[1]);
                    float s2 = __fmaf_rn(x, r[j].z, to[2]), s3 = __fmaf_rn(x, r[j].w, to[3]);
                    if (!has) continue;
                    to[0] = s0;
                    to[1] = s1;
                    to[2] = s2;
                    to[3] = s3;
                }
            }
        }
    }
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Whether x is from +0 to most; not NaN. */
LS_DEVICE bool is_up_to(float x, float most) { return __float_as_uint(x) <= __float_as_uint(most); }

/* s = exp(scale·s − m[i]). Where all are normal numbers, which is nearly always, nothing is asked for each. */
template <int I, int J> LS_DEVICE void exp_rows(float (&s)[I][J], float scale, const float (&m)[I]) {
    bool is_plain = true;
    LS_UNROLL for (int i = 0; i < I; i++)
        LS_UNROLL for (int j = 0; j < J; j++) {
            s[i][j] = m[i] - scale * s[i][j];
            is_plain = is_plain && is_up_to(s[i][j], 0x1.5d589ep+6f);
        }
    if (is_plain) {
        LS_UNROLL for (int i = 0; i < I; i++)
            LS_UNROLL for (int j = 0; j < J; j++) s[i][j] = exp_core(-s[i][j]);
    } else {
        LS_UNROLL for (int i = 0; i < I; i++)
            LS_UNROLL for (int j = 0; j < J; j++) s[i][j] = exp_of(-s[i][j]);
    }
}

/* a / l, where r is 1 / l, rounded; a from 2^−73 to 1, l from 1 to 2^30: the remainders are exact, so q is right but for
 * its last rounding, and that is the quotient's (Markstein). */
LS_DEVICE float divide_by(float a, float l, float r) {
    float q = a * r;
    q = __fmaf_rn(__fmaf_rn(-q, l, a), r, q);
    return __fmaf_rn(__fmaf_rn(-q, l, a), r, q);
}

/* s = exp(scale·s − m) / l; m and l are those of rows i, or of j. */
template <bool BY_ROW, int I, int J, int N>
LS_DEVICE void softmax_rows(float (&s)[I][J], float scale, const float (&m)[N], const float (&l)[N]) {
    bool is_plain = true;
    float r[N];
    LS_UNROLL for (int n = 0; n < N; n++) {
        is_plain = is_plain && l[n] >= 1.0f && l[n] <= 0x1p30f;
        r[n] = __frcp_rn(l[n]);
    }
    LS_UNROLL for (int i = 0; i < I; i++)
        LS_UNROLL for (int j = 0; j < J; j++) {
            s[i][j] = m[BY_ROW ? i : j] - scale * s[i][j];
            is_plain = is_plain && is_up_to(s[i][j], 50.0f);
        }
    if (is_plain) {
        LS_UNROLL for (int i = 0; i < I; i++)
            LS_UNROLL for (int j = 0; j < J; j++)
                s[i][j] = divide_by(exp_core(-s[i][j]), l[BY_ROW ? i : j], r[BY_ROW ? i : j]);
    } else {
        LS_UNROLL for (int i = 0; i < I; i++)
            LS_UNROLL for (int j = 0; j < J; j++) s[i][j] = __fdiv_rn(exp_of(-s[i][j]), l[BY_ROW ? i : j]);
    }
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

template <int D, bool EXACT, int I, int J> LS_DEVICE void forward_tile(const ls_cuda_attention &a) {
    typedef tile<D, I, J> at;
    enum { OWN = at::OWN, OTHER = at::OTHER };
    LS_SHARED(float, shared);
    float *Q = shared, *K = Q + OWN * D, *V = K + OTHER * D, *P = V + OTHER * D;
    const int n = EXACT ? D : a.head_size;
    const int rows = a.T - a.first_query, row0 = (int)(gridDim.x - 1 - blockIdx.x) * OWN; /* the longest first */
    const int q0 = a.first_query + row0, end = min(a.T, q0 + OWN), row = at::row();
    const int warp_first = q0 + at::warp() * 4 * I, warp_end = min(end, warp_first + 4 * I);
    const head_place p = find_query_head(a);
    const ls_cuda_attention_part &part = *p.part;
    const uint32_t kv = kv_of(p);
    load_rows<at, D, true>(a, Q, part.q, p.sequence, p.head, row0, rows);
    load_rows<at, D, false>(a, K, part.k, p.sequence, kv, 0, a.T);
    float most[I], s[I][J];
    LS_UNROLL for (int i = 0; i < I; i++) most[i] = __uint_as_float(0xFF800000u);
    for (int k0 = 0, turn = 0; k0 < end; k0 += OTHER, turn ^= 1) {
        wait_rows();
        __syncthreads();
        if (k0 + OTHER < end) load_rows<at, D, false>(a, turn ? K : V, part.k, p.sequence, kv, k0 + OTHER, a.T);
        if (k0 >= warp_end) continue;
        dot_rows<at, D, EXACT>(s, Q, turn ? V : K, n);
        if (k0 + OTHER - 1 > warp_first)
            LS_UNROLL for (int i = 0; i < I; i++)
                LS_UNROLL for (int j = 0; j < J; j++)
                    if (k0 + at::other(j) > q0 + row + i) s[i][j] = __uint_as_float(0xFF800000u);
        LS_UNROLL for (int i = 0; i < I; i++)
            LS_UNROLL for (int j = 0; j < J; j++) most[i] = max_of(most[i], s[i][j]);
    }
    float lane[I][2], o[I][D / 8];
    clear(lane);
    clear(o);
    /* The scale is positive: it may come behind the maximum. */
    LS_UNROLL for (int i = 0; i < I; i++) {
        LS_UNROLL for (int x = 2; x < 16; x *= 2) most[i] = max_of(most[i], __shfl_xor_sync(~0u, most[i], x));
        most[i] = part.scale * most[i];
    }
    const bool drops = part.drop_scale != 0.0f;
    __syncthreads();
    load_rows<at, D, false>(a, K, part.k, p.sequence, kv, 0, a.T);
    for (int k0 = 0; k0 < end; k0 += OTHER) {
        wait_rows();
        __syncthreads();
        load_rows<at, D, false>(a, V, part.v, p.sequence, kv, k0, a.T);
        if (drops) {
            make_factors<at, true>(a, p, p.head, q0, k0, P);
            __syncthreads();
        }
        const bool is_seen = k0 < warp_end, is_full = k0 + OTHER - 1 <= warp_first;
        if (is_seen) {
            dot_rows<at, D, EXACT>(s, Q, K, n);
            if (!is_full)
                LS_UNROLL for (int i = 0; i < I; i++)
                    LS_UNROLL for (int j = 0; j < J; j++)
                        if (k0 + at::other(j) > q0 + row + i) s[i][j] = __uint_as_float(0xFF800000u);
            exp_rows(s, part.scale, most);
            LS_UNROLL for (int i = 0; i < I; i++)
                LS_UNROLL for (int j = 0; j < J; j++) lane[i][j % 2] = lane[i][j % 2] + s[i][j];
            if (drops) drop<at>(s, P);
            put_weights<at>(a, P, s);
        }
        wait_rows();
        __syncthreads();
        if (k0 + OTHER < end) load_rows<at, D, false>(a, K, part.k, p.sequence, kv, k0 + OTHER, a.T);
        if (is_full)
            weigh_rows<at, D, ALL>(o, P, V, 0, OTHER, 0);
        else if (is_seen)
            weigh_rows<at, D, UP_TO>(o, P, V, 0, min((int)OTHER, warp_end - k0), q0 + row - k0);
    }
    LS_UNROLL for (int i = 0; i < I; i++) {
        float l0 = lane[i][0], l1 = lane[i][1]; /* lanes 2·tx and 2·tx + 1: j += j + 8, then 4, 2 and 1 */
        LS_UNROLL for (int x = 8; x > 1; x /= 2) {
            l0 = l0 + __shfl_down_sync(~0u, l0, x, 32);
            l1 = l1 + __shfl_down_sync(~0u, l1, x, 32);
        }
        float l = __shfl_sync(~0u, l0 + l1, threadIdx.x & 17, 32);
        if (at::tx() == 0 && row0 + row + i < rows) {
            part.m[stats_at(a, p, p.head) + row0 + row + i] = most[i];
            part.l[stats_at(a, p, p.head) + row0 + row + i] = l;
        }
        LS_UNROLL for (int c = 0; c < D / 8; c++) o[i][c] = __fdiv_rn(o[i][c], l);
    }
    store_rows<at, D>(a, part.o, p.sequence, p.head, Q, o, 1.0f, row0, rows);
}

LS_KERNEL_ALONE(attention_forward_64, ls_cuda_attention, LS_CUDA_ATTENTION_THREADS) { forward_tile<64, true, 8, 8>(a); }
LS_KERNEL_ALONE(attention_forward_128, ls_cuda_attention, LS_CUDA_ATTENTION_THREADS) {
    forward_tile<128, true, 4, 8>(a);
}
LS_KERNEL_ALONE(attention_forward_any, ls_cuda_attention, LS_CUDA_ATTENTION_THREADS) {
    forward_tile<128, false, 4, 8>(a);
}
LS_KERNEL_ALONE(attention_forward_wide, ls_cuda_attention, LS_CUDA_ATTENTION_THREADS) {
    forward_tile<256, false, 4, 4>(a);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

template <class T> LS_DEVICE float dot_of(const ls_cuda_attention &a, const head_place &p, int row) {
    const ls_cuda_attention_part &part = *p.part;
    const T *x = (const T *)part.dout.at + head_at(part.dout, p.sequence, p.head) + (size_t)row * part.dout.row_stride;
    const T *y = (const T *)part.o.at + head_at(part.o, p.sequence, p.head) + (size_t)row * part.o.row_stride;
    float sum = 0.0f;
    for (int d = threadIdx.x % 16; d < a.head_size; d += 16) sum = __fmaf_rn(load(x + d), load(y + d), sum);
    return sum;
}

LS_KERNEL(attention_dots, ls_cuda_attention, 16 * LS_CUDA_ATTENTION_DOTS_ROWS) {
    const head_place p = find_query_head(a);
    int row = (int)blockIdx.x * LS_CUDA_ATTENTION_DOTS_ROWS + (int)threadIdx.x / 16;
    bool is_in = row < a.T;
    float sum = 0.0f;
    if (!is_in) row = a.T - 1; /* an exchange needs all lanes */
    LS_BY_TYPE(a.act, T, { sum = dot_of<T>(a, p, row); });
    sum = join16(sum);
    if (is_in && threadIdx.x % 16 == 0) p.part->dots[stats_at(a, p, p.head) + row] = sum;
}

template <int D, bool EXACT, int I, int J> LS_DEVICE void queries_tile(const ls_cuda_attention &a) {
    typedef tile<D, I, J> at;
    enum { OWN = at::OWN, OTHER = at::OTHER };
    LS_SHARED(float, shared);
    float *Q = shared, *G = Q + OWN * D, *K = G + OWN * D, *V = K + OTHER * D, *P = V + OTHER * D;
    const int n = EXACT ? D : a.head_size, T = a.T, row = at::row();
    const int q0 = (int)(gridDim.x - 1 - blockIdx.x) * OWN, end = min(T, q0 + OWN);
    const int warp_first = q0 + at::warp() * 4 * I, warp_end = min(end, warp_first + 4 * I);
    const head_place p = find_query_head(a);
    const ls_cuda_attention_part &part = *p.part;
    const uint32_t kv = kv_of(p);
    const bool drops = part.drop_scale != 0.0f;
    load_rows<at, D, true>(a, Q, part.q, p.sequence, p.head, q0, T);
    load_rows<at, D, true>(a, G, part.dout, p.sequence, p.head, q0, T);
    load_rows<at, D, false>(a, V, part.v, p.sequence, kv, 0, T);
    float m[I], l[I], dots[I], dq[I][D / 8];
    clear(dq);
    LS_UNROLL for (int i = 0; i < I; i++) {
        size_t stat = stats_at(a, p, p.head) + min(T - 1, q0 + row + i);
        m[i] = part.m[stat];
        l[i] = part.l[stat];
        dots[i] = part.dots[stat];
    }
    for (int k0 = 0; k0 < end; k0 += OTHER) {
        const bool is_seen = k0 < warp_end, is_full = k0 + OTHER - 1 <= warp_first;
        float s[I][J], dp[I][J];
        wait_rows();
        __syncthreads();
        load_rows<at, D, false>(a, K, part.k, p.sequence, kv, k0, T);
        if (drops) make_factors<at, true>(a, p, p.head, q0, k0, P);
        if (is_seen) dot_rows<at, D, EXACT>(dp, G, V, n);
        wait_rows();
        __syncthreads();
        if (k0 + OTHER < end) load_rows<at, D, false>(a, V, part.v, p.sequence, kv, k0 + OTHER, T);
        if (!is_seen) continue;
        dot_rows<at, D, EXACT>(s, Q, K, n);
        softmax_rows<true>(s, part.scale, m, l);
        if (drops) drop<at>(dp, P);
        LS_UNROLL for (int i = 0; i < I; i++)
            LS_UNROLL for (int j = 0; j < J; j++) s[i][j] = s[i][j] * (dp[i][j] - dots[i]);
        put_weights<at>(a, P, s);
        if (is_full)
            weigh_rows<at, D, ALL>(dq, P, K, 0, OTHER, 0);
        else
            weigh_rows<at, D, UP_TO>(dq, P, K, 0, min((int)OTHER, warp_end - k0), q0 + row - k0);
    }
    store_rows<at, D>(a, part.dq, p.sequence, p.head, G, dq, part.scale, q0, T);
}

LS_KERNEL_ALONE(attention_queries_64, ls_cuda_attention, LS_CUDA_ATTENTION_THREADS) { queries_tile<64, true, 8, 4>(a); }
LS_KERNEL_ALONE(attention_queries_128, ls_cuda_attention, LS_CUDA_ATTENTION_THREADS) {
    queries_tile<128, true, 4, 4>(a);
}
LS_KERNEL_ALONE(attention_queries_any, ls_cuda_attention, LS_CUDA_ATTENTION_THREADS) {
    queries_tile<128, false, 4, 4>(a);
}
LS_KERNEL_ALONE(attention_queries_wide, ls_cuda_attention, LS_CUDA_ATTENTION_THREADS) {
    queries_tile<256, false, 2, 4>(a);
}

/* m, l and D of the queries of a tile, one behind the other. */
template <int ROWS>
LS_DEVICE void load_stats(const ls_cuda_attention &a, const head_place &p, uint32_t head, int q0, float *to) {
    if (threadIdx.x >= ROWS) return;
    size_t stat = stats_at(a, p, head) + min(a.T - 1, q0 + (int)threadIdx.x);
    copy4_async(to + threadIdx.x, p.part->m + stat);
    copy4_async(to + ROWS + threadIdx.x, p.part->l + stat);
    copy4_async(to + 2 * ROWS + threadIdx.x, p.part->dots + stat);
}

template <int D, bool EXACT, int I, int J> LS_DEVICE void keys_tile(const ls_cuda_attention &a) {
    typedef tile<D, I, J> at;
    enum { OWN = at::OWN, OTHER = at::OTHER };
    LS_SHARED(float, shared);
    float *K = shared, *V = K + OWN * D, *Q = V + OWN * D, *G = Q + OTHER * D, *P = G + OTHER * D,
          *stats = P + OWN * OTHER;
    const int n = EXACT ? D : a.head_size, T = a.T, row = at::row(), k0 = (int)blockIdx.x * OWN;
    const int warp_first = k0 + at::warp() * 4 * I, warp_last = warp_first + 4 * I - 1;
    const head_place p = find_kv_head(a);
    const ls_cuda_attention_part &part = *p.part;
    const uint32_t group = part.heads / part.kv_heads, head0 = p.head * group, head1 = head0 + group;
    const bool drops = part.drop_scale != 0.0f;
    const int first = k0 / OTHER * OTHER; /* the first tile of queries that see any of the keys */
    load_rows<at, D, true>(a, K, part.k, p.sequence, p.head, k0, T);
    load_rows<at, D, true>(a, V, part.v, p.sequence, p.head, k0, T);
    load_rows<at, D, false>(a, Q, part.q, p.sequence, head0, first, T);
    load_stats<OTHER>(a, p, head0, first, stats);
    float dk[I][D / 8], dv[I][D / 8];
    clear(dk);
    clear(dv);
    for (uint32_t head = head0; head < head1; head++)
        for (int q0 = first; q0 < T; q0 += OTHER) {
            const int edge = k0 + row - q0; /* queries from a key's own position on see it */
            const int queries = min((int)OTHER, T - q0), begin = max(0, warp_first - q0) / 4 * 4;
            const bool is_seen = begin < queries, is_full = q0 >= warp_last && queries == OTHER;
            float s[I][J], dp[I][J];
            wait_rows();
            __syncthreads();
            load_rows<at, D, false>(a, G, part.dout, p.sequence, head, q0, T);
            if (drops) make_factors<at, false>(a, p, head, q0, k0, P);
            if (is_seen) {
                float m[J], l[J];
                LS_UNROLL for (int j = 0; j < J; j++) {
                    m[j] = stats[at::other(j)];
                    l[j] = stats[OTHER + at::other(j)];
                }
                dot_rows<at, D, EXACT>(s, K, Q, n);
                softmax_rows<false>(s, part.scale, m, l);
            }
            wait_rows();
            __syncthreads();
            if (is_seen) {
                dot_rows<at, D, EXACT>(dp, V, G, n);
                if (drops) drop<at>(dp, P);
                LS_UNROLL for (int j = 0; j < J; j++) {
                    float dot = stats[2 * OTHER + at::other(j)];
                    LS_UNROLL for (int i = 0; i < I; i++) dp[i][j] = s[i][j] * (dp[i][j] - dot);
                }
                if (drops) drop<at>(s, P);
                put_weights<at>(a, P, dp);
                if (is_full)
                    weigh_rows<at, D, ALL>(dk, P, Q, 0, OTHER, 0);
                else
                    weigh_rows<at, D, FROM>(dk, P, Q, begin, queries, edge);
            }
            __syncthreads();
            const bool is_last = q0 + OTHER >= T;
            if (!is_last || head + 1 < head1) {
                const uint32_t next_head = is_last ? head + 1 : head;
                const int next = is_last ? first : q0 + OTHER;
                load_rows<at, D, false>(a, Q, part.q, p.sequence, next_head, next, T);
                load_stats<OTHER>(a, p, next_head, next, stats);
            }
            if (!is_seen) continue;
            put_weights<at>(a, P, s);
            if (is_full)
                weigh_rows<at, D, ALL>(dv, P, G, 0, OTHER, 0);
            else
                weigh_rows<at, D, FROM>(dv, P, G, begin, queries, edge);
        }
    store_rows<at, D>(a, part.dk, p.sequence, p.head, K, dk, part.scale, k0, T);
    store_rows<at, D>(a, part.dv, p.sequence, p.head, V, dv, 1.0f, k0, T);
}

LS_KERNEL_ALONE(attention_keys_64, ls_cuda_attention, LS_CUDA_ATTENTION_THREADS) { keys_tile<64, true, 8, 4>(a); }
LS_KERNEL_ALONE(attention_keys_128, ls_cuda_attention, LS_CUDA_ATTENTION_THREADS) { keys_tile<128, true, 4, 4>(a); }
LS_KERNEL_ALONE(attention_keys_any, ls_cuda_attention, LS_CUDA_ATTENTION_THREADS) { keys_tile<128, false, 4, 4>(a); }
LS_KERNEL_ALONE(attention_keys_wide, ls_cuda_attention, LS_CUDA_ATTENTION_THREADS) { keys_tile<256, false, 2, 4>(a); }

/* ---- few queries ------------------------------------------------------------------------------------------------- */

template <class T> LS_DEVICE float score_of(const ls_cuda_attention &a, const float *q, const T *k) {
    float s = 0.0f;
    int d = 0;
    if (a.is_vector)
        LS_UNROLL_4 for (; d < a.head_size; d += 4) {
            float4 x = *(const float4 *)&q[d], y = load4(k + d);
            s = __fmaf_rn(x.x, y.x, s);
            s = __fmaf_rn(x.y, y.y, s);
            s = __fmaf_rn(x.z, y.z, s);
            s = __fmaf_rn(x.w, y.w, s);
        }
    for (; d < a.head_size; d++) s = __fmaf_rn(q[d], load(k + d), s);
    return s;
}

/* The largest of all threads' numbers, in every thread. */
LS_DEVICE float max_of_block(float x, float *space) {
    for (int mask = 16; mask > 0; mask /= 2) x = max_of(x, __shfl_xor_sync(~0u, x, mask));
    if (threadIdx.x % 32 == 0) space[threadIdx.x / 32] = x;
    __syncthreads();
    for (int w = 0; w < LS_CUDA_ATTENTION_FEW_THREADS / 32; w++) x = max_of(x, space[w]);
    return x;
}

/* Shared memory: the query's numbers, one for each warp, then the weights of all keys. */
template <class T> LS_DEVICE void forward_few(const ls_cuda_attention &a) {
    enum { THREADS = LS_CUDA_ATTENTION_FEW_THREADS };
    LS_SHARED(float, shared);
    float *q = shared, *space = q + LS_CUDA_ATTENTION_HEAD_MAX, *weights = space + THREADS / 32;
    const int row = (int)blockIdx.x, keys = a.first_query + row + 1;
    const head_place p = find_query_head(a);
    const ls_cuda_attention_part &part = *p.part;
    const uint32_t kv = kv_of(p);
    const T *q_row = (const T *)part.q.at + head_at(part.q, p.sequence, p.head) + (size_t)row * part.q.row_stride;
    const T *k = (const T *)part.k.at + head_at(part.k, p.sequence, kv),
            *v = (const T *)part.v.at + head_at(part.v, p.sequence, kv);
    for (int d = threadIdx.x; d < a.head_size; d += THREADS) q[d] = load(q_row + d);
    __syncthreads();
    float m = __uint_as_float(0xFF800000u);
    for (int key = threadIdx.x; key < keys; key += THREADS) {
        float s = part.scale * score_of(a, q, k + (size_t)key * part.k.row_stride);
        weights[key] = s;
        m = max_of(m, s);
    }
    m = max_of_block(m, space);
    for (int key = threadIdx.x; key < keys; key += THREADS) weights[key] = exp_of(weights[key] - m);
    __syncthreads();
    float l = 0.0f;
    if (threadIdx.x < 32)
        LS_UNROLL_4 for (int key = threadIdx.x % 16; key < keys; key += 16) l = l + weights[key];
    l = join16(l);
    if (threadIdx.x == 0) {
        space[0] = l;
        part.m[stats_at(a, p, p.head) + row] = m;
        part.l[stats_at(a, p, p.head) + row] = l;
    }
    __syncthreads();
    l = space[0];
    if (part.drop_scale != 0.0f || a.act != LS_CUDA_F32) {
        uint64_t number = part.drop_head0 + p.sequence * part.drop_heads + p.head, T_ = (uint64_t)a.T;
        for (int key = threadIdx.x; key < keys; key += THREADS) {
            float w = weights[key];
            if (part.drop_scale != 0.0f) {
                uint64_t index = (number * T_ + (uint64_t)(a.first_query + row)) * T_ + (uint64_t)key;
                uint4 words = philox_block(part.drop_key, index / 4);
                uint32_t word = index % 4 == 0 ? words.x : index % 4 == 1 ? words.y : index % 4 == 2 ? words.z : words.w;
                w = w * (word < part.drop_threshold ? 0.0f : part.drop_scale);
            }
            weights[key] = rounded(w, a.act);
        }
        __syncthreads();
    }
    T *o = (T *)part.o.at + head_at(part.o, p.sequence, p.head) + (size_t)row * part.o.row_stride;
    for (int d = threadIdx.x; d < a.head_size; d += THREADS) {
        float sum = 0.0f;
        LS_UNROLL_8 for (int key = 0; key < keys; key++)
            sum = __fmaf_rn(weights[key], load(v + (size_t)key * part.v.row_stride + d), sum);
        store(o + d, __fdiv_rn(sum, l));
    }
}

LS_KERNEL_ALONE(attention_few, ls_cuda_attention, LS_CUDA_ATTENTION_FEW_THREADS) {
    LS_BY_TYPE(a.act, T, { forward_few<T>(a); });
}
