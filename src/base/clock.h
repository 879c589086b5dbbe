/* clock.h: monotonic time (CLOCK_MONOTONIC), and for how long a thread waited for a core. The zero of the clock is
 * arbitrary but equal for all processes of a machine, so that their traces can be merged. Any thread may call. */
#ifndef LS_BASE_CLOCK_H
#define LS_BASE_CLOCK_H

#include <stdint.h>

/* Returns the time of the clock in nanoseconds. Cannot fail. */
uint64_t ls_clock_ns(void);
/* Returns the time of the clock in seconds. Cannot fail. */
double ls_clock_seconds(void);
/* Sleeps at least this long, also when signals arrive. */
void ls_clock_sleep_us(uint64_t duration_us);

/* Time in the run queue: how long a thread was runnable but waited for a core, and how often it was given one, since it
 * started. */
typedef struct ls_clock_queue {
    uint64_t waited_ns, turns;
} ls_clock_queue;

/* Opens the calling thread's counts. Returns a descriptor, which the caller closes by close(2); −1 if Linux keeps no
 * such counts. */
int ls_clock_queue_open(void);
/* Reads the counts of the thread that opened `fd`, from any thread; {0} for −1. */
ls_clock_queue ls_clock_queue_read(int fd);

#endif
