/* list.h: passes lists of the host (bounds, pointers) to kernels; for the host code in ops/. Short lists travel
 * with the kernel's arguments and need no copy. */
#ifndef LS_DEVICE_CUDA_OPS_LIST_H
#define LS_DEVICE_CUDA_OPS_LIST_H

#include <string.h>

#include "device/cuda/common/list.h"
#include "device/cuda/launch.h"

/* Puts `count` sizes into a kernel's argument: at most LS_CUDA_FEW by value, more as a copy on the device. `host`
 * is read before the call returns. The device owns the copy and keeps it for at least 11 more lists of the same queue
 * (ls_cuda_list). LS_ERR_INPUT above LS_CUDA_LIST_BYTES. */
static inline ls_status ls_cuda_sizes_set(ls_device *device, ls_cuda_sizes *out, const size_t *host, size_t count) {
    const void *list = NULL;
    if (count > LS_CUDA_FEW)
        LS_TRY(ls_cuda_list(device, host, count * sizeof *host, &list));
    else
        memcpy(out->few, host, count * sizeof *host);
    out->many = list;
    return LS_OK;
}

/* Puts `count` pointers to device memory into a kernel's argument: at most LS_CUDA_FEW by value, more as a copy on
 * the device, as ls_cuda_sizes_set() does. */
static inline ls_status ls_cuda_pointers_set(ls_device *device, ls_cuda_pointers *out, const void *const *host,
                                             size_t count) {
    const void *list = NULL;
    if (count > LS_CUDA_FEW)
        LS_TRY(ls_cuda_list(device, host, count * sizeof *host, &list));
    else
        memcpy(out->few, host, count * sizeof *host);
    out->many = list;
    return LS_OK;
}

#endif
