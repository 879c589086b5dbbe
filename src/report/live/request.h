/* request.h: parses requests to the live page. Pure functions over untrusted text. */
#ifndef LS_REPORT_LIVE_REQUEST_H
#define LS_REPORT_LIVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/live/address.h"
#include "report/run/page.h"

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* Returns the quality that an Accept header gives `type` ("text/plain"): 0 (refused) to 1. NULL accepts anything. */
double ls_live_accepts(const char *accept, const char *type);

/* ---- the query string -------------------------------------------------------------------------------------------- */

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
/* Sets one pair of a query string; unknown keys and invalid values have no effect. `value` may be NULL. */
void ls_live_query_set(ls_live_query *query, const char *key, const char *value);
/* Prints the query as in a link ("run=…&x=step"); safe in HTML, because it only has letters, digits and "=&%.-_". */
void ls_live_query_text(const ls_live_query *query, char *out, size_t room);

/* ---- parts that a browser has ------------------------------------------------------------------------------------ */

/* Hashes of the parts of a page that a browser shows: sections and table, each hashed with its name. As text it is the
 * id of a server-sent event: a browser that reconnects sends it back (Last-Event-ID) and receives only the parts that
 * are not in it. It depends on the contents only, so it stays valid when the server or the run is restarted. */
enum { LS_LIVE_PARTS_MAX = 64, LS_LIVE_HAS_TEXT_MAX = 17 * LS_LIVE_PARTS_MAX + 1 };
typedef struct ls_live_has {
    uint64_t part[LS_LIVE_PARTS_MAX];
    int count;
} ls_live_has;

/* Returns the hash of a part with its name and text. */
uint64_t ls_live_part(const char *name, const char *text, size_t bytes);
bool ls_live_has_has(const ls_live_has *has, uint64_t part);
/* Adds a part; beyond LS_LIVE_PARTS_MAX it has no effect. */
void ls_live_has_add(ls_live_has *has, uint64_t part);
/* Returns whether both have the same parts in the same order. */
bool ls_live_has_same(const ls_live_has *a, const ls_live_has *b);
/* Parses an event id; an invalid one, or NULL, gives an empty list. */
void ls_live_has_read(const char *text, ls_live_has *out);
void ls_live_has_text(const ls_live_has *has, char out[LS_LIVE_HAS_TEXT_MAX]);

/* Returns the id of a run: a hash of its folder's name. */
uint64_t ls_live_run_id(const char *folder);

#endif
