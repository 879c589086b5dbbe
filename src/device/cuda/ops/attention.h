/* attention.h: shared by the host code of attention: attention.c, which checks every call and runs those with
 * chains (plain fused multiply-adds), and attention_hgmma.c, which it calls for the matrix unit hgmma (tensor
 * cores of Hopper GPUs). */
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

/* Launches the forward kernels of a call that attention.c has checked, with 16-bit tensors and the
 * unit hgmma, on the current queue. Takes scratch for dropout. */
ls_status ls_cuda_attention_hgmma_forward(ls_device *device, const ls_attention_call *call,
                                          const ls_cuda_attention_job *job);
/* Launches the backward kernels (dots, dq, dk, dv) of a call that attention.c has checked, with 16-bit tensors and
 * the unit hgmma. Takes scratch. */
ls_status ls_cuda_attention_hgmma_backward(ls_device *device, const ls_attention_call *call,
                                           const ls_cuda_attention_job *job);

#endif
