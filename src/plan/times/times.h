/* times.h: measured times of one job at several sizes and layouts, and what they say about where time is lost.
 *
 * A time is a sum of terms, each of which grows or shrinks with the number of chips in its own way (times_terms.c). All
 * subsets of the terms are fitted; those that meet the measured times as well as the scatter allows are explanations,
 * and what they do not agree on is not known. With few rows that is much, and the answer says so. */
#ifndef LS_PLAN_TIMES_TIMES_H
#define LS_PLAN_TIMES_TIMES_H

#include "base/status.h"
#include "plan/times/fit.h"
#include "plan/plan.h"

typedef enum ls_times_metric {
    LS_TIMES_SECONDS,    /* of a step */
    LS_TIMES_LONG,       /* of the whole job: hours, days */
    LS_TIMES_THROUGHPUT, /* of all chips together */
    LS_TIMES_SPEEDUP,
    LS_TIMES_METRICS
} ls_times_metric;

enum { LS_TIMES_LABEL_MAX = 48 };

typedef struct ls_times_row {
    int chips, dp, tp, pp; /* 0: not given */
    size_t micro, batch;   /* sequences; 0: not given */
    double measured;       /* as in the file */
    double time;           /* of a step, in the unit of the table */
    int label;             /* 0: before, 1: after */
    bool implied;          /* one chip, by which a speed-up is measured */
} ls_times_row;

typedef struct ls_times {
    int count;
    ls_times_row row[LS_FIT_ROWS_MAX];
    ls_times_metric metric;
    char column[LS_TIMES_LABEL_MAX];   /* its name in the file */
    char unit[16];                     /* of `time`, for people */
    char label[2][LS_TIMES_LABEL_MAX]; /* empty: there are none */
    int labels;
    bool has_layout, has_batch; /* in all rows */
} ls_times;

/* Columns: gpus (or workers, chips, n_gpus); one of seconds, ms, hours, days, throughput, speedup; optional dp, tp, pp,
 * micro_batch, global_batch, label; others are passed over. LS_ERR_INPUT names line and column. */
ls_status ls_times_read(const char *path, ls_times *out);

/* ---- terms ------------------------------------------------------------------------------------------------------- */

typedef enum ls_times_term {
    LS_TERM_COMPUTE,   /* work that is divided by the chips, with the bubble and uneven shares that the layout makes */
    LS_TERM_RING,      /* bytes that each chip sends whatever their number */
    LS_TERM_NODES,     /* the same, once there is more than one node */
    LS_TERM_LATENCY,   /* grows with the number of chips */
    LS_TERM_TP,        /* activations between the chips of a tensor-parallel row */
    LS_TERM_SERIAL,    /* work that is not divided */
    LS_TERM_BUBBLE,    /* where the layout says that there is one but not how large */
    LS_TERM_STRAGGLER, /* the slowest of many */
    LS_TERM_PREDICTED, /* what the planner says about synchronisation */
    LS_TERMS
} ls_times_term;

typedef enum ls_loss {
    LS_LOSS_NONE, /* useful work */
    LS_LOSS_SYNC,
    LS_LOSS_BUBBLE,
    LS_LOSS_IMBALANCE,
    LS_LOSS_SERIAL,
    LS_LOSS_UNEXPLAINED,
    LS_LOSSES
} ls_loss;

const char *ls_times_term_name(ls_times_term term);
const char *ls_loss_name(ls_loss loss);
ls_loss ls_times_term_loss(ls_times_term term);

/* What the planner assumes where a model and a cluster are given. */
typedef struct ls_times_model {
    ls_plan_task task;   /* without chips and global batch, which rows have */
    size_t global_batch; /* for rows that have none; 0: none */
    ls_knobs layout;     /* type, zero and such */
} ls_times_model;

typedef struct ls_times_basis {
    ls_fit fit;
    unsigned terms;                    /* that these rows can have */
    double bubble[LS_FIT_ROWS_MAX];    /* for one part of computing */
    double imbalance[LS_FIT_ROWS_MAX]; /* for one part of computing */
    int node;
    bool predicted;
} ls_times_basis;

