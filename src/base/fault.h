/* fault.h: a fault that tests plant in one worker, through the environment.
 *
 *     LS_FAULT_SLOW=RANK:PERCENT    the work of this worker takes so much longer: 1:300 makes worker 1 four times
 * slower
 *
 * What is slowed down is put between begin and end, which cost one look at a number while the switch is off. The number
 * is set once, by each worker, before it works. */
#ifndef LS_BASE_FAULT_H
#define LS_BASE_FAULT_H

#include "base/clock.h"
#include "base/status.h"

/* 3.0 for 300 %; 0: off. Only ls_fault_read() writes it. */
extern double ls_fault_slow;

/* Looks at the environment for the worker of this rank. */
ls_status ls_fault_read(int rank);

static inline double ls_fault_slow_begin(void) { return ls_fault_slow > 0 ? ls_clock_seconds() : 0; }
/* Stays busy for as long as the work since `begin` makes it. */
void ls_fault_slow_end(double begin);

#endif
