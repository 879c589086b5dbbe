/* bench_peer.c: runs the peer program of `lockstep bench comm` under mpirun and reads its times.
 *
 * No shell is involved. The output goes to files in memory, so that waiting is one loop with a deadline and no pipe can
 * fill up. Rights and slots are given through Open MPI's environment: mpirun of MPICH ignores it and takes the same
 * command line. */
#include "cli/bench_comm.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"

enum { ARGS_MAX = LS_BENCH_SIZES_MAX + 10, TEXT_MAX = 24, REASON_MAX = 200, NO_PROGRAM = 127 };
static const double DEADLINE_S = 600;
static const double GRACE_S = 5; /* for mpirun to end its processes */

typedef struct command {
    char *argv[ARGS_MAX];
    char workers[TEXT_MAX];
    char ops[80];
    char sizes[LS_BENCH_SIZES_MAX][TEXT_MAX];
    char path[4096];
} command;

static void ops_text(const ls_bench_plan *plan, char *text, size_t chars) {
    size_t used = 0;
    for (int op = 0; op < LS_BENCH_OP_COUNT && used < chars; op++)
        if (ls_bench_plan_has(plan, (ls_bench_op)op))
            used +=
                (size_t)snprintf(text + used, chars - used, "%s%s", used ? "," : "", ls_bench_op_name((ls_bench_op)op));
}

static ls_status command_make(command *c, const char *path, const ls_bench_plan *plan, bool bind) {
    static char mpirun[] = "mpirun", n[] = "-n", bind_to[] = "--bind-to", core[] = "core", none[] = "none";
    if (snprintf(c->path, sizeof c->path, "%s", path) >= (int)sizeof c->path)
        return ls_fail(LS_ERR_INPUT, "--peer: the path has more than %zu characters", sizeof c->path - 1);
    snprintf(c->workers, sizeof c->workers, "%d", plan->workers);
    ops_text(plan, c->ops, sizeof c->ops);
    int argc = 0;
    c->argv[argc++] = mpirun;
    c->argv[argc++] = n;
    c->argv[argc++] = c->workers;
    c->argv[argc++] = bind_to;
    c->argv[argc++] = bind ? core : none;
    c->argv[argc++] = c->path;
    c->argv[argc++] = c->ops;
    for (int s = 0; s < plan->size_count; s++) {
        snprintf(c->sizes[s], TEXT_MAX, "%zu", plan->size_bytes[s]);
        c->argv[argc++] = c->sizes[s];
    }
    c->argv[argc] = NULL;
    return LS_OK;
}

/* In the child; never returns. mpirun ends with this process, and its processes with it. */
static _Noreturn void child_exec(const command *c, pid_t parent, int out_fd, int err_fd) {
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) _exit(1);
    if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(out_fd, 1) < 0 || dup2(err_fd, 2) < 0) _exit(1);
    if (setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1) != 0 || setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1) != 0 ||
        setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1) != 0)
        _exit(1);
    execvp(c->argv[0], c->argv);
    _exit(errno == ENOENT ? NO_PROGRAM : 1);
}

static bool wait_until(pid_t pid, double deadline_s, int *wait_status) {
    while (ls_clock_seconds() < deadline_s) {
        pid_t ended = waitpid(pid, wait_status, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR)) return true;
        ls_clock_sleep_us(10000);
    }
    return false;
}

/* The first line of the program's errors that says something; mpirun frames its own with rules of dashes. */
static void first_words(int fd, char reason[REASON_MAX]) {
    char text[4096];
    ssize_t bytes = pread(fd, text, sizeof text - 1, 0);
    text[bytes > 0 ? bytes : 0] = '\0';
    snprintf(reason, REASON_MAX, "it said nothing");
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        while (*line != '\0' && !isalnum((unsigned char)*line)) line++;
        if (*line == '\0') continue;
        snprintf(reason, REASON_MAX, "%.*s", REASON_MAX - 1, line);
        return;
    }
}

static ls_status judge(const command *c, int wait_status, int err_fd) {
    char reason[REASON_MAX];
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) return LS_OK;
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == NO_PROGRAM)
        return ls_fail(LS_ERR_FAILED, "mpirun is not on the PATH; install Open MPI or MPICH to run --peer %s", c->path);
    first_words(err_fd, reason);
    if (WIFSIGNALED(wait_status))
        return ls_fail(LS_ERR_FAILED, "mpirun -n %s %s was ended by signal %d: %s", c->workers, c->path,
                       WTERMSIG(wait_status), reason);
    return ls_fail(LS_ERR_FAILED, "mpirun -n %s %s ended with exit status %d: %s", c->workers, c->path,
                   WEXITSTATUS(wait_status), reason);
}

