/* attention.cu: causal attention whose dot products are chains: in ascending order, one fused multiply-add after another
 * (docs/reference/arithmetic.md, "Attention"); launched by ops/attention.c.
 *
 *     forward    a block owns some queries of a head and streams the keys twice: for the maximum, then for weights and O
 *     dots       D of each query: half a warp a row
 *     queries    a block owns some queries of a head and streams the keys: dQ
 *     keys       a block owns some keys of a kv head and streams the queries of its heads: dK and dV
 *     few        a block owns one query of a head, for generation, with all its weights in shared memory
 *
 * A kernel's name ends with the size of heads that it takes: 64, 128, any up to 128, wide up to 256.
 *
 * Tiles are fp32 in shared memory whatever the types of the tensors. A thread computes I × J scores, each a chain along a
 * row, then continues the chains of its rows and some columns of the result; weights go from the one to the other through
 * shared memory, inside a warp. Lane ^ 1 or lane ^ 2 reads the same numbers of a tile, so that a 16-byte load of a warp
 * takes two wavefronts, not four. A chain has exactly the keys (queries) that are seen: masked ones are left out, not
 * weighted with 0. */
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

/* Returns the place of query head `head`, counted over all parts. */
LS_DEVICE head_place find_query_head(const ls_cuda_attention &a, uint32_t head, uint32_t sequence) {
    head_place p = {a.parts, head, sequence};
    for (; p.head >= p.part->heads; p.part++) p.head -= p.part->heads;
    return p;
}

/* Returns the place of key/value head `head`, counted over all parts. */
LS_DEVICE head_place find_kv_head(const ls_cuda_attention &a, uint32_t head, uint32_t sequence) {
    head_place p = {a.parts, head, sequence};
    for (; p.head >= p.part->kv_heads; p.part++) p.head -= p.part->kv_heads;
    return p;
}

/* Returns the key/value head, in the part, that this query head reads. */
LS_DEVICE uint32_t kv_of(const head_place &p) { return p.head / (p.part->heads / p.part->kv_heads); }

/* Returns the index of element 0 of row 0 of a head in its tensor. */
LS_DEVICE size_t head_at(const ls_cuda_heads &x, uint32_t sequence, uint32_t head) {
    return sequence * x.sequence_stride + head * x.head_stride;
}

