/* hgmma.h: products of the unit hgmma by the kernels of hgmma.cu, for gemm.c. */
#ifndef LS_DEVICE_CUDA_OPS_HGMMA_H
#define LS_DEVICE_CUDA_OPS_HGMMA_H

#include "device/cuda/args/hgmma.h"
#include "device/cuda/ops/gemm.h"

/* Whether the copy engine reads operands that lie so, and the GPU has one. */
bool ls_cuda_hgmma_takes(ls_device *device, const ls_gemm *g);
/* `args` is the call as hgmma_any.cu takes it. *is_done false: there is not enough scratch. `over`: by hgmma_over.cu,
 * which takes it. */
ls_status ls_cuda_hgmma_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args, bool over, bool *is_done);
/* Whether hgmma_over.cu takes it too: a tile goes out while the next is multiplied. */
bool ls_cuda_hgmma_goes_over(ls_device *device, const ls_gemm *g);

/* The same with an `end`, where it takes that. */
bool ls_cuda_hgmma_ends(ls_device *device, const ls_gemm *g);
ls_status ls_cuda_hgmma_run_end(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args);

#endif
