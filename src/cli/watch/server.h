/* server.h: the live page over HTTP (libmicrohttpd): a process of its own that reads folders of runs and changes
 * nothing.
 *
 * 1. GET and HEAD alone; no request changes anything.
 * 2. One thread. At most 64 connections, of which 32 may be streams; headers of at most 16 KiB, which must be there ten
 *    seconds after the connection began.
 * 3. A local address answers only to requests whose Host is local, so that no foreign page can lead a browser here; any
 *    other address only to those who have the token. Requests that other pages make are refused.
 * 4. What is sent loads nothing from elsewhere, and a policy says so to the browser.
 *
 *     /            the page, readable without JavaScript       /events   what changes in it, as server-sent events
 *     /live.js     replaces the sections that changed          /metrics  OpenMetrics
 *     /style.css
 */
#ifndef LS_CLI_WATCH_SERVER_H
#define LS_CLI_WATCH_SERVER_H

#include "report/live/shelf.h"

/* Serves until a signal ends it. `told` is called once with the link. */
ls_status ls_watch_serve(ls_shelf *shelf, const ls_live_address *address, bool any_port,
                         void (*told)(const char *link));

#endif
