/* server.c: the HTTP server of the live page: requests, streams of server-sent events, limits. One thread runs all of
 * it, in turns with libmicrohttpd's callbacks. */
#include "cli/watch/server.h"

#ifdef LS_HAVE_MICROHTTPD

#    include <arpa/inet.h>
#    include <errno.h>
#    include <jansson.h>
#    include <microhttpd.h>
#    include <netdb.h>
#    include <poll.h>
#    include <signal.h>
#    include <stdlib.h>
#    include <string.h>
#    include <sys/random.h>
#    include <sys/socket.h>
#    include <time.h>
#    include <unistd.h>

#    include "base/clock.h"
#    include "base/log.h"
#    include "cli/watch/assets.h"
#    include "report/live/places.h"

enum { STREAMS_MAX = 32, HEADER_BYTES_MAX = 16 << 10, IDLE_S = 20, PORTS_TRIED = 100 };
/* Seconds between updates of a stream, at least and at most; after PING_S without one it sends a comment, which keeps
 * the connection open. */
static const double LEAST_S = 1, MOST_S = 20, PING_S = 15;
/* The server spends at most this share of a core on each open page, so that it does not slow down the run. */
static const double SHARE = 0.001;

/* Name of the table as a part of the page; no section's name has a blank. */
static const char TABLE[] = "the table";

static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                             "form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/* A page that is open. */
typedef struct stream {
    struct MHD_Connection *connection;
    bool is_used, is_suspended; /* is_suspended: there is nothing to send, and libmicrohttpd does not ask */
    ls_live_query query;
    ls_live_has has; /* what the browser has of the page, */
    uint64_t state;  /* as the runs were then (ls_shelf_state) */
    char *text;      /* to be sent */
    size_t bytes, sent;
    double next_s, spoke_s; /* when to look for news next; when it last sent anything */
    bool first;             /* nothing has been sent yet */
} stream;

typedef struct server {
    ls_shelf *shelf;
    ls_live_address address;
    char token[LS_LIVE_TOKEN_MAX]; /* "": none is needed */
    stream streams[STREAMS_MAX];
    ls_places places;
    double refreshed_s; /* when the shelf was last refreshed */
} server;

