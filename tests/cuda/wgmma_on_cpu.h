/* wgmma_on_cpu.h: what wgmma.cuh has of compute capability 9.0, for kernels that run on a CPU (on_cpu.h): products by
 * the formula of the unit (device/cpu/portable/hgmma.h), copies that are done at once, barriers that count. So a
 * kernel's bits are tested without a GPU: which numbers meet, and where results go; not what only shows when things
 * really run beside each other. */
#ifndef LS_WGMMA_ON_CPU_H
#define LS_WGMMA_ON_CPU_H

#include "device/cpu/portable/hgmma.h"

/* Once each: kernels take long enough to compile. */
#define LS_PLAYED static inline __attribute__((noinline, unused))

LS_PLAYED uint32_t shared_at(const void *p) { return (uint32_t)((const unsigned char *)p - on_cpu::shared); }

/* ---- barriers
 * ---------------------------------------------------------------------------------------------------------- */

struct played_barrier {
    int32_t bytes; /* still to come */
    uint16_t left; /* arrivals of this phase */
    uint16_t arrivals : 15, phase : 1;
};
static_assert(sizeof(played_barrier) == sizeof(uint64_t), "where a barrier is");

LS_PLAYED void barrier_change(uint64_t *at, int arrivals, int bytes) {
    played_barrier *b = (played_barrier *)at;
    b->left = (uint16_t)(b->left - arrivals);
    b->bytes += bytes;
    if (b->left || b->bytes) return;
    b->left = b->arrivals;
    b->phase ^= 1;
}
LS_PLAYED void barrier_open(uint64_t *b, int arrivals) {
    *(played_barrier *)b = {0, (uint16_t)arrivals, (uint16_t)arrivals, 0};
}
LS_PLAYED void barriers_are_open() {}
LS_PLAYED void barrier_expect(uint64_t *b, int bytes) { barrier_change(b, 1, bytes); }
LS_PLAYED void barrier_arrive(uint64_t *b) { barrier_change(b, 1, 0); }
LS_PLAYED void barrier_wait(uint64_t *b, uint32_t parity) {
    while (((const volatile played_barrier *)b)->phase == parity) on_cpu::pass();
}
LS_PLAYED void warpgroup_sync(int number) { on_cpu::meet((unsigned)number, 128); }

/* ---- TMA (tensor memory accelerator)
 * --------------------------------------------------------------------------------------------------- */

/* As the played driver writes it (libcuda.cpp). */
struct played_map {
    uint64_t at, sizes[3], strides[3], box[2], bytes; /* strides in bytes */
};

/* visit(in shared memory, in memory or NULL where there is nothing) for each 16 bytes of a box. */
template <class F>
LS_DEVICE void each_sixteen(const ls_cuda_tensor_map &map, const void *shared, int x, int y, int z, F visit) {
    const played_map &m = *(const played_map *)map.words;
    const uint64_t each = 16 / m.bytes;
    for (uint64_t r = 0; r < m.box[1]; r++)
        for (uint64_t c = 0; c < m.box[0]; c += each) {
            const uint32_t place = shared_at(shared) + (uint32_t)(r * 128 + c * m.bytes);
            const uint64_t column = (uint64_t)x + c, row = (uint64_t)y + r;
            const bool is_there = row < m.sizes[1] && (uint64_t)z < m.sizes[2];
            const uint64_t count = is_there && column < m.sizes[0] ? min(each, m.sizes[0] - column) : 0;
            visit(on_cpu::shared + (place ^ (place >> 7 & 7) << 4),
                  m.at + column * m.bytes + row * m.strides[1] + (uint64_t)z * m.strides[2], (size_t)(count * m.bytes));
        }
}
LS_PLAYED void tile_load(void *to, const ls_cuda_tensor_map &map, uint64_t *barrier, int x, int y, int z) {
    int bytes = 0;
    each_sixteen(map, to, x, y, z, [&](unsigned char *at, uint64_t from, size_t count) {
        memset(at, 0, 16);
        memcpy(at, (const void *)from, count);
        bytes += 16;
    });
    barrier_change(barrier, 0, -bytes);
}
LS_PLAYED void tile_store(const ls_cuda_tensor_map &map, const void *from, int x, int y, int z) {
    each_sixteen(map, from, x, y, z,
                 [](const unsigned char *at, uint64_t to, size_t count) { memcpy((void *)to, at, count); });
}
template <int N> LS_PLAYED void stores_read() {}
LS_PLAYED void stores_done() {}
LS_PLAYED void shared_is_written() {}

