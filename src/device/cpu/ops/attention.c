/* attention.c: attention of B sequences in one or more parts.
 *
 * A unit here is a key/value head of a sequence with its query heads. Units of all sequences and parts share one
 * parallel loop, so that parts cost no barriers. A task is a whole unit, which packs its keys once and, in backward,
 * makes its weights once; the last units, where whole ones would leave threads without work, are cut into blocks of
 * queries (or keys) of one head:
 *
 *     forward    whole units | blocks of queries
 *     backward   whole units | blocks of keys, for dk and dv | blocks of queries, for dq
 *
 * A later query sees more keys and an earlier key is seen by more queries: the long blocks go first. */
#include <assert.h>
#include <stdint.h>

#include "device/cpu/cpu.h"

typedef struct attention_job {
    const ls_attention_kernels *kernels;
    const ls_attention_call *call;
    size_t heads, kv_heads; /* of a sequence, all parts together */
    size_t blocks;          /* of the queries of a head, or of the keys of a kv head */
    size_t units, whole;    /* in all; those that are not cut */
    size_t cut_heads_begin; /* the first query head of the cut units, in the count of all sequences */
    size_t cut_heads;
    float *scratch;
    size_t scratch_elems; /* of each thread */
} attention_job;

/* One head, of queries or of keys, of one sequence. */
typedef struct head_place {
    ls_attention a; /* of the sequence and part */
    size_t head;    /* in the part */
} head_place;

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

/* Returns the scratch of a thread. */
static float *scratch_of(const attention_job *job, int thread) {
    return job->scratch + (size_t)thread * job->scratch_elems;
}

/* Returns an input tensor moved by `rows` rows; a NULL tensor, one of the other pass, stays NULL. */
static ls_attention_in in_at(ls_attention_in x, size_t rows, ls_dtype act) {
    if (x.at) x.at = (const char *)x.at + rows * x.row_stride * ls_dtype_bytes(act);
    return x;
}

/* Returns an output tensor moved by `rows` rows; NULL stays NULL. */
static ls_attention_out out_at(ls_attention_out x, size_t rows, ls_dtype act) {
    if (x.at) x.at = (char *)x.at + rows * x.row_stride * ls_dtype_bytes(act);
    return x;
}

/* Returns part `part` of sequence b: pointers and the dropout index moved to it. */
static ls_attention sequence_of(const ls_attention_call *call, size_t part, size_t b) {
    ls_attention a = call->parts[part];
    size_t queries = b * call->query_rows, keys = b * call->key_rows, stats = b * call->stat_elems;
    a.q = in_at(a.q, queries, a.act);
    a.o = out_at(a.o, queries, a.act);
    a.dout = in_at(a.dout, queries, a.act);
    a.dq = out_at(a.dq, queries, a.act);
    a.k = in_at(a.k, keys, a.act);
    a.v = in_at(a.v, keys, a.act);
    a.dk = out_at(a.dk, keys, a.act);
    a.dv = out_at(a.dv, keys, a.act);
    a.m += stats;
    a.l += stats;
    if (a.dots) a.dots += stats;
    a.drop.head0 += b * a.drop.heads;
    return a;
}

/* Returns query head number `at` of all sequences; heads are counted by sequence, then part, then head. */
static head_place head_at(const attention_job *job, size_t at) {
    size_t b = at / job->heads, head = at % job->heads, part = 0;
    while (head >= job->call->parts[part].heads) head -= job->call->parts[part++].heads;
    return (head_place){sequence_of(job->call, part, b), head};
}

/* Returns the key/value head of unit `at`, counted by sequence, then part, then head. */
static head_place unit_at(const attention_job *job, size_t at) {
    size_t b = at / job->kv_heads, head = at % job->kv_heads, part = 0;
    while (head >= job->call->parts[part].kv_heads) head -= job->call->parts[part++].kv_heads;
    return (head_place){sequence_of(job->call, part, b), head};
}

/* Returns the number of the first query head of a unit. */
static size_t first_head_of(const attention_job *job, size_t unit) {
    size_t b = unit / job->kv_heads, kv = unit % job->kv_heads, before = b * job->heads;
    const ls_attention *part = job->call->parts;
    for (; kv >= part->kv_heads; part++) {
        kv -= part->kv_heads;
        before += part->heads;
    }
    return before + kv * (part->heads / part->kv_heads);
}

/* Positions begin … end−1 of block `block` of first … T−1. */
typedef struct block_range {
    size_t begin, end;
} block_range;

