/* steps.c: times steps and averages them.
 *
 * Only the faster half of the steps of all rounds counts, because other load of the machine only makes steps slower. If
 * there are enough steps in which no worker waited for a core (calm steps), only those count. */
#include "lab/scale/steps.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/meter.h"

ls_status ls_scale_record_open(int workers, int64_t steps, ls_scale_record *out) {
    *out = (ls_scale_record){.workers = workers, .steps = steps};
    out->step = ls_trial_alloc((size_t)steps, (size_t)workers * sizeof *out->step);
    out->noise = ls_trial_alloc(1, sizeof *out->noise);
    if (out->step && out->noise) return LS_OK;
    ls_scale_record_close(out);
    return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for a record of %lld steps: use fewer", (long long)steps);
}

void ls_scale_record_close(ls_scale_record *record) {
    ls_trial_free(record->step);
    ls_trial_free(record->noise);
    *record = (ls_scale_record){0};
}

/* Returns the times between two readings of the meter, for a step of `ns`. */
static ls_scale_step difference_of(const ls_meter *before, const ls_meter *after, uint64_t ns) {
    ls_scale_step step = {.seconds = 1e-9 * (double)ns,
                          .compute = 1e-9 * (double)(after->compute_ns - before->compute_ns)};
    for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
        step.idle += 1e-9 * (double)(after->idle_ns[k] - before->idle_ns[k]);
        step.sync[k] = 1e-9 * (double)(after->sync_ns[k] - before->sync_ns[k]);
        step.link[k] = 1e-9 * (double)(after->link_ns[k] - before->link_ns[k]);
    }
    return step;
}

/* Trains and measures `count` steps; `fd` has the thread's waits for cores. */
static ls_status timed_steps(ls_trainer *t, int fd, int64_t count, ls_scale_step *out) {
    for (int64_t i = 0; i < count; i++) {
        ls_step_result result;
        ls_meter before = ls_meter_now;
        uint64_t queued = ls_clock_queue_read(fd).waited_ns, begin = ls_clock_ns();
        LS_TRY(ls_trainer_step(t, 0, &result));
        out[i] = difference_of(&before, &ls_meter_now, ls_clock_ns() - begin);
        out[i].queued = 1e-9 * (double)(ls_clock_queue_read(fd).waited_ns - queued);
    }
    return LS_OK;
}

/* Times all steps of the record in this worker; rank 0 also writes the noise scale if it is measured. */
static ls_status record_steps(ls_trainer *t, const ls_scale_record *record) {
    ls_scale_step *mine = record->step + (size_t)t->rank * (size_t)record->steps;
    int fd = ls_clock_queue_open();
    ls_status status = timed_steps(t, fd, record->steps, mine);
    if (fd >= 0) (void)close(fd);
    if (status != LS_OK) return status;
    if (t->rank != 0 || t->settings.options.numerics == 0) return LS_OK;
    ls_noise_value noise =
        ls_noise_get(&t->guard.noise, (int64_t)(t->settings.B * t->settings.T), (int64_t)t->settings.B);
    *record->noise = (ls_scale_noise){noise.valid && noise.scale_sequences > 0, noise.scale_sequences};
    return LS_OK;
}

ls_status ls_scale_steps(ls_trainer *t, void *ctx) {
    ls_meter_now = (ls_meter){.on = true};
    ls_status status = record_steps(t, ctx);
    ls_meter_now.on = false;
    return status;
}

/* ---- series ------------------------------------------------------------------------------------------------------ */

/* A step is doubles throughout. */
enum { STEP_DOUBLES = sizeof(ls_scale_step) / sizeof(double) };

/* Averages one step over its workers. */
static ls_scale_step mean_over_workers(const ls_scale_record *r, int64_t step) {
    ls_scale_step mean = {0};
    for (int w = 0; w < r->workers; w++) {
        const double *of = (const double *)&r->step[(int64_t)w * r->steps + step];
        for (int i = 0; i < STEP_DOUBLES; i++) ((double *)&mean)[i] += of[i] / r->workers;
    }
    return mean;
}

