/* attention.h: shared by the host code of attention: attention.c, which checks every call and runs those with
 * chains (plain fused multiply-adds), and attention_hgmma.c, which it calls for 16-bit tensors with the unit of any
 * tensor cores (hgmma is that of Hopper GPUs). */
#ifndef LS_DEVICE_CUDA_OPS_ATTENTION_H
#define LS_DEVICE_CUDA_OPS_ATTENTION_H

#include "device/cuda/args/attention.h"
#include "device/cuda/ops/ops.h"

/* A checked call: the kernel's arguments, with the list of parts on the device, and the sizes of the call. heads
 * and kv_heads count all parts; queries are those of one sequence. */
typedef struct ls_cuda_attention_job {
    ls_cuda_attention args;
    size_t B, heads, kv_heads, queries;
} ls_cuda_attention_job;

/* Launches the forward kernels of a call that attention.c has checked, with 16-bit tensors and a unit of tensor cores,
 * on the current queue. Takes scratch for dropout. LS_ERR_INPUT of this machine if heads of this size need more shared
 * memory than a block of the GPU has. */
ls_status ls_cuda_attention_hgmma_forward(ls_device *device, const ls_attention_call *call,
                                          const ls_cuda_attention_job *job);
/* Launches the backward kernels (dots, dq, dk, dv) of a call that attention.c has checked, with 16-bit tensors and
 * a unit of tensor cores. Takes scratch for statistics and dropout, and for sums of dq where one kernel makes all
 * gradients. Errors as above. */
ls_status ls_cuda_attention_hgmma_backward(ls_device *device, const ls_attention_call *call,
                                           const ls_cuda_attention_job *job);

#endif
