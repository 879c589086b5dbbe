/* stats.c: sorts the numbers and picks one. */
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

/* qsort() order: ascending. */
static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts in ascending order, in place. */
static void sort(double *x, size_t n) {
    if (n > 64) {
        qsort(x, n, sizeof *x, compare_doubles);
        return;
    }
    for (size_t i = 1; i < n; i++) { /* most lists are this short, and this needs no call per comparison */
        double value = x[i];
        size_t at = i;
        for (; at > 0 && x[at - 1] > value; at--) x[at] = x[at - 1];
        x[at] = value;
    }
}

double ls_median(double *x, size_t n) {
    if (n == 0) return (double)NAN;
    sort(x, n);
    return n % 2 ? x[n / 2] : 0.5 * x[n / 2 - 1] + 0.5 * x[n / 2];
}

double ls_lower_quartile(double *x, size_t n) {
    if (n == 0) return (double)NAN;
    sort(x, n);
    return x[(n - 1) / 4];
}
