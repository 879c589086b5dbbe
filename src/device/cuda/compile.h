/* compile.h: compiles the kernels that the program was built without, by NVRTC, and keeps them in a cache between runs.
 *
 * To compile all families takes minutes of several cores. A run that needs them waits before its workers start
 * (ls_cuda_kernels_prepare), so that no timeout, rate or choice of a run includes the time of a compiler. */
#ifndef LS_DEVICE_CUDA_COMPILE_H
#define LS_DEVICE_CUDA_COMPILE_H

#include <stdbool.h>

#include "base/status.h"
#include "device/cuda/images.h"

/* Returns whether NVRTC can be loaded. Loads it. */
bool ls_cuda_nvrtc_is_here(void);
/* Always fails, with LS_ERR_INPUT of this machine: the error of a GPU whose kernels are neither built in nor can be
 * compiled. */
ls_status ls_cuda_modules_missing(void);

/* Reads the cubin of a family for compute capability `sm` (90 is 9.0) from the cache, or compiles its source `text` and
 * puts it there; a cache that cannot be written is no error. The caller frees *out. LS_ERR_INPUT of this machine: NVRTC
 * is missing, which is needed even for a cached cubin, because its version is part of the file's name. LS_ERR_FAILED:
 * the text does not compile. */
ls_status ls_cuda_cubin_get(const ls_cuda_image *text, int sm, char **out);

/* Callback: gets a line of text about the progress, without a newline. NULL instead of one: the line is logged as a
 * warning. */
typedef void (*ls_cuda_tell_fn)(void *ctx, const char *text);

/* Compiles all families for GPUs of this compute capability that are neither built in nor cached, on all cores, in
 * child processes; those of tensor cores only if `with_tensor_cores`. Of several processes that share a cache one
 * compiles and the others wait. Calls `tell` at the start, at most every ten seconds, and at the end; not at all where
 * nothing is missing. Without a cache folder that can be written each worker compiles on first use, and `tell` says so.
 * Call it before any thread is started. LS_ERR_INPUT of this machine: some family is not built in and NVRTC is missing.
 * LS_ERR_RESOURCE: no child could be started, or a signal ended one. LS_ERR_FAILED: a family does not compile. What was
 * compiled before a failure stays in the cache. */
ls_status ls_cuda_kernels_prepare(int capability, bool with_tensor_cores, ls_cuda_tell_fn tell, void *ctx);

#endif
