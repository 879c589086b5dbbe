/* wgmma_attention.cuh: the instructions of compute capability 9.0 (Hopper) that attention is made of: matmuls of a warpgroup (wgmma),
 * copies of tiles by the tensor memory accelerator (TMA), and the barriers that count their bytes. For attention_hgmma*.cu.
 *
 * Tiles lie in shared memory as [column block of 64][row][64], rows of 128 bytes swizzled by TMA, at multiples of 1024 bytes. */
#pragma once
#include "device/cuda/args/attention_hgmma.h"
#include "device/cuda/common/base.cuh"

/* Returns the address in shared memory, as PTX instructions take it. */
LS_DEVICE uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

/* ---- barriers ---------------------------------------------------------------------------------------------------- */

/* Initializes a barrier (mbarrier) whose phase completes after `count` arrivals and all bytes that were announced. One thread calls it. */
LS_DEVICE void barrier_init(uint64_t *b, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count));
}
/* Makes initialized barriers visible to TMA and to other blocks of the cluster; before a __syncthreads(). */
LS_DEVICE void barriers_are_made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
/* Arrives at a barrier and announces `bytes` bytes that TMA will add to its present phase. One thread calls it, before it starts the
 * copies. */
LS_DEVICE void barrier_expect(uint64_t *b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes)
                 : "memory");
}
/* Arrives at a barrier, without waiting. */
LS_DEVICE void barrier_arrive(uint64_t *b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
/* Waits for a phase of a barrier. `order`: the PTX memory order, "" for writes of this block, ".acquire.cluster" for those of other
 * blocks of the cluster. */
#define LS_BARRIER_WAIT(b, parity, order)                                                                              \
    asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity" order ".shared::cta.b64 p, [%0], %1;\n"          \
                 "@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(shared_address(b)),                                        \
                 "r"(parity)                                                                                           \
                 : "memory")
/* Waits until the phase with this parity (0 for the first, then 1, 0, …) has completed; returns at once for parity 1 of a new barrier. */
LS_DEVICE void barrier_wait(uint64_t *b, uint32_t parity) { LS_BARRIER_WAIT(b, parity, ""); }

/* A place in a ring of STAGES buffers, and the parity of its turn: what barrier_wait() takes for a full buffer; ^ 1 for an empty one. */
template <int STAGES> struct ring {
    int at = 0;
    uint32_t turn = 0;
    /* Advances to the next buffer, and to the next turn behind the last. */
    LS_DEVICE void next() {
        if (++at == STAGES) at = 0, turn ^= 1;
    }
    /* Returns the place before this one. */
    LS_DEVICE ring before() const {
        ring r = {at - 1, turn};
        if (at == 0) r.at = STAGES - 1, r.turn ^= 1;
        return r;
    }
};

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Starts the TMA load of 64 rows of 64 elements, from this element, head, row and sequence on; zeros outside the tensor. The bytes count
 * at the barrier. One thread calls it. */
LS_DEVICE void load_box(void *to, const ls_cuda_tensor_map *map, uint64_t *barrier, int element, int head, int row,
                        int sequence) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
                 "%6}], [%2];" ::"r"(shared_address(to)),
                 "l"(map), "r"(shared_address(barrier)), "r"(element), "r"(head), "r"(row), "r"(sequence)
                 : "memory");
}

/* Starts to load ROWS rows of a head of at most D elements, without the first `skipped`, a multiple of 64; they must be announced at the
 * barrier. */
template <int D, int ROWS>
LS_DEVICE void load_tile(uint16_t *to, const ls_cuda_tensor_map *map, uint64_t *barrier, int head, int row,
                         int sequence, int skipped = 0) {
    LS_UNROLL for (int c = 0; c < D / 64; c++)
        LS_UNROLL for (int r = 0; r < ROWS; r += 64)
            if (r >= skipped) load_box(to + (c * ROWS + r) * 64, map, barrier, c * 64, head, row + r, sequence);
}

/* Starts a bulk copy of `bytes` bytes, a multiple of 16, from global into shared memory; they must be announced at the barrier. */
LS_DEVICE void load_numbers(void *to, const void *from, int bytes, uint64_t *barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

/* ---- registers --------------------------------------------------------------------------------------------------- */

/* Lowers the registers of a thread of this warpgroup to N (a producer), so that others may have more. All its threads call it. */
template <int N> LS_DEVICE void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
/* Raises the registers of a thread of this warpgroup to N; waits until they are free. All its threads call it. */
template <int N> LS_DEVICE void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }

/* ---- matmuls ----------------------------------------------------------------------------------------------------- */

/* Must precede the first product(): orders register writes before the asynchronous wgmma instructions. */
LS_DEVICE void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/* Makes all product() since the last commit one group. */
LS_DEVICE void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/* Waits until at most N groups of product() are not complete; their results must not be read before. */
template <int N> LS_DEVICE void products_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }

/* Returns the matrix descriptor (the operand of wgmma) of the swizzled tile from `bytes` bytes after its start on. `step`: bytes from one
 * block of 64 columns to the next, for an operand that is transposed (across()); otherwise the hardware ignores it. Within a tile,
 * descriptors differ only in the low half, by the difference of `bytes` / 16. */
