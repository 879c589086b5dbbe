/* worker_time.c: a worker's word has busy time in its upper half and waiting in its lower one, in microseconds. Others
 * add 0 to it. */
#include "run/worker_time.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { EVERY_STEP_WORKERS = 16 };           /* up to so many workers every step is told */
static const uint64_t half_max = INT32_MAX; /* more than half an hour */

ls_status ls_worker_time_open(ls_worker_time *time, const ls_world *world) {
    *time = (ls_worker_time){.world = world, .workers = world ? ls_world_size(world) : 0};
    if (time->workers == 0) return LS_OK;
    time->every = (time->workers + EVERY_STEP_WORKERS - 1) / EVERY_STEP_WORKERS;
    time->busy_ms = calloc(2 * (size_t)time->workers, sizeof *time->busy_ms);
    if (!time->busy_ms) return ls_fail(LS_ERR_RESOURCE, "out of memory for the times of %d workers", time->workers);
    time->wait_ms = time->busy_ms + time->workers;
    return LS_OK;
}

void ls_worker_time_close(ls_worker_time *time) {
    free(time->busy_ms);
    *time = (ls_worker_time){0};
}

/* What has passed since the last call goes to what is to be told. */
static void count(ls_worker_time *time, uint64_t now_ns) {
    uint64_t all = now_ns - time->since_ns, waited = time->world->waited_ns - time->waited_ns;
    time->wait_left_ns += waited;
    time->busy_left_ns += all > waited ? all - waited : 0;
    time->since_ns = now_ns;
    time->waited_ns = time->world->waited_ns;
}

void ls_worker_time_begin(ls_worker_time *time) {
    if (!time->world) return;
    time->since_ns = ls_clock_ns();
    time->waited_ns = time->world->waited_ns;
    if (!time->due) return;
    memset(time->busy_ms, 0, 2 * (size_t)time->workers * sizeof *time->busy_ms);
    time->steps = 0;
    time->due = false;
}

void ls_worker_time_end(ls_worker_time *time) {
    if (time->since_ns == 0) return;
    count(time, ls_clock_ns());
    time->since_ns = 0;
    time->due = ++time->steps == time->every;
    for (int i = 0; time->due && i < 2 * time->workers; i++) time->busy_ms[i] /= time->steps;
}

static int64_t in_us(uint64_t ns) { return (int64_t)(ns / 1000 < half_max ? ns / 1000 : half_max); }

void ls_worker_time_give(ls_worker_time *time, int64_t *words) {
    if (!time->world) return;
    memset(words, 0, (size_t)time->workers * sizeof *words);
    if (time->since_ns == 0) return;
    count(time, ls_clock_ns());
    words[ls_world_rank(time->world)] = in_us(time->busy_left_ns) << 32 | in_us(time->wait_left_ns);
    time->busy_left_ns = time->wait_left_ns = 0;
}

void ls_worker_time_take(ls_worker_time *time, const int64_t *words) {
    for (int r = 0; r < time->workers; r++) {
        time->busy_ms[r] += (double)(words[r] >> 32) / 1e3;
        time->wait_ms[r] += (double)(words[r] & UINT32_MAX) / 1e3;
    }
}
