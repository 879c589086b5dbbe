/* run_attempts.c: the supervisor of a run: what it does when a worker is lost.
 *
 * A place is what a worker has of the machine: its cores, or its GPU. A worker that was lost is started anew on a spare
 * place, or on its own; a place on which workers were lost twice is left out. Then the run is laid out for the places
 * that are left: dp shrinks while a whole set of tp · pp workers fits, else it is the largest layout of the list that
 * is made at the start. Places that a layout has no use for become spares. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "api/run.h"
#include "base/log.h"
#include "comm/attempt.h"
#include "run/recover/resize.h"

enum { LOSSES_MAX = 2 };

typedef struct ls_run_attempts {
    ls_run *run;
    int places;
    int losses[LS_WORKERS_MAX]; /* by place */
    int place_of[LS_WORKERS_MAX];
    int wanted;                            /* workers, of a resize that was asked for; 0: none */
    int restarts;                          /* so far */
    int64_t failed_step;                   /* that the last worker was lost in; −1: in none */
    int failed_place;                      /* and its place */
    ls_layout layouts[LS_WORKERS_MAX + 1]; /* by number of places: the largest that fits; dp 0: none */
} ls_run_attempts;

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

/* The request of the run for so many workers, with this tp and pp; whether it is legal. */
static bool try_layout(const ls_run_attempts *a, int dp, int tp, int pp, ls_layout *out) {
    ls_run *r = a->run;
    ls_layout_request request = r->request;
    ls_layout before = r->layout;
    r->request.workers = 0;
    ls_knob_give(&r->request, LS_KNOB_dp, dp);
    ls_knob_give(&r->request, LS_KNOB_tp, tp);
    ls_knob_give(&r->request, LS_KNOB_pp, pp);
    if (dp != before.dp) r->request.shares = NULL;
    if (pp != before.pp) r->request.stages = NULL;
    if (pp == 1 && before.pp > 1) ls_knob_leave_open(&r->request, LS_KNOB_virtual_stages);
    if (pp == 1 && before.pp > 1) ls_knob_leave_open(&r->request, LS_KNOB_schedule);
    if (tp == 1) ls_knob_leave_open(&r->request, LS_KNOB_sequence_parallel);
    r->request.speeds = NULL;
    bool legal = ls_run_make_layout(r) == LS_OK;
    if (legal) *out = r->layout;
    r->request = request;
    r->layout = before;
    return legal;
}

/* As large as can be on `places`; of equally large ones that whose tp · pp is nearest to what was asked for. */
static void find_layout(const ls_run_attempts *a, int places, ls_layout *out) {
    const ls_layout *asked = &a->run->layout;
    int set = asked->tp * asked->pp;
    *out = (ls_layout){.dp = 0};
    for (int dp = places / set; dp >= 1; dp--)
        if (try_layout(a, dp, asked->tp, asked->pp, out)) return;
    for (int workers = places; workers >= 1; workers--)
        for (int tp = asked->tp; tp >= 1; tp--)
            for (int pp = asked->pp; pp >= 1; pp--)
                if (workers % (tp * pp) == 0 && try_layout(a, workers / (tp * pp), tp, pp, out)) return;
}

/* One of exactly so many workers, with the tp · pp of the run where that divides them; dp 0: there is none. */
static void find_exact(const ls_run_attempts *a, int workers, ls_layout *out) {
    const ls_layout *asked = &a->run->layout;
    int set = asked->tp * asked->pp;
    *out = (ls_layout){.dp = 0};
    if (workers % set == 0 && try_layout(a, workers / set, asked->tp, asked->pp, out)) return;
    for (int tp = asked->tp; tp >= 1; tp--)
        for (int pp = asked->pp; pp >= 1; pp--)
            if (workers % (tp * pp) == 0 && try_layout(a, workers / (tp * pp), tp, pp, out)) return;
}

static void list_layouts(ls_run_attempts *a) {
    int workers = ls_layout_workers(&a->run->layout);
    for (int places = 1; places < workers; places++) find_layout(a, places, &a->layouts[places]);
    for (int places = workers; places <= a->places; places++) a->layouts[places] = a->run->layout;
}

/* ---- a loss ------------------------------------------------------------------------------------------------------ */

static ls_status used_up(const ls_run_attempts *a, const char *text) {
    return ls_fail(LS_ERR_WORKER,
                   "%s; the run has gone on %d time%s, as often as --restarts allows; continue with --resume", text,
                   a->restarts, a->restarts == 1 ? "" : "s");
}

/* Workers that are lost at different places in one and the same step are not what is wrong. */
static ls_status check_step(ls_run_attempts *a, int place, int64_t done, int64_t tried, const char *text) {
    bool in_step = tried > done;
    bool again = in_step && tried == a->failed_step && place != a->failed_place;
    a->failed_step = in_step ? tried : -1;
    a->failed_place = place;
    if (!again) return LS_OK;
    return ls_fail(LS_ERR_WORKER,
                   "%s; another worker was lost in the same step, %lld: its data, or too little memory, is more likely "
                   "than a worker to be the reason; look at them and continue with --resume",
                   text, (long long)tried);
}

