/* request.h: parses requests to the live page. Pure functions over untrusted text. */
#ifndef LS_REPORT_LIVE_REQUEST_H
#define LS_REPORT_LIVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/live/address.h"
#include "report/run/page.h"

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* How much the header Accept wants `type` ("text/plain"): 0 (not at all) to 1. NULL: it takes anything. */
double ls_live_accepts(const char *accept, const char *type);

/* ---- what is to be shown ----------------------------------------------------------------------------------------- */

typedef enum ls_live_sort {
    LS_LIVE_BY_NAME,
    LS_LIVE_BY_STATE,
    LS_LIVE_BY_STEP,
    LS_LIVE_BY_LOSS,
    LS_LIVE_BY_VALIDATION,
    LS_LIVE_BY_SPEED,
    LS_LIVE_BY_CHANGE,
    LS_LIVE_SORTS
} ls_live_sort;
extern const char *const ls_live_sort_names[LS_LIVE_SORTS];

typedef struct ls_live_query {
    uint64_t run[LS_RUN_PAGE_RUNS_MAX]; /* ids of the runs to show */
    int runs;
    ls_view_x x;
    int smooth;
    bool x_log, y_log;
    ls_live_sort sort;
    bool falls;      /* the largest first */
    char filter[64]; /* part of a name; "": all */
} ls_live_query;

void ls_live_query_init(ls_live_query *query);
/* One pair of a query; what is not known or not a value has no effect. `value` may be NULL. */
void ls_live_query_set(ls_live_query *query, const char *key, const char *value);
/* The query as text, as a link has it ("run=…&x=step"), HTML-safe: letters, digits, "=&%.-_" alone. */
void ls_live_query_text(const ls_live_query *query, char *out, size_t room);

/* ---- what a page has --------------------------------------------------------------------------------------------- */

/* The parts of a page, its sections and its table, each as the hash of its name and its text. As text this is the id of
 * an event: a browser that was away sends it back (Last-Event-ID), and is told what is not in it, and nothing else.
 * Since it names what the page shows, it holds over a restart of the server, and over one of the run: of steps that
 * were done again the page drops what is no longer so. */
enum { LS_LIVE_PARTS_MAX = 64, LS_LIVE_HAS_TEXT_MAX = 17 * LS_LIVE_PARTS_MAX + 1 };
typedef struct ls_live_has {
    uint64_t part[LS_LIVE_PARTS_MAX];
    int count;
} ls_live_has;

uint64_t ls_live_part(const char *name, const char *text, size_t bytes);
bool ls_live_has_has(const ls_live_has *has, uint64_t part);
void ls_live_has_add(ls_live_has *has, uint64_t part);
/* In the same order. */
bool ls_live_has_same(const ls_live_has *a, const ls_live_has *b);
/* A text that is no such id is as good as none; NULL as well. */
void ls_live_has_read(const char *text, ls_live_has *out);
void ls_live_has_text(const ls_live_has *has, char out[LS_LIVE_HAS_TEXT_MAX]);

/* The name of a folder as a number. */
uint64_t ls_live_run_id(const char *folder);

#endif
