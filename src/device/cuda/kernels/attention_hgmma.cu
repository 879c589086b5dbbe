/* attention_hgmma.cu: attention with the matrix unit hgmma (docs/reference/arithmetic.md, "With hgmma") on tensor cores of compute
 * capability 9.0: TMA loads tiles, and warpgroups multiply them (wgmma). Launched by ops/attention_hgmma.c.
 *
 *     forward    a tile is 64 queries for each warpgroup; blocks of 128 keys pass by; heads have 64 or 128 numbers;
 *                where the queries do not fill all tiles, with heads of 64 the first tile is short, by whole warpgroups,
 *                because it sees the fewest keys; with heads of 128, whose warpgroups take turns, the last one
 *     keys       a tile is 128 keys, 64 for each warp group; the queries of all heads of the kv head pass by, 64 at a
 *                time: dK and dV
 *     queries    a tile is 128 queries; keys pass by, 64 at a time: dQ
 *
 * One more warp group, the producer, only copies. The grid is persistent: a block computes one tile after another (ls_cuda_attention_tiles). Backward has
 * heads of 128 numbers, those of up to 64 have attention_hgmma_once.cu. Smaller heads are filled up with zeros by the
 * copies, as are rows behind the end. A thread has rows lane / 4 and that + 8 of its warp's sixteen, and columns
 * 2·(lane mod 4) and the next of each eight.
 *
 * DROP: with dropout of weights, whose bits come with the tiles (ls_cuda_attention_hgmma::masks): kernels of their own,
 * since it takes registers. */
#ifndef LS_CUDA_ON_CPU_H
#include "device/cuda/common/attention_hgmma_tiles.cuh"

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Keys of a block of the running maximum, after each of which sums are rescaled. */
enum { KEYS = LS_CUDA_HGMMA_KEYS };

/* The shared memory of a block: queries twice, rings of keys and values, and the barriers of each buffer. */
template <int D, int GROUPS> struct forward_shared {
    static constexpr int STAGES = D == 64 ? 3 : 2, QUERIES = 64 * GROUPS;
    uint16_t q[2][QUERIES * D], k[STAGES][KEYS * D], v[STAGES][KEYS * D];
    uint64_t q_full[2], q_empty[2], k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
    alignas(16) uint16_t masks[STAGES][2][QUERIES * 4]; /* they come and go with v */
};

/* Computes o, m and l of all tiles of this block, with GROUPS warpgroups of 64 queries. IN_TURN: two warpgroups alternate, so that one
 * multiplies while the other computes exponentials. */
