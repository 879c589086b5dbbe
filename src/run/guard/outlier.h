/* outlier.h: detects gradient groups that are outliers among their peers by norm, or by norm and loss together.
 *
 * Used for groups (fixed parts of the batch; step/step_outliers.c) and for workers (contribution.c). Each step gives
 * the squared norm of the gradient and the mean loss of each of G groups. Both are tracked over groups and steps
 * (outlier.c), norms as l = ln(norm/√tokens). With d the deviation of a group from the median of the others (with fewer
 * than four groups: see outlier.c), m the median of the largest deviations of recent steps, and b the mean distance
 * from m of those above it:
 *
 *     by norm    d ≥ m + threshold·b, and at least 0.225·threshold (6 times the peers at the default)
 *     by loss    d ≥ m + threshold·b of losses, and at least 0.125·threshold (1 nat for each token at the default),
 *                while d of the norm is at least m + b, and the norm twice that of the peers
 *
 * Meaningless text shows in its loss before it shows in its norm. A high loss with a normal gradient does no harm, so
 * it is not an outlier. docs/explain/numerics.md gives the reasons and measurements.
 *
 * 1. Decisions are functions of the numbers given: doubles, + − × ÷ and ls_log_f64 only. Equal on all workers.
 * 2. Outliers, also those by loss alone, are not added to the history, so a persistent one is reported each time.
 * 3. A group whose norm is not finite is an outlier at once; others only after LS_OUTLIER_WARMUP remembered steps.
 * 4. Nothing is allocated after ls_outlier_create(). One thread at a time. */
#ifndef LS_RUN_GUARD_OUTLIER_H
#define LS_RUN_GUARD_OUTLIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    LS_OUTLIER_HISTORY = 100,
    LS_OUTLIER_WARMUP = 10,
    LS_OUTLIER_GROUPS_MAX = 1 << 20,
    LS_TRACK_WORDS = 1 + 2 * LS_OUTLIER_HISTORY,
    LS_OUTLIER_WORDS = 2 * LS_TRACK_WORDS, /* of norms, then of losses */
};

#define LS_OUTLIER_THRESHOLD_DEFAULT 8.0
#define LS_OUTLIER_SPREAD_MIN 0.225
#define LS_OUTLIER_LOSS_SPREAD_MIN 0.125

typedef struct ls_outlier ls_outlier;

typedef struct ls_outlier_step {
    const double *squares; /* exact sum of the squares of each group's gradient, as backward left it */
    const double *losses;  /* mean of each group's tokens; NaN: not known. NULL: of none */
    const int64_t *tokens; /* of each group; 0: the group is absent */
    double scale;          /* what backward left, times this, is the group's part of the gradient of the mean loss */
} ls_outlier_step;

typedef struct ls_outlier_finding {
    size_t group;  /* its number; in contribution.c of the peer */
    bool finite;   /* the squares of its gradient are */
    double norm;   /* of the group's part of the gradient of the mean loss; NaN unless finite */
    double median; /* the norm expected from its peers; NaN without peers */
    double spread; /* natural logarithms; NaN before the warm-up is over */
    double score;  /* d in spreads; infinity unless finite; 0: cannot be judged, before the warm-up or without peers */
    double loss, loss_median; /* of the group, and of its peers; NaN: not known */
    double loss_score;        /* 0: not known; at least the threshold: the loss stands out */
} ls_outlier_finding;

/* Creates an empty history of `groups` groups. The threshold is 1 … 1000, and `groups` 1 … LS_OUTLIER_GROUPS_MAX;
 * otherwise LS_ERR_INPUT. *out is NULL on failure. */
ls_status ls_outlier_create(size_t groups, double threshold, ls_outlier **out);
void ls_outlier_destroy(ls_outlier *outlier);

/* Writes the outliers of a step to `findings`, which has room for all groups, in ascending order; returns their number.
 * Remembers nothing: a step may be judged again, without the groups that were dropped. */
size_t ls_outlier_judge(ls_outlier *outlier, const ls_outlier_step *step, ls_outlier_finding *findings);
/* Remembers the step that was judged last, without its outliers, once; to be called for steps that count, not for those
 * that are skipped. */
void ls_outlier_remember(ls_outlier *outlier);

/* Writes the history as words, for a checkpoint. */
void ls_outlier_save(const ls_outlier *outlier, int64_t words[LS_OUTLIER_WORDS]);
/* Restores saved words. Words that ls_outlier_save() cannot have written are LS_ERR_INPUT, and the history is
 * unchanged. Words that are all 0 are an empty history. */
ls_status ls_outlier_restore(ls_outlier *outlier, const int64_t words[LS_OUTLIER_WORDS]);

#endif
