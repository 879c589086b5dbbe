/* places.h: the places of the live page's connections, and which connection is ended so that others get one.
 *
 * 1. A connection that has sent no whole request within LS_PLACES_HEADER_S is ended, however busily it sends bytes.
 * 2. At most LS_PLACES_STRANGERS are of clients that have not shown the token; the other places are for those that
 * have.
 * 3. At most LS_PLACES_ADDRESS are of one address.
 * 4. A few places stay free, so that there is always one for a new connection.
 *
 * Where one has to go, it is the one that has been idle for longest: no request, or none since its last answer. A
 * client with keep-alive connects again, so nothing is lost with it. Streams are never ended, and answers not while
 * they are sent in time. */
#ifndef LS_REPORT_LIVE_PLACES_H
#define LS_REPORT_LIVE_PLACES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    LS_PLACES_MAX = 64,
    LS_PLACES_FREE = 8,
    LS_PLACES_STRANGERS = 32,
    LS_PLACES_ADDRESS = 40,
    LS_PLACES_HEADER_S = 10,
    LS_PLACES_ANSWER_S = 20
};

typedef struct ls_place {
    void *connection; /* NULL: the place is free */
    uint64_t address; /* ls_place_address() */
    double since_s;   /* it is idle, or busy, or a stream */
    bool has_asked, is_known, is_busy, is_stream, is_ending;
} ls_place;

typedef struct ls_places {
    ls_place of[LS_PLACES_MAX + 1];
} ls_places;

/* One number for each address that one client may have: an IPv4 address, or the first half of an IPv6 address. */
uint64_t ls_place_address(const struct sockaddr *address);

void ls_places_take(ls_places *places, void *connection, uint64_t address, double now_s);
void ls_places_leave(ls_places *places, const void *connection);
/* What happened to a connection: a request came; it had the token, or none is needed; its answer is a stream; the
 * answer was sent. */
void ls_places_asked(ls_places *places, const void *connection, double now_s);
void ls_places_known(ls_places *places, const void *connection);
void ls_places_streams(ls_places *places, const void *connection);
void ls_places_answered(ls_places *places, const void *connection, double now_s);

/* The next connection to end, which then counts no more; NULL: all may stay. */
void *ls_places_end_one(ls_places *places, double now_s);

#endif
