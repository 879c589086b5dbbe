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

/* Whether there is a driver at all. Does not start it. */
bool ls_cuda_is_installed(void);
/* GPUs that this process sees, at least one. Starts the driver. */
ls_status ls_cuda_count(int *count);
/* GPU `gpu` and how many there are, in a line without its end; LS_ERR_INPUT where it cannot be used. Starts the driver.
 */
ls_status ls_cuda_describe(int gpu, char *text, size_t bytes);

#endif
