/* run_attempts.c: the supervisor of a run, in the parent process: restarts the workers when one is lost, resizes the
 * run on request, and redistributes gradient groups among replicas of different speed.
 *
 * A place is a worker's part of the machine: its cores, or its GPU. A lost worker is restarted on a spare place, or on
 * its own. A place that has lost --place-losses workers is left out, and the run gets a layout for the remaining
 * places: dp shrinks while a whole set of tp x pp workers fits; otherwise the largest layout that fits is taken from
 * the list that was made at the start. Places that the layout does not use become spares.
 *
 * A worker whose numbers are wrong (run/guard/event.h: ls_wrong) exits like the others. If it is wrong repeatedly its
 * place is left out at once, otherwise it counts as lost. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "api/run.h"
#include "base/clock.h"
#include "base/log.h"
#include "comm/transports/supervise.h"
#include "comm/launch/claim.h"
#include "comm/launch/placement.h"
#include "run/recover/resize.h"

enum { WRONG = 1 << 20 }; /* losses of a place that computes wrongly and is never used again */

/* The supervisor's state. */
typedef struct ls_run_attempts {
    ls_run *run;
    int places;                            /* in all, with spares */
    int losses[LS_WORKERS_MAX];            /* workers lost, by place; WRONG: never used again */
    int place_of[LS_WORKERS_MAX];          /* by rank */
    int wanted;                            /* number of workers of a requested resize; 0: none */
    int restarts;                          /* so far */
    int64_t failed_step;                   /* step in which the last worker was lost; −1: in none */
    int failed_place;                      /* place of that worker */
    ls_layout layouts[LS_WORKERS_MAX + 1]; /* by number of places: the largest that fits; dp 0: none */
} ls_run_attempts;

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

/* Makes the layout of the run's request with this dp, tp and pp. Returns whether that is legal, and only then sets
 * *out; changes nothing in the run. */
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

/* Finds the largest layout for `places`: with the run's tp and pp if one fits, otherwise the one with most workers, and
 * of those with the largest tp, then pp, up to the run's. dp 0: there is none. */
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

/* Finds a layout of exactly so many workers: with the run's tp and pp if their product divides them, else with as large
 * ones as possible; dp 0 in *out: there is none. */
static void find_exact(const ls_run_attempts *a, int workers, ls_layout *out) {
    const ls_layout *asked = &a->run->layout;
    int set = asked->tp * asked->pp;
    *out = (ls_layout){.dp = 0};
    if (workers % set == 0 && try_layout(a, workers / set, asked->tp, asked->pp, out)) return;
    for (int tp = asked->tp; tp >= 1; tp--)
        for (int pp = asked->pp; pp >= 1; pp--)
            if (workers % (tp * pp) == 0 && try_layout(a, workers / (tp * pp), tp, pp, out)) return;
}

/* Fills a->layouts: for each number of places that may be left, the layout that the run then gets. */
static void list_layouts(ls_run_attempts *a) {
    int workers = ls_layout_workers(&a->run->layout);
    for (int places = 1; places < workers; places++) find_layout(a, places, &a->layouts[places]);
    for (int places = workers; places <= a->places; places++) a->layouts[places] = a->run->layout;
}

/* Returns whether the workers compute on GPUs. */
static bool is_gpu(const ls_run_attempts *a) { return ls_device_is_gpu(a->run->chosen.name); }

/* Makes the run's layout with its groups divided in proportion to `speeds`, one for each replica. Returns whether it is
 * legal, without which *out is of no use; changes nothing in the run. */
static bool try_shares(const ls_run_attempts *a, const double *speeds, ls_layout *out) {
    ls_run *r = a->run;
    ls_layout_request request = r->request;
    ls_layout before = r->layout;
    r->request.workers = 0;
    ls_knob_give(&r->request, LS_KNOB_dp, before.dp);
    ls_knob_give(&r->request, LS_KNOB_tp, before.tp);
    ls_knob_give(&r->request, LS_KNOB_pp, before.pp);
    r->request.shares = "auto";
    r->request.speeds = speeds;
    bool legal = ls_run_make_layout(r) == LS_OK;
    *out = r->layout;
    r->request = request;
    r->layout = before;
    return legal;
}

/* Returns whether slow replicas may get fewer gradient groups during the run: if dp is above 1, the user did not fix
 * the shares, and a much faster replica 0 would get more groups than it has, so there are enough groups to move. Never
 * on GPUs: new shares need a restart, which loses device memory and so costs more than they gain. */
