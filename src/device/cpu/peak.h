/* peak.h: measures the peak FLOP/s of this CPU, by loops that use registers only: what MFU and benchmarks compare with.
 */
#ifndef LS_DEVICE_CPU_PEAK_H
#define LS_DEVICE_CPU_PEAK_H

#include <stdbool.h>

#include "base/pool.h"
#include "device/unit.h"

enum { LS_CPU_PEAK_TRIES = 5 };

/* Measures the FLOP/s of a matrix unit on bf16, or of fp32 for LS_UNIT_CHAIN, summed over the threads of the pool.
 * Writes one rate for each of LS_CPU_PEAK_TRIES tries, which together take about `seconds`, beside a short run that
 * finds how many turns of the loop fit. Returns false, and leaves `rates` as they are, if there is no such loop for
 * this CPU, or if the CPU lacks the unit or only emulates it. */
bool ls_cpu_peak_measure(ls_pool *pool, ls_unit unit, double seconds, double rates[LS_CPU_PEAK_TRIES]);
/* Returns the best FLOP/s of the tries of ls_cpu_peak_measure(); 0 where that returns false. */
double ls_cpu_peak(ls_pool *pool, ls_unit unit, double seconds);

#endif
