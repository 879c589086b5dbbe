/* page.h: the page of runs with text, charts and tables, shared by the report and the live page. */
#ifndef LS_REPORT_RUN_PAGE_H
#define LS_REPORT_RUN_PAGE_H

#include "report/page.h"
#include "report/run/view.h"

enum { LS_RUN_PAGE_RUNS_MAX = LS_SVG_SERIES };

/* What the workers of a run are doing, as its status page tells (observe/status_page.h). */
typedef struct ls_worker_now {
    const char *look;    /* of its box (svg.h) */
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
    bool is_live;          /* then what does not change is left out of sections that do */
    const ls_run_now *now; /* of the first run; NULL: not known */
} ls_run_page_options;

/* Adds all sections. At most LS_RUN_PAGE_RUNS_MAX runs, at least one. */
ls_status ls_run_page_fill(ls_page *page, const ls_view *runs, int count, const ls_run_page_options *options);

/* The report of the runs as one HTML file. */
ls_status ls_report_write(const char *const *folders, int count, const char *path);

/* ---- parts (charts.c, words.c) ----------------------------------------------------------------------------------- */

/* A chart of one column of all runs; none where no run recorded it. */
ls_status ls_run_chart(ls_page *page, const ls_view *runs, int count, const ls_run_page_options *options,
                       ls_view_column column);
/* Loss of training and of validation; of several runs in two charts. */
ls_status ls_run_loss_charts(ls_page *page, const ls_view *runs, int count, const ls_run_page_options *options);
/* What the workers' time went to, over the last steps that tell it. False: nothing was recorded. */
bool ls_run_time_chart(ls_page *page, const ls_run_log *log);
void ls_run_layout_chart(ls_page *page, const ls_run_log *log, const ls_run_now *now);

/* Sentences: what was trained, how long, how well, and what went wrong. `diagnosis`: NULL: not made yet. */
void ls_run_words(ls_page *page, const ls_view *run, const ls_view_facts *facts, const ls_diagnosis *diagnosis);
void ls_run_events(ls_page *page, const ls_run_log *log);
void ls_run_event_text(const ls_run_log_event *event, char *text, size_t room);

#endif
