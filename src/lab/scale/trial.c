/* trial.c: steps that are timed. */
#include "lab/scale/trial.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/meter.h"

ls_status ls_scale_record_open(int workers, int64_t steps, ls_scale_record *out) {
    size_t bytes;
    *out = (ls_scale_record){.workers = workers, .steps = steps};
    if (__builtin_mul_overflow((size_t)workers * sizeof(ls_scale_step), (size_t)steps, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(ls_scale_noise), &bytes))
        return ls_fail(LS_ERR_RESOURCE, "a record of %lld steps is too large", (long long)steps);
    char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return ls_fail_errno(LS_ERR_RESOURCE, "no memory for a record of %lld steps: use fewer", (long long)steps);
    out->map_bytes = bytes;
    out->step = (ls_scale_step *)(void *)map;
    out->noise = (ls_scale_noise *)(void *)(map + bytes - sizeof(ls_scale_noise));
    return LS_OK;
}

void ls_scale_record_close(ls_scale_record *record) {
    if (record->step) munmap(record->step, record->map_bytes);
    *record = (ls_scale_record){0};
}

static ls_scale_step between(const ls_meter *before, const ls_meter *after, uint64_t ns) {
    ls_scale_step step = {.seconds = 1e-9 * (double)ns,
                          .compute = 1e-9 * (double)(after->compute_ns - before->compute_ns)};
    for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
        step.idle += 1e-9 * (double)(after->idle_ns[k] - before->idle_ns[k]);
        step.sync[k] = 1e-9 * (double)(after->sync_ns[k] - before->sync_ns[k]);
        step.link[k] = 1e-9 * (double)(after->link_ns[k] - before->link_ns[k]);
    }
    return step;
}

/* Linux tells how long a thread was ready to run without running: the second number of this file. Where there is no
 * such file (fd < 0), nobody is known to have been in the way. */
static uint64_t queued_ns(int fd) {
    char text[96], *second;
    ssize_t bytes = fd < 0 ? 0 : pread(fd, text, sizeof text - 1, 0);
    if (bytes <= 0) return 0;
    text[bytes] = '\0';
    second = strchr(text, ' ');
    return second ? strtoull(second + 1, NULL, 10) : 0;
}

static ls_status timed_steps(ls_trainer *t, int fd, int64_t count, ls_scale_step *out) {
    for (int64_t i = 0; i < count; i++) {
        ls_step_result result;
        ls_meter before = ls_meter_now;
        uint64_t queued = queued_ns(fd), begin = ls_clock_ns();
        LS_TRY(ls_trainer_step(t, 0, &result));
        out[i] = between(&before, &ls_meter_now, ls_clock_ns() - begin);
        out[i].queued = 1e-9 * (double)(queued_ns(fd) - queued);
    }
    return LS_OK;
}

static ls_status steps(ls_trainer *t, ls_scale_record *record) {
    ls_scale_step *mine = record->step + (size_t)t->rank * (size_t)record->steps;
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ls_status status = timed_steps(t, fd, record->steps, mine);
    if (fd >= 0) (void)close(fd);
    if (status != LS_OK) return status;
    if (t->rank != 0 || t->settings.numerics == 0) return LS_OK;
    ls_noise_value noise =
        ls_noise_get(&t->guard.noise, (int64_t)(t->settings.B * t->settings.T), (int64_t)t->settings.B);
    *record->noise = (ls_scale_noise){noise.valid && noise.scale_sequences > 0, noise.scale_sequences};
    return LS_OK;
}

ls_status ls_scale_work(const ls_verify_job *job, ls_scale_record *record, ls_world *world, ls_device *device) {
    ls_trainer *t = NULL;
    LS_TRY(ls_verify_begin(job, world, device, &t));
    ls_meter_now = (ls_meter){.on = true};
    ls_status status = steps(t, record);
    ls_meter_now.on = false;
    ls_trainer_destroy(t);
    return status;
}
