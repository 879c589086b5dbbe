/* cuda.h: NVIDIA GPUs as devices, and the survey of the GPUs of a machine. To be used through choose.h, before which no
 * process that still has to fork may start the driver. */
#ifndef LS_DEVICE_CUDA_CUDA_H
#define LS_DEVICE_CUDA_CUDA_H

#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"

/* Opens GPU `gpu`, counted from 0 among those that this process sees (CUDA_VISIBLE_DEVICES). Starts the driver: a
 * process that does so may not fork workers later. LS_ERR_INPUT if the machine has no driver or no such GPU. On failure
 * nothing is left to release; else the caller destroys *out. */
ls_status ls_device_open_cuda(int gpu, ls_device **out);

/* Opens a device without a GPU: operations check their calls and choose kernels as on one, and compute nothing
 * (device/dry.h). Its usage has in `scratch` the most that one operation needed. The caller destroys *out. */
ls_status ls_device_open_cuda_dry(ls_device **out);

/* Returns whether a driver is installed. Does not start it. */
bool ls_cuda_is_installed(void);
/* Counts the GPUs that this process sees; LS_ERR_INPUT if none. Starts the driver. */
ls_status ls_cuda_count(int *count);

/* ---- the survey of a machine's GPUs ------------------------------------------------------------------------------ */

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
    int driver; /* the newest CUDA that the driver supports, 13000 is 13.0; 0: unknown */
    bool none;  /* the driver says that there is no GPU */
    int count;  /* GPUs that processes of this environment see (CUDA_VISIBLE_DEVICES) */
    ls_gpu gpu[LS_GPUS_LISTED];
} ls_gpu_survey;

/* Returns the GPUs that the program has kernels built in for, such as "sm_80, sm_90", or "none (…)" with what happens
 * then. The text is static. */
const char *ls_cuda_built_in(void);

/* Returns the version of cuBLASLt, which some matmuls use (ops/library.c), such as "13.0.2", or why there is none.
 * Loads the library. The text is static and changes with the next call. */
const char *ls_cuda_cublaslt(void);

/* Queries the driver in a child process, so that this one may still fork, and opens the first `opens` GPUs there to see
 * that they work. On failure *out has what was found before. LS_ERR_INPUT: there is no driver, no GPU, or one that
 * lacks something; other errors: the driver or a GPU fails, crashes or does not answer within a minute. */
ls_status ls_cuda_survey(int opens, ls_gpu_survey *out);

#endif