template <int D, int GROUPS, int REGISTERS, bool IN_TURN, bool IS_F16, bool DROP>
LS_DEVICE void forward_tiles(const ls_cuda_attention_tiles &t) {
    using memory = forward_shared<D, GROUPS>;
    constexpr int STAGES = memory::STAGES, QUERIES = memory::QUERIES;
    auto &s = shared_at_1024<memory>();
    const ls_cuda_attention &a = t.h.a;
    const int group = warp_group(), thread = threadIdx.x % 128, rows = a.T - a.first_query;
    const uint32_t tiles = tiles_of(t, false);
    /* Rows of the first tile that are no queries: whole warp groups. Those that take turns all take part in every tile. */
    const auto lead = [&] { return IN_TURN ? 0 : ((int)anew(t.rows) * QUERIES - rows) / 64 * 64; };
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) barrier_init(&s.q_full[i], 1), barrier_init(&s.q_empty[i], GROUPS);
        for (int i = 0; i < STAGES; i++) {
            barrier_init(&s.k_full[i], 1), barrier_init(&s.k_empty[i], GROUPS);
            barrier_init(&s.v_full[i], 1), barrier_init(&s.v_empty[i], GROUPS);
        }
        barriers_are_made();
    }
    __syncthreads();
    ring<STAGES> keys;
    uint32_t turn = 0; /* of queries: one buffer of two, then the other */
    if (group == 0) {
        give_registers<(GROUPS == 3 ? 32 : 24)>(); /* a block has 512 or 504 for a thread of each of its warp groups */
        if (thread != 0) return;
        for (; tile_of_round(turn) < tiles; turn++) {
            const tile_place p = tile_at<true, false>(t, tile_of_round(turn));
            const ls_cuda_attention_part &part = a.parts[p.part];
            const ls_cuda_attention_maps &maps = t.maps[p.part];
            const int kv = (int)(p.head / (part.heads / part.kv_heads)), head = (int)p.head, b = (int)p.sequence;
            const int row = p.row * QUERIES - lead(), end = min(a.T, a.first_query + row + QUERIES), skipped = max(0, -row);
            barrier_wait(&s.q_empty[turn % 2], turn / 2 % 2 ^ 1);
            barrier_expect(&s.q_full[turn % 2], (QUERIES - skipped) * D * 2);
            load_tile<D, QUERIES>(s.q[turn % 2], &maps.q, &s.q_full[turn % 2], head, row, b, skipped);
            for (int key = 0; key < end; key += KEYS, keys.next()) {
                barrier_wait(&s.k_empty[keys.at], keys.turn ^ 1);
                barrier_expect(&s.k_full[keys.at], KEYS * D * 2);
                load_tile<D, KEYS>(s.k[keys.at], &maps.k, &s.k_full[keys.at], kv, key, b);
                barrier_wait(&s.v_empty[keys.at], keys.turn ^ 1);
                const int bytes = DROP ? (QUERIES - skipped) * 8 : 0;
                barrier_expect(&s.v_full[keys.at], KEYS * D * 2 + 2 * bytes);
                load_tile<D, KEYS>(s.v[keys.at], &maps.v, &s.v_full[keys.at], kv, key, b);
                for (int half = 0; DROP && half < 2; half++)
                    load_numbers(s.masks[keys.at][half] + skipped * 4,
                                 masks_at(t.h, p.sequence, p.first + p.head, key / 64 + half, row + skipped), bytes, &s.v_full[keys.at]);
            }
        }
        return;
    }
    take_registers<REGISTERS>();
    const int w = group - 1, lane = thread % 32, warp = thread / 32;
    if (IN_TURN && w == 1) asm volatile("bar.arrive 1, 256;" ::: "memory");
    for (; tile_of_round(turn) < tiles; turn++) {
        const tile_place p = tile_at<true, false>(t, tile_of_round(turn));
        const ls_cuda_attention_part &part = a.parts[p.part];
        const float c = scale2_of(part);
        const auto blocks_of = [&](int row) {
            return (min(a.T, a.first_query + (row + 1) * QUERIES - lead()) + KEYS - 1) / KEYS;
        };
        /* Blocks of which this warp group sees something; all of them wait for the others. */
        const auto mine_of = [&](int row) {
            const int query = row * QUERIES - lead() + w * 64, blocks = blocks_of(row);
            return IN_TURN ? blocks : query < 0 ? 0 : min(blocks, (a.first_query + query + 63) / KEYS + 1);
        };
        int left = uniform(mine_of(p.row)), ahead = uniform(a.first_query + p.row * QUERIES - lead() + w * 64);
        const auto leave = [&](int row) {
            for (int blocks = blocks_of(row) - mine_of(row); blocks > 0; blocks--, keys.next())
                if (thread == 0) {
                    barrier_wait(&s.k_full[keys.at], keys.turn);
                    barrier_arrive(&s.k_empty[keys.at]);
                    barrier_wait(&s.v_full[keys.at], keys.turn);
                    barrier_arrive(&s.v_empty[keys.at]);
                }
        };
        float o[D / 2], m0 = -LS_INFINITY, m1 = -LS_INFINITY, l0 = 0.0f, l1 = 0.0f, alpha0, alpha1, S[KEYS / 2];
        uint32_t weights[KEYS / 4];
        LS_UNROLL for (int i = 0; i < D / 2; i++) o[i] = 0.0f;
        barrier_wait(&s.q_full[turn % 2], turn / 2 % 2);
        if (left == 0) {
            leave(p.row);
            if (thread == 0) barrier_arrive(&s.q_empty[turn % 2]);
            continue;
        }
        const auto scores = [&] {
            products_begin();
            LS_UNROLL for (int k = 0; k < D / 16; k++)
                product<IS_F16, 0>(S, along<QUERIES>(s.q[turn % 2], w * 64, k), along<KEYS>(s.k[keys.at], 0, k), k > 0);
            products_commit();
        };
        const auto weigh = [&](const ring<STAGES> &here) { /* a block whose first key is so far before the first query */
            if (ahead < KEYS - 1) {
                const int seen = ahead + warp * 16 + lane / 4 - lane % 4 * 2;
                LS_UNROLL for (int i = 0; i < KEYS / 8; i++) {
                    if (i * 8 > seen) S[i * 4] = -LS_INFINITY;
                    if (i * 8 + 1 > seen) S[i * 4 + 1] = -LS_INFINITY;
                    if (i * 8 > seen + 8) S[i * 4 + 2] = -LS_INFINITY;
                    if (i * 8 + 1 > seen + 8) S[i * 4 + 3] = -LS_INFINITY;
                }
            }
            float n0 = m0, n1 = m1;
            LS_UNROLL for (int i = 0; i < KEYS / 8; i++) {
                n0 = larger(n0, larger(S[i * 4], S[i * 4 + 1]));
                n1 = larger(n1, larger(S[i * 4 + 2], S[i * 4 + 3]));
            }
            LS_UNROLL for (int x = 1; x < 4; x *= 2) {
                n0 = larger(n0, __shfl_xor_sync(~0u, n0, x));
                n1 = larger(n1, __shfl_xor_sync(~0u, n1, x));
            }
            alpha0 = exp2_of((m0 - n0) * c), alpha1 = exp2_of((m1 - n1) * c);
            m0 = n0, m1 = n1;
            l0 = l0 * alpha0, l1 = l1 * alpha1;
            const float shift0 = -(n0 * c), shift1 = -(n1 * c);
            LS_UNROLL for (int i = 0; i < KEYS / 8; i++) {
                S[i * 4] = exp2_of(__fmaf_rn(S[i * 4], c, shift0));
                S[i * 4 + 1] = exp2_of(__fmaf_rn(S[i * 4 + 1], c, shift0));
                S[i * 4 + 2] = exp2_of(__fmaf_rn(S[i * 4 + 2], c, shift1));
                S[i * 4 + 3] = exp2_of(__fmaf_rn(S[i * 4 + 3], c, shift1));
                l0 = l0 + (S[i * 4] + S[i * 4 + 1]);
                l1 = l1 + (S[i * 4 + 2] + S[i * 4 + 3]);
            }
            if (!DROP) return;
            barrier_wait(&s.v_full[here.at], here.turn);
            LS_UNROLL for (int half = 0; half < 2; half++) {
                const auto kept = kept_of<DROP>(s.masks[here.at][half], w * 64 + warp * 16, lane, t.h.drop_scale);
                float *x = S + half * 32;
                LS_UNROLL for (int i = 0; i < 32; i++) x[i] = kept(i / 2 % 2, i / 4 * 2 + i % 2, x[i]);
            }
        };
        const auto round_weights = [&] {
            LS_UNROLL for (int i = 0; i < KEYS / 4; i++) weights[i] = rounded_pair<IS_F16>(S[i * 2], S[i * 2 + 1]);
        };
        const auto add_values = [&] { /* of the block before the one whose turn it is */
            const ring<STAGES> values = keys.before();
            barrier_wait(&s.v_full[values.at], values.turn);
            products_begin();
            LS_UNROLL for (int k = 0; k < KEYS / 16; k++)
                product<IS_F16, 1>(o, &weights[k * 4], across<KEYS>(s.v[values.at], k), 1);
            products_commit();
        };
        if (IN_TURN) asm volatile("bar.sync %0, 256;" ::"r"(1 + w) : "memory");
        barrier_wait(&s.k_full[keys.at], keys.turn);
        scores();
        if (IN_TURN) asm volatile("bar.arrive %0, 256;" ::"r"(2 - w) : "memory");
        products_wait<0>();
        if (thread == 0) barrier_arrive(&s.k_empty[keys.at]);
        keys.next();
        weigh(keys.before());
        round_weights();
        while (--left > 0) {
            ahead -= KEYS;
            if (IN_TURN) asm volatile("bar.sync %0, 256;" ::"r"(1 + w) : "memory");
            barrier_wait(&s.k_full[keys.at], keys.turn);
            scores();
            add_values();
            if (IN_TURN) asm volatile("bar.arrive %0, 256;" ::"r"(2 - w) : "memory");
            products_wait<1>();
            if (thread == 0) barrier_arrive(&s.k_empty[keys.at]);
            weigh(keys);
            made_before(l0, l1);
            products_wait<0>();
            if (thread == 0) barrier_arrive(&s.v_empty[keys.before().at]);
            keys.next();
            LS_UNROLL for (int i = 0; i < D / 8; i++) {
                o[i * 4] = o[i * 4] * alpha0, o[i * 4 + 1] = o[i * 4 + 1] * alpha0;
                o[i * 4 + 2] = o[i * 4 + 2] * alpha1, o[i * 4 + 3] = o[i * 4 + 3] * alpha1;
            }
            round_weights();
        }
        add_values();
        products_wait<0>();
        if (thread == 0) {
            barrier_arrive(&s.v_empty[keys.before().at]);
            barrier_arrive(&s.q_empty[turn % 2]);
        }
        const tile_place to = tile_at<true, false>(t, anew(tile_of_round(turn)));
        leave(to.row);
        LS_UNROLL for (int x = 1; x < 4; x *= 2) {
            l0 = l0 + __shfl_xor_sync(~0u, l0, x);
            l1 = l1 + __shfl_xor_sync(~0u, l1, x);
        }
        const ls_cuda_attention_part &out = a.parts[to.part];
        const int row = to.row * QUERIES - lead() + w * 64 + warp * 16, r = row + lane / 4;
        const size_t stat = to.sequence * a.stat_elems + to.head * out.stat_stride;
        if (lane % 4 == 0 && r < rows) out.m[stat + r] = m0, out.l[stat + r] = l0;
        if (lane % 4 == 0 && r + 8 < rows) out.m[stat + r + 8] = m1, out.l[stat + r + 8] = l1;
        /* A sum of the unit is never −0: nothing has to be added. */
        store_tile<IS_F16, D>(out.o, to.sequence, to.head, row, rows, a.head_size, o, __frcp_rn(l0), __frcp_rn(l1), lane);
    }
    if (IN_TURN && w == 0) asm volatile("bar.sync 1, 256;" ::: "memory");
}

