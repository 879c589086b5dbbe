/* recovery.c: `lockstep plan --recovery RUN --mtbf HOURS`: predicts the goodput of a run on one machine, the share of
 * its time that makes progress, with failures that often, from the time of its own steps, saves and recoveries. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/stats.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "observe/run_read.h"
#include "plan/course.h"

/* Seconds from a worker's death to its detection: the bound that `make bench-recovery` checks, because a run does not
 * record when its workers died. */
static const double seen_seconds = 0.01;

/* Returns whether this start of workers replaced lost ones in a run that went on. */
static bool is_recovery(const ls_run_log_start *start) { return start->restart > 0 && start->recovery_ms > 0; }

/* Returns the first step of the new workers. */
static long long first_of(const ls_run_log_start *start) { return start->step + start->taken; }

/* Returns whether a recovery disturbed the time of the step: new workers began with it, or came right after it. */
static bool is_disturbed(const ls_run_log *run, long long step) {
    for (size_t i = 0; i < run->start_count; i++) {
        long long first = first_of(&run->starts[i]);
        if (is_recovery(&run->starts[i]) && (step == first || step == first - 1)) return true;
    }
    return false;
}

/* Returns the recorded time of a step in milliseconds; NaN if there is none. */
static double step_ms(const ls_run_log *run, long long step) {
    for (size_t i = 0; i < run->step_count; i++)
        if (run->steps[i].step == step) return run->steps[i].ms;
    return (double)NAN;
}

/* Sets *ms to the median time of undisturbed steps, without the first of all, which touches memory for the first time;
 * NaN without any. */
static ls_status median_step(const ls_run_log *run, double *ms) {
    double *x = malloc((run->step_count + 1) * sizeof *x);
    size_t n = 0;
    if (!x) return ls_fail(LS_ERR_RESOURCE, "out of memory for the steps of a run");
    for (size_t i = 1; i < run->step_count; i++)
        if (!is_disturbed(run, run->steps[i].step) && run->steps[i].ms > 0) x[n++] = run->steps[i].ms;
    *ms = ls_median(x, n);
    free(x);
    return LS_OK;
}

/* Returns the time of saves relative to that of steps. */
static double save_share(const ls_run_log *run) {
    double saves = 0, steps = 0;
    for (size_t i = 0; i < run->save_count; i++)
        if (run->saves[i].ms > 0) saves += run->saves[i].ms;
    for (size_t i = 0; i < run->step_count; i++)
        if (run->steps[i].ms > 0) steps += run->steps[i].ms;
    return steps > 0 ? saves / steps : 0;
}

/* Computes the means over all recoveries of the run, and their number. LS_ERR_INPUT if it had none, or too few other
 * steps. */
static ls_status measure_recoveries(const ls_run_log *run, const char *path, ls_mending *out, int *count) {
    double usual = 0, restart = 0, slower = 0;
    int again = 0;
    LS_TRY(median_step(run, &usual));
    for (size_t i = 0; i < run->start_count; i++) {
        if (!is_recovery(&run->starts[i])) continue;
        double first = step_ms(run, first_of(&run->starts[i]));
        restart += run->starts[i].recovery_ms;
        if (first > usual) slower += first - usual;
        again += !run->starts[i].taken;
        (*count)++;
    }
    if (*count == 0)
        return ls_fail(LS_ERR_INPUT,
                       "--recovery: %s lost no worker, or did not recover by itself, so it has no recovery to measure",
                       path);
    if (!(usual > 0)) return ls_fail(LS_ERR_INPUT, "--recovery: %s has too few steps between its losses", path);
    double n = (double)*count;
    *out = (ls_mending){.seen_seconds = seen_seconds,
                        .restart_seconds = restart / n / 1e3,
                        .slower_seconds = slower / n / 1e3,
                        .step_seconds = usual / 1e3,
                        .again_share = again / n,
                        .save_share = save_share(run)};
    return LS_OK;
}

ls_status ls_cmd_plan_recovery(const ls_options *o) {
    ls_run_log run;
    ls_mending m;
    double aside, whole, mtbf = o->mtbf * 3600;
    if (!(mtbf > 0)) return ls_fail(LS_ERR_INPUT, "--recovery requires --mtbf HOURS");
    LS_TRY(ls_run_log_open(o->recovery, &run));
    int count = 0;
    ls_status status = measure_recoveries(&run, o->recovery, &m, &count);
    ls_run_log_free(&run);
    LS_TRY(status);
    ls_mending_goodput(&m, mtbf, &aside, &whole);
    if (o->json)
        return ls_cli_print_json(json_pack("{s:f, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "mtbf_seconds", mtbf,
                                           "recoveries", count, "seen_seconds", m.seen_seconds, "restart_seconds",
                                           m.restart_seconds, "slower_seconds", m.slower_seconds, "step_seconds",
                                           m.step_seconds, "again_share", m.again_share, "save_share", m.save_share,
                                           "goodput_aside", aside, "goodput", whole));
    printf("run       %.3f s per step; checkpoints cost %.2f %% of the time\n", m.step_seconds, 100 * m.save_share);
    printf("recovery  %.3f s (mean of %d) from a loss to the next step, which takes %.3f s longer than others; a loss "
           "is detected within %.2f s\n",
           m.restart_seconds, count, m.slower_seconds, m.seen_seconds);
    printf("goodput   %.3f %% with a failure every %.4g h; %.3f %% if the half step that %.0f %% of the failures lose "
           "is included\n",
           100 * aside, mtbf / 3600, 100 * whole, 100 * m.again_share);
    return LS_OK;
}
