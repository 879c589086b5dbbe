/* times.h: explains where time is lost, from measured times of one job on several numbers of chips (doctor --times).
 *
 *     ls_times_read → ls_times_basis_make or ls_times_basis_predict → ls_times_explain
 *                                                                   → ls_times_compare    with two labels
 *                                          ls_times_model           → ls_times_deviate    with a model and a cluster
 *
 * The model of a step's time is a sum of terms, such as computing or synchronisation, each of which scales with the
 * number of chips in its own way (terms.c). Every subset of the terms is fitted. A subset whose sums deviate from the
 * measured times by no more than their scatter is an explanation. Figures on which the explanations disagree are
 * unknown, and the answer gives their range; with few rows most are. */
#ifndef LS_PLAN_TIMES_TIMES_H
#define LS_PLAN_TIMES_TIMES_H

#include "base/status.h"
#include "plan/times/fit.h"
#include "plan/plan.h"

typedef enum ls_times_metric {
    LS_TIMES_SECONDS,    /* per step */
    LS_TIMES_LONG,       /* hours or days of the whole job */
    LS_TIMES_THROUGHPUT, /* of all chips together */
    LS_TIMES_SPEEDUP,
    LS_TIMES_METRICS
} ls_times_metric;

enum { LS_TIMES_LABEL_MAX = 48 };

typedef struct ls_times_row {
    int chips, dp, tp, pp; /* 0: not given */
    size_t micro, batch;   /* sequences; 0: not given */
    double measured;       /* the value in the file */
    double time;  /* proportional to the time of a step. By metric: seconds of a step; hours or days of the job (see
                     ls_times.unit); 1/throughput; 1/speedup. Except for seconds per step, scaled by the row's batch
                     over that of the first row if all rows have one, because such values are for the same work */
    int label;    /* index into ls_times.label: 0 before, 1 after a change */
    bool implied; /* not in the file: the one chip to which speed-ups are relative */
} ls_times_row;

typedef struct ls_times {
    int count;
    ls_times_row row[LS_FIT_ROWS_MAX];
    ls_times_metric metric;
    char column[LS_TIMES_LABEL_MAX];   /* name of the metric's column in the file */
    char unit[16];                     /* of `time`, for messages */
    char label[2][LS_TIMES_LABEL_MAX]; /* in the order in which they occur */
    int labels;
    bool has_layout, has_batch; /* true only if all rows have one */
} ls_times;

/* Reads a CSV file. Columns: gpus (or workers, chips, n_gpus); one of seconds, ms, hours, days, throughput, speedup;
 * optional dp, tp, pp, micro_batch, global_batch, label. Other columns are ignored. LS_ERR_INPUT names line and
 * column. */
ls_status ls_times_read(const char *path, ls_times *out);

/* ---- terms ------------------------------------------------------------------------------------------------------- */

typedef enum ls_times_term {
    LS_TERM_COMPUTE,   /* work divided among the chips, with the bubble and the imbalance that follow from the layout */
    LS_TERM_RING,      /* synchronisation: a ring all-reduce, the same bytes per chip on any number of chips */
    LS_TERM_NODES,     /* synchronisation: such a ring between nodes */
    LS_TERM_LATENCY,   /* synchronisation: latency, which grows with the number of chips */
    LS_TERM_TP,        /* activations that tensor parallelism exchanges */
    LS_TERM_SERIAL,    /* work that is not divided */
    LS_TERM_BUBBLE,    /* the bubble, if rows have pp but lack the micro-batches from which its size follows */
    LS_TERM_STRAGGLER, /* waiting for the slowest chip; belongs to LS_LOSS_IMBALANCE */
    LS_TERM_PREDICTED, /* all synchronisation as the planner predicts it */
    LS_TERMS
} ls_times_term;

/* Why a step takes longer than its useful work. */
typedef enum ls_loss {
    LS_LOSS_NONE, /* useful work */
    LS_LOSS_SYNC,
    LS_LOSS_BUBBLE,
    LS_LOSS_IMBALANCE,
    LS_LOSS_SERIAL,
    LS_LOSS_UNEXPLAINED,
    LS_LOSSES
} ls_loss;

/* Returns a name for messages. */
const char *ls_times_term_name(ls_times_term term);
/* Returns a name for messages. */
const char *ls_loss_name(ls_loss loss);
/* Returns the loss that a term belongs to. */
ls_loss ls_times_term_loss(ls_times_term term);

/* The model and cluster for the planner's predictions of rows. */
typedef struct ls_times_model {
    ls_plan_task task;   /* its chips and global batch are replaced by those of a row */
    size_t global_batch; /* for rows that have none; 0: none */
    ls_knobs layout;     /* number type, zero and so on; dp, tp, pp and micro-batch come from a row */
} ls_times_model;

/* The value of every term for every row: the matrix of the fit. */
typedef struct ls_times_basis {
    ls_fit fit;
    unsigned terms;                    /* bits of the terms that these rows can determine */
    double bubble[LS_FIT_ROWS_MAX];    /* bubble as a multiple of the row's useful computing */
    double imbalance[LS_FIT_ROWS_MAX]; /* the same for uneven shares */
    int node;                          /* chips of a node */
    bool predicted;                    /* made by ls_times_basis_predict() */
} ls_times_basis;

/* Computes the terms by the formulas of terms.c. `node` is the number of chips of a node; 0: 8. *out borrows
 * nothing. */
void ls_times_basis_make(const ls_times *times, int node, ls_times_basis *out);
/* Predicts a row by the planner. LS_ERR_INPUT if its layout is not possible or it has no global batch. */
ls_status ls_times_predict_row(const ls_times_row *row, const ls_times_model *model, ls_prediction *out);
/* Computes the terms from the planner's prediction of each row: computing, synchronisation and serial work only.
 * LS_ERR_INPUT if a row cannot be predicted, or if times are not seconds per step. */
