/* modules.h: the kernels of a GPU, loaded when first asked for. */
#ifndef LS_DEVICE_CUDA_MODULES_H
#define LS_DEVICE_CUDA_MODULES_H

#include "base/hash.h"
#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "device/cuda/images.h"
#include "device/cuda/launch.h"

typedef struct ls_cuda_modules ls_cuda_modules;

ls_status ls_cuda_modules_open(const ls_cuda_driver *driver, int gpu, CUdevice handle, ls_cuda_modules **out);
void ls_cuda_modules_close(ls_cuda_modules *modules);
ls_status ls_cuda_modules_get(ls_cuda_modules *modules, ls_cuda_kernel kernel, CUfunction *out);

/* Memory that they take, by the driver's count of what is free. */
size_t ls_cuda_modules_bytes(const ls_cuda_modules *modules);

/* Where the kernels for GPUs of this compute capability come from. */
ls_gpu_kernels ls_cuda_modules_find(int capability);
/* The cubin of a family that was built in for this capability, or with 0 its text; NULL: there is none. */
const ls_cuda_image *ls_cuda_image_find(const char *family, int sm);

/* Where what was made or found out for a GPU is kept between runs. False: there is no place for it. */
bool ls_cuda_cache_folder(char *folder, size_t capacity);
/* Of the source of a family of kernels. */
ls_hash128 ls_cuda_family_hash(const char *family);

/* "norm_forward" */
const char *ls_cuda_kernel_name(ls_cuda_kernel kernel);

#endif