LS_DEVICE uint64_t operand_at(const uint16_t *tile, int bytes, int step) {
    const uint32_t low = (shared_address(tile) >> 4) + (uint32_t)(bytes >> 4) + ((uint32_t)(step >> 4) << 16);
    return (uint64_t)(1024u >> 4 | 1u << 30) << 32 | low;
}
/* Returns the descriptor of columns 16·k … 16·k + 15, as k of the matmul, of the rows from `row` on of a tile with ROWS rows. */
template <int ROWS> LS_DEVICE uint64_t along(const uint16_t *tile, int row, int k) {
    return operand_at(tile, (k / 4) * ROWS * 128 + row * 128 + (k % 4) * 32, 16);
}
/* Returns the descriptor of all columns of a tile with ROWS rows, with rows 16·k … 16·k + 15 as k of the matmul (transposed). */
template <int ROWS> LS_DEVICE uint64_t across(const uint16_t *tile, int k) { return operand_at(tile, k * 2048, ROWS * 128); }

#define LS_F4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define LS_F16(d, i) LS_F4(d, i), LS_F4(d, i + 4), LS_F4(d, i + 8), LS_F4(d, i + 12)
#define LS_T32                                                                                                         \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "   \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define LS_T64                                                                                                         \
    LS_T32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, "    \
           "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/* product(): issues d = a·b, or d + a·b where `goes_on`, for 64 rows, 64 or 128 columns and a granule of 16 k; asynchronous, all threads
 * of a warpgroup call it. a lies along in shared memory, or in registers as mma.sync has it; b lies along or, ACROSS, across. */
#define LS_WGMMA_SHARED(n, type, numbers, a_at, b_at, flag, t)                                                         \
    "{\n.reg .pred p;\nsetp.ne.b32 p, " flag ", 0;\nwgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type      \
    " {" numbers "}, " a_at ", " b_at ", p, 1, 1, 0, " t ";\n}\n"
#define LS_WGMMA_HELD(n, type, numbers, a0, a1, a2, a3, b_at, flag, t)                                                 \
    "{\n.reg .pred p;\nsetp.ne.b32 p, " flag ", 0;\nwgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type      \
    " {" numbers "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " b_at ", p, 1, 1, " t ";\n}\n"

/* Issues d = a·b, or d + a·b if goes_on: 64 × 64, 16 k; a and b are descriptors of tiles in shared memory. */
template <bool IS_F16, int ACROSS> LS_DEVICE void product(float (&d)[32], uint64_t a, uint64_t b, int goes_on) {
    if constexpr (IS_F16)
        asm volatile(LS_WGMMA_SHARED("64", "f16", LS_T32, "%32", "%33", "%34", "%35")
                     : LS_F16(d, 0), LS_F16(d, 16)
                     : "l"(a), "l"(b), "r"(goes_on), "n"(ACROSS));
    else
        asm volatile(LS_WGMMA_SHARED("64", "bf16", LS_T32, "%32", "%33", "%34", "%35")
                     : LS_F16(d, 0), LS_F16(d, 16)
                     : "l"(a), "l"(b), "r"(goes_on), "n"(ACROSS));
}
/* Issues d = a·b, or d + a·b if goes_on: 64 × 128, 16 k; a and b are descriptors of tiles in shared memory. */
template <bool IS_F16, int ACROSS> LS_DEVICE void product(float (&d)[64], uint64_t a, uint64_t b, int goes_on) {
    if constexpr (IS_F16)
        asm volatile(LS_WGMMA_SHARED("128", "f16", LS_T64, "%64", "%65", "%66", "%67")
                     : LS_F16(d, 0), LS_F16(d, 16), LS_F16(d, 32), LS_F16(d, 48)
                     : "l"(a), "l"(b), "r"(goes_on), "n"(ACROSS));
    else
        asm volatile(LS_WGMMA_SHARED("128", "bf16", LS_T64, "%64", "%65", "%66", "%67")
                     : LS_F16(d, 0), LS_F16(d, 16), LS_F16(d, 32), LS_F16(d, 48)
                     : "l"(a), "l"(b), "r"(goes_on), "n"(ACROSS));
}
/* Issues d = a·b, or d + a·b if goes_on: 64 × 64, 16 k; a is in registers, b a descriptor. */
template <bool IS_F16, int ACROSS>
LS_DEVICE void product(float (&d)[32], const uint32_t *a, uint64_t b, int goes_on) {
    if constexpr (IS_F16)
        asm volatile(LS_WGMMA_HELD("64", "f16", LS_T32, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
                     : LS_F16(d, 0), LS_F16(d, 16)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(goes_on), "n"(ACROSS));
    else
        asm volatile(LS_WGMMA_HELD("64", "bf16", LS_T32, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
                     : LS_F16(d, 0), LS_F16(d, 16)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(goes_on), "n"(ACROSS));
}
/* Issues d = a·b, or d + a·b if goes_on: 64 × 128, 16 k; a is in registers, b a descriptor. */
template <bool IS_F16, int ACROSS>
LS_DEVICE void product(float (&d)[64], const uint32_t *a, uint64_t b, int goes_on) {
    if constexpr (IS_F16)
        asm volatile(LS_WGMMA_HELD("128", "f16", LS_T64, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
                     : LS_F16(d, 0), LS_F16(d, 16), LS_F16(d, 32), LS_F16(d, 48)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(goes_on), "n"(ACROSS));
    else
        asm volatile(LS_WGMMA_HELD("128", "bf16", LS_T64, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
                     : LS_F16(d, 0), LS_F16(d, 16), LS_F16(d, 32), LS_F16(d, 48)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(goes_on), "n"(ACROSS));
}