/* Returns the positions of a block; the last one may be shorter. */
static block_range range_of(const ls_attention *a, size_t first, size_t block) {
    size_t begin = first + block * LS_ATTENTION_BLOCK;
    return (block_range){begin, begin + min_size(LS_ATTENTION_BLOCK, a->T - begin)};
}

/* Task: computes forward of one whole unit or, for task numbers behind those, of one block of queries of one cut head;
 * the last blocks of all heads come first. */
static void forward_task(void *ctx, size_t task, int thread) {
    const attention_job *job = ctx;
    float *scratch = scratch_of(job, thread);
    if (task < job->whole) {
        head_place unit = unit_at(job, task);
        size_t group = unit.a.heads / unit.a.kv_heads, head = unit.head * group;
        job->kernels->forward(&unit.a, head, head + group, unit.a.first_query, unit.a.T, scratch);
        return;
    }
    task -= job->whole;
    head_place h = head_at(job, job->cut_heads_begin + task % job->cut_heads);
    block_range queries = range_of(&h.a, h.a.first_query, job->blocks - 1 - task / job->cut_heads);
    job->kernels->forward(&h.a, h.head, h.head + 1, queries.begin, queries.end, scratch);
}

/* Task: computes dots of one block of queries, for all heads of one part of one sequence. */
static void dots_task(void *ctx, size_t task, int thread) {
    (void)thread;
    const attention_job *job = ctx;
    size_t parts = (size_t)job->call->nparts, at = task / job->blocks;
    ls_attention a = sequence_of(job->call, at % parts, at / parts);
    block_range queries = range_of(&a, 0, task % job->blocks);
    job->kernels->backward_dots(&a, 0, a.heads, queries.begin, queries.end);
}

/* Computes dk and dv of one block of keys of a cut unit. */
static void keys_task(const attention_job *job, size_t task, float *scratch) {
    size_t cut = job->units - job->whole;
    head_place unit = unit_at(job, job->whole + task % cut);
    block_range keys = range_of(&unit.a, 0, task / cut);
    job->kernels->backward_keys(&unit.a, unit.head, keys.begin, keys.end, scratch);
}

/* Computes dq of one block of queries of one head of a cut unit. */
static void queries_task(const attention_job *job, size_t task, float *scratch) {
    head_place h = head_at(job, job->cut_heads_begin + task % job->cut_heads);
    block_range queries = range_of(&h.a, 0, job->blocks - 1 - task / job->cut_heads);
    job->kernels->backward_queries(&h.a, h.head, h.head + 1, queries.begin, queries.end, scratch);
}

/* Task: runs a whole unit, or a block of keys, or a block of queries, in this order of task numbers. */
static void backward_task(void *ctx, size_t task, int thread) {
    const attention_job *job = ctx;
    float *scratch = scratch_of(job, thread);
    size_t keys_tasks = (job->units - job->whole) * job->blocks;
    if (task < job->whole) {
        head_place unit = unit_at(job, task);
        job->kernels->backward(&unit.a, unit.head, scratch);
    } else if (task - job->whole < keys_tasks) {
        keys_task(job, task - job->whole, scratch);
    } else {
        queries_task(job, task - job->whole - keys_tasks, scratch);
    }
}

/* Below this bound sizes do not overflow; no machine has the scratch for more. */
#define T_MAX ((size_t)1 << 40)

/* Sets the scratch of all threads, for the part that needs most. LS_ERR_RESOURCE if memory is short. */
static ls_status open_scratch(ls_cpu_device *cpu, const ls_attention_call *call, attention_job *job) {
    size_t threads = (size_t)ls_pool_threads(cpu->pool), bytes = 0, T = call->parts[0].T;
    if (T > T_MAX)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for attention over %zu positions; use shorter sequences", T);
    for (int p = 0; p < call->nparts; p++) {
        /* Whole cache lines, so that threads share none. */
        size_t elems = (ls_attention_scratch_elems(&call->parts[p]) + 15) / 16 * 16;
        if (elems > job->scratch_elems) job->scratch_elems = elems;
    }
    if (__builtin_mul_overflow(job->scratch_elems, sizeof(float) * threads, &bytes)) bytes = SIZE_MAX;
    void *scratch;
    LS_TRY(ls_cpu_scratch(cpu, bytes, &scratch));
    job->scratch = scratch;
    return LS_OK;
}

/* Sets *out to the kernels for the call's type and matrix unit. The units of x86-64 have no attention of their own:
 * they use the kernels of chains. LS_ERR_INPUT for another type, and for BFMMLA on a CPU without it or with a sliding
 * window.
 */
