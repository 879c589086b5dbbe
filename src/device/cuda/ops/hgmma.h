/* hgmma.h: products of the unit hgmma by the kernels of hgmma.cu, for gemm.c. */
#ifndef LS_DEVICE_CUDA_OPS_HGMMA_H
#define LS_DEVICE_CUDA_OPS_HGMMA_H

#include "device/cuda/args/hgmma.h"
#include "device/cuda/choices.h"
#include "device/cuda/ops/gemm.h"

/* Whether the copy engine reads operands that lie so, and the GPU has one. */
bool ls_cuda_hgmma_takes(ls_device *device, const ls_gemm *g);
/* `args` is the call as hgmma_any.cu takes it; `way` one of those before LS_CUDA_LIBRARY. *is_done false: there is not
 * enough scratch, or it cannot be made so. */
ls_status ls_cuda_hgmma_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args, ls_cuda_way way,
                            bool *is_done);
/* Whether it can be made so, and that is another way than LS_CUDA_OWN. */
bool ls_cuda_hgmma_has_way(ls_device *device, const ls_gemm *g, ls_cuda_way way);

/* The same with an `end`, where it takes that. */
bool ls_cuda_hgmma_ends(ls_device *device, const ls_gemm *g);
ls_status ls_cuda_hgmma_run_end(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args);

#endif
