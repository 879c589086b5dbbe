/* address.h: the address of the live page, and which requests it accepts. Pure functions over untrusted text. */
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

/* Parses "8080" (local), "127.0.0.1:8080", "[::1]:8080" or "box:8080". Fails with LS_ERR_INPUT. */
ls_status ls_live_address_read(const char *text, ls_live_address *out);
/* Returns whether the Host header names the address that the page was started with, which defeats DNS rebinding. Always
 * true for an address that is not local, which is protected by its token instead. */
bool ls_live_host_is_own(const ls_live_address *own, const char *host);
/* Returns whether the Origin header is that of the page; true also for NULL, a request without one. */
bool ls_live_origin_is_own(const char *origin, const char *host);

/* Compares tokens in a time that does not depend on where they differ. */
bool ls_live_token_is(const char *token, const char *given);
/* Compares the token with the cookie "lockstep" of a Cookie header likewise. */
bool ls_live_cookie_has(const char *header, const char *token);

#endif
