/* peak.h: how many multiply-adds this CPU does in a second when nothing but registers is involved. */
#ifndef LS_DEVICE_CPU_PEAK_H
#define LS_DEVICE_CPU_PEAK_H

#include <stdbool.h>

#include "base/pool.h"
#include "device/unit.h"

enum { LS_CPU_PEAK_TRIES = 5 };

/* Operations a second of a matrix unit on bf16, of LS_UNIT_CHAIN in fp32, summed over the threads of the pool, in each
 * of several tries that take `seconds` together. False where no such loop is known for this CPU, or it has no such
 * unit. */
bool ls_cpu_peak_measure(ls_pool *pool, ls_unit unit, double seconds, double rates[LS_CPU_PEAK_TRIES]);
/* The best of them; 0: not known. */
double ls_cpu_peak(ls_pool *pool, ls_unit unit, double seconds);

#endif
