/* clock.c: the monotonic clock. */
#include "base/clock.h"

#include <errno.h>
#include <time.h>

enum { NS_PER_SECOND = 1000000000 };

uint64_t ls_clock_ns(void) {
    struct timespec now;
    /* Cannot fail: Linux always has this clock and the address is ours. */
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

double ls_clock_seconds(void) { return (double)ls_clock_ns() * 1e-9; }

void ls_clock_sleep_us(uint64_t duration_us) {
    uint64_t now_ns = ls_clock_ns();
    uint64_t seconds = now_ns / NS_PER_SECOND + duration_us / 1000000;
    uint64_t rest_ns = now_ns % NS_PER_SECOND + duration_us % 1000000 * 1000;
    struct timespec until = {.tv_sec = (time_t)(seconds + rest_ns / NS_PER_SECOND),
                             .tv_nsec = (long)(rest_ns % NS_PER_SECOND)};
    /* An absolute end makes a restart after a signal exact. */
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}
