/* modules.h: the kernels of a GPU, loaded when one is first launched; for device.c. The set belongs to one device,
 * and one host thread uses it.
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

/* Creates an empty set of modules for a GPU whose context is current. Loads nothing yet. The caller closes it, and
 * *out is set only on success. LS_ERR_INPUT of this machine for a GPU that is too old. */
ls_status ls_cuda_modules_open(const ls_cuda_driver *driver, int gpu, CUdevice handle, ls_cuda_modules **out);
/* Unloads all modules; NULL does nothing. */
void ls_cuda_modules_close(ls_cuda_modules *modules);
/* Sets *out to the function of a kernel, valid until the set is closed. If its family is not loaded, loads it
 * first, which takes minutes if NVRTC must compile it; meanwhile the worker is in LS_PHASE_COMPILE, so that no
 * deadline ends it. LS_ERR_INPUT of this machine: the family is not built in and NVRTC is missing. Other errors: it
 * does not compile, or the driver fails; a later call tries again. */
ls_status ls_cuda_modules_get(ls_cuda_modules *modules, ls_cuda_kernel kernel, CUfunction *out);

/* Returns the bytes of GPU memory that the modules take, measured as the driver's free memory before and after
 * each load; it includes what other processes allocate meanwhile. */
size_t ls_cuda_modules_bytes(const ls_cuda_modules *modules);

/* Returns where the kernels for GPUs of this compute capability come from: built in if every family is, else NVRTC
 * if it is installed, else LS_GPU_KERNELS_NONE. Loads no kernel. */
ls_gpu_kernels ls_cuda_modules_find(int capability);
/* Returns the built-in cubin of a family for exactly this compute capability (90 is 9.0), or, for sm 0, its source
 * text; NULL if there is none. Static. */
const ls_cuda_image *ls_cuda_image_find(const char *family, int sm);

/* Writes the path of the folder that keeps cubins and autotuning results between runs, and creates it:
 * lockstep/cuda below XDG_CACHE_HOME or ~/.cache. Returns false if neither variable is set, the path is longer
 * than `capacity`, or the folder cannot be made. */
bool ls_cuda_cache_folder(char *folder, size_t capacity);
/* Returns the hash of the source text of a family, by which cached results of other versions of a kernel are not
 * used; zero for an unknown one. */
ls_hash128 ls_cuda_family_hash(const char *family);

/* Returns the name of a kernel without its prefix ls_, such as "layer_norm_forward". Static. */
const char *ls_cuda_kernel_name(ls_cuda_kernel kernel);

#endif
