/* wgmma.cuh: instructions of compute capability 9.0 (Hopper) for the GEMM kernels of hgmma.cuh: wgmma (MMA of tiles in shared memory by a
 * warpgroup, 128 threads), TMA loads and stores of tiles, and mbarriers that TMA loads complete.
 *
 * Tiles in shared memory have rows of 128 bytes in the 128-byte swizzle of TMA: piece p of 16 bytes of row r is at p ^ (r mod 8). */
#pragma once
#include "device/cuda/common/base.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(LS_CUDA_ON_CPU_H)
#define LS_HAS_WGMMA 1
#endif

#ifdef LS_CUDA_ON_CPU_H
#include "wgmma_on_cpu.h" /* all of it, for tests without a GPU */
#elif defined(LS_HAS_WGMMA)

/* Returns the address in shared memory, as PTX instructions take it. */
LS_DEVICE uint32_t shared_at(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

/* ---- barriers in shared memory ------------------------------------------------------------------------------------- */

/* Initializes an mbarrier whose phase completes after so many arrivals and all announced bytes. One thread calls it. */
LS_DEVICE void barrier_open(uint64_t *b, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_at(b)), "r"(arrivals));
}
/* Makes initialized barriers visible to TMA. */
LS_DEVICE void barriers_are_open() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
/* Arrives, and makes the phase wait for so many bytes of TMA loads. */
LS_DEVICE void barrier_expect(uint64_t *b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_at(b)), "r"(bytes) : "memory");
}
/* Arrives at a barrier, without waiting. */
LS_DEVICE void barrier_arrive(uint64_t *b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_at(b)) : "memory");
}
/* Waits until the phase with this parity (0 for the first, then 1, 0, …) is complete; returns at once for parity 1 of a new barrier. */
LS_DEVICE void barrier_wait(uint64_t *b, uint32_t parity) {
    asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(
                     shared_at(b)),
                 "r"(parity)
                 : "memory");
}
/* Synchronizes the 128 threads of a warpgroup by the named barrier `number`; 0 is that of __syncthreads(). */
LS_DEVICE void warpgroup_sync(int number) { asm volatile("bar.sync %0, 128;" ::"r"(number) : "memory"); }

/* ---- TMA --------------------------------------------------------------------------------------------------------- */

/* Starts to load the tile at (x, y, z), in elements; the barrier counts its bytes. One thread calls it. */
LS_DEVICE void tile_load(void *to, const ls_cuda_tensor_map &map, uint64_t *barrier, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(
                     shared_at(to)),
                 "l"(&map), "r"(shared_at(barrier)), "r"(x), "r"(y), "r"(z)
                 : "memory");
}
/* Starts to store a tile at (x, y, z) of the matrix, as a bulk group of this thread; elements outside the matrix are not written. */
LS_DEVICE void tile_store(const ls_cuda_tensor_map &map, const void *from, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map), "r"(shared_at(from)),
                 "r"(x), "r"(y), "r"(z)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* Waits until at most N stores of this thread still read shared memory, which may then be overwritten. */
template <int N> LS_DEVICE void stores_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
/* Waits until all stores of this thread are complete. */
LS_DEVICE void stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
/* Makes this thread's writes to shared memory visible to TMA. */
LS_DEVICE void shared_is_written() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* ---- wgmma --------------------------------------------------------------------------------------------------------- */

/* Raises the registers of each thread of this warpgroup to N (setmaxnreg), and give_registers() lowers them. All its threads call it. */
template <int N> LS_DEVICE void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> LS_DEVICE void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }

/* Must precede the first wgmma: orders register writes before it. */
LS_DEVICE void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/* Makes all wgmma since the last commit one group. */
LS_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/* Waits until at most N groups of wgmma are in flight; accumulators of others may be read. */
template <int N> LS_DEVICE void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }

/* Returns the matrix descriptor of a tile in shared memory: rows of 128 bytes in groups of 8, 1024 bytes apart. If k goes
 * from row to row, the next 64 lines are `chunk` bytes further. */
LS_DEVICE uint64_t wgmma_tile(uint32_t at, int chunk) {
    return ((uint64_t)(at & 0x3FFFF) >> 4) | ((uint64_t)(chunk >> 4) << 16) | ((uint64_t)(1024 >> 4) << 32) | (1ull << 62);
}

