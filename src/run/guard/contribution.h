/* contribution.h: whether a worker's gradient is far longer than that of its peers, or of its own recent steps.
 *
 * Groups can be compared (outlier.h) only where each has a gradient of its own in memory. What a whole worker
 * contributes to the gradients of its blocks is always there, and is compared without a copy:
 *
 *     dp > 1    The norm per √tokens of what the worker sends to the reduction over replicas is compared with that of
 *               the workers that hold the same part of the model in other replicas.
 *     dp = 1    No other worker holds the same part. The norm of the worker's part of the gradient, relative to its
 *               last steps, is compared with the same ratio of the other workers: the whole gradient may grow, but
 *               the part of one worker does not grow alone.
 *
 * The norm is that of a typical run of the worker's blocks (ls_partition_contribution()).
 * A worker alone has no peers. Deviations are judged as those of groups are, with the same threshold. Findings are the
 * same on all workers, because all have the same numbers. Nothing is repeated or left out of the update. */
#ifndef LS_RUN_GUARD_CONTRIBUTION_H
#define LS_RUN_GUARD_CONTRIBUTION_H

#include "parallel/layout/layout.h"
#include "run/guard/outlier.h"
#include "run/settings.h"

enum { LS_CONTRIBUTION_LEVELS = 5 };

typedef struct ls_contribution_finding {
    int worker;
    ls_outlier_finding of; /* `group` says nothing, losses are NaN */
} ls_contribution_finding;

typedef struct ls_contribution {
    int workers; /* 0: contributions are not compared */
    ls_layout layout;
    double share;                /* of the elements that are measured */
    int sets, peers;             /* sets of workers that are compared with each other; workers of each */
    ls_outlier **judges;         /* by set */
    double *squares;             /* by worker, of the step; 0: none, or not finite */
    double *set_squares;         /* of one set */
    int64_t *set_tokens;         /* of one set: gradient groups, to which tokens are in proportion */
    double *levels;              /* dp = 1: [workers][LS_CONTRIBUTION_LEVELS] logarithms of norms, oldest first */
    int level_count;             /* of each worker */
    double *now;                 /* dp = 1: logarithms of norms of the step, by worker; NaN: none */
    ls_outlier_finding *found;   /* of one set */
    ls_contribution_finding *of; /* the findings, in ascending order of sets */
} ls_contribution;

/* The share of a worker's gradient that costs no more than 1 % of a step to square. */
double ls_contribution_share(const ls_settings *settings, const ls_layout *layout);
bool ls_contribution_is_watched(const ls_settings *settings, const ls_layout *layout);

/* Where they are not watched, `workers` is 0 and nothing else may be called but the close. */
ls_status ls_contribution_open(ls_contribution *contribution, const ls_settings *settings, const ls_layout *layout);
void ls_contribution_close(ls_contribution *contribution);

/* One word of each worker; those of all are added up. `squares` is what this worker measured. */
void ls_contribution_give(const ls_contribution *contribution, int rank, double squares, int64_t *words);
void ls_contribution_take(ls_contribution *contribution, const int64_t *words);

/* Workers whose contribution to the step stands out: contribution->of, and how many. `scale` as in ls_outlier_step. */
size_t ls_contribution_judge(ls_contribution *contribution, double scale);
/* After a step that counts and was judged. */
void ls_contribution_remember(ls_contribution *contribution);

#endif
