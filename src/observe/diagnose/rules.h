/* rules.h: the rules that ls_diagnose() applies, and what they share; private to this folder. Each file of the folder
 * has rules about one subject.
 *
 * A rule is a function that reads an ls_case and adds findings to its `out`. Functions that return a status fail only
 * for lack of memory. The loss series here (ls_series) is not the ls_series of observe/series.h: no file uses both. */
#ifndef LS_OBSERVE_DIAGNOSE_RULES_H
#define LS_OBSERVE_DIAGNOSE_RULES_H

#include "base/stats.h"
#include "observe/diagnose/diagnose.h"

/* ---- the course of the loss (series.c) --------------------------------------------------------------------------- */

/* Steps in a row whose loss is far above that of the steps before: a jump that may be over soon. */
typedef struct ls_episode {
    size_t first, last; /* indices in the series */
    size_t high;        /* number of its steps whose score is at least 35 % of the peak's */
    double level, peak; /* median loss before it, highest loss in it */
    double score;       /* of the peak */
    bool recovered;     /* two steps in a row (or the last step of the run) were back within 3 scatters of the level */
    bool sharp;         /* it recovered, and at most 2 steps at either end are below 35 % of the peak: like bad data */
} ls_episode;

enum { LS_EPISODES_MAX = 4096 };

/* A rise of the smoothed loss that lasts; steps in sharp episodes are left out. */
typedef struct ls_rise {
    bool found; /* false: all else is 0 */
    size_t low, first,
        top;      /* indices in the series: the lowest point before it, where it stands out, its highest point */
    size_t steps; /* for which it lasts, those of later rises included */
    double low_loss, top_loss; /* smoothed */
} ls_rise;

typedef struct ls_series_step {
    long long step;
    double loss, norm, lr;
    float score;  /* distance of the loss from its level, the median of the steps before (carried on where the loss
                     falls), in robust standard deviations, within ±1e6; 0 for the first 24 steps */
    bool in_data; /* inside a sharp episode */
} ls_series_step;

/* The steps with a finite loss. */
typedef struct ls_series {
    size_t count;
    ls_series_step *at;
    ls_episode *episode;
    size_t episode_count;
    size_t jumps_down;   /* drops of the score below −5 (one step or more) that end at once, with a step above −3 */
    double peak_lr;      /* highest learning rate of any step; 0: not recorded */
    long long first_bad; /* first step whose loss or norm is not finite, and that was not skipped; LS_RUN_NONE */
} ls_series;

/* Collects the steps with a finite loss, scores them and finds episodes. Free it with ls_series_free(). */
ls_status ls_series_make(const ls_run_log *run, ls_series *out);
/* Frees what the series points to, and empties it. */
void ls_series_free(ls_series *series);
/* Finds the index of `step` or, if it was not recorded, of the last step before it. Returns false if there is none. */
bool ls_series_find(const ls_series *series, long long step, size_t *at);
/* Returns the median loss of up to `n` (at most 64) steps that end with index `at`, `at` included; NaN for none. */
double ls_series_before(const ls_series *series, size_t at, size_t n);
/* Estimates the standard deviation of the loss of single steps from up to 64 steps before index `end`, without bad
 * data; 0 if there are none. The series must not be empty. */
double ls_series_noise(const ls_series *series, size_t end);
/* Finds the first rise of the smoothed loss that lasts at least `least` steps; out->found is false if there is none. */
ls_status ls_series_rise(const ls_series *series, size_t least, ls_rise *out);

/* ---- numerics by step (numerics.c) ------------------------------------------------------------------------------- */

/* The numerics lines of one step, and figures over its blocks. The inner blocks are all but those named "embedding" and
 * "head", which flush many tiny gradients in the best of runs; if there are no others, all blocks. */
typedef struct ls_point {
    long long step;
    size_t first, count; /* in run->numerics */
    /* Median over the inner blocks of the share of values that flush to 0: of gradients of parameters or of the stream,
     * whichever is larger. A block whose gradient is all zero in 16 bits has a share of 1. NaN: not recorded. */
    double flushed;
    double flushed_third; /* the same: the share that a third of the inner blocks reach */
    double high;          /* the largest share of values near overflow, of any block; -1: not recorded */
    /* Medians of the share of lost updates over all blocks, and of update norm / weight norm over the inner blocks;
     * NaN: not recorded. */
    double lost, ratio;
    /* Blocks with the largest shares, worst_flushed among the inner ones; LS_RUN_NONE: not recorded. */
    int worst_flushed, worst_high, worst_lost;
    double worst_flushed_share, worst_lost_share; /* -1: not recorded */
    double lr; /* learning rate of the step or, without it, of the last step before in the series; NaN: not known */
} ls_point;

typedef struct ls_points {
    size_t count;
    ls_point *point;
} ls_points;

/* Sums up the numerics lines by step; no points if the run recorded none. Free them with ls_points_free(). */
ls_status ls_points_make(const ls_run_log *run, const ls_series *series, ls_points *out);
/* Frees the points, and empties the list. */
void ls_points_free(ls_points *points);

/* ---- findings ---------------------------------------------------------------------------------------------------- */

/* What a rule reads, a run and figures computed from it, and where it adds findings. */
typedef struct ls_case {
    const ls_run_log *run;
    ls_series series;
    ls_points points;
    ls_rise rise;
    ls_diagnosis *out;
} ls_case;