static ls_status choose_kernels(const ls_kernels *kernels, const ls_attention *a, const ls_attention_kernels **out) {
    if (a->act != LS_F32 && a->act != LS_BF16 && a->act != LS_F16)
        return ls_fail(LS_ERR_INPUT, "attention on tensors of type %d: must be fp32, bf16 or fp16", (int)a->act);
    bool is_unit = a->act == LS_BF16 && a->unit == LS_UNIT_BFMMLA;
    *out = is_unit ? &kernels->attention_bfmmla : &kernels->attention;
    if (a->act != LS_F32 && ls_unit_is_tensor_core(a->unit)) *out = &kernels->attention_hgmma;
    if (is_unit && !ls_mask_is_causal(a->mask))
        return ls_fail(LS_ERR_INPUT,
                       "attention with a window of %zu keys: unit bfmmla has causal attention only; use unit \"chain\"",
                       a->mask.window);
    if (is_unit && (*out)->forward == NULL)
        return ls_fail(LS_ERR_INPUT, "this CPU has no BFMMLA; use unit \"chain\", or a CPU with BF16");
    return LS_OK;
}

/* Checks the call, chooses kernels, counts heads and blocks, and allocates scratch; not yet which units are cut. */
static ls_status open_job(ls_cpu_device *cpu, const ls_attention_call *call, attention_job *job) {
    assert(call->nparts >= 1);
    const ls_attention *first = &call->parts[0];
    *job = (attention_job){.call = call};
    LS_TRY(choose_kernels(cpu->kernels, first, &job->kernels));
    for (int p = 0; p < call->nparts; p++) {
        const ls_attention *a = &call->parts[p];
        assert(a->heads % a->kv_heads == 0 && a->first_query <= a->T && a->scale > 0);
        assert(a->T == first->T && a->head_size == first->head_size && a->first_query == first->first_query);
        assert(a->act == first->act && a->unit == first->unit && a->mask.window == first->mask.window);
        job->heads += a->heads;
        job->kv_heads += a->kv_heads;
    }
    job->blocks = (first->T - first->first_query + LS_ATTENTION_BLOCK - 1) / LS_ATTENTION_BLOCK;
    job->units = call->B * job->kv_heads;
    return open_scratch(cpu, call, job);
}

/* Makes the first `whole` units whole tasks; the heads of the others are cut into blocks. */
static void cut_units(attention_job *job, size_t whole) {
    job->whole = whole;
    job->cut_heads_begin = whole < job->units ? first_head_of(job, whole) : job->call->B * job->heads;
    job->cut_heads = job->call->B * job->heads - job->cut_heads_begin;
}

/* Returns how many units forward leaves whole: with one thread all; else those of all full rounds of the threads but
 * the last, so that the blocks of the last full round and of the rest balance. */
static size_t forward_whole(size_t units, size_t threads) {
    size_t rounds = units / threads;
    return threads == 1 ? units : rounds > 1 ? (rounds - 1) * threads : 0;
}

/* Returns how many units backward leaves whole: those of full rounds of the threads, and the rest too if it has at
 * least 5/7 as many units as there are threads: blocks take seven matmuls, not five, but leave no thread idle. */
static size_t backward_whole(size_t units, size_t threads) {
    size_t rest = units % threads;
    return rest * 7 >= threads * 5 ? units : units - rest;
}

/* Computes o, m and l of all sequences, parts and heads. */
ls_status ls_cpu_op_attention_forward(ls_device *device, const ls_attention_call *call) {
    ls_cpu_device *cpu = ls_cpu_enter(device);
    attention_job job;
    LS_TRY(open_job(cpu, call, &job));
    cut_units(&job, forward_whole(job.units, (size_t)ls_pool_threads(cpu->pool)));
    ls_pool_run(cpu->pool, job.whole + job.cut_heads * job.blocks, forward_task, &job);
    return LS_OK;
}

/* Computes dots, then dq, dk and dv, of all sequences, parts and heads. first_query must be 0. */
ls_status ls_cpu_op_attention_backward(ls_device *device, const ls_attention_call *call) {
    assert(call->parts[0].first_query == 0);
    ls_cpu_device *cpu = ls_cpu_enter(device);
    attention_job job;
    LS_TRY(open_job(cpu, call, &job));
    ls_pool_run(cpu->pool, call->B * (size_t)call->nparts * job.blocks, dots_task, &job);
    cut_units(&job, backward_whole(job.units, (size_t)ls_pool_threads(cpu->pool)));
    size_t cut_tasks = (job.units - job.whole + job.cut_heads) * job.blocks;
    ls_pool_run(cpu->pool, job.whole + cut_tasks, backward_task, &job);
    return LS_OK;
}
