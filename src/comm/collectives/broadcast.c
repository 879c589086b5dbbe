/* broadcast.c: copies the root's buffer to all members.
 *
 * Between machines the data follows a binomial tree: the root's machine is number 0, machine m receives from m without
 * its highest bit and sends to m + 2^k. On each machine one member (the root, or the first) holds the data in shared
 * memory, and the others copy it from there. Bytes: (M−1)·n between machines, ⌈log2 M⌉ deep; one copy per member.
 *
 *     5 machines    0→1    0→2 1→3    0→4 */
#include "comm/collectives/prepare.h"

enum { EXPOSE, RECEIVE, RECEIVE_WAIT, SEND, SEND_WAIT, WAIT_READERS, READ };

/* Returns the member of a machine that has the data first. */
static int find_holder(const ls_comm *comm, int root, int machine) {
    return machine == comm->machine_of[root] ? root : comm->machine_ranks[comm->machine_first[machine]];
}

/* Returns the machine with this number in the tree of machines, in which the root's machine is number 0. */
static int machine_at(const ls_comm *comm, int root, size_t number) {
    return (int)(((size_t)comm->machine_of[root] + number) % (size_t)comm->machines);
}

/* Returns the largest power of two that is not above `number` ≥ 1. */
static size_t highest_bit(size_t number) {
    size_t bit = 1;
    while (bit * 2 <= number) bit *= 2;
    return bit;
}

/* Starts to send the data to the machines below machine number `mine` in the tree. */
static ls_status send_on(ls_request *r, size_t mine) {
    ls_comm *comm = r->comm;
    for (size_t bit = mine ? 2 * highest_bit(mine) : 1; mine + bit < (size_t)comm->machines; bit *= 2) {
        int to = find_holder(comm, r->peer, machine_at(comm, r->peer, mine + bit));
        LS_TRY(ls_request_net_send(r, LS_NET_COLLECTIVE, to, ls_request_net_tag(r, 0), r->out, r->bytes));
    }
    return LS_OK;
}

/* Returns the bytes on slow links of a reader: the root sends to one member after the other, beginning with its next
 * neighbour, so a reader waits for its turn. */
static ls_wire_load broadcast_load(const ls_request *r) {
    const ls_comm *comm = r->comm;
    int turn = (comm->rank - r->peer + comm->size) % comm->size;
    return (ls_wire_load){.in_bytes = (double)r->bytes, .most_bytes = (double)r->bytes * (double)turn};
}

/* Runs the phase that r->phase names and sets the next; LS_REQUEST_WAITS: to be called again. The holder of a machine
 * sends on and waits for its readers; the others only run READ. */
static ls_status step_broadcast(ls_request *r) {
    ls_comm *comm = r->comm;
    int keeper = find_holder(comm, r->peer, comm->machine);
    size_t mine = (size_t)((comm->machine - comm->machine_of[r->peer] + comm->machines) % comm->machines);
    switch (r->phase) {
    case EXPOSE:
        if (comm->rank != keeper) {
            r->phase = READ;
            break;
        }
        LS_TRY(ls_request_share_out(r, r->bytes, comm->rank == r->peer));
        r->phase = mine ? RECEIVE : SEND;
        break;
    case RECEIVE: {
        int from = find_holder(comm, r->peer, machine_at(comm, r->peer, mine - highest_bit(mine)));
        LS_TRY(ls_request_net_recv(r, LS_NET_COLLECTIVE, from, ls_request_net_tag(r, 0), r->out, r->bytes));
        r->phase = RECEIVE_WAIT;
        break;
    }
    case RECEIVE_WAIT:
        LS_TRY(ls_request_net_await(r));
        r->phase = SEND;
        break;
    case SEND:
        LS_TRY(send_on(r, mine));
        if (comm->control) ls_comm_slot(comm, r, comm->local)->out = ls_comm_offset(comm, r->out);
        (void)ls_wire_send(comm->world, (uint64_t)r->bytes * (uint64_t)(comm->local_size - 1));
        ls_request_publish(r, 1);
        r->phase = SEND_WAIT;
        break;
    case SEND_WAIT:
        LS_TRY(ls_request_net_await(r));
        r->phase = WAIT_READERS;
        break;
    case WAIT_READERS:
        LS_TRY(ls_request_await_all(r, 1));
        LS_TRY(ls_request_check_peers(r));
        if (comm->rank == r->peer) r->user_out = NULL;
        return ls_request_complete(r);
    case READ: {
        int local = 0;
        while (ls_comm_local_rank(comm, local) != keeper) local++;
        LS_TRY(ls_request_await(r, local, 1));
        const ls_slot *slot = ls_comm_slot(comm, r, local);
        LS_TRY(ls_request_check_peer(r, local));
        if (!ls_wire_arrived(r, 1, local, broadcast_load)) return LS_REQUEST_WAITS;
        r->ready_ns = ls_wire_published_ns(r, 1, local);
        ls_world_copy(comm->world, r->out, ls_segment_at(&comm->world->segment, slot->out), r->bytes,
                      r->bytes >= LS_STREAM_BYTES);
        ls_request_publish(r, 1);
        return ls_request_complete(r);
    }
    }
    return LS_OK;
}

/* Starts a broadcast of the root's buffer to all members; ls_request_wait() ends it. LS_ERR_INPUT: no such root. */
ls_status ls_comm_broadcast_start(ls_comm *comm, int root, void *buffer, size_t bytes, ls_request **out) {
    ls_request *r;
    *out = NULL;
    if (root < 0 || root >= comm->size)
        return ls_fail(LS_ERR_INPUT, "broadcast from rank %d: the communicator has ranks 0 to %d", root,
                       comm->size - 1);
    LS_TRY(ls_request_make(comm, LS_TRAFFIC_BROADCAST, step_broadcast, &r));
    r->fingerprint = ls_fingerprint(2, (uint64_t)root, bytes, 0);
    r->peer = root;
    r->out = buffer;
    r->bytes = bytes;
    if (comm->rank == root) r->traffic_bytes = (uint64_t)(comm->size - 1) * bytes;
    return ls_request_launch(r, out);
}

/* Copies `bytes` bytes of the root's buffer to the buffers of all members. */
ls_status ls_comm_broadcast(ls_comm *comm, int root, void *buffer, size_t bytes) {
    ls_request *r;
    LS_TRY(ls_comm_broadcast_start(comm, root, buffer, bytes, &r));
    return ls_request_wait(r);
}
