/* places.c: counts connections, and chooses the one to evict. */
#include "report/live/places.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

uint64_t ls_place_address(const struct sockaddr *address) {
    uint64_t half;
    uint32_t whole;
    if (address && address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)address;
        return v4->sin_addr.s_addr;
    }
    if (!address || address->sa_family != AF_INET6) return 0;
    const struct sockaddr_in6 *v6 = (const void *)address;
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        memcpy(&whole, v6->sin6_addr.s6_addr + 12, sizeof whole);
        return whole;
    }
    memcpy(&half, v6->sin6_addr.s6_addr, sizeof half);
    return ~half; /* not one of IPv4: addresses that begin with zeros are few */
}

/* Returns the place of a connection, or for NULL a free place; NULL if there is none. */
static ls_place *find_place(ls_places *p, const void *connection) {
    for (int i = 0; i <= LS_PLACES_MAX; i++)
        if (p->of[i].connection == connection) return &p->of[i];
    return NULL;
}

void ls_places_take(ls_places *p, void *connection, uint64_t address, double now_s) {
    ls_place *place = find_place(p, NULL);
    if (place) *place = (ls_place){.connection = connection, .address = address, .since_s = now_s};
}

void ls_places_leave(ls_places *p, const void *connection) {
    ls_place *place = find_place(p, connection);
    if (place) *place = (ls_place){.connection = NULL};
}

void ls_places_asked(ls_places *p, const void *connection, double now_s) {
    ls_place *place = find_place(p, connection);
    if (!place || place->is_busy) return;
    place->has_asked = place->is_busy = true;
    place->since_s = now_s;
}

void ls_places_known(ls_places *p, const void *connection) {
    ls_place *place = find_place(p, connection);
    if (place) place->is_known = true;
}

void ls_places_streams(ls_places *p, const void *connection) {
    ls_place *place = find_place(p, connection);
    if (place) place->is_stream = true;
}

void ls_places_answered(ls_places *p, const void *connection, double now_s) {
    ls_place *place = find_place(p, connection);
    if (!place) return;
    place->is_busy = place->is_stream = false;
    place->since_s = now_s;
}

/* A set of connections. */
typedef struct group {
    bool strangers;          /* only those that have not shown the token */
    const uint64_t *address; /* only those of this address; NULL: of all */
} group;

/* Returns whether the place belongs to the group; a free one or one that is being evicted does not. */
static bool is_in(const ls_place *place, group g) {
    if (!place->connection || place->is_ending) return false;
    if (g.strangers && place->is_known) return false;
    return !g.address || *g.address == place->address;
}

/* Returns the number of connections in the group. */
static int count_group(const ls_places *p, group g) {
    int count = 0;
    for (int i = 0; i <= LS_PLACES_MAX; i++) count += is_in(&p->of[i], g);
    return count;
}

/* Returns whether the connection may be evicted: no stream, and not busy for less than LS_PLACES_ANSWER_S. */
static bool may_end(const ls_place *place, double now_s) {
    return !place->is_stream && (!place->is_busy || now_s - place->since_s > LS_PLACES_ANSWER_S);
}

/* Returns the connection of the group that may be evicted and has been idle for longest; NULL: none. */
static ls_place *find_idle(ls_places *p, group g, double now_s) {
    ls_place *idle = NULL;
    for (int i = 0; i <= LS_PLACES_MAX; i++) {
        ls_place *place = &p->of[i];
        if (is_in(place, g) && may_end(place, now_s) && (!idle || place->since_s < idle->since_s)) idle = place;
    }
    return idle;
}

/* Returns a connection that has sent no whole request in time (rule 1); NULL: none. */
static ls_place *find_slow(ls_places *p, double now_s) {
    for (int i = 0; i <= LS_PLACES_MAX; i++) {
        ls_place *place = &p->of[i];
        if (is_in(place, (group){.strangers = false}) && !place->has_asked &&
            now_s - place->since_s >= LS_PLACES_HEADER_S)
            return place;
    }
    return NULL;
}

/* Returns the connection to evict if the group has more than `most`; NULL: it has not, or none may be evicted. */
static ls_place *find_excess(ls_places *p, group g, int most, double now_s) {
    return count_group(p, g) > most ? find_idle(p, g, now_s) : NULL;
}

void *ls_places_end_one(ls_places *p, double now_s) {
    ls_place *place = find_slow(p, now_s);
    if (!place) place = find_excess(p, (group){.strangers = true}, LS_PLACES_STRANGERS, now_s);
    for (int i = 0; i <= LS_PLACES_MAX && !place; i++)
        if (p->of[i].connection)
            place = find_excess(p, (group){.address = &p->of[i].address}, LS_PLACES_ADDRESS, now_s);
    if (!place) place = find_excess(p, (group){.strangers = false}, LS_PLACES_MAX - LS_PLACES_FREE, now_s);
    if (!place) return NULL;
    place->is_ending = true;
    return place->connection;
}