/* A kernel for each type: one for both has no registers left. */
#define LS_FORWARD(name, d, groups, registers, in_turn, drop)                                                          \
    LS_KERNEL_ALONE(name##_bf16, ls_cuda_attention_tiles, 128 * (groups) + 128) {                                      \
        LS_ON_HOPPER((forward_tiles<d, groups, registers, in_turn, false, drop>(a));)                                  \
    }                                                                                                                  \
    LS_KERNEL_ALONE(name##_f16, ls_cuda_attention_tiles, 128 * (groups) + 128) {                                       \
        LS_ON_HOPPER((forward_tiles<d, groups, registers, in_turn, true, drop>(a));)                                   \
    }
LS_FORWARD(attention_hgmma_forward_64, 64, LS_CUDA_HGMMA_FORWARD_GROUPS_64, 160, false, false)
LS_FORWARD(attention_hgmma_forward_128, 128, LS_CUDA_HGMMA_FORWARD_GROUPS_128, 240, true, false)
LS_FORWARD(attention_hgmma_forward_64_drop, 64, LS_CUDA_HGMMA_FORWARD_GROUPS_64_DROP, 240, false, true)
LS_FORWARD(attention_hgmma_forward_128_drop, 128, LS_CUDA_HGMMA_FORWARD_GROUPS_128, 240, true, true)

