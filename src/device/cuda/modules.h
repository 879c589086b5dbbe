/* modules.h: the kernels of a GPU, loaded when one is first launched.
 *
 * The kernels of a file below kernels/ are a family: one CUDA module. Its cubin is built into the program for some
 * architectures; for others NVRTC compiles the family's source text, which is always built in (images.h, compile.h). */
#ifndef LS_DEVICE_CUDA_MODULES_H
#define LS_DEVICE_CUDA_MODULES_H

#include "base/hash.h"
#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "device/cuda/images.h"
#include "device/cuda/launch.h"

typedef struct ls_cuda_modules ls_cuda_modules;

/* Creates an empty set of modules for a GPU whose context is current. Loads nothing yet. The caller closes it. */
ls_status ls_cuda_modules_open(const ls_cuda_driver *driver, int gpu, CUdevice handle, ls_cuda_modules **out);
/* Unloads all modules; NULL does nothing. */
void ls_cuda_modules_close(ls_cuda_modules *modules);
/* Sets *out to the function of a kernel. Loads its family first, which takes minutes if NVRTC must compile it. */
ls_status ls_cuda_modules_get(ls_cuda_modules *modules, ls_cuda_kernel kernel, CUfunction *out);

/* Returns the GPU memory that the modules take, measured as the driver's free memory before and after each load. */
size_t ls_cuda_modules_bytes(const ls_cuda_modules *modules);

/* Returns where all kernels for GPUs of this compute capability come from: built in, from NVRTC, or nowhere. */
ls_gpu_kernels ls_cuda_modules_find(int capability);
/* Returns the built-in cubin of a family for this compute capability, or, for sm 0, its source text; NULL if none. */
const ls_cuda_image *ls_cuda_image_find(const char *family, int sm);

/* Writes the path of the folder that keeps cubins and choices between runs, and creates it: below XDG_CACHE_HOME or
 * ~/.cache. Returns false if there is none, or it does not fit. */
bool ls_cuda_cache_folder(char *folder, size_t capacity);
/* Returns the hash of the source text of a family; zero for an unknown one. */
ls_hash128 ls_cuda_family_hash(const char *family);

/* Returns the name of a kernel, such as "norm_forward". */
const char *ls_cuda_kernel_name(ls_cuda_kernel kernel);

#endif
