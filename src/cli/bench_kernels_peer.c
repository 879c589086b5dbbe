/* bench_kernels_peer.c: runs the peer program of `lockstep bench kernels` and reads its times.
 *
 * No shell is involved. The output goes to files in memory, so that waiting is one loop with a deadline and no pipe can
 * fill up. The peer gets the CPUs that lockstep's threads have: it would inherit the one of the calling thread. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "cli/bench_kernels.h"

enum { SHAPE_CHARS = 48, REASON_MAX = 200 };
static const double DEADLINE_S = 600;

typedef struct command {
    char path[4096], threads[16];
    char shapes[LS_KBENCH_ROWS_MAX][SHAPE_CHARS];
    char *argv[LS_KBENCH_ROWS_MAX + 3];
} command;

static ls_status command_make(command *c, const char *path, const ls_kbench_row *rows, int first, int end) {
    if (snprintf(c->path, sizeof c->path, "%s", path) >= (int)sizeof c->path)
        return ls_fail(LS_ERR_INPUT, "--peer: the path has more than %zu characters", sizeof c->path - 1);
    snprintf(c->threads, sizeof c->threads, "%d", rows[first].threads);
    int argc = 0;
    c->argv[argc++] = c->path;
    c->argv[argc++] = c->threads;
    for (int i = first; i < end; i++) {
        const ls_kbench_shape *s = &rows[i].shape;
        if (!rows[i].for_peer) continue;
        snprintf(c->shapes[i], SHAPE_CHARS, "%s:%zux%zux%zu", ls_kbench_form_name(s->form), s->m, s->n, s->k);
        c->argv[argc++] = c->shapes[i];
    }
    c->argv[argc] = NULL;
    return LS_OK;
}

/* In the child; never returns. The peer ends with this process. */
static _Noreturn void child_exec(const command *c, const cpu_set_t *cpus, pid_t parent, int out_fd, int err_fd) {
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) _exit(1);
    if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(out_fd, 1) < 0 || dup2(err_fd, 2) < 0) _exit(1);
    if (sched_setaffinity(0, sizeof *cpus, cpus) != 0) _exit(1);
    execv(c->path, c->argv);
    _exit(1);
}

static bool wait_until(pid_t pid, double deadline_s, int *wait_status) {
    while (ls_clock_seconds() < deadline_s) {
        pid_t ended = waitpid(pid, wait_status, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR)) return true;
        ls_clock_sleep_us(5000);
    }
    return false;
}

static ls_status judge(const command *c, int wait_status, int err_fd) {
    char reason[REASON_MAX];
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) return LS_OK;
    ssize_t bytes = pread(err_fd, reason, sizeof reason - 1, 0);
    reason[bytes > 0 ? bytes : 0] = '\0';
    reason[strcspn(reason, "\n")] = '\0';
    return ls_fail(LS_ERR_FAILED, "%s %s %d: %s", c->path,
                   WIFSIGNALED(wait_status) ? "was ended by signal" : "ended with exit status",
                   WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status),
                   reason[0] != '\0' ? reason : "it said nothing");
}

static ls_status command_run(const command *c, const cpu_set_t *cpus, int out_fd, int err_fd) {
    pid_t parent = getpid(), pid = fork();
    int wait_status = 0;
    if (pid < 0) return ls_fail_errno(LS_ERR_RESOURCE, "cannot start a process for %s", c->path);
    if (pid == 0) child_exec(c, cpus, parent, out_fd, err_fd);
    if (wait_until(pid, ls_clock_seconds() + DEADLINE_S, &wait_status)) return judge(c, wait_status, err_fd);
    kill(pid, SIGKILL);
    waitpid(pid, &wait_status, 0);
    return ls_fail(LS_ERR_DEADLINE, "%s ran for more than %.0f seconds and was ended", c->path, DEADLINE_S);
}

/* ---- its output -------------------------------------------------------------------------------------------------- */

static bool read_line(const char *line, ls_kbench_row *rows, int first, int end, int round,
                      char library[LS_KBENCH_LIBRARY_MAX]) {
    char form[3];
    size_t m = 0, n = 0, k = 0;
    double seconds = 0;
    if (strncmp(line, "# library ", 10) == 0) {
        snprintf(library, LS_KBENCH_LIBRARY_MAX, "%.*s", (int)strcspn(line + 10, "\n"), line + 10);
        return true;
    }
    if (line[0] == '#' || line[0] == '\n') return true;
    if (sscanf(line, "%2s %zu %zu %zu %lf", form, &m, &n, &k, &seconds) != 5) return false;
    if (!isfinite(seconds) || seconds <= 0) return false;
    for (int i = first; i < end; i++) {
        const ls_kbench_shape *s = &rows[i].shape;
        if (!rows[i].for_peer || s->m != m || s->n != n || s->k != k) continue;
        if (strcmp(ls_kbench_form_name(s->form), form) != 0) continue;
        rows[i].peer_seconds[round] = seconds;
        return true;
    }
    return false;
}

static ls_status all_there(const char *path, const ls_kbench_row *rows, int first, int end, int round) {
    for (int i = first; i < end; i++)
        if (rows[i].for_peer && rows[i].peer_seconds[round] <= 0)
            return ls_fail(LS_ERR_FAILED, "%s printed no time for %s", path, rows[i].name);
    return LS_OK;
}

static ls_status output_read(const char *path, int fd, ls_kbench_row *rows, int first, int end, int round,
                             char library[LS_KBENCH_LIBRARY_MAX]) {
    ls_status status = LS_OK;
    char *line = NULL;
    size_t line_bytes = 0;
    FILE *file = NULL;
    int own_fd = lseek(fd, 0, SEEK_SET) == 0 ? dup(fd) : -1;
    if (own_fd >= 0) file = fdopen(own_fd, "r");
    if (file == NULL) {
        status = ls_fail_errno(LS_ERR_RESOURCE, "cannot read the output of %s", path);
        if (own_fd >= 0) close(own_fd);
        goto out;
    }
    while (getline(&line, &line_bytes, file) > 0) {
        if (read_line(line, rows, first, end, round, library)) continue;
        status = ls_fail(LS_ERR_FAILED, "%s printed '%.*s', not a line \"NT m n k seconds\" of what was asked", path,
                         (int)strcspn(line, "\n"), line);
        goto out;
    }
    status = all_there(path, rows, first, end, round);
out:
    free(line);
    if (file != NULL) fclose(file);
    return status;
}

ls_status ls_kbench_peer_run(const char *path, const cpu_set_t *cpus, ls_kbench_row *rows, int first, int end,
                             int round, char library[LS_KBENCH_LIBRARY_MAX]) {
    ls_status status = LS_OK;
    int out_fd = memfd_create("peer-out", MFD_CLOEXEC), err_fd = memfd_create("peer-err", MFD_CLOEXEC);
    command *c = calloc(1, sizeof *c);
    if (out_fd < 0 || err_fd < 0 || c == NULL) {
        status = ls_fail_errno(LS_ERR_RESOURCE, "cannot make a file for the output of %s", path);
        goto out;
    }
    LS_TRY_OUT(command_make(c, path, rows, first, end));
    LS_TRY_OUT(command_run(c, cpus, out_fd, err_fd));
    LS_TRY_OUT(output_read(path, out_fd, rows, first, end, round, library));
out:
    if (out_fd >= 0) close(out_fd);
    if (err_fd >= 0) close(err_fd);
    free(c);
    return status;
}
