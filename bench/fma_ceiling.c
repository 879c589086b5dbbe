/* fma_ceiling.c: how much faster than one core all of them can be at best, for bench/scale.py.
 *
 *   fma_ceiling THREADS SECONDS
 *
 * A loop of fused multiply-adds that stays in registers runs on one core alone, then on THREADS cores at once, one
 * thread pinned to each, on the cores and with the instructions that as many workers of lockstep would get; SECONDS
 * each time. Prints one line:
 *
 *   threads 16 alone 83.1 slowest 61.4 sum 1118.0 GFLOP/s ceiling 11.82 sum-of-rates 13.45
 *
 * The ceiling is THREADS × slowest / alone: of work divided equally, the end waits for the slowest. Work divided by
 * speed can reach sum / alone. Rates are work by time, so what other users of the machine take away is in them. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __aarch64__
#    include <arm_neon.h>
#elif defined __x86_64__
#    include <immintrin.h>
#endif

#include "lockstep.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "comm/launch/placement.h"

enum { THREADS_MAX = 1024, TURNS = 20000 };

static float sink[THREADS_MAX];

/* So many sums of `lanes` floats each: more than latency × pipes, fewer than registers; unrolled, or they would live in
 * memory. Returns operations. */
#define EACH_CHAIN(chains) _Pragma("GCC unroll 24") for (int c = 0; c < chains; c++)
#define FMA_LOOP(target, type, lanes, chains, splat, fma, first)                                                       \
    target static double fma_##lanes(float x, float *out) {                                                            \
        type sum[chains], a = splat(x), b = splat(0.5f);                                                               \
        EACH_CHAIN(chains) sum[c] = splat(x * (float)c);                                                               \
        for (int turn = 0; turn < TURNS; turn++) EACH_CHAIN(chains) sum[c] = fma(a, b, sum[c]);                        \
        float total = 0;                                                                                               \
        EACH_CHAIN(chains) total += first(sum[c]);                                                                     \
        *out = total;                                                                                                  \
        return 2.0 * chains * TURNS * lanes;                                                                           \
    }
#define IDENTITY(v) (v)
#define FMA_SCALAR(a, b, c) fmaf(a, b, c)
#ifdef __aarch64__
#    define FMA_NEON(a, b, c) vfmaq_f32(c, a, b)
#    define FIRST_NEON(v) vgetq_lane_f32(v, 0)
FMA_LOOP(, float32x4_t, 4, 24, vdupq_n_f32, FMA_NEON, FIRST_NEON)
#elif defined __x86_64__
FMA_LOOP(__attribute__((target("avx2,fma"))), __m256, 8, 12, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_cvtss_f32)
FMA_LOOP(__attribute__((target("avx512f"))), __m512, 16, 24, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_cvtss_f32)
#endif
FMA_LOOP(, float, 1, 12, IDENTITY, FMA_SCALAR, IDENTITY)

typedef double fma_loop(float x, float *out);

static fma_loop *choose_loop(void) {
#ifdef __aarch64__
    if (ls_cpu_use(LS_ISA_NEON)) return fma_4;
#elif defined __x86_64__
    if (ls_cpu_use(LS_ISA_AVX512)) return fma_16;
    if (ls_cpu_use(LS_ISA_AVX2)) return fma_8;
#endif
    return fma_1;
}

typedef struct job {
    fma_loop *loop;
    pthread_barrier_t *barrier;
    double seconds, flops_s;
    int number;
} job;

static void die(const char *what) {
    fprintf(stderr, "fma_ceiling: %s\n", what);
    exit(2);
}

static void *work(void *arg) {
    job *j = arg;
    double flops = 0, elapsed_s;
    pthread_barrier_wait(j->barrier);
    double start = ls_clock_seconds();
    do {
        flops += j->loop((float)(j->number + 1), &sink[j->number]);
        elapsed_s = ls_clock_seconds() - start;
    } while (elapsed_s < j->seconds);
    j->flops_s = flops / elapsed_s;
    return NULL;
}

static void start_on(int cpu, job *j, pthread_t *thread) {
    pthread_attr_t attributes;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (pthread_attr_init(&attributes) != 0 || pthread_attr_setaffinity_np(&attributes, sizeof set, &set) != 0 ||
        pthread_create(thread, &attributes, work, j) != 0)
        die("a thread could not be started on a core of its own");
    pthread_attr_destroy(&attributes);
}

/* Slowest and sum of the rates of `threads` at once. */
static void measure(const int *cpus, int threads, double seconds, double *slowest, double *sum) {
    static job jobs[THREADS_MAX];
    static pthread_t ids[THREADS_MAX];
    pthread_barrier_t barrier;
    if (pthread_barrier_init(&barrier, NULL, (unsigned)threads) != 0) die("no barrier");
    for (int i = 0; i < threads; i++) {
        jobs[i] = (job){.loop = choose_loop(), .barrier = &barrier, .seconds = seconds, .number = i};
        start_on(cpus[i], &jobs[i], &ids[i]);
    }
    *sum = 0;
    for (int i = 0; i < threads; i++) {
        if (pthread_join(ids[i], NULL) != 0) die("a thread was lost");
        *sum += jobs[i].flops_s;
        if (i == 0 || jobs[i].flops_s < *slowest) *slowest = jobs[i].flops_s;
    }
    pthread_barrier_destroy(&barrier);
}

int main(int argc, char **argv) {
    char *end_threads = NULL, *end_seconds = NULL;
    if (argc != 3) die("usage: fma_ceiling THREADS SECONDS");
    long threads = strtol(argv[1], &end_threads, 10);
    double seconds = strtod(argv[2], &end_seconds);
    if (*end_threads || threads < 1 || threads > THREADS_MAX) die("THREADS must be a number from 1 to 1024");
    if (*end_seconds || !(seconds > 0 && seconds <= 3600)) die("SECONDS must be a number above 0, at most 3600");
    ls_placement placement;
    if (ls_placement_make((int)threads, 1, true, &placement) != LS_OK) die(ls_status_message());
    if (!placement.cpus)
        die(placement.crowded ? "there are fewer cores than threads"
                              : "other runs are pinned to the cores: wait for them");
    double alone = 0, slowest = 0, sum = 0;
    measure(placement.cpus, 1, seconds, &alone, &sum);
    measure(placement.cpus, (int)threads, seconds, &slowest, &sum);
    printf("threads %ld alone %.1f slowest %.1f sum %.1f GFLOP/s ceiling %.3f sum-of-rates %.3f\n", threads,
           alone / 1e9, slowest / 1e9, sum / 1e9, (double)threads * slowest / alone, sum / alone);
    ls_placement_free(&placement);
    return 0;
}
