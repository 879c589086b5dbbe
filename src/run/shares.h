/* shares.h: decides whether a running run redistributes its gradient groups: a replica that stays slow gets fewer.
 * (A gradient group is a fixed part of the batch; a share is how many of them a replica has.) The loop asks on rank 0;
 * the supervisor then restarts all workers with new shares.
 *
 * The time of each replica per group comes from the busy times that workers exchange in every step (worker_time.h).
 * They are judged in windows of at least 32 steps and two seconds, each replica by the time below which an eighth of
 * the last 64 steps of the window lie, because on a shared machine most steps of a healthy worker may be delayed, but
 * not all. New shares are requested only if
 *
 *   - three windows in a row have the same replica as the slowest, and a step would be at least a seventh shorter with
 *     the slowest replica at its best and the others at their worst of these windows;
 *   - the time saved in the remaining steps, of at most ten minutes, is more than five times the cost of a new layout,
 *     which counts as half a second or more;
 *   - the last change was at least half a minute ago; this minimum doubles with each change.
 *
 * The bits are the same under all shares. */
#ifndef LS_RUN_SHARES_H
#define LS_RUN_SHARES_H

#include "parallel/layout/layout.h"

enum { LS_SHARES_WINDOW = 64 };

typedef struct ls_share_watch {
    const ls_layout *layout; /* borrowed; NULL: shares are not watched */
    double cost_s;           /* of a new layout in seconds, as far as is known */
    double not_before_s;     /* by ls_clock_seconds() */
    /* private */
    int warm_up, steps, agreed, slow;  /* steps of the run up to WARM_UP, which are not judged; steps of the window;
                                          windows in a row in which replica `slow` was the slowest (−1: none yet) */
    double begin_s, window_s, pause_s; /* begin and least length of a window; least time between changes */
    float ms[LS_SHARES_WINDOW][LS_WORKERS_MAX]; /* busy time of the slowest worker, by step of the window (the last 64,
                                                   as a ring) and replica */
    /* results of the windows that agree */
    double row_ms[LS_WORKERS_MAX]; /* by replica (a row of the mesh): its busy time, see take_window() */
    double speeds[LS_WORKERS_MAX]; /* groups per millisecond */
    int share[LS_WORKERS_MAX];     /* shares by these speeds */
    double step_ms, then_ms;       /* busy time of the slowest replica, now and with `share` */
} ls_share_watch;

/* Starts a watch of this layout, which is borrowed; NULL: shares are not watched. `cost_s`: what a new layout costs;
 * `times`: how often shares were changed before; `since_s`: when that was last, by ls_clock_seconds(), ignored if
 * `times` is 0. */
void ls_share_watch_begin(ls_share_watch *watch, const ls_layout *layout, double cost_s, int times, double since_s);
/* Adds the busy time of each worker in a step, by rank. Returns true if new shares are worth it; they are in
 * watch->share. `now_s`: the time by ls_clock_seconds(); `left_s`: remaining time of the run at this pace. Call it on
 * rank 0 alone, after each step. */
bool ls_share_watch_add(ls_share_watch *watch, const double *busy_ms, double now_s, double left_s);

#endif
