/* attention.c: launches attention for B sequences. With chains (dot products in ascending order, one fused multiply-add
 * after another) its own kernels (kernels/attention.cu); for 16-bit tensors with a unit of tensor cores those of
 * attention_hgmma.c. A call has one or more parts (slices of the heads), computed by one launch: each block looks up
 * its head in the list of parts. */
#include "device/cuda/args/attention.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "device/cuda/ops/attention.h"

enum {
    T_MAX = 1 << 30,
    QUERIES_MAX = 65535 * 32, /* the limit of a grid's z, in the smallest tiles */
    FEW_QUERIES = 16,         /* this many or fewer have a block each */
    PARTS_MAX = LS_CUDA_LIST_BYTES / sizeof(ls_cuda_attention_part),
};

/* One pass over tiles: its kernel, for heads of at most `size` elements; the rows of the tile that a block owns
 * (`own`), and of the tiles that it streams through (`other`); for keys, how many of the streamed tiles are in
 * shared memory. */
typedef struct pass {
    ls_cuda_kernel kernel;
    size_t size, own, other, tiles;
} pass;

/* By the size of heads: 64, 128, any up to 128, any up to 256. */
enum { SIZES = 4 };
static const pass forward_passes[SIZES] = {{LS_CUDA_attention_forward_64, 64, 128, 64, 0},
                                           {LS_CUDA_attention_forward_128, 128, 64, 48, 0},
                                           {LS_CUDA_attention_forward_any, 128, 64, 48, 0},
                                           {LS_CUDA_attention_forward_wide, 256, 64, 64, 0}};
static const pass queries_passes[SIZES] = {{LS_CUDA_attention_queries_64, 64, 128, 64, 0},
                                           {LS_CUDA_attention_queries_128, 128, 64, 64, 0},
                                           {LS_CUDA_attention_queries_any, 128, 64, 64, 0},
                                           {LS_CUDA_attention_queries_wide, 256, 32, 32, 0}};
static const pass keys_passes[SIZES] = {{LS_CUDA_attention_keys_64, 64, 128, 64, 2},
                                        {LS_CUDA_attention_keys_128, 128, 64, 64, 1},
                                        {LS_CUDA_attention_keys_any, 128, 64, 64, 1},
                                        {LS_CUDA_attention_keys_wide, 256, 32, 32, 2}};

/* Returns the row of the tables above for this head size; 3, heads of more than 128 elements, up to 256. */
static int size_index(size_t head_size) { return head_size == 64 ? 0 : head_size == 128 ? 1 : head_size < 128 ? 2 : 3; }

/* Returns the kernel's view of a tensor of heads; its sequences are `rows` rows apart. */
static ls_cuda_heads heads_of(const void *at, size_t row_stride, size_t head_stride, size_t rows) {
    ls_cuda_heads h = {.row_stride = row_stride, .head_stride = head_stride, .sequence_stride = rows * row_stride};
    memcpy(&h.at, &at, sizeof at);
    return h;
}

/* Returns whether every row of every head allows loads of four elements. */
static bool is_aligned(const ls_cuda_heads *h, ls_dtype act) {
    return (uintptr_t)h->at % (4 * ls_dtype_bytes(act)) == 0 && h->row_stride % 4 == 0 && h->head_stride % 4 == 0;
}

LS_ASSERT_ARGS(ls_attention, 22);
/* Converts one part of a call to the kernel's argument. */
static ls_cuda_attention_part part_of(const ls_attention_call *call, const ls_attention *a) {
    size_t queries = call->query_rows, keys = call->key_rows;
    return (ls_cuda_attention_part){
        .heads = (uint32_t)a->heads,
        .kv_heads = (uint32_t)a->kv_heads,
        .scale = a->scale,
        .drop_threshold = a->drop.threshold,
        .drop_scale = a->drop.scale,
        .drop_key = {a->drop.key.seed, a->drop.key.step, a->drop.key.purpose},
        .drop_head0 = a->drop.head0,
        .drop_heads = a->drop.heads,
        .q = heads_of(a->q.at, a->q.row_stride, a->q.head_stride, queries),
        .k = heads_of(a->k.at, a->k.row_stride, a->k.head_stride, keys),
        .v = heads_of(a->v.at, a->v.row_stride, a->v.head_stride, keys),
        .o = heads_of(a->o.at, a->o.row_stride, a->o.head_stride, queries),
        .dout = heads_of(a->dout.at, a->dout.row_stride, a->dout.head_stride, queries),
        .dq = heads_of(a->dq.at, a->dq.row_stride, a->dq.head_stride, queries),
        .dk = heads_of(a->dk.at, a->dk.row_stride, a->dk.head_stride, keys),
        .dv = heads_of(a->dv.at, a->dv.row_stride, a->dv.head_stride, keys),
        .m = a->m,
        .l = a->l,
        .dots = a->dots,
        .stat_stride = a->stat_stride,
    };
}

