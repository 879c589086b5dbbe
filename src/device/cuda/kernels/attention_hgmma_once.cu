/* attention_hgmma_once.cu: the whole backward pass of attention with the unit hgmma in one kernel, for heads of up to
 * 64 elements. Scores and weights are computed once; attention_hgmma.cu computes them twice, once for dK and dV and
 * once for dQ.
 *
 * A tile is 128 keys of a head, 64 for each of two warpgroups. These compute dK and dV while they iterate over the
 * queries of all heads of the kv head, 64 at a time. They also store the gradient of the scores in shared memory for a
 * third warpgroup, which multiplies it by the keys to get dQ. dQ of 64 queries is one chain over all keys in ascending
 * order, so its partial sums pass from tile to tile through global memory (`sums`), and a counter (`turns`) holds the
 * number of key tiles added so far. A tile waits for its turn, loads the sums and adds its keys. This cannot deadlock,
 * because all blocks are resident at once and each tile starts after the tiles that it waits for.
 *
 * In the first warpgroup, which is the producer, one thread loads tiles, one loads sums and one stores sums.
 *
 * If a head has several tiles, two adjacent ones go to a pair of blocks (a cluster). Sums then go from the first
 * block straight into the second one's shared memory (DSMEM), and through L2 only from pair to pair. Without
 * pairs, the traffic between the two halves of L2 limits the kernel. The second block has 128 queries less per head and
 * idles meanwhile, which costs too much for short sequences. */
#ifndef LS_CUDA_ON_CPU_H
#include "device/cuda/common/attention_hgmma_tiles.cuh"

enum { D = 64, QUERIES = 64, TILE_KEYS = 128, STAGES = 3, SCORES = 2, SUMS = 4 };

/* The shared memory of a block: rings of tiles, and the barriers that say which are full and empty. */
struct once_shared {
    uint16_t k[2][TILE_KEYS * D], v[2][TILE_KEYS * D], q[STAGES][QUERIES * D], g[STAGES][QUERIES * D];
    uint16_t ds[SCORES][TILE_KEYS * QUERIES]; /* a row is a key */
    uint16_t zeros[16 * 64];                  /* a granule of +0, for keys that are masked out */
    float sums[SUMS][QUERIES * D];            /* in register order: float4 number i of thread t at 128·i + t */
    float L[STAGES][QUERIES], dots[STAGES][QUERIES];
    uint64_t k_full[2], k_empty[2], q_full[STAGES], q_empty[STAGES];
    uint64_t ds_full[SCORES], ds_empty[SCORES], sums_full[SUMS], sums_added[SUMS], sums_empty[SUMS];
    uint64_t room[SUMS]; /* in the first block of a pair: the second block has a free buffer for sums */
    alignas(16) uint16_t masks[STAGES][TILE_KEYS * 4];
};

/* The tiles of a block, or of a pair, in the order in which it computes them: one tile per round. Usually one block
 * has all tiles of a head. If there are fewer heads than blocks, a round has tiles of several rows, the longest
 * first, and the assignment of tiles to blocks rotates every round, so that each block gets long and short ones. */
template <bool PAIRED> struct once_tiles {
    const ls_cuda_attention_tiles &t;
    /* Returns the blocks, or pairs of blocks, of the grid. */
    LS_DEVICE uint32_t blocks() const { return PAIRED ? gridDim.x / 2 : gridDim.x; }
    /* Returns the tiles, or pairs of tiles, of a head. */
    LS_DEVICE uint32_t rows() const { return PAIRED ? (t.rows + 1) / 2 : t.rows; }
    /* Returns the number of this block's tile, or of this pair's, of a round; it may be behind the last. */
    LS_DEVICE uint32_t number(uint32_t round) const {
        const uint32_t self = PAIRED ? blockIdx.x / 2 : blockIdx.x, all = t.h.kv_heads * t.h.B;
        const uint32_t moved = all < blocks() ? round * (blocks() / 16) % blocks() : 0;
        return round * blocks() + (self >= moved ? self - moved : self + blocks() - moved);
    }
    /* Returns whether the block, or the pair, has a tile in this round; at() requires it. */
    LS_DEVICE bool has(uint32_t round) const { return number(round) < t.h.kv_heads * t.h.B * rows(); }
    /* Returns the tile of a round. If the number of rows is odd, the last tile of a pair's second block lies beyond
     * the last row and has no queries. */
    LS_DEVICE tile_place at(uint32_t round) const {
        tile_place p = tile_among<false, true>(t, number(round), blocks(), rows());
        if (PAIRED) p.row = 2 * p.row + (int)(blockIdx.x % 2);
        return p;
    }
};
/* Returns whether this is the first block of a pair; is_second_of_pair(): the second. */
template <bool PAIRED> LS_DEVICE bool is_first_of_pair() { return PAIRED && blockIdx.x % 2 == 0; }
template <bool PAIRED> LS_DEVICE bool is_second_of_pair() { return PAIRED && blockIdx.x % 2 == 1; }

