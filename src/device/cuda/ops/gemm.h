/* gemm.h: functions that gemm.c, hgmma.c and conv_grad.c call in each other. */
#ifndef LS_DEVICE_CUDA_OPS_GEMM_H
#define LS_DEVICE_CUDA_OPS_GEMM_H

#include "device/cuda/args/gemm.h"
#include "device/cuda/choices.h"
#include "device/cuda/launch.h"
#include "device/calls.h"

/* Runs a GEMM by our own kernels. With the matrix unit hgmma, `way` chooses the implementation: one that can run this
 * GEMM, and not LS_CUDA_LIBRARY. */
ls_status ls_cuda_gemm_run_own(ls_device *device, const ls_gemm *g, ls_cuda_way way);

/* Adds the slices that blocks computed separately into args->parts, by the tree, and runs the epilogue (siblings, bias,
 * rounding). */
ls_status ls_cuda_gemm_join_parts(ls_device *device, const ls_cuda_gemm *args);

typedef struct ls_cuda_windows ls_cuda_windows;

/* Returns the special kernel for the weight gradient that this GEMM over patches computes, or NULL if none fits. */
const ls_cuda_windows *ls_cuda_windows_of(const ls_gemm *g, const ls_cuda_gemm *args);
/* Runs that kernel. With several slices it takes scratch memory for the sum of each. */
ls_status ls_cuda_windows_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm_gather *args,
                              const ls_cuda_windows *windows);

#endif