/* Returns whether all tensors of a part allow loads of four elements; those of backward only if `backward`. */
static bool part_is_aligned(const ls_cuda_attention_part *p, ls_dtype act, bool backward) {
    const ls_cuda_heads *all[] = {&p->q, &p->k, &p->v, &p->o, &p->dout, &p->dq, &p->dk, &p->dv};
    for (int i = 0; i < (backward ? 8 : 4); i++)
        if (!is_aligned(all[i], act)) return false;
    return true;
}

/* Checks what a GPU supports, by the first part: type, unit, causal mask, head size, length and number of parts.
 * LS_ERR_INPUT or, for too many positions, LS_ERR_RESOURCE. */
static ls_status check_attention(const ls_attention_call *call) {
    const ls_attention *a = &call->parts[0];
    if (a->act != LS_F32 && a->act != LS_BF16 && a->act != LS_F16)
        return ls_fail(LS_ERR_INPUT, "attention on tensors of type %d: must be fp32, bf16 or fp16", (int)a->act);
    if (a->act == LS_BF16 && a->unit == LS_UNIT_BFMMLA)
        return ls_fail(LS_ERR_INPUT, "a GPU has no BFMMLA; use unit \"chain\", or --device cpu");
    if (!ls_mask_is_causal(a->mask))
        return ls_fail(LS_ERR_INPUT,
                       "attention with a window of %zu keys: a GPU has causal attention only; use "
                       "--device cpu",
                       a->mask.window);
    if (a->head_size > LS_CUDA_ATTENTION_HEAD_MAX)
        return ls_fail(LS_ERR_INPUT,
                       "attention heads of %zu numbers: a GPU takes at most %d; use more heads, or --device cpu",
                       a->head_size, LS_CUDA_ATTENTION_HEAD_MAX);
    if (a->T > T_MAX || a->T - a->first_query > QUERIES_MAX)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for attention over %zu positions; use shorter sequences", a->T);
    if (call->nparts > PARTS_MAX)
        return ls_fail(LS_ERR_INPUT, "attention in %d parts: a GPU takes at most %d; use fewer slices", call->nparts,
                       PARTS_MAX);
    return LS_OK;
}

/* Checks a call (check_attention) and fills *job, with the list of parts on the device. `backward`: gradients must
 * be aligned, too, for vector loads. */
static ls_status open_job(ls_device *device, const ls_attention_call *call, bool backward, ls_cuda_attention_job *job) {
    assert(call->nparts >= 1);
    LS_TRY(check_attention(call));
    const ls_attention *first = &call->parts[0];
    ls_cuda_attention_part parts[PARTS_MAX];
    bool is_vector = first->head_size % 4 == 0;
    *job = (ls_cuda_attention_job){.B = call->B, .queries = first->T - first->first_query};
    for (int p = 0; p < call->nparts; p++) {
        const ls_attention *a = &call->parts[p];
        assert(a->heads % a->kv_heads == 0 && a->first_query <= a->T && a->scale > 0);
        assert(a->T == first->T && a->head_size == first->head_size && a->first_query == first->first_query);
        assert(a->act == first->act && a->unit == first->unit);
        parts[p] = part_of(call, a);
        is_vector = is_vector && part_is_aligned(&parts[p], a->act, backward);
        job->heads += a->heads;
        job->kv_heads += a->kv_heads;
    }
    const void *list;
    LS_TRY(ls_cuda_list(device, parts, (size_t)call->nparts * sizeof *parts, &list));
    job->args = (ls_cuda_attention){
        .parts = list,
        .T = (int)first->T,
        .first_query = (int)first->first_query,
        .head_size = (int)first->head_size,
        .act = (int)first->act,
        .is_vector = is_vector,
        .stat_elems = call->stat_elems,
    };
    return LS_OK;
}

