/* stats.h: median and quartile. */
#ifndef LS_BASE_STATS_H
#define LS_BASE_STATS_H

#include <stddef.h>

/* Both sort the numbers in place, and return NaN for n = 0. */
double ls_median(double *x, size_t n);
/* A quarter of the numbers, rounded down, is smaller. For times on a machine where other programs run. */
double ls_lower_quartile(double *x, size_t n);

#endif
