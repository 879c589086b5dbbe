/* clock.h: time that only goes forward (CLOCK_MONOTONIC). Its zero is arbitrary, but the same for all processes of one
 * machine, so that their traces fit together. Any thread may call. */
#ifndef LS_BASE_CLOCK_H
#define LS_BASE_CLOCK_H

#include <stdint.h>

uint64_t ls_clock_ns(void);
double ls_clock_seconds(void);
/* Sleeps at least this long, also when signals arrive. */
void ls_clock_sleep_us(uint64_t duration_us);

#endif
