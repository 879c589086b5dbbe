/* ops_products.c: matrix products and attention: what needs scratch.
 *
 * Attention of B sequences is cut into blocks of queries of one head, and for dk and dv into blocks of keys of one kv
 * head. A later query sees more keys and an earlier key is seen by more queries: the large blocks of a head go first,
 * so that what is left at the end is small. */
#include <assert.h>

#include "kernels/cpu/cpu.h"

static ls_status gemm(ls_device *device, const ls_gemm *call) {
    assert(!call->finish);
    ls_cpu_device *cpu = ls_cpu_enter(device);
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, ls_gemm_scratch_bytes(&cpu->kernels->gemm, call), &scratch));
    ls_gemm_run(&cpu->kernels->gemm, call, cpu->pool, scratch);
    return LS_OK;
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

typedef struct attention_job {
    const ls_attention_kernels *kernels;
    const ls_attention_call *call;
    size_t blocks;     /* of the queries of a head, or of the keys of a kv head */
    size_t keys_tasks; /* of the backward pass: tasks before these make dk and dv, the others dq */
    float *scratch;
    size_t scratch_elems; /* of each thread */
} attention_job;

static size_t blocks_of(size_t rows) { return (rows + LS_ATTENTION_BLOCK - 1) / LS_ATTENTION_BLOCK; }

static float *scratch_of(const attention_job *job, int thread) {
    return job->scratch + (size_t)thread * job->scratch_elems;
}

/* Tensors of the other pass may be absent. */
static ls_attention_in in_at(ls_attention_in x, size_t rows) {
    if (x.at) x.at += rows * x.row_stride;
    return x;
}

static ls_attention_out out_at(ls_attention_out x, size_t rows) {
    if (x.at) x.at += rows * x.row_stride;
    return x;
}

static ls_attention sequence_of(const ls_attention_call *call, size_t b) {
    ls_attention a = call->first;
    size_t queries = b * call->query_rows, keys = b * call->key_rows, stats = b * call->stat_elems;
    a.q = in_at(a.q, queries);
    a.o = out_at(a.o, queries);
    a.dout = in_at(a.dout, queries);
    a.dq = out_at(a.dq, queries);
    a.k = in_at(a.k, keys);
    a.v = in_at(a.v, keys);
    a.dk = out_at(a.dk, keys);
    a.dv = out_at(a.dv, keys);
    a.m += stats;
    a.l += stats;
    if (a.dots) a.dots += stats;
    return a;
}

/* Positions begin … end−1 of block `block` of first … T−1. */
typedef struct block_range {
    size_t begin, end;
} block_range;

static block_range range_of(const ls_attention *a, size_t first, size_t block) {
    size_t begin = first + block * LS_ATTENTION_BLOCK, left = a->T - begin;
    return (block_range){begin, begin + (left < LS_ATTENTION_BLOCK ? left : LS_ATTENTION_BLOCK)};
}

static void forward_task(void *ctx, size_t task, int thread) {
    const attention_job *job = ctx;
    size_t heads = job->call->first.heads, at = task / job->blocks, head = at % heads;
    ls_attention a = sequence_of(job->call, at / heads);
    block_range queries = range_of(&a, a.first_query, job->blocks - 1 - task % job->blocks);
    job->kernels->forward(&a, head, head + 1, queries.begin, queries.end, scratch_of(job, thread));
}

static void dots_task(void *ctx, size_t task, int thread) {
    (void)thread;
    const attention_job *job = ctx;
    ls_attention a = sequence_of(job->call, task / job->blocks);
    block_range queries = range_of(&a, 0, task % job->blocks);
    job->kernels->backward_dots(&a, 0, a.heads, queries.begin, queries.end);
}

static void keys_task(const attention_job *job, size_t task, float *scratch) {
    size_t kv_heads = job->call->first.kv_heads, at = task / job->blocks;
    ls_attention a = sequence_of(job->call, at / kv_heads);
    block_range keys = range_of(&a, 0, task % job->blocks);
    job->kernels->backward_keys(&a, at % kv_heads, keys.begin, keys.end, scratch);
}

static void queries_task(const attention_job *job, size_t task, float *scratch) {
    size_t heads = job->call->first.heads, at = task / job->blocks, head = at % heads;
    ls_attention a = sequence_of(job->call, at / heads);
    block_range queries = range_of(&a, 0, job->blocks - 1 - task % job->blocks);
    job->kernels->backward_queries(&a, head, head + 1, queries.begin, queries.end, scratch);
}

static void backward_task(void *ctx, size_t task, int thread) {
    const attention_job *job = ctx;
    float *scratch = scratch_of(job, thread);
    if (task < job->keys_tasks)
        keys_task(job, task, scratch);
    else
        queries_task(job, task - job->keys_tasks, scratch);
}

static ls_status open_job(ls_cpu_device *cpu, const ls_attention_call *call, attention_job *job) {
    const ls_attention *a = &call->first;
    assert(a->heads % a->kv_heads == 0 && a->first_query <= a->T);
    *job = (attention_job){.kernels = &cpu->kernels->attention, .call = call};
    job->blocks = blocks_of(a->T - a->first_query);
    /* Whole cache lines, so that threads share none. */
    job->scratch_elems = (ls_attention_scratch_elems(a->T, a->head_size) + 15) / 16 * 16;
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, job->scratch_elems * sizeof(float) * (size_t)ls_pool_threads(cpu->pool), &scratch));
    job->scratch = scratch;
    return LS_OK;
}

static ls_status attention_forward(ls_device *device, const ls_attention_call *call) {
    ls_cpu_device *cpu = ls_cpu_enter(device);
    attention_job job;
    LS_TRY(open_job(cpu, call, &job));
    ls_pool_run(cpu->pool, call->B * call->first.heads * job.blocks, forward_task, &job);
    return LS_OK;
}

static ls_status attention_backward(ls_device *device, const ls_attention_call *call) {
    assert(call->first.first_query == 0);
    ls_cpu_device *cpu = ls_cpu_enter(device);
    attention_job job;
    LS_TRY(open_job(cpu, call, &job));
    ls_pool_run(cpu->pool, call->B * job.blocks, dots_task, &job);
    job.keys_tasks = call->B * call->first.kv_heads * job.blocks;
    ls_pool_run(cpu->pool, job.keys_tasks + call->B * call->first.heads * job.blocks, backward_task, &job);
    return LS_OK;
}

void ls_cpu_ops_fill_products(ls_ops *ops) {
    ops->gemm = gemm;
    ops->attention_forward = attention_forward;
    ops->attention_backward = attention_backward;
}
