/* clock.h: time that only goes forward (CLOCK_MONOTONIC), and time spent in the queue for a core. Its zero is
 * arbitrary, but the same for all processes of one machine, so that their traces fit together. Any thread may call. */
#ifndef LS_BASE_CLOCK_H
#define LS_BASE_CLOCK_H

#include <stdint.h>

uint64_t ls_clock_ns(void);
double ls_clock_seconds(void);
/* Sleeps at least this long, also when signals arrive. */
void ls_clock_sleep_us(uint64_t duration_us);

/* How a thread got a core: for how long, since it began, it was ready to run and had none, and how often it was given
 * one. */
typedef struct ls_clock_queue {
    uint64_t waited_ns, turns;
} ls_clock_queue;

/* A descriptor that tells of the calling thread, for the caller to close; −1 where Linux keeps no such count. */
int ls_clock_queue_open(void);
/* {0} for −1. Any thread may read what another has opened: it hears of that other one. */
ls_clock_queue ls_clock_queue_read(int fd);

#endif