#define LS_TEN(t) "%" t "0,%" t "1,%" t "2,%" t "3,%" t "4,%" t "5,%" t "6,%" t "7,%" t "8,%" t "9"
#define LS_SIXTY LS_TEN("") "," LS_TEN("1") "," LS_TEN("2") "," LS_TEN("3") "," LS_TEN("4") "," LS_TEN("5")
#define LS_LIST_64 LS_SIXTY ",%60,%61,%62,%63"
#define LS_LIST_96 LS_SIXTY "," LS_TEN("6") "," LS_TEN("7") "," LS_TEN("8") ",%90,%91,%92,%93,%94,%95"
#define LS_LIST_128                                                                                             \
    LS_SIXTY "," LS_TEN("6") "," LS_TEN("7") "," LS_TEN("8") "," LS_TEN("9") "," LS_TEN("10") "," LS_TEN("11")    \
        ",%120,%121,%122,%123,%124,%125,%126,%127"
#define LS_SUMS_8(i)                                                                                              \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
        "+f"(d[i + 7])
#define LS_SUMS_32(i) LS_SUMS_8(i), LS_SUMS_8(i + 8), LS_SUMS_8(i + 16), LS_SUMS_8(i + 24)
#define LS_SUMS_64 LS_SUMS_32(0), LS_SUMS_32(32)
#define LS_SUMS_96 LS_SUMS_64, LS_SUMS_32(64)
#define LS_SUMS_128 LS_SUMS_96, LS_SUMS_32(96)

#define LS_WGMMA(n, type, list, sums, at_a, at_b, at_keep, at_ta, at_tb)                                                    \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " at_keep ", 0;\nwgmma.mma_async.sync.aligned.m64n" n "k16.f32." type     \
                 "." type " {" list "}, " at_a ", " at_b ", p, 1, 1, " at_ta ", " at_tb ";\n}\n"                             \
                 : sums                                                                                                      \
                 : "l"(a), "l"(b), "r"(keep), "n"(TA), "n"(TB))

/* Starts wgmma over one granule of k, of 64 lines at a and 2·COUNT at b: added to d, or instead of d (keep 0). TA, TB: k
 * goes from row to row (transposed operand). */
#define LS_WGMMA_OF(count, n, at_a, at_b, at_keep, at_ta, at_tb)                                                             \
    template <bool IS_F16, int TA, int TB> LS_DEVICE void wgmma_granule(float (&d)[count], uint64_t a, uint64_t b, int keep) { \
        if (IS_F16)                                                                                                          \
            LS_WGMMA(n, "f16", LS_LIST_##count, LS_SUMS_##count, at_a, at_b, at_keep, at_ta, at_tb);                         \
        else                                                                                                                 \
            LS_WGMMA(n, "bf16", LS_LIST_##count, LS_SUMS_##count, at_a, at_b, at_keep, at_ta, at_tb);                        \
    }
LS_WGMMA_OF(64, "128", "%64", "%65", "%66", "%67", "%68")
LS_WGMMA_OF(96, "192", "%96", "%97", "%98", "%99", "%100")
LS_WGMMA_OF(128, "256", "%128", "%129", "%130", "%131", "%132")

/* ---- flags in global memory ------------------------------------------------------------------------------------------ */

/* Sets a flag, after all earlier writes of this thread are visible to the GPU. */
LS_DEVICE void flag_set(uint32_t *flag) { asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(1) : "memory"); }
/* Waits until a flag is set; later reads see what was written before that. */
LS_DEVICE void flag_await(const uint32_t *flag) {
    uint32_t is_set;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(is_set) : "l"(flag) : "memory");
    while (!is_set);
}
/* Tells the compiler that x is overwritten, so that its register is free until then. */
LS_DEVICE void forget_number(float &x) { asm volatile("" : "=f"(x)); }

/* ---- two 16-bit numbers ---------------------------------------------------------------------------------------------- */

/* Rounds two numbers to nearest even and packs them, low first. The conversion makes 7FFF of every NaN, the only pattern
 * above the one NaN of the contract. */
template <bool TO_F16> LS_DEVICE uint32_t pair_of(float low, float high) {
    uint32_t pair;
    if (TO_F16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;\nmin.s16x2 %0, %0, %3;" : "=&r"(pair) : "f"(high), "f"(low), "r"(0x7E007E00u));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;\nmin.s16x2 %0, %0, %3;" : "=&r"(pair) : "f"(high), "f"(low), "r"(0x7FC07FC0u));
    return pair;
}

/* Stores four matrices of 8 × 8 16-bit numbers (stmatrix); lane l passes the address of row l mod 8 of matrix l / 8. */
LS_DEVICE void matrices_store(uint32_t at, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

#endif