/* node: chips of one. */
void ls_times_basis_make(const ls_times *times, int node, ls_times_basis *out);
ls_status ls_times_predict_row(const ls_times_row *row, const ls_times_model *model, ls_prediction *out);
/* From predictions of each row. LS_ERR_INPUT where a row cannot be predicted. */
ls_status ls_times_basis_predict(const ls_times *times, const ls_times_model *model, ls_times_basis *out);
/* As the first, for one row that was not measured: the layout of `like` with more or fewer replicas. */
double ls_times_elsewhere(const ls_times *times, const ls_times_basis *basis, const double *coefficient, int like,
                          int chips);
/* Seconds of a row by loss; they add up to its time. */
void ls_times_losses(const ls_times_basis *basis, const double *coefficient, int row, double *out);

/* ---- explanations ------------------------------------------------------------------------------------------------ */

typedef struct ls_times_explanation {
    unsigned terms;
    double coefficient[LS_FIT_TERMS_MAX];
    double error;            /* root of the mean square, relative */
    double score;            /* less is better: misfit in units of the scatter, and two for each term */
    double share[LS_LOSSES]; /* of the time of the largest row */
    double twice, half;      /* time with twice and with half the chips of it */
} ls_times_explanation;

enum { LS_EXPLANATIONS_MAX = 16 };

typedef struct ls_times_answer {
    int largest;    /* row that shares are of */
    double scatter; /* of the measured times, relative: found, or assumed where there are too few rows */
    bool scatter_assumed;
    int count; /* of explanations that the rows allow, the best first */
    ls_times_explanation explanation[LS_EXPLANATIONS_MAX];
    double low[LS_LOSSES], high[LS_LOSSES]; /* shares, over all of them and their errors */
    ls_loss worst;                          /* the largest loss of the best explanation */
    bool decided;                           /* all explanations name the same */
    double misfit;                          /* of the best one there is, in units of the scatter */
} ls_times_answer;

/* LS_ERR_INPUT where no sum of terms fits at all. */
ls_status ls_times_explain(const ls_times *times, const ls_times_basis *basis, ls_times_answer *out);

/* ---- against the prediction -------------------------------------------------------------------------------------- */

/* Which one thing, other than the planner assumes it, turns its predictions into the times that were measured. */
typedef enum ls_times_thing {
    LS_THING_NONE, /* nothing: they are as predicted */
    LS_THING_CHIP, /* all computing, by a factor; no rate above the chip's peak */
    LS_THING_LINK, /* the bandwidth between nodes, or inside the node where there is one, at most that of the wire */
    LS_THING_BUBBLE,
    LS_THING_STRAGGLER, /* the slowest of n chips: computing · log2(n) */
    LS_THING_SERIAL,    /* the same seconds in every step */
    LS_THINGS
} ls_times_thing;

const char *ls_times_thing_name(ls_times_thing thing);

typedef struct ls_times_deviation {
    ls_times_thing thing;
    double factor; /* of its predicted time, of bandwidth for the link, seconds of a step for the serial part; of a
                      straggler: what each doubling of the chips adds to computing */
    double error;  /* that remains: root of the mean square, relative */
    double share;  /* of the time of the largest row, more than was predicted; below 0: less */
    bool tested;
    const char *why_not; /* what the rows would have to have */
} ls_times_deviation;

typedef struct ls_times_deviations {
    int largest;                         /* row that shares are of */
    ls_times_deviation thing[LS_THINGS]; /* best first; those that were not tested behind them */
    bool decided;                        /* the second leaves clearly more */
} ls_times_deviations;

ls_status ls_times_deviate(const ls_times *times, const ls_times_model *model, ls_times_deviations *out);

/* Two labels: which one term, changed, turns the times before into those after. */
typedef struct ls_times_move {
    int term; /* −1: none; what differs between the layouts explains it */
    double error, score;
    double change;        /* of the time of the largest row after, in its unit */
    double before, after; /* coefficients */
} ls_times_move;

typedef struct ls_times_comparison {
    int count;
    ls_times_move move[LS_TERMS + 1]; /* the best first */
    double slowdown;                  /* mean ratio of rows that are in both; 0: there are none */
    bool changed, decided;
    int largest;
} ls_times_comparison;

ls_status ls_times_compare(const ls_times *times, const ls_times_basis *basis, ls_times_comparison *out);

#endif
