/* peer.c: runs a peer program and reads its lines.
 *
 * No shell is involved. The output goes to files in memory, so that waiting is one loop with a deadline and no pipe can
 * fill up. The program gets SIGTERM if this process dies. */
#include "lab/bench/peer.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"

enum { REASON_MAX = 200, NO_PROGRAM = 127 };
static const double DEADLINE_S = 600;
static const double GRACE_S = 5; /* for the program to end what it has started */

/* Executes the program in the child, with its files, variables and CPUs. */
static _Noreturn void child_exec(const ls_bench_program *p, pid_t parent, int out_fd, int err_fd) {
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) _exit(1);
    if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(out_fd, 1) < 0 || dup2(err_fd, 2) < 0) _exit(1);
    for (const char *const *name = p->variables; name != NULL && *name != NULL; name++)
        if (setenv(*name, "1", 1) != 0) _exit(1);
    if (p->cpus != NULL && sched_setaffinity(0, sizeof *p->cpus, p->cpus) != 0) _exit(1);
    if (p->missing == NULL)
        execv(p->argv[0], p->argv);
    else
        execvp(p->argv[0], p->argv);
    _exit(p->missing != NULL && errno == ENOENT ? NO_PROGRAM : 1);
}

/* Waits until the child has ended. Returns false at the deadline. */
static bool wait_until(pid_t pid, double deadline_s, int *wait_status) {
    while (ls_clock_seconds() < deadline_s) {
        pid_t ended = waitpid(pid, wait_status, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR)) return true;
        ls_clock_sleep_us(5000);
    }
    return false;
}

/* Finds the first line of the program's errors that has a word; mpirun frames its own with rules of dashes. */
static void find_reason(int fd, char reason[REASON_MAX]) {
    char text[4096];
    ssize_t bytes = pread(fd, text, sizeof text - 1, 0);
    text[bytes > 0 ? bytes : 0] = '\0';
    snprintf(reason, REASON_MAX, "it printed nothing");
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        while (*line != '\0' && !isalnum((unsigned char)*line)) line++;
        if (*line == '\0') continue;
        snprintf(reason, REASON_MAX, "%.*s", REASON_MAX - 1, line);
        return;
    }
}

/* Fails with the first line of the program's errors unless it exited with 0. */
static ls_status check_exit_status(const ls_bench_program *p, int wait_status, int err_fd) {
    char reason[REASON_MAX];
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) return LS_OK;
    if (p->missing != NULL && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == NO_PROGRAM)
        return ls_fail(LS_ERR_FAILED, "%s is not on the PATH; %s", p->argv[0], p->missing);
    find_reason(err_fd, reason);
    if (WIFSIGNALED(wait_status))
        return ls_fail(LS_ERR_FAILED, "%s was killed by signal %d: %s", p->called, WTERMSIG(wait_status), reason);
    return ls_fail(LS_ERR_FAILED, "%s exited with status %d: %s", p->called, WEXITSTATUS(wait_status), reason);
}

/* Starts the program and waits for it; kills it after 10 minutes. */
static ls_status run_program(const ls_bench_program *p, int out_fd, int err_fd) {
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) return ls_fail_errno(LS_ERR_RESOURCE, "cannot start a process for %s", p->argv[0]);
    if (pid == 0) child_exec(p, parent, out_fd, err_fd);
    int wait_status = 0;
    if (wait_until(pid, ls_clock_seconds() + DEADLINE_S, &wait_status))
        return check_exit_status(p, wait_status, err_fd);
    kill(pid, SIGTERM);
    if (!wait_until(pid, ls_clock_seconds() + GRACE_S, &wait_status)) {
        kill(pid, SIGKILL);
        waitpid(pid, &wait_status, 0);
    }
    return ls_fail(LS_ERR_DEADLINE, "%s ran for more than %.0f seconds and was killed%s%s", p->called, DEADLINE_S,
                   p->advice != NULL ? "; " : "", p->advice != NULL ? p->advice : "");
}

/* Reads a line: the library, a comment, an empty one, or a time. Returns false for any other. */
static bool read_library_line(const ls_bench_program *p, char library[LS_BENCH_LIBRARY_MAX], const char *line) {
    static const char head[] = "# library ";
    size_t before = sizeof head - 1;
    if (strncmp(line, head, before) == 0) {
        snprintf(library, LS_BENCH_LIBRARY_MAX, "%.*s", (int)strcspn(line + before, "\n"), line + before);
        return true;
    }
    return line[0] == '#' || line[0] == '\n' || p->read_line(p->ctx, line);
}

/* Reads all lines of the output; the first unexpected one is an error. */
static ls_status read_lines(const ls_bench_program *p, char library[LS_BENCH_LIBRARY_MAX], int fd) {
    ls_status status = LS_OK;
    char *line = NULL;
    size_t line_bytes = 0;
    FILE *file = NULL;
    int own_fd = lseek(fd, 0, SEEK_SET) == 0 ? dup(fd) : -1;
    if (own_fd >= 0) file = fdopen(own_fd, "r");
    if (file == NULL) {
        status = ls_fail_errno(LS_ERR_RESOURCE, "cannot read the output of %s", p->called);
        if (own_fd >= 0) close(own_fd);
        goto out;
    }
    while (getline(&line, &line_bytes, file) > 0) {
        if (read_library_line(p, library, line)) continue;
        status = ls_fail(LS_ERR_FAILED, "%s printed '%.*s' instead of a line \"%s\"", p->called,
                         (int)strcspn(line, "\n"), line, p->line_form);
        goto out;
    }
out:
    free(line);
    if (file != NULL) fclose(file);
    return status;
}

void ls_bench_program_add(ls_bench_program *p, const char *format, ...) {
    va_list args;
    assert(p->argc < LS_BENCH_PEER_ARGS_MAX);
    va_start(args, format);
    if (vasprintf(&p->argv[p->argc], format, args) < 0) p->argv[p->argc] = NULL;
    p->argc++;
    va_end(args);
}

ls_status ls_bench_program_run(ls_bench_program *p, char library[LS_BENCH_LIBRARY_MAX]) {
    ls_status status = LS_OK;
    int out_fd = memfd_create("peer-out", MFD_CLOEXEC), err_fd = memfd_create("peer-err", MFD_CLOEXEC);
    for (int i = 0; i < p->argc && status == LS_OK; i++)
        if (!p->argv[i]) status = ls_fail(LS_ERR_RESOURCE, "out of memory for the command line of %s", p->called);
    if (status == LS_OK && (out_fd < 0 || err_fd < 0))
        status = ls_fail_errno(LS_ERR_RESOURCE, "cannot create a file for the output of %s", p->called);
    if (status == LS_OK) status = run_program(p, out_fd, err_fd);
    if (status == LS_OK) status = read_lines(p, library, out_fd);
    if (out_fd >= 0) close(out_fd);
    if (err_fd >= 0) close(err_fd);
    for (int i = 0; i < p->argc; i++) free(p->argv[i]);
    return status;
}

/* ---- lists of names ---------------------------------------------------------------------------------------------- */

const char *ls_bench_names_read(const char *list, const char *const *names, int count, bool *has) {
    bool all = list == NULL || list[0] == '\0' || strcmp(list, "all") == 0;
    for (int i = 0; i < count; i++) has[i] = all;
    for (const char *name = list; !all; name++) {
        size_t chars = strcspn(name, ",");
        int i = 0;
        while (i < count && (strlen(names[i]) != chars || memcmp(names[i], name, chars) != 0)) i++;
        if (i == count) return name;
        has[i] = true;
        name += chars;
        all = *name == '\0';
    }
    return NULL;
}
