/* guard.h: observes the gradients of a step: norms of gradient groups (fixed parts of the batch), for outliers and the
 * noise scale, hashes of audited groups, and counts of values that rounding loses. The trainer owns one guard, and
 * step/step_pass.c attaches it to the partition during a pass. Functions are not collective; the caller sums the
 * words. */
#ifndef LS_RUN_GUARD_GUARD_H
#define LS_RUN_GUARD_GUARD_H

#include "parallel/partition/numerics.h"
#include "run/guard/audit.h"
#include "run/guard/contribution.h"
#include "run/guard/noise.h"
#include "run/guard/outlier.h"
#include "run/settings.h"

typedef struct ls_guard {
    int groups, blocks;
    ls_partition *partition; /* while attached */
    ls_exact_sum *parts;     /* [2][groups] squares of a group's gradient that this worker reports; second:
                                the same for the two uses of a tied table, each on its own */
    ls_loss_sum *sums;       /* by group: losses of this worker; after the sum, of all workers */
    double *squares; /* by group: summed over all workers, without a table that embedding and head share …; NaN: not
                        finite */
    double *all_squares;  /* … and with it; likewise */
    double *losses;       /* by group: mean of its tokens; NaN where there are none, or one is not finite */
    double *before;       /* by group: all_squares of an earlier pass over the batch */
    int64_t *tokens;      /* by group; 0: it is absent */
    bool *absent;         /* by group: left out of the pass */
    double whole_squares; /* of the summed gradient, measured in the same way */
    ls_audit audit;
    bool measures;       /* norms of groups are measured in the current pass */
    ls_outlier *outlier; /* NULL: off */
    ls_contribution contribution;
    ls_outlier_finding *findings; /* the outlier groups of the step */
    ls_noise noise;
    ls_block_numerics *numerics; /* by block; NULL: off */
} ls_guard;

/* Allocates what the settings need; `outliers`: detect outlier groups. Unless norms of groups are needed, allocates
 * `absent` alone. Opens neither audit nor contribution, which the trainer does. Call ls_guard_close() also after a
 * failure. */
ls_status ls_guard_open(ls_guard *guard, const ls_settings *settings, bool outliers, int blocks);
/* Frees everything, with audit and contribution, and zeroes the guard. */
void ls_guard_close(ls_guard *guard);

/* Attaches the guard to the partition until ls_guard_end(): in the next pass it measures norms of group gradients, if
 * `measures`, and hashes those of audited groups. */
void ls_guard_begin(ls_guard *guard, ls_partition *partition, bool measures);
/* Detaches the guard from the partition. May be called without ls_guard_begin(). */
void ls_guard_end(ls_guard *guard);
/* Returns the number of words in which measurements of so many groups are exchanged. */
size_t ls_guard_words(int groups);
/* Writes this worker's measurements of a pass into `words`, which the caller sums over all workers. `whole` holds its
 * squares of the summed gradient, measured in the same way. */
void ls_guard_give(ls_guard *guard, ls_exact_sum *whole, int64_t *words);
/* Reads the summed words of all workers into squares, losses, tokens and whole_squares. */
void ls_guard_take(ls_guard *guard, const ls_settings *settings, const int64_t *words);
/* Returns the number of tokens (or images) of the groups that take part in the step, without the absent ones. */
int64_t ls_guard_tokens(const ls_guard *guard, const ls_settings *settings);

#endif
