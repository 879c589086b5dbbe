/* spoil.c: corrupts numbers at chosen places of a run. Linked with the program, for tests of the guards:
 *
 *     LS_SPOIL="rank=1 step=3 place=forward block=2 index=5 flip=0x40000000"
 *
 * rank, step (steps done) and place are needed; step=* is every step, rank=* every worker; step=100+20 is step 100 and
 * every twentieth after it. block, tensor (a part of its name) and index narrow it down; without them it is the first
 * that comes along, and element 0. part=X is the element at X·elements, span=X so many further ones of them; skip=N
 * leaves the first N that come along alone. What is done: flip=BITS (exclusive or), set=NUMBER, add=NUMBER (relative:
 * x·(1 + add)). times=N: so often in the whole run (1; 0: always). The first time is told to the file LS_SPOIL_LOG.
 *
 * random=SEED in place of what is done: a thread flips one bit of any of the tensors of that place and rank, at a
 * random time of the next span=STEPS steps; in a GPU's memory, through a stream of its own. With it LS_SPOIL_LOG is
 * needed: where the file exists nothing is done, so that a run that goes on has one flip.
 *
 * LS_SPOIL_WRITE="TEXT:BYTE": a bit of this byte is flipped on its way into a file whose path has TEXT in it, by
 * whichever worker writes it: what is in memory stays as it is.
 *
 * LS_SPOIL_NO_UNIT=1: the CPU has no matrix unit.
 *
 * The program also has the device "fake" (tests/fake). */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/rng.h"
#include "device/choose.h"
#include "device/cuda/driver.h"

#include "../fake/fake.h"

enum { TEXT_MAX = 64 };

static struct {
    int rank, block;
    int64_t step, every;
    long times;
    size_t index;
    int place;
    char tensor[TEXT_MAX];
    char what; /* 'f', 's', 'a' or 'r' */
    uint64_t seed;
    uint32_t flip;
    double number;
    double part, span;
    long skip;
    long done;
} spoil;

static const char *const places[] = {
    [LS_FAULT_TOKENS] = "tokens",
    [LS_FAULT_FORWARD] = "forward",
    [LS_FAULT_PRODUCT] = "product",
    [LS_FAULT_BACKWARD] = "backward",
    [LS_FAULT_LEAF] = "leaf",
    [LS_FAULT_SHARE] = "share",
    [LS_FAULT_GRADIENT] = "gradient",
    [LS_FAULT_WEIGHT] = "weight",
    [LS_FAULT_MOMENT] = "moment",
    [LS_FAULT_COPY] = "copy",
    [LS_FAULT_LATE_WEIGHT] = "late-weight",
    [LS_FAULT_LATE_MOMENT] = "late-moment",
    [LS_FAULT_GATHERED] = "gathered",
    [LS_FAULT_LEFT] = "left",
    [LS_FAULT_TAKEN] = "taken",
    [LS_FAULT_SAVING] = "saving",
};

/* 16-bit numbers: of either type 0x7FFF is a NaN, and the last bit is a slight error. */
static void change(char *at, size_t bytes) {
    if (spoil.what == 'f') {
        uint32_t bits = 0;
        memcpy(&bits, at, bytes);
        bits ^= spoil.flip;
        memcpy(at, &bits, bytes);
    } else if (bytes == sizeof(float)) {
        float value;
        memcpy(&value, at, sizeof value);
        value = spoil.what == 's' ? (float)spoil.number : value * (float)(1 + spoil.number);
        memcpy(at, &value, sizeof value);
    } else {
        uint16_t bits;
        memcpy(&bits, at, sizeof bits);
        bits = spoil.what == 's' ? 0x7FFF : bits ^ 1;
        memcpy(at, &bits, sizeof bits);
    }
}

static void tell(const ls_fault_site *site, size_t index) {
    const char *path = getenv("LS_SPOIL_LOG");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "rank=%d step=%lld place=%s tensor=%s block=%d index=%zu\n", ls_fault_rank, (long long)ls_fault_step,
            places[site->place], site->tensor ? site->tensor : "-", site->block, index);
    fclose(file);
}

/* ---- a random time ----------------------------------------------------------------------------------------------- */

enum { SITES_MAX = 512 };

/* Tensors that came by; the thread of the worker adds to them, and another one flips. */
static struct {
    ls_fault_site site[SITES_MAX];
    _Atomic size_t sites;
    double begin_s, step_s;
    bool is_started;
} seen;

/* Device 0 of those that the process sees. The byte is copied out, changed and copied back, while kernels run: a kernel
 * that writes it in between is undone, which is damage as well. */
