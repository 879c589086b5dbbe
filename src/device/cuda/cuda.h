/* cuda.h: NVIDIA GPUs as devices. */
#ifndef LS_DEVICE_CUDA_CUDA_H
#define LS_DEVICE_CUDA_CUDA_H

#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"

/* GPU `gpu` of those that this process sees (CUDA_VISIBLE_DEVICES). Starts the driver: a process that does so may not
 * fork workers later. Failures of the machine (no driver, no such GPU) are LS_ERR_INPUT. On failure nothing is left to
 * release. */
ls_status ls_device_open_cuda(int gpu, ls_device **out);

/* Without a GPU: operations check and choose as on one, and compute nothing (device/dry.h). Its usage has in `scratch`
 * the most that one of them asked for. */
ls_status ls_device_open_cuda_dry(ls_device **out);

/* Whether there is a driver at all. Does not start it. */
bool ls_cuda_is_installed(void);
/* GPUs that this process sees, at least one. Starts the driver. */
ls_status ls_cuda_count(int *count);

/* ---- what there is ----------------------------------------------------------------------------------------------- */

enum { LS_GPUS_LISTED = 16 };
/* GPUs of this compute capability have the matrix unit hgmma. */
enum { LS_CUDA_HGMMA_CAPABILITY = 90 };

/* Where the kernels of a GPU come from. */
typedef enum ls_gpu_kernels { LS_GPU_KERNELS_NONE, LS_GPU_KERNELS_BUILT_IN, LS_GPU_KERNELS_NVRTC } ls_gpu_kernels;

typedef struct ls_gpu {
    char name[96];
    int capability; /* 90 is 9.0 */
    size_t bytes;   /* of memory */
    ls_gpu_kernels kernels;
} ls_gpu;

typedef struct ls_gpu_survey {
    int driver; /* the newest CUDA that it is for, 13000 is 13.0; 0: it could not be asked */
    bool none;  /* the driver says that there is no GPU */
    int count;  /* GPUs that processes of this environment see (CUDA_VISIBLE_DEVICES) */
    ls_gpu gpu[LS_GPUS_LISTED];
} ls_gpu_survey;

/* The GPUs that kernels were built in for, "sm_90"; or "none (…)", and what becomes of that. */
const char *ls_cuda_built_in(void);

/* The version of cuBLASLt, by which some products go (ops/library.c), "13.0.2"; or why there is none. Loads it. */
const char *ls_cuda_cublaslt(void);

/* Asks the driver, in a child process: this one stays free to fork. The first `opens` GPUs are also tried. On failure
 * *out has what was found out before. LS_ERR_INPUT: there is no driver, no GPU, or one that lacks something; others:
 * the driver or a GPU fails, crashes or does not answer. */
ls_status ls_cuda_survey(int opens, ls_gpu_survey *out);

#endif
