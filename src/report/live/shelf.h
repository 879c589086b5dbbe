/* shelf.h: the list of runs of the live page (`lockstep watch PATH…`): runs, and folders that contain runs.
 *
 * For the table only the end of each run is read, again when its metrics have changed; runs that a page shows have a
 * view (report/run/view.h). One thread at a time. */
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
    double memory, gpu_memory; /* last recorded value, bytes */
} ls_shelf_run;

typedef struct ls_shelf ls_shelf;

/* Creates the list; borrows the paths, which need not exist yet. */
ls_status ls_shelf_create(const char *const *paths, int count, ls_shelf **out);
void ls_shelf_destroy(ls_shelf *shelf);
/* Looks for new runs, and reads what known runs recorded since. */
ls_status ls_shelf_refresh(ls_shelf *shelf);
int ls_shelf_count(const ls_shelf *shelf);
/* Lists at most `most` runs that pass the query's filter, in its order; returns how many. They belong to the shelf. */
int ls_shelf_list(const ls_shelf *shelf, const ls_live_query *query, const ls_shelf_run **list, int most);
const ls_shelf_run *ls_shelf_at(const ls_shelf *shelf, int i);

/* Returns a cheap hash of everything that a page shows: sizes and times of the runs' files, and what the workers of the
 * last page do. While it stays the same, the page does. */
uint64_t ls_shelf_state(const ls_shelf *shelf);
/* Fills the page with the runs that the query names or, if it names none, the run that changed last. */
ls_status ls_shelf_page(ls_shelf *shelf, const ls_live_query *query, ls_page *page);
/* Print HTML: the table of the runs with links, and the controls for axes and smoothing. */
void ls_shelf_put_table(const ls_shelf *shelf, const ls_live_query *query, FILE *out);
void ls_shelf_put_choices(const ls_live_query *query, FILE *out);
/* Prints the figures of all runs as OpenMetrics, or in the text format 0.0.4 of Prometheus. */
void ls_shelf_put_metrics(const ls_shelf *shelf, bool is_prometheus, FILE *out);

#endif
