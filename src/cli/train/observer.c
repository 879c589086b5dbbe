/* observer.c: starts the process that writes event files, and lets it end. */
#include "cli/train/observer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/log.h"
#include "comm/launch/launcher.h"

/* Seconds without CPU time after which the writer counts as stopped or stuck, and the longest wait in any case. */
static const double IDLE_S = 5, MOST_S = 300;

/* Forks the process, with the pipe's read end `input` as its standard input; returns its pid, −1 if it cannot fork. The
 * kernel kills it with this process, because a stopped one would never see the end of the pipe. */
static pid_t start_writer(const char *run, const char *folder, int input) {
    char program[] = "/proc/self/exe", command[] = "lockstep", metrics[] = "metrics", flag[] = "--tensorboard",
         follow[] = "--follow", runs[] = "--run";
    char *const argv[] = {command, metrics, runs, (char *)(uintptr_t)run, flag, (char *)(uintptr_t)folder,
                          follow,  NULL};
    (void)fflush(stdout);
    pid_t parent = getpid(), child = fork();
    if (child != 0) return child;
    ls_child_bind(parent);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere < 0 || dup2(input, STDIN_FILENO) < 0 || dup2(nowhere, STDOUT_FILENO) < 0) _exit(127);
    (void)close_range(3, ~0u, 0);
    (void)execv(program, argv);
    _exit(127);
}

void ls_observer_start(const ls_options *o, const char *run, ls_observer *out) {
    int ends[2];
    *out = (ls_observer){.pipe = -1};
    if (!o->tensorboard || ls_launcher_place().rank > 0) return;
    bool has_pipe = pipe2(ends, O_CLOEXEC) == 0;
    if (has_pipe) out->pid = start_writer(run, o->tensorboard, ends[0]);
    int error = errno;
    if (has_pipe) (void)close(ends[0]);
    if (has_pipe && out->pid < 0) (void)close(ends[1]);
    if (has_pipe && out->pid > 0) {
        out->pipe = ends[1];
        return;
    }
    out->pid = 0;
    ls_log_warn("--tensorboard: cannot start the process that writes event files: %s; write them when the run is done, "
                "with lockstep metrics %s --tensorboard",
                strerror(error), run);
}

void ls_observer_end(ls_observer *observer) {
    int rc = 0;
    if (observer->pid <= 0) return;
    (void)close(observer->pipe);
    if (!ls_child_finish(observer->pid, IDLE_S, MOST_S, &rc))
        ls_log_warn("--tensorboard: the process that writes event files (process %d) was stopped or stuck and has been "
                    "killed; write them with lockstep metrics RUN --tensorboard",
                    (int)observer->pid);
    else if (rc != 0)
        ls_log_warn("--tensorboard: event files are not complete; write them with lockstep metrics RUN --tensorboard");
    observer->pid = 0;
}