static volatile sig_atomic_t ends;
/* Handles the signals that end the server. */
static void end_it(int signal) {
    (void)signal;
    ends = 1;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* Adds content type, security policy and no-store to a response. */
static void add_headers(struct MHD_Response *r, const char *type) {
    MHD_add_response_header(r, "Content-Type", type);
    MHD_add_response_header(r, "Content-Security-Policy", policy);
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(r, "X-Frame-Options", "DENY");
    MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    MHD_add_response_header(r, "Cross-Origin-Opener-Policy", "same-origin");
    MHD_add_response_header(r, "Cache-Control", "no-store");
}

/* Sends `text` as the answer and frees it, also on failure, unless it is constant. An error status closes the
 * connection, so that a refused client keeps no place. */
static enum MHD_Result answer(struct MHD_Connection *c, unsigned code, const char *type, char *text, size_t bytes,
                              bool constant) {
    struct MHD_Response *r =
        MHD_create_response_from_buffer(bytes, text, constant ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_FREE);
    if (!r) {
        if (!constant) free(text);
        return MHD_NO;
    }
    add_headers(r, type);
    /* A client that was refused keeps no place. */
    if (code >= MHD_HTTP_BAD_REQUEST) MHD_add_response_header(r, "Connection", "close");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(r, "Allow", "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(c, code, r);
    MHD_destroy_response(r);
    return result;
}

/* Sends an error status with a line of plain text that says why. */
static enum MHD_Result refuse_request(struct MHD_Connection *c, unsigned code, const char *why) {
    char *text = strdup(why);
    return text ? answer(c, code, "text/plain; charset=utf-8", text, strlen(text), false) : MHD_NO;
}

/* Sends a static text. */
static enum MHD_Result answer_constant(struct MHD_Connection *c, const char *type, const char *text) {
    union {
        const char *from;
        char *to;
    } of = {text};
    return answer(c, MHD_HTTP_OK, type, of.to, strlen(text), true);
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

/* Sets one pair of the query string. A callback of libmicrohttpd; ctx is the ls_live_query. */
static enum MHD_Result take_pair(void *ctx, enum MHD_ValueKind kind, const char *key, const char *value) {
    (void)kind;
    ls_live_query_set(ctx, key, value);
    return MHD_YES;
}

/* Parses the request's query string; what it does not set keeps its default. */
static void read_query(struct MHD_Connection *c, ls_live_query *out) {
    ls_live_query_init(out);
    MHD_get_connection_values(c, MHD_GET_ARGUMENT_KIND, take_pair, out);
}

/* Reads what the runs have recorded since, at most twice a second; a failure is only a warning. */
static void refresh(server *s) {
    double now = ls_clock_seconds();
    if (now - s->refreshed_s < LEAST_S / 2) return;
    if (ls_shelf_refresh(s->shelf) != LS_OK) ls_log_warn("%s", ls_status_message());
    s->refreshed_s = ls_clock_seconds();
}

/* Makes section `i` as HTML, which the caller frees, and its id; returns false if out of memory. */
static bool make_section(const ls_page *page, int i, char id[LS_PAGE_ID_MAX], char **text, size_t *bytes) {
    FILE *out = open_memstream(text, bytes);
    if (!out) return false;
    ls_page_put_section(page, i, id, out);
    if (fclose(out) == 0) return true;
    free(*text);
    *text = NULL;
    return false;
}

/* Makes the table of the runs as HTML; returns false if there are fewer than two runs, or on failure. The caller frees
 * *text in any case. */
static bool make_table(const server *s, const ls_live_query *query, char **text, size_t *bytes) {
    *text = NULL;
    if (ls_shelf_count(s->shelf) < 2) return false;
    FILE *out = open_memstream(text, bytes);
    if (!out) return false;
    ls_shelf_put_table(s->shelf, query, out);
    return fclose(out) == 0;
}

/* Writes all sections as HTML and adds the hash of each to `has`; leaves out a section for which memory is lacking. */
static void put_sections(const ls_page *page, ls_live_has *has, FILE *out) {
    for (int i = 0; i < ls_page_sections(page); i++) {
        char *text = NULL, id[LS_PAGE_ID_MAX];
        size_t bytes = 0;
        if (!make_section(page, i, id, &text, &bytes)) continue;
        fprintf(out, "<section id=\"s-%s\">\n%s</section>\n", id, text);
        ls_live_has_add(has, ls_live_part(id, text, bytes));
        free(text);
    }
}

/* Writes the whole page as HTML, with the hashes of its parts, so that its stream only sends what changes later. */
static ls_status put_page(server *s, const ls_live_query *query, FILE *out) {
    ls_page *page = calloc(1, sizeof *page);
    if (!page) return ls_fail(LS_ERR_RESOURCE, "out of memory for the page");
    ls_status status = ls_shelf_page(s->shelf, query, page);
    if (status == LS_OK) status = ls_page_end(page);
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
          "content=\"width=device-width, initial-scale=1\">\n<title>lockstep</title>\n<link rel=\"stylesheet\" "
          "href=\"/style.css\">\n</head>\n<body>\n<main>\n<div id=\"bar\"><span id=\"state\" role=\"status\"></span>\n",
          out);
    ls_shelf_put_choices(query, out);
    fputs("</div>\n<div id=\"runs\">\n", out);
    char *table = NULL, id[LS_LIVE_HAS_TEXT_MAX];
    size_t bytes = 0;
    bool has_table = make_table(s, query, &table, &bytes);
    if (has_table) fwrite(table, 1, bytes, out);
    fputs("</div>\n<div id=\"page\">\n", out);
    ls_live_has has = {.count = 0};
    if (status == LS_OK) put_sections(page, &has, out);
    if (has_table) ls_live_has_add(&has, ls_live_part(TABLE, table, bytes));
    ls_live_has_text(&has, id);
    fprintf(out, "</div>\n</main>\n<script src=\"/live.js\" data-has=\"%s\"></script>\n</body>\n</html>\n", id);
    free(table);
    ls_page_free(page);
    free(page);
    return status;
}

/* Sends what `put` writes for the request's query, after a refresh; error 500 if it fails. */
static enum MHD_Result answer_text(server *s, struct MHD_Connection *c, const char *type,
                                   ls_status (*put)(server *s, const ls_live_query *query, FILE *out)) {
    ls_live_query query;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return refuse_request(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
    read_query(c, &query);
    refresh(s);
    ls_status status = put(s, &query, out);
    bool whole = fclose(out) == 0;
    if (status == LS_OK && whole) return answer(c, MHD_HTTP_OK, type, text, bytes, false);
    free(text);
    return refuse_request(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "the runs could not be read\n");
}

/* Writes the figures of all runs as OpenMetrics. For answer_text(). */
static ls_status put_openmetrics(server *s, const ls_live_query *query, FILE *out) {
    (void)query;
    ls_shelf_put_metrics(s->shelf, false, out);
    return LS_OK;
}

/* Writes the figures of all runs in Prometheus's older format. For answer_text(). */
static ls_status put_prometheus(server *s, const ls_live_query *query, FILE *out) {
    (void)query;
    ls_shelf_put_metrics(s->shelf, true, out);
    return LS_OK;
}

/* Sends the figures of all runs in OpenMetrics, or in the older Prometheus format if the client prefers that, as simple
 * programs do. */
static enum MHD_Result answer_metrics(server *s, struct MHD_Connection *c) {
    const char *accept = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Accept");
    if (ls_live_accepts(accept, "text/plain") > ls_live_accepts(accept, "application/openmetrics-text"))
        return answer_text(s, c, "text/plain; version=0.0.4; charset=utf-8", put_prometheus);
    return answer_text(s, c, "application/openmetrics-text; version=1.0.0; charset=utf-8", put_openmetrics);
}

/* Writes the style sheet of page, charts and live controls. For answer_text(). */
static ls_status put_style(server *s, const ls_live_query *query, FILE *out) {
    (void)s;
    (void)query;
    fprintf(out, "%s\n%s\n%s", ls_page_style, ls_svg_style, ls_watch_css);
    return LS_OK;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* Adds the id of each section to `order`, its hash to `now`, and [id, HTML] to `sections` unless the browser has it
 * already (`had`). */
static void add_sections(const ls_page *page, const ls_live_has *had, json_t *sections, json_t *order,
                         ls_live_has *now) {
    for (int i = 0; i < ls_page_sections(page); i++) {
        char *text = NULL, id[LS_PAGE_ID_MAX];
        size_t bytes = 0;
        if (!make_section(page, i, id, &text, &bytes)) continue;
        uint64_t part = ls_live_part(id, text, bytes);
        json_array_append_new(order, json_string(id));
        if (!ls_live_has_has(had, part)) json_array_append_new(sections, json_pack("[s, s#]", id, text, bytes));
        ls_live_has_add(now, part);
        free(text);
    }
}

/* Returns the parts of the page that the stream's browser lacks as a new object, and records that it has them; NULL:
 * none, or out of memory. */
static json_t *news_for(server *s, stream *t) {
    ls_page *page = calloc(1, sizeof *page);
    json_t *sections = json_array(), *order = json_array(), *news = NULL;
    ls_live_has now = {.count = 0};
    if (page && ls_shelf_page(s->shelf, &t->query, page) == LS_OK && ls_page_end(page) == LS_OK) {
        add_sections(page, &t->has, sections, order, &now);
        news = json_pack("{s:O, s:O}", "sections", sections, "order", order);
        char *text = NULL;
        size_t bytes = 0;
        if (make_table(s, &t->query, &text, &bytes)) {
            uint64_t part = ls_live_part(TABLE, text, bytes);
            if (!ls_live_has_has(&t->has, part)) json_object_set_new(news, "table", json_stringn(text, bytes));
            ls_live_has_add(&now, part);
        }
        free(text);
        if (ls_live_has_same(&now, &t->has)) {
            json_decref(news);
            news = NULL;
        }
        t->has = now;
    }
    if (page) ls_page_free(page);
    free(page);
    json_decref(sections);
    json_decref(order);
    return news;
}

/* Sets what the stream sends next; takes ownership of the text. What was being sent is dropped. */
static void send_text(stream *t, char *text) {
    free(t->text);
    t->text = text;
    t->bytes = text ? strlen(text) : 0;
    t->sent = 0;
}

/* Returns the CPU time of this process in seconds. */
static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Looks for news if it is time and the last text has been sent, and wakes the stream to send them. Chooses the next
 * time by the CPU time that this took. */
static void update(server *s, stream *t) {
    if (!t->is_used || t->sent < t->bytes) return;
    double now = ls_clock_seconds();
    if (now < t->next_s) return;
    double before = cpu_seconds();
    refresh(s);
    uint64_t state = ls_shelf_state(s->shelf);
    json_t *news = t->first || state != t->state ? news_for(s, t) : NULL;
    t->state = state;
    char *data = news ? json_dumps(news, JSON_COMPACT) : NULL, *text = NULL;
    json_decref(news);
    if (data) {
        char id[LS_LIVE_HAS_TEXT_MAX];
        ls_live_has_text(&t->has, id);
        if (asprintf(&text, "%sid: %s\nevent: page\ndata: %s\n\n", t->first ? "retry: 1000\n" : "", id, data) < 0)
            text = NULL;
        t->first = false;
    } else if (now - t->spoke_s > PING_S || t->first) {
        text = strdup(t->first ? "retry: 1000\n\n" : ": still here\n\n");
        t->first = false;
    }
    free(data);
    if (text) t->spoke_s = now;
    if (text) send_text(t, text);
    double every = (cpu_seconds() - before) / SHARE;
    t->next_s = now + (every < LEAST_S ? LEAST_S : every > MOST_S ? MOST_S : every);
    if (text && t->is_suspended) {
        t->is_suspended = false;
        MHD_resume_connection(t->connection);
    }
}

/* Copies the next bytes of the stream's text to `buffer`; returns how many. Suspends the connection if there are none.
 * A callback of libmicrohttpd. */
static ssize_t send_more(void *ctx, uint64_t position, char *buffer, size_t most) {
    stream *t = ctx;
    (void)position;
    size_t left = t->bytes - t->sent;
    if (left == 0) {
        t->is_suspended = true;
        MHD_suspend_connection(t->connection);
        return 0;
    }
    if (left > most) left = most;
    memcpy(buffer, t->text + t->sent, left);
    t->sent += left;
    return (ssize_t)left;
}

/* Frees the stream when its connection has ended. A callback of libmicrohttpd. */
static void end_stream(void *ctx) {
    stream *t = ctx;
    free(t->text);
    *t = (stream){.is_used = false};
}

/* Starts a stream of server-sent events in a free place; refuses it with 503 if all are used. */
static enum MHD_Result begin_stream(server *s, struct MHD_Connection *c) {
    stream *t = NULL;
    for (int i = 0; i < STREAMS_MAX && !t; i++)
        if (!s->streams[i].is_used) t = &s->streams[i];
    if (!t) return refuse_request(c, MHD_HTTP_SERVICE_UNAVAILABLE, "too many pages are open\n");
    *t = (stream){.connection = c, .is_used = true, .first = true};
    read_query(c, &t->query);
    /* The parts with which the page was loaded or, once the browser has received an event, those as of that event. */
    const char *has = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Last-Event-ID");
    ls_live_has_read(has ? has : MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "has"), &t->has);
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 32 << 10, send_more, t, end_stream);
    if (!r) {
        t->is_used = false;
        return MHD_NO;
    }
    ls_places_streams(&s->places, c);
    add_headers(r, "text/event-stream");
    enum MHD_Result result = MHD_queue_response(c, MHD_HTTP_OK, r);
    MHD_destroy_response(r);
    return result;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* Returns the value of a request header, or NULL. */
static const char *header(struct MHD_Connection *c, const char *name) {
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* Returns whether another site made the request; other sites may only link here. */
static bool is_foreign(struct MHD_Connection *c) {
    const char *site = header(c, "Sec-Fetch-Site"), *mode = header(c, "Sec-Fetch-Mode"), *host = header(c, "Host");
    if (!ls_live_origin_is_own(header(c, "Origin"), host)) return true;
    if (!site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0) return false;
    return !mode || strcmp(mode, "navigate") != 0;
}

/* Answers a link with the right token: sets it as a cookie and redirects to the page, so that the token leaves the
 * address bar. */
static enum MHD_Result let_in(server *s, struct MHD_Connection *c) {
    char cookie[128], *text = strdup("");
    struct MHD_Response *r = text ? MHD_create_response_from_buffer(0, text, MHD_RESPMEM_MUST_FREE) : NULL;
    if (!r) return MHD_NO;
    snprintf(cookie, sizeof cookie, "lockstep=%s; HttpOnly; SameSite=Strict; Path=/", s->token);
    add_headers(r, "text/plain");
    MHD_add_response_header(r, "Set-Cookie", cookie);
    MHD_add_response_header(r, "Location", "/");
    enum MHD_Result result = MHD_queue_response(c, MHD_HTTP_SEE_OTHER, r);
    MHD_destroy_response(r);
    return result;
}

/* Returns whether the request has the token, in the cookie or as Authorization: Bearer, which programs that scrape
 * /metrics send; true if no token is needed. */
static bool has_token(const server *s, struct MHD_Connection *c) {
    const char *bearer = header(c, "Authorization");
    if (!s->token[0]) return true;
    if (bearer && strncmp(bearer, "Bearer ", 7) == 0 && ls_live_token_is(s->token, bearer + 7)) return true;
    return ls_live_cookie_has(header(c, "Cookie"), s->token);
}

/* Answers a request: checks method, Host, origin and token, then selects by path. A callback of libmicrohttpd, which
 * calls it twice for each request. */
static enum MHD_Result handle(void *ctx, struct MHD_Connection *c, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_bytes, void **own) {
    server *s = ctx;
    static int mark;
    (void)version;
    (void)upload;
    ls_places_asked(&s->places, c, ls_clock_seconds());
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        *upload_bytes = 0;
        return refuse_request(c, MHD_HTTP_METHOD_NOT_ALLOWED,
                              "this page is read-only: only GET and HEAD are allowed\n");
    }
    if (!*own) { /* the headers are there; the answer comes with the next call */
        *own = &mark;
        return MHD_YES;
    }
    if (!ls_live_host_is_own(&s->address, header(c, "Host")))
        return refuse_request(c, MHD_HTTP_FORBIDDEN, "this page is served only at the address it was started with\n");
    if (is_foreign(c)) return refuse_request(c, MHD_HTTP_FORBIDDEN, "requests from other sites are refused\n");
    const char *token = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "token");
    if (s->token[0] && token && ls_live_token_is(s->token, token) && strcmp(url, "/") == 0) {
        ls_places_known(&s->places, c);
        return let_in(s, c);
    }
    if (!has_token(s, c)) return refuse_request(c, MHD_HTTP_FORBIDDEN, "open the link that was printed at the start\n");
    ls_places_known(&s->places, c);
    if (strcmp(url, "/") == 0) return answer_text(s, c, "text/html; charset=utf-8", put_page);
    if (strcmp(url, "/events") == 0 && strcmp(method, "GET") == 0) return begin_stream(s, c);
    if (strcmp(url, "/live.js") == 0) return answer_constant(c, "text/javascript; charset=utf-8", ls_watch_js);
    if (strcmp(url, "/style.css") == 0) return answer_text(s, c, "text/css; charset=utf-8", put_style);
    if (strcmp(url, "/metrics") == 0) return answer_metrics(s, c);
    if (strcmp(url, "/favicon.ico") == 0) return answer(c, MHD_HTTP_NO_CONTENT, "image/x-icon", strdup(""), 0, false);
    return refuse_request(c, MHD_HTTP_NOT_FOUND, "there is no such page\n");
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

/* Records in the table of places that a connection begins or has ended. A callback of libmicrohttpd. */
static void note_connection(void *ctx, struct MHD_Connection *c, void **own, enum MHD_ConnectionNotificationCode code) {
    server *s = ctx;
    (void)own;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        ls_places_take(&s->places, c, ls_place_address(info ? info->client_addr : NULL), ls_clock_seconds());
    else
        ls_places_leave(&s->places, c);
}

/* Records that an answer was sent. A callback of libmicrohttpd. */
static void note_answer(void *ctx, struct MHD_Connection *c, void **own, enum MHD_RequestTerminationCode code) {
    server *s = ctx;
    (void)own;
    (void)code;
    ls_places_answered(&s->places, c, ls_clock_seconds());
}

/* Shuts down the connections that the table of places evicts; libmicrohttpd then notices and closes them. */
static void end_connections(server *s) {
    for (struct MHD_Connection *c; (c = ls_places_end_one(&s->places, ls_clock_seconds())) != NULL;) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (info) (void)shutdown(info->connect_fd, SHUT_RDWR);
    }
}

/* Returns a socket that listens at host and port, and its port in *got; −1 with errno set. Port 0: any free one. */
static int listen_at(const char *host, int port, int *got) {
    char service[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *list = NULL;
    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(host, service, &hints, &list) != 0) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    int fd = -1, one = 1, why = EADDRNOTAVAIL;
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        if (fd < 0) continue;
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 128) == 0) break;
        why = errno;
        (void)close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    struct sockaddr_storage own;
    socklen_t length = sizeof own;
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&own, &length) == 0)
        *got = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                               : ((struct sockaddr_in *)&own)->sin_port);
    errno = why;
    return fd;
}