/* Returns the index, in `sums` and `turns`, of queries 64·j … 64·j + 63 of a query head of the tile's part. */
LS_DEVICE size_t piece_of(const ls_cuda_attention_hgmma &h, const tile_place &p, int head, int j) {
    return ((size_t)p.sequence * h.all_heads + h.head0 + p.first + (uint32_t)head) * (h.stat_rows / QUERIES) + (size_t)j;
}

/* Proxy fence: orders the thread's accesses of all memory before those of TMA. Waits until all accesses of the thread are visible to the
 * whole GPU, which takes as long as a matmul of two tiles, so it is used only where shared_is_written() does not suffice. */
LS_DEVICE void memory_is_written() { asm volatile("fence.proxy.async;" ::: "memory"); }
/* Proxy fence: orders the thread's writes to shared memory before reads by TMA and tensor cores. */
LS_DEVICE void shared_is_written() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* Waits until `tiles` key tiles have added their part to a chain. */
LS_DEVICE void await_turn(const uint32_t *turn, uint32_t tiles) {
    uint32_t passed;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(passed) : "l"(turn) : "memory");
    while (passed < tiles);
}
/* Announces that `tiles` key tiles have added their part to a chain, after TMA has stored the sums. */
LS_DEVICE void give_turn(uint32_t *turn, uint32_t tiles) {
    memory_is_written();
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(turn), "r"(tiles) : "memory");
}

/* Stores sums to global memory through TMA, as one bulk group; see writes_wait(). */
LS_DEVICE void write_sums(float *to, const float *from) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)),
                 "n"(QUERIES * D * 4)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* Waits until at most N of the thread's bulk groups are not complete. */
template <int N> LS_DEVICE void writes_wait() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory"); }

/* Waits until TMA has read the source of all stores, so that the shared memory may be overwritten. */
LS_DEVICE void writes_are_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

/* ---- pairs: the other block's shared memory ---------------------------------------------------------------------- */

/* Returns the cluster address of the same variable in the other block of the pair. */
LS_DEVICE uint32_t others(const void *p) {
    uint32_t at;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared_address(p)), "r"(1 - blockIdx.x % 2));
    return at;
}
/* Arrives at the same barrier of the other block of the pair. */
LS_DEVICE void arrive_at_others(const uint64_t *b) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(others(b)) : "memory");
}
/* Waits at a barrier of this block at which the other block arrives. */
LS_DEVICE void wait_for_other(uint64_t *b, uint32_t parity) { LS_BARRIER_WAIT(b, parity, ".acquire.cluster"); }
/* Copies sums into the other block's shared memory; its barrier `full` counts the bytes. */
LS_DEVICE void pass_sums(const float *to, const float *from, const uint64_t *full) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(others(to)),
                 "r"(shared_address(from)), "n"(QUERIES * D * 4), "r"(others(full))
                 : "memory");
}
/* Cluster barrier: waits for all threads of both blocks. */
LS_DEVICE void await_other() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

/* Stores four 8 × 8 matrices that a warp holds; each lane passes the address `to` of one of their rows. */
LS_DEVICE void store_matrices(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c),
                 "r"(d)
                 : "memory");
}

