/* address.c: parses --live, and checks Host, Origin and token. */
#include "report/live/address.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- addresses --------------------------------------------------------------------------------------------------- */

/* Returns whether the host is one that only this machine can reach. */
static bool is_local(const char *host) {
    return strcmp(host, "127.0.0.1") == 0 || strcmp(host, "::1") == 0 || strcasecmp(host, "localhost") == 0;
}

/* Splits "host:port" at the last colon outside brackets, which it removes; *port: behind the colon, or NULL without
 * one. Returns false if the host is too long or a bracket is not closed. */
static bool split(const char *text, char host[LS_LIVE_HOST_MAX], const char **port) {
    size_t length;
    if (text[0] == '[') {
        const char *end = strchr(text, ']');
        if (!end || (end[1] && end[1] != ':')) return false;
        *port = end[1] ? end + 2 : NULL;
        length = (size_t)(end - text) - 1;
        text++;
    } else {
        const char *colon = strrchr(text, ':');
        *port = colon ? colon + 1 : NULL;
        length = colon ? (size_t)(colon - text) : strlen(text);
    }
    if (length >= LS_LIVE_HOST_MAX) return false;
    memcpy(host, text, length);
    host[length] = '\0';
    return true;
}

/* Returns the port, or −1 if the text is no number up to 65535. */
static int port_of(const char *text) {
    char *end;
    if (!isdigit((unsigned char)*text)) return -1;
    long port = strtol(text, &end, 10);
    return *end == '\0' && port >= 0 && port <= 65535 ? (int)port : -1;
}

ls_status ls_live_address_read(const char *text, ls_live_address *out) {
    const char *port = NULL;
    *out = (ls_live_address){.host = "127.0.0.1", .is_local = true};
    if (strchr(text, ':') || text[0] == '[') {
        if (!split(text, out->host, &port) || !port || !out->host[0]) port = "";
    } else {
        port = text;
    }
    out->port = port_of(port);
    out->is_local = is_local(out->host);
    if (out->port >= 0) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "--live %.80s: must be a port or HOST:PORT, such as 8080 or 0.0.0.0:8080", text);
}

bool ls_live_host_is_own(const ls_live_address *own, const char *given) {
    char host[LS_LIVE_HOST_MAX];
    const char *port;
    if (!given) return false;
    if (!split(given, host, &port)) return false;
    if (!own->is_local) return true;
    return is_local(host) && (port ? port_of(port) == own->port : own->port == 80);
}

bool ls_live_origin_is_own(const char *origin, const char *host) {
    if (!origin) return true;
    return host && strncmp(origin, "http://", 7) == 0 && strcasecmp(origin + 7, host) == 0;
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

/* Returns whether the first `length` bytes of `given` are the token; takes the same time for any difference. */
static bool is_same(const char *token, const char *given, size_t length) {
    size_t wanted = strlen(token);
    unsigned differ = wanted != length;
    for (size_t i = 0; i < wanted; i++) differ |= (unsigned char)token[i] ^ (unsigned char)(i < length ? given[i] : 0);
    return differ == 0;
}

bool ls_live_token_is(const char *token, const char *given) { return given && is_same(token, given, strlen(given)); }

bool ls_live_cookie_has(const char *header, const char *token) {
    static const char name[] = "lockstep=";
    for (const char *at = header; at && *at;) {
        at += strspn(at, " ;");
        size_t length = strcspn(at, ";");
        if (length >= sizeof name - 1 && strncmp(at, name, sizeof name - 1) == 0 &&
            is_same(token, at + sizeof name - 1, length - (sizeof name - 1)))
            return true;
        at += length;
    }
    return false;
}
