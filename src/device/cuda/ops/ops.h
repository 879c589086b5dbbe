/* ops.h: the host side of the operations on a GPU: each checks its call, chooses a grid and starts kernels. */
#ifndef LS_DEVICE_CUDA_OPS_OPS_H
#define LS_DEVICE_CUDA_OPS_OPS_H

#include "device/cuda/launch.h"

/* A matmul by chains that was checked. */
ls_status ls_cuda_gemm_run(ls_device *device, const ls_gemm *g);

void ls_cuda_ops_fill_gemm(ls_ops *ops);
void ls_cuda_ops_fill_conv(ls_ops *ops);
void ls_cuda_ops_fill_attention(ls_ops *ops);
void ls_cuda_ops_fill_pooling(ls_ops *ops);
void ls_cuda_ops_fill_batch_norm(ls_ops *ops);
void ls_cuda_ops_fill_norm(ls_ops *ops);
void ls_cuda_ops_fill_act(ls_ops *ops);
void ls_cuda_ops_fill_sum(ls_ops *ops);
void ls_cuda_ops_fill_optim(ls_ops *ops);
void ls_cuda_ops_fill_convert(ls_ops *ops);
void ls_cuda_ops_fill_dropout(ls_ops *ops);
void ls_cuda_ops_fill_embed(ls_ops *ops);
void ls_cuda_ops_fill_token_sums(ls_ops *ops);
void ls_cuda_ops_fill_embed_grad(ls_ops *ops);
void ls_cuda_ops_fill_loss(ls_ops *ops);
void ls_cuda_ops_fill_count(ls_ops *ops);
void ls_cuda_ops_fill_hash(ls_ops *ops);
void ls_cuda_ops_fill_peak(ls_ops *ops);

#endif
