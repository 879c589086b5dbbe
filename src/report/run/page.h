/* page.h: makes the page of one or several runs (text, charts, tables) for `lockstep report` and the live page. */
#ifndef LS_REPORT_RUN_PAGE_H
#define LS_REPORT_RUN_PAGE_H

#include "report/page.h"
#include "report/run/view.h"

enum { LS_RUN_PAGE_RUNS_MAX = LS_SVG_SERIES };

/* What the workers of a run are doing, read from its status page (comm/status_page.h). */
typedef struct ls_worker_now {
    const char *look;    /* style of its box (svg.h) */
    char doing[64];      /* "computing gradients" */
    double memory_bytes; /* that it has in use; NaN: not known */
} ls_worker_now;

typedef struct ls_run_now {
    int workers; /* 0: not known */
    ls_worker_now *worker;
} ls_run_now;

typedef struct ls_run_page_options {
    ls_view_x x;
    int smooth; /* index of ls_view_halves */
    bool x_log, y_log;
    bool is_live;          /* keeps text that never changes out of the sections that do, to send less */
    const ls_run_now *now; /* of the first run; NULL: not known */
} ls_run_page_options;

/* Adds all sections for 1 to LS_RUN_PAGE_RUNS_MAX runs. */
ls_status ls_run_page_fill(ls_page *page, const ls_view *runs, int count, const ls_run_page_options *options);

/* Writes the report of the runs in `folders` as one HTML file. */
ls_status ls_report_write(const char *const *folders, int count, const char *path);

/* ---- parts (charts.c, words.c) ----------------------------------------------------------------------------------- */

/* Adds a chart of one column of all runs; none if no run recorded it. */
ls_status ls_run_chart(ls_page *page, const ls_view *runs, int count, const ls_run_page_options *options,
                       ls_view_column column);
/* Adds training and validation loss: in one chart for one run, in two for several. */
ls_status ls_run_loss_charts(ls_page *page, const ls_view *runs, int count, const ls_run_page_options *options);
/* Adds a chart of how the workers used their time in the last recorded steps. Returns false if none recorded it. */
bool ls_run_time_chart(ls_page *page, const ls_run_log *log);
/* Adds a drawing of the workers by stage and replica, with what each is doing unless `now` is NULL. */
void ls_run_layout_chart(ls_page *page, const ls_run_log *log, const ls_run_now *now);

/* Adds sentences: what was trained, how long, how well, and what went wrong. diagnosis NULL: not made yet. */
void ls_run_words(ls_page *page, const ls_view *run, const ls_view_facts *facts, const ls_diagnosis *diagnosis);
/* Adds a table of the events of the run (overflows, outliers, faults). */
void ls_run_events(ls_page *page, const ls_run_log *log);
/* Prints one event as a phrase. */
void ls_run_event_text(const ls_run_log_event *event, char *text, size_t room);

#endif
