/* hgmma.h: GEMMs of the matrix unit hgmma (16-bit matmuls by wgmma on Hopper's tensor cores) by our own TMA
 * kernels; for gemm.c and library.c. ../choices.h explains the ways to compute one. */
#ifndef LS_DEVICE_CUDA_OPS_HGMMA_H
#define LS_DEVICE_CUDA_OPS_HGMMA_H

#include "device/cuda/args/hgmma.h"
#include "device/cuda/choices.h"
#include "device/cuda/ops/gemm.h"

/* Returns whether these kernels can run this GEMM: the GPU has wgmma and TMA, k is not 0, and sizes and alignment
 * are such that TMA can load the operands. If not, the caller uses hgmma_any.cu. */
bool ls_cuda_hgmma_takes(ls_device *device, const ls_gemm *g);
/* Launches a GEMM in the given way, one below LS_CUDA_LIBRARY. `args` are the arguments of hgmma_any.cu. *is_done
 * is false if nothing was run, because scratch memory is short or the shape rules this way out; the caller then
 * uses another. */
ls_status ls_cuda_hgmma_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args, ls_cuda_way way,
                            bool *is_done);
/* Returns whether this GEMM can run in the given way and, unless that is LS_CUDA_OWN, would run differently than
 * in the default way LS_CUDA_OWN, so that a trial is worth it. */
bool ls_cuda_hgmma_has_way(ls_device *device, const ls_gemm *g, ls_cuda_way way);

/* Returns whether the epilogue g->end (an activation, fused) can run with this GEMM, and the GEMM is large enough
 * to fill the GPU. If not, the caller runs the activation as an operation of its own. */
bool ls_cuda_hgmma_ends(ls_device *device, const ls_gemm *g);
/* Launches a GEMM with its epilogue, for which ls_cuda_hgmma_ends() returned true. */
ls_status ls_cuda_hgmma_run_end(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args);

#endif
