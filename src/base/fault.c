/* fault.c: reads the switches and injects delays and deaths. */
#include "base/fault.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double ls_fault_slow, ls_fault_input_ms;
int64_t ls_fault_snapshot = LS_FAULT_SNAPSHOT_OFF;
void (*ls_fault_spoil)(const ls_fault_site *site);
int ls_fault_rank;
int64_t ls_fault_step;
int ls_fault_path;
bool ls_fault_no_unit;

enum { PERCENT_MAX = 100000, INPUT_MS_MAX = 10000 };

/* Reads LS_FAULT_INPUT. */
static ls_status read_input(void) {
    const char *text = getenv("LS_FAULT_INPUT");
    char *end = NULL;
    ls_fault_input_ms = 0;
    if (!text) return LS_OK;
    long ms = strtol(text, &end, 10);
    if (end == text || *end || ms < 0 || ms > INPUT_MS_MAX)
        return ls_fail(LS_ERR_INPUT, "LS_FAULT_INPUT=%.80s: must be milliseconds, at most %d", text, INPUT_MS_MAX);
    ls_fault_input_ms = (double)ms;
    return LS_OK;
}

/* Reads LS_FAULT_SNAPSHOT; it stays off for other ranks than the one it names. */
static ls_status read_snapshot(int rank) {
    const char *text = getenv("LS_FAULT_SNAPSHOT");
    long long bytes;
    int target, used = 0;
    ls_fault_snapshot = LS_FAULT_SNAPSHOT_OFF;
    if (!text) return LS_OK;
    if (sscanf(text, "%d:%lld%n", &target, &bytes, &used) != 2 || text[used] || bytes < LS_FAULT_SNAPSHOT_NONE)
        return ls_fail(LS_ERR_INPUT, "LS_FAULT_SNAPSHOT=%.80s: must be RANK:BYTES, e.g. 1:1000", text);
    if (target == rank) ls_fault_snapshot = bytes;
    return LS_OK;
}

/* ---- deaths ------------------------------------------------------------------------------------------------------ */

enum { DEATHS_MAX = 64 };

typedef enum death_kind { DEATH_KILL, DEATH_STOP, DEATH_PARENT, DEATH_KINDS } death_kind;

/* An entry of LS_FAULT_POINT that concerns this worker and attempt. */
typedef struct death {
    ls_fault_point_kind point;
    long step, count;
    bool from_first; /* `step` counts from the first one of this attempt */
    death_kind kind;
    atomic_long seen;
} death;

static death deaths[DEATHS_MAX];
static int death_count, death_attempt;
static int64_t first_step; /* of this attempt; −1: not reached */
bool ls_fault_has_points;

static const char *const point_names[LS_POINTS] = {
#define LS_FAULT_POINT_NAME(name, text) text,
    LS_FAULT_POINTS(LS_FAULT_POINT_NAME)
#undef LS_FAULT_POINT_NAME
};

static const char *const kind_names[DEATH_KINDS] = {"kill", "stop", "parent"};

/* Reads an entry of the list; entries for other ranks and attempts are skipped. Returns false if it is malformed or
 * there are too many. */
static bool read_death(const char *text, size_t length, int rank, int attempt) {
    char one[128], name[32], step[16], what[8] = "", *end;
    long who, which, count = 1;
    int point = 0, kind = 0;
    if (length >= sizeof one) return false;
    snprintf(one, sizeof one, "%.*s", (int)length, text);
    int fields = sscanf(one, "%31[a-z]:%ld:%15[-+0-9]:%ld:%ld:%7s", name, &who, step, &which, &count, what);
    while (point < LS_POINTS && strcmp(point_names[point], name) != 0) point++;
    while (*what && kind < DEATH_KINDS && strcmp(kind_names[kind], what) != 0) kind++;
    if (fields < 4 || point == LS_POINTS || kind == DEATH_KINDS) return false;
    if ((who >= 0 && who != rank) || (which >= 0 && which != attempt)) return true;
    if (death_count == DEATHS_MAX) return false;
    deaths[death_count].point = (ls_fault_point_kind)point;
    deaths[death_count].step = strtol(step, &end, 10);
    deaths[death_count].from_first = *step == '+';
    if (*end) return false;
    deaths[death_count].count = count;
    deaths[death_count].kind = (death_kind)kind;
    atomic_store(&deaths[death_count++].seen, 0);
    return true;
}