static bool flip_on_gpu(uint64_t address, uint8_t mask) {
    const ls_cuda_driver *driver = NULL;
    CUdevice gpu;
    CUcontext context;
    CUstream stream = NULL;
    uint8_t value;
    if (ls_cuda_driver_load(&driver) != LS_OK || driver->cuDeviceGet(&gpu, 0) != CUDA_SUCCESS ||
        driver->cuDevicePrimaryCtxRetain(&context, gpu) != CUDA_SUCCESS)
        return false;
    bool done = driver->cuCtxSetCurrent(context) == CUDA_SUCCESS &&
                driver->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
                driver->cuMemcpyDtoHAsync(&value, address, 1, stream) == CUDA_SUCCESS;
    while (done && driver->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) continue;
    value ^= mask;
    done = done && driver->cuMemcpyHtoDAsync(address, &value, 1, stream) == CUDA_SUCCESS;
    while (done && driver->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) continue;
    if (stream) (void)driver->cuStreamDestroy(stream);
    (void)driver->cuDevicePrimaryCtxRelease(gpu);
    return done;
}

static void *flip_later(void *arg) {
    ls_rng_key key = ls_rng_key_make(spoil.seed, 1, 0);
    const char *path = getenv("LS_SPOIL_LOG");
    double wait_s = seen.step_s * spoil.span * (double)ls_rng_uniform_f32(key, 0);
    (void)arg;
    usleep((useconds_t)(wait_s * 1e6));
    const size_t sites = atomic_load(&seen.sites);
    int log = path && sites > 0 ? open(path, O_WRONLY | O_CREAT | O_EXCL, 0644) : -1;
    if (log < 0) return NULL;
    const ls_fault_site *site = &seen.site[ls_rng_below(key, 1, sites)];
    const uint64_t byte = ls_rng_below(key, 2, site->elems * site->elem_bytes), bit = ls_rng_below(key, 3, 8);
    const uint8_t mask = (uint8_t)(1U << bit);
    if (!site->device || site->device->is_host)
        __atomic_xor_fetch((uint8_t *)site->data + byte, mask, __ATOMIC_SEQ_CST);
    else if (!flip_on_gpu((uint64_t)(uintptr_t)site->data + byte, mask))
        abort();
    dprintf(log, "rank=%d step=%lld place=%s tensor=%s byte=%llu bit=%llu\n", ls_fault_rank, (long long)ls_fault_step,
            places[site->place], site->tensor ? site->tensor : "-", (unsigned long long)byte, (unsigned long long)bit);
    close(log);
    return NULL;
}

/* Two steps tell how long one is. */
static void note_site(const ls_fault_site *site) {
    const size_t sites = atomic_load(&seen.sites);
    pthread_t thread;
    if (spoil.rank != ls_fault_rank || ls_fault_step < spoil.step) return;
    if (seen.begin_s <= 0) seen.begin_s = ls_clock_seconds();
    bool is_known = (int)site->place != spoil.place || site->elems == 0 || sites == SITES_MAX;
    for (size_t i = 0; i < sites && !is_known; i++) is_known = seen.site[i].data == site->data;
    if (!is_known) {
        seen.site[sites] = *site;
        atomic_store(&seen.sites, sites + 1);
    }
    if (seen.is_started || ls_fault_step < spoil.step + 2) return;
    seen.is_started = true;
    seen.step_s = (ls_clock_seconds() - seen.begin_s) / 2;
    if (pthread_create(&thread, NULL, flip_later, NULL) == 0) (void)pthread_detach(thread);
}

/* ---- in place ---------------------------------------------------------------------------------------------------- */

static bool is_due(void) {
    int64_t since = ls_fault_step - spoil.step;
    if (spoil.step < 0 || since == 0) return true;
    return spoil.every > 0 && since > 0 && since % spoil.every == 0;
}

