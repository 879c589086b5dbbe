/* modules.c: finds the kernels of a GPU: the cubin that was built in for its architecture, else one that NVRTC makes of
 * the text, which is kept in a cache under the hash of text, flags, architecture and NVRTC's version. */
#include "device/cuda/modules.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alive.h"
#include "base/files.h"
#include "base/hash.h"
#include "device/cuda/images.h"

enum { CUBIN_BYTES_MAX = 64 << 20, FLAGS = 4 };

static const struct {
    const char *family, *name;
} kernels[LS_CUDA_KERNELS] = {
#define LS_CUDA_KERNEL(family, name) {#family, #name},
#include "device/cuda/kernels.def"
};

struct ls_cuda_modules {
    const ls_cuda_driver *driver;
    int gpu, sm;
    CUmodule module[LS_CUDA_KERNELS]; /* by the first kernel of the family */
    CUfunction function[LS_CUDA_KERNELS];
    size_t bytes;
};

const char *ls_cuda_kernel_name(ls_cuda_kernel kernel) { return kernels[kernel].name; }

/* ---- NVRTC ------------------------------------------------------------------------------------------------------- */

typedef struct nvrtc_program *nvrtcProgram;

typedef struct nvrtc {
    int (*nvrtcVersion)(int *major, int *minor);
    int (*nvrtcCreateProgram)(nvrtcProgram *out, const char *text, const char *name, int headers,
                              const char *const *header, const char *const *header_name);
    int (*nvrtcCompileProgram)(nvrtcProgram program, int count, const char *const *flags);
    int (*nvrtcGetCUBINSize)(nvrtcProgram program, size_t *bytes);
    int (*nvrtcGetCUBIN)(nvrtcProgram program, char *out);
    int (*nvrtcGetProgramLogSize)(nvrtcProgram program, size_t *bytes);
    int (*nvrtcGetProgramLog)(nvrtcProgram program, char *out);
    int (*nvrtcDestroyProgram)(nvrtcProgram *program);
} nvrtc;

ls_status ls_cuda_modules_missing(void) {
    return ls_fail_here(LS_ERR_INPUT,
                        "this program was built without kernels for this GPU, and NVRTC, which would make them, is "
                        "not here: build with nvcc (make CUDA=PATH), install libnvrtc, or use --device cpu");
}

static ls_status load_nvrtc(nvrtc *out) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) return ls_cuda_modules_missing();
#define LOAD(name)                                                                                                     \
    *(void **)(void *)&out->name = dlsym(library, #name);                                                              \
    if (!out->name) return ls_fail_here(LS_ERR_INPUT, "libnvrtc has no %s: install that of CUDA 12 or newer", #name)
    LOAD(nvrtcVersion);
    LOAD(nvrtcCreateProgram);
    LOAD(nvrtcCompileProgram);
    LOAD(nvrtcGetCUBINSize);
    LOAD(nvrtcGetCUBIN);
    LOAD(nvrtcGetProgramLogSize);
    LOAD(nvrtcGetProgramLog);
    LOAD(nvrtcDestroyProgram);
#undef LOAD
    return LS_OK;
}

/* *out belongs to the caller. */
static ls_status compile_program(const nvrtc *rtc, nvrtcProgram program, const char *family,
                                 const char *const flags[FLAGS], char **out, size_t *bytes) {
    if (rtc->nvrtcCompileProgram(program, FLAGS, flags) != 0) {
        char log[2048] = "";
        size_t length = 0;
        if (rtc->nvrtcGetProgramLogSize(program, &length) == 0 && length <= sizeof log)
            (void)rtc->nvrtcGetProgramLog(program, log);
        return ls_fail(LS_ERR_FAILED, "NVRTC cannot compile the kernels of %s: %.1024s", family, log);
    }
    if (rtc->nvrtcGetCUBINSize(program, bytes) != 0)
        return ls_fail(LS_ERR_FAILED, "NVRTC gave no cubin for %s", family);
    *out = malloc(*bytes);
    if (!*out) return ls_fail(LS_ERR_RESOURCE, "out of memory");
    if (rtc->nvrtcGetCUBIN(program, *out) == 0) return LS_OK;
    free(*out);
    *out = NULL;
    return ls_fail(LS_ERR_FAILED, "NVRTC gave no cubin for %s", family);
}

bool ls_cuda_cache_folder(char *folder, size_t capacity) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = cache && *cache ? snprintf(folder, capacity, "%s/lockstep/cuda", cache)
                 : home && *home ? snprintf(folder, capacity, "%s/.cache/lockstep/cuda", home)
                                 : -1;
    return length >= 0 && (size_t)length < capacity && ls_dir_make(folder) == LS_OK;
}

/* The file of the cache, or "" where there is no place for one. */
static void cache_path(const nvrtc *rtc, const ls_cuda_image *text, const char *const flags[FLAGS], char *path,
                       size_t capacity) {
    char folder[768];
    *path = '\0';
    if (!ls_cuda_cache_folder(folder, sizeof folder)) return;
    int version[2] = {0, 0};
    (void)rtc->nvrtcVersion(&version[0], &version[1]);
    ls_hash128 parts[FLAGS + 2] = {ls_hash_bytes(text->bytes, (size_t)(text->end - text->bytes)),
                                   ls_hash_bytes(version, sizeof version)};
    for (int i = 0; i < FLAGS; i++) parts[i + 2] = ls_hash_bytes(flags[i], strlen(flags[i]));
    char name[LS_HASH_TEXT_BYTES];
    ls_hash_text(ls_hash_combine(parts, FLAGS + 2), name);
    if (snprintf(path, capacity, "%s/%s-%s.cubin", folder, text->family, name) >= (int)capacity) *path = '\0';
}

