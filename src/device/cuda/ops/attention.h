/* attention.h: shared by attention with chains (attention.c) and with the matrix unit hgmma (attention_hgmma.c). */
#ifndef LS_DEVICE_CUDA_OPS_ATTENTION_H
#define LS_DEVICE_CUDA_OPS_ATTENTION_H

#include "device/cuda/args/attention.h"
#include "device/cuda/ops/ops.h"

/* The kernel's arguments and the sizes of a call; heads and kv_heads count all parts. */
typedef struct ls_cuda_attention_job {
    ls_cuda_attention args;
    size_t B, heads, kv_heads, queries;
} ls_cuda_attention_job;

/* Launch the kernels of a call that has been checked, with 16-bit tensors and the unit hgmma. They take scratch for
 * backward and for dropout. */
ls_status ls_cuda_attention_hgmma_forward(ls_device *device, const ls_attention_call *call,
                                          const ls_cuda_attention_job *job);
ls_status ls_cuda_attention_hgmma_backward(ls_device *device, const ls_attention_call *call,
                                           const ls_cuda_attention_job *job);

#endif
