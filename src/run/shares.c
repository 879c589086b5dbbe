/* shares.c: collects busy times of replicas in windows of steps, and judges what other shares would save. */
#include "run/shares.h"

#include <stdlib.h>

enum { WARM_UP = 5, STEPS_LEAST = 32, AGREED = 3 };
static const double gain_least = 1.0 / 7, horizon_s = 600, times_cost = 5, cost_least_s = 0.5;

void ls_share_watch_begin(ls_share_watch *w, const ls_layout *layout, double cost_s, int times, double since_s) {
    const char *test = getenv("LS_FAULT_SHARES"); /* seconds of a window, for tests; a new layout costs nothing then */
    *w = (ls_share_watch){.layout = layout, .cost_s = cost_s > cost_least_s ? cost_s : cost_least_s, .slow = -1};
    w->window_s = test ? strtod(test, NULL) : 2;
    if (test) w->cost_s = 0;
    w->pause_s = 15 * w->window_s;
    if (times > 0) w->not_before_s = since_s + w->pause_s * (double)(INT64_C(1) << (times < 20 ? times - 1 : 19));
}

/* Orders floats ascending, for qsort(). */
static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* Returns the busy time of a replica in this window, in ms, below which an eighth of its steps lie. */
static double usual_of(const ls_share_watch *w, int row) {
    float sorted[LS_SHARES_WINDOW];
    int count = w->steps < LS_SHARES_WINDOW ? w->steps : LS_SHARES_WINDOW;
    for (int i = 0; i < count; i++) sorted[i] = w->ms[i][row];
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    return (double)sorted[count / 8];
}

/* Adds a window to the run of windows with the same slowest replica, or starts a new run with it. Keeps, of the run,
 * the shortest time of that replica and the longest of the others, which is the cautious assumption. */
static void take_window(ls_share_watch *w) {
    double ms[LS_WORKERS_MAX];
    int slow = 0, dp = w->layout->dp;
    for (int d = 0; d < dp; d++) {
        ms[d] = usual_of(w, d);
        if (ms[d] > ms[slow]) slow = d;
    }
    bool again = slow == w->slow;
    for (int d = 0; d < dp; d++) {
        bool better = d == slow ? ms[d] < w->row_ms[d] : ms[d] > w->row_ms[d];
        if (!again || better) w->row_ms[d] = ms[d];
    }
    w->agreed = again ? w->agreed + 1 : 1;
    w->slow = slow;
}

/* Computes speeds and new shares, and returns whether these would save enough time. The time of a replica is
 * proportional to its groups, and the slowest replica sets the pace. */
static bool judge_shares(ls_share_watch *w, double left_s) {
    const ls_layout *layout = w->layout;
    int groups = 0;
    w->step_ms = w->then_ms = 0;
    for (int d = 0; d < layout->dp; d++) {
        if (!(w->row_ms[d] > 0)) return false;
        w->speeds[d] = layout->share[d] / w->row_ms[d];
        groups += layout->share[d];
        if (w->row_ms[d] > w->step_ms) w->step_ms = w->row_ms[d];
    }
    ls_layout_share_by_speed(w->speeds, layout->dp, groups, w->share);
    for (int d = 0; d < layout->dp; d++)
        if (w->share[d] / w->speeds[d] > w->then_ms) w->then_ms = w->share[d] / w->speeds[d];
    double gain = 1 - w->then_ms / w->step_ms, counted_s = left_s < horizon_s ? left_s : horizon_s;
    return gain >= gain_least && gain * counted_s > times_cost * w->cost_s;
}

/* Stores the busy time of each replica in this step, which is that of its slowest worker. */
static void record_busy_times(ls_share_watch *w, const double *busy_ms) {
    float *ms = w->ms[w->steps++ % LS_SHARES_WINDOW];
    for (int d = 0; d < w->layout->dp; d++) ms[d] = 0;
    for (int r = 0; r < ls_layout_workers(w->layout); r++) {
        int d = ls_layout_place(w->layout, r).dp;
        if ((float)busy_ms[r] > ms[d]) ms[d] = (float)busy_ms[r];
    }
}

bool ls_share_watch_add(ls_share_watch *w, const double *busy_ms, double now_s, double left_s) {
    if (!w->layout || w->warm_up++ < WARM_UP) return false;
    if (w->steps == 0) w->begin_s = now_s;
    record_busy_times(w, busy_ms);
    if (w->steps < STEPS_LEAST || now_s - w->begin_s < w->window_s) return false;
    take_window(w);
    w->steps = 0;
    if (w->agreed < AGREED || now_s < w->not_before_s) return false;
    bool worth = judge_shares(w, left_s);
    w->agreed = 0; /* what is not worth it now is looked at afresh */
    w->slow = -1;
    return worth;
}
