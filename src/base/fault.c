/* fault.c: reading the switch, and wasting time. */
#include "base/fault.h"

#include <stdlib.h>
#include <time.h>

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

ls_status ls_fault_read(int rank) {
    const char *text = getenv("LS_FAULT_SLOW");
    char *end = NULL;
    ls_fault_slow = 0;
    ls_fault_rank = rank;
    LS_TRY(read_input());
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
