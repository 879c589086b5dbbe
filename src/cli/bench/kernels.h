/* kernels.h: the parts of `lockstep bench kernels`.
 *
 * A row is one kernel at one size on one number of threads. A part (matrix products, attention, kernels bound by
 * memory) lists its rows and measures them; every rate stands beside a yardstick that was measured in the same run:
 *
 *   bench_kernels_gemm.c       products        of the peak: fma in registers only (bench_kernels_peak.c)
 *   bench_kernels_attention.c  attention       of a product
 *   bench_kernels_stream.c     all the others  of a plain loop with as many reads and writes (bench_kernels_loop.c)
 *     bench_kernels_cases.c      which they are
 *   bench_kernels_peer.c       a peer program that measures the same products
 *   bench_kernels_report.c     table, ratios, JSON
 */
#ifndef LS_CLI_BENCH_KERNELS_H
#define LS_CLI_BENCH_KERNELS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/pool.h"
#include "device/cpu/kernels.h"
#include "lockstep.h"

enum {
    LS_KBENCH_ROUNDS_MAX = 100,
    LS_KBENCH_ROWS_MAX = 256,
    LS_KBENCH_NAME_MAX = 64,
    LS_KBENCH_LIBRARY_MAX = 64,
    LS_KBENCH_COUNTS_MAX = 2
};

typedef enum ls_kbench_family {
    LS_KBENCH_GEMM,
    LS_KBENCH_ATTENTION,
    LS_KBENCH_NORM,
    LS_KBENCH_ACT,
    LS_KBENCH_ROPE,
    LS_KBENCH_EMBED,
    LS_KBENCH_LOSS,
    LS_KBENCH_OPTIM,
    LS_KBENCH_CONVERT,
    LS_KBENCH_MATH,
    LS_KBENCH_ADD,
    LS_KBENCH_FAMILY_COUNT
} ls_kbench_family;

/* C is m × n, k the length of its sums. */
typedef struct ls_kbench_shape {
    ls_gemm_form form;
    size_t m, n, k;
    int slices;
    ls_dtype dtype, c_dtype;
    ls_unit unit;
} ls_kbench_shape;

typedef struct ls_kbench_row {
    ls_kbench_family family;
    char name[LS_KBENCH_NAME_MAX]; /* "gemm/NT/256x3072x768" */
    int threads;
    int group;             /* rows of one group are measured in one go before the peer's turn */
    int item;              /* what it is to its part */
    ls_kbench_shape shape; /* of a product */
    bool for_peer;         /* the peer can do the same */
    bool for_scaling;      /* what the threads gain is measured too */
    bool is_flops;         /* the work counts operations, not bytes */
    double work;           /* of one call */
    double elems;          /* of one call, for ns per element; 0: says nothing */
    const char *yardstick; /* what the rate is compared with */
    bool has_peer;         /* the peer's times are there */
    double seconds[LS_KBENCH_ROUNDS_MAX], peer_seconds[LS_KBENCH_ROUNDS_MAX];
    double yard_rate[LS_KBENCH_ROUNDS_MAX]; /* 0: the yardstick is the peak */
    /* The rate over that of one thread, divided by the same of multiply-adds in registers on the same CPUs: 1 when the
     * threads lose nothing but what the CPUs themselves lose by working together. 0: not measured. */
    double scaling[LS_KBENCH_ROUNDS_MAX];
} ls_kbench_row;

typedef struct ls_kbench_rows {
    int count;
    ls_kbench_row row[LS_KBENCH_ROWS_MAX];
} ls_kbench_rows;

typedef struct ls_kbench_memory ls_kbench_memory;

/* Where measuring happens. */
typedef struct ls_kbench_env {
    const ls_kernels *kernels;
    ls_pool *pool;
    int threads;
    bool quick;
    int round;
    ls_kbench_memory *memory; /* for the kernels bound by memory */
    double sample_s;          /* what the samples of one measurement take together */
} ls_kbench_env;

typedef struct ls_kbench_machine {
    const char *cpu;
    int cores;
    const char *isa, *gemm;
    int rounds;
    bool quick;
    bool pinned;
    const char *peer; /* path of the peer program, or NULL */
    char peer_library[LS_KBENCH_LIBRARY_MAX];
    int counts;
    int threads[LS_KBENCH_COUNTS_MAX];
    double peak_flops_s[LS_KBENCH_COUNTS_MAX];
} ls_kbench_machine;

