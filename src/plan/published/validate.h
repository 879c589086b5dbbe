/* validate.h: compares predictions with published runs: errors by row and by source, and the regret (see
 * ls_validate_regret).
 *
 * Error: predicted over measured, less 1, of the seconds of a step, or of bytes. Nothing of a row's id, source, model
 * or value goes into its prediction. With calibration one factor on time is fitted for each cluster (a source and a
 * chip) to the first quarter of its time rows, 4 at least but half of them at most; those rows are then left out of
 * every figure. A cluster that would keep no row to judge is not fitted and not judged. The factor is the likeliest one
 * if clusters of a chip differ by 5 % and a row by 5 % from the rest of its cluster, rows that stand out counted less:
 * few rows, or rows that contradict each other, move it little.
 *
 * The baseline has no model at all: every row of a cluster reaches the same share of the peak, its matmuls and
 * attention counted with what full recomputation repeats. The share is the mean over all rows of the cluster, which
 * favours it; with calibration over the rows that were fitted. */
#ifndef LS_PLAN_PUBLISHED_VALIDATE_H
#define LS_PLAN_PUBLISHED_VALIDATE_H

#include "plan/published/published_runs.h"

enum { LS_VALIDATE_NAME_MAX = 80 };

typedef struct ls_validate_row {
    const ls_row *row;             /* borrowed from the rows given to ls_validate() */
    int source, cluster;           /* indices into ls_validation */
    bool modelled, judged, fitted; /* it was predicted; its error counts; the cluster's factor was fitted to it */
    ls_knobs layout;               /* with the knobs chosen that the row leaves open */
    /* Seconds or bytes, predicted with the cluster's factor; 0: not known. Errors are relative; 0: not judged. */
    double predicted, measured, error, baseline_error;
} ls_validate_row;

typedef struct ls_validate_score {
    size_t rows;
    double mae, bias; /* means of |error| and of error, as shares */
} ls_validate_score;

/* At least 3 measured layouts of one task (model, batch, chips and program): how much slower is the measured time of
 * the one that is predicted to be fastest than the best measured time. Fitted rows count too. */
typedef struct ls_validate_regret {
    int source;
    size_t layouts;                       /* different ones that were measured */
    const ls_validate_row *chosen, *best; /* predicted to be fastest; measured as fastest */
    double regret;                        /* as a share: 0 if the planner would choose the best */
} ls_validate_regret;

typedef struct ls_validate_cluster {
    int source;
    const char *chip;
    size_t rows, fitted;        /* time rows that were predicted; the first of them that were used, 0: not fitted */
    double factor;              /* on time; 1 if it was not fitted */
    double baseline_efficiency; /* mean share of the 16-bit peak; 0: no row to take it from */
} ls_validate_cluster;

/* A source, a group of several sources, a part of a source, or all rows. */
typedef struct ls_validate_line {
    char name[LS_VALIDATE_NAME_MAX];
    bool is_part;                             /* a part of the source in the line before */
    ls_validate_score time, memory, baseline; /* errors of the planner; of the baseline on time */
    size_t tasks;                             /* tasks that have a regret */
    double regret, worst_regret;              /* mean and largest of them */
} ls_validate_line;

typedef struct ls_validation {
    bool calibrated;                                 /* a factor was fitted for each cluster */
    size_t rows, modelled, clusters, lines, regrets; /* lengths of the arrays; modelled: rows that were predicted */
    ls_validate_row *row;
    ls_validate_cluster *cluster;
    ls_validate_line *line; /* the last one is of all rows */
    ls_validate_regret *regret;
    int sources;
    char (*source)[LS_VALIDATE_NAME_MAX]; /* names, cut off at the first ";" or "(" */
} ls_validation;

/* Predicts all rows, which must outlive *out; the caller frees it with ls_validation_free(). Fails only with
 * LS_ERR_RESOURCE. */
ls_status ls_validate(const ls_rows *rows, bool calibrate, ls_validation *out);
void ls_validation_free(ls_validation *v);

#endif
