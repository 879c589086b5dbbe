/* plain_loop.c: the yardstick of kernels bound by memory: a plain loop that reads and writes as many streams, with one
 * addition for each number read, compiled for each vector unit that kernels may use. */
#include <assert.h>
#include <string.h>

#include "base/cpu.h"
#include "lab/bench/kernels_stream.h"

#define PLAIN_BYTES 16
#define PLAIN_TARGET
#define PLAIN_NAME(stem) stem##_16
#include "lab/bench/plain_loops.h"
#undef PLAIN_BYTES
#undef PLAIN_TARGET
#undef PLAIN_NAME

#ifdef __x86_64__
#    define PLAIN_BYTES 32
#    define PLAIN_TARGET __attribute__((target("avx2")))
#    define PLAIN_NAME(stem) stem##_32
#    include "lab/bench/plain_loops.h"
#    undef PLAIN_BYTES
#    undef PLAIN_TARGET
#    undef PLAIN_NAME

#    define PLAIN_BYTES 64
#    define PLAIN_TARGET __attribute__((target("avx512f")))
#    define PLAIN_NAME(stem) stem##_64
#    include "lab/bench/plain_loops.h"
#endif

/* Runs the version for the widest vectors that kernels may use here. */
void ls_kbench_loop_run(const ls_kbench_loop *loop, size_t begin, size_t end) {
    void (*run)(const ls_kbench_loop *, size_t, size_t) = loop_16;
#ifdef __x86_64__
    if (ls_cpu_use(LS_ISA_AVX2)) run = loop_32;
    if (ls_cpu_use(LS_ISA_AVX512)) run = loop_64;
#endif
    run(loop, begin, end);
}
