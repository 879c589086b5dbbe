/* fault.c: reading the switch, and wasting time. */
#include "base/fault.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double ls_fault_slow, ls_fault_input_ms;
void (*ls_fault_spoil)(const ls_fault_site *site);
int ls_fault_rank;
int64_t ls_fault_step;
int ls_fault_path;
bool ls_fault_no_unit;

enum { PERCENT_MAX = 100000, INPUT_MS_MAX = 10000 };

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

/* ---- deaths ------------------------------------------------------------------------------------------------------ */

enum { DEATHS_MAX = 64 };

typedef struct death {
    ls_fault_point_kind point;
    long step, count;
    bool stops;
    atomic_long seen;
} death;

static death deaths[DEATHS_MAX];
static int death_count;
bool ls_fault_has_points;

static const char *const point_names[LS_POINTS] = {
#define LS_FAULT_POINT_NAME(name, text) text,
    LS_FAULT_POINTS(LS_FAULT_POINT_NAME)
#undef LS_FAULT_POINT_NAME
};

/* One of the list; those of other ranks and attempts are left out. */
static bool read_death(const char *text, size_t length, int rank, int attempt) {
    char one[128], name[32], what[8] = "";
    long who, step, which, count = 1;
    int point = 0;
    if (length >= sizeof one) return false;
    snprintf(one, sizeof one, "%.*s", (int)length, text);
    int fields = sscanf(one, "%31[a-z]:%ld:%ld:%ld:%ld:%7s", name, &who, &step, &which, &count, what);
    while (point < LS_POINTS && strcmp(point_names[point], name) != 0) point++;
    if (fields < 4 || point == LS_POINTS || (*what && strcmp(what, "stop") != 0)) return false;
    if ((who >= 0 && who != rank) || (which >= 0 && which != attempt)) return true;
    if (death_count == DEATHS_MAX) return false;
    deaths[death_count].point = (ls_fault_point_kind)point;
    deaths[death_count].step = step;
    deaths[death_count].count = count;
    deaths[death_count].stops = *what != 0;
    atomic_store(&deaths[death_count++].seen, 0);
    return true;
}

static ls_status read_deaths(int rank, int attempt) {
    const char *text = getenv("LS_FAULT_POINT");
    death_count = 0;
    while (text && *text) {
        size_t length = strcspn(text, ",");
        if (!read_death(text, length, rank, attempt))
            return ls_fail(LS_ERR_INPUT, "LS_FAULT_POINT=%.80s: must be POINT:RANK:STEP:ATTEMPT[:COUNT[:stop]],…",
                           text);
        text += length + (text[length] == ',');
    }
    ls_fault_has_points = death_count > 0;
    return LS_OK;
}

void ls_fault_die(ls_fault_point_kind point) {
    for (int i = 0; i < death_count; i++) {
        death *d = &deaths[i];
        if (d->point != point || (d->step >= 0 && d->step != ls_fault_step)) continue;
        if (atomic_fetch_add(&d->seen, 1) + 1 == d->count) (void)kill(getpid(), d->stops ? SIGSTOP : SIGKILL);
    }
}

ls_status ls_fault_read(int rank, int attempt) {
    const char *text = getenv("LS_FAULT_SLOW");
    char *end = NULL;
    ls_fault_slow = 0;
    ls_fault_rank = rank;
    LS_TRY(read_input());
    LS_TRY(read_deaths(rank, attempt));
    if (!text) return LS_OK;
    long slowed = strtol(text, &end, 10);
    bool sound = end != text && *end == ':' && slowed >= 0;
    const char *number = sound ? end + 1 : text;
    long percent = strtol(number, &end, 10);
    if (!sound || end == number || *end || percent < 0 || percent > PERCENT_MAX)
        return ls_fail(LS_ERR_INPUT, "LS_FAULT_SLOW=%.80s: must be RANK:PERCENT, at most %d, e.g. 1:300", text,
                       PERCENT_MAX);
    if (slowed == rank) ls_fault_slow = (double)percent / 100;
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
