/* exact_sum.h: sums that do not depend on the order, because only the final result is rounded. Squared gradient norms
 * and losses use them, so that all workers and all layouts get the same bits and decide alike. A sum is plain memory of
 * the caller: nothing allocates or fails, and one thread at a time uses it.
 *
 * ls_exact_sum adds finite doubles in a fixed-point integer that spans their whole range. Bit 0 is 2^−1074; limb i has
 * the weight 2^(32·i − 1074); the highest limb takes the sign and the carries:
 *
 *     limb   66          65 …                       … 1          0
 *            sign, carry | 32 bits of the integer in each limb of 64 |
 *
 * A limb receives 32 bits of each number and has space for the carries of many; carries are propagated now and then. To
 * add the sums of several workers, settle each, add the words as int64 (an all-reduce of LS_EXACT_WORDS elements), and
 * read the value of the result. A settled sum has a unique representation, so its words can be compared and hashed.
 *
 * ls_loss_sum adds losses in multiples of 2^−24. All of its members can also be added as int64. */
#ifndef LS_NUMERICS_EXACT_SUM_H
#define LS_NUMERICS_EXACT_SUM_H

#include <stddef.h>
#include <stdint.h>

enum { LS_EXACT_LIMBS = 67, LS_EXACT_WORDS = LS_EXACT_LIMBS + 1 };

/* Zeroed memory is an empty sum. */
typedef struct ls_exact_sum {
    int64_t words[LS_EXACT_WORDS]; /* the limbs, then the count of numbers that were infinite or NaN */
    uint32_t unsettled;            /* twice the numbers added since carries were last propagated */
} ls_exact_sum;

/* Adds x. Infinities and NaN are counted instead. */
void ls_exact_sum_add(ls_exact_sum *sum, double x);
/* Adds x[0] … x[n−1], as ls_exact_sum_add() does. */
void ls_exact_sum_add_many(ls_exact_sum *sum, const double *x, size_t n);
/* Adds `from` to `into`, their counts of non-finite numbers too. Settles both; `from` keeps its value. */
void ls_exact_sum_merge(ls_exact_sum *into, ls_exact_sum *from);
/* Propagates the carries. Words must be settled before those of other workers are added, and again before the value of
 * the result is compared; at most 2^30 sums may be added in between. */
void ls_exact_sum_settle(ls_exact_sum *sum);
/* Returns the sum of the finite numbers, rounded once to nearest, ties to even; ±infinity beyond the range; never −0.
 * Settles the sum. The caller checks ls_exact_sum_non_finite() itself. */
double ls_exact_sum_value(ls_exact_sum *sum);
/* Returns how many of the numbers were infinite or NaN. */
int64_t ls_exact_sum_non_finite(const ls_exact_sum *sum);

/* A sum of losses; zeroed memory is an empty one. */
typedef struct ls_loss_sum {
    int64_t total; /* in units of 2^−24, modulo 2^64 */
    int64_t count; /* losses in the total */
    int64_t bad;   /* losses that are not in the total, because they are not finite or not below 2^31 in magnitude */
} ls_loss_sum;

/* Adds a loss, rounded to a multiple of 2^−24, ties to even; counts it as bad instead if it cannot be added. */
void ls_loss_sum_add(ls_loss_sum *sum, float loss);
/* Adds the totals and counts of `from`. */
void ls_loss_sum_merge(ls_loss_sum *into, const ls_loss_sum *from);
/* Returns the mean of the losses in the total; 0 if there are none. */
double ls_loss_sum_mean(const ls_loss_sum *sum);

#endif