static ls_status make_cubin(const ls_cuda_image *text, int sm, char **out) {
    nvrtc rtc = {0};
    LS_TRY(load_nvrtc(&rtc));
    char architecture[32], path[1024];
    (void)snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%d%s", sm, sm == 90 ? "a" : "");
    const char *const flags[FLAGS] = {architecture, "--fmad=false", "--std=c++17", "-default-device"};
    cache_path(&rtc, text, flags, path, sizeof path);
    size_t bytes;
    if (*path && ls_file_exists(path) && ls_file_read(path, CUBIN_BYTES_MAX, out, &bytes) == LS_OK) return LS_OK;
    nvrtcProgram program;
    if (rtc.nvrtcCreateProgram(&program, (const char *)text->bytes, text->family, 0, NULL, NULL) != 0)
        return ls_fail(LS_ERR_FAILED, "NVRTC cannot start with the kernels of %s", text->family);
    ls_status status = compile_program(&rtc, program, text->family, flags, out, &bytes);
    (void)rtc.nvrtcDestroyProgram(&program);
    /* A cache that cannot be written costs the next start a second, no more. */
    if (status == LS_OK && *path) (void)ls_file_write_atomic(path, *out, bytes);
    return status;
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

static const ls_cuda_image *find_image(const char *family, int sm) {
    for (size_t i = 0; i < ls_cuda_images_count; i++)
        if (ls_cuda_images[i].sm == sm && strcmp(ls_cuda_images[i].family, family) == 0) return &ls_cuda_images[i];
    return NULL;
}

const char *ls_cuda_built_in(void) {
    static char text[96];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < ls_cuda_images_count && used < sizeof text; i++)
        if (ls_cuda_images[i].sm && strcmp(ls_cuda_images[i].family, kernels[0].family) == 0)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%ssm_%d", used ? ", " : "", ls_cuda_images[i].sm);
    return used ? text : "none (NVRTC compiles kernels on first use)";
}

ls_hash128 ls_cuda_family_hash(const char *family) {
    const ls_cuda_image *text = find_image(family, 0);
    return text ? ls_hash_bytes(text->bytes, (size_t)(text->end - text->bytes)) : (ls_hash128){0};
}

ls_gpu_kernels ls_cuda_modules_find(int sm) {
    nvrtc rtc;
    bool is_built_in = true;
    for (int i = 0; i < LS_CUDA_KERNELS; i++) is_built_in = is_built_in && find_image(kernels[i].family, sm);
    if (is_built_in) return LS_GPU_KERNELS_BUILT_IN;
    return load_nvrtc(&rtc) == LS_OK ? LS_GPU_KERNELS_NVRTC : LS_GPU_KERNELS_NONE;
}

static ls_status load_module(ls_cuda_modules *modules, const char *family, CUmodule *out) {
    const ls_cuda_image *image = find_image(family, modules->sm), *text = find_image(family, 0);
    char *made = NULL;
    if (!image && !text) return ls_fail(LS_ERR_FAILED, "there are no kernels of %s in this program", family);
    if (!image) LS_TRY(make_cubin(text, modules->sm, &made));
    size_t before = 0, after = 0, total;
    (void)modules->driver->cuMemGetInfo(&before, &total);
    CUresult result = modules->driver->cuModuleLoadData(out, made ? (const void *)made : image->bytes);
    free(made);
    (void)modules->driver->cuMemGetInfo(&after, &total);
    if (before > after) modules->bytes += before - after;
    return ls_cuda_result(modules->driver, result, "cuModuleLoadData", modules->gpu);
}

ls_status ls_cuda_modules_get(ls_cuda_modules *modules, ls_cuda_kernel kernel, CUfunction *out) {
    *out = modules->function[kernel];
    if (*out) return LS_OK;
    int first = 0;
    while (strcmp(kernels[first].family, kernels[kernel].family) != 0) first++;
    if (!modules->module[first]) {
        ls_phase before = ls_phase_swap(LS_PHASE_COMPILE);
        ls_status status = load_module(modules, kernels[kernel].family, &modules->module[first]);
        (void)ls_phase_swap(before);
        LS_TRY(status);
    }
    char name[64];
    (void)snprintf(name, sizeof name, "ls_%s", kernels[kernel].name);
    LS_TRY(ls_cuda_result(modules->driver, modules->driver->cuModuleGetFunction(out, modules->module[first], name),
                          name, modules->gpu));
    modules->function[kernel] = *out;
    return LS_OK;
}

ls_status ls_cuda_modules_open(const ls_cuda_driver *driver, int gpu, CUdevice handle, ls_cuda_modules **out) {
    int capability;
    LS_TRY(ls_cuda_capability(driver, gpu, handle, &capability));
    ls_cuda_modules *modules = calloc(1, sizeof *modules);
    if (!modules) return ls_fail(LS_ERR_RESOURCE, "out of memory");
    *modules = (ls_cuda_modules){.driver = driver, .gpu = gpu, .sm = capability};
    *out = modules;
    return LS_OK;
}

size_t ls_cuda_modules_bytes(const ls_cuda_modules *modules) { return modules->bytes; }

void ls_cuda_modules_close(ls_cuda_modules *modules) {
    if (!modules) return;
    for (int i = 0; i < LS_CUDA_KERNELS; i++)
        if (modules->module[i]) (void)modules->driver->cuModuleUnload(modules->module[i]);
    free(modules);
}