static bool may_share(const ls_run_attempts *a) {
    const ls_run *r = a->run;
    double speeds[LS_WORKERS_MAX];
    ls_layout layout;
    bool is_open = !r->request.shares || strcmp(r->request.shares, "auto") == 0;
    if (r->layout.dp == 1 || !is_open || is_gpu(a)) return false;
    for (int d = 0; d < r->layout.dp; d++) speeds[d] = d == 0 ? 100 : 1;
    return try_shares(a, speeds, &layout) && layout.share[0] > r->layout.share[0];
}

/* ---- a loss ------------------------------------------------------------------------------------------------------ */

/* Fails with LS_ERR_WORKER: `text`, and that --restarts is used up. */
static ls_status fail_used_up(const ls_run_attempts *a, const char *text) {
    return ls_fail(LS_ERR_WORKER,
                   "%s; the run has gone on %d time%s, as often as --restarts allows; continue with --resume", text,
                   a->restarts, a->restarts == 1 ? "" : "s");
}

/* Fails if the worker before was lost at another place in the same step: then the data, or too little memory, is a more
 * likely cause than the workers. `done`: last completed step; `tried`: the one in which the worker was lost, if it is
 * greater. */
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

/* Lists the usable places, those with fewest losses first, and returns their number. If all have reached
 * --place-losses, the best one is used nevertheless; places that compute wrongly never are. */
static int list_places(const ls_run_attempts *a, int *places) {
    int count = 0, least = 0;
    for (int p = 1; p < a->places; p++)
        if (a->losses[p] < a->losses[least]) least = p;
    int64_t limit = a->run->options.place_losses;
    int most = 0;
    for (int p = 0; p < a->places; p++)
        if (a->losses[p] > most && a->losses[p] < WRONG) most = a->losses[p];
    for (int losses = 0; losses <= most && (limit == 0 || losses < limit); losses++)
        for (int p = 0; p < a->places; p++)
            if (a->losses[p] == losses) places[count++] = p;
    if (count == 0 && a->losses[least] < WRONG) places[count++] = least;
    return count;
}

