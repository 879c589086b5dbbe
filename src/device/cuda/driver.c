/* driver.c: loads libcuda, and makes statuses of its errors. */
#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    VERSION_MIN = 12000,    /* kernels take up to 32 KiB of arguments, 64-bit counters on streams */
    VERSION_GRAPHS = 12040, /* of LS_CUDA_GRAPH_CALLS */
};

/* The driver of this process; only the first load fills it. */
static struct {
    pid_t pid;         /* the process that initialized the driver; 0: not initialized */
    ls_status status;  /* of the start */
    bool sees_none;    /* the start failed because there is no GPU */
    char message[256]; /* why it could not be started */
    ls_cuda_driver driver;
} state;

typedef CUresult (*get_proc_address)(const char *symbol, void **out, int version, uint64_t flags, int *status);

/* Sets name and text of a driver error to static strings, also when the driver is not loaded completely. */
static void result_name(const ls_cuda_driver *driver, CUresult result, const char **name, const char **text) {
    *name = "unknown error", *text = "no text";
    if (driver->cuGetErrorName) (void)driver->cuGetErrorName(result, name);
    if (driver->cuGetErrorString) (void)driver->cuGetErrorString(result, text);
}

/* Fills *driver with the functions of libcuda. LS_ERR_INPUT of this machine if a required one is missing; optional
 * ones become NULL. */
static ls_status load_calls(void *library, ls_cuda_driver *driver) {
    get_proc_address get;
    *(void **)(void *)&get = dlsym(library, "cuGetProcAddress_v2");
    if (!get)
        return ls_fail_here(LS_ERR_INPUT, "the NVIDIA driver is too old: it has no cuGetProcAddress_v2; install a "
                                          "driver for CUDA 12.0 or newer, or use --device cpu");
#define LOAD(name, parameters)                                                                                         \
    if (get(#name, (void **)(void *)&driver->name, VERSION_MIN, 0, NULL) != CUDA_SUCCESS || !driver->name)             \
        return ls_fail_here(LS_ERR_INPUT,                                                                              \
                            "the NVIDIA driver has no %s: install a driver for CUDA 12.0 or newer, or use "            \
                            "--device cpu",                                                                            \
                            #name);
    LS_CUDA_CALLS(LOAD)
#undef LOAD
#define LOAD_NEWER(name, version)                                                                                      \
    if (get(#name, (void **)(void *)&driver->name, version, 0, NULL) != CUDA_SUCCESS) driver->name = NULL;
#define LOAD(name, parameters) LOAD_NEWER(name, VERSION_MIN)
    LS_CUDA_OPTIONAL_CALLS(LOAD)
#undef LOAD
#define LOAD(name, parameters) LOAD_NEWER(name, VERSION_GRAPHS)
    LS_CUDA_GRAPH_CALLS(LOAD)
#undef LOAD
#undef LOAD_NEWER
    return LS_OK;
}

/* Loads libcuda, checks its version (CUDA 12.0 or newer) and initializes it; sets state.sees_none. Errors as
 * ls_cuda_driver_load(). The library stays loaded. */
static ls_status start_driver(ls_cuda_driver *driver) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return ls_fail_here(LS_ERR_INPUT, "no NVIDIA driver here (%s): use --device cpu, or install the driver",
                            dlerror());
    LS_TRY(load_calls(library, driver));
    LS_TRY(ls_cuda_result(driver, driver->cuDriverGetVersion(&driver->version), "cuDriverGetVersion", -1));
    if (driver->version < VERSION_MIN)
        return ls_fail_here(LS_ERR_INPUT,
                            "the NVIDIA driver is for CUDA %d.%d, and 12.0 is needed: install a newer driver, or use "
                            "--device cpu",
                            driver->version / 1000, driver->version % 1000 / 10);
    CUresult result = driver->cuInit(0);
    state.sees_none = result == CUDA_ERROR_NO_DEVICE;
    if (state.sees_none)
        return ls_fail_here(LS_ERR_INPUT,
                            "the NVIDIA driver sees no GPU (CUDA_VISIBLE_DEVICES is %s): use --device cpu",
                            getenv("CUDA_VISIBLE_DEVICES") ? getenv("CUDA_VISIBLE_DEVICES") : "not set");
    return ls_cuda_result(driver, result, "cuInit", -1);
}

ls_status ls_cuda_driver_load(const ls_cuda_driver **out) {
    *out = NULL;
    if (state.pid && state.pid != getpid())
        return ls_fail(LS_ERR_FAILED,
                       "the NVIDIA driver was started in process %ld, of which this process %ld is a fork; a GPU is "
                       "used by the process that starts its driver alone",
                       (long)state.pid, (long)getpid());
    if (!state.pid) {
        state.pid = getpid();
        state.status = start_driver(&state.driver);
        if (state.status != LS_OK) {
            const char *message = ls_status_message();
            size_t i = 0;
            for (; message[i] && i + 1 < sizeof state.message; i++) state.message[i] = message[i];
            state.message[i] = '\0';
        }
    }
    if (state.status != LS_OK) return ls_fail_here(state.status, "%s", state.message);
    *out = &state.driver;
    return LS_OK;
}

bool ls_cuda_driver_sees_none(void) { return state.sees_none; }

/* Returns what a user should do about errors of the hardware, as the end of a message; "" for all other errors. */
static const char *advice_for(CUresult result) {
    switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
        return "; its memory or links are at fault: reset it, or take another, and continue with --resume";
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_UNKNOWN:
        return "; it may have fallen off the bus: look for it with nvidia-smi, and in dmesg for Xid 79";
    default: return "";
    }
}

ls_status ls_cuda_result(const ls_cuda_driver *driver, CUresult result, const char *call, int gpu) {
    if (result == CUDA_SUCCESS) return LS_OK;
    const char *name, *text;
    result_name(driver, result, &name, &text);
    char where[32] = "the NVIDIA driver";
    if (gpu >= 0) (void)snprintf(where, sizeof where, "GPU %d", gpu);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return ls_fail_here(LS_ERR_RESOURCE,
                            "%s is out of memory (%s): use a smaller micro-batch, more workers on more GPUs, or a "
                            "higher --zero",
                            where, call);
    return ls_fail_here(LS_ERR_FAILED, "%s failed: %s: %s (%s)%s", where, call, text, name, advice_for(result));
}

double ls_cuda_patience_s(double otherwise) {
    const char *text = getenv("LS_CUDA_WAIT_S");
    double seconds = text ? strtod(text, NULL) : 0;
    return seconds > 0 ? seconds : otherwise;
}

ls_status ls_cuda_capability(const ls_cuda_driver *driver, int gpu, CUdevice handle, int *out) {
    enum { CAPABILITY_MIN = 80 };
    char name[96] = "";
    int major = 0, minor = 0;
    LS_TRY(ls_cuda_result(driver,
                          driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle),
                          "cuDeviceGetAttribute", gpu));
    LS_TRY(ls_cuda_result(driver,
                          driver->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle),
                          "cuDeviceGetAttribute", gpu));
    *out = 10 * major + minor;
    if (*out >= CAPABILITY_MIN) return LS_OK;
    (void)driver->cuDeviceGetName(name, sizeof name, handle);
    return ls_fail_here(LS_ERR_INPUT, "GPU %d (%s) has compute capability %d.%d, and 8.0 is needed: use --device cpu",
                        gpu, name, major, minor);
}
