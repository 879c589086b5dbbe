/* shelf.h: the runs that the live page knows: those named, and those in the folders named.
 *
 * Of each run the end is read for the table, again when its metrics have changed; runs that are looked at have a view
 * (report/run/view.h). One thread. */
#ifndef LS_REPORT_LIVE_SHELF_H
#define LS_REPORT_LIVE_SHELF_H

#include <sys/types.h>

#include "report/live/request.h"

typedef struct ls_shelf_run {
    ls_path folder;
    char name[LS_RUN_NAME_MAX];
    uint64_t id;
    bool is_there;
    off_t bytes; /* of metrics.jsonl when its end was read */
    struct timespec changed;
    ls_view_facts facts;
    double loss, lr, norm;     /* of the last step */
    double memory, gpu_memory; /* as last told */
} ls_shelf_run;

typedef struct ls_shelf ls_shelf;

/* Borrows the paths. What is not there yet is shown when it is. */
ls_status ls_shelf_create(const char *const *paths, int count, ls_shelf **out);
void ls_shelf_destroy(ls_shelf *shelf);
/* Looks for new runs and for new lines. */
ls_status ls_shelf_refresh(ls_shelf *shelf);
int ls_shelf_count(const ls_shelf *shelf);
/* In the order of the query, those that pass its filter; returns how many. */
int ls_shelf_list(const ls_shelf *shelf, const ls_live_query *query, const ls_shelf_run **list, int most);
const ls_shelf_run *ls_shelf_at(const ls_shelf *shelf, int i);

/* A number that changes with everything that a page shows, found cheaply: file sizes and times of the runs, and what
 * the workers of the last page do. While it is equal, no page needs to be made. */
uint64_t ls_shelf_state(const ls_shelf *shelf);
/* The sections of the page for the query, as ls_page. Runs that the query does not name: the one that changed last. */
ls_status ls_shelf_page(ls_shelf *shelf, const ls_live_query *query, ls_page *page);
/* The table of the runs with links to each, and what can be chosen, as HTML. */
void ls_shelf_put_table(const ls_shelf *shelf, const ls_live_query *query, FILE *out);
void ls_shelf_put_choices(const ls_live_query *query, FILE *out);
/* All runs as OpenMetrics, or in the text format of Prometheus, version 0.0.4. */
void ls_shelf_put_metrics(const ls_shelf *shelf, bool is_prometheus, FILE *out);

#endif
