/* kernels_attention.c: causal attention of `lockstep bench kernels`, as in a block of GPT-2 124M: one sequence,
 * q, k and v in one fused buffer; fp32, bf16 in chains, and bf16 on BFMMLA where the CPU has it. Operations: two
 * matmuls forward, five backward, each pair of a query and a key that it sees counted once. What the kernels compute
 * twice to save memory does not count. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "lab/bench/kernels.h"
#include "device/cpu/cpu.h"
#include "numerics/float16.h"

enum { FORWARD, BACKWARD, DIRECTIONS, HEAD_SIZE = 64 };

/* An item of a row is kind·DIRECTIONS + direction. */
static const struct kind {
    const char *suffix;
    ls_dtype act;
    ls_unit unit;
} kinds[] = {{"", LS_F32, LS_UNIT_CHAIN}, {"/bf16", LS_BF16, LS_UNIT_CHAIN}, {"/bfmmla", LS_BF16, LS_UNIT_BFMMLA}};

enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct size {
    size_t T, heads;
} size;

/* Returns the tokens and heads that are measured. */
static size choose_size(bool quick) { return quick ? (size){128, 4} : (size){1024, 12}; }

/* Adds the forward and the backward row of one type. */
static ls_status list_kind(ls_kbench_rows *rows, int threads, size s, int kind) {
    double pairs = (double)s.T * (double)(s.T + 1) / 2 * (double)s.heads;
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        ls_kbench_row *row;
        LS_TRY(ls_kbench_row_add(rows, LS_KBENCH_ATTENTION, threads, &row));
        snprintf(row->name, sizeof row->name, "attention/%s/T=%zu/heads=%zu/d=%d%s",
                 direction == FORWARD ? "forward" : "backward", s.T, s.heads, HEAD_SIZE, kinds[kind].suffix);
        row->item = kind * DIRECTIONS + direction;
        row->is_flops = true;
        row->work = (direction == FORWARD ? 2 : 5) * 2.0 * HEAD_SIZE * pairs;
        row->yardstick = "gemm";
    }
    return LS_OK;
}

ls_status ls_kbench_attention_list(ls_kbench_rows *rows, int threads, bool quick) {
    for (int kind = 0; kind < KINDS; kind++)
        if (kinds[kind].unit != LS_UNIT_BFMMLA || ls_kernels_get()->attention_bfmmla.forward != NULL)
            LS_TRY(list_kind(rows, threads, choose_size(quick), kind));
    return LS_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct job {
    ls_cpu_device device; /* the operations of training, on the threads of the measurement */
    ls_attention part;
    ls_attention_call call;
    float *memory;
} job;

/* Allocates the operands: m, l and dots, then qkv, o, dout of T rows each, then dqkv. The caller releases memory and
 * scratch, also after a failure. */
static ls_status job_open(job *j, const ls_kbench_env *env, const struct kind *kind) {
    size s = choose_size(env->quick);
    size_t C = s.heads * HEAD_SIZE, row = 3 * C, stats = s.T * s.heads, bytes = ls_dtype_bytes(kind->act);
    size_t elems = s.T * (2 * row + 2 * C);
    void *memory = NULL;
    *j = (job){.device = {.kernels = env->kernels, .pool = env->pool}};
    LS_TRY(ls_kbench_alloc(3 * stats * sizeof(float) + elems * bytes, &memory));
    j->memory = memory;
    for (size_t i = 0; i < 3 * stats; i++) j->memory[i] = ls_operand_value(i);
    char *qkv = (char *)(j->memory + 3 * stats), *o = qkv + s.T * row * bytes, *dout = o + s.T * C * bytes;
    for (size_t i = 0; i < elems; i++) {
        float value = ls_operand_value(i);
        uint16_t half = ls_bf16_from_f32(value);
        memcpy(qkv + i * bytes, kind->act == LS_F32 ? (void *)&value : (void *)&half, bytes);
    }
    ls_operand_heads heads = {.T = s.T,
                              .heads = s.heads,
                              .d = HEAD_SIZE,
                              .act = kind->act,
                              .unit = kind->unit,
                              .qkv = qkv,
                              .o = o,
                              .dout = dout,
                              .dqkv = dout + s.T * C * bytes,
                              .stats = j->memory};
    j->call = ls_operand_attention(&heads, &j->part);
    return LS_OK;
}

/* Runs attention forward; an ls_timer_call. */
static ls_status run_forward(void *ctx) {
    job *j = ctx;
    return ls_cpu_op_attention_forward(&j->device.base, &j->call);
}

/* Runs attention backward, with the statistics that forward left; an ls_timer_call. */
static ls_status run_backward(void *ctx) {
    job *j = ctx;
    return ls_cpu_op_attention_backward(&j->device.base, &j->call);
}

ls_status ls_kbench_attention_measure(const ls_kbench_env *env, ls_kbench_row *row) {
    size s = choose_size(env->quick);
    size_t C = s.heads * HEAD_SIZE;
    job j;
    ls_status status = LS_OK;
    ls_timer_call run = row->item % DIRECTIONS == FORWARD ? run_forward : run_backward;
    LS_TRY_OUT(job_open(&j, env, &kinds[row->item / DIRECTIONS]));
    LS_TRY_OUT(run_forward(&j)); /* backward needs what it leaves */
    LS_TRY_OUT(ls_kbench_time(env, run, &j, &row->seconds[env->round]));
    LS_TRY_OUT(ls_kbench_gemm_rate(env, s.T, C, C, &row->yard_rate[env->round]));
out:
    free(j.device.scratch);
    free(j.memory);
    return status;
}
