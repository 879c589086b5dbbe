/* compile.c: NVRTC, loaded when it is needed. The cache has a file for each family under the hash of text, flags,
 * architecture and NVRTC's version. */
#include "device/cuda/compile.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "device/cuda/modules.h"

enum { CUBIN_BYTES_MAX = 64 << 20, FLAGS = 4, PATH_BYTES = 1024, FAMILIES_MAX = 64 };

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
                        "not here: build with nvcc (make CUDA_SMS=90 for capability 9.0), install libnvrtc, or use "
                        "--device cpu");
}

/* Loads libnvrtc (13, else 12, else any) and fills *out. LS_ERR_INPUT of this machine if it is absent or lacks a
 * function. It stays loaded. */
static ls_status load_nvrtc(nvrtc *out) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                        "/usr/local/cuda/lib64/libnvrtc.so"};
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

/* Compiles a program. The caller frees *out. */
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

/* Writes the path of the cached kernel, or "" if there is no cache folder. */
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

/* Fills the flags of a compilation; flags[0] is `architecture`. */
static void fill_flags(int sm, char architecture[static 32], const char *flags[FLAGS]) {
    (void)snprintf(architecture, 32, "--gpu-architecture=sm_%d%s", sm, sm == 90 ? "a" : "");
    flags[0] = architecture;
    flags[1] = "--fmad=false";
    flags[2] = "--std=c++17";
    flags[3] = "-default-device";
}

ls_status ls_cuda_cubin_get(const ls_cuda_image *text, int sm, char **out) {
    nvrtc rtc = {0};
    LS_TRY(load_nvrtc(&rtc));
    char architecture[32], path[PATH_BYTES];
    const char *flags[FLAGS];
    fill_flags(sm, architecture, flags);
    cache_path(&rtc, text, flags, path, sizeof path);
    size_t bytes;
    if (*path && ls_file_exists(path) && ls_file_read(path, CUBIN_BYTES_MAX, out, &bytes) == LS_OK) return LS_OK;
    nvrtcProgram program;
    if (rtc.nvrtcCreateProgram(&program, (const char *)text->bytes, text->family, 0, NULL, NULL) != 0)
        return ls_fail(LS_ERR_FAILED, "NVRTC cannot start with the kernels of %s", text->family);
    ls_status status = compile_program(&rtc, program, text->family, flags, out, &bytes);
    (void)rtc.nvrtcDestroyProgram(&program);
    /* Where the cache cannot be written, the next run compiles again. */
    if (status == LS_OK && *path) (void)ls_file_write_atomic(path, *out, bytes);
    return status;
}

bool ls_cuda_nvrtc_is_here(void) {
    nvrtc rtc;
    return load_nvrtc(&rtc) == LS_OK;
}

/* ---- all families, before a run ---------------------------------------------------------------------------------- */

/* The memory that the compiling child processes share with their parent. */
typedef struct progress {
    _Atomic int next;
    _Atomic bool has_failed;
    ls_status status;
    char message[LS_MESSAGE_MAX];
} progress;

typedef struct job {
    int sm, count;
    const ls_cuda_image *text[FAMILIES_MAX];
    char path[FAMILIES_MAX][PATH_BYTES];
    ls_cuda_tell_fn tell;
    void *ctx;
    double began, told;
} job;

/* Returns how many families have no file in the cache yet. */
static int count_missing(const job *j) {
    int missing = 0;
    for (int i = 0; i < j->count; i++) missing += !ls_file_exists(j->path[i]);
    return missing;
}

/* Lists the families that have no cubin, neither built in nor cached. Those of tensor cores, whose names have "mma" in
 * them, are first, because they take longest; they are left out unless `with_tensor_cores`. */
static void list_missing(job *j, const nvrtc *rtc, bool with_tensor_cores) {
    char architecture[32];
    const char *flags[FLAGS];
    fill_flags(j->sm, architecture, flags);
    for (int round = with_tensor_cores ? 0 : 1; round < 2; round++)
        for (size_t i = 0; i < ls_cuda_images_count && j->count < FAMILIES_MAX; i++) {
            const ls_cuda_image *text = &ls_cuda_images[i];
            bool is_of_tensor_cores = strstr(text->family, "mma") != NULL;
            if (text->sm != 0 || is_of_tensor_cores != (round == 0) || ls_cuda_image_find(text->family, j->sm))
                continue;
            j->text[j->count] = text;
            cache_path(rtc, text, flags, j->path[j->count], PATH_BYTES);
            if (!ls_file_exists(j->path[j->count])) j->count++;
        }
}

/* Passes a line to the callback; logs it as a warning if that is NULL. */
static void tell_line(ls_cuda_tell_fn tell, void *ctx, const char *text) {
    if (tell)
        tell(ctx, text);
    else
        ls_log_warn("%s", text);
}

/* Tells the progress at the start, and again at most every ten seconds. */
static void tell_progress(job *j, const char *what, int missing) {
    double now = ls_clock_seconds();
    if (j->told > 0 && now - j->told < 10) return;
    char text[200];
    (void)snprintf(text, sizeof text,
                   "%s GPU kernels for sm_%d, once for this machine; the run waits: %d of %d families, %.0f s", what,
                   j->sm, j->count - missing, j->count, now - j->began);
    j->told = now;
    tell_line(j->tell, j->ctx, text);
}

