/* request.h: parses requests to the live page (the page of `lockstep watch`): Accept header, query string, and the
 * parts that a browser already has. Pure functions over untrusted text; the server (cli/watch) calls them. */
#ifndef LS_REPORT_LIVE_REQUEST_H
#define LS_REPORT_LIVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/live/address.h"
#include "report/run/page.h"

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* Returns the quality that an Accept header gives `type` ("text/plain"), from 0 (not accepted) to 1. NULL, no header,
 * accepts anything: 1. */
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

/* What the page is asked to show. */
typedef struct ls_live_query {
    uint64_t run[LS_RUN_PAGE_RUNS_MAX]; /* ids of the runs to show; none: the one that changed last */
    int runs;
    ls_view_x x;
    int smooth; /* index of ls_view_halves */
    bool x_log, y_log;
    ls_live_sort sort;
    bool falls;      /* the largest first */
    char filter[64]; /* part of a name; "": all */
} ls_live_query;

/* Initializes the query of a page without a query string: steps, little smoothing, runs that changed last first. */
void ls_live_query_init(ls_live_query *query);
/* Sets one pair of a query string; unknown keys, invalid values and a NULL value have no effect. */
void ls_live_query_set(ls_live_query *query, const char *key, const char *value);
/* Writes the query as in a link ("run=…&x=step"), cut to the room; safe in HTML, because it only has letters, digits
 * and "=&%.-_". */
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
/* Returns whether the browser has this part. */
bool ls_live_has_has(const ls_live_has *has, uint64_t part);
/* Adds a part; beyond LS_LIVE_PARTS_MAX it has no effect. */
void ls_live_has_add(ls_live_has *has, uint64_t part);
/* Returns whether both hold the same hashes (of name and contents of each part) in the same order. */
bool ls_live_has_same(const ls_live_has *a, const ls_live_has *b);
/* Parses an event id; an invalid one, or NULL, gives an empty list. */
void ls_live_has_read(const char *text, ls_live_has *out);
/* Writes the event id, which ls_live_has_read() parses. */
void ls_live_has_text(const ls_live_has *has, char out[LS_LIVE_HAS_TEXT_MAX]);

/* Returns the id of a run in links: a hash of its folder's path as the server knows it. */
uint64_t ls_live_run_id(const char *folder);

#endif
