/* page.h: makes the page of one or several runs (text, charts, tables; report/page.h) for `lockstep report` and the
 * live page. Functions without a status add to the page, whose ls_page_end() then reports a lack of memory. */
#ifndef LS_REPORT_RUN_PAGE_H
#define LS_REPORT_RUN_PAGE_H

#include "report/page.h"
#include "report/run/view.h"

enum { LS_RUN_PAGE_RUNS_MAX = LS_SVG_SERIES };

/* What a worker of an active run is doing, read from memory that the workers share (comm/world/status_page.h). */
typedef struct ls_worker_now {
    const char *look;    /* style of its box (svg.h) */
    char doing[64];      /* "computing gradients" */
    double memory_bytes; /* that it has in use; NaN: not known */
} ls_worker_now;

typedef struct ls_run_now {
    int workers;           /* 0: not known */
    ls_worker_now *worker; /* [workers] by rank, borrowed */
} ls_run_now;

typedef struct ls_run_page_options {
    ls_view_x x;
    int smooth; /* index of ls_view_halves */
    bool x_log, y_log;
    bool is_live;          /* keeps text that never changes out of the sections that do, to send less */
    const ls_run_now *now; /* of the first run; NULL: not known */
} ls_run_page_options;

/* Adds all sections for 1 to LS_RUN_PAGE_RUNS_MAX runs: one run in full, several beside each other. The caller ends and
 * writes the page. */
ls_status ls_run_page_fill(ls_page *page, const ls_view *runs, int count, const ls_run_page_options *options);

/* Reads the runs in `folders` and writes their page as one HTML file that loads no other file. Replaces `path`
 * atomically. */
ls_status ls_report_write(const char *const *folders, int count, const char *path);

/* ---- parts (charts.c, words.c) ----------------------------------------------------------------------------------- */

/* Adds a chart of one column with a curve for each run, and the raw values behind a smoothed one if there is only one
 * run. Adds none if no run recorded the column. */
ls_status ls_run_chart(ls_page *page, const ls_view *runs, int count, const ls_run_page_options *options,
                       ls_view_column column);
/* Adds training and validation loss: in one chart, with marks for events, for one run; in two charts for several. */
ls_status ls_run_loss_charts(ls_page *page, const ls_view *runs, int count, const ls_run_page_options *options);
/* Adds a chart of how the workers used their time in the last recorded steps. Returns false, without a chart, if that
 * was not recorded or there is only one worker. */
bool ls_run_time_chart(ls_page *page, const ls_run_log *log);
/* Adds a drawing of the workers by replica and stage, with what each is doing unless `now` is NULL; none if the layout
 * was not recorded. */
void ls_run_layout_chart(ls_page *page, const ls_run_log *log, const ls_run_now *now);

/* Adds sentences: what was trained, how long, how well, and what went wrong. diagnosis NULL: there is none yet. */
void ls_run_words(ls_page *page, const ls_view *run, const ls_view_facts *facts, const ls_diagnosis *diagnosis);
/* Adds a list of the run's restarts and of its newest events (overflows, outliers, faults); nothing without any. */
void ls_run_events(ls_page *page, const ls_run_log *log);
/* Writes one event as a phrase, "step 12: …", cut to the room. */
void ls_run_event_text(const ls_run_log_event *event, char *text, size_t room);

#endif