/* ---- common (bench_kernels_time.c) ---- */

/* "gemm" */
const char *ls_kbench_family_name(ls_kbench_family family);
/* Reads a comma-separated list of families; NULL or "" or "all": all of them. */
ls_status ls_kbench_families_read(const char *list, bool has[LS_KBENCH_FAMILY_COUNT]);
/* One more row, cleared but for the family and the threads; NULL: the table is full. */
ls_kbench_row *ls_kbench_row_add(ls_kbench_rows *rows, ls_kbench_family family, int threads);
/* Seconds of one call: a warm-up, then the median of up to five samples. bench/gemm_openblas.c does the same. */
double ls_kbench_time(const ls_kbench_env *env, void (*call)(void *ctx), void *ctx);
/* 64-byte aligned. */
ls_status ls_kbench_alloc(size_t bytes, void **out);
/* Number i of a fixed sequence, in [−1, 1). */
float ls_kbench_value(size_t i);

/* ---- yardsticks (bench_kernels_peak.c, bench_kernels_loop.c) ---- */

/* fp32 operations a second of all threads together with operands that never leave registers; 0: no fma known here.
 * The best of some tries, and their median. */
double ls_kbench_peak(const ls_kbench_env *env);
double ls_kbench_fma_rate(const ls_kbench_env *env);
/* Streams of floats; an output may be an input. */
typedef struct ls_kbench_loop {
    int reads, writes;
    const float *in[4];
    float *out[3];
} ls_kbench_loop;
/* Adds up the inputs, element by element, into all outputs; without outputs into nothing. Works on whole blocks
 * of 256 bytes from `begin` on. */
void ls_kbench_loop_run(const ls_kbench_loop *loop, size_t begin, size_t end);

/* ---- parts ---- */

ls_status ls_kbench_gemm_list(ls_kbench_rows *rows, int threads, bool quick);
ls_status ls_kbench_gemm_measure(const ls_kbench_env *env, ls_kbench_row *row);
/* Operations a second of a plain product; a yardstick for others. */
ls_status ls_kbench_gemm_rate(const ls_kbench_env *env, size_t m, size_t n, size_t k, double *flops_s);
/* "NT" */
const char *ls_kbench_form_name(ls_gemm_form form);

ls_status ls_kbench_attention_list(ls_kbench_rows *rows, int threads, bool quick);
ls_status ls_kbench_attention_measure(const ls_kbench_env *env, ls_kbench_row *row);

/* The families from LS_KBENCH_NORM on. */
ls_status ls_kbench_stream_list(ls_kbench_rows *rows, ls_kbench_family family, int threads, bool quick);
void ls_kbench_stream_measure(const ls_kbench_env *env, ls_kbench_row *row);
/* The streams they work on. */
ls_status ls_kbench_memory_open(bool quick, ls_kbench_memory **out);
void ls_kbench_memory_close(ls_kbench_memory *memory);

/* ---- peer (bench_kernels_peer.c) ---- */

/* Runs `path THREADS form:MxNxK…` on the CPUs of `cpus` for the rows from first to end−1 that are for the peer, and
 * reads its lines "NT m n k seconds" into their round; "# library TEXT" names its library. */
ls_status ls_kbench_peer_run(const char *path, const cpu_set_t *cpus, ls_kbench_row *rows, int first, int end,
                             int round, char library[LS_KBENCH_LIBRARY_MAX]);

/* ---- report (bench_kernels_report.c) ---- */

void ls_kbench_print_header(const ls_kbench_machine *machine);
/* The rows of machine->threads[count_index]. */
void ls_kbench_print_rows(const ls_kbench_machine *machine, int count_index, const ls_kbench_rows *rows);
/* One line for each row with a peer, the geometric mean of each number of threads, and what threads gain. */
void ls_kbench_print_ratios(const ls_kbench_machine *machine, const ls_kbench_rows *rows);
ls_status ls_kbench_print_json(const ls_kbench_machine *machine, const ls_kbench_rows *rows);

#endif
