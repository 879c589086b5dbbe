/* view.h: a run as reports and the live page display it: its records, and its curves reduced to few points, however
 * many steps there are.
 *
 *     metrics.jsonl ── ls_series ── view ── charts and words ── ls_page ─┬─ lockstep report: a file
 *                                                                        └─ lockstep watch, train --live: sections
 *
 * A curve has at most 2 · LS_VIEW_BUCKETS points: each bucket has the least and the greatest value of equally many
 * steps. When the buckets are used up, neighbours are merged in pairs. So every step costs the same, and no spike is
 * lost.
 *
 * One thread at a time. Input is untrusted (observe/run_read.h). */
#ifndef LS_REPORT_RUN_VIEW_H
#define LS_REPORT_RUN_VIEW_H

#include "base/files.h"
#include "observe/diagnose/diagnose.h"
#include "observe/series.h"
#include "report/curves.h"

/* What a curve shows. */
typedef enum ls_view_column {
    LS_VIEW_LOSS,
    LS_VIEW_VALIDATION,
    LS_VIEW_ACCURACY,
    LS_VIEW_LR,
    LS_VIEW_NORM,
    LS_VIEW_SPEED,
    LS_VIEW_MFU,
    LS_VIEW_STEP_TIME,
    LS_VIEW_GOODPUT,
    LS_VIEW_MEMORY,
    LS_VIEW_GPU_MEMORY,
    LS_VIEW_SCALE,
    LS_VIEW_COLUMNS
} ls_view_column;

typedef enum ls_view_x { LS_VIEW_BY_STEP, LS_VIEW_BY_TOKENS, LS_VIEW_BY_TIME, LS_VIEW_X_KINDS } ls_view_x;
extern const char *const ls_view_x_names[LS_VIEW_X_KINDS]; /* "step", "tokens", "time" */

enum { LS_VIEW_BUCKETS = 1024, LS_VIEW_SMOOTHS = 4 };
/* Steps after which a value counts half; 0: nothing is smoothed. */
extern const int ls_view_halves[LS_VIEW_SMOOTHS];

typedef struct ls_view_points ls_view_points;

/* Cached diagnosis, because the doctor reads every step. For an active run it is made again when the run has grown by a
 * tenth or has a new event, so its total cost is about ten times that of one diagnosis at the end. */
typedef struct ls_view_doctor {
    ls_diagnosis *said;           /* owned; NULL: not made yet */
    size_t steps, events, starts; /* of the log when it was made */
    bool was_open;                /* the run was active then */
    int asked_for;                /* requests of a live page, of a run of many steps */
} ls_view_doctor;

typedef struct ls_view {
    ls_path folder;
    char name[LS_RUN_NAME_MAX]; /* of the folder, without control characters */
    ls_series *series;          /* the run's records, which it owns */
    ls_view_points *points;
    ls_view_doctor *doctor;
    double tokens_per_step; /* tokens, or images; 0: not known */
    bool is_images;
} ls_view;

/* Opens a run with the steps of the runs it was forked from. LS_ERR_INPUT if the folder is no run; after any failure
 * nothing is open. */
ls_status ls_view_open(const char *folder, ls_view *out);
/* Frees everything that the view owns and clears it. */
void ls_view_close(ls_view *view);
/* Reads what was recorded since. Sets *changed to true if there is anything new, else leaves it unchanged. After a
 * failure the view shows what it could read. */
ls_status ls_view_refresh(ls_view *view, bool *changed);
/* Returns all records of the run, owned by the view and valid until the next refresh. */
static inline const ls_run_log *ls_view_log(const ls_view *view) { return ls_series_log(view->series); }

/* Makes the points of a curve, which the caller frees; none, with *points NULL, if the column was not recorded.
 * `smooth`: index into ls_view_halves, ignored for columns that are not smoothed. */
ls_status ls_view_curve(const ls_view *view, ls_view_column column, int smooth, ls_view_x x, ls_curve_point **points,
                        size_t *count);
/* Sets *out to the doctor's diagnosis, cached and valid until the next call or until the view is closed. With `soon`,
 * for a live page, a run of over 20,000 steps is diagnosed at the second call, so that its page appears first, and one
 * of over 300,000 steps no longer, because the server would not answer meanwhile: *out is then NULL, or an older
 * diagnosis. */
ls_status ls_view_diagnose(const ls_view *view, bool soon, const ls_diagnosis **out);
/* Returns the position of a step on the axis x: the step, the tokens up to it, or (about) the seconds since the
 * start. */
double ls_view_place(const ls_view *view, long long step, ls_view_x x);

/* ---- figures ----------------------------------------------------------------------------------------------------- */

/* Figures of the whole run. Unknown numbers are NaN. */
typedef struct ls_view_facts {
    long long step, steps;  /* last one done, and planned (0: not known) */
    double loss, best_loss; /* of validation: the last one, and the least */
    long long best_step;    /* LS_RUN_NONE: there was no evaluation */
    double train_loss; /* mean of the last `train_window` steps, without skipped ones; NaN if one of them has none */
    int train_window;  /* a tenth of the steps, at least 1 and at most 50, so that the mean excludes early steps */
    double last_loss;  /* of training, of the last step */
    double speed, mfu; /* median of the last 100 steps; tokens or images per second, and a share of 1 */
    double step_s;     /* likewise */
    double trained_s, wall_s; /* seconds in steps; from the first start to the last step or evaluation */
    double goodput;           /* trained_s / wall_s; NaN also if that is above 1.001, because the records are wrong */
    double tokens;            /* seen */
    double eta_s;             /* seconds left, of a run that is training; else NaN */
    int restarts, sessions;   /* replacements of lost workers; starts of workers, those included */
    const char *state;        /* "training", "finished", "stopped", "ended early" */
    char model[2 * LS_RUN_NAME_MAX + 16], layout[LS_RUN_NAME_MAX];
} ls_view_facts;

/* Computes the figures from the records; `state` is a static text, nothing is to be freed. */
void ls_view_facts_find(const ls_run_log *log, ls_view_facts *out);

#endif
