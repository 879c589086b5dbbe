/* survey.c: which GPUs there are and whether they work. A child process finds out, because a process that starts
 * the driver may not fork workers later. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/child.h"
#include "device/cuda/compile.h"
#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "device/cuda/modules.h"

/* Limit of the survey's child. The driver may need seconds to initialize each GPU without persistence mode. */
static const double limit_s = 60;

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

/* Fills *gpu from the driver, without opening the GPU. LS_ERR_INPUT of this machine if it is too old (below
 * compute capability 8.0); name, memory and capability are set then. */
static ls_status describe_gpu(const ls_cuda_driver *driver, int number, ls_gpu *gpu) {
    CUdevice handle;
    LS_TRY(ls_cuda_result(driver, driver->cuDeviceGet(&handle, number), "cuDeviceGet", number));
    LS_TRY(ls_cuda_result(driver, driver->cuDeviceGetName(gpu->name, sizeof gpu->name, handle), "cuDeviceGetName",
                          number));
    LS_TRY(ls_cuda_result(driver, driver->cuDeviceTotalMem(&gpu->bytes, handle), "cuDeviceTotalMem", number));
    LS_TRY(ls_cuda_capability(driver, number, handle, &gpu->capability));
    gpu->kernels = ls_cuda_modules_find(gpu->capability);
    return LS_OK;
}

/* Runs in the child process (ls_child_run): fills *result, an ls_gpu_survey, as far as it gets; *ctx, an int, is
 * how many GPUs to open. Its status becomes that of ls_cuda_survey(). */
static ls_status survey_here(void *ctx, void *result) {
    const int *opens = ctx;
    ls_gpu_survey *survey = result;
    const ls_cuda_driver *driver;
    ls_device *device;
    ls_status loaded = ls_cuda_driver_load(&driver);
    survey->none = ls_cuda_driver_sees_none();
    LS_TRY(loaded);
    survey->driver = driver->version;
    LS_TRY(ls_cuda_count(&survey->count));
    for (int i = 0; i < survey->count && i < LS_GPUS_LISTED; i++) LS_TRY(describe_gpu(driver, i, &survey->gpu[i]));
    for (int i = 0; i < *opens && i < survey->count && i < LS_GPUS_LISTED; i++) {
        LS_TRY(ls_device_open_cuda(i, &device));
        ls_status status = ls_device_finish(device);
        ls_device_destroy(device);
        LS_TRY(status);
        if (survey->gpu[i].kernels == LS_GPU_KERNELS_NONE) return ls_cuda_modules_missing();
    }
    return LS_OK;
}

ls_status ls_cuda_survey(int opens, ls_gpu_survey *out) {
    memset(out, 0, sizeof *out);
    if (!ls_cuda_is_installed()) return ls_fail_here(LS_ERR_INPUT, "no NVIDIA driver");
    return ls_child_run("the process that looks for GPUs", ls_cuda_patience_s(limit_s), survey_here, &opens, out,
                        sizeof *out);
}
