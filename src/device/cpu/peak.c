/* peak.c: the rate of multiply-adds that this CPU, or one of its matrix units, can reach, for benchmarks and for MFU.
 *
 * Chains of multiply-adds that stay in registers, more of them than latency × pipes, in assembly so that no
 * compiler can make them fewer. All threads start together, and each measures its own rate. */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "device/cpu/peak.h"

/* A loop of multiply-adds; run NULL: none for this CPU. */
typedef struct fma_code {
    void (*run)(size_t turns);
    double flops; /* of one turn */
} fma_code;

/* clang-format off */
#define R6(X) X(0) X(1) X(2) X(3) X(4) X(5)
#define R12(X) R6(X) X(6) X(7) X(8) X(9) X(10) X(11)
#define R24(X) R12(X) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)
/* A function that clears its registers, runs `body` so many turns, and tells the compiler what it has overwritten. */
#define TURNS_OF(name, clear, body, down, end, ...)                                                                    \
    static void name(size_t turns) {                                                                                   \
        __asm__ volatile(clear "1:\n\t" body down "1b\n\t" end : [turns] "+r"(turns) : : "cc", __VA_ARGS__);            \
    }

#if defined __aarch64__
#define CLEAR(r) "movi v" #r ".4s, #0\n\t"
#define FMA(r) "fmla v" #r ".4s, v30.4s, v31.4s\n\t"
/* bfmmla v<r>.4s, v30.8h, v31.8h, by its number: assemblers want to be told of the extension, each in another way. */
#define BFMMLA(r) ".inst 0x6e5fefc0 + " #r "\n\t"
#define VECTOR_TURNS(name, OP)                                                                                         \
    TURNS_OF(name, R24(CLEAR) CLEAR(30) CLEAR(31), R24(OP), "subs %[turns], %[turns], #1\n\tb.ne ", "",                \
             "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",     \
             "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v30", "v31")
VECTOR_TURNS(fma_neon, FMA)
VECTOR_TURNS(multiply_bfmmla, BFMMLA)

/* Returns the loop for a unit, and for LS_UNIT_CHAIN that of fp32; run NULL: none. */
static fma_code choose_fma(ls_unit unit) {
    return unit == LS_UNIT_BFMMLA ? (fma_code){multiply_bfmmla, 24 * 16 * 2} : (fma_code){fma_neon, 24 * 4 * 2};
}
#elif defined __x86_64__
#define DOWN "dec %[turns]\n\tjnz "
#define XMM16 "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",         \
    "xmm12", "xmm13", "xmm14", "xmm15"
#define CLEAR_Y(r) "vxorps %%ymm" #r ", %%ymm" #r ", %%ymm" #r "\n\t"
#define FMA_Y(r) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" #r "\n\t"
__attribute__((target("avx2,fma")))
TURNS_OF(fma_avx2, R12(CLEAR_Y) CLEAR_Y(14) CLEAR_Y(15), R12(FMA_Y) R12(FMA_Y), DOWN, "vzeroupper\n\t", XMM16)

#define CLEAR_Z(r) "vpxord %%zmm" #r ", %%zmm" #r ", %%zmm" #r "\n\t"
#define FMA_Z(r) "vfmadd231ps %%zmm30, %%zmm31, %%zmm" #r "\n\t"
#define DOT_Z(r) "vdpbf16ps %%zmm30, %%zmm31, %%zmm" #r "\n\t"
#define AVX512_TURNS(name, OP)                                                                                         \
    __attribute__((target("avx512f")))                                                                                 \
    TURNS_OF(name, R24(CLEAR_Z) CLEAR_Z(30) CLEAR_Z(31), R24(OP), DOWN, "vzeroupper\n\t", XMM16, "xmm16", "xmm17",     \
             "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm30", "xmm31")
AVX512_TURNS(fma_avx512, FMA_Z)
AVX512_TURNS(multiply_avx512_bf16, DOT_Z)

