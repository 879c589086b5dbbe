/* explain.h: explains the time of a layout: where time is lost, how it scales, what to change first. Everything comes
 * from predictions with one thing changed. */
#ifndef LS_PLAN_EXPLAIN_H
#define LS_PLAN_EXPLAIN_H

#include "plan/search.h"

/* Time lost beyond the model's matmuls and attention at the best rate, by cause. `useful` and the losses add up to the
 * step. */
typedef struct ls_plan_losses {
    double useful; /* seconds: model FLOPs (flash attention's halved) at the rate that large matmuls reach */
    double lost[LS_TIME_KINDS]; /* seconds, none below 0; of matmuls: what their shapes cost beyond the useful time */
    ls_time_kind worst;         /* the largest of communication, bubble, recomputation and small operations */
} ls_plan_losses;
/* Divides the predicted step of the choice into useful time and losses. */
void ls_plan_losses_of(const ls_plan_task *task, const ls_plan_choice *choice, ls_plan_losses *out);

/* One knob or one piece of hardware changed. */
typedef struct ls_plan_change {
    char what[96];     /* "micro-batch 2 instead of 1", "400 Gb/s between nodes instead of 200" */
    bool hardware;     /* the change is hardware, not a knob of the layout */
    ls_plan_choice to; /* the layout and its prediction after the change */
    double gain;       /* share of the time per sequence saved; negative: slower */
} ls_plan_change;
enum { LS_PLAN_CHANGES_MAX = 32 };
/* Predicts single changes of the choice and writes those that are possible and fit, the largest gain first; out has
 * room for LS_PLAN_CHANGES_MAX. */
ls_status ls_plan_changes(const ls_plan_task *task, const ls_plan_choice *choice, ls_plan_change *out, int *count);

/* Throughput by cluster size: weak scaling grows the global batch with the chips, strong scaling keeps it. */
typedef struct ls_plan_point {
    int chips;
    ls_plan_choice best; /* best layout at this size; prediction.seconds 0: nothing fits */
    ls_plan_choice held; /* the given layout with more or fewer replicas; seconds 0: impossible, or does not fit */
    double tokens_per_second, held_tokens_per_second; /* of `best` and of `held`; 0: nothing fits */
    double ideal_tokens_per_second;                   /* chips times the highest rate per chip at any of the sizes */
} ls_plan_point;
enum { LS_PLAN_POINTS_MAX = 24 };
/* Writes the task for `chips` chips in all, the global batch unchanged (strong) or in proportion; sites keep their
 * proportion. Returns false if the chips cannot be divided so. */
bool ls_plan_resize(const ls_plan_task *task, int chips, bool strong, ls_plan_task *out);
/* Predicts throughput at several sizes, from the smallest that fits up to `most` chips: one node (of each site),
 * doubled each time, and the cluster's own size. out has room for LS_PLAN_POINTS_MAX. Of `choice` only the layout is
 * used, for `held`. */
ls_status ls_plan_scaling(const ls_plan_task *task, const ls_layout_request *request, const ls_plan_choice *choice,
                          int most, bool strong, ls_plan_point *out, int *count);

/* What limits strong scaling: the kind of time that grows most with the number of chips. */
typedef struct ls_plan_bottleneck {
    bool is_there; /* false: no larger size costs 1 % more chip-seconds per step; the rest is 0 */
    /* from: the size with the fewest chip-seconds per step. to: the largest that fits up to the cluster's own or, if
     * the cost does not grow up to there, the largest of all points that fits. */
    ls_plan_point from, to;
    double growth;              /* of the chip-seconds per step, as a share of those at `from` */
    double more[LS_TIME_KINDS]; /* chip-seconds per step of `to` less those of `from`, by kind; may be negative */
    ls_time_kind kind;          /* the largest of them */
    bool is_treated; /* at least half of what a single change saves at the larger size is of this kind: `treatment` */
    ls_plan_change treatment; /* of such changes, the one with the largest gain, at least .2 % */
    double treated_seconds;   /* that it saves of this kind in a step */
} ls_plan_bottleneck;
/* Finds the bottleneck of the points of a strong ls_plan_scaling(); is_there stays false if it scales. `task` is that
 * of the scaling. */
ls_status ls_plan_bottleneck_find(const ls_plan_task *task, const ls_plan_point *points, int count,
                                  ls_plan_bottleneck *out);

/* Memory per chip, from one chip that holds everything through each technique that the layout uses. */
typedef struct ls_plan_rung {
    char what[96];
    double memory[LS_MEMORY_KINDS], bytes;
} ls_plan_rung;
enum { LS_PLAN_RUNGS_MAX = 12 };
/* Computes the rungs: fp32 on one chip, then one more technique at a time until the layout is reached. out has room for
 * LS_PLAN_RUNGS_MAX. Rungs below the last need not fit in memory. */
ls_status ls_plan_ladder(const ls_plan_task *task, const ls_knobs *layout, ls_plan_rung *out, int *count);

#endif