/* Opens the socket at the address's port or, with any_port, at the next free one; sets the address's port to the one it
 * got. */
static ls_status open_socket(server *s, bool any_port, int *fd) {
    int tried = any_port ? PORTS_TRIED : 1, port = s->address.port;
    for (int i = 0; i < tried; i++) {
        *fd = listen_at(s->address.host, port + i, &s->address.port);
        if (*fd >= 0) return LS_OK;
        if (errno != EADDRINUSE) break;
    }
    return ls_fail_errno(LS_ERR_INPUT, "--live: cannot listen at %s, port %d", s->address.host, port);
}

/* Makes a random token of hexadecimal digits. */
static ls_status make_token(char token[LS_LIVE_TOKEN_MAX]) {
    unsigned char random[LS_LIVE_TOKEN_BYTES];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return ls_fail_errno(LS_ERR_RESOURCE, "cannot make a token for the page");
    for (int i = 0; i < LS_LIVE_TOKEN_BYTES; i++) snprintf(token + 2 * i, 3, "%02x", random[i]);
    return LS_OK;
}

/* Calls `told` with the page's link; an address that means all interfaces is replaced by this machine's name. */
static void tell_link(const server *s, void (*told)(const char *link)) {
    char link[LS_LIVE_HOST_MAX + LS_LIVE_TOKEN_MAX + 64], name[LS_LIVE_HOST_MAX];
    const char *host = s->address.host;
    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0) {
        if (gethostname(name, sizeof name) == 0) host = name;
        name[sizeof name - 1] = '\0';
    }
    snprintf(link, sizeof link, strchr(host, ':') ? "http://[%s]:%d/%s%s" : "http://%s:%d/%s%s", host, s->address.port,
             s->token[0] ? "?token=" : "", s->token);
    told(link);
}

