/* modules.c: finds and loads the kernels of a GPU: the cubin that was built in for its architecture, else one that
 * NVRTC compiles from the source text (compile.h). */
#include "device/cuda/modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alive.h"
#include "base/files.h"
#include "base/hash.h"
#include "device/cuda/compile.h"
#include "device/cuda/images.h"

/* Family and name of each kernel, by ls_cuda_kernel. */
static const struct {
    const char *family, *name;
} kernels[LS_CUDA_KERNELS] = {
#define LS_CUDA_KERNEL(family, name) {#family, #name},
#include "device/cuda/kernels.def"
};

struct ls_cuda_modules {
    const ls_cuda_driver *driver;
    int gpu, sm;
    CUmodule module[LS_CUDA_KERNELS];     /* of each family, at the index of its first kernel; NULL: not loaded */
    CUfunction function[LS_CUDA_KERNELS]; /* NULL: not looked up yet */
    size_t bytes;                         /* GPU memory that the modules take */
};

const char *ls_cuda_kernel_name(ls_cuda_kernel kernel) { return kernels[kernel].name; }

bool ls_cuda_cache_folder(char *folder, size_t capacity) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = cache && *cache ? snprintf(folder, capacity, "%s/lockstep/cuda", cache)
                 : home && *home ? snprintf(folder, capacity, "%s/.cache/lockstep/cuda", home)
                                 : -1;
    return length >= 0 && (size_t)length < capacity && ls_dir_make(folder) == LS_OK;
}

const ls_cuda_image *ls_cuda_image_find(const char *family, int sm) {
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
    const ls_cuda_image *text = ls_cuda_image_find(family, 0);
    return text ? ls_hash_bytes(text->bytes, (size_t)(text->end - text->bytes)) : (ls_hash128){0};
}

ls_gpu_kernels ls_cuda_modules_find(int sm) {
    bool is_built_in = true;
    for (int i = 0; i < LS_CUDA_KERNELS; i++) is_built_in = is_built_in && ls_cuda_image_find(kernels[i].family, sm);
    if (is_built_in) return LS_GPU_KERNELS_BUILT_IN;
    return ls_cuda_nvrtc_is_here() ? LS_GPU_KERNELS_NVRTC : LS_GPU_KERNELS_NONE;
}

/* Loads a family into the GPU: its built-in cubin, else one from the cache, else one compiled now, which takes
 * minutes. Adds the GPU memory that it took to modules->bytes. */
static ls_status load_module(ls_cuda_modules *modules, const char *family, CUmodule *out) {
    const ls_cuda_image *image = ls_cuda_image_find(family, modules->sm), *text = ls_cuda_image_find(family, 0);
    char *made = NULL;
    if (!image && !text) return ls_fail(LS_ERR_FAILED, "there are no kernels of %s in this program", family);
    if (!image) LS_TRY(ls_cuda_cubin_get(text, modules->sm, &made));
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
