/* modules.h: the kernels of a GPU, loaded when first asked for. */
#ifndef LS_DEVICE_CUDA_MODULES_H
#define LS_DEVICE_CUDA_MODULES_H

#include "device/cuda/driver.h"
#include "device/cuda/launch.h"

typedef struct ls_cuda_modules ls_cuda_modules;

ls_status ls_cuda_modules_open(const ls_cuda_driver *driver, int gpu, CUdevice handle, ls_cuda_modules **out);
void ls_cuda_modules_close(ls_cuda_modules *modules);
ls_status ls_cuda_modules_get(ls_cuda_modules *modules, ls_cuda_kernel kernel, CUfunction *out);

/* "norm_forward" */
const char *ls_cuda_kernel_name(ls_cuda_kernel kernel);

#endif
