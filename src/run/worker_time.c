/* worker_time.c: measures the times of a worker's step and packs them into words of a sum: a word has one time in its
 * upper half and another in its lower one, in microseconds, and other workers add 0 to it. */
#include "run/worker_time.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { EVERY_STEP_WORKERS = 16 };           /* up to so many workers every step is told */
static const uint64_t half_max = INT32_MAX; /* more than half an hour */

static const char *const names[LS_WORKER_TIMES] = {
    [LS_WORKER_BUSY] = "busy_ms",   [LS_WORKER_WAIT] = "wait_ms",     [LS_WORKER_NET] = "net_ms",
    [LS_WORKER_INPUT] = "input_ms", [LS_WORKER_QUEUED] = "queued_ms", [LS_WORKER_CPU] = "cpu_ms"};

const char *ls_worker_time_name(ls_worker_time_kind kind) { return names[kind]; }

ls_status ls_worker_time_open(ls_worker_time *time, const ls_world *world) {
    *time = (ls_worker_time){.world = world, .workers = world ? ls_world_size(world) : 1, .queue_fd = -1};
    time->every = (time->workers + EVERY_STEP_WORKERS - 1) / EVERY_STEP_WORKERS;
    double *ms = calloc(LS_WORKER_TIMES * (size_t)time->workers, sizeof *ms);
    if (!ms) return ls_fail(LS_ERR_RESOURCE, "out of memory for the times of %d workers", time->workers);
    for (int k = 0; k < LS_WORKER_TIMES; k++) time->ms[k] = ms + k * time->workers;
    time->queue_fd = ls_clock_queue_open();
    return LS_OK;
}

void ls_worker_time_close(ls_worker_time *time) {
    if (time->workers > 0 && time->queue_fd >= 0) (void)close(time->queue_fd);
    free(time->ms[0]);
    *time = (ls_worker_time){.queue_fd = -1};
}

/* Returns the CPU time of this thread, in ns; 0 if it is not known. */
static uint64_t cpu_ns(void) {
    struct timespec t;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0 ? (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec : 0;
}

/* Reads the present counters, in ns; that of LS_WORKER_BUSY is 0, because it follows from the others. */
static void read_worker_times(const ls_worker_time *time, uint64_t out[LS_WORKER_TIMES]) {
    out[LS_WORKER_BUSY] = 0;
    out[LS_WORKER_WAIT] = time->world ? time->world->flight.waited_ns : 0;
    out[LS_WORKER_NET] = time->world ? time->world->flight.net_ns : 0;
    out[LS_WORKER_INPUT] = time->input_ns;
    out[LS_WORKER_QUEUED] = ls_clock_queue_read(time->queue_fd).waited_ns;
    out[LS_WORKER_CPU] = cpu_ns();
}

/* Begins unreported time now. */
static void start_counting(ls_worker_time *time) {
    time->since_ns = ls_clock_ns();
    read_worker_times(time, time->at_since);
}

/* Adds the time since the last call to left_ns, and begins again. */
static void count_elapsed_time(ls_worker_time *time) {
    uint64_t now[LS_WORKER_TIMES], since_ns = time->since_ns, before[LS_WORKER_TIMES];
    memcpy(before, time->at_since, sizeof before);
    start_counting(time);
    memcpy(now, time->at_since, sizeof now);
    for (int k = LS_WORKER_WAIT; k < LS_WORKER_TIMES; k++) time->left_ns[k] += now[k] - before[k];
    uint64_t all = time->since_ns - since_ns, waited = now[LS_WORKER_WAIT] - before[LS_WORKER_WAIT];
    time->left_ns[LS_WORKER_BUSY] += all > waited ? all - waited : 0;
}

void ls_worker_time_begin(ls_worker_time *time) {
    start_counting(time);
    if (!time->due) return;
    memset(time->ms[0], 0, LS_WORKER_TIMES * (size_t)time->workers * sizeof *time->ms[0]);
    time->steps = 0;
    time->due = false;
}

void ls_worker_time_end(ls_worker_time *time) {
    if (time->since_ns == 0) return;
    count_elapsed_time(time);
    time->since_ns = 0;
    if (!time->world) {
        for (int k = 0; k < LS_WORKER_TIMES; k++) time->ms[k][0] += (double)time->left_ns[k] / 1e6;
        memset(time->left_ns, 0, sizeof time->left_ns);
    }
    time->due = ++time->steps == time->every;
    for (int i = 0; time->due && i < LS_WORKER_TIMES * time->workers; i++) time->ms[0][i] /= time->steps;
}

/* Returns ns in microseconds, at most 2^31 − 1. */
static int64_t in_us(uint64_t ns) { return (int64_t)(ns / 1000 < half_max ? ns / 1000 : half_max); }

void ls_worker_time_give(ls_worker_time *time, int64_t *words) {
    if (!time->world) return; /* there are no words */
    memset(words, 0, ls_worker_time_words(time) * sizeof *words);
    if (time->since_ns == 0) return;
    count_elapsed_time(time);
    int64_t *mine = words + ls_world_rank(time->world) * LS_TRAFFIC_TIME_NUMBERS;
    for (int k = 0; k < LS_WORKER_TIMES; k++) mine[k / 2] |= in_us(time->left_ns[k]) << (k % 2 ? 0 : 32);
    memset(time->left_ns, 0, sizeof time->left_ns);
}

void ls_worker_time_take(ls_worker_time *time, const int64_t *words) {
    for (int r = 0; time->world && r < time->workers; r++)
        for (int k = 0; k < LS_WORKER_TIMES; k++) {
            int64_t word = words[r * LS_TRAFFIC_TIME_NUMBERS + k / 2];
            time->ms[k][r] += (double)(k % 2 ? word & UINT32_MAX : word >> 32) / 1e3;
        }
}
