/* library.h: autotuning of 16-bit GEMMs on tensor cores, called by gemm.c. A trial runs the default kernels and
 * all other implementations (cuBLASLt and, with the matrix unit hgmma, Hopper's tensor cores, other tiles and orders of
 * our own kernels) on random numbers, drops those whose result differs in any byte from that of the default kernels,
 * and chooses the fastest. The choice is kept in a file (choices.h). One host thread. */
#ifndef LS_DEVICE_CUDA_OPS_LIBRARY_H
#define LS_DEVICE_CUDA_OPS_LIBRARY_H

#include "device/cuda/choices.h"
#include "device/cuda/ops/gemm.h"

/* Callback: launches a GEMM by our own kernels in the given way, which is less than LS_CUDA_LIBRARY
 * (ls_cuda_gemm_run_own). */
typedef ls_status (*ls_cuda_own)(ls_device *device, const ls_gemm *g, ls_cuda_way way);

/* Launches a GEMM by its fastest implementation. When a shape that the file does not have occurs for the second
 * time, runs a trial first, which takes memory and up to seconds, and waits for the GPU. `args` are the arguments of
 * our own kernels. *is_done is false if nothing was launched: the caller must run the GEMM by our own kernels in their
 * default way, because that is the fastest or because nothing else was chosen. Nothing is chosen for
 *
 *     a shape that occurs for the first time and is not in the file, a small GEMM, a queue other than the compute
 *     queue, a recomputation by an audit, a dry device (which computes nothing);
 *     and without a trial: LS_PRODUCT_TRIALS=no, trials of this run took too long, memory is short.
 *
 * With LS_CUBLASLT=no cuBLASLt is not a candidate. An implementation that fails in a trial is dropped; an error of the
 * device is returned. */
ls_status ls_cuda_library_run(ls_device *device, const ls_gemm *g, const ls_cuda_gemm *args, ls_cuda_own own,
                              bool *is_done);

#endif