/* Serves requests and updates the streams, at least every 0.25 s, until a signal came. */
static void serve(server *s, struct MHD_Daemon *daemon) {
    while (!ends) {
        (void)MHD_run_wait(daemon, 250);
        for (int i = 0; i < STREAMS_MAX; i++) update(s, &s->streams[i]);
        end_connections(s);
    }
    for (int i = 0; i < STREAMS_MAX; i++) /* a suspended connection cannot be ended */
        if (s->streams[i].is_used && s->streams[i].is_suspended) MHD_resume_connection(s->streams[i].connection);
}

ls_status ls_watch_serve(ls_shelf *shelf, const ls_live_address *address, bool any_port,
                         void (*told)(const char *link)) {
    server *s = calloc(1, sizeof *s);
    int fd = -1;
    if (!s) return ls_fail(LS_ERR_RESOURCE, "out of memory for the page");
    s->shelf = shelf;
    s->address = *address;
    s->refreshed_s = -1e9;
    ls_status status = open_socket(s, any_port, &fd);
    if (status == LS_OK && !address->is_local) status = make_token(s->token);
    struct MHD_Daemon *daemon = NULL;
    if (status == LS_OK) {
        daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle, s,
                                  MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)LS_PLACES_MAX,
                                  MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                  (size_t)HEADER_BYTES_MAX, MHD_OPTION_NOTIFY_CONNECTION, note_connection, s,
                                  MHD_OPTION_NOTIFY_COMPLETED, note_answer, s, MHD_OPTION_END);
        if (!daemon) status = ls_fail(LS_ERR_RESOURCE, "cannot serve the page: libmicrohttpd did not start");
    }
    if (status == LS_OK) {
        struct sigaction act = {.sa_handler = end_it};
        (void)sigaction(SIGTERM, &act, NULL);
        (void)sigaction(SIGINT, &act, NULL);
        (void)sigaction(SIGHUP, &act, NULL);
        act.sa_handler = SIG_IGN;
        (void)sigaction(SIGPIPE, &act, NULL);
        tell_link(s, told);
        serve(s, daemon);
        MHD_stop_daemon(daemon);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    free(s);
    return status;
}

#else

ls_status ls_watch_serve(ls_shelf *shelf, const ls_live_address *address, bool any_port,
                         void (*told)(const char *link)) {
    (void)shelf;
    (void)address;
    (void)any_port;
    (void)told;
    return ls_fail(LS_ERR_INPUT,
                   "this program was built without libmicrohttpd: install it (make setup) and build again; "
                   "lockstep report writes the same page as a file");
}

#endif
