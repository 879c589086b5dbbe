/* fault.c: reading the switch, and wasting time. */
#include "base/fault.h"

#include <stdlib.h>

double ls_fault_slow;
void (*ls_fault_spoil)(const ls_fault_site *site);
int ls_fault_rank;
int64_t ls_fault_step;
int ls_fault_path;
bool ls_fault_no_unit;

enum { PERCENT_MAX = 100000 };

ls_status ls_fault_read(int rank) {
    const char *text = getenv("LS_FAULT_SLOW");
    char *end = NULL;
    ls_fault_slow = 0;
    ls_fault_rank = rank;
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