/* Reads LS_FAULT_POINT, and forgets the entries that were read before. */
static ls_status read_deaths(int rank, int attempt) {
    const char *text = getenv("LS_FAULT_POINT");
    death_count = 0;
    death_attempt = attempt;
    first_step = -1;
    while (text && *text) {
        size_t length = strcspn(text, ",");
        if (!read_death(text, length, rank, attempt))
            return ls_fail(LS_ERR_INPUT,
                           "LS_FAULT_POINT=%.80s: must be POINT:RANK:STEP:ATTEMPT[:COUNT[:kill|stop|parent]],…", text);
        text += length + (text[length] == ',');
    }
    ls_fault_has_points = death_count > 0;
    return LS_OK;
}

/* Appends a line about the death to LS_FAULT_LOG, with one write(2), because this process dies right after. */
static void log_death(const death *d) {
    const char *path = getenv("LS_FAULT_LOG");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    char line[128];
    if (fd < 0) return;
    int bytes = snprintf(line, sizeof line, "%s %s rank=%d step=%lld attempt=%d\n", kind_names[d->kind],
                         point_names[d->point], ls_fault_rank, (long long)ls_fault_step, death_attempt);
    ssize_t written = write(fd, line, (size_t)bytes);
    (void)written;
    (void)close(fd);
}

/* Logs the death and sends the signal. Returns only after a SIGSTOP, when the process is continued. */
static void die(const death *d) {
    log_death(d);
    if (d->kind != DEATH_PARENT) (void)kill(getpid(), d->kind == DEATH_STOP ? SIGSTOP : SIGKILL);
    if (d->kind != DEATH_PARENT) return;
    (void)kill(getppid(), SIGKILL);
    for (;;) (void)pause(); /* until the kernel kills this process with its parent */
}

/* Returns whether the present step is the one at which the entry acts. */
static bool is_its_step(const death *d) {
    if (d->from_first) return first_step >= 0 && ls_fault_step - first_step == d->step;
    return d->step < 0 || d->step == ls_fault_step;
}

void ls_fault_die(ls_fault_point_kind point) {
    if (point == LS_POINT_FORWARD && first_step < 0) first_step = ls_fault_step;
    for (int i = 0; i < death_count; i++) {
        death *d = &deaths[i];
        if (d->point != point || !is_its_step(d)) continue;
        if (atomic_fetch_add(&d->seen, 1) + 1 == d->count) die(d);
    }
}

ls_status ls_fault_read(int rank, int place, int attempt) {
    const char *text = getenv("LS_FAULT_SLOW");
    char *end = NULL;
    ls_fault_slow = 0;
    ls_fault_rank = place;
    LS_TRY(read_input());
    LS_TRY(read_snapshot(rank));
    LS_TRY(read_deaths(rank, attempt));
    if (!text) return LS_OK;
    long slowed = strtol(text, &end, 10);
    bool sound = end != text && *end == ':' && slowed >= 0;
    const char *number = sound ? end + 1 : text;
    long percent = strtol(number, &end, 10);
    if (!sound || end == number || *end || percent < 0 || percent > PERCENT_MAX)
        return ls_fail(LS_ERR_INPUT, "LS_FAULT_SLOW=%.80s: must be RANK:PERCENT, at most %d, e.g. 1:300", text,
                       PERCENT_MAX);
    if (slowed == place) ls_fault_slow = (double)percent / 100;
    return LS_OK;
}

void ls_fault_slow_end(double begin) {
    if (!(ls_fault_slow > 0)) return;
    double now = ls_clock_seconds(), end = now + (now - begin) * ls_fault_slow;
    while (ls_clock_seconds() < end) {
    }
}

void ls_fault_input_wait(void) {
    struct timespec left = {(time_t)(ls_fault_input_ms / 1e3), (long)(ls_fault_input_ms * 1e6) % 1000000000L};
    while (nanosleep(&left, &left) != 0) continue;
}
