/* stats.h: computes median and quartile. */
#ifndef LS_BASE_STATS_H
#define LS_BASE_STATS_H

#include <stddef.h>

/* Returns the median, the mean of the middle two if n is even. Sorts x in place; NaN for n = 0. */
double ls_median(double *x, size_t n);
/* Returns a number than which a quarter of the numbers, rounded down, is smaller. Sorts x in place; NaN for n = 0. For
 * times on a machine where other programs run. */
double ls_lower_quartile(double *x, size_t n);

#endif
