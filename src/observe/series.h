/* series.h: the recorded steps of a run in order, each once, however often the run was restarted.
 *
 *     metrics-000000012000.jsonl   metrics-000000024000.jsonl   metrics.jsonl
 *     └──────── set aside, complete ────────────────────────┘   └─ appended to, cut back on resume ─
 *
 * Every reader of a run uses this: doctor, bisect, metrics, the live page, the report, TensorBoard. The result is an
 * ls_run_log (run_read.h).
 *
 * 1. Steps ascend. Of a step that was repeated, after a resume or a recovery, the last record counts.
 * 2. The steps of a fork follow those of its parent (LS_SERIES_PARENTS), if the parent's folder exists and still holds
 *    the run that was forked.
 * 3. ls_series_refresh() reads what was appended since. It detects a run that went back to a checkpoint, whatever the
 *    size of the file, and reads only the truncated file again.
 * 4. An incomplete last line is left for the next refresh while a process writes to the folder.
 *
 * Everything here is untrusted, as run_read.h says. Nothing is written. One thread at a time. Lines in
 * the form that metrics.h writes are parsed without a JSON tree (line_scan.h): a million take well below a second. */
#ifndef LS_OBSERVE_SERIES_H
#define LS_OBSERVE_SERIES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "observe/run_read.h"

typedef struct ls_series ls_series;

typedef enum ls_series_flags {
    LS_SERIES_OWN = 0,     /* only steps that the run recorded itself */
    LS_SERIES_PARENTS = 1, /* with the steps of the run that this one was forked from */
} ls_series_flags;

/* Reads the run directory up to its end. Fails as ls_run_log_open() does. After a failure there is nothing to close. */
ls_status ls_series_open(const char *run, ls_series_flags flags, ls_series **out);
/* Frees the series with its log; NULL does nothing. */
void ls_series_close(ls_series *series);

/* Returns the records read so far, which belong to the series: valid until the next refresh. Without the trace, which
 * only ls_run_log_open() reads. */
const ls_run_log *ls_series_log(const ls_series *series);

/* Closes the series and moves its log to *out, which the caller frees with ls_run_log_free(). */
void ls_series_take_log(ls_series *series, ls_run_log *out);

typedef struct ls_series_change {
    bool any;             /* records were added or dropped */
    bool went_back;       /* records of steps from first_step on that were read before are void */
    long long first_step; /* no record of an earlier step is new or void; LLONG_MAX: nothing changed */
} ls_series_change;

/* Reads what was appended since the last call. After a failure the records read so far stay, *change describes them,
 * and the next call continues. */
ls_status ls_series_refresh(ls_series *series, ls_series_change *change);

/* Reads only the end of a run, for lists of many runs: configuration, layout and the last lines of the newest file,
 * at most 64 KiB. Fails with LS_ERR_INPUT if the folder is no run. Free *out with ls_run_log_free(); after a failure
 * it is empty. */
ls_status ls_series_read_end(const char *run, ls_run_log *out);

/* ---- columns ----------------------------------------------------------------------------------------------------- */

/* The numbers of steps and evaluations by name, for tables and curves. */
typedef struct ls_series_column {
    const char *name;                               /* as in metrics.jsonl */
    const char *label;                              /* "learning rate" */
    const char *unit;                               /* "ms", "tokens/s", "" */
    bool of_validation;                             /* indexed by evaluation, not by step */
    bool is_count;                                  /* for tables, but no curve: times of day, numbers of groups */
    double (*get)(const ls_run_log *run, size_t i); /* value of step, or of evaluation, i; NaN: see is_told */
    /* Tells a NaN that was recorded from a value that was not; NULL: a NaN always means "not recorded". */
    bool (*is_told)(const ls_run_log *run, size_t i);
} ls_series_column;

extern const ls_series_column ls_series_columns[];
extern const size_t ls_series_column_count;
/* Returns the column with this name in metrics.jsonl, or NULL. */
const ls_series_column *ls_series_column_find(const char *name);
/* Returns whether the run has at least one value of the column that is not NaN. */
bool ls_series_has_column(const ls_run_log *run, const ls_series_column *column);

#endif
