/* hgmma.h: GEMMs of the matrix unit hgmma (16-bit matmuls by wgmma on Hopper's tensor cores) by our own TMA
 * kernels; for gemm.c and library.c. ../choices.h explains the ways to compute one. */
#ifndef LS_DEVICE_CUDA_OPS_HGMMA_H
#define LS_DEVICE_CUDA_OPS_HGMMA_H

#include "device/cuda/args/hgmma.h"
#include "device/cuda/choices.h"
#include "device/cuda/ops/gemm.h"

/* Returns whether these kernels can run this GEMM: its unit is hgmma, the GPU has wgmma and TMA (ls_cuda_has_wgmma),
 * k and all slices are not empty, and sizes and alignment are such that TMA can load the operands. If not, the
 * caller uses the kernels with mma.sync (mma_gemm.cu, hgmma_any.cu). */
bool ls_cuda_hgmma_takes(ls_device *device, const ls_gemm *g);
/* Launches a GEMM that ls_cuda_hgmma_takes() in the given way, one below LS_CUDA_LIBRARY; in an audit in another
 * one, if there is one. `args` are the arguments of hgmma_any.cu. *is_done is false if nothing was run, because
 * scratch memory is short or the shape rules this way out; the caller then uses other kernels. */
ls_status ls_cuda_hgmma_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args, ls_cuda_way way,
                            bool *is_done);
/* Returns whether this GEMM can run in the given way and, unless that is LS_CUDA_OWN, would run differently than
 * in the default way LS_CUDA_OWN, so that a trial is worth it. */
bool ls_cuda_hgmma_has_way(ls_device *device, const ls_gemm *g, ls_cuda_way way);

/* Returns whether the epilogue g->end (an activation, fused) can run with this GEMM: form NT, one slice, no addends,
 * all tensors of one type and aligned, and C has at least as many elements as one tile per multiprocessor. False in
 * an audit. If false, the caller runs the activation as an operation of its own. */
bool ls_cuda_hgmma_ends(ls_device *device, const ls_gemm *g);
/* Launches a GEMM with its epilogue, for which ls_cuda_hgmma_ends() returned true; LS_ERR_FAILED if it now cannot. */
ls_status ls_cuda_hgmma_run_end(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args);

#endif
