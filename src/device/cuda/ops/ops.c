/* ops.c: the table of operations of a GPU. */
#include "device/cuda/ops/ops.h"

void ls_cuda_ops_fill(ls_ops *ops) {
    ls_cuda_ops_fill_gemm(ops);
    ls_cuda_ops_fill_conv(ops);
    ls_cuda_ops_fill_attention(ops);
    ls_cuda_ops_fill_pooling(ops);
    ls_cuda_ops_fill_batch_norm(ops);
    ls_cuda_ops_fill_norm(ops);
    ls_cuda_ops_fill_act(ops);
    ls_cuda_ops_fill_sum(ops);
    ls_cuda_ops_fill_optim(ops);
    ls_cuda_ops_fill_convert(ops);
    ls_cuda_ops_fill_dropout(ops);
    ls_cuda_ops_fill_embed(ops);
    ls_cuda_ops_fill_token_sums(ops);
    ls_cuda_ops_fill_embed_grad(ops);
    ls_cuda_ops_fill_loss(ops);
    ls_cuda_ops_fill_count(ops);
    ls_cuda_ops_fill_hash(ops);
    ls_cuda_ops_fill_peak(ops);
}