ls_status ls_times_basis_predict(const ls_times *times, const ls_times_model *model, ls_times_basis *out);
/* Returns the time of row `like` on `chips` chips, by the fitted coefficients, with more or fewer replicas. Returns 0
 * if there is no such layout, or if the basis comes from ls_times_basis_predict(). */
double ls_times_elsewhere(const ls_times *times, const ls_times_basis *basis, const double *coefficient, int like,
                          int chips);
/* Divides the time of a row among the losses, out[LS_LOSSES], in the unit of the table; they add up to the time.
 * LS_LOSS_UNEXPLAINED may be negative. */
void ls_times_losses(const ls_times_basis *basis, const double *coefficient, int row, double *out);

/* ---- explanations ------------------------------------------------------------------------------------------------ */

typedef struct ls_times_explanation {
    unsigned terms; /* bits of its terms */
    double coefficient[LS_FIT_TERMS_MAX];
    double error; /* root mean square of the relative errors */
    double score; /* Akaike's: squared errors in units of the scatter, each at most 3 of them, plus 2 per term, and up
                     to .5 more for terms that are rare; lower is better */
    double share[LS_LOSSES]; /* of the time of the largest row */
    double twice, half; /* time with twice and with half the chips of the largest row; 0: not possible, not known */
} ls_times_explanation;

enum { LS_EXPLANATIONS_MAX = 16 };

typedef struct ls_times_answer {
    int largest;          /* the row with most chips, to which shares refer */
    double scatter;       /* relative standard deviation of a measured time */
    bool scatter_assumed; /* there were too few rows to estimate it */
    int count;            /* of explanations kept, the best first; ranges and `decided` are over all good ones */
    ls_times_explanation explanation[LS_EXPLANATIONS_MAX];
    double low[LS_LOSSES], high[LS_LOSSES]; /* range of each share over all good explanations, and two standard errors
                                               of the best one. Good: a score at most 4 above the best */
    ls_loss worst;                          /* the largest loss of the best explanation */
    bool decided;                           /* `worst` is the same in all good explanations */
    double misfit;                          /* error of the best explanation, in units of the scatter */
} ls_times_answer;

/* Finds all explanations of the measured times. LS_ERR_INPUT if there are fewer than two rows, or if no sum of terms
 * fits. */
ls_status ls_times_explain(const ls_times *times, const ls_times_basis *basis, ls_times_answer *out);

/* ---- against the prediction -------------------------------------------------------------------------------------- */

/* The one assumption of the planner that, if it is changed, brings its predictions closest to the measured times. */
typedef enum ls_times_thing {
    LS_THING_NONE,      /* none: the times are as predicted */
    LS_THING_CHIP,      /* the time of all computing, by a factor; never faster than the chip's peak */
    LS_THING_LINK,      /* the bandwidth between nodes or, with a single node, inside it; at most that of the wire */
    LS_THING_BUBBLE,    /* the bubble, by a factor */
    LS_THING_STRAGGLER, /* waiting for the slowest of n chips: computing · log2(n) */
    LS_THING_SERIAL,    /* the same seconds in every step */
    LS_THINGS
} ls_times_thing;

/* Returns a name for messages. */
const char *ls_times_thing_name(ls_times_thing thing);

typedef struct ls_times_deviation {
    ls_times_thing thing;
    double factor; /* chip, bubble: of the predicted time; link: of the bandwidth; serial: seconds per step; straggler:
                      share of computing that each doubling of the chips adds */
    double error;  /* root mean square of the relative errors that remain */
    double share;  /* change against the prediction, as a share of the largest row's time; negative: faster */
    bool tested;   /* the rows can show it: it moves the time of some row by more than .2 % */
    const char *why_not; /* if not tested: which rows are missing */
} ls_times_deviation;

typedef struct ls_times_deviations {
    int largest; /* the row with most chips, to which shares refer */
    /* Sorted by error, those that were not tested last. LS_THING_NONE comes first, whatever its error, if the times are
     * within .3 % of the predictions, or no change removes 30 % of the error. */
    ls_times_deviation thing[LS_THINGS];
    bool decided; /* the second leaves more than 1.5 times the error of the first, or was not tested */
} ls_times_deviations;

/* Fits each thing alone, with everything else as predicted. With two labels only rows after the change count. Times
 * must be seconds per step, which the caller has checked (ls_times_basis_predict() does). Not reentrant. */
ls_status ls_times_deviate(const ls_times *times, const ls_times_model *model, ls_times_deviations *out);

/* Two labels: the one term whose change turns the times before into the times after. */
typedef struct ls_times_move {
    int term;             /* −1: none; the difference of the layouts explains the times */
    double error, score;  /* as in ls_times_explanation */
    double change;        /* of the largest row's time (after), as ls_times_row.time */
    double before, after; /* coefficients of the term */
} ls_times_move;

typedef struct ls_times_comparison {
    int count;
    ls_times_move move[LS_TERMS + 1]; /* the best first */
    double slowdown;                  /* mean of time after / time before, for layouts with both; 0: there are none */
    bool changed, decided;            /* the best move has a term; the second best is clearly worse */
    int largest;                      /* the row after with most chips */
} ls_times_comparison;

/* Finds the term that changed. LS_ERR_INPUT unless there are two labels with enough sizes for a fit. */
ls_status ls_times_compare(const ls_times *times, const ls_times_basis *basis, ls_times_comparison *out);

#endif
