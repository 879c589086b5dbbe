/* answer.h: a question to the planner (`lockstep plan`) and the whole answer: the best layouts, what limits them, what
 * would help, how they scale; or, if nothing fits in memory, what would fit. src/report prints the answer as a memo;
 * structs are plain values that own nothing. */
#ifndef LS_PLAN_ANSWER_H
#define LS_PLAN_ANSWER_H

#include "plan/course.h"
#include "plan/explain.h"
#include "plan/habits.h"
#include "plan/sensitivity.h"
#include "plan/sizes.h"

typedef struct ls_plan_failures {
    double node_seconds;     /* mean time between failures of a node; 0: failures are not modelled */
    double bytes_per_second; /* of the whole cluster, for a checkpoint */
    double restart_seconds;  /* from a failure until training continues */
} ls_plan_failures;

typedef struct ls_plan_question {
    ls_plan_task task;
    ls_layout_request request; /* the knobs that the user fixed; the search chooses the others */
    double tokens, price;      /* tokens of the whole run; price of one chip for an hour; 0: not given */
    ls_plan_failures failures;
} ls_plan_question;

/* Remedies if no layout fits. */
typedef struct ls_plan_remedy {
    bool is_freed;            /* a layout fits if some given knobs are left open: */
    ls_plan_choice freed;     /* the best such layout */
    bool is_offloaded;        /* a layout fits with the optimizer state on the host: */
    ls_plan_choice offloaded; /* the best such layout */
    int chips;                /* the fewest chips of this kind, at each site, of those tried that fit; 0: none does */
    ls_plan_choice with;      /* the best layout on them */
    ls_chip chip;             /* the next larger chip that fits, in the same number; empty name: none does */
    ls_plan_choice other;     /* the best layout with it */
} ls_plan_remedy;

typedef struct ls_plan_answer {
    const ls_plan_question *question;
    ls_plan_task task;   /* the question's task, limited to the devices that should be used and the usable memory */
    ls_plan_use use;     /* whether fewer devices would be as fast */
    ls_plan_found found; /* of the search; `best` points into it, so an answer must not be copied */
    const ls_plan_choice *best; /* NULL: nothing fits */
    ls_plan_remedy remedy;      /* where nothing fits */
    double error;               /* of predicted times, as a share, with these chips */
    ls_plan_sensitivity sensitivity;
    ls_plan_bottleneck bottleneck; /* of strong scaling */
    ls_plan_losses losses;
    ls_plan_change change[LS_PLAN_CHANGES_MAX]; /* single changes of `best`, the largest gain first */
    ls_plan_point weak[LS_PLAN_POINTS_MAX], strong[LS_PLAN_POINTS_MAX]; /* throughput by cluster size */
    ls_plan_rung rung[LS_PLAN_RUNGS_MAX];                               /* memory, technique by technique */
    ls_plan_habit habit[LS_PLAN_HABITS]; /* conventions of the framework on which the answer depends */
    int changes, weak_points, strong_points, rungs, habits; /* entries of the lists above */
    double across_seconds;  /* two sites: of the step, what the link between them costs */
    double across_bytes;    /* of a step, each way */
    ls_plan_choice not_cut; /* two sites: `best` with replicas at each site instead of stages, or stages instead of
                               replicas, all other knobs the same; seconds 0: impossible. It may exceed the memory */
} ls_plan_answer;

/* Answers the question, which must outlive the answer because the answer points to it; nothing is to be freed. It is no
 * error if nothing fits: `best` is NULL then, and only question, task, error, found, remedy and the conventions that
 * matter are filled in. Fails with LS_ERR_INPUT if no layout is possible at all. */
ls_status ls_plan_answer_find(const ls_plan_question *question, ls_plan_answer *out);

/* Returns the tokens per second of all chips together. */
double ls_plan_tokens_per_second(const ls_plan_task *task, const ls_prediction *prediction);
/* Returns the MFU as a share: model FLOP/s over the data-sheet peak of all chips in the layout's number type. */
double ls_plan_mfu(const ls_plan_task *task, const ls_plan_choice *choice);
/* Returns the run over all tokens with checkpoints and failures; all fields are 0 unless both tokens and failures were
 * asked for. */
ls_course ls_plan_course_of(const ls_plan_question *question, const ls_plan_task *task, const ls_plan_choice *choice);
/* Returns the best MFU of a published run with the chips of the task and that type, as a share (with two sites, the
 * higher one); 0: there is no such run for the chip of some site. */
double ls_plan_best_mfu(const ls_plan_task *task, ls_plan_type type);

#endif
