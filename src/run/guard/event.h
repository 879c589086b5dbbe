/* event.h: numerical events of a run, recorded as a line of metrics (for programs and `lockstep doctor`) and as a
 * sentence for people. docs/explain/numerics.md lists the lines. The step (src/run/step) makes events, the loop records
 * and shows them. */
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

/* Effect of outlier groups on the summed gradient: its norm with and without them, and the angle between the two
 * gradients. */
typedef struct ls_outlier_pull {
    double angle_deg, with, without;
} ls_outlier_pull;

/* Members that a kind does not have stay 0. */
typedef struct ls_train_event {
    ls_event_kind kind;
    int64_t step;                                /* in which it happened, counted from 1 */
    char tensor[LS_PARAM_NAME_MAX];              /* parameter, or output; "": none */
    char block[LS_PARAM_NAME_MAX];               /* its block, such as "blocks.3"; "": none */
    int worker;                                  /* rank; of AUDIT the worker that was wrong, −1: not known */
    int workers[LS_EVENT_WORKERS_MAX], nworkers; /* REPLICA: those in the minority; STATE: those with damage, the first
                                                    16; transient NON_FINITE: the one that had it, if audits show it */
    /* OVERFLOW, FLOOR */
    int scale, next_scale; /* exponents of the loss scale, before and after */
    /* NON_FINITE */
    const char *phase, *value; /* "forward", "loss", …; "nan", "inf", "overflow"; phase NULL: not located */
    int micro;                 /* −1: of none, and of no worker: phase "sum" */
    int64_t index;             /* element in what the worker holds of the tensor */
    bool recurs;               /* also when the step was repeated */
    /* OUTLIER */
    int group;                     /* −1: the whole contribution of the worker */
    int replicas;                  /* of such a worker; 1: it is compared only with its own last steps */
    int64_t first_sample, samples; /* of the group: number of its first sample in the run, and how many */
    ls_outlier_finding finding;
    bool again; /* it was recomputed, so that `recurs` and `pull` are valid */
    ls_outlier_pull pull;
    ls_outlier_action action;
    /* STATE */
    const char *what;                /* "weight", "moment1", "moment2" or "copy" */
    int64_t first_element, elements; /* of those that the worker updates; 0 elements: unknown */
    /* AUDIT */
    int owner, auditor; /* ranks: of the worker whose group it is, and of the one that recomputed it */
    bool persistent;    /* the wrong worker was wrong again when it recomputed the group */
    /* REPLICA, STATE, AUDIT */
    int64_t suspect_from, suspect_to; /* steps since the last verified one; 0: none */
    int64_t found_step; /* the step in which it was found, if the run has continued from `step` since; 0: it has not */
    bool left_out;      /* without the place of the worker */
} ls_train_event;

/* Why a run ends, or the attempt of a supervised run (recover/left.h): a worker has wrong numbers that another pass
 * over the batch does not repair. */
typedef struct ls_wrong {
    bool is_found;
    ls_train_event event;
    int worker;         /* −1: unknown */
    int64_t sound_step; /* the last step whose state is verified */
    bool in_memory;     /* and memory holds that state, except for what the event names */
} ls_wrong;

/* Callback of the trainer, called on every worker as an event happens. */
typedef struct ls_event_sink {
    ls_status (*take)(void *ctx, const ls_train_event *event);
    void *ctx;
} ls_event_sink;

/* Writes the event as a line of metrics. */
ls_status ls_event_record(const ls_train_event *event, ls_metrics *metrics);
/* Writes "step N: " and one sentence without a newline, cut to `bytes`. */
void ls_event_text(const ls_train_event *event, char *text, size_t bytes);
/* Writes the name of block number `b` of a model: "embedding" for the first, "head" for the last, else "blocks.N". */
void ls_event_block_name(const ls_model *model, int b, char block[LS_PARAM_NAME_MAX]);
/* Writes the block of a parameter by its name: "blocks.3" of "blocks.3.mlp.in.weight"; "embedding" or "head" of the
 * others. */
void ls_event_block_of(const char *tensor, char block[LS_PARAM_NAME_MAX]);

#endif
