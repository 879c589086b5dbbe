/* contribution.h: detects a worker whose gradient norm is far above that of its peers, or of its own recent steps;
 * called in each step by step/step_pass.c and step_outliers.c. No call is collective.
 *
 * Comparing groups (outlier.h) needs a separate gradient of each in memory. The contribution of a whole worker to the
 * gradients of its blocks is always in memory, and is compared without a copy:
 *
 *     dp > 1    The norm per √tokens of what the worker sends to the reduction over replicas is compared with that of
 *               the workers that hold the same part of the model in other replicas.
 *     dp = 1    No other worker holds the same part. The norm of the worker's part of the gradient, relative to its
 *               median in the last five steps, is compared with the same ratio of the other workers: the whole gradient
 *               may grow, but the part of one worker does not grow alone.
 *
 * The norm is that of a typical run of the worker's blocks (ls_partition_contribution()).
 * A worker alone has no peers. Deviations are judged as those of groups are, with the same threshold. A deviation whose
 * norm exceeds all earlier ones of its set that did not stand out is a finding at once. A smaller one must occur in
 * LS_CONTRIBUTION_TIMES of the last 8 steps: gradients shrink as a model learns, so that a single batch it predicts
 * badly stands out with a norm that was usual before, and a worker that computes wrongly stands out again. Findings are
 * the same on all workers, because all have the same numbers. Nothing is repeated or left out of the update. */
#ifndef LS_RUN_GUARD_CONTRIBUTION_H
#define LS_RUN_GUARD_CONTRIBUTION_H

#include "parallel/layout/layout.h"
#include "run/guard/outlier.h"
#include "run/settings.h"

enum { LS_CONTRIBUTION_LEVELS = 5, LS_CONTRIBUTION_TIMES = 3 };

/* An outlier worker, by rank. */
typedef struct ls_contribution_finding {
    int worker;
    ls_outlier_finding of; /* `group` says nothing, losses are NaN */
} ls_contribution_finding;

typedef struct ls_contribution {
    int workers; /* 0: contributions are not compared */
    ls_layout layout;
    double share;                /* of the elements that are measured */
    int sets, peers;             /* sets of workers that are compared with each other; workers of each */
    ls_outlier **judges;         /* histories, by set */
    double *squares;             /* by worker, of the step; 0: none, or not finite */
    double *set_squares;         /* of one set */
    int64_t *set_tokens;         /* of one set: gradient groups, to which tokens are in proportion */
    double *levels;              /* dp = 1: [workers][LS_CONTRIBUTION_LEVELS] logarithms of norms, oldest first */
    int level_count;             /* of each worker */
    double *now;                 /* dp = 1: logarithms of norms of the step, by worker; NaN: none */
    double *longest;             /* by set: of all norms that did not stand out, as they are compared */
    uint8_t *deviations;         /* by worker: a bit for each of the last steps, the lowest for this one */
    ls_outlier_finding *found;   /* of one set */
    ls_contribution_finding *of; /* the findings, in ascending order of sets */
} ls_contribution;

/* Returns the share, above 0 up to 1, of a worker's gradient that costs at most about a quarter of 1 % of a step to
 * square: a quarter of what groups may cost (watch.h). */
double ls_contribution_share(const ls_settings *settings, const ls_layout *layout);
/* Returns whether contributions are compared at all: more than one worker, and not --on-outlier off. */
bool ls_contribution_is_watched(const ls_settings *settings, const ls_layout *layout);

/* Allocates the history. If contributions are not compared, `workers` is 0 and only ls_contribution_close() may be
 * called; also after a failure. */
ls_status ls_contribution_open(ls_contribution *contribution, const ls_settings *settings, const ls_layout *layout);
void ls_contribution_close(ls_contribution *contribution);

/* Clears `words` (one for each worker) and writes this worker's squares into its own, as the bits of a double; 0 if
 * they are not finite. The caller sums the words over all workers. */
void ls_contribution_give(const ls_contribution *contribution, int rank, double squares, int64_t *words);
/* Reads the squares of all workers from the summed words. */
void ls_contribution_take(ls_contribution *contribution, const int64_t *words);

/* Finds the workers whose contribution to the step is an outlier: fills contribution->of and returns their number.
 * `scale`: times what backward left it is the gradient of the mean loss, as in ls_outlier_step. */
size_t ls_contribution_judge(ls_contribution *contribution, double scale);
/* Adds the step that was judged last to the history; not for a step that is skipped or repeated. */
void ls_contribution_remember(ls_contribution *contribution);

#endif
