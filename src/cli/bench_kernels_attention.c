/* bench_kernels_attention.c: causal attention of `lockstep bench kernels`, as in a block of GPT-2 124M: one sequence,
 * q, k and v in one fused buffer. Operations: two products forward, five backward, each pair of a query and a key that
 * it sees counted once. What the kernels compute twice to save memory does not count. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cli/bench_kernels.h"
#include "kernels/cpu/cpu.h"

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
    ls_cpu_device device; /* the operations of training, on the threads of the measurement */
    ls_attention part;
    ls_attention_call call;
    float *memory;
    ls_status status;
} job;

static void job_close(job *j) {
    free(j->device.scratch);
    free(j->memory);
}

/* memory: qkv, o, dout of T rows each, then dqkv, and three numbers for each query and head. The caller closes the job,
 * also after a failure. */
static ls_status job_open(job *j, const ls_kbench_env *env) {
    size s = size_of(env->quick);
    size_t C = s.heads * HEAD_SIZE, row = 3 * C, stats = s.T * s.heads;
    size_t elems = s.T * (2 * row + 2 * C) + 3 * stats;
    void *memory = NULL;
    *j = (job){.device = {.kernels = env->kernels, .pool = env->pool}};
    ls_cpu_ops_fill_attention(&j->device.ops);
    LS_TRY(ls_kbench_alloc(elems * sizeof(float), &memory));
    j->memory = memory;
    for (size_t i = 0; i < elems; i++) j->memory[i] = ls_kbench_value(i);
    float *qkv = j->memory, *o = qkv + s.T * row, *dout = o + s.T * C, *dqkv = dout + s.T * C;
    float *m = dqkv + s.T * row;
    j->part = (ls_attention){
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
    j->call = (ls_attention_call){.parts = &j->part, .nparts = 1, .B = 1};
    return LS_OK;
}

static void run_forward(void *ctx) {
    job *j = ctx;
    if (j->status == LS_OK) j->status = j->device.ops.attention_forward(&j->device.base, &j->call);
}

static void run_backward(void *ctx) {
    job *j = ctx;
    if (j->status == LS_OK) j->status = j->device.ops.attention_backward(&j->device.base, &j->call);
}

ls_status ls_kbench_attention_measure(const ls_kbench_env *env, ls_kbench_row *row) {
    size s = size_of(env->quick);
    size_t C = s.heads * HEAD_SIZE;
    job j;
    ls_status status = LS_OK;
    LS_TRY_OUT(job_open(&j, env));
    run_forward(&j); /* backward needs what it leaves */
    row->seconds[env->round] = ls_kbench_time(env, row->item == FORWARD ? run_forward : run_backward, &j);
    LS_TRY_OUT(j.status);
    LS_TRY_OUT(ls_kbench_gemm_rate(env, s.T, C, C, &row->yard_rate[env->round]));
out:
    job_close(&j);
    return status;
}
