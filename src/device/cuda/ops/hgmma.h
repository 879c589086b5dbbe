/* hgmma.h: GEMMs of the matrix unit hgmma by the kernels of hgmma.cu; for gemm.c. ../choices.h explains the ways. */
#ifndef LS_DEVICE_CUDA_OPS_HGMMA_H
#define LS_DEVICE_CUDA_OPS_HGMMA_H

#include "device/cuda/args/hgmma.h"
#include "device/cuda/choices.h"
#include "device/cuda/ops/gemm.h"

/* Returns whether the GPU has TMA and the operands are aligned so that TMA can load them. */
bool ls_cuda_hgmma_takes(ls_device *device, const ls_gemm *g);
/* Runs a GEMM in the given way, any but LS_CUDA_LIBRARY. `args` are the arguments of hgmma_any.cu. *is_done is false if
 * nothing was run, because scratch memory is short or the shape rules this way out; the caller then uses another. */
ls_status ls_cuda_hgmma_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args, ls_cuda_way way,
                            bool *is_done);
/* Returns whether this GEMM can run in the given way, and that differs from LS_CUDA_OWN. */
bool ls_cuda_hgmma_has_way(ls_device *device, const ls_gemm *g, ls_cuda_way way);

/* Returns whether the epilogue g->end can be fused into this GEMM, which also must fill the GPU. */
bool ls_cuda_hgmma_ends(ls_device *device, const ls_gemm *g);
/* Runs a GEMM with its epilogue, for which ls_cuda_hgmma_ends() returned true. */
ls_status ls_cuda_hgmma_run_end(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args);

#endif
