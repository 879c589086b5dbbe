/* event.h: things that happen to the numbers of a run, and how they are told: as a line of the metrics, for programs
 * and for `lockstep doctor`, and as a sentence, for people. docs/explain/numerics.md has the lines. */
#ifndef LS_RUN_GUARD_EVENT_H
#define LS_RUN_GUARD_EVENT_H

#include "config/choices.h"
#include "nn/blocks.h"
#include "observe/metrics.h"
#include "run/guard/outlier.h"

typedef enum ls_event_kind {
    LS_EVENT_OVERFLOW,   /* an fp16 step was skipped */
    LS_EVENT_FLOOR,      /* and the loss scale cannot be lowered any more */
    LS_EVENT_NON_FINITE, /* NaN or infinity, where it appeared first */
    LS_EVENT_OUTLIER,    /* the gradient of a group, or of a worker, stands out */
    LS_EVENT_REPLICA,    /* holders of the same parameters disagree */
    LS_EVENT_STATE,      /* a worker's own weights or optimizer state fail their checksum */
    LS_EVENT_AUDIT       /* a group was computed wrongly */
} ls_event_kind;

enum { LS_EVENT_WORKERS_MAX = 16 };

/* What groups that stand out did to the sum: its length with and without them, and the angle between the two. */
typedef struct ls_outlier_pull {
    double angle_deg, with, without;
} ls_outlier_pull;

/* Members that a kind does not have stay 0. */
typedef struct ls_train_event {
    ls_event_kind kind;
    int64_t step; /* that it happened in: the number of steps done before it, plus 1 */
    char tensor[LS_PARAM_NAME_MAX];
    char block[LS_PARAM_NAME_MAX];
    int worker;
    int workers[LS_EVENT_WORKERS_MAX], nworkers; /* REPLICA: those that are alone; NON_FINITE that has passed: whose */
    /* OVERFLOW, FLOOR */
    int scale, next_scale;
    /* NON_FINITE */
    const char *phase, *value;
    int micro; /* −1: of none, and of no worker: phase "sum" */
    int64_t index;
    bool recurs;
    /* OUTLIER */
    int group;    /* −1: what the worker contributed as a whole */
    int replicas; /* of such a worker: 1: it has no peers but its own last steps */
    int64_t first_sample, samples;
    ls_outlier_finding finding;
    bool again; /* it was computed again, for the two that follow; otherwise they say nothing */
    ls_outlier_pull pull;
    ls_outlier_action action;
    /* STATE */
    const char *what;
    int64_t first_element, elements; /* of those that the worker updates; 0 elements: which ones is not known */
    /* AUDIT */
    int owner, auditor;
    bool persistent;
    /* REPLICA, STATE, AUDIT */
    int64_t suspect_from, suspect_to; /* steps since the last one that was found in order; 0: none */
    int64_t found_step;               /* the run has gone on since, from `step`; 0: not yet */
    bool left_out;                    /* without the place of the worker */
} ls_train_event;

/* What ends a run, or the attempt of a run that is supervised (recover/left.h): numbers of a worker are wrong, and no
 * further pass over the batch mends them. */
typedef struct ls_wrong {
    bool is_found;
    ls_train_event event;
    int worker;         /* −1: unknown */
    int64_t sound_step; /* the last step whose state is verified */
    bool in_memory;     /* and is what the workers have, but for what the event tells */
} ls_wrong;

/* What is told by a trainer as it happens, on every worker. */
typedef struct ls_event_sink {
    ls_status (*take)(void *ctx, const ls_train_event *event);
    void *ctx;
} ls_event_sink;

ls_status ls_event_record(const ls_train_event *event, ls_metrics *metrics);
/* One sentence without a newline. */
void ls_event_text(const ls_train_event *event, char *text, size_t bytes);
/* "embedding", "blocks.3" or "head": block `b` of a model. */
void ls_event_block_name(const ls_model *model, int b, char block[LS_PARAM_NAME_MAX]);
/* "blocks.3" of "blocks.3.mlp.in.weight"; "embedding" or "head" of the others. */
void ls_event_block_of(const char *tensor, char block[LS_PARAM_NAME_MAX]);

#endif
