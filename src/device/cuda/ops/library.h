/* library.h: autotuning of 16-bit GEMMs on tensor cores, called by gemm.c: a trial finds the fastest implementation
 * among those whose bits are the same: cuBLASLt and, with the matrix unit hgmma (Hopper's tensor cores), several
 * ways of our own kernels. The result is kept in a file (choices.h). One host thread. */
#ifndef LS_DEVICE_CUDA_OPS_LIBRARY_H
#define LS_DEVICE_CUDA_OPS_LIBRARY_H

#include "device/cuda/choices.h"
#include "device/cuda/ops/gemm.h"

/* Callback: launches a GEMM by our own kernels in the given way, one below LS_CUDA_LIBRARY (ls_cuda_gemm_run_own). */
typedef ls_status (*ls_cuda_own)(ls_device *device, const ls_gemm *g, ls_cuda_way way);

/* Launches a GEMM by its fastest implementation. When a shape that the file does not have occurs for the second
 * time, runs a trial first, which takes memory and up to seconds, and waits for the GPU. `args` are the arguments of
 * our own kernels. *is_done is false if nothing was run and the caller must run the GEMM by our own kernels in their
 * default way: it is the fastest, or there is no result (first occurrence and not in the file, small GEMMs, a dry
 * device, audits, queues other than the compute queue, LS_PRODUCT_TRIALS=no, trials of this run took too long,
 * memory is short). With LS_CUBLASLT=no cuBLASLt is not a candidate. */
ls_status ls_cuda_library_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args, ls_cuda_own own,
                              bool *is_done);

#endif
