/* links.c: opens, watches and closes links, the connections by which devices on different machines send each other
 * tensors. Each member describes the links that it begins on a card, which all members exchange. */
#include "comm/links/links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

/* ---- neighbours -------------------------------------------------------------------------------------------------- */

/* Returns a neighbour in the ring of ranks: way 0 is the next rank, way 1 the previous one. With two members both ways
 * lead to the same rank. */
static int neighbour(const ls_comm *comm, int rank, int way) {
    return (rank + (way ? comm->size - 1 : 1)) % comm->size;
}
/* Returns how many different neighbours a rank has: 0, 1 or 2. */
static int ways(const ls_comm *comm) { return comm->size > 2 ? 2 : comm->size - 1; }

/* Returns whether a rank is on another machine. */
static bool is_far(const ls_comm *comm, int rank) { return comm->machine_of[rank] != comm->machine; }

ls_link *ls_links_to(const ls_device *device, const ls_comm *comm, int rank) {
    for (int way = 0; comm->links && comm->links->device == device && way < ways(comm); way++)
        if (neighbour(comm, comm->rank, way) == rank) return comm->links->out[way];
    return NULL;
}

ls_link *ls_links_from(const ls_device *device, const ls_comm *comm, int rank) {
    for (int way = 0; comm->links && comm->links->device == device && way < ways(comm); way++)
        if (rank >= 0 && rank < comm->size && neighbour(comm, rank, way) == comm->rank) return comm->links->in[way];
    return NULL;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* Returns the deadline of a transfer, in seconds: --timeout. Opening links has half of it, at most 60 s, because
 * members that failed wait for the others in a collective meanwhile. */
static double deadline_s(const ls_comm *comm, const ls_links_move *m) {
    enum { OPENING_S = 60 };
    double most = comm->world->timeout_s;
    if (m->kind != LS_TRAFFIC_KINDS) return most;
    return most / 2 < OPENING_S ? most / 2 : OPENING_S;
}

/* Returns LS_ERR_DEADLINE with a message about the transfer. Records the partner of a message as late; a collective and
 * the opening of links have none. */
static ls_status fail_still(const ls_comm *comm, const ls_links_move *m) {
    char what[96] = "opening links", other[32] = "another of them";
    if (m->number)
        (void)snprintf(what, sizeof what, "%s (collective number %llu)", ls_traffic_kind_name(m->kind),
                       (unsigned long long)m->number);
    else if (m->kind != LS_TRAFFIC_KINDS)
        (void)snprintf(what, sizeof what, "%s", ls_traffic_kind_name(m->kind));
    if (m->peer >= 0 && m->kind != LS_TRAFFIC_KINDS) ls_world_set_late(comm->world, comm->world_rank[m->peer]);
    if (m->peer >= 0) (void)snprintf(other, sizeof other, "worker %d", comm->world_rank[m->peer]);
    return ls_fail(LS_ERR_DEADLINE,
                   "no data moved between GPUs on different machines for %g s in %s: the process or machine of %s, or "
                   "the network, may be down; if it is only slow, raise --timeout",
                   deadline_s(comm, m), what, other);
}

/* Waits until the link's last call has returned and, unless NULL, the event has passed. Sleeps between looks; fails at
 * the transfer's deadline or if another worker failed. */
static ls_status wait_for_link(const ls_comm *comm, ls_device *device, ls_link *link, const ls_links_move *move,
                               const ls_event *event) {
    ls_world *world = comm->world;
    double begin = ls_clock_seconds();
    for (;;) {
        bool settled, passed = true;
        LS_TRY(ls_device_link_settled(device, link, &settled));
        if (settled && event) LS_TRY(ls_device_passed(device, *event, &passed));
        if (settled && passed) return LS_OK;
        LS_TRY(ls_world_check(world));
        if (world->transport->poke) world->transport->poke();
        double waited = ls_clock_seconds() - begin;
        if (waited > deadline_s(comm, move)) return fail_still(comm, move);
        if (waited > 0.002) ls_clock_sleep_us(100);
    }
}

ls_status ls_links_check(const ls_comm *comm) {
    if (comm->links) return LS_OK;
    if (comm->world->failure.cause) return ls_fail(comm->world->failure.cause, "%s", comm->world->failure.text);
    return ls_fail(LS_ERR_PEER, "links between machines were closed after a failure");
}

ls_status ls_links_put(const ls_request *r, ls_link *link, const ls_link_piece *pieces, int count) {
    ls_links *links = r->comm->links;
    ls_links_move move = {.kind = r->kind, .number = r->number, .peer = r->number ? -1 : r->peer};
    LS_TRY(ls_device_record(links->device, &move.begin));
    LS_TRY(ls_device_link_move(links->device, link, pieces, count));
    LS_TRY(wait_for_link(r->comm, links->device, link, &move, NULL));
    LS_TRY(ls_device_record(links->device, &move.end));
    if (!links->first.end.number) links->first = move;
    links->last = move;
    return LS_OK;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* What a worker tells the other members of the parent while links are opened. */
typedef struct card {
    bool good, late;       /* late: it failed because others missed its deadline */
    char why[208];         /* message of a failure */
    ls_link_id all, to[2]; /* by which others join a link that this worker begins */
} card;

/* Closes all links of the communicator, but keeps the struct. */
static void close_links(ls_links *links) {
    ls_device_link_close(links->device, links->all);
    for (int way = 0; way < 2; way++) {
        ls_device_link_close(links->device, links->out[way]);
        ls_device_link_close(links->device, links->in[way]);
        links->out[way] = links->in[way] = NULL;
    }
    links->all = NULL;
}

/* Removes the struct from the world's list and from its communicator, and frees it. */
static void forget_links(ls_links *links) {
    for (ls_links **at = &links->comm->world->links.first; *at; at = &(*at)->next)
        if (*at == links) {
            *at = links->next;
            break;
        }
    links->comm->links = NULL;
    free(links);
}

/* Writes the ids of the links that this worker begins: rank 0 that of all members, each sender that of its way. */
static ls_status write_card(ls_device *device, const ls_comm *comm, unsigned wants, card *mine) {
    if (wants & LS_LINKS_COLLECTIVES && comm->rank == 0) LS_TRY(ls_device_link_id(device, &mine->all));
    for (int way = 0; wants & LS_LINKS_MESSAGES && way < ways(comm); way++)
        if (is_far(comm, neighbour(comm, comm->rank, way))) LS_TRY(ls_device_link_id(device, &mine->to[way]));
    return LS_OK;
}

/* Returns the card of a rank of `comm`; the cards are in order of ranks of `parent`. */
static const card *card_of(const ls_comm *parent, const ls_comm *comm, const card *cards, int rank) {
    int r = 0;
    while (parent->world_rank[r] != comm->world_rank[rank]) r++;
    return &cards[r];
}

/* Starts to open all links of this worker, with the ids on the cards. */
static ls_status open_links(ls_links *links, const ls_comm *parent, unsigned wants, const card *cards) {
    const ls_comm *comm = links->comm;
    ls_device *device = links->device;
    if (wants & LS_LINKS_COLLECTIVES)
        LS_TRY(ls_device_link_open(device, &card_of(parent, comm, cards, 0)->all, comm->rank, comm->size, &links->all));
    for (int way = 0; wants & LS_LINKS_MESSAGES && way < ways(comm); way++) {
        int to = neighbour(comm, comm->rank, way), from = neighbour(comm, comm->rank, 1 - way);
        if (ways(comm) == 1) from = to;
        if (is_far(comm, to)) LS_TRY(ls_device_link_open(device, &cards[parent->rank].to[way], 0, 2, &links->out[way]));
        if (is_far(comm, from))
            LS_TRY(ls_device_link_open(device, &card_of(parent, comm, cards, from)->to[way], 1, 2, &links->in[way]));
    }
    return LS_OK;
}

static const ls_links_move opening = {.kind = LS_TRAFFIC_KINDS, .peer = -1};

/* Waits until the link's last call has returned; no link: LS_OK. */
static ls_status wait_for_opened(const ls_links *links, ls_link *link) {
    return link ? wait_for_link(links->comm, links->device, link, &opening, NULL) : LS_OK;
}

/* Waits until the trial transfer of a link in `queue` has finished; no link: LS_OK. */
static ls_status finish_opened(const ls_links *links, ls_link *link, int queue) {
    if (!link) return LS_OK;
    ls_event event;
    LS_TRY(wait_for_opened(links, link));
    int before = ls_device_use(links->device, queue);
    ls_status status = ls_device_record(links->device, &event);
    (void)ls_device_use(links->device, before);
    return status == LS_OK ? wait_for_link(links->comm, links->device, link, &opening, &event) : status;
}

/* Enqueues a trial transfer in `queue`; no link: LS_OK. */
static ls_status move_opened(const ls_links *links, ls_link *link, int queue, const ls_link_piece *pieces, int count) {
    if (!link) return LS_OK;
    int before = ls_device_use(links->device, queue);
    ls_status status = ls_device_link_move(links->device, link, pieces, count);
    (void)ls_device_use(links->device, before);
    return status;
}

/* Sends a byte between all pairs of members over the common link, and waits for them. */
static ls_status try_all(const ls_links *links, char *bytes) {
    const ls_comm *comm = links->comm;
    ls_link_piece pieces[2 * LS_WORKERS_MAX];
    int count = 0;
    for (int m = 0; m < comm->size; m++) {
        if (m == comm->rank) continue;
        pieces[count++] = (ls_link_piece){bytes, 1, m, true};
        pieces[count++] = (ls_link_piece){bytes + 1 + m, 1, m, false};
    }
    LS_TRY(wait_for_opened(links, links->all));
    LS_TRY(move_opened(links, links->all, comm->queue, pieces, count));
    return finish_opened(links, links->all, comm->queue);
}

/* Tries one direction of the ring; every member sends and receives at the same time. */
static ls_status try_way(const ls_links *links, int way, char *bytes) {
    ls_link *out = links->out[way], *in = links->in[way];
    int queue = links->comm->queue;
    LS_TRY(wait_for_opened(links, out));
    LS_TRY(wait_for_opened(links, in));
    LS_TRY(move_opened(links, out, queue, &(ls_link_piece){bytes, 1, 1, true}, 1));
    LS_TRY(move_opened(links, in, LS_QUEUE_RECEIVE, &(ls_link_piece){bytes + 1, 1, 0, false}, 1));
    LS_TRY(wait_for_opened(links, out));
    LS_TRY(finish_opened(links, in, LS_QUEUE_RECEIVE));
    return finish_opened(links, out, queue);
}

/* Moves a byte over each link, and waits for it; closes the links after an error. The first transfer between two
 * members needs their hosts; later ones do not. */
static ls_status try_links(ls_links *links) {
    void *bytes;
    LS_TRY(ls_device_alloc(links->device, (size_t)links->comm->size + 2, &bytes));
    ls_status status = ls_device_finish(links->device);
    if (status == LS_OK && links->all) status = try_all(links, bytes);
    for (int way = 0; way < 2 && status == LS_OK; way++) status = try_way(links, way, bytes);
    if (status != LS_OK) close_links(links); /* ends transfers that are stuck in a queue before their bytes are freed */
    ls_device_free(links->device, bytes);
    return status;
}

/* Returns the free memory of the device; 0: not known. */
static size_t free_bytes(ls_device *device) {
    ls_device_usage usage = {0};
    return ls_device_has_usage(device) && ls_device_get_usage(device, &usage) == LS_OK ? usage.free : 0;
}

/* Writes onto the card how this worker's last step ended, with the message of a failure. */
static void record_outcome(card *mine, ls_status status) {
    mine->good = status == LS_OK;
    mine->late = status == LS_ERR_DEADLINE;
    if (!mine->good) (void)snprintf(mine->why, sizeof mine->why, "%s", ls_status_message());
}

/* Exchanges the cards over the parent; *good says whether all members succeeded. */
static ls_status gather_cards(ls_comm *parent, const card *mine, card *cards, size_t *sizes, bool *good) {
    for (int r = 0; r < parent->size; r++) sizes[r] = sizeof *cards;
    LS_TRY(ls_comm_all_gather(parent, mine, cards, sizes));
    *good = true;
    for (int r = parent->size - 1; r >= 0; r--) *good = *good && cards[r].good;
    return LS_OK;
}

/* Records that links are refused; rank 0 logs why, by the card of a member that failed, if possible one that was not
 * merely late. */
static void warn_no_links(ls_comm *parent, const card *cards) {
    int r = 0, first = -1;
    for (; r < parent->size && (cards[r].good || cards[r].late); r++)
        if (first < 0 && !cards[r].good) first = r;
    if (r == parent->size) r = first;
    if (!parent->world->links.are_refused && parent->rank == 0)
        ls_log_warn("GPU tensors go from machine to machine through host memory, which is slower: worker %d: %s",
                    parent->world_rank[r], cards[r].why);
    parent->world->links.are_refused = true;
}

/* Opens and tries all links. A member that fails or misses a deadline still takes part in every exchange of cards. If
 * any member fails, all close their links, which is no error. */
static ls_status open_and_try(ls_comm *parent, ls_comm *comm, ls_links *links, unsigned wants, card *cards,
                              size_t *sizes) {
    ls_device *device = parent->world->device;
    card mine = {.good = true};
    bool good;
    if (links) record_outcome(&mine, write_card(device, comm, wants, &mine));
    LS_TRY(gather_cards(parent, &mine, cards, sizes, &good));
    if (good) {
        size_t before = free_bytes(device);
        record_outcome(&mine, links ? open_links(links, parent, wants, cards) : LS_OK);
        LS_TRY(gather_cards(parent, &mine, cards, sizes, &good));
        if (good && links) record_outcome(&mine, try_links(links));
        size_t after = free_bytes(device);
        if (before > after) device->linked_bytes += before - after;
        LS_TRY(gather_cards(parent, &mine, cards, sizes, &good));
    }
    if (links) links->open = good;
    if (good) return LS_OK;
    warn_no_links(parent, cards);
    if (links) close_links(links);
    if (links) forget_links(links);
    return LS_OK;
}

ls_status ls_links_meet(ls_comm *parent, ls_comm *comm, unsigned wants) {
    ls_world *world = parent->world;
    if (world->links.are_refused) return LS_OK; /* all workers know that there are none */
    bool has = comm && comm->machines > 1 && wants;
    ls_links *links = has ? calloc(1, sizeof *links) : NULL;
    ls_region lists = {0};
    card *cards = ls_region_take(&lists, (size_t)parent->size, sizeof *cards);
    size_t *sizes = ls_region_take(&lists, (size_t)parent->size, sizeof *sizes);
    ls_status status = LS_OK;
    if (lists.is_short || (has && !links)) {
        free(links);
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for links");
        goto out;
    }
    if (links) {
        *links = (ls_links){.next = world->links.first, .comm = comm, .device = world->device};
        world->links.first = links;
        comm->links = links;
    }
    LS_TRY_OUT(open_and_try(parent, comm, links, wants, cards, sizes));
out:
    ls_region_free(&lists);
    return status;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

void ls_links_close(ls_comm *comm) {
    if (!comm->links) return;
    close_links(comm->links);
    forget_links(comm->links);
}

void ls_links_leave(ls_world *world) {
    while (world->links.first) ls_links_close(world->links.first->comm);
}

/* ---- watching ---------------------------------------------------------------------------------------------------- */

/* Adds `more_ns` to the running time of the oldest transfer, and fails if it exceeds --timeout. A transfer that has
 * ended is replaced by the newest. */
static ls_status check_move(ls_links *l, uint64_t more_ns) {
    bool passed;
    if (!l->first.end.number) return LS_OK;
    LS_TRY(ls_device_passed(l->device, l->first.end, &passed));
    if (passed) {
        l->first = l->first.end.queue == l->last.end.queue && l->first.end.number == l->last.end.number
                       ? (ls_links_move){0}
                       : l->last;
        l->still_ns = 0;
        return LS_OK;
    }
    LS_TRY(ls_device_passed(l->device, l->first.begin, &passed));
    l->still_ns = passed ? l->still_ns + more_ns : 0;
    return (double)l->still_ns * 1e-9 > l->comm->world->timeout_s ? fail_still(l->comm, &l->first) : LS_OK;
}

/* Returns the error of a link's last call, if it failed. */
static ls_status check_link(ls_device *device, ls_link *link) {
    bool settled;
    return link ? ls_device_link_settled(device, link, &settled) : LS_OK;
}

/* Checks the links and the oldest transfer of one communicator. */
static ls_status check_links(ls_links *l, uint64_t more_ns) {
    LS_TRY(check_link(l->device, l->all));
    for (int way = 0; way < 2; way++) {
        LS_TRY(check_link(l->device, l->out[way]));
        LS_TRY(check_link(l->device, l->in[way]));
    }
    return check_move(l, more_ns);
}

ls_status ls_links_watch(ls_world *world, uint64_t more_ns) {
    ls_status status = LS_OK;
    if (world->failure.failed) ls_links_leave(world); /* ends transfers that are stuck in a queue */
    for (ls_links *l = world->links.first; l && status == LS_OK; l = l->next)
        if (l->open) status = check_links(l, more_ns);
    if (status == LS_OK) return LS_OK;
    ls_world_fail(world, status);
    ls_links_leave(world);
    return status;
}
