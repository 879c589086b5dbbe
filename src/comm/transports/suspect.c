/* suspect.c: adds up, in the process that forked the workers, how long each has sent no heartbeat or made no progress,
 * and names one that hangs; see suspect.h. */
#include "comm/transports/suspect.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alive.h"
#include "base/child.h"
#include "base/clock.h"
#include "comm/world/request.h"

/* How long a runnable worker may lack a core. */
static const double crowded_s = 10;

/* Returns whether a thread of the process runs or is ready to run. */
static bool is_runnable(int pid) {
    char path[64];
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *task; tasks && !found && (task = readdir(tasks)) != NULL;)
        if (task->d_name[0] != '.') found = ls_process_state(atoi(task->d_name)) == 'R'; /* /proc has threads too */
    if (tasks) closedir(tasks);
    return found;
}

/* Limits at the default --timeout. A longer --timeout scales them up; none is longer than --timeout, and none is
 * shorter than least_limit_s. */
static const double silent_s = 2, still_s = 2;
static const double default_timeout_s = 300, least_limit_s = 1;

/* Scales a limit, in seconds, to --timeout: see suspect.h. */
static double scale_limit(const ls_beat_watch *watch, double limit_s) {
    double timeout_s = watch->timeout_s > 0 ? watch->timeout_s : default_timeout_s;
    if (timeout_s < least_limit_s) timeout_s = least_limit_s;
    if (timeout_s > default_timeout_s) limit_s *= timeout_s / default_timeout_s;
    return limit_s < timeout_s ? limit_s : timeout_s;
}

static double seconds(uint64_t ns) { return (double)ns * 1e-9; }

/* Returns the end of the chain of waits that begins with a local worker, by the records. */
static int find_chain_end(const ls_segment *segment, int worker) {
    for (int hops = 0; hops < segment->workers; hops++) {
        int next = atomic_load(&segment->header->workers[worker].beat.waits_for) - 1;
        if (next < 0 || next >= segment->workers || next == worker) break;
        worker = next;
    }
    return worker;
}

/* Returns a worker whose chain of waits ends at `worker`; −1: none. */
static int find_waiting_worker(const ls_segment *segment, int worker) {
    for (int w = 0; w < segment->workers; w++)
        if (w != worker && find_chain_end(segment, w) == worker) return w;
    return -1;
}

/* Returns whether a worker in a phase that computes has made no progress for longer than max(2 s, three times the usual
 * duration of the phase) and, as long as a thread of it is runnable, max(10 s, ten times that); seconds scaled to
 * --timeout. Always false in a phase that it has never completed. */
static bool is_still(const ls_beat_watch *watch, const ls_worker_record *record, int worker) {
    const ls_beat *beat = &record->beat;
    double usual_s = atomic_load(&beat->usual_ms) * 1e-3, still = seconds(watch->still_ns[worker]);
    double least_s = scale_limit(watch, still_s), limit_s = 3 * usual_s > least_s ? 3 * usual_s : least_s;
    if (!(usual_s > 0) || still <= limit_s || !ls_phase_computes((ls_phase)atomic_load(&beat->phase))) return false;
    double most_s = scale_limit(watch, crowded_s), patience_s = 10 * usual_s > most_s ? 10 * usual_s : most_s;
    return still > patience_s || !is_runnable(atomic_load(&record->pid));
}

/* Adds the time since the last call to the silence of each worker without a new beat, and to the standstill of each
 * worker without progress. */
static void update_watch(ls_beat_watch *watch, const ls_segment *segment) {
    uint64_t now = ls_clock_ns(), passed = watch->last_ns ? now - watch->last_ns : 0, most = 200000000;
    if (passed > most) passed = most;
    watch->last_ns = now;
    for (int w = 0; w < segment->workers; w++) {
        const ls_worker_record *record = &segment->header->workers[w];
        uint64_t beat_ns = atomic_load(&record->beat.beat_ns), moved_ns = atomic_load(&record->beat.moved_ns);
        bool waits = atomic_load(&record->beat.waits_for) != LS_WAITS_FOR_NONE;
        watch->silent_ns[w] = beat_ns != watch->beat_ns[w] ? 0 : watch->silent_ns[w] + passed;
        watch->still_ns[w] = moved_ns != watch->moved_ns[w] || waits ? 0 : watch->still_ns[w] + passed;
        watch->beat_ns[w] = beat_ns;
        watch->moved_ns[w] = moved_ns;
    }
}

int ls_beat_suspect(ls_beat_watch *watch, const ls_segment *segment, char *text, size_t room) {
    double limit_s = scale_limit(watch, silent_s), patience_s = scale_limit(watch, crowded_s);
    update_watch(watch, segment);
    for (int w = 0; w < segment->workers; w++) {
        const ls_worker_record *record = &segment->header->workers[w];
        const ls_beat *beat = &record->beat;
        double silence_s = seconds(watch->silent_ns[w]);
        const char *doing = ls_phase_text((ls_phase)atomic_load(&beat->phase));
        int pid = atomic_load(&record->pid);
        if (pid == 0) continue; /* it has ended */
        if (silence_s > limit_s) {
            bool is_stopped = ls_process_state(pid) == 'T';
            /* A worker that is starting or ending sends no heartbeats. */
            bool beats = atomic_load(&beat->beat_ns) != 0 && atomic_load(&record->ended) == 0;
            if (!is_stopped && (silence_s < patience_s || !beats)) continue;
            if (ls_process_is_traced(pid)) continue; /* held by a debugger */
            (void)snprintf(text, room, "worker %d (process %d) has sent no heartbeat for %.0f s while %s%s", w, pid,
                           silence_s, doing, is_stopped ? ": it is stopped (by SIGSTOP)" : "");
            return w;
        }
        int waiting = is_still(watch, record, w) ? find_waiting_worker(segment, w) : -1;
        if (waiting < 0 || ls_process_is_traced(pid)) continue;
        (void)snprintf(
            text, room, "worker %d (process %d) made no progress for %.0f s while %s, and worker %d waits in %s", w,
            pid, seconds(watch->still_ns[w]), doing, waiting,
            ls_traffic_kind_name((ls_traffic_kind)atomic_load(&segment->header->workers[waiting].beat.kind)));
        return w;
    }
    return -1;
}

double ls_beat_all_stopped_s(ls_beat_watch *watch, const ls_segment *segment, int *first) {
    double least_s = HUGE_VAL;
    *first = -1;
    update_watch(watch, segment);
    for (int w = 0; w < segment->workers; w++) {
        int pid = atomic_load(&segment->header->workers[w].pid);
        double silence_s = seconds(watch->silent_ns[w]);
        if (pid == 0) continue;
        bool is_stopped = silence_s > least_limit_s && ls_process_state(pid) == 'T' && !ls_process_is_traced(pid);
        if (!is_stopped) return 0;
        if (*first < 0) *first = w;
        if (silence_s < least_s) least_s = silence_s;
    }
    return *first < 0 ? 0 : least_s;
}