/* ---- backward ---------------------------------------------------------------------------------------------------- */

enum { D = 128, STAGES = 2 };

/* The shared memory of a block of keys_tiles(): keys, values, and rings of queries, their dO and statistics. */
struct keys_shared {
    uint16_t k[128 * D], v[128 * D], q[STAGES][64 * D], g[STAGES][64 * D];
    float L[STAGES][64], dots[STAGES][64];
    uint64_t k_full, k_empty, q_full[STAGES], q_empty[STAGES];
    alignas(16) uint16_t masks[STAGES][128 * 4];
};

/* Computes dK and dV of all tiles of keys of this block. */
template <bool IS_F16, bool DROP> LS_DEVICE void keys_tiles(const ls_cuda_attention_tiles &t) {
    auto &s = shared_at_1024<keys_shared>();
    const ls_cuda_attention &a = t.h.a;
    const int group = warp_group(), thread = threadIdx.x % 128, queries = (a.T + 63) / 64;
    const uint32_t tiles = tiles_of(t, true);
    if (threadIdx.x == 0) {
        barrier_init(&s.k_full, 1), barrier_init(&s.k_empty, 2);
        for (int i = 0; i < STAGES; i++) barrier_init(&s.q_full[i], 1), barrier_init(&s.q_empty[i], 2);
        barriers_are_made();
    }
    __syncthreads();
    ring<STAGES> at;
    uint32_t turn = 0;
    if (group == 0) {
        give_registers<24>();
        if (thread != 0) return;
        for (uint32_t round = 0; tile_of_round(round) < tiles; round++) {
            const tile_place p = tile_at<false, true>(t, tile_of_round(round));
            const ls_cuda_attention_part &part = a.parts[p.part];
            const ls_cuda_attention_maps &maps = t.maps[p.part];
            const int heads = (int)(part.heads / part.kv_heads), kv = (int)p.head, b = (int)p.sequence;
            barrier_wait(&s.k_empty, turn ^ 1);
            turn ^= 1;
            barrier_expect(&s.k_full, 128 * D * 4);
            load_tile<D, 128>(s.k, &maps.k, &s.k_full, kv, p.row * 128, b);
            load_tile<D, 128>(s.v, &maps.v, &s.k_full, kv, p.row * 128, b);
            for (int head = kv * heads; head < (kv + 1) * heads; head++) {
                const float *L = stats_of(t.h, p.sequence, p.first + (uint32_t)head);
                for (int j = 2 * p.row; j < queries; j++, at.next()) {
                    uint64_t *full = &s.q_full[at.at];
                    barrier_wait(&s.q_empty[at.at], at.turn ^ 1);
                    barrier_expect(full, 64 * D * 4 + 512 + (DROP ? 1024 : 0));
                    load_tile<D, 64>(s.q[at.at], &maps.q, full, head, j * 64, b);
                    load_tile<D, 64>(s.g[at.at], &maps.dout, full, head, j * 64, b);
                    load_numbers(s.L[at.at], L + j * 64, 256, full);
                    load_numbers(s.dots[at.at], L + t.h.stat_rows + j * 64, 256, full);
                    if (DROP) load_numbers(s.masks[at.at], masks_at(t.h, p.sequence, p.first + (uint32_t)head, j, p.row * 128), 1024, full);
                }
            }
        }
        return;
    }
    take_registers<240>();
    const int w = group - 1, lane = thread % 32, warp = thread / 32;
    for (uint32_t round = 0; tile_of_round(round) < tiles; round++) {
        const tile_place p = tile_at<false, true>(t, tile_of_round(round));
        const ls_cuda_attention_part &part = a.parts[p.part];
        const float c = scale2_of(part);
        float dk[D / 2], dv[D / 2];
        uint32_t weights[16], ds[16];
        LS_UNROLL for (int i = 0; i < D / 2; i++) dk[i] = dv[i] = 0.0f;
        barrier_wait(&s.k_full, turn);
        turn ^= 1;
        /* Products of a step may be under way until the next. */
        const int first = 2 * p.row, steps = (int)(part.heads / part.kv_heads) * (queries - first);
        for (int step = 0, j = first; step < steps; step++, at.next(), j = j + 1 < queries ? j + 1 : first) {
            barrier_wait(&s.q_full[at.at], at.turn);
            if (j < first + w) { /* queries before all of its keys */
                products_wait<0>();
                if (step > 0 && thread == 0) barrier_arrive(&s.q_empty[at.before().at]);
                continue;
            }
            float S[32], dp[32];
            products_begin();
            dots_of<IS_F16, D>(S, s.k, w * 64, s.q[at.at]);
            products_commit();
            dots_of<IS_F16, D>(dp, s.v, w * 64, s.g[at.at]);
            products_commit();
            products_wait<1>();
            if (step > 0 && thread == 0) barrier_arrive(&s.q_empty[at.before().at]);
            const int line = w * 64 + warp * 16;
            weigh_keys<IS_F16>(S, weights, pairs_read(s.L[at.at], lane), c, j == first + w, warp, lane,
                               kept_of<DROP>(s.masks[at.at], line, lane, t.h.drop_scale));
            products_begin();
            LS_UNROLL for (int k = 0; k < 4; k++)
                product<IS_F16, 1>(dv, &weights[k * 4], across<64>(s.g[at.at], k), 1);
            products_commit();
            products_wait<0>(); /* there are no registers for dS while weights are read */
            slope_of_keys<IS_F16>(ds, S, dp, pairs_read(s.dots[at.at], lane), kept_of<DROP>(s.masks[at.at], line, lane, t.h.drop_scale));
            products_begin();
            LS_UNROLL for (int k = 0; k < 4; k++)
                product<IS_F16, 1>(dk, &ds[k * 4], across<64>(s.q[at.at], k), 1);
            products_commit();
        }
        products_wait<0>();
        if (thread == 0) {
            barrier_arrive(&s.q_empty[at.before().at]);
            barrier_arrive(&s.k_empty);
        }
        const tile_place to = tile_at<false, true>(t, anew(tile_of_round(round)));
        const ls_cuda_attention_part &out = a.parts[to.part];
        const int row = to.row * 128 + w * 64 + warp * 16;
        store_tile<IS_F16, D>(out.dk, to.sequence, to.head, row, a.T, a.head_size, dk, out.scale, out.scale, lane);
        store_tile<IS_F16, D>(out.dv, to.sequence, to.head, row, a.T, a.head_size, dv, 1.0f, 1.0f, lane);
    }
}

