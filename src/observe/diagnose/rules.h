/* rules.h: the rules of diagnose.h, and what they share. */
#ifndef LS_OBSERVE_DIAGNOSE_RULES_H
#define LS_OBSERVE_DIAGNOSE_RULES_H

#include "base/stats.h"
#include "observe/diagnose/diagnose.h"

/* ---- the course of the loss (series.c) --------------------------------------------------------------------------- */

/* Steps in a row whose loss lies far above that of the steps before. */
typedef struct ls_episode {
    size_t first, last; /* in the series */
    size_t high;        /* steps of it that are not far from the peak */
    double level, peak; /* median loss before it, highest loss in it */
    double score;       /* of the peak */
    bool recovered;     /* the loss came back to its level */
    bool sharp;         /* it was up at once, and down at once: what bad data looks like */
} ls_episode;

enum { LS_EPISODES_MAX = 4096 };

/* A rise of the smoothed loss that lasts. */
typedef struct ls_rise {
    bool found;
    size_t low, first, top; /* the lowest point before it, where it stands out, its highest point */
    size_t steps;           /* for which it lasts, in all */
    double low_loss, top_loss;
} ls_rise;

typedef struct ls_series_step {
    long long step;
    double loss, norm, lr;
    float score;  /* distance of the loss from the median of the steps before, in robust standard deviations */
    bool in_data; /* inside a sharp episode */
} ls_series_step;

/* The steps with a finite loss. */
typedef struct ls_series {
    size_t count;
    ls_series_step *at;
    ls_episode *episode;
    size_t episode_count;
    size_t jumps_down; /* single steps as far below their level as an episode is above it, and back at once */
    double peak_lr;
    long long first_bad; /* first step whose loss or norm is not finite, and that was not skipped; LS_RUN_NONE */
} ls_series;

ls_status ls_series_make(const ls_run_log *run, ls_series *out);
void ls_series_free(ls_series *series);
/* The index of the last step up to `step`; false: there is none. */
bool ls_series_find(const ls_series *series, long long step, size_t *at);
/* Median loss of up to `n` steps that end with index `at`. NaN for none. */
double ls_series_before(const ls_series *series, size_t at, size_t n);
/* Standard deviation of single steps up to `end`. */
double ls_series_noise(const ls_series *series, size_t end);
/* `least`: for how many steps the rise must last. */
ls_status ls_series_rise(const ls_series *series, size_t least, ls_rise *out);

/* ---- numerics by step (numerics.c) ------------------------------------------------------------------------------- */

/* The lines of one step, and what they come to. The inner blocks are those that are neither the first nor the last of
 * the model, where there are such: embedding and head flush many tiny gradients in the best of runs. */
typedef struct ls_point {
    long long step;
    size_t first, count;  /* in run->numerics */
    double flushed;       /* median over the inner blocks of the larger share of the two */
    double flushed_third; /* the share that a third of the inner blocks reach */
    double high;          /* the largest share at the upper end */
    double lost, ratio;   /* median over blocks: share of lost updates, update norm / weight norm */
    int worst_flushed, worst_high, worst_lost; /* blocks */
    double worst_flushed_share, worst_lost_share;
    double lr; /* NaN: not known */
} ls_point;

typedef struct ls_points {
    size_t count;
    ls_point *point;
} ls_points;

ls_status ls_points_make(const ls_run_log *run, const ls_series *series, ls_points *out);
void ls_points_free(ls_points *points);

/* ---- findings ---------------------------------------------------------------------------------------------------- */

typedef struct ls_case {
    const ls_run_log *run;
    ls_series series;
    ls_points points;
    ls_rise rise;
    ls_diagnosis *out;
} ls_case;

/* A finding to fill in; one too many overwrites the last. */
ls_finding *ls_finding_add(ls_case *c, ls_cause cause, long long step, long long last_step, double size);
ls_finding *ls_note_add(ls_case *c, ls_cause cause, long long step, long long last_step, double size);
/* Block and tensor of an event. */
void ls_finding_name(ls_finding *finding, const ls_run_log_event *event);
/* Prints into `out`; what does not fit is cut off between two characters. */
void ls_diagnose_print(char *out, size_t capacity, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Where the next piece of evidence goes. */
char *ls_finding_next(ls_finding *finding);
#define LS_TITLE(finding, ...) ls_diagnose_print((finding)->title, sizeof(finding)->title, __VA_ARGS__)
#define LS_ACTION(finding, ...) ls_diagnose_print((finding)->action, sizeof(finding)->action, __VA_ARGS__)
#define LS_EVIDENCE(finding, ...) ls_diagnose_print(ls_finding_next(finding), LS_DIAGNOSE_LINE_MAX, __VA_ARGS__)

bool ls_case_is_fp16(const ls_case *c);
enum { LS_BASE_TEXT_MAX = 128 };
/* Names what to begin again from if the state after `step` - 1 steps, and all later ones, are of no use: the newest
 * checkpoint before it, or the start. */
void ls_case_name_base(const ls_case *c, long long step, char out[LS_BASE_TEXT_MAX]);
/* More workers than GPUs: the order and length of their turns are random. */
bool ls_case_shares_gpus(const ls_case *c);
/* The first cause of this kind, or NULL. */
const ls_finding *ls_case_find(const ls_case *c, ls_cause cause);

/* The rules; the last three look at findings of those before them. A status tells of memory alone. */
void ls_diagnose_faults(ls_case *c);        /* faults.c */
ls_status ls_diagnose_outliers(ls_case *c); /* outliers.c: outlier groups, and bad data that they show */
void ls_diagnose_overflow(ls_case *c);      /* overflow.c */
void ls_diagnose_underflow(ls_case *c);     /* numerics.c */
void ls_diagnose_lost(ls_case *c);          /* numerics.c */
ls_status ls_diagnose_usage(ls_case *c);    /* slow.c */
void ls_diagnose_gpu(ls_case *c);           /* slow.c */
void ls_diagnose_time(ls_case *c);          /* utilisation.c: what the time went to; after slow.c */
/* Whether the loss alone, by its jumps, tells of bad data. */
bool ls_loss_tells_data(const ls_case *c);
void ls_diagnose_data(ls_case *c);    /* loss.c: bad data that the loss shows */
ls_status ls_diagnose_lr(ls_case *c); /* loss.c */
void ls_diagnose_ruined(ls_case *c);  /* ruined.c: a loss that ends above where it began, or where it was */
bool ls_case_is_adamw(const ls_case *c);
#define LS_USUAL_LR .001              /* of AdamW, for small models */
void ls_diagnose_unknown(ls_case *c); /* loss.c: the run broke, and nothing above says why */
void ls_diagnose_ending(ls_case *c);  /* ending.c: it ended before its last step */

#endif