/* Runs in each child process: compiles one family after another until none is left or any child has failed. */
static void compile_in_turn(const job *j, progress *p) {
    for (int i; !p->has_failed && (i = atomic_fetch_add(&p->next, 1)) < j->count;) {
        char *cubin = NULL;
        ls_status status = ls_cuda_cubin_get(j->text[i], j->sm, &cubin);
        free(cubin);
        if (status == LS_OK || atomic_exchange(&p->has_failed, true)) continue;
        (void)snprintf(p->message, sizeof p->message, "%s", ls_status_message());
        p->status = status;
    }
}

/* Forks a child that compiles, and is killed when its parent ends. Returns its pid, −1 on failure; the child does not
 * return. */
static pid_t start_child(const job *j, progress *p) {
    pid_t parent = getpid(), child = fork();
    if (child != 0) return child;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) compile_in_turn(j, p);
    _exit(0);
}

/* Removes children that have ended from the list, without waiting. LS_ERR_RESOURCE: a signal killed one of them. */
static ls_status reap_children(pid_t *child, int *count) {
    ls_status status = LS_OK;
    for (int i = *count; i-- > 0;) {
        int end = 0;
        pid_t gone = waitpid(child[i], &end, WNOHANG);
        if (gone == 0 || (gone < 0 && errno == EINTR)) continue;
        if (gone > 0 && WIFSIGNALED(end))
            status = ls_fail_here(LS_ERR_RESOURCE,
                                  "a process that compiles GPU kernels was killed by signal %d (%s): is there enough "
                                  "memory? NVRTC takes about 1 GiB for each core",
                                  WTERMSIG(end), strsignal(WTERMSIG(end)));
        child[i] = child[--*count];
    }
    return status;
}

/* Compiles all listed families in child processes, one per core but no more than families, and waits for them, telling
 * the progress. Fewer children than that are no error, unless none can be started. After a failure the others end with
 * the family that they are compiling. */
static ls_status compile_all(job *j) {
    enum { CHILDREN_MAX = FAMILIES_MAX };
    pid_t child[CHILDREN_MAX];
    int count = 0, wanted = ls_cpu_count() < j->count ? ls_cpu_count() : j->count;
    progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return ls_fail(LS_ERR_RESOURCE, "out of memory");
    while (count < wanted && (child[count] = start_child(j, p)) > 0) count++;
    ls_status status = count ? LS_OK : ls_fail_errno(LS_ERR_RESOURCE, "cannot start a process that compiles kernels");
    while (count > 0) {
        ls_status ended = reap_children(child, &count);
        if (ended != LS_OK) {
            p->has_failed = true; /* the others end after the family that they are at */
            status = ended;
        }
        if (count > 0) tell_progress(j, "NVRTC compiles", count_missing(j));
        if (count > 0) ls_clock_sleep_us(20000);
    }
    if (status == LS_OK && p->has_failed) status = ls_fail_here(p->status, "%s", p->message);
    (void)munmap(p, sizeof *p);
    return status;
}

/* Waits for the lock of the cache folder, whose holder compiles the same families, then compiles what is still missing.
 * Compiles without the lock if its file cannot be opened. */
static ls_status compile_or_wait(job *j, const char *folder) {
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/lock", folder);
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    while (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
        int missing = count_missing(j);
        if (missing == 0) break;
        tell_progress(j, "another process compiles", missing);
        ls_clock_sleep_us(100000);
    }
    ls_status status = count_missing(j) ? compile_all(j) : LS_OK;
    if (lock >= 0) (void)close(lock);
    return status;
}

ls_status ls_cuda_kernels_prepare(int capability, bool with_tensor_cores, ls_cuda_tell_fn tell, void *ctx) {
    char folder[PATH_BYTES - 16], text[PATH_BYTES + 200];
    bool are_built_in = true;
    for (size_t i = 0; i < ls_cuda_images_count; i++)
        are_built_in = are_built_in && ls_cuda_image_find(ls_cuda_images[i].family, capability);
    if (are_built_in) return LS_OK;
    nvrtc rtc;
    LS_TRY(load_nvrtc(&rtc));
    bool has_folder = ls_cuda_cache_folder(folder, sizeof folder);
    if (!has_folder || access(folder, W_OK) != 0) {
        (void)snprintf(text, sizeof text,
                       "GPU kernels for sm_%d are compiled by each worker on first use, which takes minutes: %s; let "
                       "XDG_CACHE_HOME name a folder that can be written",
                       capability, has_folder ? folder : "there is no cache folder");
        tell_line(tell, ctx, text);
        return LS_OK;
    }
    job *j = calloc(1, sizeof *j);
    if (!j) return ls_fail(LS_ERR_RESOURCE, "out of memory");
    *j = (job){.sm = capability, .tell = tell, .ctx = ctx, .began = ls_clock_seconds()};
    list_missing(j, &rtc, with_tensor_cores);
    ls_status status = j->count ? compile_or_wait(j, folder) : LS_OK;
    if (status == LS_OK && j->count) {
        (void)snprintf(text, sizeof text, "GPU kernels for sm_%d are ready: %d families, %.0f s", capability, j->count,
                       ls_clock_seconds() - j->began);
        tell_line(tell, ctx, text);
    }
    free(j);
    return status;
}
