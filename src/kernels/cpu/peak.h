/* peak.h: how many multiply-adds this CPU does in a second when nothing but registers is involved. */
#ifndef LS_KERNELS_CPU_PEAK_H
#define LS_KERNELS_CPU_PEAK_H

#include <stdbool.h>

#include "base/pool.h"

enum { LS_CPU_PEAK_TRIES = 5 };

/* fp32 operations a second, summed over the threads of the pool, in each of several tries that take `seconds` together.
 * False where no such loop is known for this CPU. */
bool ls_cpu_peak_measure(ls_pool *pool, double seconds, double rates[LS_CPU_PEAK_TRIES]);
/* The best of them; 0: not known. */
double ls_cpu_peak(ls_pool *pool, double seconds);

#endif
