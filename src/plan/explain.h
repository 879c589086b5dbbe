/* explain.h: why a layout takes as long as it does: where time is lost, how it scales, what to change first. All of it
 * is found by predicting again with something changed. */
#ifndef LS_PLAN_EXPLAIN_H
#define LS_PLAN_EXPLAIN_H

#include "plan/search.h"

/* Time beyond what the matmuls and attention of the model alone take at their best, by cause; they add up to the step
 * with `useful`. */
typedef struct ls_plan_losses {
    double useful;              /* seconds: model FLOPs at the chip's reached rate for large matmuls */
    double lost[LS_TIME_KINDS]; /* beyond it: of matmuls, their shapes */
    ls_time_kind worst;         /* communication, bubble, recomputation or small operations: the largest of them */
} ls_plan_losses;
void ls_plan_losses_of(const ls_plan_task *task, const ls_plan_choice *choice, ls_plan_losses *out);

/* One knob or one piece of hardware changed. */
typedef struct ls_plan_change {
    char what[96]; /* "micro-batch 2 instead of 1", "400 Gb/s between nodes instead of 200" */
    bool hardware; /* not a knob of the layout */
    ls_plan_choice to;
    double gain; /* share of the step's time saved; below 0: it is slower */
} ls_plan_change;
enum { LS_PLAN_CHANGES_MAX = 32 };
/* Neighbours that fit, the largest gain first. */
ls_status ls_plan_changes(const ls_plan_task *task, const ls_plan_choice *choice, ls_plan_change *out, int *count);

/* Throughput over sizes of the cluster, the global batch in proportion (weak) or as it is (strong). */
typedef struct ls_plan_point {
    int chips;
    ls_plan_choice best; /* layout chosen again; prediction.seconds 0: nothing fits */
    ls_plan_choice held; /* the given layout with more or fewer replicas; 0: it cannot be or does not fit */
    double tokens_per_second, held_tokens_per_second;
    double ideal_tokens_per_second; /* the highest rate of a chip at any of the sizes, times the chips */
} ls_plan_point;
enum { LS_PLAN_POINTS_MAX = 24 };
/* The task on so many chips, the batch as it is (strong) or in proportion; sites keep their proportion. False: it
 * cannot be divided so. */
bool ls_plan_resize(const ls_plan_task *task, int chips, bool strong, ls_plan_task *out);
/* Sizes from the least node count that fits up to `most` chips, doubling, with the cluster's own size among them. */
ls_status ls_plan_scaling(const ls_plan_task *task, const ls_layout_request *request, const ls_plan_choice *choice,
                          int most, bool strong, ls_plan_point *out, int *count);

/* What stops scaling: the kind of time that grows most with the devices, the batch as it is. */
typedef struct ls_plan_bottleneck {
    bool is_there;              /* false: a step costs no more chip-seconds at any size */
    ls_plan_point from, to;     /* sizes: where a step costs least, and the cluster's own, or beyond it the largest */
    double growth;              /* of a step's chip-seconds, as a share */
    double more[LS_TIME_KINDS]; /* chip-seconds; they add up to the growth */
    ls_time_kind kind;          /* the largest of them */
    bool is_treated;            /* some single change saves mostly this kind of time, at the larger size: */
    ls_plan_change treatment;
    double treated_seconds; /* of that kind, that it saves */
} ls_plan_bottleneck;
/* points: of ls_plan_scaling(), strong. */
ls_status ls_plan_bottleneck_find(const ls_plan_task *task, const ls_plan_point *points, int count,
                                  ls_plan_bottleneck *out);

/* How out-of-memory is resolved: one chip with everything, then technique by technique as the layout uses them. */
typedef struct ls_plan_rung {
    char what[96];
    double memory[LS_MEMORY_KINDS], bytes;
} ls_plan_rung;
enum { LS_PLAN_RUNGS_MAX = 12 };
ls_status ls_plan_ladder(const ls_plan_task *task, const ls_knobs *layout, ls_plan_rung *out, int *count);

#endif