/* Issues d += aᵀ·b, with both operands in shared memory and transposed (M- and N-major). */
template <bool IS_F16> LS_DEVICE void product_across(float (&d)[32], uint64_t a, uint64_t b) {
    if constexpr (IS_F16)
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" LS_T32 "}, %32, %33, 1, 1, 1, 1, 1;\n"
                     : LS_F16(d, 0), LS_F16(d, 16)
                     : "l"(a), "l"(b));
    else
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" LS_T32 "}, %32, %33, 1, 1, 1, 1, 1;\n"
                     : LS_F16(d, 0), LS_F16(d, 16)
                     : "l"(a), "l"(b));
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Loads keys, values, queries, dO, statistics and masks of all tiles of this block. One thread of the producer runs it. */
template <bool PAIRED, bool DROP> LS_DEVICE void copy_tiles(const ls_cuda_attention_tiles &t, once_shared &s, int queries) {
    const once_tiles<PAIRED> tiles = {t};
    ring<STAGES> at;
    ring<2> keys;
    for (uint32_t round = 0; tiles.has(round); round++, keys.next()) {
        const tile_place p = tiles.at(round);
        const ls_cuda_attention_part &part = t.h.a.parts[p.part];
        const ls_cuda_attention_maps &maps = t.maps[p.part];
        const int heads = (int)(part.heads / part.kv_heads), kv = (int)p.head, b = (int)p.sequence;
        barrier_wait(&s.k_empty[keys.at], keys.turn ^ 1);
        barrier_expect(&s.k_full[keys.at], TILE_KEYS * D * 4);
        load_tile<D, TILE_KEYS>(s.k[keys.at], &maps.k, &s.k_full[keys.at], kv, p.row * TILE_KEYS, b);
        load_tile<D, TILE_KEYS>(s.v[keys.at], &maps.v, &s.k_full[keys.at], kv, p.row * TILE_KEYS, b);
        for (int head = kv * heads; head < (kv + 1) * heads; head++) {
            const float *L = stats_of(t.h, p.sequence, p.first + (uint32_t)head);
            LS_NO_UNROLL for (int j = 2 * p.row; j < queries; j++, at.next()) {
                uint64_t *full = &s.q_full[at.at];
                barrier_wait(&s.q_empty[at.at], at.turn ^ 1);
                barrier_expect(full, QUERIES * D * 4 + 2 * QUERIES * 4 + (DROP ? TILE_KEYS * 8 : 0));
                load_tile<D, QUERIES>(s.q[at.at], &maps.q, full, head, j * QUERIES, b);
                load_tile<D, QUERIES>(s.g[at.at], &maps.dout, full, head, j * QUERIES, b);
                load_numbers(s.L[at.at], L + j * QUERIES, QUERIES * 4, full);
                load_numbers(s.dots[at.at], L + t.h.stat_rows + j * QUERIES, QUERIES * 4, full);
                if (DROP)
                    load_numbers(s.masks[at.at], masks_at(t.h, p.sequence, p.first + (uint32_t)head, j, p.row * TILE_KEYS), TILE_KEYS * 8, full);
            }
        }
    }
}

/* Loads the partial sums of dQ that earlier tiles of keys have left, in their turn; the first tile begins with +0. One thread of the
 * producer runs it. The second block of a pair only makes room: its sums come from the first. */
template <bool PAIRED> LS_DEVICE void fetch_sums(const ls_cuda_attention_tiles &t, once_shared &s, int queries) {
    const once_tiles<PAIRED> tiles = {t};
    ring<SUMS> at;
    for (uint32_t round = 0; tiles.has(round); round++) {
        const tile_place p = tiles.at(round);
        const ls_cuda_attention_part &part = t.h.a.parts[p.part];
        const int heads = (int)(part.heads / part.kv_heads), kv = (int)p.head;
        for (int head = kv * heads; head < (kv + 1) * heads; head++)
            LS_NO_UNROLL for (int j = 2 * p.row; j < queries; j++, at.next()) {
                if (is_second_of_pair<PAIRED>()) {
                    barrier_wait(&s.sums_empty[at.at], at.turn ^ 1);
                    barrier_expect(&s.sums_full[at.at], QUERIES * D * 4);
                    arrive_at_others(&s.room[at.at]);
                    continue;
                }
                const size_t piece = piece_of(t.h, p, head, j);
                if (p.row > 0) await_turn(t.h.turns + piece, (uint32_t)p.row);
                if (PAIRED)
                    wait_for_other(&s.sums_empty[at.at], at.turn ^ 1);
                else
                    barrier_wait(&s.sums_empty[at.at], at.turn ^ 1);
                if (p.row == 0) { /* the chain starts here, from +0 */
                    barrier_arrive(&s.sums_full[at.at]);
                    continue;
                }
                memory_is_written();
                barrier_expect(&s.sums_full[at.at], QUERIES * D * 4);
                load_numbers(s.sums[at.at], t.h.sums + piece * (QUERIES * D), QUERIES * D * 4, &s.sums_full[at.at]);
            }
    }
}

