/* answer.h: a question to the planner and all of its answer: the best layouts, why they are not faster, what would
 * change that, how they scale; or, where nothing fits, what would. */
#ifndef LS_PLAN_ANSWER_H
#define LS_PLAN_ANSWER_H

#include "plan/course.h"
#include "plan/explain.h"
#include "plan/habits.h"
#include "plan/sensitivity.h"
#include "plan/sizes.h"

/* What is asked. */
typedef struct ls_plan_failures {
    double node_seconds;     /* mean time between failures of a node; 0: not asked */
    double bytes_per_second; /* of the whole cluster, for a checkpoint */
    double restart_seconds;  /* from a failure until training goes on */
} ls_plan_failures;

typedef struct ls_plan_question {
    ls_plan_task task;
    ls_layout_request request;
    double tokens, price; /* 0: not given */
    ls_plan_failures failures;
} ls_plan_question;

/* What would fit where nothing does. */
typedef struct ls_plan_remedy {
    bool is_freed;            /* some of the given knobs were in the way: */
    ls_plan_choice freed;     /* the best without them */
    bool is_offloaded;        /* the optimizer's states on the host would do: */
    ls_plan_choice offloaded; /* the best then */
    int chips;                /* of the same kind, the fewest; 0: none that was tried */
    ls_plan_choice with;      /* that many */
    ls_chip chip;             /* the next larger one, as many as there are; an empty name: none */
    ls_plan_choice other;     /* with that chip */
} ls_plan_remedy;

typedef struct ls_plan_answer {
    const ls_plan_question *question;
    ls_plan_task task; /* what the answer is about: the question's on the devices that should be used, with the memory
                          that may be */
    ls_plan_use use;
    ls_plan_found found;
    const ls_plan_choice *best; /* NULL: nothing fits */
    ls_plan_remedy remedy;      /* where nothing fits */
    double error;               /* of predicted times, as a share, with these chips */
    ls_plan_sensitivity sensitivity;
    ls_plan_bottleneck bottleneck;
    ls_plan_losses losses;
    ls_plan_change change[LS_PLAN_CHANGES_MAX];
    ls_plan_point weak[LS_PLAN_POINTS_MAX], strong[LS_PLAN_POINTS_MAX];
    ls_plan_rung rung[LS_PLAN_RUNGS_MAX];
    ls_plan_habit habit[LS_PLAN_HABITS]; /* of the program, on which the answer hangs */
    int changes, weak_points, strong_points, rungs, habits;
    double across_seconds;  /* two sites: of the step, what the link between them costs */
    double across_bytes;    /* of a step, each way */
    ls_plan_choice not_cut; /* two sites: cut the other way; seconds 0: it cannot be */
} ls_plan_answer;

/* The question is borrowed. That nothing fits is no error. */
ls_status ls_plan_answer_find(const ls_plan_question *question, ls_plan_answer *out);

/* Tokens of all chips and a second; model FLOPs over what the chips could do at most. */
double ls_plan_tokens_per_second(const ls_plan_task *task, const ls_prediction *prediction);
double ls_plan_mfu(const ls_plan_task *task, const ls_plan_choice *choice);
/* The run of all tokens with checkpoints and failures, where both were asked about; else mtbf_seconds is 0. */
ls_course ls_plan_course_of(const ls_plan_question *question, const ls_plan_task *task, const ls_plan_choice *choice);
/* The largest that a published run has reached with the chips of a task and that type; 0: there is none. */
double ls_plan_best_mfu(const ls_plan_task *task, ls_plan_type type);

#endif
