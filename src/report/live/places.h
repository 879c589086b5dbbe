/* places.h: the table of the live page's connections, which decides which one to evict so that new clients get a place.
 * The server (cli/watch) records what happens to each connection and shuts down those that the table evicts.
 *
 * 1. A connection that has sent no whole request within LS_PLACES_HEADER_S seconds is evicted, even if it sends bytes.
 * 2. At most LS_PLACES_STRANGERS places are for clients that have not shown the token.
 * 3. At most LS_PLACES_ADDRESS places are for one network address.
 * 4. LS_PLACES_FREE places stay free, so that there is always one for a new connection.
 *
 * The victim is the connection that has been idle for longest. A client with keep-alive connects again, so it loses
 * nothing. Streams are never evicted, and an answer in progress only after LS_PLACES_ANSWER_S seconds. A table of zeros
 * is empty; times are seconds of one monotonic clock, passed by the caller. */
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
    double since_s;   /* since when it has been idle, busy or a stream */
    /* Has sent a whole request; has shown the token, or none is needed; is being answered; by a stream; was evicted. */
    bool has_asked, is_known, is_busy, is_stream, is_ending;
} ls_place;

typedef struct ls_places {
    ls_place of[LS_PLACES_MAX + 1];
} ls_places;

/* Returns a number for the client's address: the IPv4 address, or the first half of the IPv6 address, which is one
 * subscriber; 0: neither. */
uint64_t ls_place_address(const struct sockaddr *address);

/* Records that a connection begins; ignored if the table is full. */
void ls_places_take(ls_places *places, void *connection, uint64_t address, double now_s);
/* Records that a connection has ended, and frees its place; an unknown one is ignored. */
void ls_places_leave(ls_places *places, const void *connection);
/* Records that a request came, so the connection is busy until it is answered. */
void ls_places_asked(ls_places *places, const void *connection, double now_s);
/* Records that the connection has shown the token, or that none is needed. */
void ls_places_known(ls_places *places, const void *connection);
/* Records that the answer in progress is a stream, which is never evicted. */
void ls_places_streams(ls_places *places, const void *connection);
/* Records that the answer, or the stream, has ended, so the connection is idle. */
void ls_places_answered(ls_places *places, const void *connection, double now_s);

/* Returns the next connection to evict and marks it, so that no later call returns it; NULL: none. The caller shuts it
 * down and passes it to ls_places_leave() when it has ended. */
void *ls_places_end_one(ls_places *places, double now_s);

#endif
