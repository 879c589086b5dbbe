/* attention.h: what attention by chains (attention.c) and with the unit hgmma (attention_hgmma.c) share. */
#ifndef LS_DEVICE_CUDA_OPS_ATTENTION_H
#define LS_DEVICE_CUDA_OPS_ATTENTION_H

#include "device/cuda/args/attention.h"
#include "device/cuda/ops/ops.h"

/* A call as kernels take it; numbers of heads are those of all parts. */
typedef struct ls_cuda_attention_job {
    ls_cuda_attention args;
    size_t B, heads, kv_heads, queries;
} ls_cuda_attention_job;

/* LS_ERR_INPUT for what a GPU does not take. */
ls_status ls_cuda_attention_open(ls_device *device, const ls_attention_call *call, bool backward,
                                 ls_cuda_attention_job *job);

ls_status ls_cuda_attention_hgmma_forward(ls_device *device, const ls_attention_call *call,
                                          const ls_cuda_attention_job *job);
ls_status ls_cuda_attention_hgmma_backward(ls_device *device, const ls_attention_call *call,
                                           const ls_cuda_attention_job *job);

#endif