/* Places that are left, those with fewest losses first; where all have failed twice, the best of them. */
static int list_places(const ls_run_attempts *a, int *places) {
    int count = 0, least = 0;
    for (int p = 1; p < a->places; p++)
        if (a->losses[p] < a->losses[least]) least = p;
    for (int losses = 0; losses < LOSSES_MAX; losses++)
        for (int p = 0; p < a->places; p++)
            if (a->losses[p] == losses) places[count++] = p;
    if (count == 0) places[count++] = least;
    return count;
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void tell(const ls_run_attempts *a, const ls_attempt_end *end, int64_t done, const ls_layout *before) {
    char layout[256] = "", from[64];
    const ls_layout *now = &a->run->layout;
    if (done >= 0)
        snprintf(from, sizeof from, "goes on from step %lld", (long long)done);
    else
        snprintf(from, sizeof from, "starts again");
    if (ls_layout_workers(now) != ls_layout_workers(before)) {
        char text[200];
        ls_layout_text(now, text, sizeof text);
        snprintf(layout, sizeof layout, " with %d worker%s, %s", ls_layout_workers(now),
                 ls_layout_workers(now) == 1 ? "" : "s", text);
    }
    ls_log_warn("%s; the run %s%s (restart %d of %d)", end->text, from, layout, a->restarts,
                (int)a->run->options.restarts);
}

/* ---- another size ------------------------------------------------------------------------------------------------ */

static bool wants_change(void *ctx) {
    ls_run_attempts *a = ctx;
    ls_layout layout;
    int workers;
    if (a->wanted > 0 || !ls_resize_take(a->run->out, &workers)) return a->wanted > 0;
    if (workers > 0) find_exact(a, workers, &layout);
    if (workers < 0)
        ls_log_warn("%s/resize is not a number of workers", a->run->out);
    else if (layout.dp == 0)
        ls_log_warn("no layout of this run has %d workers: it stays as it is", workers);
    else if (workers != ls_layout_workers(&a->run->layout))
        a->wanted = workers;
    return a->wanted > 0;
}

/* All have left. Places begin anew: they are shared out to another number of workers. */
static ls_status resize(ls_run_attempts *a, const ls_attempt_end *end, int *workers, int *places) {
    ls_run *r = a->run;
    char text[200];
    int64_t done, tried;
    ls_left_look(end->segment, -1, &done, &tried);
    ls_layout layout;
    find_exact(a, a->wanted, &layout);
    r->layout = layout;
    *workers = a->wanted;
    a->places = a->wanted + (int)r->options.spares;
    if (a->places > LS_WORKERS_MAX) a->places = LS_WORKERS_MAX;
    a->wanted = 0;
    memset(a->losses, 0, sizeof a->losses);
    for (int p = 0; p < a->places; p++) a->place_of[p] = p;
    for (int w = 0; w < *workers; w++) places[w] = w;
    list_layouts(a);
    ls_layout_text(&r->layout, text, sizeof text);
    ls_log_warn("the run goes on from step %lld with %d worker%s, %s", (long long)done, *workers,
                *workers == 1 ? "" : "s", text);
    ls_left_trim(end->segment);
    return LS_OK;
}

static ls_status next(void *ctx, const ls_attempt_end *end, int *workers, int *places) {
    ls_run_attempts *a = ctx;
    ls_run *r = a->run;
    ls_layout before = r->layout;
    if (end->rank < 0) return resize(a, end, workers, places);
    int64_t done, tried;
    int place = a->place_of[end->rank];
    ls_left_look(end->segment, end->whole ? end->rank : -1, &done, &tried);
    if (end->whole) a->losses[place]++; /* before, it was no step of this worker that failed */
    LS_TRY(check_step(a, place, done, tried, end->text));
    if (a->restarts >= r->options.restarts) return used_up(a, end->text);
    a->restarts++;
    int free_places = list_places(a, places);
    const ls_layout *layout = &a->layouts[free_places];
    if (layout->dp == 0)
        return ls_fail(LS_ERR_WORKER, "%s; no layout fits the %d place%s that are left; continue with --resume",
                       end->text, free_places, free_places == 1 ? "" : "s");
    r->layout = *layout;
    *workers = ls_layout_workers(layout);
    qsort(places, (size_t)*workers, sizeof *places, compare); /* the same rank at the same place as far as can be */
    memcpy(a->place_of, places, (size_t)*workers * sizeof *places);
    tell(a, end, done, &before);
    ls_left_trim(end->segment);
    return LS_OK;
}

/* Limits that shared memory is subject to and a process's own is not, or less. */
static bool is_limited(void) {
    static const int kinds[] = {RLIMIT_FSIZE, RLIMIT_AS};
    struct rlimit limit;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (getrlimit(kinds[i], &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) return true;
    return false;
}

bool ls_run_is_supervised(const ls_run *r) {
    if (r->options.restarts == 0) return false;
    if (r->workers.workers > 1 || r->workers.forks_one || !is_limited()) return true;
    ls_log_info("this process has a limit on files or address space, and its one worker no supervisor (--restarts 0)");
    return false;
}

ls_status ls_run_supervise(ls_run *r, ls_worker_fn fn, void *arg) {
    ls_run_attempts *a = calloc(1, sizeof *a);
    if (!a) return ls_fail(LS_ERR_RESOURCE, "out of memory for the supervisor of a run");
    a->run = r;
    a->places = r->workers.workers + (int)r->options.spares;
    a->failed_step = -1;
    if (a->places > LS_WORKERS_MAX) a->places = LS_WORKERS_MAX;
    for (int p = 0; p < a->places; p++) a->place_of[p] = p;
    list_layouts(a);
    r->attempts = a;
    ls_status status = r->dir ? LS_OK : ls_run_open_folder(r); /* or the first worker would make it, and be gone */
    int stale;
    if (status == LS_OK) (void)ls_resize_take(r->out, &stale); /* of a run that ended before it was taken */
    ls_supervision supervision = {.next = next, .wants_change = wants_change, .ctx = a, .places = a->places};
    if (status == LS_OK) status = ls_workers_supervise(&r->workers, &supervision, fn, arg);
    r->attempts = NULL;
    free(a);
    return status;
}
