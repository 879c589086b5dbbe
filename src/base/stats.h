/* stats.h: the middle of some numbers. */
#ifndef LS_BASE_STATS_H
#define LS_BASE_STATS_H

#include <stddef.h>

/* Both sort the numbers; NaN of none. */
double ls_median(double *x, size_t n);
/* A quarter of the numbers, rounded down, is smaller: leaves out what other programs did to a measurement. */
double ls_lower_quartile(double *x, size_t n);

#endif
