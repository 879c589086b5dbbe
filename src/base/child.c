/* child.c: the result comes through a pipe, which closes when the child ends. */
#include "base/child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

/* What the child sends through the pipe before its result. */
typedef struct ending {
    ls_status status;
    int is_here; /* ls_fail_is_here() of the child */
    char message[LS_MESSAGE_MAX];
} ending;

/* Writes all bytes to the pipe; returns false if that fails. */
static bool write_all(int file, const void *bytes, size_t count) {
    for (const char *at = bytes; count > 0;) {
        ssize_t n = write(file, at, count);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        count -= (size_t)n;
    }
    return true;
}

/* Calls `fn` and writes its status and message, then its result, to the pipe. */
static void run_child(int file, ls_child_fn fn, void *ctx, void *result, size_t bytes) {
    ending end = {.status = fn(ctx, result)};
    if (end.status != LS_OK) {
        end.is_here = ls_fail_is_here();
        snprintf(end.message, sizeof end.message, "%s", ls_status_message());
    }
    fflush(NULL);
    if (write_all(file, &end, sizeof end)) (void)write_all(file, result, bytes);
}

/* Reads until the pipe closes or has given `count` bytes; *got is their number. Returns false at `until` (0: never). */
static bool read_all(int file, double until, void *bytes, size_t count, size_t *got) {
    for (*got = 0; *got < count;) {
        double left = until > 0 ? until - ls_clock_seconds() : 1;
        struct pollfd ready = {.fd = file, .events = POLLIN};
        if (left <= 0) return false;
        if (poll(&ready, 1, (int)(left < 1 ? left * 1000 + 1 : 1000)) <= 0) continue;
        ssize_t n = read(file, (char *)bytes + *got, count - *got);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return true;
        *got += (size_t)n;
    }
    return true;
}

/* Reaps the child. `patient` waits as long as it takes; otherwise a child that survives SIGKILL, as one that hangs in a
 * driver may, is left behind after a second. */
static bool reap_child(pid_t pid, bool patient, int *wait_status) {
    for (int turn = 0; patient || turn < 200; turn++) {
        pid_t gone = waitpid(pid, wait_status, patient ? 0 : WNOHANG);
        if (gone == pid) return true;
        if (gone < 0 && errno != EINTR) return false;
        if (!patient) ls_clock_sleep_us(5000);
    }
    return false;
}

/* Receives status and result, kills a child that is late, and reaps it. Returns its error, or one about its death. */
static ls_status await_child(const char *what, pid_t pid, double limit_s, const int file, void *result, size_t bytes) {
    double until = limit_s > 0 ? ls_clock_seconds() + limit_s : 0;
    ending end;
    size_t got = 0, rest = 0;
    int wait_status = 0;
    bool in_time = read_all(file, until, &end, sizeof end, &got);
    if (in_time && got == sizeof end) in_time = read_all(file, until, result, bytes, &rest);
    if (!in_time) (void)kill(pid, SIGKILL);
    bool reaped = reap_child(pid, in_time, &wait_status);
    if (!in_time)
        return ls_fail(LS_ERR_FAILED, "%s (process %d) has not answered for %g seconds", what, (int)pid, limit_s);
    if (reaped && WIFSIGNALED(wait_status))
        return ls_fail(LS_ERR_WORKER, "%s (process %d) was killed by signal %d", what, (int)pid, WTERMSIG(wait_status));
    if (got < sizeof end || rest < bytes)
        return ls_fail(LS_ERR_WORKER, "%s (process %d) exited before it was finished", what, (int)pid);
    if (end.status == LS_OK) return LS_OK;
    return end.is_here ? ls_fail_here(end.status, "%s", end.message) : ls_fail(end.status, "%s", end.message);
}

ls_status ls_child_run(const char *what, double limit_s, ls_child_fn fn, void *ctx, void *result, size_t bytes) {
    int ends[2];
    pid_t parent = getpid();
    if (pipe(ends) != 0) return ls_fail_errno(LS_ERR_RESOURCE, "cannot make a pipe for %s", what);
    fflush(NULL); /* otherwise the child would print what is still buffered */
    pid_t pid = fork();
    if (pid == 0) {
        ls_child_bind(parent);
        close(ends[0]);
        run_child(ends[1], fn, ctx, result, bytes);
        _exit(0);
    }
    close(ends[1]);
    ls_status status = pid < 0 ? ls_fail_errno(LS_ERR_RESOURCE, "cannot start %s", what)
                               : await_child(what, pid, limit_s, ends[0], result, bytes);
    close(ends[0]);
    return status;
}

/* ---- what the kernel knows of a process -------------------------------------------------------------------------- */

/* Reads the beginning of /proc/PID/name. Returns false if nothing could be read. */
static bool read_proc(int pid, const char *name, char *text, size_t room) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    FILE *file = fopen(path, "re");
    size_t bytes = file ? fread(text, 1, room - 1, file) : 0;
    if (file) fclose(file);
    text[bytes] = '\0';
    return bytes > 0;
}

/* Returns the fields of /proc/PID/stat after the name, which is in parentheses and may contain any bytes. */
static const char *fields_after_name(const char *text) {
    const char *paren = strrchr(text, ')');
    return paren && paren[1] == ' ' ? paren + 2 : NULL;
}

char ls_process_state(int pid) {
    char text[512];
    const char *fields = read_proc(pid, "stat", text, sizeof text) ? fields_after_name(text) : NULL;
    return fields ? *fields : 0;
}

/* Returns user and system time in clock ticks; 0: not readable. */
static uint64_t read_ticks(int pid) {
    char text[1024];
    const char *fields = read_proc(pid, "stat", text, sizeof text) ? fields_after_name(text) : NULL;
    unsigned long long user, kernel;
    if (!fields || sscanf(fields, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &kernel) != 2)
        return 0;
    return user + kernel;
}

bool ls_process_is_traced(int pid) {
    static const char name[] = "\nTracerPid:";
    char text[4096];
    const char *found = read_proc(pid, "status", text, sizeof text) ? strstr(text, name) : NULL;
    return found && strtol(found + sizeof name - 1, NULL, 10) != 0;
}

/* ---- programs beside a run --------------------------------------------------------------------------------------- */

void ls_child_bind(pid_t parent) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
}

bool ls_child_finish(pid_t pid, double idle_s, double limit_s, int *wait_status) {
    static const uint64_t slice_us = 5000;
    double idle = 0, waited = 0, before = ls_clock_seconds();
    uint64_t ticks = 0;
    while (idle <= idle_s && waited <= limit_s) {
        pid_t gone = waitpid(pid, wait_status, WNOHANG);
        if (gone == pid) return true;
        if (gone < 0 && errno != EINTR) return false;
        uint64_t used = read_ticks(pid);
        ls_clock_sleep_us(slice_us);
        double now = ls_clock_seconds(), passed = now - before < 0.1 ? now - before : 0.1;
        bool moves = used != ticks || ls_process_state(pid) == 'R';
        idle = moves ? 0 : idle + passed;
        waited += passed;
        ticks = used;
        before = now;
    }
    (void)kill(pid, SIGKILL);
    (void)reap_child(pid, false, wait_status);
    return false;
}