/* ---- products
 * ---------------------------------------------------------------------------------------------------------- */

template <int N> LS_PLAYED void take_registers() {}
template <int N> LS_PLAYED void give_registers() {}
LS_PLAYED void wgmma_begin() {}
LS_PLAYED void wgmma_commit() {}
template <int N> LS_PLAYED void wgmma_wait() {}

/* Where a tile begins, and bytes to its next 64 lines where k goes from row to row. */
LS_PLAYED uint64_t wgmma_tile(uint32_t at, int chunk) { return (uint64_t)chunk << 32 | at; }

/* Line `number` of a granule; DOWN: k goes from row to row. */
template <bool IS_F16, int DOWN> LS_DEVICE line line_of(uint64_t tile, int number) {
    uint16_t from[GRANULE];
    for (int k = 0; k < GRANULE; k++) {
        const uint32_t place = (uint32_t)tile + (DOWN ? (uint32_t)(number / 64) * (uint32_t)(tile >> 32) +
                                                            (uint32_t)(k * 128 + number % 64 * 2)
                                                      : (uint32_t)(number * 128 + k * 2));
        memcpy(&from[k], on_cpu::shared + (place ^ (place >> 7 & 7) << 4), 2);
    }
    line to;
    take_line(&to, from, IS_F16 ? format_f16 : format_bf16);
    return to;
}
template <bool IS_F16, int TA, int TB, int N>
LS_PLAYED void wgmma_granule(float (&d)[N], uint64_t a, uint64_t b, int keep) {
    const int thread = threadIdx.x % 128, row = thread / 32 * 16 + thread % 32 / 4;
    const line rows[2] = {line_of<IS_F16, TA>(a, row), line_of<IS_F16, TA>(a, row + 8)};
    for (int j = 0; j < N / 4; j++)
        for (int c = 0; c < 2; c++) {
            const line column = line_of<IS_F16, TB>(b, 8 * j + thread % 4 * 2 + c);
            for (int i = 0; i < 2; i++) {
                float &x = d[4 * j + 2 * i + c];
                x = add_granule(&rows[i], &column, IS_F16 ? format_f16 : format_bf16, keep ? x : 0.0f);
            }
        }
}

/* ---- two 16-bit numbers
 * ------------------------------------------------------------------------------------------------ */

template <bool TO_F16> LS_PLAYED uint32_t pair_of(float low, float high) {
    return TO_F16 ? to_f16(low) | (uint32_t)to_f16(high) << 16 : to_bf16(low) | (uint32_t)to_bf16(high) << 16;
}
LS_PLAYED void matrices_store(uint32_t at, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    const uint32_t two[4] = {a, b, c, d}, lane = threadIdx.x % 32;
    for (uint32_t i = 0; i < 4; i++)
        memcpy(on_cpu::shared + on_cpu_exchange(at, 8 * i + lane / 4) + lane % 4 * 4, &two[i], 4);
}

/* ---- flags in memory
 * --------------------------------------------------------------------------------------------------- */

LS_PLAYED void flag_set(uint32_t *flag) { *flag = 1; }
LS_PLAYED void flag_await(const uint32_t *flag) {
    while (!*(const volatile uint32_t *)flag) on_cpu::pass();
}
LS_PLAYED void forget_number(float &) {}

#endif
