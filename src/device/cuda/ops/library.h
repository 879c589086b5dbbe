/* library.h: autotuning of GEMMs with the matrix unit hgmma (16-bit matmuls on Hopper's tensor cores), called by
 * gemm.c: a trial finds the fastest implementation, one of several ways of our own kernels or cuBLASLt, among
 * those whose bits are the same. The result is kept in a file (choices.h). One host thread. */
#ifndef LS_DEVICE_CUDA_OPS_LIBRARY_H
#define LS_DEVICE_CUDA_OPS_LIBRARY_H

#include "device/cuda/choices.h"
#include "device/cuda/ops/gemm.h"

/* Callback: launches a GEMM by our own kernels in the given way, one below LS_CUDA_LIBRARY (ls_cuda_gemm_run_own). */
typedef ls_status (*ls_cuda_own)(ls_device *device, const ls_gemm *g, ls_cuda_way way);

/* Launches a GEMM by its fastest implementation. When a shape occurs for the second time, runs a trial first,
 * which takes memory and up to seconds. `args` are the arguments of our own kernels. *is_done is false if the
 * caller must run the GEMM by our own kernels in their default way: it is the fastest, or there is no trial (first
 * occurrence, small GEMMs, audits, queues other than the compute queue, LS_PRODUCT_TRIALS=no). With LS_CUBLASLT=no
 * cuBLASLt is not a candidate. */
ls_status ls_cuda_library_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args, ls_cuda_own own,
                              bool *is_done);

#endif
