/* on_cpu.h: enough of CUDA to run kernels on a CPU, for tests: the threads of a block are fibers of one system thread,
 * which take turns where the kernel waits (__syncthreads, exchanges between lanes). Blocks run one after another.
 * Included in front of a .cu file by a C++ compiler. */
#ifndef LS_CUDA_ON_CPU_H
#define LS_CUDA_ON_CPU_H

#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(8) uint2 {
    uint32_t x, y;
};
static inline float4 make_float4(float x, float y, float z, float w) { return float4{x, y, z, w}; }
static inline float2 make_float2(float x, float y) { return float2{x, y}; }
static inline uint2 make_uint2(uint32_t x, uint32_t y) { return uint2{x, y}; }
static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return uint4{x, y, z, w}; }

namespace on_cpu {

/* Stacks begin at different places of a page, so that their ends do not all want the same lines of a cache. */
enum { THREADS_MAX = 1024, STACK_BYTES = 128 << 10, STACK_STRIDE = STACK_BYTES + 4096 + 192, SHARED_BYTES = 227 << 10 };

struct fiber {
    jmp_buf at; /* where it waits */
    dim3 thread;
    bool done;
};

extern fiber *fibers;
extern unsigned count, current;
extern dim3 block, grid, block_dim;
extern unsigned char shared[SHARED_BYTES];
extern bool has_ampere_unit; /* the GPU that is played: else tensor cores compute as those of Hopper */

void sync();
/* Lets another thread of the block go on. */
void pass();
/* Until `threads` of them have come to meeting `number`. */
void meet(unsigned number, unsigned threads);
/* Every lane of the warp comes by with a value and leaves with that of lane `from`. */
uint64_t exchange(uint64_t value, unsigned from);

typedef void (*entry)(const void *args);

struct kernel {
    const char *name;
    entry run;
    size_t args_bytes;
    kernel *next;
    static kernel *first;
    kernel(const char *n, entry e, size_t bytes) : name(n), run(e), args_bytes(bytes), next(first) { first = this; }
};

/* Runs all blocks. */
void launch(entry run, dim3 grid, dim3 block, const void *args);

static inline unsigned lane() { return current % 32; }

} // namespace on_cpu

#define LS_KERNEL(name, type, threads)                                                                                 \
    static void kernel_##name(const type &a);                                                                          \
    static on_cpu::kernel entry_##name(                                                                                \
        "ls_" #name, [](const void *args) { kernel_##name(*(const type *)args); }, sizeof(type));                      \
    static void kernel_##name(const type &a)

#define threadIdx (on_cpu::fibers[on_cpu::current].thread)
#define blockIdx (on_cpu::block)
#define blockDim (on_cpu::block_dim)
#define gridDim (on_cpu::grid)
#define LS_SHARED(type, name) type *name = (type *)on_cpu::shared

static inline void __syncthreads() { on_cpu::sync(); }
static inline void __syncwarp(unsigned = ~0u) { on_cpu::exchange(0, 0); }
static inline uint32_t __float_as_uint(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
static inline float __uint_as_float(uint32_t u) {
    float x;
    memcpy(&x, &u, 4);
    return x;
}
static inline long long __double_as_longlong(double x) {
    long long bits;
    memcpy(&bits, &x, 8);
    return bits;
}
static inline long long __double2ll_rn(double x) { return llrint(x); }
template <class T> static inline T on_cpu_exchange(T v, unsigned from) {
    uint64_t u = 0;
    memcpy(&u, &v, sizeof v);
    u = on_cpu::exchange(u, from);
    memcpy(&v, &u, sizeof v);
    return v;
}
template <class T> static inline T __shfl_xor_sync(unsigned, T v, int mask, int = 32) {
    return on_cpu_exchange(v, on_cpu::lane() ^ (unsigned)mask);
}
template <class T> static inline T __shfl_down_sync(unsigned, T v, unsigned d, int width = 32) {
    unsigned l = on_cpu::lane(), w = (unsigned)width;
    return on_cpu_exchange(v, l % w + d < w ? l + d : l);
}
template <class T> static inline T __shfl_up_sync(unsigned, T v, unsigned d, int width = 32) {
    unsigned l = on_cpu::lane(), w = (unsigned)width;
    return on_cpu_exchange(v, l % w >= d ? l - d : l);
}
template <class T> static inline T __shfl_sync(unsigned, T v, int from, int width = 32) {
    unsigned l = on_cpu::lane(), w = (unsigned)width;
    return on_cpu_exchange(v, l / w * w + (unsigned)from % w);
}
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline double __dsqrt_rn(double a) { return sqrt(a); }
static inline uint32_t __umulhi(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }
static inline uint64_t __umul64hi(uint64_t a, uint64_t b) { return (uint64_t)((unsigned __int128)a * b >> 64); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T __ldcg(const T *p) { return *p; }
template <class T> static inline T __ldcs(const T *p) { return *p; }
template <class T> static inline void __stcs(T *p, T x) { *p = x; }
static inline void __threadfence() {}
/* Blocks and threads take turns, so plain memory is enough. */
template <class T> static inline T atomicAdd(T *p, T v) {
    T old = *p;
    *p = old + v;
    return old;
}
template <class T> static inline T atomicOr(T *p, T v) {
    T old = *p;
    *p = old | v;
    return old;
}
template <class T> static inline T atomicMin(T *p, T v) {
    T old = *p;
    if (v < old) *p = v;
    return old;
}
template <class T> static inline T atomicMax(T *p, T v) {
    T old = *p;
    if (v > old) *p = v;
    return old;
}
template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }

#endif