/* Passes on the sums to which this tile has added its keys: to global memory, or to the pair's second block. One thread of the producer
 * runs it. give_turn() follows one step later, when the buffer is free again, so that the thread does not wait for the store. */
template <bool PAIRED> LS_DEVICE void keep_sums(const ls_cuda_attention_tiles &t, once_shared &s, int queries) {
    const once_tiles<PAIRED> tiles = {t};
    ring<SUMS> at, to; /* to: buffers of the pair's second block */
    for (uint32_t round = 0; tiles.has(round); round++) {
        const tile_place p = tiles.at(round);
        const ls_cuda_attention_part &part = t.h.a.parts[p.part];
        const int first = 2 * p.row, heads = (int)(part.heads / part.kv_heads), kv = (int)p.head;
        uint32_t *before = NULL;
        for (int head = kv * heads; head < (kv + 1) * heads; head++)
            LS_NO_UNROLL for (int j = first; j < queries; j++, at.next()) {
                barrier_wait(&s.sums_added[at.at], at.turn);
                if (j < first + 2) { /* complete: add_queries() has stored dQ */
                    barrier_arrive(&s.sums_empty[at.at]);
                    writes_wait<0>();
                    if (before) give_turn(before, (uint32_t)p.row + 1);
                    before = NULL;
                    continue;
                }
                if (is_first_of_pair<PAIRED>()) { /* the second block frees the buffer when the sums have arrived */
                    wait_for_other(&s.room[to.at], to.turn);
                    pass_sums(s.sums[to.at], s.sums[at.at], &s.sums_full[to.at]);
                    to.next();
                    continue;
                }
                const size_t piece = piece_of(t.h, p, head, j);
                write_sums(t.h.sums + piece * (QUERIES * D), s.sums[at.at]);
                writes_are_read();
                barrier_arrive(&s.sums_empty[at.at]);
                if (before) {
                    writes_wait<1>();
                    give_turn(before, (uint32_t)p.row + 1);
                }
                before = t.h.turns + piece;
            }
        writes_wait<0>();
        if (before) give_turn(before, (uint32_t)p.row + 1);
    }
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* Computes dK and dV of 64 keys of each tile, and leaves the gradient of scores in shared memory for add_queries(). Warpgroup w, 0 or 1,
 * runs it. */
template <bool IS_F16, bool PAIRED, bool DROP> LS_DEVICE void add_keys(const ls_cuda_attention_tiles &t, once_shared &s, int queries, int w) {
    const once_tiles<PAIRED> tiles = {t};
    const ls_cuda_attention &a = t.h.a;
    const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
    ring<STAGES> at;
    ring<2> keys;
    ring<SCORES> to;
    for (uint32_t round = 0; tiles.has(round); round++, keys.next()) {
        const tile_place p = tiles.at(round);
        const ls_cuda_attention_part &part = a.parts[p.part];
        const float c = scale2_of(part);
        const uint16_t *k = s.k[keys.at], *v = s.v[keys.at];
        float dk[32], dv[32];
        uint32_t weights[16], ds[16];
        LS_UNROLL for (int i = 0; i < 32; i++) dk[i] = dv[i] = 0.0f;
        barrier_wait(&s.k_full[keys.at], keys.turn);
        const int first = 2 * p.row, steps = (int)(part.heads / part.kv_heads) * (queries - first);
        for (int step = 0, j = first; step < steps; step++, at.next(), to.next(), j = j + 1 < queries ? j + 1 : first) {
            barrier_wait(&s.q_full[at.at], at.turn);
            if (j < first + w) { /* all keys of this warpgroup are masked out */
                products_wait<0>();
                if (step > 0 && thread == 0) barrier_arrive(&s.q_empty[at.before().at]);
                barrier_wait(&s.ds_empty[to.at], to.turn ^ 1); /* else the arrival counts for the previous phase */
                if (lane == 0) barrier_arrive(&s.ds_full[to.at]);
                continue;
            }
            float S[32], dp[32];
            products_begin();
            dots_of<IS_F16, D>(S, k, w * 64, s.q[at.at]);
            products_commit();
            dots_of<IS_F16, D>(dp, v, w * 64, s.g[at.at]);
            products_commit();
            const pairs_held L(s.L[at.at], lane);
            products_wait<1>();
            if (step > 0 && thread == 0) barrier_arrive(&s.q_empty[at.before().at]);
            const auto kept = kept_of<DROP>(s.masks[at.at], w * 64 + warp * 16, lane, t.h.drop_scale);
            weigh_keys<IS_F16>(S, weights, L, c, j == first + w, warp, lane, kept);
            products_begin();
            LS_UNROLL for (int i = 0; i < 4; i++)
                product<IS_F16, 1>(dv, &weights[i * 4], across<64>(s.g[at.at], i), 1);
            products_commit();
            const pairs_read dots(s.dots[at.at], lane);
            products_wait<1>();
            slope_of_keys<IS_F16>(ds, S, dp, dots, kept);
            products_begin();
            LS_UNROLL for (int i = 0; i < 4; i++)
                product<IS_F16, 1>(dk, &ds[i * 4], across<64>(s.q[at.at], i), 1);
            products_commit();
            barrier_wait(&s.ds_empty[to.at], to.turn ^ 1);
            const uint32_t row = shared_address(s.ds[to.at]) + (uint32_t)(w * 64 + warp * 16 + lane % 16) * 128;
            LS_UNROLL for (int i = 0; i < 8; i += 2)
                store_matrices(row + (uint32_t)(((i + lane / 16) ^ lane % 8) * 16), ds[i * 2], ds[i * 2 + 1],
                               ds[i * 2 + 2], ds[i * 2 + 3]);
            shared_is_written();
            __syncwarp();
            if (lane == 0) barrier_arrive(&s.ds_full[to.at]);
        }
        products_wait<0>();
        if (thread == 0) {
            if (!PAIRED || steps > 0) barrier_arrive(&s.q_empty[at.before().at]);
            barrier_arrive(&s.k_empty[keys.at]);
        }
        const tile_place out = tiles.at(anew(round));
        const ls_cuda_attention_part &of = a.parts[out.part];
        const int row = out.row * TILE_KEYS + w * 64 + warp * 16;
        store_tile<IS_F16, D>(of.dk, out.sequence, out.head, row, a.T, a.head_size, dk, of.scale, of.scale, lane);
        store_tile<IS_F16, D>(of.dv, out.sequence, out.head, row, a.T, a.head_size, dv, 1.0f, 1.0f, lane);
    }
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

/* Adds the keys of each tile to the partial sums of dQ; stores dQ when no later key contributes. The third warpgroup runs it. */
template <bool IS_F16, bool PAIRED> LS_DEVICE void add_queries(const ls_cuda_attention_tiles &t, once_shared &s, int queries) {
    const once_tiles<PAIRED> tiles = {t};
    const ls_cuda_attention &a = t.h.a;
    const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
    ring<2> keys;
    ring<SCORES> from;
    ring<SUMS> at;
    int passed = 0; /* in a pair's second block: the buffer of the first block that its sums come from */
    for (uint32_t round = 0; tiles.has(round); round++, keys.next()) {
        const tile_place p = tiles.at(round);
        const ls_cuda_attention_part &part = a.parts[p.part];
        const int first = 2 * p.row, heads = (int)(part.heads / part.kv_heads), kv = (int)p.head;
        barrier_wait(&s.k_full[keys.at], keys.turn);
        for (int head = kv * heads; head < (kv + 1) * heads; head++) {
            passed += min(2, queries - first + 2); /* queries to which the second block's keys are masked out */
            LS_NO_UNROLL for (int j = first; j < queries; j++, from.next(), at.next()) {
                float dq[32];
                float4 *place = (float4 *)s.sums[at.at] + thread;
                barrier_wait(&s.sums_full[at.at], at.turn);
                if (is_second_of_pair<PAIRED>() && thread == 0) arrive_at_others(&s.sums_empty[passed % SUMS]);
                passed++;
                LS_UNROLL for (int i = 0; i < 8; i++) {
                    const float4 x = p.row ? place[i * 128] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    dq[i * 4] = x.x, dq[i * 4 + 1] = x.y, dq[i * 4 + 2] = x.z, dq[i * 4 + 3] = x.w;
                }
                barrier_wait(&s.ds_full[from.at], from.turn);
                products_begin();
                const bool sees_all = j != first; /* otherwise the upper 64 keys are masked out */
                LS_UNROLL for (int i = 0; i < 8; i++) {
                    const bool sees = i < 4 || sees_all;
                    product_across<IS_F16>(dq, across<128>(sees ? s.ds[from.at] : s.zeros - i * 1024, i),
                                           across<128>(sees ? s.k[keys.at] : s.zeros - i * 1024, i));
                }
                products_commit();
                products_wait<0>();
                if (thread == 0) barrier_arrive(&s.ds_empty[from.at]);
                if (j < first + 2) { /* no later key contributes */
                    store_tile<IS_F16, D>(part.dq, p.sequence, (uint32_t)head, j * QUERIES + warp * 16, a.T, a.head_size, dq,
                                          part.scale, part.scale, lane);
                } else {
                    LS_UNROLL for (int i = 0; i < 8; i++)
                        place[i * 128] = make_float4(dq[i * 4], dq[i * 4 + 1], dq[i * 4 + 2], dq[i * 4 + 3]);
                    shared_is_written();
                }
                __syncwarp();
                if (lane == 0) barrier_arrive(&s.sums_added[at.at]);
            }
        }
        if (thread == 0) barrier_arrive(&s.k_empty[keys.at]);
    }
}

/* Computes dQ, dK and dV of all tiles of this block: initializes the barriers and gives each warpgroup its work. */
template <bool IS_F16, bool PAIRED, bool DROP> LS_DEVICE void once(const ls_cuda_attention_tiles &t) {
    auto &s = shared_at_1024<once_shared>();
    const int group = warp_group(), queries = (t.h.a.T + QUERIES - 1) / QUERIES;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) barrier_init(&s.k_full[i], 1), barrier_init(&s.k_empty[i], 3);
        for (int i = 0; i < STAGES; i++) barrier_init(&s.q_full[i], 1), barrier_init(&s.q_empty[i], 2);
        for (int i = 0; i < SCORES; i++) barrier_init(&s.ds_full[i], 8), barrier_init(&s.ds_empty[i], 1);
        for (int i = 0; i < SUMS; i++) {
            barrier_init(&s.sums_full[i], 1), barrier_init(&s.sums_empty[i], 1);
            barrier_init(&s.sums_added[i], 4), barrier_init(&s.room[i], 1);
        }
        barriers_are_made();
    }
    for (int i = (int)threadIdx.x; i < 16 * 64; i += 512) s.zeros[i] = 0;
    shared_is_written();
    __syncthreads();
    if (PAIRED) await_other(); /* the other block has initialized its barriers */
    if (group == 0) {
        give_registers<40>();
        if (threadIdx.x == 0) copy_tiles<PAIRED, DROP>(t, s, queries);
        if (threadIdx.x == 32) fetch_sums<PAIRED>(t, s, queries);
        if (threadIdx.x == 64) keep_sums<PAIRED>(t, s, queries);
    } else if (group == 3) {
        give_registers<88>();
        add_queries<IS_F16, PAIRED>(t, s, queries);
    } else {
        take_registers<192>();
        add_keys<IS_F16, PAIRED, DROP>(t, s, queries, group - 1);
    }
    if (PAIRED) await_other(); /* the shared memory of a block is gone when it exits */
}

/* Kernels of clusters of two blocks, which access each other's shared memory. Clusters exist from Hopper on. */
#if __CUDA_ARCH__ >= 900
#define LS_KERNEL_PAIRED(name, type, threads)                                                                          \
    extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(threads, 1) ls_##name(const __grid_constant__ type a)
#else
#define LS_KERNEL_PAIRED LS_KERNEL_ALONE
#endif

/* Defines a kernel for bf16 and for fp16. */
#define LS_ONCE(kind, name, paired, drop)                                                                              \
    kind(name##_bf16, ls_cuda_attention_tiles, 512) { LS_ON_HOPPER((once<false, paired, drop>(a));) }                  \
    kind(name##_f16, ls_cuda_attention_tiles, 512) { LS_ON_HOPPER((once<true, paired, drop>(a));) }
LS_ONCE(LS_KERNEL_ALONE, attention_hgmma_once, false, false)
LS_ONCE(LS_KERNEL_ALONE, attention_hgmma_once_drop, false, true)
LS_ONCE(LS_KERNEL_PAIRED, attention_hgmma_pairs, true, false)
LS_ONCE(LS_KERNEL_PAIRED, attention_hgmma_pairs_drop, true, true)
#endif
