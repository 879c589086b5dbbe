/* server.h: serves the live page over HTTP (libmicrohttpd) for `lockstep watch`, a process that only reads folders of
 * runs; `train --live` starts that process too.
 *
 * 1. Only GET and HEAD are allowed; no request changes anything.
 * 2. One thread. At most 64 connections, of which 32 may be streams; headers of at most 16 KiB, which must arrive
 *    within ten seconds.
 * 3. A local address answers only to requests whose Host header is local, so that no foreign page can lead a browser
 *    here (DNS rebinding); any other address requires the token, a random text in the link. Requests from other sites
 * are refused.
 * 4. Pages load nothing from other hosts; a content security policy enforces it.
 *
 *     /            the page, readable without JavaScript       /events   what changes in it, as server-sent events
 *     /live.js     replaces the sections that changed          /metrics  OpenMetrics
 *     /style.css
 */
#ifndef LS_CLI_WATCH_SERVER_H
#define LS_CLI_WATCH_SERVER_H

#include "report/live/shelf.h"

/* Serves until SIGINT, SIGTERM or SIGHUP, which is success. Calls `told` once, when the socket listens, with the link
 * for a browser (with the token). any_port: if the port is taken, tries the following ones. The caller keeps and
 * destroys the shelf, the list of runs to show. LS_ERR_INPUT if it cannot listen there, or in a build without
 * libmicrohttpd. */
ls_status ls_watch_serve(ls_shelf *shelf, const ls_live_address *address, bool any_port,
                         void (*told)(const char *link));

#endif
