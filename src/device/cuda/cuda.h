/* cuda.h: opens NVIDIA GPUs as devices, and surveys the GPUs of a machine. Callers go through device/choose.h;
 * before that, no process that still has to fork workers may start the driver, because the driver does not survive
 * a fork. */
#ifndef LS_DEVICE_CUDA_CUDA_H
#define LS_DEVICE_CUDA_CUDA_H

#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"
#include "device/unit.h"

/* Opens GPU `gpu`, counted from 0 among those that this process sees (CUDA_VISIBLE_DEVICES). Starts the driver: a
 * process that does so may not fork workers later. Makes the GPU's context current for the calling thread, the only
 * one that may use the device. LS_ERR_INPUT if the machine has no driver or no such GPU, or if the GPU is older than
 * compute capability 8.0. On failure *out is NULL and nothing is left to release; else the caller destroys *out. */
ls_status ls_device_open_cuda(int gpu, ls_device **out);

/* Opens a device without a GPU, for dry runs that measure memory: operations check their calls and compute nothing
 * (device/dry.h). They choose kernels as on a GPU with wgmma, 132 multiprocessors and 99 KiB of shared memory a block,
 * except that attention takes the kernels without TMA; every tensor-core unit passes. Its usage (ls_device_get_usage)
 * has in `scratch` the most that one operation needed, summed over the queues. The caller destroys *out;
 * LS_ERR_RESOURCE if memory is short. */
ls_status ls_device_open_cuda_dry(ls_device **out);

/* Returns whether libcuda can be loaded. Does not start the driver, so this process may fork later. */
bool ls_cuda_is_installed(void);
/* Counts the GPUs that this process sees. Starts the driver, so this process may not fork workers later.
 * LS_ERR_INPUT of this machine if there is no driver or no GPU, with *count 0. */
ls_status ls_cuda_count(int *count);

/* ---- the survey of a machine's GPUs ------------------------------------------------------------------------------ */

enum { LS_GPUS_LISTED = 16 }; /* GPUs of a machine that a survey describes, at most */
/* The compute capability (9.0, Hopper) whose formula was measured. The formulas of other capabilities are published
 * ones, so a GPU is compared with its formula before it is trusted. */
enum { LS_CUDA_MEASURED_CAPABILITY = 90 };
/* Returns the matrix unit whose formula the tensor cores of this compute capability follow; LS_UNIT_CHAIN if none is
 * known. */
ls_unit ls_cuda_unit_of(int capability);

/* Where the kernels of a GPU come from: nowhere, so that it cannot be used; the program; or NVIDIA's run-time
 * compiler. */
typedef enum ls_gpu_kernels { LS_GPU_KERNELS_NONE, LS_GPU_KERNELS_BUILT_IN, LS_GPU_KERNELS_NVRTC } ls_gpu_kernels;

/* One GPU in a survey. */
typedef struct ls_gpu {
    char name[96];
    int capability; /* 90 is 9.0 */
    size_t bytes;   /* of memory */
    ls_gpu_kernels kernels;
} ls_gpu;

/* What a survey found. gpu[] has the first LS_GPUS_LISTED of `count`; the survey stops at the first GPU that it cannot
 * describe, and the entries behind that one are zero. */
typedef struct ls_gpu_survey {
    int driver; /* the newest CUDA that the driver supports, 13000 is 13.0; 0: unknown */
    bool none;  /* the driver says that there is no GPU */
    int count;  /* GPUs that processes of this environment see (CUDA_VISIBLE_DEVICES) */
    ls_gpu gpu[LS_GPUS_LISTED];
} ls_gpu_survey;

/* Returns the architectures that the program has kernels built in for, as text such as "sm_80, sm_90", or "none
 * (NVRTC compiles kernels on first use)". The text is static. */
const char *ls_cuda_built_in(void);

/* Returns the version of cuBLASLt, which some matmuls use (ops/library.c), such as "13.0.2", or "no (…)" with the
 * reason. Loads the library. The text is static and changes with the next call. */
const char *ls_cuda_cublaslt(void);

/* Queries the driver in a child process, so that this one may still fork, describes the GPUs and then opens the first
 * `opens` of them there (at most LS_GPUS_LISTED) to see that they work. LS_ERR_INPUT: there is no driver, no GPU, a
 * listed one that is too old, or an opened one without kernels. Other errors: the driver or a GPU fails; LS_ERR_WORKER
 * if the child crashes, LS_ERR_FAILED if it does not answer within a minute. On failure *out has what was found before,
 * unless the child crashed or was killed. */
ls_status ls_cuda_survey(int opens, ls_gpu_survey *out);

#endif
