/* operands.c: what bench and probe feed the operations. */
#include "lab/operands.h"

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