static ls_status command_run(const command *c, int out_fd, int err_fd) {
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) return ls_fail_errno(LS_ERR_RESOURCE, "cannot start a process for mpirun");
    if (pid == 0) child_exec(c, parent, out_fd, err_fd);
    int wait_status = 0;
    if (wait_until(pid, ls_clock_seconds() + DEADLINE_S, &wait_status)) return judge(c, wait_status, err_fd);
    kill(pid, SIGTERM);
    if (!wait_until(pid, ls_clock_seconds() + GRACE_S, &wait_status)) {
        kill(pid, SIGKILL);
        waitpid(pid, &wait_status, 0);
    }
    return ls_fail(LS_ERR_DEADLINE,
                   "mpirun -n %s %s ran for more than %.0f seconds and was ended; try a smaller --max-size", c->workers,
                   c->path, DEADLINE_S);
}

/* ---- its output ---- */

static bool read_line(const char *line, const ls_bench_plan *plan, ls_bench_round *out,
                      char library[LS_BENCH_LIBRARY_MAX]) {
    char name[32];
    size_t bytes = 0;
    double time_us = 0;
    if (strncmp(line, "# library ", 10) == 0) {
        snprintf(library, LS_BENCH_LIBRARY_MAX, "%.*s", (int)strcspn(line + 10, "\n"), line + 10);
        return true;
    }
    if (line[0] == '#' || line[0] == '\n') return true;
    if (sscanf(line, "%31s %zu %lf", name, &bytes, &time_us) != 3 || !isfinite(time_us) || time_us <= 0) return false;
    ls_bench_op op = ls_bench_op_find(name, strlen(name));
    for (int s = 0; op != LS_BENCH_OP_COUNT && s < plan->size_count; s++) {
        if (plan->size_bytes[s] != bytes) continue;
        out->time_us[op][s] = time_us;
        return true;
    }
    return false;
}

static ls_status all_there(const char *path, const ls_bench_plan *plan, const ls_bench_round *round) {
    for (int op = 0; op < LS_BENCH_OP_COUNT; op++)
        for (int s = 0; s < plan->size_count && ls_bench_plan_has(plan, (ls_bench_op)op); s++)
            if (round->time_us[op][s] <= 0)
                return ls_fail(LS_ERR_FAILED, "%s printed no time for %s of %zu bytes", path,
                               ls_bench_op_name((ls_bench_op)op), plan->size_bytes[s]);
    return LS_OK;
}

static ls_status output_read(const char *path, int fd, const ls_bench_plan *plan, ls_bench_round *out,
                             char library[LS_BENCH_LIBRARY_MAX]) {
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
        if (read_line(line, plan, out, library)) continue;
        status = ls_fail(LS_ERR_FAILED, "%s printed '%.*s', not a line \"op size_bytes time_us\" of what was asked",
                         path, (int)strcspn(line, "\n"), line);
        goto out;
    }
    status = all_there(path, plan, out);
out:
    free(line);
    if (file != NULL) fclose(file);
    return status;
}

static ls_status run_once(const char *path, const ls_bench_plan *plan, bool bind, ls_bench_round *out,
                          char library[LS_BENCH_LIBRARY_MAX]) {
    ls_status status = LS_OK;
    command c;
    int out_fd = memfd_create("peer-out", MFD_CLOEXEC), err_fd = memfd_create("peer-err", MFD_CLOEXEC);
    if (out_fd < 0 || err_fd < 0) {
        status = ls_fail_errno(LS_ERR_RESOURCE, "cannot make a file for the output of %s", path);
        goto out;
    }
    *out = (ls_bench_round){0};
    LS_TRY_OUT(command_make(&c, path, plan, bind));
    LS_TRY_OUT(command_run(&c, out_fd, err_fd));
    LS_TRY_OUT(output_read(path, out_fd, plan, out, library));
out:
    if (out_fd >= 0) close(out_fd);
    if (err_fd >= 0) close(err_fd);
    return status;
}

ls_status ls_bench_peer_run(const char *path, int cores, const ls_bench_plan *plan, ls_bench_round *out,
                            char library[LS_BENCH_LIBRARY_MAX]) {
    bool bind = plan->workers <= cores;
    ls_status status = run_once(path, plan, bind, out, library);
    /* mpirun counts physical cores and refuses to bind two processes to one. */
    if (status == LS_ERR_FAILED && bind) status = run_once(path, plan, false, out, library);
    return status;
}