enum { CALM_STEPS = 8 };
static const double calm_share = .01;

/* Returns whether the worker waited for cores for at most 1 % of the step. */
static bool is_calm(const ls_scale_step *step) { return step->queued <= calm_share * step->seconds; }

/* Orders steps by time, for qsort(). */
static int by_seconds(const void *a, const void *b) {
    double x = ((const ls_scale_step *)a)->seconds, y = ((const ls_scale_step *)b)->seconds;
    return (x > y) - (x < y);
}

/* Orders calm steps before others, then by time, for qsort(). */
static int by_calm(const void *a, const void *b) {
    bool x = is_calm(a), y = is_calm(b);
    return x == y ? by_seconds(a, b) : x ? -1 : 1;
}

/* Returns the steps in which the workers hardly waited for cores. */
static int64_t calm_steps(const ls_scale_series *series) {
    int64_t calm = 0;
    for (int64_t i = 0; i < series->count; i++) calm += is_calm(&series->step[i]);
    return calm;
}

bool ls_scale_series_is_calm(const ls_scale_series *series) { return calm_steps(series) >= CALM_STEPS; }

ls_status ls_scale_series_add(ls_scale_series *series, const ls_scale_record *record) {
    int64_t more = record->steps - LS_SCALE_WARMUP;
    ls_scale_step *all = realloc(series->step, (size_t)(series->count + more) * sizeof *all);
    if (!all) return ls_fail(LS_ERR_RESOURCE, "out of memory for %lld steps", (long long)more);
    series->step = all;
    for (int64_t i = 0; i < more; i++) all[series->count + i] = mean_over_workers(record, LS_SCALE_WARMUP + i);
    series->count += more;
    return LS_OK;
}

/* Divides communication into exposed and overlapped parts. While a worker waits for one kind, the transfer of another
 * may have the link, so only the sums tell how much was overlapped; it is attributed to the kinds with a shorter wait
 * than transfer. */
static void divide_sync(ls_scaling_point *p, const double *link) {
    double all = 0, shortage = 0, sync = ls_scaling_sync_of(p);
    for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
        all += link[k];
        if (link[k] > p->sync[k]) shortage += link[k] - p->sync[k];
    }
    /* A few hundredths less than transfers take is how clocks are read, not something hidden. */
    double hidden = sync < .97 * all ? all - sync : 0;
    for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
        p->hidden[k] = link[k] > p->sync[k] && hidden > 0 ? (link[k] - p->sync[k]) * hidden / shortage : 0;
        p->own[k] = all > 0 ? link[k] * (sync + hidden) / all : p->sync[k];
    }
}

ls_status ls_scale_series_take(ls_scale_series *series, ls_scaling_point *p) {
    int64_t calm = calm_steps(series), count = calm < CALM_STEPS ? series->count : calm, half = (count + 1) / 2;
    double weight = 1.0 / (double)half;
    ls_scale_step mean = {0};
    if (count < 1) return ls_fail(LS_ERR_FAILED, "no step was timed");
    qsort(series->step, (size_t)series->count, sizeof *series->step, calm < CALM_STEPS ? by_seconds : by_calm);
    for (int64_t i = 0; i < half; i++)
        for (int k = 0; k < STEP_DOUBLES; k++) ((double *)&mean)[k] += weight * ((const double *)&series->step[i])[k];
    p->seconds = mean.seconds;
    p->compute = mean.compute;
    p->idle = mean.idle;
    p->queued = mean.queued;
    memcpy(p->sync, mean.sync, sizeof p->sync);
    p->steps = count;
    p->low = series->step[count / 4].seconds;
    p->high = series->step[count - 1 - count / 4].seconds;
    p->other = p->seconds - p->compute - p->idle - ls_scaling_sync_of(p);
    if (p->other < 0) p->other = 0;
    divide_sync(p, mean.link);
    return LS_OK;
}