/* Returns the index of row 0 of a head in m, l and dots. */
LS_DEVICE size_t stats_at(const ls_cuda_attention &a, const head_place &p, uint32_t head) {
    return p.sequence * a.stat_elems + head * p.part->stat_stride;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Returns x rounded to the type `act`, as fp32. */
LS_DEVICE float rounded(float x, int act) {
    return act == LS_CUDA_F32 ? x : act == LS_CUDA_BF16 ? from_bf16(to_bf16(x)) : from_f16(to_f16(x));
}

/* Loads up to four neighbours from element `at` on; +0 behind `count`. If rows are aligned, count is four. */
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

/* Stores the first `count` of four neighbours from element `at` on. */
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

/* Starts to load ROWS rows of a head from `first` on, D numbers each, S apart in shared memory; rows from `rows` on are 0. They
 * can be read after wait_rows() and a __syncthreads(). */
template <int D, int ROWS, int S, int THREADS>
LS_DEVICE void load_rows(const ls_cuda_attention &a, float *to, const ls_cuda_heads &x, uint32_t sequence,
                         uint32_t head, int first, int rows) {
    size_t base = head_at(x, sequence, head);
    if (a.act == LS_CUDA_F32 && a.is_vector) {
        LS_UNROLL_4 for (int i = threadIdx.x; i < ROWS * D / 4; i += THREADS) {
            int r = i / (D / 4), c = i % (D / 4) * 4;
            bool is_there = first + r < rows && c < a.head_size;
            size_t at = is_there ? base + (size_t)(first + r) * x.row_stride + c : 0;
            copy16_async_or_zero(&to[r * S + c], (const float *)x.at + at, is_there);
        }
        return;
    }
    LS_UNROLL_2 for (int i = threadIdx.x; i < ROWS * D / 4; i += THREADS) {
        int r = i / (D / 4), c = i % (D / 4) * 4;
        float4 v = make_float4(0, 0, 0, 0);
        if (first + r < rows && c < a.head_size)
            v = load_some(a, x.at, base + (size_t)(first + r) * x.row_stride + c, a.head_size - c);
        *(float4 *)&to[r * S + c] = v;
    }
}

/* Waits for this thread's copies of load_rows(). */
LS_DEVICE void wait_rows() {
    copy_async_commit();
    copy_async_wait<0>();
}

/* Stores ROWS rows from shared memory to a head, those below `rows`. The caller has synchronized the threads. */
template <int D, int ROWS, int S, int THREADS>
LS_DEVICE void store_rows(const ls_cuda_attention &a, const ls_cuda_heads &x, uint32_t sequence, uint32_t head,
                          const float *from, int first, int rows) {
    size_t base = head_at(x, sequence, head);
    LS_NO_UNROLL for (int i = threadIdx.x; i < ROWS * D / 4; i += THREADS) {
        int r = i / (D / 4), c = i % (D / 4) * 4;
        if (first + r < rows && c < a.head_size)
            store_some(a, x.at, base + (size_t)(first + r) * x.row_stride + c, *(const float4 *)&from[r * S + c],
                       a.head_size - c);
    }
}

/* Rounds a thread's weights, of rows ty + 16·i and columns tx + ACROSS·j, in place to the type of the tensors. */
template <int I, int J, int ACROSS, int S>
LS_DEVICE void round_weights(const ls_cuda_attention &a, float *weights, int ty, int tx) {
    if (a.act == LS_CUDA_F32) return;
    LS_NO_UNROLL for (int e = 0; e < I * J; e++) {
        float *w = &weights[(ty + e / J * 16) * S + tx + e % J * ACROSS];
        *w = rounded(*w, a.act);
    }
}

/* ---- dropout ----------------------------------------------------------------------------------------------------- */

/* Writes the dropout factors of QUERIES queries and KEYS keys, from these on, to factor[query·query_step + key·key_step]. A
 * thread uses the four numbers of one run of the generator at a time. */
template <int QUERIES, int KEYS, int THREADS>
LS_DEVICE void make_factors(const ls_cuda_attention &a, const head_place &p, uint32_t head, int query, int key,
                            float *factor, int query_step, int key_step) {
    enum { BLOCKS = KEYS / 4 + 1 };
    const ls_cuda_attention_part &part = *p.part;
    uint64_t number = part.drop_head0 + p.sequence * part.drop_heads + head, T = (uint64_t)a.T;
    LS_NO_UNROLL for (int i = threadIdx.x; i < QUERIES * BLOCKS; i += THREADS) {
        int q = i / BLOCKS;
        uint64_t first = (number * T + (uint64_t)(query + q)) * T + (uint64_t)key,
                 block = first / 4 + (uint64_t)(i % BLOCKS);
        uint4 words = philox_block(part.drop_key, block);
        const uint32_t *word = &words.x;
        LS_UNROLL for (int e = 0; e < 4; e++) {
            int k = (int)(int64_t)(block * 4 + (uint64_t)e - first);
            if (k >= 0 && k < KEYS)
                factor[q * query_step + k * key_step] = word[e] < part.drop_threshold ? 0.0f : part.drop_scale;
        }
    }
}

/* ---- matmuls of tiles -------------------------------------------------------------------------------------------- */

/* Computes out[i][j], the chain over the first n numbers of row i·STEP_A of a and row j·STEP_B of b; EXACT: n is D. */
template <int D, bool EXACT, int STEP_A, int STEP_B, int I, int J>
LS_DEVICE void dot_rows(float (&out)[I][J], const float *a, const float *b, int n) {
    enum { S = D + 4 };
    const int whole = EXACT ? D : n / 4 * 4;
    LS_UNROLL for (int i = 0; i < I; i++)
        LS_UNROLL for (int j = 0; j < J; j++) out[i][j] = 0.0f;
    LS_UNROLL_2 for (int d = 0; d < whole; d += 4) {
        float4 x[I];
        LS_UNROLL for (int i = 0; i < I; i++) x[i] = *(const float4 *)&a[i * STEP_A * S + d];
        LS_UNROLL for (int j = 0; j < J; j++) {
            float4 y = *(const float4 *)&b[j * STEP_B * S + d];
            LS_UNROLL for (int i = 0; i < I; i++) out[i][j] = __fmaf_rn(x[i].x, y.x, out[i][j]);
            LS_UNROLL for (int i = 0; i < I; i++) out[i][j] = __fmaf_rn(x[i].y, y.y, out[i][j]);
            LS_UNROLL for (int i = 0; i < I; i++) out[i][j] = __fmaf_rn(x[i].z, y.z, out[i][j]);
            LS_UNROLL for (int i = 0; i < I; i++) out[i][j] = __fmaf_rn(x[i].w, y.w, out[i][j]);
        }
    }
    if constexpr (!EXACT)
        LS_NO_UNROLL for (int d = whole; d < n; d++)
            LS_UNROLL for (int i = 0; i < I; i++)
                LS_UNROLL for (int j = 0; j < J; j++)
                    out[i][j] = __fmaf_rn(a[i * STEP_A * S + d], b[j * STEP_B * S + d], out[i][j]);
}

/* Continues the chains sum[i][…] with weight[i·STEP][k] · rows[k][column …] over the k < count that row i sees: first[i] ≤
 * k ≤ last[i], or all if ALL. Columns are 4·j·ACROSS from the thread's first. Up to three numbers behind `count` are read. */
template <int STEP, int ACROSS, int SW, int SR, bool ALL, int I, int C>
LS_DEVICE void weigh_rows(float (&sum)[I][C], const float *weight, const float *rows, int count, const int (&first)[I],
                          const int (&last)[I]) {
    LS_NO_UNROLL for (int k = 0; k < count; k += 4) {
        float4 w[I];
        LS_UNROLL for (int i = 0; i < I; i++) w[i] = *(const float4 *)&weight[i * STEP * SW + k];
        LS_UNROLL for (int u = 0; u < 4; u++) {
            float4 r[C / 4];
            LS_UNROLL for (int j = 0; j < C / 4; j++) r[j] = *(const float4 *)&rows[(k + u) * SR + j * ACROSS * 4];
            LS_UNROLL for (int i = 0; i < I; i++) {
                float x = u == 0 ? w[i].x : u == 1 ? w[i].y : u == 2 ? w[i].z : w[i].w;
                bool is_seen = ALL || (k + u >= first[i] && k + u <= last[i]);
                LS_UNROLL for (int j = 0; j < C / 4; j++) {
                    float a = __fmaf_rn(x, r[j].x, sum[i][4 * j]), b = __fmaf_rn(x, r[j].y, sum[i][4 * j + 1]);
                    float c = __fmaf_rn(x, r[j].z, sum[i][4 * j + 2]), d = __fmaf_rn(x, r[j].w, sum[i][4 * j + 3]);
                    if (!is_seen) continue;
                    sum[i][4 * j] = a;
                    sum[i][4 * j + 1] = b;
                    sum[i][4 * j + 2] = c;
                    sum[i][4 * j + 3] = d;
                }
            }
        }
    }
}

/* Sets all numbers to +0. */
template <int I, int C> LS_DEVICE void clear(float (&x)[I][C]) {
    LS_UNROLL for (int i = 0; i < I; i++)
        LS_UNROLL for (int j = 0; j < C; j++) x[i][j] = 0.0f;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Computes o, m and l of one tile of 16·I queries. D: size of a head, EXACT, or more. Thread (tx, ty) has queries ty + 16·i, keys tx +
 * 8·j and columns 4·tx + 32·j of O; of a query's sum of weights it has lanes tx and tx + 8. */
template <int D, bool EXACT, int I, int J> LS_DEVICE void forward_tile(const ls_cuda_attention &a) {
    enum { THREADS = LS_CUDA_ATTENTION_FORWARD_THREADS, BQ = 16 * I, BK = 8 * J, S = D + 4, SP = BK + 8 };
    LS_SHARED(float, shared);
    float *Q = shared, *K = Q + BQ * S, *V = K + BK * S, *P = V + BK * D;
    const int tx = threadIdx.x / 2 % 8, ty = threadIdx.x / 32 * 4 + threadIdx.x / 16 % 2 * 2 + threadIdx.x % 2;
    const int n = EXACT ? D : a.head_size;
    const int rows = a.T - a.first_query, row0 = (int)(gridDim.z - 1 - blockIdx.z) * BQ; /* the longest first */
    const int q0 = a.first_query + row0, end = min(a.T, q0 + BQ);
    const int full = (q0 + 1) / BK; /* tiles before it are seen by every query */
    const head_place p = find_query_head(a, blockIdx.x, blockIdx.y);
    const ls_cuda_attention_part &part = *p.part;
    const uint32_t kv = kv_of(p);
    load_rows<D, BQ, S, THREADS>(a, Q, part.q, p.sequence, p.head, row0, rows);
    float most[I], s[I][J];
    LS_UNROLL for (int i = 0; i < I; i++) most[i] = __uint_as_float(0xFF800000u);
    for (int t = 0; t * BK < end; t++) {
        __syncthreads();
        load_rows<D, BK, S, THREADS>(a, K, part.k, p.sequence, kv, t * BK, a.T);
        wait_rows();
        __syncthreads();
        dot_rows<D, EXACT, 16, 8>(s, Q + ty * S, K + tx * S, n);
        LS_UNROLL for (int i = 0; i < I; i++)
            LS_UNROLL for (int j = 0; j < J; j++)
                if (t < full || t * BK + tx + 8 * j <= q0 + ty + 16 * i) most[i] = max_of_any_zero(most[i], s[i][j]);
    }
    float lane[I][2], o[I][D / 8];
    clear(lane);
    clear(o);
    /* The scale is positive, so it may be applied after the maximum. */
    LS_UNROLL for (int i = 0; i < I; i++) {
        LS_UNROLL for (int x = 2; x < 16; x *= 2) most[i] = max_of_any_zero(most[i], __shfl_xor_sync(~0u, most[i], x));
        most[i] = part.scale * most[i];
    }
    const bool drops = part.drop_scale != 0.0f;
    for (int t = 0; t * BK < end; t++) {
        __syncthreads();
        load_rows<D, BK, S, THREADS>(a, K, part.k, p.sequence, kv, t * BK, a.T);
        load_rows<D, BK, D, THREADS>(a, V, part.v, p.sequence, kv, t * BK, a.T);
        if (drops) make_factors<BQ, BK, THREADS>(a, p, p.head, q0, t * BK, P, SP, 1);
        wait_rows();
        __syncthreads();
        dot_rows<D, EXACT, 16, 8>(s, Q + ty * S, K + tx * S, n);
        int first[I], last[I];
        LS_UNROLL for (int i = 0; i < I; i++) {
            first[i] = 0;
            last[i] = q0 + ty + 16 * i - t * BK;
            LS_UNROLL for (int j = 0; j < J; j++) {
                float *to = &P[(ty + 16 * i) * SP + tx + 8 * j], weight = exp_below(part.scale * s[i][j] - most[i]);
                if (t >= full && tx + 8 * j > last[i]) weight = 0.0f;
                lane[i][j % 2] = lane[i][j % 2] + weight;
                *to = drops ? weight * *to : weight;
            }
        }
        round_weights<I, J, 8, SP>(a, P, ty, tx);
        __syncwarp();
        if (t < full)
            weigh_rows<16, 8, SP, D, true>(o, P + ty * SP, V + tx * 4, BK, first, last);
        else
            weigh_rows<16, 8, SP, D, false>(o, P + ty * SP, V + tx * 4, min((int)BK, end - t * BK), first, last);
    }
    __syncthreads();
    LS_UNROLL for (int i = 0; i < I; i++) {
        float l = lane[i][0] + lane[i][1]; /* lane j += lane j + 8 */
        l = l + __shfl_down_sync(~0u, l, 8, 16);
        l = l + __shfl_down_sync(~0u, l, 4, 16);
        l = l + __shfl_down_sync(~0u, l, 2, 16);
        l = __shfl_sync(~0u, l, threadIdx.x % 2, 16);
        int row = row0 + ty + 16 * i;
        if (tx == 0 && row < rows) {
            part.m[stats_at(a, p, p.head) + row] = most[i];
            part.l[stats_at(a, p, p.head) + row] = l;
        }
        LS_UNROLL for (int j = 0; j < D / 32; j++) {
            const float *x = &o[i][4 * j];
            *(float4 *)&Q[(ty + 16 * i) * S + tx * 4 + 32 * j] =
                make_float4(__fdiv_rn(x[0], l), __fdiv_rn(x[1], l), __fdiv_rn(x[2], l), __fdiv_rn(x[3], l));
        }
    }
    __syncthreads();
    store_rows<D, BQ, S, THREADS>(a, part.o, p.sequence, p.head, Q, row0, rows);
}

/* Forward, a tile of queries of a head per block. */
LS_KERNEL_ALONE(attention_forward_64, ls_cuda_attention, LS_CUDA_ATTENTION_FORWARD_THREADS) {
    forward_tile<64, true, 8, 8>(a);
}
LS_KERNEL_ALONE(attention_forward_128, ls_cuda_attention, LS_CUDA_ATTENTION_FORWARD_THREADS) {
    forward_tile<128, true, 4, 6>(a);
}
LS_KERNEL_ALONE(attention_forward_any, ls_cuda_attention, LS_CUDA_ATTENTION_FORWARD_THREADS) {
    forward_tile<128, false, 4, 6>(a);
}
LS_KERNEL_ALONE(attention_forward_wide, ls_cuda_attention, LS_CUDA_ATTENTION_FORWARD_THREADS) {
    forward_tile<256, false, 4, 8>(a);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Returns this thread's lane, of sixteen, of the dot product of dout and o of a row. */
template <class T> LS_DEVICE float dot_of(const ls_cuda_attention &a, const head_place &p, int row) {
    const ls_cuda_attention_part &part = *p.part;
    const T *x = (const T *)part.dout.at + head_at(part.dout, p.sequence, p.head) + (size_t)row * part.dout.row_stride;
    const T *y = (const T *)part.o.at + head_at(part.o, p.sequence, p.head) + (size_t)row * part.o.row_stride;
    float sum = 0.0f;
    for (int d = threadIdx.x % 16; d < a.head_size; d += 16) sum = __fmaf_rn(load(x + d), load(y + d), sum);
    return sum;
}

/* Computes D of the contract: the dot product of dout and o for each query and head. */
LS_KERNEL(attention_dots, ls_cuda_attention, 16 * LS_CUDA_ATTENTION_DOTS_ROWS) {
    const head_place p = find_query_head(a, blockIdx.y, blockIdx.z);
    int row = (int)blockIdx.x * LS_CUDA_ATTENTION_DOTS_ROWS + (int)threadIdx.x / 16;
    bool is_in = row < a.T;
    float sum = 0.0f;
    if (!is_in) row = a.T - 1; /* an exchange needs all lanes */
    LS_BY_TYPE(a.act, T, { sum = dot_of<T>(a, p, row); });
    sum = join16(sum);
    if (is_in && threadIdx.x % 16 == 0) p.part->dots[stats_at(a, p, p.head) + row] = sum;
}

/* Writes a thread's part of a result, times `factor`, to shared memory: rows ty + 16·i, columns 4·tx + 64·j. A factor of 1 changes
 * nothing. */
template <int S, int I, int C>
LS_DEVICE void put_rows(float *to, const float (&x)[I][C], float factor, int ty, int tx) {
    LS_UNROLL for (int i = 0; i < I; i++)
        LS_UNROLL for (int j = 0; j < C; j += 4)
            *(float4 *)&to[(ty + 16 * i) * S + tx * 4 + 16 * j] =
                make_float4(factor * x[i][j], factor * x[i][j + 1], factor * x[i][j + 2], factor * x[i][j + 3]);
}

/* Computes dQ of a tile of 16·I queries. Thread (tx, ty) has queries ty + 16·i, keys tx + 16·j and columns 4·tx + 64·j of dQ. The next
 * tile of keys is loaded while the present one is worked on. */
template <int D, bool EXACT, int I, int J> LS_DEVICE void queries_tile(const ls_cuda_attention &a) {
    enum { THREADS = LS_CUDA_ATTENTION_BACKWARD_THREADS, BQ = 16 * I, BK = 16 * J, S = D + 4, SP = BK + 8 };
    enum { OTHER = 2 * BK * S };
    LS_SHARED(float, shared);
    float *Q = shared, *G = Q + BQ * S, *P = G + BQ * S, *others = P + BQ * SP;
    const int tx = threadIdx.x / 2 % 16, ty = threadIdx.x / 32 * 2 + threadIdx.x % 2;
    const int n = EXACT ? D : a.head_size, T = a.T;
    const int q0 = (int)(gridDim.z - 1 - blockIdx.z) * BQ, end = min(T, q0 + BQ), full = (q0 + 1) / BK;
    const head_place p = find_query_head(a, blockIdx.x, blockIdx.y);
    const ls_cuda_attention_part &part = *p.part;
    const uint32_t kv = kv_of(p);
    const bool drops = part.drop_scale != 0.0f;
    load_rows<D, BQ, S, THREADS>(a, Q, part.q, p.sequence, p.head, q0, T);
    load_rows<D, BQ, S, THREADS>(a, G, part.dout, p.sequence, p.head, q0, T);
    float m[I], l[I], dots[I], dq[I][D / 16];
    clear(dq);
    LS_UNROLL for (int i = 0; i < I; i++) {
        size_t at = stats_at(a, p, p.head) + min(T - 1, q0 + ty + 16 * i);
        m[i] = part.m[at];
        l[i] = part.l[at];
        dots[i] = part.dots[at];
    }
    load_rows<D, BK, S, THREADS>(a, others, part.k, p.sequence, kv, 0, T);
    load_rows<D, BK, S, THREADS>(a, others + BK * S, part.v, p.sequence, kv, 0, T);
    for (int t = 0; t * BK < end; t++) {
        float *K = others + t % 2 * OTHER, *V = K + BK * S, *next = others + (t + 1) % 2 * OTHER;
        wait_rows();
        __syncthreads();
        if ((t + 1) * BK < end) {
            load_rows<D, BK, S, THREADS>(a, next, part.k, p.sequence, kv, (t + 1) * BK, T);
            load_rows<D, BK, S, THREADS>(a, next + BK * S, part.v, p.sequence, kv, (t + 1) * BK, T);
        }
        if (drops) {
            make_factors<BQ, BK, THREADS>(a, p, p.head, q0, t * BK, P, SP, 1);
            __syncthreads();
        }
        float s[I][J], dp[I][J];
        dot_rows<D, EXACT, 16, 16>(s, Q + ty * S, K + tx * S, n);
        dot_rows<D, EXACT, 16, 16>(dp, G + ty * S, V + tx * S, n);
        int first[I], last[I];
        LS_UNROLL for (int i = 0; i < I; i++) {
            first[i] = 0;
            last[i] = q0 + ty + 16 * i - t * BK;
            LS_UNROLL for (int j = 0; j < J; j++) {
                float *to = &P[(ty + 16 * i) * SP + tx + 16 * j],
                      weight = __fdiv_rn(exp_below(part.scale * s[i][j] - m[i]), l[i]);
                *to = weight * ((drops ? *to * dp[i][j] : dp[i][j]) - dots[i]);
            }
        }
        round_weights<I, J, 16, SP>(a, P, ty, tx);
        __syncwarp();
        if (t < full)
            weigh_rows<16, 16, SP, S, true>(dq, P + ty * SP, K + tx * 4, BK, first, last);
        else
            weigh_rows<16, 16, SP, S, false>(dq, P + ty * SP, K + tx * 4, min((int)BK, end - t * BK), first, last);
    }
    __syncthreads();
    put_rows<S>(Q, dq, part.scale, ty, tx);
    __syncthreads();
    store_rows<D, BQ, S, THREADS>(a, part.dq, p.sequence, p.head, Q, q0, T);
}

/* dQ, a tile of queries of a head per block. */
LS_KERNEL_ALONE(attention_queries_64, ls_cuda_attention, LS_CUDA_ATTENTION_BACKWARD_THREADS) {
    queries_tile<64, true, 8, 4>(a);
}
LS_KERNEL_ALONE(attention_queries_128, ls_cuda_attention, LS_CUDA_ATTENTION_BACKWARD_THREADS) {
    queries_tile<128, true, 4, 4>(a);
}
LS_KERNEL_ALONE(attention_queries_any, ls_cuda_attention, LS_CUDA_ATTENTION_BACKWARD_THREADS) {
    queries_tile<128, false, 4, 4>(a);
}
LS_KERNEL_ALONE(attention_queries_wide, ls_cuda_attention, LS_CUDA_ATTENTION_BACKWARD_THREADS) {
    queries_tile<256, false, 2, 2>(a);
}

/* Starts to load BQ queries of a head, from `first` on, into shared memory: BQ rows of q, BQ rows of dO, each S floats apart, then BQ
 * numbers each of m, l and D. Rows past the sequence are 0. They can be read after wait_rows() and a __syncthreads(). */
template <int D, int BQ, int S, int THREADS>
LS_DEVICE void load_queries(const ls_cuda_attention &a, const head_place &p, float *to, uint32_t head, int first) {
    load_rows<D, BQ, S, THREADS>(a, to, p.part->q, p.sequence, head, first, a.T);
    load_rows<D, BQ, S, THREADS>(a, to + BQ * S, p.part->dout, p.sequence, head, first, a.T);
    if (threadIdx.x < BQ) {
        float *stats = to + 2 * BQ * S + threadIdx.x;
        size_t at = stats_at(a, p, head) + min(a.T - 1, first + (int)threadIdx.x);
        stats[0] = p.part->m[at];
        stats[BQ] = p.part->l[at];
        stats[2 * BQ] = p.part->dots[at];
    }
}

/* Computes dK and dV of a tile of 16·I keys. Thread (tx, ty) has keys ty + 16·i, queries tx + 16·j and columns 4·tx + 64·j of dK and dV.
 * Where there is room for two TILES of queries, one is loaded while the other is worked on. */
template <int D, bool EXACT, int I, int J, int TILES> LS_DEVICE void keys_tile(const ls_cuda_attention &a) {
    enum { THREADS = LS_CUDA_ATTENTION_BACKWARD_THREADS, BK = 16 * I, BQ = 16 * J, S = D + 4, SP = BQ + 8 };
    enum { OTHER = BQ * (2 * S + 3) };
    LS_SHARED(float, shared);
    float *K = shared, *V = K + BK * S, *P = V + BK * S, *DS = P + BK * SP, *others = DS + BK * SP;
    const int tx = threadIdx.x / 2 % 16, ty = threadIdx.x / 32 * 2 + threadIdx.x % 2;
    const int n = EXACT ? D : a.head_size, T = a.T, k0 = (int)blockIdx.z * BK; /* the longest first */
    const head_place p = find_kv_head(a, blockIdx.x, blockIdx.y);
    const ls_cuda_attention_part &part = *p.part;
    const uint32_t group = part.heads / part.kv_heads;
    const bool drops = part.drop_scale != 0.0f;
    load_rows<D, BK, S, THREADS>(a, K, part.k, p.sequence, p.head, k0, T);
    load_rows<D, BK, S, THREADS>(a, V, part.v, p.sequence, p.head, k0, T);
    float dk[I][D / 16], dv[I][D / 16];
    clear(dk);
    clear(dv);
    const int first_tile = k0 / BQ;
    int turn = 0;
    if (TILES == 2) load_queries<D, BQ, S, THREADS>(a, p, others, p.head * group, first_tile * BQ);
    for (uint32_t head = p.head * group; head < (p.head + 1) * group; head++)
        for (int t = first_tile; t * BQ < T; t++, turn ^= TILES - 1) {
            const float *Q = others + turn * OTHER, *G = Q + BQ * S, *stats = G + BQ * S;
            if (TILES == 1) {
                __syncthreads();
                load_queries<D, BQ, S, THREADS>(a, p, others, head, t * BQ);
            }
            wait_rows();
            __syncthreads();
            if (TILES == 2) {
                const bool goes_on = (t + 1) * BQ < T;
                if (goes_on || head + 1 < (p.head + 1) * group)
                    load_queries<D, BQ, S, THREADS>(a, p, others + (turn ^ 1) * OTHER, goes_on ? head : head + 1,
                                                    (goes_on ? t + 1 : first_tile) * BQ);
            }
            if (drops) {
                make_factors<BQ, BK, THREADS>(a, p, head, t * BQ, k0, P, 1, SP);
                __syncthreads();
            }
            float s[I][J], dp[I][J];
            dot_rows<D, EXACT, 16, 16>(s, K + ty * S, Q + tx * S, n);
            dot_rows<D, EXACT, 16, 16>(dp, V + ty * S, G + tx * S, n);
            int first[I], last[I];
            const int rows = min((int)BQ, T - t * BQ);
            LS_UNROLL for (int i = 0; i < I; i++) {
                first[i] = k0 + ty + 16 * i - t * BQ; /* queries from the key's own position on see it */
                last[i] = rows - 1;
                LS_UNROLL for (int j = 0; j < J; j++) {
                    int q = tx + 16 * j, at = (ty + 16 * i) * SP + q;
                    float weight = __fdiv_rn(exp_below(part.scale * s[i][j] - stats[q]), stats[BQ + q]),
                          factor = drops ? P[at] : 1.0f;
                    DS[at] = weight * ((drops ? factor * dp[i][j] : dp[i][j]) - stats[2 * BQ + q]);
                    P[at] = drops ? weight * factor : weight;
                }
            }
            round_weights<I, J, 16, SP>(a, P, ty, tx);
            round_weights<I, J, 16, SP>(a, DS, ty, tx);
            __syncwarp();
            if (t * BQ >= k0 + BK - 1 && rows == BQ) {
                weigh_rows<16, 16, SP, S, true>(dv, P + ty * SP, G + tx * 4, BQ, first, last);
                weigh_rows<16, 16, SP, S, true>(dk, DS + ty * SP, Q + tx * 4, BQ, first, last);
            } else {
                weigh_rows<16, 16, SP, S, false>(dv, P + ty * SP, G + tx * 4, rows, first, last);
                weigh_rows<16, 16, SP, S, false>(dk, DS + ty * SP, Q + tx * 4, rows, first, last);
            }
        }
    __syncthreads();
    put_rows<S>(K, dk, part.scale, ty, tx);
    put_rows<S>(V, dv, 1.0f, ty, tx);
    __syncthreads();
    store_rows<D, BK, S, THREADS>(a, part.dk, p.sequence, p.head, K, k0, T);
    store_rows<D, BK, S, THREADS>(a, part.dv, p.sequence, p.head, V, k0, T);
}

/* dK and dV, a tile of keys of a key/value head per block. */
LS_KERNEL_ALONE(attention_keys_64, ls_cuda_attention, LS_CUDA_ATTENTION_BACKWARD_THREADS) {
    keys_tile<64, true, 8, 4, 2>(a);
}
LS_KERNEL_ALONE(attention_keys_128, ls_cuda_attention, LS_CUDA_ATTENTION_BACKWARD_THREADS) {
    keys_tile<128, true, 4, 4, 1>(a);
}
LS_KERNEL_ALONE(attention_keys_any, ls_cuda_attention, LS_CUDA_ATTENTION_BACKWARD_THREADS) {
    keys_tile<128, false, 4, 4, 1>(a);
}
LS_KERNEL_ALONE(attention_keys_wide, ls_cuda_attention, LS_CUDA_ATTENTION_BACKWARD_THREADS) {
    keys_tile<256, false, 2, 2, 2>(a);
}

/* ---- few queries ------------------------------------------------------------------------------------------------- */

/* Returns the dot product of a query in shared memory and a key, as a chain. */
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

/* Returns the largest number of the block to all its threads; NaN wins. `space`, in shared memory, has a number for each warp. */
LS_DEVICE float max_of_block(float x, float *space) {
    for (int mask = 16; mask > 0; mask /= 2) x = max_of(x, __shfl_xor_sync(~0u, x, mask));
    if (threadIdx.x % 32 == 0) space[threadIdx.x / 32] = x;
    __syncthreads();
    for (int w = 0; w < LS_CUDA_ATTENTION_FEW_THREADS / 32; w++) x = max_of(x, space[w]);
    return x;
}

/* Computes o, m and l of one query of a head. Shared memory: the query, a number for each warp, then the weights of all keys. */
template <class T> LS_DEVICE void forward_few(const ls_cuda_attention &a) {
    enum { THREADS = LS_CUDA_ATTENTION_FEW_THREADS };
    LS_SHARED(float, shared);
    float *q = shared, *space = q + LS_CUDA_ATTENTION_HEAD_MAX, *weights = space + THREADS / 32;
    const int row = (int)blockIdx.x, keys = a.first_query + row + 1;
    const head_place p = find_query_head(a, blockIdx.y, blockIdx.z);
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

/* Computes o, m and l of one query of a head per block: generation. */
LS_KERNEL_ALONE(attention_few, ls_cuda_attention, LS_CUDA_ATTENTION_FEW_THREADS) {
    LS_BY_TYPE(a.act, T, { forward_few<T>(a); });
}
