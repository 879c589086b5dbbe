/* kernels.h: `lockstep bench kernels`: kernels at the sizes they have in real models, on one thread and on all.
 *
 * A row is one kernel at one size on one number of threads; its rate stands beside a yardstick of the same run:
 *
 *   kernels_gemm.c       matmuls         of the peak: multiply-adds in registers only
 *   kernels_attention.c  attention       of a matmul
 *   kernels_stream.c     all the others  of a plain loop with as many reads and writes (plain_loop.c)
 *     kernels_cases.c      which they are
 *
 * A peer program may measure the same matmuls. The two sides take turns, group by group and round by round, so that a
 * machine which changes its speed changes both. */
#ifndef LS_LAB_BENCH_KERNELS_H
#define LS_LAB_BENCH_KERNELS_H

#include "base/pool.h"
#include "comm/launch/placement.h"
#include "device/cpu/kernels.h"
#include "lab/bench/peer.h"
#include "lab/calls.h"

enum { LS_KBENCH_ROUNDS_MAX = 100, LS_KBENCH_ROWS_MAX = 256, LS_KBENCH_NAME_MAX = 64, LS_KBENCH_COUNTS_MAX = 2 };

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
    int item;              /* number of the case in its family's file */
    ls_kbench_shape shape; /* of a matmul */
    bool for_peer;         /* the peer can do the same */
    bool for_scaling;      /* the gain of the threads is measured too */
    bool is_flops;         /* the work counts operations, not bytes */
    double work;           /* operations or bytes of one call */
    double elems;          /* of one call, for ns per element; 0: says nothing */
    const char *yardstick; /* what the rate is compared with */
    bool has_peer;         /* the peer's times are there */
    double seconds[LS_KBENCH_ROUNDS_MAX], peer_seconds[LS_KBENCH_ROUNDS_MAX]; /* of one call, by round */
    double yard_rate[LS_KBENCH_ROUNDS_MAX]; /* the yardstick's work per second; 0: it is the peak */
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
    ls_pool *pool; /* NULL: the calling thread alone */
    int threads;
    bool quick;
    int round;                /* index of the times that are measured now */
    ls_kbench_memory *memory; /* for the kernels bound by memory */
    double sample_s;          /* total time of the samples of one measurement */
} ls_kbench_env;

/* The caller fills in the options, up to `peer`; all else starts as zeros. */
typedef struct ls_kbench {
    bool has_family[LS_KBENCH_FAMILY_COUNT];
    bool quick, pin;
    int rounds;
    int threads; /* 0: one, and all cores */
    /* Callback for progress, with env and rounds; `what` is NULL at the end. */
    void (*say)(const struct ls_kbench *bench, const char *what);
    ls_bench_peer peer; /* of matmuls */

    cpu_set_t all_cpus;     /* what this process may use: a pool pins the calling thread */
    ls_placement placement; /* of the largest count; smaller ones take its first cores */
    int counts;
    int count[LS_KBENCH_COUNTS_MAX];           /* of threads */
    double peak_flops_s[LS_KBENCH_COUNTS_MAX]; /* fp32 multiply-adds in registers, by count; best round */
    ls_kbench_env env;
    ls_kbench_rows rows;
} ls_kbench;

/* Returns "gemm" and so on. */
const char *ls_kbench_family_name(ls_kbench_family family);
/* Reads a comma-separated list of families; NULL or "" or "all": all of them. LS_ERR_INPUT for an unknown one. */
ls_status ls_kbench_families_read(const char *list, bool has[LS_KBENCH_FAMILY_COUNT]);
/* Chooses thread counts and allocates memory. The caller ends it with ls_kbench_close(), also after a failure. */
ls_status ls_kbench_open(ls_kbench *bench);
/* Frees what ls_kbench_open() allocated. */
void ls_kbench_close(ls_kbench *bench);
/* Adds the rows of count[index] threads and measures them in all rounds. Pins the calling thread meanwhile, and lets it
 * use all_cpus again. */
ls_status ls_kbench_run(ls_kbench *bench, int index);

/* ---- for the files of this folder -------------------------------------------------------------------------------- */

/* Adds a row, zeros but for family, threads and group. */
ls_status ls_kbench_row_add(ls_kbench_rows *rows, ls_kbench_family family, int threads, ls_kbench_row **out);
/* Measures the seconds of one call: the median of up to five samples. */
ls_status ls_kbench_time(const ls_kbench_env *env, ls_timer_call call, void *ctx, double *seconds);
/* Allocates memory, aligned to 64 bytes, that the caller frees with free(). */
ls_status ls_kbench_alloc(size_t bytes, void **out);
/* Measures the fp32 operations a second of all threads together with operands that never leave registers: the median of
 * some tries; 0: not known for this CPU. */
double ls_kbench_fma_rate(const ls_kbench_env *env);

/* Adds the rows of matmuls. */
ls_status ls_kbench_gemm_list(ls_kbench_rows *rows, int threads, bool quick);
/* Measures a row and its yardstick in round env->round, and checks the result in the first round. */
ls_status ls_kbench_gemm_measure(const ls_kbench_env *env, ls_kbench_row *row);
/* Measures the operations a second of a plain matmul, as a yardstick for others. */
ls_status ls_kbench_gemm_rate(const ls_kbench_env *env, size_t m, size_t n, size_t k, double *flops_s);

/* Adds the rows of attention, in both directions for each type that this CPU has. */
ls_status ls_kbench_attention_list(ls_kbench_rows *rows, int threads, bool quick);
/* Measures a row and, as its yardstick, a plain matmul, in round env->round. */
ls_status ls_kbench_attention_measure(const ls_kbench_env *env, ls_kbench_row *row);

/* Adds the rows of a family from LS_KBENCH_NORM on. */
ls_status ls_kbench_stream_list(ls_kbench_rows *rows, ls_kbench_family family, int threads, bool quick);
/* Measures a row and, as its yardstick, the plain loop, in round env->round. */
ls_status ls_kbench_stream_measure(const ls_kbench_env *env, ls_kbench_row *row);
/* Allocates the streams that these rows work on; the caller closes *out. */
ls_status ls_kbench_memory_open(bool quick, ls_kbench_memory **out);
/* Frees the streams; NULL does nothing. */
void ls_kbench_memory_close(ls_kbench_memory *memory);

#endif
