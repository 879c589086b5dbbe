/* cmd_train.c: `lockstep train`: a run of the library, with what a person wants to see. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/doctor/cause.h"
#include "cli/print.h"
#include "cli/train/observer.h"
#include "cli/train/report.h"
#include "report/live/address.h"
#include "run/progress.h"
#include "run/stop.h"

/* Prints an event of the run: preparation on standard error, the plan, and steps, evaluations and notices through the
 * progress line. A callback of ls_run_open(); ctx is the ls_progress. */
static ls_status show(void *ctx, const ls_run_event *event) {
    ls_progress *progress = ctx;
    switch (event->kind) {
    case LS_RUN_PREPARES: fprintf(stderr, "%s\n", event->text); return LS_OK;
    case LS_RUN_STEPPED: return ls_progress_step_done(progress, event->step);
    case LS_RUN_MEASURES: ls_cli_progress_probe(NULL, event->text); return LS_OK;
    case LS_RUN_PLANNED: ls_train_print_plan(event->plan); return LS_OK;
    case LS_RUN_EVALUATED: return ls_progress_evaluated(progress, event->evaluation, event->text);
    case LS_RUN_NOTICED: return ls_progress_noticed(progress, event->text);
    case LS_RUN_STEPS_ENDED: return ls_progress_end(progress);
    default: return ls_progress_note(progress, event->text);
    }
}

/* Writes a log line above the progress line, which it hides first. A log sink; ctx is the ls_progress. */
static void warn(void *ctx, ls_log_level level, const char *line, size_t bytes) {
    ls_progress_hide(ctx);
    ls_log_stderr(NULL, level, line, bytes);
}

/* Flushes standard output once the run is saved, and fails if progress or results could not be written (a full disk). A
 * reader that has closed the pipe is no error. Needed because a forked worker's stream is not the one that main()
 * checks. */
static ls_status end_output(void) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return LS_OK;
    int cause = errno;
    if (ls_cli_reader_is_gone()) return LS_OK;
    errno = cause;
    if (errno != 0) return ls_fail_errno(LS_ERR_RESOURCE, "cannot write to standard output; the run itself is saved");
    return ls_fail(LS_ERR_RESOURCE, "cannot write all of the output to standard output; the run itself is saved");
}

/* Trains in one worker, prints the header before and the results after: every worker calls it, only rank 0 prints. arg:
 * the ls_progress. A worker that leaves the run early (recovery, resize) prints no end. */
static ls_status train(ls_run *run, void *arg) {
    bool is_first = ls_run_get_state(run).rank == 0, speaks = is_first && !run->options.json;
    ls_progress_init(arg, run->options.json ? stderr : stdout, run->options.log_every);
    if (is_first && ((ls_progress *)arg)->live) ls_log_set_sink(warn, arg);
    int64_t saved_before = run->recovers ? -1 : run->loop.saves.saved_step; /* by an earlier command */
    bool is_finished = run->options.resume && saved_before >= run->options.steps;
    if (speaks && !run->recovers && !is_finished) ls_train_print_header(run);
    ls_status status = ls_run_train(run);
    if (ls_status_is_stop(status)) return ls_train_stopped(run, status);
    LS_TRY(status);
    if (run->loop.leaves) return end_output(); /* others go on */
    if (speaks && is_finished) ls_train_print_finished(run);
    if (speaks && !is_finished) ls_train_print_end(run, run->loop.saves.saved_step != saved_before);
    LS_TRY(ls_train_print_done(run));
    return is_first ? end_output() : LS_OK;
}

/* Seconds after which the live page's process is killed if it has not ended, for example because it is stopped. */
static const double PAGE_S = 5;

/* Starts `lockstep watch` for the run (--live) in a child process, which the kernel kills with this one. Returns its
 * pid; −1, with a warning, if it cannot fork. The child waits until the run's folder exists. */
static pid_t begin_page(const ls_run *run) {
    char program[] = "/proc/self/exe", name[] = "lockstep", command[] = "watch", flag[] = "--live", runs[] = "--runs";
    char *const argv[] = {name, command, runs, run->out, flag, (char *)(uintptr_t)run->options.live, NULL};
    bool quiet = run->options.json; /* standard output is for one object */
    (void)fflush(stdout);
    pid_t parent = getpid(), child = fork();
    if (child < 0) ls_log_warn("--live: the page could not be started; training goes on without it");
    if (child != 0) return child;
    ls_child_bind(parent);
    while (!ls_folder_exists(run->out)) ls_clock_sleep_us(10000); /* it is made when the run starts */
    if (quiet) (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    (void)close_range(3, ~0u, 0);
    (void)execv(program, argv);
    _exit(127);
}

/* Ends the process of the live page with SIGTERM, then SIGKILL, and waits for it; nothing for a pid ≤ 0. */
static void end_page(pid_t page) {
    if (page <= 0) return;
    int wait_status;
    (void)kill(page, SIGTERM);
    (void)ls_child_finish(page, PAGE_S, PAGE_S, &wait_status);
}

/* Runs `lockstep train`: opens the run, starts its workers, the live page and the TensorBoard writer, and waits for
 * them; with --dry-run only prints memory and traffic. */
ls_status ls_cmd_train(const ls_options *options) {
    ls_run *run = NULL;
    ls_progress progress;
    pid_t page = -1;
    LS_TRY(ls_stop_hold()); /* reading data may take long; and one that comes after the last step ends nothing */
    LS_TRY(ls_run_open(&(ls_run_setup){.options = options, .event = show, .event_ctx = &progress}, &run));
    if (run->options.source[LS_OPT_restarts].origin == LS_ORIGIN_DEFAULT && !run->launched) run->options.restarts = 3;
    if (run->options.dry_run) {
        ls_status status = ls_train_print_dry(&run->settings, &run->layout, run->options.json);
        ls_run_close(run);
        return status;
    }
    ls_live_address address;
    ls_status status = run->options.live ? ls_live_address_read(run->options.live, &address) : LS_OK;
    if (status != LS_OK) {
        ls_run_close(run);
        return status;
    }
    if (run->options.live && ls_launcher_place().rank <= 0) page = begin_page(run);
    ls_observer observer;
    ls_observer_start(&run->options, ls_run_get_state(run).folder, &observer);
    status = ls_run_workers(run, train, &progress);
    end_page(page);
    if (status == LS_ERR_FAILED && ls_launcher_place().rank <= 0) status = ls_doctor_print_cause(run->out, status);
    ls_run_close(run);
    ls_observer_end(&observer);
    return status;
}
