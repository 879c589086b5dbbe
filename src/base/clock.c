/* clock.c: the monotonic clock, and the scheduler's counts of waiting time. */
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_SECOND = 1000000000 };

uint64_t ls_clock_ns(void) {
    struct timespec now;
    /* Cannot fail: Linux always has this clock. */
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
    /* With an absolute end, a restart after a signal does not prolong the sleep. */
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

int ls_clock_queue_open(void) { return open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC); }

/* Skips the first of three numbers in the file: time on a core, time waiting for one, turns on a core. */
ls_clock_queue ls_clock_queue_read(int fd) {
    char text[96], *end;
    ssize_t bytes = fd < 0 ? 0 : pread(fd, text, sizeof text - 1, 0);
    if (bytes <= 0) return (ls_clock_queue){0};
    text[bytes] = '\0';
    (void)strtoull(text, &end, 10);
    uint64_t waited_ns = strtoull(end, &end, 10);
    return (ls_clock_queue){.waited_ns = waited_ns, .turns = strtoull(end, &end, 10)};
}
