/* cuda.h: NVIDIA GPUs as devices. */
#ifndef LS_DEVICE_CUDA_CUDA_H
#define LS_DEVICE_CUDA_CUDA_H

#include "device/device.h"

/* GPU `gpu` of those that this process sees (CUDA_VISIBLE_DEVICES). Starts the driver: a process that does so may not fork workers
 * later. Failures of the machine (no driver, no such GPU) are LS_ERR_INPUT. On failure nothing is left to release. */
ls_status ls_device_open_cuda(int gpu, ls_device **out);

#endif
