/* stats.h: median and quartile, for measured times and for the rules of the doctor. */
#ifndef LS_BASE_STATS_H
#define LS_BASE_STATS_H

#include <stddef.h>

/* Returns the median, the mean of the middle two if n is even. Sorts x in place; NaN for n = 0. */
double ls_median(double *x, size_t n);
/* Returns element (n - 1) / 4 of the numbers in ascending order. Sorts x in place; NaN for n = 0. For times on a
 * machine where other programs run, whose longer ones are noise. */
double ls_lower_quartile(double *x, size_t n);

#endif
