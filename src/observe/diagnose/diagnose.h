/* diagnose.h: diagnoses a finished or running training run from its records: what went wrong, with evidence and the
 * first thing to try. `lockstep doctor` prints the result, and reports of runs show it.
 *
 * Rules (rules.h) read the records of a run (run_read.h) and add findings. A finding is a cause, or a note: an
 * observation that is normal or had no consequence. Causes are ordered by their first sign, because an earlier one may
 * have caused the others; causes that only cost time come last, the largest first. The figures behind the rules are in
 * docs/reference/doctor.md.
 *
 * The same run always gives the same diagnosis. Texts are copied into the diagnosis, so the run may be freed first. */
#ifndef LS_OBSERVE_DIAGNOSE_DIAGNOSE_H
#define LS_OBSERVE_DIAGNOSE_DIAGNOSE_H

#include "observe/run_read.h"

/* In the order in which causes with the same first sign are named. */
typedef enum ls_cause {
    LS_CAUSE_FAULT, /* a worker computes, or keeps, numbers wrongly */
    LS_CAUSE_OVERFLOW,
    LS_CAUSE_BAD_DATA,
    LS_CAUSE_OUTLIER, /* gradient groups that stand out */
    LS_CAUSE_LOST_UPDATES,
    LS_CAUSE_UNDERFLOW,
    LS_CAUSE_LR, /* a learning rate that is too high */
    LS_CAUSE_LR_ZERO,
    LS_CAUSE_UNKNOWN, /* the run broke, and what was recorded does not tell why */
    LS_CAUSE_ENDED,   /* before its last step, by no fault of its numbers */
    /* from here on: what only costs time */
    LS_CAUSE_SLOW_WORKER,
    LS_CAUSE_NETWORK,
    LS_CAUSE_BUBBLE,
    LS_CAUSE_IMBALANCE,
    LS_CAUSE_INPUT,
    LS_CAUSE_CHECKPOINTS,
    LS_CAUSE_EVALUATION,
    LS_CAUSE_CORES,
    LS_CAUSE_GPUS,
    LS_CAUSES
} ls_cause;

/* Returns a static text: "overflow", "bad data", "learning rate too high", … */
const char *ls_cause_name(ls_cause cause);

enum { LS_SPELL_MAX = 24 };
/* Formats a duration as "53.6 s", "4.2 min", "1.2 h" or "3.1 days": each unit is used from 2 of it on. Returns
 * `text`. */
const char *ls_spell(double seconds, char text[LS_SPELL_MAX]);
/* Returns whether the cause only costs time: it leaves the numbers of the run as they would be. */
static inline bool ls_cause_is_of_time(ls_cause cause) { return cause >= LS_CAUSE_SLOW_WORKER; }

enum {
    LS_FINDINGS_MAX = 16,
    LS_EVIDENCE_MAX = 6,
    LS_FOLLOWED_MAX = 12,
    LS_MISSING_MAX = 8,
    LS_DIAGNOSE_LINE_MAX = LS_RUN_TEXT_MAX + 128 /* a line may have the reason of a stop in it */
};

typedef struct ls_finding {
    ls_cause cause;
    bool is_note;
    long long onset;           /* step of the first sign */
    long long step, last_step; /* of the first event itself, and of the last */
    int worker, group;         /* LS_RUN_NONE: none in particular */
    double size;               /* the figure that decided: a share, a ratio, a number of events */
    double share;              /* of a cause of time: of the run's time that it takes; otherwise 0 */
    char block[LS_RUN_NAME_MAX], tensor[LS_RUN_NAME_MAX];
    char title[LS_DIAGNOSE_LINE_MAX];
    char evidence[LS_EVIDENCE_MAX + 1][LS_DIAGNOSE_LINE_MAX]; /* the last one takes lines beyond the limit, unshown */
    int evidence_count;
    char action[2 * LS_DIAGNOSE_LINE_MAX]; /* "" for a note that asks for nothing */
} ls_finding;

/* A later event of the run that the first cause may explain. */
typedef struct ls_followed {
    long long step;
    char text[LS_DIAGNOSE_LINE_MAX];
} ls_followed;

typedef struct ls_usage_worker {
    double busy_ms, wait_ms; /* mean of a step; wait is NaN where it was not recorded */
    double busy;             /* share of busy + waiting; NaN likewise */
    double relative;         /* its computing for each group, over the median of the others of its stage; NaN: none */
    size_t slowest;          /* steps in which it computed longest */
} ls_usage_worker;