/* Orders integers ascending, for qsort(). They are small and not negative, so the difference does not overflow. */
static int compare_ints(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* Logs why and from where the run continues. `done`: last completed step, −1: none. `back_to`: last verified step, to
 * which the run returns; −1: the workers' own state is sound. `before`: the layout until now, to say if it changes. */
static void report_attempt(const ls_run_attempts *a, const char *why, int64_t done, int64_t back_to,
                           const ls_layout *before) {
    char layout[256] = "", from[96];
    const ls_layout *now = &a->run->layout;
    if (back_to >= 0)
        snprintf(from, sizeof from, "goes back to its newest checkpoint up to step %lld", (long long)back_to);
    else if (done >= 0)
        snprintf(from, sizeof from, "goes on from step %lld", (long long)done);
    else
        snprintf(from, sizeof from, "starts again");
    if (ls_layout_workers(now) != ls_layout_workers(before)) {
        char text[200];
        ls_layout_text(now, text, sizeof text);
        snprintf(layout, sizeof layout, " with %d worker%s, %s", ls_layout_workers(now),
                 ls_layout_workers(now) == 1 ? "" : "s", text);
    }
    ls_log_warn("%s; the run %s%s (restart %d of %d)", why, from, layout, a->restarts, (int)a->run->options.restarts);
}

/* Counts a restart, and chooses layout and places (by rank) for the next attempt. LS_ERR_WORKER, with `why` as the
 * reason, if restarts are used up or no layout fits the places. */
static ls_status choose_next_layout(ls_run_attempts *a, const char *why, int *workers, int *places) {
    if (a->restarts >= a->run->options.restarts) return fail_used_up(a, why);
    a->restarts++;
    int free_places = list_places(a, places);
    const ls_layout *layout = &a->layouts[free_places];
    if (layout->dp == 0)
        return ls_fail(LS_ERR_WORKER, "%s; no layout fits the %d place%s that are left; continue with --resume", why,
                       free_places, free_places == 1 ? "" : "s");
    if (layout->dp != a->run->layout.dp) a->run->has_shares = false;
    a->run->layout = *layout;
    a->run->may_share = may_share(a);
    *workers = ls_layout_workers(layout);
    qsort(places, (size_t)*workers, sizeof *places,
          compare_ints); /* the same rank at the same place as far as can be */
    memcpy(a->place_of, places, (size_t)*workers * sizeof *places);
    return LS_OK;
}

/* ---- wrong numbers ----------------------------------------------------------------------------------------------- */

/* Writes "; its cores, 4-7, are left out" into `text`, or the same for a GPU. */
static void describe_place(const ls_run_attempts *a, const ls_attempt_end *end, int place, char *text, size_t room) {
    const int *cpus = ls_placement_cpus(end->placement, place);
    char cores[80] = "";
    if (cpus) ls_claim_list(cpus, end->placement->threads, cores, sizeof cores);
    if (is_gpu(a))
        snprintf(text, room, "; its GPU is left out");
    else if (cpus)
        snprintf(text, room, "; its core%s, %s, %s left out", end->placement->threads == 1 ? "" : "s", cores,
                 end->placement->threads == 1 ? "is" : "are");
    else
        snprintf(text, room, "; it is left out, but its cores are unknown: workers are not pinned here");
}

/* Continues after a worker with wrong numbers: counts a loss of its place, or leaves the place out for good if the
 * worker was wrong repeatedly or the place reaches --place-losses. */
static ls_status leave_place_out(ls_run_attempts *a, ls_attempt_end *end, const ls_wrong *b, int *workers,
                                 int *places) {
    ls_layout before = a->run->layout;
    char what[LS_MESSAGE_MAX - 160], where[160] = "", why[LS_MESSAGE_MAX];
    int64_t done, tried;
    int place = b->worker >= 0 ? a->place_of[b->worker] : -1;
    int64_t limit = a->run->options.place_losses;
    bool is_out = place >= 0 && (b->event.persistent || (limit > 0 && a->losses[place] + 1 >= limit));
    ls_left_look(end->segment, -1, &done, &tried);
    if (place >= 0) a->losses[place] = is_out ? WRONG : a->losses[place] + 1;
    if (is_out) {
        describe_place(a, end, place, where, sizeof where);
        end->wrong_place = place;
        ls_left_leave_out(end->segment);
    }
    ls_event_text(&b->event, what, sizeof what);
    snprintf(why, sizeof why, "%s%s", what, where);
    LS_TRY(choose_next_layout(a, why, workers, places));
    report_attempt(a, why, done, b->in_memory ? -1 : b->sound_step, &before);
    return LS_OK;
}

/* ---- another size ------------------------------------------------------------------------------------------------ */

/* Returns whether the run has a layout of exactly so many workers. */
static bool is_possible(const ls_run_attempts *a, int workers) {
    ls_layout layout;
    find_exact(a, workers, &layout);
    return layout.dp > 0;
}

/* Writes "no layout of this run has 7 workers; 6 and 8 are possible" into `text`. */
static void describe_refusal(const ls_run_attempts *a, int workers, char *text, size_t room) {
    int fewer = workers - 1, more = workers + 1, most = 2 * workers < LS_WORKERS_MAX ? 2 * workers : LS_WORKERS_MAX;
    while (fewer > 1 && !is_possible(a, fewer)) fewer--;
    while (more <= most && !is_possible(a, more)) more++;
    int bytes =
        snprintf(text, room, "no layout of this run has %d worker%s; %d", workers, workers == 1 ? "" : "s", fewer);
    if (more <= most)
        (void)snprintf(text + bytes, room - (size_t)bytes, " and %d are possible", more);
    else
        (void)snprintf(text + bytes, room - (size_t)bytes, " is possible");
}

/* Accepts the requested number of workers (sets a->wanted) or refuses it, and answers in the log and to `lockstep
 * resize`. Negative: the request could not be read. */
static void judge_resize(ls_run_attempts *a, int workers) {
    const ls_run *r = a->run;
    const char *plural = workers == 1 ? "" : "s";
    char text[LS_RESIZE_TEXT_MAX];
    if (workers < 0) {
        ls_log_warn("%s/resize is not a number of workers", r->out);
        return;
    }
    bool is_now = workers == ls_layout_workers(&r->layout) && a->wanted == 0;
    bool is_accepted = is_now || is_possible(a, workers);
    if (is_now)
        snprintf(text, sizeof text, "has %d worker%s already", workers, plural);
    else if (is_accepted)
        snprintf(text, sizeof text, "goes on with %d worker%s after the step under way", workers, plural);
    else
        describe_refusal(a, workers, text, sizeof text);
    if (is_accepted && !is_now) a->wanted = workers;
    if (!is_accepted) ls_log_warn("resize: %s: it stays as it is", text);
    ls_resize_answer(r->out, workers, is_accepted, text);
}

/* Returns whether all workers must leave for a resize; reads a new request first. Polled by ls_workers_supervise(). */
static bool wants_change(void *ctx) {
    ls_run_attempts *a = ctx;
    int workers;
    if (ls_resize_take(a->run->out, &workers)) judge_resize(a, workers);
    return a->wanted > 0;
}

/* Assigns places to another number of workers, in ascending order. Forgets the losses of all places, because their
 * cores change; only GPUs that compute wrongly stay out. (Cores that do are left out by ls_workers_supervise(), so they
 * are in no place.) */
static void share_places(ls_run_attempts *a, int workers, int *places) {
    int place = 0;
    for (int p = 0; p < LS_WORKERS_MAX; p++)
        if (a->losses[p] < WRONG || !is_gpu(a)) a->losses[p] = 0;
    for (int w = 0; w < workers; w++) {
        while (place < LS_WORKERS_MAX - 1 && a->losses[place] >= WRONG) place++;
        a->place_of[w] = places[w] = place++;
    }
    if (a->places < place) a->places = place;
}

/* Continues with a->wanted workers after all have left; if no layout has so many any more, as before. */
static ls_status resize_run(ls_run_attempts *a, ls_attempt_end *end, int *workers, int *places) {
    ls_run *r = a->run;
    char text[200];
    int64_t done, tried;
    ls_left_look(end->segment, -1, &done, &tried);
    ls_layout layout;
    find_exact(a, a->wanted, &layout);
    if (layout.dp == 0) { /* workers were lost since it was asked for, and tp or pp became smaller */
        ls_log_warn("no layout of this run has %d workers now: it goes on as it was", a->wanted);
        layout = r->layout;
        a->wanted = ls_layout_workers(&layout);
    }
    r->layout = layout;
    r->has_shares = false;
    r->may_share = may_share(a);
    *workers = a->wanted;
    a->places = a->wanted + (int)r->options.spares;
    if (a->places > LS_WORKERS_MAX) a->places = LS_WORKERS_MAX;
    a->wanted = 0;
    share_places(a, *workers, places);
    end->shares_out = a->places;
    list_layouts(a);
    ls_layout_text(&r->layout, text, sizeof text);
    ls_log_warn("the run goes on from step %lld with %d worker%s, %s", (long long)done, *workers,
                *workers == 1 ? "" : "s", text);
    return LS_OK;
}

/* ---- other shares ------------------------------------------------------------------------------------------------ */

/* Continues with other shares and the same places, after all have left because one replica stays slow. */
static ls_status redistribute_groups(ls_run_attempts *a, const ls_attempt_end *end, const ls_left_shares *by,
                                     int *workers, int *places) {
    ls_run *r = a->run;
    char text[200];
    int64_t done, tried;
    ls_layout layout;
    ls_left_look(end->segment, -1, &done, &tried);
    if (by->rows == r->layout.dp && try_shares(a, by->speeds, &layout)) r->layout = layout;
    r->has_shares = true;
    r->shared_times++;
    r->shared_s = ls_clock_seconds();
    *workers = ls_layout_workers(&r->layout);
    memcpy(places, a->place_of, (size_t)*workers * sizeof *places);
    list_layouts(a);
    ls_layout_text(&r->layout, text, sizeof text);
    ls_log_warn("%s; the run goes on from step %lld with %s", by->text, (long long)done, text);
    return LS_OK;
}

/* Decides, after the workers have ended, with how many and at which places the run continues, by the reason of the end.
 * `end->rank` is the lost worker; −1: all left on purpose (wrong numbers, new shares or a resize). A failure ends the
 * run. Callback of ls_workers_supervise(). */
static ls_status begin_next_attempt(void *ctx, ls_attempt_end *end, int *workers, int *places) {
    ls_run_attempts *a = ctx;
    ls_layout before = a->run->layout;
    ls_wrong blame = ls_left_blamed(end->segment);
    if (a->run->dir && ls_run_dir_clean_up(a->run->dir) != LS_OK) ls_log_warn("%s", ls_status_message());
    if (end->rank < 0 && blame.is_found) return leave_place_out(a, end, &blame, workers, places);
    ls_left_shares shares = ls_left_shared(end->segment);
    if (end->rank < 0 && a->wanted == 0) return redistribute_groups(a, end, &shares, workers, places);
    if (end->rank < 0) return resize_run(a, end, workers, places);
    int64_t done, tried;
    int place = a->place_of[end->rank];
    ls_left_look(end->segment, end->whole ? end->rank : -1, &done, &tried);
    if (end->whole) a->losses[place]++; /* before, it was no step of this worker that failed */
    LS_TRY(check_step(a, place, done, tried, end->text));
    LS_TRY(choose_next_layout(a, end->text, workers, places));
    report_attempt(a, end->text, done, -1, &before);
    return LS_OK;
}

/* Returns whether this process has a limit on file size or address space (setrlimit), which shared memory could
 * exceed. */
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
    r->may_share = may_share(a);
    r->attempts = a;
    ls_status status = r->dir ? LS_OK : ls_run_open_folder(r); /* or the first worker would make it, and be gone */
    ls_supervision supervision = {
        .next = begin_next_attempt, .wants_change = wants_change, .ctx = a, .places = a->places};
    if (status == LS_OK) status = ls_workers_supervise(&r->workers, &supervision, fn, arg);
    if (a->wanted > 0)
        ls_log_warn("the run ended before it could go on with %d worker%s", a->wanted, a->wanted == 1 ? "" : "s");
    r->attempts = NULL;
    free(a);
    return status;
}