/* Adds a cause to c->out and returns it; the rule sets title, evidence and action. `size` is the figure that decided
 * (ls_finding). Beyond LS_FINDINGS_MAX it overwrites the last one. The pointer is valid until ls_diagnose() sorts the
 * findings. */
ls_finding *ls_finding_add(ls_case *c, ls_cause cause, long long step, long long last_step, double size);
/* Adds a note, an observation that is normal or had no consequence, to c->out and returns it, as ls_finding_add()
 * does for a cause. */
ls_finding *ls_note_add(ls_case *c, ls_cause cause, long long step, long long last_step, double size);
/* Copies the names of block and tensor from the event to the finding. */
void ls_finding_name(ls_finding *finding, const ls_run_log_event *event);
/* Prints into `out`, always with a NUL; a text that does not fit is cut off between two UTF-8 characters. */
void ls_diagnose_print(char *out, size_t capacity, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Returns the place of LS_DIAGNOSE_LINE_MAX bytes for the next line of evidence; never NULL. Lines beyond
 * LS_EVIDENCE_MAX share one place that is not shown. */
char *ls_finding_next(ls_finding *finding);
#define LS_TITLE(finding, ...) ls_diagnose_print((finding)->title, sizeof(finding)->title, __VA_ARGS__)
#define LS_ACTION(finding, ...) ls_diagnose_print((finding)->action, sizeof(finding)->action, __VA_ARGS__)
#define LS_EVIDENCE(finding, ...) ls_diagnose_print(ls_finding_next(finding), LS_DIAGNOSE_LINE_MAX, __VA_ARGS__)

/* Returns whether the run computed in fp16: by its options, or else because it recorded overflows of a loss scale. */
bool ls_case_is_fp16(const ls_case *c);
enum { LS_BASE_TEXT_MAX = 128 };
/* Prints the advice from where to train again if the states from `step` on are useless: "from step N (--fork …)" with
 * the newest checkpoint before `step`, or "from the start (…)". */
void ls_case_name_base(const ls_case *c, long long step, char out[LS_BASE_TEXT_MAX]);
/* Returns whether there are more workers than GPUs: then waits for a GPU say nothing about a worker. */
bool ls_case_shares_gpus(const ls_case *c);
/* Returns the first finding of this cause that is not a note, or NULL. */
const ls_finding *ls_case_find(const ls_case *c, ls_cause cause);

/* ---- the rules, in the order in which ls_diagnose() applies them: later rules read findings of earlier ones -------
 */

/* Adds a cause if replica checks, hashes or audits found a worker that computes, or keeps, numbers wrongly (faults.c).
 */
void ls_diagnose_faults(ls_case *c);
/* Adds a finding if gradient groups or workers stand out: bad data, a suspicious worker, or a note (outliers.c). */
ls_status ls_diagnose_outliers(ls_case *c);
/* Adds findings about steps that overflow skipped, and about values that are not finite (overflow.c). */
void ls_diagnose_overflow(ls_case *c);
/* Adds a cause if many gradients flush to zero in 16 bits (numerics.c). */
void ls_diagnose_underflow(ls_case *c);
/* Adds a cause if rounding loses many weight updates (numerics.c). */
void ls_diagnose_lost(ls_case *c);
/* Fills c->out->usage, and adds a cause if one worker held up the others (slow.c); none if workers share GPUs. */
ls_status ls_diagnose_usage(ls_case *c);
/* Fills c->out->gpu; adds no finding (slow.c). */
void ls_diagnose_gpu(ls_case *c);
/* Fills c->out->use, what the time went to, and adds a cause for the largest use that is too much (utilisation.c). Adds
 * a note if other processes use the cores, and sets the share of a cause SLOW_WORKER to that of imbalance. */
void ls_diagnose_time(ls_case *c);
/* Returns whether jumps of the loss alone are enough to blame bad data. Adds no finding. */
bool ls_loss_tells_data(const ls_case *c);
/* Adds a cause if jumps of the loss show bad data, and no earlier rule has blamed data (loss.c). */
void ls_diagnose_data(ls_case *c);
/* Adds a cause if the learning rate is too high, by the loss and the lengths of updates (loss.c). */
ls_status ls_diagnose_lr(ls_case *c);
/* Adds a cause if the learning rate is 0, or numbers overflowed with a rate that AdamW cannot work with, or the loss
 * ends above where it began or never came down from a jump at the start (ruined.c). The latter three not if a cause LR
 * was found before, the last two also not after a cause FAULT. */
void ls_diagnose_ruined(ls_case *c);
/* Returns whether the run used AdamW; false also if the optimizer was not recorded. */
bool ls_case_is_adamw(const ls_case *c);
#define LS_USUAL_LR .001 /* of AdamW, for small models */
/* Adds a cause if loss or gradient became not finite, and earlier rules found no cause but of time (loss.c): OVERFLOW
 * in fp16, else LR if the norm had grown more than tenfold, else UNKNOWN. */
void ls_diagnose_unknown(ls_case *c);
/* Adds a finding if the run has not reached its last step, unless there is a cause that is not of time: a note that it
 * is still going or was asked to end, else a cause: how it ended, and what of it is lost (ending.c). */
void ls_diagnose_ending(ls_case *c);

#endif
