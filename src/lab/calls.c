/* calls.c: makes and runs the calls that bench and probe time. */
#include "lab/calls.h"

/* ---- matmuls and attention --------------------------------------------------------------------------------------- */

float ls_operand_value(size_t i) { return (float)((uint32_t)i * 2654435761u >> 22) / 512.0f - 1.0f; }

void ls_operand_matmul(ls_gemm *g, ls_gemm_form form, size_t m, size_t n, size_t k, int slices, size_t *bounds) {
    g->form = form;
    g->m = m;
    g->n = n;
    g->k = k;
    g->lda = form == LS_GEMM_TN ? m : k;
    g->ldb = form == LS_GEMM_NT ? k : n;
    g->ldc = n;
    g->slices = slices;
    g->bounds = slices > 1 ? bounds : NULL;
    for (int i = 0; i <= slices; i++) bounds[i] = k * (size_t)i / (size_t)slices;
}

ls_attention_call ls_operand_attention(const ls_operand_heads *h, ls_attention *part) {
    size_t width = h->heads * h->d, row = 3 * width, stats = h->heads * h->T, bytes = ls_dtype_bytes(h->act);
    char *qkv = h->qkv, *dqkv = h->dqkv;
    *part = (ls_attention){
        .T = h->T,
        .heads = h->heads,
        .kv_heads = h->heads,
        .head_size = h->d,
        .act = h->act,
        .unit = h->unit,
        .scale = 0.125f,
        .q = {qkv, row, h->d},
        .k = {qkv + width * bytes, row, h->d},
        .v = {qkv + 2 * width * bytes, row, h->d},
        .o = {h->o, width, h->d},
        .m = h->stats,
        .l = h->stats + stats,
        .dots = h->stats + 2 * stats,
        .stat_stride = h->T,
        .dout = {h->dout, width, h->d},
        .dq = {dqkv, row, h->d},
        .dk = {dqkv + width * bytes, row, h->d},
        .dv = {dqkv + 2 * width * bytes, row, h->d},
    };
    return (ls_attention_call){
        .parts = part, .nparts = 1, .B = 1, .query_rows = h->T, .key_rows = h->T, .stat_elems = stats};
}

ls_attention_drop ls_operand_drop(const ls_operand_heads *h) {
    return (ls_attention_drop){
        .threshold = ls_dropout_threshold(0.1), .scale = ls_dropout_scale(0.1), .heads = h->heads};
}

/* ---- collectives and messages ------------------------------------------------------------------------------------ */

void ls_link_resize(ls_link_vector *v, size_t bytes) {
    v->elems = bytes / sizeof(float);
    for (int r = 0; r <= v->size; r++) v->shards[r] = v->elems * (size_t)r / (size_t)v->size;
    for (int r = 0; r < v->size; r++) v->shard_bytes[r] = (v->shards[r + 1] - v->shards[r]) * sizeof(float);
}

/* Sends the vector from rank 0 to rank 1 and back; other ranks return at once. */
static ls_status ping_pong(const ls_link_vector *v) {
    size_t bytes = v->elems * sizeof(float);
    if (v->rank > 1) return LS_OK;
    if (v->rank == 0) LS_TRY(ls_comm_send(v->comm, 1, 0, v->in, bytes));
    LS_TRY(ls_comm_recv(v->comm, 1 - v->rank, 0, v->out, bytes));
    return v->rank == 0 ? LS_OK : ls_comm_send(v->comm, 0, 0, v->in, bytes);
}

ls_status ls_link_call(void *vector) {
    const ls_link_vector *v = vector;
    const void *part = v->in;
    switch (v->op) {
    case LS_NATIVE_ALL_REDUCE: return ls_comm_all_reduce(v->comm, NULL, LS_F32, &part, v->out, v->elems);
    case LS_NATIVE_REDUCE_SCATTER:
        return ls_comm_reduce_scatter(v->comm, NULL, LS_F32, &part, v->out, v->shards, v->elems);
    case LS_NATIVE_ALL_GATHER: return ls_comm_all_gather(v->comm, v->in, v->out, v->shard_bytes);
    default: return ping_pong(v);
    }
}

ls_status ls_link_time(const ls_timer *timer, ls_link_vector *v, ls_timing *out) {
    LS_TRY(ls_timer_run(timer, ls_link_call, v, out));
    for (int i = 0; i < out->samples && v->op == LS_NATIVE_SEND; i++) out->seconds[i] *= v->rank > 1 ? 0 : 0.5;
    return LS_OK;
}