/* The shared memory of a block of queries_tiles(): queries, their dO, and rings of keys and values. */
struct queries_shared {
    uint16_t q[128 * D], g[128 * D], k[STAGES][64 * D], v[STAGES][64 * D];
    uint64_t q_full, q_empty, k_full[STAGES], k_empty[STAGES];
    alignas(16) uint16_t masks[STAGES][128 * 4];
};

/* Computes dQ of all tiles of queries of this block. */
template <bool IS_F16, bool DROP> LS_DEVICE void queries_tiles(const ls_cuda_attention_tiles &t) {
    auto &s = shared_at_1024<queries_shared>();
    const ls_cuda_attention &a = t.h.a;
    const int group = warp_group(), thread = threadIdx.x % 128;
    const uint32_t tiles = tiles_of(t, false);
    if (threadIdx.x == 0) {
        barrier_init(&s.q_full, 1), barrier_init(&s.q_empty, 2);
        for (int i = 0; i < STAGES; i++) barrier_init(&s.k_full[i], 1), barrier_init(&s.k_empty[i], 2);
        barriers_are_made();
    }
    __syncthreads();
    ring<STAGES> at;
    uint32_t turn = 0;
    if (group == 0) {
        give_registers<24>();
        if (thread != 0) return;
        for (uint32_t round = 0; tile_of_round(round) < tiles; round++) {
            const tile_place p = tile_at<true, false>(t, tile_of_round(round));
            const ls_cuda_attention_part &part = a.parts[p.part];
            const ls_cuda_attention_maps &maps = t.maps[p.part];
            const int kv = (int)(p.head / (part.heads / part.kv_heads)), head = (int)p.head, b = (int)p.sequence;
            barrier_wait(&s.q_empty, turn ^ 1);
            turn ^= 1;
            barrier_expect(&s.q_full, 128 * D * 4);
            load_tile<D, 128>(s.q, &maps.q, &s.q_full, head, p.row * 128, b);
            load_tile<D, 128>(s.g, &maps.dout, &s.q_full, head, p.row * 128, b);
            for (int j = 0; j < 2 * p.row + 2; j++, at.next()) {
                uint64_t *full = &s.k_full[at.at];
                barrier_wait(&s.k_empty[at.at], at.turn ^ 1);
                barrier_expect(full, 64 * D * 4 + (DROP ? 1024 : 0));
                load_tile<D, 64>(s.k[at.at], &maps.k, full, kv, j * 64, b);
                load_tile<D, 64>(s.v[at.at], &maps.v, full, kv, j * 64, b);
                if (DROP) load_numbers(s.masks[at.at], masks_at(t.h, p.sequence, p.first + p.head, j, p.row * 128), 1024, full);
            }
        }
        return;
    }
    take_registers<240>();
    const int w = group - 1, lane = thread % 32, warp = thread / 32;
    for (uint32_t round = 0; tile_of_round(round) < tiles; round++) {
        const tile_place p = tile_at<true, false>(t, tile_of_round(round));
        const ls_cuda_attention_part &part = a.parts[p.part];
        const float c = scale2_of(part);
        const int row = p.row * 128 + w * 64 + warp * 16, last = 2 * p.row + w;
        float dq[D / 2];
        uint32_t ds[16];
        LS_UNROLL for (int i = 0; i < D / 2; i++) dq[i] = 0.0f;
        const float *L = stats_of(t.h, p.sequence, p.first + p.head) + row + lane / 4;
        const float L0 = L[0], L1 = L[8], D0 = L[t.h.stat_rows], D1 = L[t.h.stat_rows + 8];
        barrier_wait(&s.q_full, turn);
        turn ^= 1;
        for (int j = 0; j < 2 * p.row + 2; j++, at.next()) {
            barrier_wait(&s.k_full[at.at], at.turn);
            if (j > last) {
                products_wait<0>();
                if (thread == 0) barrier_arrive(&s.k_empty[at.before().at]);
                continue;
            }
            float S[32], dp[32];
            products_begin();
            dots_of<IS_F16, D>(S, s.q, w * 64, s.k[at.at]);
            products_commit();
            dots_of<IS_F16, D>(dp, s.g, w * 64, s.v[at.at]);
            products_commit();
            products_wait<1>();
            if (j > 0 && thread == 0) barrier_arrive(&s.k_empty[at.before().at]);
            const int seen = warp * 16 + lane / 4 - lane % 4 * 2;
            LS_UNROLL for (int i = 0; i < 8; i++) {
                S[i * 4] = exp2_of(__fmaf_rn(S[i * 4], c, -L0));
                S[i * 4 + 1] = exp2_of(__fmaf_rn(S[i * 4 + 1], c, -L0));
                S[i * 4 + 2] = exp2_of(__fmaf_rn(S[i * 4 + 2], c, -L1));
                S[i * 4 + 3] = exp2_of(__fmaf_rn(S[i * 4 + 3], c, -L1));
                if (j == last) {
                    if (i * 8 > seen) S[i * 4] = 0.0f;
                    if (i * 8 + 1 > seen) S[i * 4 + 1] = 0.0f;
                    if (i * 8 > seen + 8) S[i * 4 + 2] = 0.0f;
                    if (i * 8 + 1 > seen + 8) S[i * 4 + 3] = 0.0f;
                }
            }
            products_wait<0>();
            const auto kept = kept_of<DROP>(s.masks[at.at], w * 64 + warp * 16, lane, t.h.drop_scale);
            LS_UNROLL for (int i = 0; i < 16; i++) {
                const float dot = i % 2 ? D1 : D0, x = kept(i % 2, i / 2 * 2, dp[i * 2]), y = kept(i % 2, i / 2 * 2 + 1, dp[i * 2 + 1]);
                ds[i] = rounded_pair<IS_F16>(S[i * 2] * (x - dot), S[i * 2 + 1] * (y - dot));
            }
            products_begin();
            LS_UNROLL for (int k = 0; k < 4; k++) product<IS_F16, 1>(dq, &ds[k * 4], across<64>(s.k[at.at], k), 1);
            products_commit();
        }
        products_wait<0>();
        if (thread == 0) {
            barrier_arrive(&s.k_empty[at.before().at]);
            barrier_arrive(&s.q_empty);
        }
        store_tile<IS_F16, D>(part.dq, p.sequence, p.head, row, a.T, a.head_size, dq, part.scale, part.scale, lane);
    }
}

/* Defines the kernels of a pass, for bf16 and for fp16. */
#define LS_BACKWARD(name, body, drop)                                                                                  \
    LS_KERNEL_ALONE(name##_bf16, ls_cuda_attention_tiles, 384) { LS_ON_HOPPER((body<false, drop>(a));) }               \
    LS_KERNEL_ALONE(name##_f16, ls_cuda_attention_tiles, 384) { LS_ON_HOPPER((body<true, drop>(a));) }
LS_BACKWARD(attention_hgmma_keys_128, keys_tiles, false)
LS_BACKWARD(attention_hgmma_queries_128, queries_tiles, false)
LS_BACKWARD(attention_hgmma_keys_128_drop, keys_tiles, true)
LS_BACKWARD(attention_hgmma_queries_128_drop, queries_tiles, true)
#endif
