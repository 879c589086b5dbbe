/* describe.c: what there is, in words. */
#include <dlfcn.h>
#include <stdio.h>

#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "device/cuda/images.h"

bool ls_cuda_is_installed(void) {
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library) (void)dlclose(library);
    return library != NULL;
}

ls_status ls_cuda_count(int *count) {
    const ls_cuda_driver *driver;
    *count = 0;
    LS_TRY(ls_cuda_driver_load(&driver));
    LS_TRY(ls_cuda_result(driver, driver->cuDeviceGetCount(count), "cuDeviceGetCount", -1));
    return *count > 0 ? LS_OK : ls_fail_here(LS_ERR_INPUT, "the NVIDIA driver sees no GPU: use --device cpu");
}

static const char *kernels_for(int sm) {
    for (size_t i = 0; i < ls_cuda_images_count; i++)
        if (ls_cuda_images[i].sm == sm) return "kernels built in";
    return "kernels compiled on first use";
}

ls_status ls_cuda_describe(int gpu, char *text, size_t bytes) {
    const ls_cuda_driver *driver;
    CUdevice handle;
    char name[96] = "";
    int count = 0, major = 0, minor = 0;
    size_t memory = 0;
    LS_TRY(ls_cuda_driver_load(&driver));
    LS_TRY(ls_cuda_result(driver, driver->cuDeviceGetCount(&count), "cuDeviceGetCount", -1));
    if (gpu < 0 || gpu >= count)
        return ls_fail_here(LS_ERR_INPUT, "there is no GPU %d: this process sees %d, numbered from 0", gpu, count);
    LS_TRY(ls_cuda_result(driver, driver->cuDeviceGet(&handle, gpu), "cuDeviceGet", gpu));
    LS_TRY(ls_cuda_result(driver, driver->cuDeviceGetName(name, sizeof name, handle), "cuDeviceGetName", gpu));
    LS_TRY(ls_cuda_result(driver, driver->cuDeviceTotalMem(&memory, handle), "cuDeviceTotalMem", gpu));
    LS_TRY(ls_cuda_result(driver,
                          driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle),
                          "cuDeviceGetAttribute", gpu));
    LS_TRY(ls_cuda_result(driver,
                          driver->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle),
                          "cuDeviceGetAttribute", gpu));
    if (major < 8)
        return ls_fail_here(LS_ERR_INPUT,
                            "GPU %d (%s) has compute capability %d.%d, and 8.0 is needed: use --device cpu", gpu, name,
                            major, minor);
    (void)snprintf(text, bytes, "%d × %s, %zu GiB, compute capability %d.%d, driver for CUDA %d.%d, %s", count, name,
                   memory >> 30, major, minor, driver->version / 1000, driver->version % 1000 / 10,
                   kernels_for(10 * major + minor));
    return LS_OK;
}
