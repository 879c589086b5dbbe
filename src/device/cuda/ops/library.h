/* library.h: products of the unit hgmma by what a trial found to be the fastest, for gemm.c: our own kernels in
 * one of several ways, or cuBLASLt. */
#ifndef LS_DEVICE_CUDA_OPS_LIBRARY_H
#define LS_DEVICE_CUDA_OPS_LIBRARY_H

#include "device/cuda/choices.h"
#include "device/cuda/ops/gemm.h"

/* How our own kernels make a product, in a way before LS_CUDA_LIBRARY. */
typedef ls_status (*ls_cuda_own)(ls_device *device, const ls_gemm *g, ls_cuda_way way);

/* `args` is the call as our kernels take it. *is_done false: it is for our own kernels as they choose their way,
 * which is the fastest, or nothing was tried (small products, audits, LS_PRODUCT_TRIALS=no). LS_CUBLASLT=no: without
 * the library. */
ls_status ls_cuda_library_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args, ls_cuda_own own,
                              bool *is_done);

#endif
