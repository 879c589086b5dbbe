/* peak.h: measures the peak FLOP/s of this CPU, by loops that use registers only. */
#ifndef LS_DEVICE_CPU_PEAK_H
#define LS_DEVICE_CPU_PEAK_H

#include <stdbool.h>

#include "base/pool.h"
#include "device/unit.h"

enum { LS_CPU_PEAK_TRIES = 5 };

/* Measures the FLOP/s of a matrix unit on bf16, or of fp32 for LS_UNIT_CHAIN, summed over the threads of the pool, in
 * several tries that take `seconds` together. Returns false if there is no such loop for this CPU, or no such unit. */
bool ls_cpu_peak_measure(ls_pool *pool, ls_unit unit, double seconds, double rates[LS_CPU_PEAK_TRIES]);
/* Returns the best FLOP/s of ls_cpu_peak_measure(); 0: not known. */
double ls_cpu_peak(ls_pool *pool, ls_unit unit, double seconds);

#endif
