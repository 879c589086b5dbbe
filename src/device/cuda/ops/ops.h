/* ops.h: the host side of the operations on a GPU. ls_cuda_op_gemm() and so on check their calls, choose a grid and
 * launch kernels on the current queue; device/ops.h says what they compute. */
#ifndef LS_DEVICE_CUDA_OPS_OPS_H
#define LS_DEVICE_CUDA_OPS_OPS_H

#include "device/cuda/launch.h"

#define LS_CUDA_OP(name, call_type) ls_status ls_cuda_op_##name(ls_device *device, const call_type *call);
LS_OPS(LS_CUDA_OP)
#undef LS_CUDA_OP

/* The members gemm_ends and peak_flops_s of the table (device/ops.h). The latter waits for the GPU. */
bool ls_cuda_gemm_ends(ls_device *device, const ls_gemm *call);
double ls_cuda_peak_flops_s(ls_device *device, ls_unit unit);

#endif
