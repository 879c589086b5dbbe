/* cmd_ps.c: `lockstep ps`: lists the runs that are training on this machine, a line each. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/print.h"
#include "observe/living.h"
#include "run/progress.h"

enum { LAYOUT_MAX = 64 };

/* Returns the run's last recorded step, owned by its log; NULL: none yet. */
static const ls_run_log_step *last_of(const ls_living *run) {
    return run->log.step_count > 0 ? &run->log.steps[run->log.step_count - 1] : NULL;
}

/* Writes "dp 2 tp 1 pp 4", "1 worker", or "?" if the layout is not recorded. */
static void layout_text(const ls_run_log *log, char text[LAYOUT_MAX]) {
    if (log->dp == 0)
        snprintf(text, LAYOUT_MAX, "?");
    else if (log->dp * log->tp * log->pp == 1)
        snprintf(text, LAYOUT_MAX, "1 worker");
    else
        snprintf(text, LAYOUT_MAX, "dp %d tp %d pp %d", log->dp, log->tp, log->pp);
}

/* Prints a run's line of the table; what is not known stays empty. */
static void print_run(const ls_living *run) {
    const ls_run_log_step *last = last_of(run);
    char layout[LAYOUT_MAX], step[48], loss[24] = "", speed[24] = "", eta[LS_PROGRESS_TIME_MAX] = "", word[4096];
    layout_text(&run->log, layout);
    snprintf(step, sizeof step, "%lld", last ? last->step : 0);
    if (run->steps >= 0) snprintf(step, sizeof step, "%lld/%lld", last ? last->step : 0, run->steps);
    if (last) snprintf(loss, sizeof loss, "%.4f", last->loss);
    if (last && !isnan(last->tokens_s)) snprintf(speed, sizeof speed, "%.0f", last->tokens_s);
    if (ls_living_eta(run) >= 0) ls_progress_time_text(ls_living_eta(run), eta);
    if (run->is_stopped) snprintf(eta, sizeof eta, "stopped");
    ls_run_log_copy_text(word, sizeof word, run->folder.text); /* a name must not control a terminal */
    printf("%8ld  %-16s  %15s  %9s  %8s  %7s  %s\n", run->pid, layout, step, loss, speed, eta, word);
}

/* Returns run i of the array ctx as a new object, without members that are not known. A callback of
 * ls_cli_json_list(). */
static json_t *run_json(const void *ctx, int i) {
    const ls_living *run = (const ls_living *)ctx + i;
    const ls_run_log_step *last = last_of(run);
    const ls_run_log *log = &run->log;
    double eta = ls_living_eta(run);
    return json_pack("{s:I, s:o, s:o*, s:s, s:I, s:o*, s:o*, s:o*, s:o*, s:o*}", "pid", (json_int_t)run->pid, "run",
                     ls_cli_json_path(run->folder.text), "layout",
                     log->dp > 0 ? json_pack("{s:i, s:i, s:i, s:i}", "workers", log->dp * log->tp * log->pp, "dp",
                                             log->dp, "tp", log->tp, "pp", log->pp)
                                 : NULL,
                     "state", run->is_stopped ? "stopped" : "running", "step", (json_int_t)(last ? last->step : 0),
                     "steps", run->steps >= 0 ? json_integer(run->steps) : NULL, "loss",
                     ls_cli_json_real_if(last && isfinite(last->loss), last ? last->loss : 0), "tokens_per_s",
                     ls_cli_json_real_if(last && isfinite(last->tokens_s), last ? last->tokens_s : 0), "step_s",
                     ls_cli_json_real_if(isfinite(run->step_s), run->step_s), "eta_s",
                     ls_cli_json_real_if(eta >= 0, eta));
}

/* Runs `lockstep ps`; no run is no failure. */
ls_status ls_cmd_ps(const ls_options *options) {
    ls_living *list;
    size_t count;
    ls_status status = LS_OK;
    LS_TRY(ls_living_list(&list, &count));
    if (options->json) {
        json_t *runs = ls_cli_json_list((int)count, run_json, list);
        status = ls_cli_print_json(json_pack("{s:o}", "runs", runs));
    } else if (count == 0) {
        printf("no run is training on this machine\n");
    } else {
        printf("%8s  %-16s  %15s  %9s  %8s  %7s  %s\n", "pid", "layout", "step", "loss", "tok/s", "ETA", "run");
        for (size_t i = 0; i < count; i++) print_run(&list[i]);
    }
    ls_living_free(list, count);
    return status;
}