/* How the workers of a run spent its steps: computing, or waiting for each other. */
typedef struct ls_usage {
    int workers;      /* of the last record; 0: nothing was recorded, or there is one worker: `worker` is NULL */
    size_t steps;     /* recorded with that many workers; without the first, which warms up, if there are 3 or more */
    bool of_trace;    /* measured in trace.json, because the metrics have no times of workers */
    int slowest;      /* the worker that computed longest, in all */
    double waited_ms; /* of all other workers, in all steps recorded; NaN: not recorded */
    double busy;      /* share of all workers' time; NaN likewise */
    ls_usage_worker *worker; /* by rank */
} ls_usage;

/* How a GPU was used: means over the steps that recorded it, without the first if there are 3 or more. NaN: none. */
typedef struct ls_gpu_usage {
    size_t steps;
    double mfu;      /* share of the rate that the matrix unit reached when it was measured */
    double waits;    /* share of a step in which the host had nothing more to start, and waited for the GPU */
    double idle;     /* of a trace: share of a step in which it had nothing to do, between two kernels */
    bool lacks_work; /* starting kernels takes as long as the kernels: idle above 20 % or, without a trace, waits below
                        3 % */
    char action[LS_DIAGNOSE_LINE_MAX]; /* "": none */
} ls_gpu_usage;

/* Parts into which the time of a run is divided, over all its workers. */
typedef enum ls_use {
    LS_USE_COMPUTING,
    LS_USE_NETWORK,
    LS_USE_BUBBLE,
    LS_USE_IMBALANCE,
    LS_USE_INPUT,
    LS_USE_CHECKPOINTS,
    LS_USE_EVALUATION,
    LS_USE_HOST, /* no core to run on, and what is between steps */
    LS_USE_GPU,  /* another worker has the GPU that they share */
    LS_USES
} ls_use;

/* Returns a static text: "computing", "waiting for the network", "pipeline bubble", … */
const char *ls_use_name(ls_use use);

/* How the time of all workers divides into uses, over the steps that recorded enough. */
typedef struct ls_utilisation {
    size_t steps; /* measured; 0: too little was recorded to say */
    int workers;
    double step_ms;          /* mean of a step, without what is between them */
    double share[LS_USES];   /* of all time; they add up to 1 */
    bool net_is_known;       /* otherwise waiting that is nothing else counts as network, or as bubble in a pipeline */
    size_t saves, evals;     /* checkpoints and evaluations with a time recorded, before the last step */
    double save_ms, eval_ms; /* mean of one; 0: there is none */
} ls_utilisation;

typedef enum ls_verdict {
    LS_VERDICT_CLEAN,     /* the records show no problem */
    LS_VERDICT_CAUSE,     /* finding[0] is the first cause */
    LS_VERDICT_NOT_ENOUGH /* finding[0] is the cause UNKNOWN, or there is no cause but fewer than 10 steps recorded */
} ls_verdict;

typedef struct ls_diagnosis {
    ls_verdict verdict;
    ls_finding finding[LS_FINDINGS_MAX];       /* causes, then notes */
    int finding_count, cause_count;            /* the former counts both */
    ls_followed followed[LS_FOLLOWED_MAX + 1]; /* after the first cause, by step */
    int followed_count;
    char missing[LS_MISSING_MAX][LS_DIAGNOSE_LINE_MAX]; /* what was not recorded, and which option records it */
    int missing_count;
    ls_usage usage;
    ls_gpu_usage gpu; /* steps 0: not a run on GPUs, or nothing was recorded */
    ls_utilisation use;
    long long first_step, last_step, planned_steps; /* LS_RUN_NONE: not known */
    size_t steps;
} ls_diagnosis;

/* Applies all rules to the run. The caller frees *out with ls_diagnosis_free(). Fails only with LS_ERR_RESOURCE
 * (memory); then there is nothing to free. A run with few or no records gives LS_VERDICT_NOT_ENOUGH, not an error. */
ls_status ls_diagnose(const ls_run_log *run, ls_diagnosis *out);
/* Frees what the diagnosis points to, but not the struct. NULL does nothing. */
void ls_diagnosis_free(ls_diagnosis *diagnosis);

#endif
