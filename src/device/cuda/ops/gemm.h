/* gemm.h: functions by which the files that launch GEMMs (gemm.c, hgmma.c, conv_grad.c, library.c) call each
 * other. choices.h explains the ways to compute one. */
#ifndef LS_DEVICE_CUDA_OPS_GEMM_H
#define LS_DEVICE_CUDA_OPS_GEMM_H

#include "device/cuda/args/gemm.h"
#include "device/cuda/choices.h"
#include "device/cuda/launch.h"
#include "device/calls.h"

/* Launches a GEMM without a fused epilogue (g->end) by our own kernels. If ls_cuda_hgmma_takes() it, `way`, below
 * LS_CUDA_LIBRARY, chooses the implementation; an audit replaces the way by another one. If there is none, and for all
 * other GEMMs, which ignore `way`, an estimate chooses among the other kernels. If partial sums of slices do not fit
 * into scratch, C is computed in halves by rows. LS_ERR_INPUT if that is impossible, or a gather has more than 2^31 − 1
 * rows or columns. */
ls_status ls_cuda_gemm_run_own(ls_device *device, const ls_gemm *g, ls_cuda_way way);

/* Launches the second kernel of a split-K GEMM: adds the sums of the slices (fixed parts of k) at args->parts by a
 * balanced binary tree into C, and runs the epilogue (siblings, bias, rounding). */
ls_status ls_cuda_gemm_join_parts(ls_device *device, const ls_cuda_gemm *args);

/* A special kernel for the weight gradient of a convolution, with its tile sizes (conv_grad.c). */
typedef struct ls_cuda_windows ls_cuda_windows;

/* Returns the special kernel for the weight gradient that this GEMM over patches computes, or NULL if none fits
 * and the caller runs a plain GEMM. `args`: the kernel's arguments of the same GEMM. The result is static. */
const ls_cuda_windows *ls_cuda_windows_of(const ls_gemm *g, const ls_cuda_gemm *args);
/* Launches a special kernel that ls_cuda_windows_of() returned. With several slices it takes scratch memory for
 * the sum of each and joins them. */
ls_status ls_cuda_windows_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm_gather *args,
                              const ls_cuda_windows *windows);

#endif