/* Eight tiles of 16 rows of 64 bytes, as LDTILECFG reads it; the kernels of the matmuls configure their own. */
static const _Alignas(64) uint8_t tiles[64] = {
    [0] = 1, [16] = 64, [18] = 64, [20] = 64, [22] = 64, [24] = 64, [26] = 64, [28] = 64, [30] = 64,
    [48] = 16, [49] = 16, [50] = 16, [51] = 16, [52] = 16, [53] = 16, [54] = 16, [55] = 16,
};
#define CLEAR_T(r) "tilezero %%tmm" #r "\n\t"
#define DOT_T(r) "tdpbf16ps %%tmm7, %%tmm6, %%tmm" #r "\n\t"
TURNS_OF(multiply_tiles, R6(CLEAR_T) CLEAR_T(6) CLEAR_T(7), R6(DOT_T), DOWN, "tilerelease\n\t", "memory")
/* Configures the tiles of this thread, and runs the loop, which releases them. */
static void multiply_amx(size_t turns) {
    __asm__ volatile("ldtilecfg %0" : : "m"(tiles));
    multiply_tiles(turns);
}

/* Returns the loop for a unit, and for LS_UNIT_CHAIN that of the widest fp32 vectors; run NULL: none. */
static fma_code choose_fma(ls_unit unit) {
    if (unit == LS_UNIT_AVX512_BF16) return (fma_code){multiply_avx512_bf16, 24 * 32 * 2};
    if (unit == LS_UNIT_AMX) return (fma_code){multiply_amx, 6 * 16 * 16 * 32 * 2};
    if (ls_cpu_use(LS_ISA_AVX512)) return (fma_code){fma_avx512, 24 * 16 * 2};
    if (ls_cpu_detect()->avx2 && ls_cpu_detect()->fma) return (fma_code){fma_avx2, 2 * 12 * 8 * 2};
    return (fma_code){0};
}
#else
/* Returns no loop: this architecture has none. */
static fma_code choose_fma(ls_unit unit) {
    (void)unit;
    return (fma_code){0};
}
#endif
/* clang-format on */

typedef struct fma_job {
    fma_code code;
    size_t turns;
    int threads;
    atomic_int arrived;               /* tasks that have started */
    double rate[LS_POOL_THREADS_MAX]; /* FLOP/s of each task */
} fma_job;

/* Task of a try: waits until all tasks have started, so that no thread gets two, runs the loop, and notes its rate. */
static void fma_task(void *ctx, size_t task, int thread) {
    (void)thread;
    fma_job *job = ctx;
    atomic_fetch_add(&job->arrived, 1);
    while (atomic_load(&job->arrived) < job->threads) sched_yield();
    double start = ls_clock_seconds();
    job->code.run(job->turns);
    job->rate[task] = (double)job->turns * job->code.flops / (ls_clock_seconds() - start);
}

bool ls_cpu_peak_measure(ls_pool *pool, ls_unit unit, double seconds, double rates[LS_CPU_PEAK_TRIES]) {
    enum { TURNS = 20000 };
    if (!ls_unit_is_fast_here(unit)) return false;
    fma_job job = {.code = choose_fma(unit), .threads = ls_pool_threads(pool)};
    if (job.code.run == NULL) return false;
    double start = ls_clock_seconds();
    job.code.run(TURNS);
    double once = ls_clock_seconds() - start;
    job.turns = (size_t)(TURNS * (seconds / LS_CPU_PEAK_TRIES / (once > 1e-9 ? once : 1e-9))) + 1;
    for (int i = 0; i < LS_CPU_PEAK_TRIES; i++) {
        rates[i] = 0;
        atomic_store(&job.arrived, 0);
        ls_pool_run(pool, (size_t)job.threads, fma_task, &job);
        for (int t = 0; t < job.threads; t++) rates[i] += job.rate[t];
    }
    return true;
}

double ls_cpu_peak(ls_pool *pool, ls_unit unit, double seconds) {
    double rates[LS_CPU_PEAK_TRIES], best = 0;
    if (!ls_cpu_peak_measure(pool, unit, seconds, rates)) return 0;
    for (int i = 0; i < LS_CPU_PEAK_TRIES; i++)
        if (rates[i] > best) best = rates[i];
    return best;
}