/* Launches a pass over `rows` rows of `heads` heads of every sequence, a block for each p->own of them, with
 * `elems` floats of shared memory. Nothing without sequences. */
static ls_status run_pass(ls_device *device, const ls_cuda_attention_job *job, const pass *p, size_t rows, size_t heads,
                          unsigned threads, size_t elems) {
    if (!job->B) return LS_OK;
    ls_cuda_grid grid = {heads, job->B, ls_cuda_divide_up(rows, p->own)};
    return ls_cuda_launch(device, p->kernel, grid, threads, elems * sizeof(float), &job->args);
}

/* Launches the first step of backward: D of the contract, the dot product of dout and o for each query and head. */
static ls_status run_dots(ls_device *device, const ls_cuda_attention_job *job) {
    if (!job->B) return LS_OK;
    ls_cuda_grid grid = {ls_cuda_divide_up(job->queries, LS_CUDA_ATTENTION_DOTS_ROWS), job->heads, job->B};
    return ls_cuda_launch(device, LS_CUDA_attention_dots, grid, 16 * LS_CUDA_ATTENTION_DOTS_ROWS, 0, &job->args);
}

/* Launches forward for few queries (generation): a block for each query and head, with its scores in `bytes` of
 * shared memory. */
static ls_status run_few(ls_device *device, const ls_cuda_attention_job *job, size_t bytes) {
    ls_cuda_grid grid = {job->queries, job->heads, job->B};
    return ls_cuda_launch(device, LS_CUDA_attention_few, grid, LS_CUDA_ATTENTION_FEW_THREADS, bytes, &job->args);
}

/* Returns whether attention_hgmma.c computes this call: 16-bit tensors, and the unit is one of tensor cores, hgmma or
 * not. */
static bool is_hgmma(const ls_attention_call *call) {
    return call->parts[0].act != LS_F32 && ls_unit_is_tensor_core(call->parts[0].unit);
}

/* Launches attention forward, which writes o, m and l (m and l: maximum and sum of each row's softmax). The kernels:
 * tensor cores if is_hgmma(); a block per query and head if there are few queries (generation) whose scores fit into
 * shared memory; otherwise tiles. */
ls_status ls_cuda_op_attention_forward(ls_device *device, const ls_attention_call *call) {
    ls_cuda_attention_job job;
    LS_TRY(open_job(device, call, false, &job));
    if (is_hgmma(call)) return ls_cuda_attention_hgmma_forward(device, call, &job);
    size_t few_bytes =
        (LS_CUDA_ATTENTION_HEAD_MAX + LS_CUDA_ATTENTION_FEW_THREADS / 32 + (size_t)job.args.T) * sizeof(float);
    if (job.B && job.queries <= FEW_QUERIES && few_bytes <= ls_cuda_shared_max(device))
        return run_few(device, &job, few_bytes);
    const pass *p = &forward_passes[size_index(call->parts[0].head_size)];
    return run_pass(device, &job, p, job.queries, job.heads, LS_CUDA_ATTENTION_FORWARD_THREADS,
                    LS_CUDA_ATTENTION_FORWARD_ELEMS(p->size, p->own, p->other));
}

/* Launches the computation of dots, then dq (a pass per query tile), then dk and dv (a pass per key tile), or the
 * kernels for tensor cores (is_hgmma). first_query must be 0. */
ls_status ls_cuda_op_attention_backward(ls_device *device, const ls_attention_call *call) {
    assert(call->parts[0].first_query == 0);
    ls_cuda_attention_job job;
    LS_TRY(open_job(device, call, true, &job));
    if (is_hgmma(call)) return ls_cuda_attention_hgmma_backward(device, call, &job);
    int size = size_index(call->parts[0].head_size);
    const pass *q = &queries_passes[size], *k = &keys_passes[size];
    LS_TRY(run_dots(device, &job));
    LS_TRY(run_pass(device, &job, q, job.queries, job.heads, LS_CUDA_ATTENTION_BACKWARD_THREADS,
                    LS_CUDA_ATTENTION_QUERIES_ELEMS(q->size, q->own, q->other)));
    return run_pass(device, &job, k, job.queries, job.kv_heads, LS_CUDA_ATTENTION_BACKWARD_THREADS,
                    LS_CUDA_ATTENTION_KEYS_ELEMS(k->size, k->own, k->other, k->tiles));
}
