/* observer.c: starts the process that writes event files, and lets it end. */
#include "cli/train/observer.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "comm/launcher.h"

extern char **environ;

/* The pipe is its standard input; it has nothing to say on standard output. Settings of the run are not its own. */
static int spawn(const char *run, const char *folder, int input, pid_t *pid) {
    char command[] = "lockstep", metrics[] = "metrics", flag[] = "--tensorboard", follow[] = "--follow",
         runs[] = "--run";
    char *argv[] = {command, metrics, runs, NULL, flag, NULL, follow, NULL};
    posix_spawn_file_actions_t actions;
    char *run_copy = strdup(run), *folder_copy = strdup(folder);
    int failed = run_copy && folder_copy ? posix_spawn_file_actions_init(&actions) : ENOMEM;
    if (failed) goto out;
    argv[3] = run_copy;
    argv[5] = folder_copy;
    failed = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (!failed) failed = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (!failed) failed = posix_spawn(pid, "/proc/self/exe", &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
out:
    free(folder_copy);
    free(run_copy);
    return failed;
}

void ls_observer_start(const ls_options *o, const char *run, ls_observer *out) {
    int ends[2];
    *out = (ls_observer){.pipe = -1};
    if (!o->tensorboard || ls_launcher_place().rank > 0) return;
    int failed = pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno;
    if (!failed) {
        failed = spawn(run, o->tensorboard, ends[0], &out->pid);
        (void)close(ends[0]);
        if (failed)
            (void)close(ends[1]);
        else
            out->pipe = ends[1];
    }
    if (!failed) return;
    out->pid = 0;
    ls_log_warn("--tensorboard: cannot start the process that writes event files: %s; write them when the run is done, "
                "with lockstep metrics %s --tensorboard",
                strerror(failed), run);
}

void ls_observer_end(ls_observer *observer) {
    int rc = 0;
    if (observer->pid <= 0) return;
    (void)close(observer->pipe);
    while (waitpid(observer->pid, &rc, 0) < 0 && errno == EINTR) {
    }
    if (rc != 0)
        ls_log_warn("--tensorboard: event files are not complete; write them with lockstep metrics RUN --tensorboard");
    observer->pid = 0;
}
