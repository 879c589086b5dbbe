/* library.h: products of the unit hgmma by cuBLASLt, for gemm.c. */
#ifndef LS_DEVICE_CUDA_OPS_LIBRARY_H
#define LS_DEVICE_CUDA_OPS_LIBRARY_H

#include "device/cuda/ops/gemm.h"

/* How our own kernels make a product. */
typedef ls_status (*ls_cuda_own)(ls_device *device, const ls_gemm *g);

/* `args` is the call as our kernels take it. *is_done false: it is for our own kernels, since they are faster, or
 * the library is not here or must not be used (LS_CUBLASLT=no, audits). */
ls_status ls_cuda_library_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args, ls_cuda_own own,
                              bool *is_done);

#endif
