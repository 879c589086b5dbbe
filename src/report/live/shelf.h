/* shelf.h: the list of runs of the live page (`lockstep watch PATH…`): runs, and folders that contain runs. The server
 * (cli/watch) refreshes it before each answer and prints pages, the table and metrics from it.
 *
 * For the table only the end of each run's metrics is read, again when they have changed; runs that a page shows have a
 * view with all their steps (report/run/view.h). A run that cannot be read is left out, without failing. One thread at
 * a time. */
#ifndef LS_REPORT_LIVE_SHELF_H
#define LS_REPORT_LIVE_SHELF_H

#include <sys/types.h>

#include "report/live/request.h"

typedef struct ls_shelf_run {
    ls_path folder;
    char name[LS_RUN_NAME_MAX];
    uint64_t id;             /* ls_live_run_id() */
    bool is_there;           /* its folder was found in the last search; false: deleted or moved */
    off_t bytes;             /* of metrics.jsonl when its end was read; −1: not yet */
    struct timespec changed; /* when that file was changed */
    ls_view_facts facts;     /* of the last records alone, so means and sums over all steps are not those of the run */
    double loss, lr, norm;   /* of training, of the last step; NaN: not known */
    double memory, gpu_memory; /* last recorded value, bytes; NaN: not known */
} ls_shelf_run;

typedef struct ls_shelf ls_shelf;

/* Creates the list, empty until the first refresh; borrows the paths, which need not exist yet and must outlive it. */
ls_status ls_shelf_create(const char *const *paths, int count, ls_shelf **out);
/* Frees the list, and closes the runs that it has open; NULL has no effect. */
void ls_shelf_destroy(ls_shelf *shelf);
/* Looks for new runs, at most every 3 s, and reads the end of runs that have changed since. Fails only for lack of
 * memory. */
ls_status ls_shelf_refresh(ls_shelf *shelf);
/* Returns the number of runs that were ever found, also of those that are no longer there. */
int ls_shelf_count(const ls_shelf *shelf);
/* Lists the runs that are there and pass the query's filter, in its order (if memory is short, in that of finding);
 * returns how many. If there are more than `most`, it lists the first `most` that were found. They belong to the shelf
 * and are valid until the next refresh. */
int ls_shelf_list(const ls_shelf *shelf, const ls_live_query *query, const ls_shelf_run **list, int most);
/* Returns run i of ls_shelf_count(), valid until the next refresh. */
const ls_shelf_run *ls_shelf_at(const ls_shelf *shelf, int i);

/* Returns a cheap hash of everything that a page shows: sizes and times of the runs' files, and what the workers of the
 * last page do. While it stays the same, the page does not change. */
uint64_t ls_shelf_state(const ls_shelf *shelf);
/* Adds to the page the sections of the runs that the query names or, if it names none that is there, of the run that
 * changed last; without any run it says so. The caller ends the page. */
ls_status ls_shelf_page(ls_shelf *shelf, const ls_live_query *query, ls_page *page);
/* Prints the table of the runs as HTML, sorted and filtered as the query says, with links; at most 2,000 rows. */
void ls_shelf_put_table(const ls_shelf *shelf, const ls_live_query *query, FILE *out);
/* Prints the form for axes, smoothing and filter as HTML. */
void ls_shelf_put_choices(const ls_live_query *query, FILE *out);
/* Prints the figures of all runs as OpenMetrics, or in the text format 0.0.4 of Prometheus. */
void ls_shelf_put_metrics(const ls_shelf *shelf, bool is_prometheus, FILE *out);

#endif
