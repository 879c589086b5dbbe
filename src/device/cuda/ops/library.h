/* library.h: autotuning of GEMMs with the matrix unit hgmma, called by gemm.c: a trial finds the fastest
 * implementation, one of several ways of our own kernels or cuBLASLt. */
#ifndef LS_DEVICE_CUDA_OPS_LIBRARY_H
#define LS_DEVICE_CUDA_OPS_LIBRARY_H

#include "device/cuda/choices.h"
#include "device/cuda/ops/gemm.h"

/* Callback: runs a GEMM by our own kernels in the given way, any but LS_CUDA_LIBRARY. */
typedef ls_status (*ls_cuda_own)(ls_device *device, const ls_gemm *g, ls_cuda_way way);

/* Runs a GEMM by its fastest implementation, after a trial if the shape has none yet. `args` are the arguments of our
 * own kernels. *is_done is false if the caller must run the GEMM by our own kernels in their default way: it is the
 * fastest, or there is no trial (small GEMMs, audits, LS_PRODUCT_TRIALS=no). With LS_CUBLASLT=no the library is not a
 * candidate. */
ls_status ls_cuda_library_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args, ls_cuda_own own,
                              bool *is_done);

#endif
