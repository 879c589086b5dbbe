/* address.h: the address at which the live page (`lockstep watch`, `train --live`) is served, and which requests it
 * accepts by their headers. Pure functions over untrusted text; the server (cli/watch) calls them. */
#ifndef LS_REPORT_LIVE_ADDRESS_H
#define LS_REPORT_LIVE_ADDRESS_H

#include <stdbool.h>

#include "base/status.h"

enum { LS_LIVE_HOST_MAX = 256, LS_LIVE_TOKEN_BYTES = 16, LS_LIVE_TOKEN_MAX = 2 * LS_LIVE_TOKEN_BYTES + 1 };

typedef struct ls_live_address {
    char host[LS_LIVE_HOST_MAX]; /* without brackets */
    int port;                    /* 0: any that is free */
    bool is_local;               /* 127.0.0.1, ::1 or localhost: unreachable from other machines */
} ls_live_address;

/* Parses the value of --live: "8080" (local), "127.0.0.1:8080", "[::1]:8080" or "box:8080". Fails with LS_ERR_INPUT. */
ls_status ls_live_address_read(const char *text, ls_live_address *out);
/* Returns whether the Host header names a local host with the port of the page's own, local address, which defeats DNS
 * rebinding. If that address is not local, any well-formed header is accepted, because the token protects it. NULL, a
 * request without the header: false. */
bool ls_live_host_is_own(const ls_live_address *own, const char *host);
/* Returns whether the Origin header is that of the page itself, http:// and the Host header `host`; true also for NULL,
 * a request without one. */
bool ls_live_origin_is_own(const char *origin, const char *host);

/* Returns whether `given` is the token, in a time that does not depend on where they differ. given NULL: false. */
bool ls_live_token_is(const char *token, const char *given);
/* Returns whether a Cookie header (NULL: none) has the token as the cookie "lockstep", compared in the same way. */
bool ls_live_cookie_has(const char *header, const char *token);

#endif
