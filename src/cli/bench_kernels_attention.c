/* bench_kernels_attention.c: causal attention of `lockstep bench kernels`, as in a block of GPT-2 124M: one sequence,
 * q, k and v in one fused buffer. Operations: two products forward, five backward, each pair of a query and a key that
 * it sees counted once. What the kernels compute twice to save memory does not count. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cli/bench_kernels.h"

enum { FORWARD, BACKWARD, DIRECTIONS, HEAD_SIZE = 64 };

typedef struct size {
    size_t T, heads;
} size;

static size size_of(bool quick) { return quick ? (size){128, 4} : (size){1024, 12}; }

ls_status ls_kbench_attention_list(ls_kbench_rows *rows, int threads, bool quick) {
    size s = size_of(quick);
    double pairs = (double)s.T * (double)(s.T + 1) / 2 * (double)s.heads;
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        ls_kbench_row *row = ls_kbench_row_add(rows, LS_KBENCH_ATTENTION, threads);
        if (row == NULL) return ls_fail(LS_ERR_FAILED, "more than %d measurements", LS_KBENCH_ROWS_MAX);
        snprintf(row->name, sizeof row->name, "attention/%s/T=%zu/heads=%zu/d=%d",
                 direction == FORWARD ? "forward" : "backward", s.T, s.heads, HEAD_SIZE);
        row->item = direction;
        row->is_flops = true;
        row->work = (direction == FORWARD ? 2 : 5) * 2.0 * HEAD_SIZE * pairs;
        row->yardstick = "gemm";
    }
    return LS_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct job {
    ls_attention a;
    const ls_attention_kernels *kernels;
    ls_pool *pool;
    float *memory, *scratch;
    size_t scratch_elems; /* of one thread */
    size_t blocks;        /* of queries or keys, for each head */
} job;

static void job_close(job *j) {
    free(j->memory);
    free(j->scratch);
}

/* memory: qkv, o, dout of T rows each, then dqkv, and three numbers for each query and head. The caller closes the job,
 * also after a failure. */
static ls_status job_open(job *j, const ls_kbench_env *env) {
    size s = size_of(env->quick);
    size_t C = s.heads * HEAD_SIZE, row = 3 * C, stats = s.T * s.heads;
    size_t elems = s.T * (2 * row + 2 * C) + 3 * stats;
    void *memory = NULL;
    *j = (job){.kernels = &env->kernels->attention, .pool = env->pool};
    LS_TRY(ls_kbench_alloc(elems * sizeof(float), &memory));
    j->memory = memory;
    j->scratch_elems = (ls_attention_scratch_elems(s.T, HEAD_SIZE) + 15) / 16 * 16;
    LS_TRY(ls_kbench_alloc(j->scratch_elems * (size_t)env->threads * sizeof(float), &memory));
    j->scratch = memory;
    j->blocks = (s.T + LS_ATTENTION_BLOCK - 1) / LS_ATTENTION_BLOCK;
    for (size_t i = 0; i < elems; i++) j->memory[i] = ls_kbench_value(i);
    float *qkv = j->memory, *o = qkv + s.T * row, *dout = o + s.T * C, *dqkv = dout + s.T * C;
    float *m = dqkv + s.T * row;
    j->a = (ls_attention){
        .T = s.T,
        .heads = s.heads,
        .kv_heads = s.heads,
        .head_size = HEAD_SIZE,
        .scale = 0.125f,
        .q = {qkv, row, HEAD_SIZE},
        .k = {qkv + C, row, HEAD_SIZE},
        .v = {qkv + 2 * C, row, HEAD_SIZE},
        .o = {o, C, HEAD_SIZE},
        .m = m,
        .l = m + stats,
        .dots = m + 2 * stats,
        .stat_stride = s.T,
        .dout = {dout, C, HEAD_SIZE},
        .dq = {dqkv, row, HEAD_SIZE},
        .dk = {dqkv + C, row, HEAD_SIZE},
        .dv = {dqkv + 2 * C, row, HEAD_SIZE},
    };
    return LS_OK;
}

/* A task is a head and a block, the longest first: late queries see many keys, early keys are seen by many queries. */
typedef struct block {
    size_t head, begin, end;
} block;

static block block_of(const job *j, size_t task, bool last_first) {
    size_t number = task / j->a.heads, at = last_first ? j->blocks - 1 - number : number;
    size_t begin = at * LS_ATTENTION_BLOCK, end = begin + LS_ATTENTION_BLOCK;
    return (block){task % j->a.heads, begin, end < j->a.T ? end : j->a.T};
}

static void forward_task(void *ctx, size_t task, int thread) {
    const job *j = ctx;
    block b = block_of(j, task, true);
    j->kernels->forward(&j->a, b.head, b.head + 1, b.begin, b.end, j->scratch + (size_t)thread * j->scratch_elems);
}

static void dots_task(void *ctx, size_t task, int thread) {
    (void)thread;
    const job *j = ctx;
    block b = block_of(j, task, true);
    j->kernels->backward_dots(&j->a, b.head, b.head + 1, b.begin, b.end);
}

static void queries_task(void *ctx, size_t task, int thread) {
    const job *j = ctx;
    block b = block_of(j, task, true);
    j->kernels->backward_queries(&j->a, b.head, b.head + 1, b.begin, b.end,
                                 j->scratch + (size_t)thread * j->scratch_elems);
}

static void keys_task(void *ctx, size_t task, int thread) {
    const job *j = ctx;
    block b = block_of(j, task, false);
    j->kernels->backward_keys(&j->a, b.head, b.begin, b.end, j->scratch + (size_t)thread * j->scratch_elems);
}

static void run_forward(void *ctx) {
    job *j = ctx;
    ls_pool_run(j->pool, j->a.heads * j->blocks, forward_task, j);
}

static void run_backward(void *ctx) {
    job *j = ctx;
    size_t tasks = j->a.heads * j->blocks;
    ls_pool_run(j->pool, tasks, dots_task, j);
    ls_pool_run(j->pool, tasks, queries_task, j);
    ls_pool_run(j->pool, tasks, keys_task, j);
}

ls_status ls_kbench_attention_measure(const ls_kbench_env *env, ls_kbench_row *row) {
    size s = size_of(env->quick);
    size_t C = s.heads * HEAD_SIZE;
    job j;
    ls_status status = LS_OK;
    LS_TRY_OUT(job_open(&j, env));
    run_forward(&j); /* backward needs what it leaves */
    row->seconds[env->round] = ls_kbench_time(env, row->item == FORWARD ? run_forward : run_backward, &j);
    LS_TRY_OUT(ls_kbench_gemm_rate(env, s.T, C, C, &row->yard_rate[env->round]));
out:
    job_close(&j);
    return status;
}
