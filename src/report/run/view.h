/* view.h: a run for display: its series, and its curves reduced to few points, however many steps there are.
 *
 *     metrics.jsonl ── ls_series ── view ── charts and words ── ls_page ─┬─ lockstep report: a file
 *                                                                        └─ lockstep watch, train --live: sections
 *
 * A curve has at most 2 · LS_VIEW_BUCKETS points: each bucket has the least and the greatest value of equally many
 * steps. When the buckets are used up, two become one. So a step costs the same, whether it is the first or the
 * millionth, and a value that stands out is never lost.
 *
 * One thread at a time. What is read is untrusted (observe/run_read.h). */
#ifndef LS_REPORT_RUN_VIEW_H
#define LS_REPORT_RUN_VIEW_H

#include "base/files.h"
#include "observe/diagnose/diagnose.h"
#include "observe/series.h"
#include "report/curves.h"

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
extern const char *const ls_view_x_names[LS_VIEW_X_KINDS];

enum { LS_VIEW_BUCKETS = 1024, LS_VIEW_SMOOTHS = 4 };
/* Steps after which a value counts half; 0: nothing is smoothed. */
extern const int ls_view_halves[LS_VIEW_SMOOTHS];

typedef struct ls_view_points ls_view_points;

/* Cached diagnosis, because the doctor reads every step. For an active run it is made again when the run has grown by a
 * tenth or has a new event, so its total cost is about ten times that of one diagnosis at the end. */
typedef struct ls_view_doctor {
    ls_diagnosis *said;           /* NULL: not asked yet */
    size_t steps, events, starts; /* of the log by then */
    bool was_open;
    int asked_for; /* how often the page wanted it */
} ls_view_doctor;

typedef struct ls_view {
    ls_path folder;
    char name[LS_RUN_NAME_MAX];
    ls_series *series;
    ls_view_points *points;
    ls_view_doctor *doctor;
    double tokens_per_step; /* tokens, or images; 0: not known */
    bool is_images;
} ls_view;

/* LS_ERR_INPUT where the folder is no run. After a failure there is nothing to close. */
ls_status ls_view_open(const char *folder, ls_view *out);
void ls_view_close(ls_view *view);
/* Reads on; *changed is set where there is something new, and left alone otherwise. */
ls_status ls_view_refresh(ls_view *view, bool *changed);
static inline const ls_run_log *ls_view_log(const ls_view *view) { return ls_series_log(view->series); }

/* The points of a curve, which the caller frees; none where nothing was recorded. `smooth` is an index of
 * ls_view_halves. */
ls_status ls_view_curve(const ls_view *view, ls_view_column column, int smooth, ls_view_x x, ls_curve_point **points,
                        size_t *count);
/* Returns the doctor's diagnosis in *out, valid until the next call or until the view is closed. NULL: not made yet.
 * With `soon`, a run of many steps is diagnosed at the second call, so that its page appears first, and a run of very
 * many steps never, because the server would not answer meanwhile. */
ls_status ls_view_diagnose(const ls_view *view, bool soon, const ls_diagnosis **out);
/* Where the step stands on that axis. */
double ls_view_place(const ls_view *view, long long step, ls_view_x x);

/* ---- figures ----------------------------------------------------------------------------------------------------- */

/* Of the whole run. What is not known is NaN. */
typedef struct ls_view_facts {
    long long step, steps;    /* done, and planned (0: not known) */
    double loss, best_loss;   /* of validation; the latter is the least */
    long long best_step;      /* LS_RUN_NONE: there was no evaluation */
    double train_loss;        /* mean of the last `train_window` steps; NaN where one of them has none */
    int train_window;         /* a tenth of the steps, at least 1 and at most 50: the first steps, of a model that has
                                 learned nothing yet, are in no mean */
    double last_loss;         /* of training, of the last step */
    double speed, mfu;        /* median of the last 100 steps */
    double step_s;            /* likewise */
    double trained_s, wall_s; /* in steps; from the first start to the last record */
    double goodput;           /* trained_s / wall_s */
    double tokens;            /* seen */
    double eta_s;             /* of a run that is at work */
    int restarts, sessions;
    const char *state; /* "training", "finished", "stopped", "ended early" */
    char model[2 * LS_RUN_NAME_MAX + 16], layout[LS_RUN_NAME_MAX];
} ls_view_facts;

void ls_view_facts_find(const ls_run_log *log, ls_view_facts *out);

#endif
