/* ops.h: the host side of the operations on a GPU, for the table ls_cuda_ops (ops.c) and for operations that call
 * others. ls_cuda_op_gemm() and so on check their calls, choose a grid and launch kernels on the current queue;
 * device/ops.h says what they compute, device/calls.h what their arguments mean. They return before the kernels
 * have run, except a GEMM that has its trial (library.h). LS_ERR_INPUT for a call that a GPU does not take. */
#ifndef LS_DEVICE_CUDA_OPS_OPS_H
#define LS_DEVICE_CUDA_OPS_OPS_H

#include "device/cuda/launch.h"

/* Declares ls_cuda_op_gemm() and all others of LS_OPS. */
#define LS_CUDA_OP(name, call_type) ls_status ls_cuda_op_##name(ls_device *device, const call_type *call);
LS_OPS(LS_CUDA_OP)
#undef LS_CUDA_OP

/* Returns whether ls_cuda_op_gemm() can run this GEMM together with its epilogue (call->end, which must be set); if
 * not, the caller runs the activation itself. The entry gemm_ends of the table. */
bool ls_cuda_gemm_ends(ls_device *device, const ls_gemm *call);
/* Measures the most FLOP/s that the GPU reaches with a matrix unit (LS_UNIT_CHAIN: in fp32); 0: not known. Waits
 * for the GPU. The member peak_flops_s of the table. */
double ls_cuda_peak_flops_s(ls_device *device, ls_unit unit);

#endif
