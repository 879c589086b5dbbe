/* gemm.h: what gemm.c, hgmma.c and conv_grad.c have of each other. */
#ifndef LS_DEVICE_CUDA_OPS_GEMM_H
#define LS_DEVICE_CUDA_OPS_GEMM_H

#include "device/cuda/args/gemm.h"
#include "device/cuda/choices.h"
#include "device/cuda/launch.h"
#include "device/calls.h"

/* By our own kernels; with the unit hgmma in a way that it can be made in, before LS_CUDA_LIBRARY. */
ls_status ls_cuda_gemm_run_own(ls_device *device, const ls_gemm *g, ls_cuda_way way);

/* Slices that were made apart: the tree over them, and what comes behind it. */
ls_status ls_cuda_gemm_join_parts(ls_device *device, const ls_cuda_gemm *args);

typedef struct ls_cuda_windows ls_cuda_windows;

/* A kernel for the gradient of weights that this product over patches is, or NULL. It takes scratch for a sum of each
 * slice, where there are several. */
const ls_cuda_windows *ls_cuda_windows_of(const ls_gemm *g, const ls_cuda_gemm *args);
ls_status ls_cuda_windows_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm_gather *args,
                              const ls_cuda_windows *windows);

#endif