static void act(const ls_fault_site *site) {
    if (spoil.what == 'r') {
        note_site(site);
        return;
    }
    if ((int)site->place != spoil.place || site->elems <= spoil.index) return;
    if (spoil.rank >= 0 && spoil.rank != ls_fault_rank) return;
    if (!is_due()) return;
    if (spoil.block >= 0 && spoil.block != site->block) return;
    if (spoil.tensor[0] && (!site->tensor || !strstr(site->tensor, spoil.tensor))) return;
    if (ls_fault_path != 0) return; /* a unit of the usual instructions is broken */
    if (spoil.times > 0 && spoil.done >= spoil.times) return;
    if (spoil.skip > 0) {
        spoil.skip--;
        return;
    }
    size_t index = spoil.part > 0 ? (size_t)(spoil.part * (double)site->elems) : spoil.index;
    if (spoil.done++ == 0) tell(site, index);
    size_t end = index + 1 + (size_t)(spoil.span * (double)site->elems);
    for (size_t i = index; i < end && i < site->elems; i++) {
        char *at = (char *)site->data + i * site->elem_bytes, number[8];
        if (!site->device) {
            change(at, site->elem_bytes);
        } else if (ls_device_copy_out(site->device, number, at, site->elem_bytes) == LS_OK) {
            change(number, site->elem_bytes);
            (void)ls_device_copy_in(site->device, at, number, site->elem_bytes);
        }
    }
}

static void fail(const char *word) {
    fprintf(stderr, "LS_SPOIL: %s\n", word);
    exit(2);
}

static long number_of(const char *text) { return strcmp(text, "*") == 0 ? -1 : strtol(text, NULL, 0); }

static void read_word(const char *word) {
    const char *value = strchr(word, '=');
    if (!value++) fail(word);
    if (strncmp(word, "rank=", 5) == 0)
        spoil.rank = (int)number_of(value);
    else if (strncmp(word, "step=", 5) == 0)
        spoil.step = number_of(value), spoil.every = strchr(value, '+') ? number_of(strchr(value, '+') + 1) : 0;
    else if (strncmp(word, "block=", 6) == 0)
        spoil.block = (int)number_of(value);
    else if (strncmp(word, "index=", 6) == 0)
        spoil.index = (size_t)number_of(value);
    else if (strncmp(word, "part=", 5) == 0)
        spoil.part = strtod(value, NULL);
    else if (strncmp(word, "span=", 5) == 0)
        spoil.span = strtod(value, NULL);
    else if (strncmp(word, "skip=", 5) == 0)
        spoil.skip = number_of(value);
    else if (strncmp(word, "times=", 6) == 0)
        spoil.times = number_of(value);
    else if (strncmp(word, "tensor=", 7) == 0)
        snprintf(spoil.tensor, sizeof spoil.tensor, "%s", value);
    else if (strncmp(word, "flip=", 5) == 0)
        spoil.what = 'f', spoil.flip = (uint32_t)strtoul(value, NULL, 0);
    else if (strncmp(word, "random=", 7) == 0)
        spoil.what = 'r', spoil.seed = strtoull(value, NULL, 0);
    else if (strncmp(word, "set=", 4) == 0)
        spoil.what = 's', spoil.number = strtod(value, NULL);
    else if (strncmp(word, "add=", 4) == 0)
        spoil.what = 'a', spoil.number = strtod(value, NULL);
    else if (strncmp(word, "place=", 6) == 0) {
        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
            if (strcmp(value, places[i]) == 0) spoil.place = (int)i;
        if (spoil.place < 0) fail(word);
    } else
        fail(word);
}

/* ---- writes ------------------------------------------------------------------------------------------------------ */

static bool is_meant(int fd, const char *request, size_t length) {
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t used = readlink(name, path, sizeof path - 1);
    if (used < 0) return false;
    path[used] = '\0';
    return memmem(path, (size_t)used, request, length) != NULL;
}

/* In the place of the C library's: those of the program's own objects come here. */
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) {
    const char *request = getenv("LS_SPOIL_WRITE"), *colon = request ? strrchr(request, ':') : NULL;
    char *copy = NULL;
    if (colon && is_meant(fd, request, (size_t)(colon - request))) {
        off_t at = strtoll(colon + 1, NULL, 10) - offset;
        if (at >= 0 && (size_t)at < bytes && (copy = malloc(bytes)) != NULL) {
            memcpy(copy, data, bytes);
            copy[at] ^= 0x10;
        }
    }
    ssize_t put = syscall(SYS_pwrite64, fd, copy ? copy : data, bytes, offset);
    free(copy);
    return put;
}

/* Before main: the program itself knows nothing of it. */
__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("LS_SPOIL");
    char copy[512];
    ls_fault_no_unit = getenv("LS_SPOIL_NO_UNIT") != NULL;
    ls_device_fake = ls_device_open_fake;
    if (!text) return;
    spoil.rank = spoil.block = spoil.place = -1;
    spoil.step = -1;
    spoil.times = 1;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *rest = NULL, *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        read_word(word);
    if (spoil.place < 0 || !spoil.what) fail("place= and one of flip=, set=, add=, random= are needed");
    ls_fault_spoil = act;
}
